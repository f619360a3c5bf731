//! The command line (`tf_agent_api::node` is what pods say).

use std::{ffi::OsString, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use lexopt::prelude::{Long, Short, Value, ValueExt as _};
use serde_json::json;

use crate::{
    VERSION, drain, host, install, log,
    paths::Paths,
    pause, probe, reload,
    store::redis::{copy, step_down},
    supervise,
};

const HELP: &str = "\
tf-node: runs the daemons of Tungsten Fabric in their pods

  tf-node run DAEMON                      run a daemon with its mounted configuration
  tf-node probe [--alive] DAEMON          exit code 0 when it serves (or lives)
  tf-node drain DAEMON                    take it out of service before it is stopped
  tf-node reload DAEMON                   have its server read its certificates anew
  tf-node copy DAEMON CONFIG              become its Redis server, as a copy of the one that takes writes
  tf-node step-down DAEMON                have another Redis server take writes in its place
  tf-node install DIR [--own DIR]... [--offer DIR]...
                                          copy this program into DIR, give directories to the daemons' user; offered ones if possible
  tf-node place FROM TO                   copy an executable over another one
  tf-node host show|apply|remove|virtual-functions|forward
                                          what this node is for the vRouter, and vhost0 in the place of its interface (host --help)
  tf-node pause                           sleep and reap processes
  tf-node --version
";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Command {
    Run(String),
    Probe(String, probe::Question),
    Drain(String),
    Reload(String),
    Copy { daemon: String, config: String },
    StepDown(String),
    Install { directory: String, own: Vec<String>, offer: Vec<String> },
    Place { from: String, to: String },
    Host(host::Command),
    InRoot(Vec<OsString>),
    WithParent(Vec<OsString>),
    Pause,
    Help,
    Version,
}

/// Does what the arguments ask for.
pub fn main() -> ExitCode {
    let result = parse(std::env::args_os().skip(1)).and_then(|(paths, command)| execute(paths, command));
    result.unwrap_or_else(|error| {
        log::warn("failed", &json!({"error": format!("{error:#}")}));
        ExitCode::from(2)
    })
}

fn execute(paths: Paths, command: Command) -> Result<ExitCode> {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    match command {
        Command::Run(daemon) => runtime()?.block_on(supervise::run(paths, &daemon)),
        Command::Probe(daemon, question) => runtime()?.block_on(probe::answer(&paths, &daemon, question)),
        Command::Drain(daemon) => runtime()?.block_on(drain::drain(&paths, &daemon)),
        Command::Reload(daemon) => runtime()?.block_on(reload::reload(&paths, &daemon)),
        Command::Copy { daemon, config } => runtime()?.block_on(copy::copy(&paths, &daemon, &config)),
        Command::StepDown(daemon) => runtime()?.block_on(step_down::command(&paths, &daemon)),
        Command::Pause => runtime()?.block_on(pause::pause()),
        Command::Install { directory, own, offer } => {
            install::install(&paths, &directory, &own, &offer).map(|()| ExitCode::SUCCESS)
        }
        Command::Place { from, to } => install::place(&paths, &from, &to).map(|()| ExitCode::SUCCESS),
        Command::Host(command) => host::execute(&paths, command),
        Command::InRoot(words) => host::programs::in_root(&words),
        Command::WithParent(words) => host::forward::with_parent(&words),
        Command::Help => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        Command::Version => {
            println!("tf-node {VERSION}");
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn parse(arguments: impl Iterator<Item = OsString>) -> Result<(Paths, Command)> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let (mut paths, mut values, mut own, mut offer) = (Paths::default(), Vec::new(), Vec::new(), Vec::new());
    let mut question = probe::Question::Ready;
    while let Some(argument) = parser.next()? {
        match argument {
            // Its options are its own.
            Value(value) if values.is_empty() && value == "host" => {
                let command = host::parse(&mut parser, &mut paths)?;
                return Ok((paths, Command::Host(command)));
            }
            Value(value) if values.is_empty() && value == host::programs::IN_ROOT => {
                return Ok((paths, Command::InRoot(parser.raw_args()?.collect())));
            }
            Value(value) if values.is_empty() && value == host::forward::WITH_PARENT => {
                return Ok((paths, Command::WithParent(parser.raw_args()?.collect())));
            }
            Value(value) => values.push(value.string()?),
            Long("own") => own.push(parser.value()?.string()?),
            Long("offer") => offer.push(parser.value()?.string()?),
            Long("alive") => question = probe::Question::Alive,
            // For tests: the root that every path is below.
            Long("root") => paths = Paths::below(parser.value()?),
            Long("help") | Short('h') => return Ok((paths, Command::Help)),
            Long("version") | Short('V') => return Ok((paths, Command::Version)),
            other => return Err(other.unexpected().into()),
        }
    }
    let mut values = values.into_iter();
    let name = values.next().context("no command; see tf-node --help")?;
    let mut next = |what: &str| values.next().with_context(|| format!("{name}: {what} is missing"));
    let daemon = |name: String| {
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if is_name { Ok(name) } else { bail!("not the name of a daemon") }
    };
    let command = match name.as_str() {
        "run" => Command::Run(daemon(next("DAEMON")?)?),
        "probe" => Command::Probe(daemon(next("DAEMON")?)?, question),
        "drain" => Command::Drain(daemon(next("DAEMON")?)?),
        "reload" => Command::Reload(daemon(next("DAEMON")?)?),
        "copy" => Command::Copy { daemon: daemon(next("DAEMON")?)?, config: next("CONFIG")? },
        "step-down" => Command::StepDown(daemon(next("DAEMON")?)?),
        "install" => {
            let (own, offer) = (std::mem::take(&mut own), std::mem::take(&mut offer));
            Command::Install { directory: next("DIR")?, own, offer }
        }
        "place" => Command::Place { from: next("FROM")?, to: next("TO")? },
        "pause" => Command::Pause,
        _ => bail!("no such command; see tf-node --help"),
    };
    let is_probe = matches!(command, Command::Probe(..));
    if values.next().is_some()
        || !own.is_empty()
        || !offer.is_empty()
        || (question == probe::Question::Alive && !is_probe)
    {
        bail!("{name}: too many arguments");
    }
    Ok((paths, command))
}

#[cfg(test)]
mod tests {
    use tf_agent_api::node;

    use super::*;

    fn parsed(arguments: &[String]) -> Result<Command> {
        parse(arguments.iter().map(OsString::from)).map(|(_, command)| command)
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_pods_say_is_understood() {
        let argument = |command: Vec<String>| parsed(&command[1..]).unwrap();
        assert_eq!(argument(node::run("api")), Command::Run("api".into()));
        assert_eq!(argument(words("tf-node probe api")), Command::Probe("api".into(), probe::Question::Ready));
        assert_eq!(argument(node::drain("api")), Command::Drain("api".into()));
        assert_eq!(argument(node::reload("api")), Command::Reload("api".into()));
        assert_eq!(argument(node::place("/a", "/b")), Command::Place { from: "/a".into(), to: "/b".into() });
        let copy = Command::Copy { daemon: "api".into(), config: "/a".into() };
        assert_eq!(argument(node::copy("api", "/a")), copy);
        assert_eq!(argument(node::step_down("api")), Command::StepDown("api".into()));
        let install = Command::Install { directory: node::INSTALL_DIR.into(), own: words("/a /b"), offer: words("/c") };
        assert_eq!(argument(node::install(&words("/a /b"), &words("/c"))), install);
    }

    #[test]
    fn a_node_is_asked_about_with_options_of_its_own() {
        let host = |line: &str| parsed(&words(line)).map(|command| matches!(command, Command::Host(_)));
        assert!(host("--root /x host show --json").unwrap());
        assert!(host("host show --jsn").is_err());
        assert!(parsed(&words("run a --json")).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "",
            "run",
            "run a b",
            "run ../a",
            "copy a",
            "copy ../a /b",
            "fly",
            "place a",
            "run a --own b",
            "pause --alive",
            "run --fast a",
        ] {
            assert!(parsed(&words(line)).is_err(), "{line}");
        }
    }
}
