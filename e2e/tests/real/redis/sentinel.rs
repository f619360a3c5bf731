//! Servers that copy one of them: whatever fails, one of them takes writes, and what a copy acknowledged is there afterwards.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use kube::{Client, ResourceExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tf_api::kinds::REDIS;
use tf_testing::real::operator;
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;
use tf_testing::{Lab, RealNode};

use super::client::Login;
use super::journal::{Journal, Summary};
use super::{
    Long, NAME, REDIS_PORT, ROLL, STORE, TOLD, another_authority, another_password, nothing_secret_is_told, through,
};
use crate::{rest, store::NAMESPACE};

/// Until another server takes writes (docs/upstream/redis.md#failover).
pub const CONVERGED: Duration = Duration::from_secs(30);
/// Longest time without a write when nothing fails: another server takes them within two seconds, and the machine is a busy one.
pub const HANDED_OVER: Duration = Duration::from_secs(10);

/// A spec whose members copy one of them.
pub fn with_sentinels(mut spec: Value) -> Value {
    spec["serviceConfiguration"] = json!({"mode": "Sentinel"});
    spec
}

fn spec(replicas: usize, level: &str) -> Value {
    with_sentinels(json!({"commonConfiguration": {"replicas": replicas, "logLevel": level}}))
}

/// Three members, one of whom takes writes that the others copy.
pub async fn three(lab: &Lab, client: &Client) -> Result<(Login, Vec<IpAddr>)> {
    resources::apply(client, REDIS, NAMESPACE, NAME, spec(3, "info")).await?;
    STORE.certified(client).await?;
    through(client, "the bring-up").await?;
    Ok((Login::by_sentinel(client).await?, lab.real_nodes()?.addresses()?))
}

/// Clients that write, when the first writes are acknowledged.
pub async fn writing(login: &Login, addresses: &[IpAddr]) -> Result<Journal> {
    let journal = Journal::begin(login, addresses);
    journal.goes_on(CONVERGED).await?;
    Ok(journal)
}

/// The node of the server that takes writes.
pub async fn master(lab: &Lab, login: &Login, addresses: &[IpAddr]) -> Result<RealNode> {
    let master = login.master(addresses).await?;
    let nodes = lab.real_nodes()?.all()?;
    nodes.into_iter().find(|node| node.address() == master).context("a server on no node")
}

/// Kills a node's server or Sentinel; false where there is none at this moment.
fn kill(node: &RealNode, sentinel: bool) -> Result<bool> {
    signal(node, sentinel, Signal::KILL)
}

/// Sends a signal to a node's server or Sentinel, which have the same name; false where there is none at this moment.
pub fn signal(node: &RealNode, sentinel: bool, signal: Signal) -> Result<bool> {
    for process in node.processes("redis-server")? {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains("[sentinel]") == sentinel {
            let pid = Pid::from_raw(process.pid).context("a process without a number")?;
            return Ok(kill_process(pid, signal).is_ok());
        }
    }
    Ok(false)
}

/// Nothing that was acknowledged is lost, one server at a time took writes, and soon enough.
pub fn good(what: &str, summary: &Summary, within: Duration) -> Result<()> {
    println!("{what}: {summary}");
    ensure!(summary.lost == 0 && summary.at_once == 0, "{what}: {summary}");
    ensure!(summary.longest_pause < within, "{what}: {summary}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_server_that_takes_writes_is_killed_or_its_pod_deleted_another_one_takes_them() -> Result<()> {
    if !Long::MasterKilled.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            let journal = writing(&login, &addresses).await?;
            let before = master(lab, &login, &addresses).await?;
            ensure!(kill(&before, false)?, "no server");
            journal.goes_on(CONVERGED).await?;
            through(client, "the killed server's return").await?;
            let after = login.master(&addresses).await?;
            ensure!(after != before.address(), "the server that lost everything is not copied");
            good("killed once", &journal.end().await?, CONVERGED)?;

            let journal = writing(&login, &addresses).await?;
            let told = killed_again_and_again(&after_node(lab, after)?, client).await?;
            journal.goes_on(CONVERGED).await?;
            through(client, "the servers' return").await?;
            good(&format!("killed again and again, told after {told:.1?}"), &journal.end().await?, CONVERGED)?;

            let journal = writing(&login, &addresses).await?;
            let node = master(lab, &login, &addresses).await?;
            let pod = STORE.pod_on(client, &node).await?;
            let name = pod.name_any();
            Api::<Pod>::namespaced(client.clone(), NAMESPACE).delete(&name, &DeleteParams::default()).await?;
            eventually("another pod", ROLL, async || {
                let now = STORE.uids(client).await?;
                Ok((now.len() == 3 && now.get(&name) != Some(&pod.metadata.uid)).then_some(()))
            })
            .await?;
            through(client, "the pod's return").await?;
            good("its pod deleted", &journal.end().await?, HANDED_OVER)
        })
        .await
}

fn after_node(lab: &Lab, address: IpAddr) -> Result<RealNode> {
    lab.real_nodes()?.all()?.into_iter().find(|node| node.address() == address).context("a server on no node")
}

/// Kills a node's server whenever there is one, until that is told, and says how long that took.
async fn killed_again_and_again(node: &RealNode, client: &Client) -> Result<Duration> {
    let begun = Instant::now();
    eventually("the loss to be told", TOLD, async || {
        kill(node, false)?;
        let redis = resources::get(client, REDIS, NAMESPACE, NAME).await?.context("no resource")?;
        Ok((!redis.is_ready()).then_some(()))
    })
    .await?;
    Ok(begun.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_and_a_restart_on_demand_go_round_without_the_loss_of_a_write() -> Result<()> {
    if !Long::MasterRolled.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            let before = STORE.uids(client).await?;
            let journal = writing(&login, &addresses).await?;
            resources::apply(client, REDIS, NAMESPACE, NAME, spec(3, "debug")).await?;
            through(client, "the change").await?;
            good("another log level, with Sentinels started anew", &journal.end().await?, HANDED_OVER)?;
            ensure!(STORE.uids(client).await? == before, "pods are the same");

            let journal = writing(&login, &addresses).await?;
            STORE.restarted(client).await?;
            good("pods replaced", &journal.end().await?, HANDED_OVER)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_cut_off_acknowledges_nothing_and_one_without_power_is_done_without() -> Result<()> {
    if !Long::MasterCutOff.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            let nodes = lab.real_nodes()?;
            let journal = writing(&login, &addresses).await?;
            let node = master(lab, &login, &addresses).await?;
            let others: Vec<String> = nodes.all()?.iter().map(|node| node.name().to_owned()).collect();
            let others: Vec<&str> = others.iter().map(String::as_str).filter(|name| *name != node.name()).collect();
            nodes.cut(&[node.name()], &others).await?;
            journal.goes_on(CONVERGED).await?;
            let redis = resources::get(client, REDIS, NAMESPACE, NAME).await?.context("no resource")?;
            println!("cut off: {}", redis.explain("Ready"));
            ensure!(!redis.is_ready(), "that one is cut off is told");
            nodes.heal(&[node.name()], &others).await?;
            through(client, "the return of who was cut off").await?;
            good("cut off", &journal.end().await?, CONVERGED)?;

            let journal = writing(&login, &addresses).await?;
            let node = master(lab, &login, &addresses).await?;
            nodes.stop(node.name()).await?;
            journal.goes_on(CONVERGED).await?;
            nodes.start(node.name()).await?;
            through(client, "the return of who had no power").await?;
            good("without power", &journal.end().await?, CONVERGED)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_are_killed_at_once_they_agree_again_on_one_that_takes_writes() -> Result<()> {
    if !Long::AllKilled.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            for sentinels in [false, true] {
                let journal = writing(&login, &addresses).await?;
                let begun = Instant::now();
                for node in lab.real_nodes()?.all()? {
                    ensure!(kill(&node, false)?, "no server");
                    ensure!(!sentinels || kill(&node, true)?, "no Sentinel");
                }
                journal.goes_on(CONVERGED).await?;
                let agreed = begun.elapsed();
                through(client, "the return of all").await?;
                // Nobody is left who had it.
                let summary = journal.end().await?;
                println!("all killed, Sentinels too: {sentinels}: agreed after {agreed:.1?}, {summary}");
                ensure!(summary.at_once == 0 && summary.longest_pause < CONVERGED, "{summary}");
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_node_of_the_server_that_takes_writes_is_gone_for_good_another_node_has_a_copy() -> Result<()> {
    if !Long::MasterReplaced.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            let mut journal = writing(&login, &addresses).await?;
            let mut lost = master(lab, &login, &addresses).await?;
            if operator::node_of(client, STORE.operator, NAMESPACE).await? == lost.name() {
                // The operator is not to be lost with it.
                ensure!(kill(&lost, false)?, "no server");
                journal.goes_on(CONVERGED).await?;
                through(client, "the killed server's return").await?;
                lost = master(lab, &login, &addresses).await?;
            }
            let begun = Instant::now();
            let new = STORE.replace_node(lab, client, &lost).await?;
            journal.also(new.address());
            journal.goes_on(CONVERGED).await?;
            STORE.replaced(client, &new, 3, ROLL).await?;
            println!("replaced after {:.1?}", begun.elapsed());
            let now = lab.real_nodes()?.addresses()?;
            ensure!(now.contains(&new.address()) && !now.contains(&lost.address()), "{now:?}");
            // Nobody remembers the one that is gone.
            let is_forgotten = async || Ok((login.counted(&now).await? == (2, 3)).then_some(()));
            eventually("two copies and three Sentinels", CONVERGED, is_forgotten).await?;
            good("a node replaced", &journal.end().await?, CONVERGED)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_copy_one_of_them_come_and_go_and_keep_what_was_written() -> Result<()> {
    if !Long::MasterSizes.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(5, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            let journal = Journal::begin(&login, &addresses);
            for replicas in [5, 3] {
                journal.goes_on(CONVERGED).await?;
                resources::apply(client, REDIS, NAMESPACE, NAME, spec(replicas, "info")).await?;
                STORE.resized(client, replicas, ROLL).await?;
                let (copies, sentinels) = login.counted(&addresses).await?;
                ensure!((copies, sentinels) == (replicas - 1, replicas), "{replicas}: {copies}, {sentinels}");
            }
            good("five and three again", &journal.end().await?, CONVERGED)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_password_and_another_authority_are_taken_by_servers_and_sentinels() -> Result<()> {
    if !Long::MasterSecrets.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            let before = login.master(&addresses).await?;
            ensure!(login.connect(before).await?.ask(&["SET", "word", "x"]).await? == "OK", "no write");
            let new = another_password(client, &login, &addresses).await?;
            ensure!(login.master(&addresses).await.is_err(), "a Sentinel takes the old password");

            let before = new.master(&addresses).await?;
            let newcomer = another_authority(client, &addresses, async || Login::by_sentinel(client).await).await?;
            for address in &addresses {
                eventually("its Sentinel", TOLD, async || Ok(newcomer.master(&[*address]).await.ok())).await?;
            }
            through(client, "the new authority").await?;
            ensure!(newcomer.master(&addresses).await? == before, "no server was started anew");
            ensure!(newcomer.connect(before).await?.ask(&["GET", "word"]).await? == "x", "what was written is lost");
            Ok(())
        })
        .await
}

#[test]
fn the_ports_are_those_that_the_operator_gives() {
    assert_eq!(super::client::SENTINEL_PORT, REDIS_PORT + 20_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_at_rest_are_left_alone_and_tell_no_password() -> Result<()> {
    if !Long::MasterRest.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            rest::is_silent_once(&STORE, spec(3, "info"), rest::REQUESTS, Resource::is_ready, lab, client).await?;
            nothing_secret_is_told(lab, client).await
        })
        .await
}
