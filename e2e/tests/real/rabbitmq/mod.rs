//! A real RabbitMQ on real nodes: the operator runs as a pod of its chart, the servers as the operator's pods.

mod traffic;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tf_api::kinds::{RABBITMQ, ZOOKEEPER};
use tf_api::names::{ANNOTATION_RESTART, ANNOTATION_ROTATE, AUTHORITY};
use tf_testing::Lab;
use tf_testing::operators::Install;
use tf_testing::real::image;
use tf_testing::resources::{self, Resource};
use tf_testing::sample::Sample;
use tf_testing::wait::eventually;

use self::traffic::{Access, Summary, Traffic};
use crate::store::{BRING_UP, NAMESPACE, Store, is_drawn};

const NAME: &str = "rabbitmq1";
const AMQP_PORT: u16 = 5673;
const OPERATOR: &str = "rabbitmq-op";
const STORE: Store = Store {
    operator: OPERATOR,
    kind: RABBITMQ,
    name: NAME,
    images: &[OPERATOR, "tf-node", image::RABBITMQ_ARCHIVE],
    values: &[image::RABBITMQ],
};
/// For three servers, one after the other.
const ROLL: Duration = Duration::from_mins(5);
/// Until a failure is told.
const TOLD: Duration = Duration::from_secs(10);
/// Kubelets take a minute to bring a changed ConfigMap into a pod, and a rotation changes it three times.
const ROTATION: Duration = Duration::from_mins(9);
/// From the start of the last node until all servers serve again.
const UP_AGAIN: Duration = Duration::from_secs(60);
/// Between two messages while servers stop: less than a second on a machine that has nothing else to do, and what a busy one adds.
const HOLE: Duration = Duration::from_secs(10);
/// The orders in which three nodes can get their power back.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Tests that `cargo xtask soak life` runs. A run draws none of them unless it is told how many: once a change waited for minutes for a
/// mirror that RabbitMQ did not synchronise (docs/testing.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Long {
    Configuration,
    Restart,
    Killed,
    Growth,
    Outage,
    Authority,
}

impl Long {
    const ALL: usize = Self::Authority as usize + 1;

    /// Whether it is tried in this run; else it is counted as skipped.
    fn is_drawn(self) -> Result<bool> {
        is_drawn(self as usize, Self::ALL, 0, 5)
    }
}

/// Three members that have certificates and serve.
async fn three(lab: &Lab, client: &Client) -> Result<(Access, Vec<Ipv4Addr>)> {
    resources::apply(client, RABBITMQ, NAMESPACE, NAME, json!({})).await?;
    STORE.certified(client).await?;
    Ok((Access::of(client).await?, lab.real_nodes()?.addresses()?))
}

/// Ready, and no roll-out is under way.
async fn through(client: &Client, what: &str) -> Result<()> {
    let is_through = |rabbitmq: &Resource| rabbitmq.is_ready() && rabbitmq.is("Progressing", "False");
    resources::until(client, RABBITMQ, NAMESPACE, NAME, what, ROLL, is_through).await.map(drop)
}

/// Nothing was lost, and nobody waited for long.
fn good(what: &str, summary: &Summary) -> Result<()> {
    println!("{what}: {summary}");
    ensure!(summary.lost == 0 && summary.longest_pause <= HOLE, "{what}: {summary}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn three_real_servers_form_one_cluster_that_lets_in_who_has_certificate_and_password() -> Result<()> {
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            for address in &addresses {
                access.connect(*address).await.with_context(|| format!("{address}"))?;
                ensure!(access.without_certificate().connect(*address).await.is_err(), "{address}: no certificate");
                ensure!(access.with_password("wrong").connect(*address).await.is_err(), "{address}: wrong password");
            }
            let summary = Traffic::begin(&access, &addresses).await?.end().await?;
            good("at rest", &summary)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_configuration_restarts_one_server_after_the_other_and_no_pod_and_loses_no_message() -> Result<()> {
    if !Long::Configuration.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let before = STORE.uids(client).await?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            let changed = json!({"commonConfiguration": {"logLevel": "debug"}});
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, changed).await?;
            through(client, "the change").await?;
            ensure!(STORE.uids(client).await? == before, "pods are the same");
            good("a changed configuration", &traffic.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_on_demand_replaces_one_pod_after_the_other_and_loses_no_message() -> Result<()> {
    if !Long::Restart.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let before = STORE.uids(client).await?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            let wish = json!({"metadata": {"annotations": {ANNOTATION_RESTART: "now"}}});
            let api = resources::api(client, RABBITMQ, NAMESPACE);
            api.patch(NAME, &PatchParams::default(), &Patch::Merge(wish)).await?;
            eventually("other pods", ROLL, async || {
                let now = STORE.uids(client).await?;
                Ok((now.len() == 3 && now.iter().all(|(name, uid)| before.get(name) != Some(uid))).then_some(()))
            })
            .await?;
            through(client, "the restart").await?;
            good("pods replaced", &traffic.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_told_and_loses_no_message() -> Result<()> {
    if !Long::Killed.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            for node in lab.real_nodes()?.all()? {
                let traffic = Traffic::begin(&access, &addresses).await?;
                let begun = Instant::now();
                node.kill("beam.smp")?;
                let told = |rabbitmq: &Resource| !rabbitmq.is_ready();
                resources::until(client, RABBITMQ, NAMESPACE, NAME, "the loss", TOLD, told).await?;
                let told = begun.elapsed();
                through(client, "the server's return").await?;
                good(&format!("killed, told after {told:.1?}"), &traffic.end().await?)?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_member_becomes_three_without_a_restart_and_messages_arrive_everywhere() -> Result<()> {
    if !Long::Growth.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let replicas = |count: usize| json!({"commonConfiguration": {"replicas": count}});
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, replicas(1)).await?;
            let rabbitmq = STORE.certified(client).await?;
            let first: Vec<Ipv4Addr> =
                crate::store::members(&rabbitmq).iter().filter_map(|member| member.address.parse().ok()).collect();
            ensure!(first.len() == 1, "{first:?}");
            let access = Access::of(client).await?;
            let traffic = Traffic::begin(&access, &first).await?;
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, replicas(3)).await?;
            let is_three = |rabbitmq: &Resource| rabbitmq.is_ready_with(3) && rabbitmq.is("Progressing", "False");
            resources::until(client, RABBITMQ, NAMESPACE, NAME, "three members", ROLL, is_three).await?;
            // One that was restarted would have turned its clients away.
            let summary = traffic.end().await?;
            ensure!(summary.refused == 0, "the first server was restarted: {summary}");
            good("one becomes three", &summary)?;
            let summary = Traffic::begin(&access, &lab.real_nodes()?.addresses()?).await?.end().await?;
            good("by three", &summary)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_without_power_come_back_in_any_order_and_serve() -> Result<()> {
    if !Long::Outage.is_drawn()? {
        return Ok(());
    }
    let sample = Sample::from_environment(1)?;
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, _) = three(lab, client).await?;
            let nodes = lab.real_nodes()?;
            let all = nodes.all()?;
            for order in sample.draw(ORDERS.len(), 6) {
                for node in &all {
                    nodes.stop(node.name()).await?;
                }
                for index in ORDERS[order] {
                    nodes.start(all[index].name()).await?;
                }
                let begun = Instant::now();
                for node in &all {
                    let what = format!("{} to serve, in order {:?}", node.address(), ORDERS[order]);
                    let limit = UP_AGAIN.saturating_sub(begun.elapsed());
                    eventually(&what, limit, async || Ok(access.connect(node.address()).await.ok())).await?;
                }
                println!("{:?}: all serve {:.1?} after the last node is up", ORDERS[order], begun.elapsed());
                resources::ready(client, RABBITMQ, NAMESPACE, NAME, BRING_UP).await?;
                let addresses = nodes.addresses()?;
                good("afterwards", &Traffic::begin(&access, &addresses).await?.end().await?)?;
            }
            Ok(())
        })
        .await
}

/// The certificates of the authorities that members are told to trust.
async fn bundle(client: &Client) -> Result<String> {
    let bundle = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE).get(AUTHORITY).await?.data.unwrap_or_default();
    bundle.get("ca-bundle.crt").cloned().context("no bundle")
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_replace_the_authority_of_their_members_together_and_nobody_is_turned_away() -> Result<()> {
    if !Long::Authority.is_drawn()? {
        return Ok(());
    }
    let neighbour = Store { operator: "zookeeper-op", kind: ZOOKEEPER, name: "zookeeper1", images: &[], values: &[] };
    STORE
        .with(3, &[], &[neighbour.operator, image::ZOOKEEPER_ARCHIVE], async |lab, client| {
            let values = vec!["replicaCount=1".to_owned(), image::ZOOKEEPER.to_owned()];
            lab.install(neighbour.operator, NAMESPACE, &Install { values, ..Install::default() }).await?;
            resources::apply(client, ZOOKEEPER, NAMESPACE, neighbour.name, json!({})).await?;
            let (access, addresses) = three(lab, client).await?;
            neighbour.certified(client).await?;
            let old = bundle(client).await?;
            ensure!(old.matches("BEGIN CERTIFICATE").count() == 1, "one authority: {old}");
            let before = [STORE.uids(client).await?, neighbour.uids(client).await?];
            let traffic = Traffic::begin(&access, &addresses).await?;

            let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
            let request = json!({"metadata": {"annotations": {ANNOTATION_ROTATE: "now"}}});
            secrets.patch(AUTHORITY, &PatchParams::default(), &Patch::Merge(request)).await?;
            eventually("one authority, another one", ROTATION, async || {
                let now = bundle(client).await?;
                Ok((now != old && now.matches("BEGIN CERTIFICATE").count() == 1).then_some(()))
            })
            .await?;
            // Who begins now trusts the new one alone, and shows what it signed.
            let newcomer = Access::of(client).await?;
            for address in &addresses {
                newcomer.connect(*address).await.with_context(|| format!("{address}, by the new authority alone"))?;
            }
            STORE.certified(client).await?;
            neighbour.certified(client).await?;
            let after = [STORE.uids(client).await?, neighbour.uids(client).await?];
            ensure!(after == before, "pods are the same");
            good("another authority", &traffic.end().await?)
        })
        .await
}
