//! What a store does when nobody does anything: its operator writes nothing and asks for nothing that is not allowed, and its agents take little.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::Client;
use serde_json::{Value, json};
use tf_testing::Lab;
use tf_testing::audit::count_by_user;
use tf_testing::identity::{Identity, Usage};
use tf_testing::resources::{self, Resource};

use crate::store::{BRING_UP, NAMESPACE, Server, Store, processes};

/// How long nothing may happen, and how long before that what has begun may take to end.
const SILENCE: Duration = Duration::from_mins(2);
const SETTLED: Duration = Duration::from_secs(15);
/// Requests of the operator and of each agent, a minute: renewals of a lease and of watches.
pub const REQUESTS: u64 = 10;
/// Resident memory of an agent in KiB, code included, and its share of a processor.
const RESIDENT: u64 = 8 * 1024;
const BUSY: f64 = 0.01;
/// Brings up three members of a store and looks at what happens afterwards.
pub async fn is_silent(store: &Store, lab: &Lab, client: &Client) -> Result<()> {
    is_silent_once(store, json!({}), REQUESTS, Resource::is_ready, lab, client).await
}

/// The same by this spec, with so many requests of the operator a minute at most, from when nothing of a bring-up is left to do.
pub async fn is_silent_once(
    store: &Store,
    spec: Value,
    requests: u64,
    is_done: impl Fn(&Resource) -> bool,
    lab: &Lab,
    client: &Client,
) -> Result<()> {
    let begun = lab.audit_mark().await?;
    resources::apply(client, store.kind, NAMESPACE, store.name, spec).await?;
    store.certified(client).await?;
    store.until(client, "done with its bring-up", BRING_UP, is_done).await?;
    tokio::time::sleep(SETTLED).await;
    let agents = processes(lab, Server::named("tf-node"))?.concat();
    let before: Vec<Usage> = agents.iter().filter_map(Identity::usage).collect();
    let rest = lab.audit_mark().await?;
    tokio::time::sleep(SILENCE).await;
    let end = lab.audit_mark().await?;
    let after: Vec<Usage> = agents.iter().filter_map(Identity::usage).collect();
    ensure!(before.len() == agents.len() && after.len() == agents.len(), "an agent has ended");
    for (before, after) in before.iter().zip(&after) {
        let share = after.cpu.saturating_sub(before.cpu).as_secs_f64() / SILENCE.as_secs_f64();
        let (resident, own) = (after.rss_bytes / 1024, after.anonymous_bytes / 1024);
        println!("an agent: {resident} KiB resident, {own} KiB its own, {:.2} % of a processor", 100.0 * share);
        ensure!(resident <= RESIDENT && share < BUSY, "an agent: {after:?}, {share}");
    }

    let ours = format!("system:serviceaccount:{NAMESPACE}:");
    let counts = count_by_user(&lab.audit().window(rest, end)?);
    let counts: Vec<_> = counts.into_iter().filter(|(user, _)| user.starts_with(&ours)).collect();
    ensure!(counts.iter().any(|(_, count)| count.lease_writes > 0), "no lease was renewed: {counts:?}");
    for (user, count) in &counts {
        ensure!(count.writes() == 0, "{user} wrote though nothing had changed: {count:?}");
        ensure!(count.total < requests * SILENCE.as_secs() / 60, "{user}: {count:?}");
    }
    let is_refused = |entry: &&tf_testing::Entry| entry.user.starts_with(&ours) && entry.code == 403;
    let entries = lab.audit().window(begun, end)?;
    let refused: Vec<_> = entries.iter().filter(is_refused).map(|entry| (&entry.user, &entry.uri)).collect();
    ensure!(refused.is_empty(), "{refused:?}");
    println!("{counts:?}");
    Ok(())
}
