//! The picture that Tungsten Fabric's documentation has of a cluster that is up (requirements O-13): the services of the example with these containers, and
//! nothing to be told of any of them. Provisioners are missing, since operators register members themselves; node managers and status monitors are, since
//! agents look after daemons.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use tf_api::KindInfo;
use tf_api::contract::{ConditionType, is_telling};
use tf_api::kinds::{
    ANALYTICS, ANALYTICS_ALARM, ANALYTICS_SNMP, CASSANDRA, CONFIG, CONTROL, KUBEMANAGER, QUERY_ENGINE, RABBITMQ, REDIS,
    VROUTER, WEBUI, ZOOKEEPER,
};
use tf_api::names;
use tf_cli::cluster;
use tf_cli::status::{Daemons, Node, text, trees};
use tf_testing::resources::{self, Resource};

/// Containers of a pod, by kind and name of its resource.
pub const PICTURE: [(KindInfo, &str, &[&str]); 14] = [
    (CASSANDRA, "configdb1", &["cassandra"]),
    (CASSANDRA, "analyticsdb1", &["cassandra"]),
    (ZOOKEEPER, "zookeeper1", &["zookeeper"]),
    (RABBITMQ, "rabbitmq1", &["rabbitmq"]),
    (REDIS, "redis1", &["redis"]),
    (CONFIG, "config1", &["api", "devicemanager", "dnsmasq", "schematransformer", "servicemonitor"]),
    (ANALYTICS, "analytics1", &["analyticsapi", "collector"]),
    (QUERY_ENGINE, "queryengine1", &["queryengine"]),
    (ANALYTICS_SNMP, "analyticssnmp1", &["analytics-snmp-collector", "analytics-snmp-topology"]),
    (ANALYTICS_ALARM, "analyticsalarm1", &["analytics-alarm-gen", "kafka"]),
    (CONTROL, "control1", &["control", "dns", "named"]),
    (KUBEMANAGER, "kubemanager1", &["kubemanager"]),
    (WEBUI, "webui1", &["webuijob", "webuiweb"]),
    (VROUTER, "vrouter1", &["vrouteragent"]),
];

/// Each service has a pod on each of so many control nodes, and the vRouter on each of so many nodes, with the containers of [`PICTURE`].
///
/// # Errors
/// What is another.
pub async fn pods_are_as_documented(
    client: &Client,
    namespace: &str,
    control_nodes: usize,
    all_nodes: usize,
) -> Result<()> {
    for (kind, name, containers) in PICTURE {
        let of_resource = |it: &&Pod| it.labels().get(names::LABEL_INSTANCE).is_some_and(|instance| instance == name);
        let pods = resources::pods(client, kind, namespace).await?;
        let pods: Vec<&Pod> = pods.iter().filter(of_resource).collect();
        let expected = if kind == VROUTER { all_nodes } else { control_nodes };
        ensure!(pods.len() == expected, "{} {name} has {} pods, not {expected}", kind.kind, pods.len());
        for pod in pods {
            let spec = pod.spec.as_ref().context("no spec")?;
            let found: BTreeSet<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
            ensure!(found == containers.iter().copied().collect(), "{}: {found:?}", pod.name_any());
        }
    }
    Ok(())
}

/// Every condition of every resource is as one hopes for, but for those that nobody is there to fulfil.
///
/// # Errors
/// Those that are not.
pub fn nothing_is_told(resources: &[Resource], but: &[ConditionType]) -> Result<()> {
    let telling: Vec<String> = resources
        .iter()
        .flat_map(|resource| resource.status.conditions.iter().map(move |condition| (resource, condition)))
        .filter(|(_, condition)| is_telling(condition) && !but.iter().any(|it| it.as_ref() == condition.type_))
        .map(|(resource, condition)| {
            format!("{} {}: {}", resource.kind.kind, resource.name, resource.explain(&condition.type_))
        })
        .collect();
    ensure!(telling.is_empty(), "{}", telling.join("\n"));
    Ok(())
}

/// `kubectl tf status` has one tree, which is Ready, and notes nothing. Returned as it is shown with every daemon, and with those alone that are not well.
///
/// # Errors
/// When it is another.
pub async fn one_tree_is_shown(client: &Client, namespace: &str) -> Result<(String, String)> {
    let found = cluster::read(client, Some(namespace)).await?;
    let shown = trees(&found.resources);
    ensure!(shown.len() == 1 && shown.iter().all(Node::is_ready) && found.notes.is_empty(), "{shown:#?}");
    Ok((text(&shown, &found.notes, Daemons::All), text(&shown, &found.notes, Daemons::Unwell)))
}
