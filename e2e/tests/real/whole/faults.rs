//! Daemons hang, one after the other: they hold their connections and answer nobody. The condition names the daemon in time, nobody else is
//! started again, and all is well when it goes on.

use std::time::Instant;

use rustix::process::Signal;
use tf_api::KindInfo;
use tf_api::kinds::{ANALYTICS as ANALYTICS_KIND, ANALYTICS_SNMP, QUERY_ENGINE};
use tf_testing::RealNode;
use tf_testing::identity::Identity;

use super::*;
use crate::store::HONEST_WITHIN;

/// A daemon: whose it is, the name of its container, what the kernel calls its process.
const ALL: [(KindInfo, &str, &str); 15] = [
    (CONFIG_KIND, "api", "contrail-api"),
    (CONFIG_KIND, "schematransformer", "contrail-schema"),
    (CONFIG_KIND, "servicemonitor", "contrail-svc-mo"),
    (CONFIG_KIND, "devicemanager", "contrail-device"),
    (CONTROL, "control", "contrail-contro"),
    (CONTROL, "dns", "contrail-dns"),
    (CONTROL, "named", "contrail-named"),
    (KUBEMANAGER, "kubemanager", "contrail-kube-m"),
    (WEBUI, "webuiweb", "node"),
    (ANALYTICS_KIND, "collector", "contrail-collec"),
    (ANALYTICS_KIND, "analyticsapi", "contrail-analyt"),
    (QUERY_ENGINE, "queryengine", "contrail-query-"),
    (ANALYTICS_SNMP, "analytics-snmp-collector", "tf-snmp-collect"),
    (ANALYTICS_SNMP, "analytics-snmp-topology", "tf-topology"),
    (VROUTER, "vrouteragent", "contrail-vroute"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_hangs_is_named_in_time_and_nobody_else_is_started_again() -> Result<()> {
    let Some((lab, client)) = Long::Faults.ready().await? else { return Ok(()) };
    match story(&lab, &client).await {
        Ok(()) => Ok(()),
        Err(error) => Err(CONFIG.with_testimony(error, &client).await),
    }
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let visitor = Visitor::of(client, NAMESPACE).await?;
    let addresses = lab.real_nodes()?.addresses()?;
    functional(&visitor, &addresses).await?;
    let before = restarts(client).await?;
    for (kind, container, process) in ALL {
        let node = at_work(lab, &visitor, process).await?;
        hangs(client, &node, kind, container, process)
            .await
            .with_context(|| format!("{container} of {}", node.name()))?;
        functional(&visitor, &addresses).await?;
        ensure!(restarts(client).await? == before, "{container}: containers were started again: {before:?}");
    }
    Ok(())
}

/// A node where such a daemon is at work: of those that one member is elected for it is that one's.
async fn at_work(lab: &Lab, visitor: &Visitor, process: &str) -> Result<RealNode> {
    let mut nodes = lab.real_nodes()?.all()?;
    for (index, node) in nodes.iter().enumerate() {
        let Some((_, port)) = DAEMONS.iter().find(|(name, _)| name.starts_with(process)) else { break };
        if visitor.status(node.address(), *port).await?.is_some() {
            return Ok(nodes.swap_remove(index));
        }
    }
    nodes.pop().context("no node")
}

async fn hangs(client: &Client, node: &RealNode, kind: KindInfo, container: &str, process: &str) -> Result<()> {
    let processes = node.processes(process)?;
    ensure!(!processes.is_empty(), "no process {process}");
    let signal = |signal: Signal| processes.iter().try_for_each(|it: &Identity| it.signal(signal).map(drop));
    signal(Signal::STOP)?;
    let begun = Instant::now();
    let pods = resources::pods(client, kind, NAMESPACE).await?;
    let is_there = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(node.name()));
    let pod = pods.iter().find(is_there).context("no pod")?;
    let is_alone = pod.spec.as_ref().is_some_and(|spec| spec.containers.len() == 1);
    let named = eventually("the daemon to be named", HONEST_WITHIN, async || {
        let found = resources::all(client, NAMESPACE).await?;
        let told = found.iter().filter(|it| it.kind == kind).filter_map(|it| it.condition("WorkloadReady"));
        let is_member = |message: &str| message.contains(&pod.name_any()) || message.contains(node.name());
        let is_it = |message: &str| is_member(message) && (is_alone || message.contains(container));
        Ok(told.into_iter().find(|it| it.status == "False" && is_it(&it.message)).map(|it| it.message.clone()))
    })
    .await;
    let after = begun.elapsed();
    signal(Signal::CONT)?;
    println!("{container}: named after {:.1} s: {}", after.as_secs_f64(), named?);
    let begun = Instant::now();
    eventually("all to be well again", RECOVERY, async || {
        let found = resources::all(client, NAMESPACE).await?;
        Ok(found.iter().all(Resource::is_ready).then_some(()))
    })
    .await?;
    println!("{container}: all well {:.1} s later", begun.elapsed().as_secs_f64());
    Ok(())
}
