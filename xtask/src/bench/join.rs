//! A control-plane node joins: which of the pods that were there are replaced?

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde::Serialize;
use tf_testing::{Lab, nodes::Role, operators::Operator, wait::eventually};

use super::bringup::{NAMESPACE, until_ready};

/// How long the operators have to be silent before the join counts as over.
const QUIET: Duration = Duration::from_secs(10);

/// Longer than a join takes.
const LIMIT: Duration = Duration::from_mins(3);

/// What a joining control-plane node led to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Joined {
    /// Seconds from the node registered to the last write of an operator.
    pub seconds: f64,
    /// Pods there were before.
    pub before: usize,
    /// Those of them that are gone: replaced, restarted in place by their controller, or deleted.
    pub replaced: usize,
    /// Pods there are in addition.
    pub added: usize,
    /// Mutating requests of all operators, leases left out.
    pub writes: u64,
}

/// Adds a control-plane node and waits until nothing happens any more.
pub async fn measure(lab: &Lab, client: &Client, running: &[Operator]) -> Result<Joined> {
    let users: BTreeSet<&str> = running.iter().map(|operator| operator.user.as_str()).collect();
    let before = pods(client).await?;
    let mark = lab.audit_mark().await?;
    let begun = Instant::now();
    let names = lab.nodes().await?.add(Role::ControlPlane, 1).await?;
    println!("{} joins", names.join(", "));

    let (mut writes, mut last) = (0, begun);
    eventually("the operators to be done with the joining node", LIMIT, async || {
        let (entries, _) = lab.audit().entries_since(mark)?;
        let of_interest = |entry: &&tf_testing::Entry| {
            users.contains(entry.user.as_str()) && entry.counts() && entry.is_mutating() && !entry.is_lease()
        };
        let count = entries.iter().filter(of_interest).count() as u64;
        if count != writes {
            (writes, last) = (count, Instant::now());
        }
        Ok((last.elapsed() > QUIET).then_some(()))
    })
    .await?;
    until_ready(client).await?;
    let after = pods(client).await?;
    Ok(Joined {
        seconds: (last - begun).as_secs_f64(),
        before: before.len(),
        replaced: before.difference(&after).count(),
        added: after.difference(&before).count(),
        writes,
    })
}

/// The uids of all pods of the cluster.
async fn pods(client: &Client) -> Result<BTreeSet<String>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    Ok(pods.list(&ListParams::default()).await?.iter().filter_map(ResourceExt::uid).collect())
}
