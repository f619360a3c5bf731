//! The picture that Tungsten Fabric's documentation has of a cluster that is up (requirements O-13): three of each service, with these containers, and how
//! `kubectl tf status` shows it. Provisioners are missing, since operators register members themselves; node managers and status monitors are, since agents
//! look after daemons.

use std::collections::BTreeSet;

use tf_api::contract::DaemonStatus;
use tf_api::kinds::{ANALYTICS, ANALYTICS_SNMP, QUERY_ENGINE, RABBITMQ, REDIS, ZOOKEEPER};
use tf_api::names;
use tf_cli::cluster;
use tf_cli::status::{Daemons, Node, text, trees};

use super::*;

/// Members of each service, on as many nodes.
const MEMBERS: usize = 3;
/// Containers of a pod, by kind and name of its resource.
const PICTURE: [(KindInfo, &str, &[&str]); 14] = [
    (CASSANDRA, "configdb1", &["cassandra"]),
    (CASSANDRA, "analyticsdb1", &["cassandra"]),
    (ZOOKEEPER, "zookeeper1", &["zookeeper"]),
    (RABBITMQ, "rabbitmq1", &["rabbitmq"]),
    (REDIS, "redis1", &["redis"]),
    (CONFIG_KIND, "config1", &["api", "devicemanager", "dnsmasq", "schematransformer", "servicemonitor"]),
    (ANALYTICS, "analytics1", &["analyticsapi", "collector"]),
    (QUERY_ENGINE, "queryengine1", &["queryengine"]),
    (ANALYTICS_SNMP, "analyticssnmp1", &["analytics-snmp-collector", "analytics-snmp-topology"]),
    (ANALYTICS_ALARM, "analyticsalarm1", &["analytics-alarm-gen", "kafka"]),
    (CONTROL, CONTROL_NODES, &["control", "dns", "named"]),
    (KUBEMANAGER, LINK, &["kubemanager"]),
    (WEBUI, WEB, &["webuijob", "webuiweb"]),
    (VROUTER, AGENTS, &["vrouteragent"]),
];
/// Daemons of which one member is at work and the others wait.
const ELECTED: [&str; 4] = ["devicemanager", "kubemanager", "schematransformer", "servicemonitor"];

/// Three of each, as the pods have it and as the status of each resource tells it.
pub async fn is_as_documented(client: &Client) -> Result<()> {
    for (kind, name, containers) in PICTURE {
        let of_resource = |it: &&Pod| it.labels().get(names::LABEL_INSTANCE).is_some_and(|instance| instance == name);
        let pods = resources::pods(client, kind, NAMESPACE).await?;
        let pods: Vec<&Pod> = pods.iter().filter(of_resource).collect();
        ensure!(pods.len() == MEMBERS, "{} {name} has {} pods", kind.kind, pods.len());
        for pod in pods {
            let spec = pod.spec.as_ref().context("no spec")?;
            let found: BTreeSet<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
            ensure!(found == containers.iter().copied().collect(), "{}: {found:?}", pod.name_any());
        }
        let is_told = |it: &Resource| daemons(it).iter().all(is_well) && daemons(it).len() == containers.len();
        let told = resources::until(client, kind, NAMESPACE, name, "well in each daemon", RECOVERY, is_told).await;
        let told = told.with_context(|| format!("{} {name}", kind.kind))?;
        let names: Vec<String> = daemons(&told).into_iter().map(|daemon| daemon.name).collect();
        ensure!(names == containers, "{} {name}: {names:?}", kind.kind);
    }
    is_shown(client).await
}

/// What a resource tells of its daemons.
fn daemons(resource: &Resource) -> Vec<DaemonStatus> {
    serde_json::from_value(resource.object.data["status"]["daemons"].clone()).unwrap_or_default()
}

fn is_well(daemon: &DaemonStatus) -> bool {
    let members = MEMBERS as i32;
    let waiting = if ELECTED.contains(&daemon.name.as_str()) { Some(members - 1) } else { None };
    daemon.is_well()
        && (daemon.serving, daemon.wanted, daemon.standby) == (members, members, waiting)
        && (daemon.versions.len(), daemon.troubles.len()) == (1, 0)
}

/// `kubectl tf status` has one tree, which is Ready, with every daemon in it, and shows none where only those are asked for that are not well.
async fn is_shown(client: &Client) -> Result<()> {
    let found = cluster::read(client, Some(NAMESPACE)).await?;
    let shown = trees(&found.resources);
    println!("{}", text(&shown, &found.notes, Daemons::All));
    ensure!(shown.len() == 1 && shown.iter().all(Node::is_ready) && found.notes.is_empty(), "{shown:#?}");
    let unwell = text(&shown, &found.notes, Daemons::Unwell);
    ensure!(!unwell.contains(" serve"), "a daemon is told of that is well: {unwell}");
    Ok(())
}
