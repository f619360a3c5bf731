//! One cluster: brought up, left alone, joined by a node, filled with what is not ours.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use futures::future::try_join_all;
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;
use tf_api::kinds;
use tf_testing::{
    Entry, Lab, Options,
    operators::{self, Install, Operator, Run},
    resources,
    wait::eventually,
    waiting,
    work::{self, Work},
};

use super::{Bringup, foreign, join};
use crate::build::Built;

/// Where the cluster is.
pub const NAMESPACE: &str = "tf";

/// Longer than any bring-up on simulated nodes takes.
const LIMIT: Duration = Duration::from_mins(10);

/// What an operator still writes after Ready belongs to the bring-up: it has this long.
pub const SETTLE: Duration = Duration::from_secs(5);

/// From so many nodes on their leases are renewed rarely, which leaves the machine to what is measured.
const MANY: u32 = 100;

/// What was measured on one cluster.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// When the manifest was applied.
    pub at: Timestamp,
    /// Simulated control-plane nodes.
    pub control_plane: u32,
    /// Simulated workers.
    pub workers: u32,
    /// Seconds from the manifest applied to the Manager Ready.
    pub ready: f64,
    /// How much of it Kubernetes had our workloads in its hands.
    pub workloads: waiting::Waiting,
    /// What each operator did and used.
    pub operators: BTreeMap<&'static str, Used>,
    /// What a joining control-plane node led to.
    pub joined: Option<join::Joined>,
    /// How many Secrets and Pods of strangers were added at the end.
    pub foreign: u32,
}

/// What one operator did and used.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Used {
    /// Requests from the manifest applied to [`SETTLE`] after Ready.
    pub bringup: Work,
    /// Requests a minute in the idle window.
    pub idle_requests: f64,
    /// Those of them that change something other than the operator's lease.
    pub idle_writes: f64,
    /// Renewals of the operator's lease a minute in the idle window.
    pub idle_renewals: f64,
    /// CPU seconds of the bring-up.
    pub cpu: f64,
    /// Most resident memory of the bring-up, in bytes.
    pub peak: u64,
    /// Resident memory at the end of the idle window, in bytes.
    pub idle: u64,
    /// Resident memory with the objects of strangers, in bytes.
    pub with_foreign: Option<u64>,
}

/// Measures one cluster.
pub async fn measure(options: &Bringup, workers: u32, manifest: &str, binaries: &Built) -> Result<Figures> {
    println!("--- {} + {workers} nodes", options.control_plane);
    let mut lab = Options::fleet(options.control_plane, workers);
    if workers > MANY {
        lab.node_lease_seconds = 200;
    }
    let lab = Lab::start(lab).await?;
    let client = lab.client().await?;
    let install = Install::default();
    try_join_all(operators::ALL.map(|operator| lab.install(operator, NAMESPACE, &install))).await?;
    let how = Run { binaries: Some(binaries.folder().to_owned()), ..Run::default() };
    let running = try_join_all(operators::ALL.map(|operator| lab.operate(operator, NAMESPACE, &how))).await?;
    try_join_all(running.iter().map(Operator::ready)).await?;

    let cpu: Vec<Duration> = running.iter().map(cpu).collect();
    let mark = lab.audit_mark().await?;
    let (at, begun) = (Timestamp::now(), Instant::now());
    lab.apply(manifest).await?;
    until_ready(&client).await?;
    let ready = begun.elapsed();
    println!("Ready after {:.1} s; waiting {} s for what follows", ready.as_secs_f64(), SETTLE.as_secs());
    tokio::time::sleep(SETTLE).await;
    let settled = lab.audit_mark().await?;
    let entries = lab.audit().window(mark, settled)?;
    let mut used: BTreeMap<&'static str, Used> = BTreeMap::new();
    for (operator, before) in running.iter().zip(cpu) {
        used.insert(
            operator.name,
            Used {
                bringup: work::of(&entries, &operator.user),
                cpu: self::cpu(operator).saturating_sub(before).as_secs_f64(),
                peak: operator.process.identity().peak_rss().unwrap_or_default(),
                ..Used::default()
            },
        );
    }

    println!("measuring {} s of silence", options.idle);
    tokio::time::sleep(Duration::from_secs(options.idle.into())).await;
    let end = lab.audit_mark().await?;
    let idle = lab.audit().window(settled, end)?;
    let per_minute = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX)) * 60.0 / f64::from(options.idle);
    for operator in &running {
        let work = work::of(&idle, &operator.user);
        let used = used.entry(operator.name).or_default();
        used.idle_requests = per_minute(work.requests);
        used.idle_writes = per_minute(work.writes);
        used.idle_renewals = per_minute(work.lease_writes);
        used.idle = resident(operator);
    }

    let joined = if options.no_join { None } else { Some(join::measure(&lab, &client, &running).await?) };
    if options.foreign > 0 {
        foreign::add(&client, options.foreign).await?;
        for operator in &running {
            used.entry(operator.name).or_default().with_foreign = Some(resident(operator));
        }
    }
    let workloads = kubernetes_at_work(&entries, &running, at, ready);
    let (control_plane, foreign) = (options.control_plane, options.foreign);
    Ok(Figures { at, control_plane, workers, ready: ready.as_secs_f64(), workloads, operators: used, joined, foreign })
}

/// Waits until there is a Manager and it is Ready. Looks twenty times a second.
pub async fn until_ready(client: &Client) -> Result<()> {
    let managers = resources::api(client, kinds::MANAGER, NAMESPACE);
    let name = eventually("a Manager", LIMIT, async || {
        let list = managers.list(&kube::api::ListParams::default()).await?;
        Ok(list.items.into_iter().find_map(|manager| manager.metadata.name))
    })
    .await?;
    let begun = Instant::now();
    loop {
        let found = resources::get(client, kinds::MANAGER, NAMESPACE, &name).await?;
        if found.as_ref().is_some_and(resources::Resource::is_ready) {
            return Ok(());
        }
        if begun.elapsed() > LIMIT {
            let states = found.as_ref().map(resources::conditions).unwrap_or_default();
            anyhow::bail!("the Manager was not Ready after {} s:\n{states}", LIMIT.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn kubernetes_at_work(entries: &[Entry], running: &[Operator], at: Timestamp, ready: Duration) -> waiting::Waiting {
    let users: Vec<&str> = running.iter().map(|operator| operator.user.as_str()).collect();
    let until = at.checked_add(ready).unwrap_or(Timestamp::MAX);
    waiting::waiting(entries, &users, NAMESPACE, until)
}

fn cpu(operator: &Operator) -> Duration {
    operator.process.usage().map_or(Duration::ZERO, |usage| usage.cpu)
}

fn resident(operator: &Operator) -> u64 {
    operator.process.usage().map_or(0, |usage| usage.rss_bytes)
}
