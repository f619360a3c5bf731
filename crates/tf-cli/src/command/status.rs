//! `kubectl tf status`.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::Args;
use futures::StreamExt as _;

use super::{Output, Scope};
use crate::{
    cluster::{self, Found},
    status::{self, Daemons},
};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    scope: Scope,
    /// Text for people or JSON for programs
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Tell of every daemon, and not of those alone that do not serve everywhere or lack a connection
    #[arg(long)]
    daemons: bool,
    /// Go on, and show every change
    #[arg(short, long)]
    watch: bool,
    /// End with code 1 unless everything is Ready
    #[arg(long, conflicts_with = "watch")]
    check: bool,
}

/// Tells the status. 1 unless everything is Ready, where that is asked for.
pub async fn tell(options: &Options) -> Result<ExitCode> {
    let (client, namespace) = options.scope.connect().await?;
    let namespace = namespace.as_deref();
    if options.watch {
        let mut changes = std::pin::pin!(cluster::watch(&client, namespace));
        let mut last = String::new();
        while let Some(found) = changes.next().await {
            let text = show(&found, options)?;
            if text != last {
                print(&text, true)?;
                remark(&found, options);
                last = text;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let found = cluster::read(&client, namespace).await?;
    print(&show(&found, options)?, false)?;
    remark(&found, options);
    // What could not be read is not known to be Ready.
    let is_known = found.notes.is_empty() && !found.resources.is_empty();
    let is_ready = is_known && status::trees(&found.resources).iter().all(status::Node::is_ready);
    Ok(ExitCode::from(u8::from(options.check && !is_ready)))
}

fn show(found: &Found, options: &Options) -> Result<String> {
    let trees = status::trees(&found.resources);
    let daemons = if options.daemons { Daemons::All } else { Daemons::Unwell };
    Ok(match options.output {
        Output::Text => status::text(&trees, &found.notes, daemons),
        Output::Json => serde_json::to_string_pretty(&trees)? + "\n",
    })
}

/// Tells people what could not be read where programs read the rest.
fn remark(found: &Found, options: &Options) {
    if options.output == Output::Json {
        found.notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
}

/// Prints; on a terminal over what was printed before, if it goes on.
fn print(text: &str, goes_on: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if goes_on && out.is_terminal() {
        write!(out, "\x1b[2J\x1b[H")?;
    }
    write!(out, "{text}")?;
    out.flush().context("writing")
}
