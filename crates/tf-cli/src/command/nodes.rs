//! `kubectl tf nodes`.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::LogParams};
use tf_agent_api::host::PREFLIGHT;
use tf_api::kinds::VROUTER;

use super::{Output, Scope};
use crate::{
    cluster,
    nodes::{self, Row},
};

#[derive(Args)]
pub struct Options {
    /// All that is known of these nodes; without them a table of all
    nodes: Vec<String>,
    #[command(flatten)]
    scope: Scope,
    /// Text for people or JSON for programs
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// End with code 1 unless the agent of each node serves and nothing stands in the way
    #[arg(long)]
    check: bool,
}

/// Prints what nodes of vRouters have. 1 unless all are well, where that is asked for.
pub async fn run(options: &Options) -> Result<ExitCode> {
    let (client, namespace) = options.scope.connect().await?;
    let namespace = namespace.as_deref();
    let mut rows = nodes::rows(&cluster::pods(&client, namespace, Some(VROUTER.operator)).await?);
    if !options.nodes.is_empty() {
        rows.retain(|row| options.nodes.contains(&row.node));
        if let Some(other) = options.nodes.iter().find(|node| rows.iter().all(|row| row.node != **node)) {
            bail!("no Vrouter has a pod for node {other}; kubectl tf nodes -A lists the nodes that have one");
        }
    }
    match options.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Output::Text if options.nodes.is_empty() => print!("{}", nodes::text(&rows, Timestamp::now())),
        Output::Text => {
            for row in &rows {
                println!("{}\n{}", row.node, report(&client, row).await?);
            }
        }
    }
    let is_well = !rows.is_empty() && rows.iter().all(Row::is_well);
    Ok(ExitCode::from(u8::from(options.check && !is_well)))
}

/// All that the pod printed of its node, and why its agent does not serve.
async fn report(client: &Client, row: &Row) -> Result<String> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &row.namespace);
    let of = LogParams { container: Some(PREFLIGHT.into()), ..LogParams::default() };
    let printed = match api.logs(&row.pod, &of).await {
        Ok(printed) => printed,
        Err(kube::Error::Api(status)) => {
            format!("the log of its pod {} could not be read: {}\n", row.pod, status.message)
        }
        Err(error) => return Err(error).context("asking the API server"),
    };
    let cause = row.cause.as_ref().map(|cause| format!("agent: {cause}\n")).unwrap_or_default();
    Ok(cause + &printed)
}
