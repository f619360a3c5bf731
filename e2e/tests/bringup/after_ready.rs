//! The example becomes Ready, once; after that the operators do nothing but keep their leases.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use serde_json::Value;
use tf_api::kinds;
use tf_testing::{
    Cluster, Lab, Options,
    audit::count_by_user,
    resources::{self, Resource},
};

use crate::support::{
    Chronicle, FLEET, became_ready_once, each_pod_started_once, explain, lines, manifest, settled, writes,
};

/// How long nothing may happen.
const SILENCE: Duration = Duration::from_mins(3);

/// Requests of an idle operator in all, a minute.
const REQUESTS: u64 = 10;

/// Renewals of its lease, a minute.
const RENEWALS: u64 = 6;

/// The one long test: it begins first, by its name, and the others run beside it.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_becomes_ready_once_and_then_nobody_writes_for_three_minutes() -> Result<()> {
    // Kept up for the tests beside this one, so that they do not each start it.
    let _warm = FLEET.get().await?;
    let lab = Arc::new(Lab::start(Options::fleet(3, 3)).await?);
    let cluster = Cluster::start(&lab, "tf").await?;
    let mut chronicle = Chronicle::begin(&cluster.client, "tf", Chronicle::everything()).await?;
    cluster.apply_object(&manifest("examples/manager.yaml")?).await?;
    cluster.manager_ready("sdn").await?;

    let begin = settled(&cluster, Duration::from_secs(3)).await?;
    let resources = resources::all(&cluster.client, "tf").await?;
    ensure!(resources.len() == 7 && resources.iter().all(Resource::is_ready), "{}", explain(&resources));
    let pods = each_pod_started_once(&chronicle.versions()?)?;
    ensure!(pods == 5 * 3 + 6, "five services on three nodes and six agents, but {pods} pods");

    tokio::time::sleep(SILENCE).await;
    let end = lab.audit_mark().await?;
    let entries = lab.audit().window(begin, end)?;
    let counts = count_by_user(&entries);
    let minutes = SILENCE.as_secs() / 60;
    for user in cluster.users() {
        let count = counts.get(user).copied().unwrap_or_default();
        let own = || lines(entries.iter().filter(|entry| entry.user == user && entry.counts()));
        ensure!(count.lease_writes > 0, "{user} did not renew its lease; is the audit log complete?\n{}", own());
        // A renewal more, because the window need not begin just behind one.
        ensure!(count.lease_writes <= RENEWALS * minutes + 1, "{} renewals of {user}", count.lease_writes);
        ensure!(
            count.total < REQUESTS * minutes,
            "{} requests of {user} in {minutes} minutes:\n{}",
            count.total,
            own()
        );
    }
    let written = writes(entries, &cluster.users());
    ensure!(written.is_empty(), "operators wrote though nothing had changed:\n{}", lines(&written));

    let versions = chronicle.versions()?;
    let ready = became_ready_once(&versions)?;
    ensure!(ready.len() == 7, "seven resources, but {ready:?} became Ready");
    each_pod_started_once(&versions)?;
    let manager = cluster.get(kinds::MANAGER, "sdn").await?;
    ensure!(manager.object.data.pointer("/status/initialized") == Some(&Value::Bool(true)), "{:?}", manager.status);
    Ok(())
}
