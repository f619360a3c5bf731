//! What operators of this repository run on real nodes, as pods of their charts: real stores, and the daemons of Config, Control, analytics,
//! Kubemanager, Webui and the vRouter that `tf-sim` plays.
//!
//! The vRouter's pods run their agent alone: the kernel module cannot be loaded in a lab, and a CNI plugin that waits for control nodes
//! would leave the lab's pods without a network. An ordinary interface that is called `vhost0` and has what the node's has stands for the one
//! that the module makes; it forwards nothing.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::{
    Lab, Options,
    operators::{self, Install, repository},
    real::{image, operator},
};

/// Archives of the images besides the operators'.
const OTHERS: [&str; 7] = [
    "tf-node",
    "tf-sim",
    image::CASSANDRA_ARCHIVE,
    image::KAFKA_ARCHIVE,
    image::RABBITMQ_ARCHIVE,
    image::REDIS_ARCHIVE,
    image::ZOOKEEPER_ARCHIVE,
];

/// The control nodes of the example.
const CONTROL: &str = "      - metadata: {name: control1}\n";
/// The vRouter of the example, and its pods without what needs the kernel module or the CNI plugin.
const VROUTER: &str = "      - metadata: {name: vrouter1}\n";
const AGENT_ALONE: &str =
    "        spec:\n          serviceConfiguration:\n            containers: [{name: vrouteragent}]\n";

/// The key of a chart's value with the image of this name.
const IMAGES: &str = "operands.images.";
/// The image of the daemons that are played.
const SIM: &str = concat!("tungstenfabric/tf-sim:", env!("CARGO_PKG_VERSION"));
/// Daemons of analytics, and of Config, by the names of their images.
const ANALYTICS: [&str; 6] = [
    "analytics-alarm-gen",
    "analytics-api",
    "analytics-collector",
    "analytics-query-engine",
    "analytics-snmp-collector",
    "analytics-snmp-topology",
];
const CONFIG: [&str; 5] = [
    "controller-config-api",
    "controller-config-devicemgr",
    "controller-config-dnsmasq",
    "controller-config-schema",
    "controller-config-svcmonitor",
];

/// Port of the config API in [`manifest_on_moved_ports`].
pub const MOVED_API: u16 = 9182;

/// What three members of two rings on one small machine can have, as fields of `serviceConfiguration`.
pub const SMALL_HEAP: [(&str, &str); 2] = [("minHeapSize", "64M"), ("maxHeapSize", "192M")];

/// Archives of all images.
pub fn archives() -> Vec<&'static str> {
    operators::ALL.into_iter().chain(OTHERS).collect()
}

/// `examples/manager.yaml`, its Cassandras with as much memory as a small machine has for them, its vRouter with the agent
/// alone.
///
/// # Errors
/// When it looks otherwise than it did.
pub fn manifest() -> Result<String> {
    let example = std::fs::read_to_string(repository().join("examples/manager.yaml"))?;
    let heap = |separator: &str| SMALL_HEAP.map(|(field, size)| format!("{field}: {size}")).join(separator);
    let small = example
        .replace(
            "- metadata: {name: configdb1}\n",
            &format!("- metadata: {{name: configdb1}}\n        spec: {{serviceConfiguration: {{{}}}}}\n", heap(", ")),
        )
        .replace(
            "          serviceConfiguration:\n",
            &format!("          serviceConfiguration:\n            {}\n", heap("\n            ")),
        )
        .replace(VROUTER, &format!("{VROUTER}{AGENT_ALONE}"));
    anyhow::ensure!(small.matches("192M").count() == 2, "examples/manager.yaml has other Cassandras than it had");
    anyhow::ensure!(small.ends_with(AGENT_ALONE), "examples/manager.yaml has no vRouter at its end");
    Ok(small)
}

/// The same with variables of the vRouter's agent.
///
/// # Errors
/// As [`manifest`].
pub fn manifest_with(variables: &str) -> Result<String> {
    Ok(format!("{}            envVariablesConfig: {{{variables}}}\n", manifest()?))
}

/// The same with so many control nodes.
///
/// # Errors
/// As [`manifest`].
pub fn manifest_of_control_nodes(count: u32) -> Result<String> {
    let spec = format!("{CONTROL}        spec: {{commonConfiguration: {{replicas: {count}}}}}\n");
    let manifest = manifest()?;
    anyhow::ensure!(manifest.contains(CONTROL), "examples/manager.yaml has other control nodes than it had");
    Ok(manifest.replace(CONTROL, &spec))
}

/// What the example has for analytics alone.
const OF_ANALYTICS: [&str; 4] = ["analytics", "analyticsAlarm", "analyticsSnmp", "queryengine"];

/// The same where somebody authenticates users, as `authParameters` say.
///
/// # Errors
/// As [`manifest`].
pub fn manifest_with_users(parameters: Value) -> Result<Value> {
    let mut manifest: Value = serde_saphyr::from_str(&manifest()?)?;
    manifest["spec"]["commonConfiguration"]["authParameters"] = parameters;
    Ok(manifest)
}

/// The same without analytics: half of the processes.
///
/// # Errors
/// As [`manifest`].
pub fn manifest_without_analytics() -> Result<Value> {
    let mut manifest: Value = serde_saphyr::from_str(&manifest()?)?;
    let services = manifest["spec"]["services"].as_object_mut().context("examples/manager.yaml has no services")?;
    for name in OF_ANALYTICS {
        services.remove(name).with_context(|| format!("examples/manager.yaml has no {name}"))?;
    }
    let rings = services.get_mut("cassandras").and_then(Value::as_array_mut).context("no rings")?;
    rings.retain(|ring| ring["metadata"]["name"] == "configdb1");
    Ok(manifest)
}

/// The same without analytics, with two workers of the API, and with other ports than the usual ones wherever a spec moves them.
///
/// # Errors
/// As [`manifest`].
pub fn manifest_on_moved_ports() -> Result<Value> {
    let mut manifest = manifest_without_analytics()?;
    let services = manifest["spec"]["services"].as_object_mut().context("examples/manager.yaml has no services")?;
    let moved = json!({
        "cassandras": { "cqlPort": 9141, "sslStoragePort": 7113, "jmxLocalPort": 7301 },
        "zookeeper": { "clientPort": 2281, "electionPort": 2988, "serverPort": 3988, "adminPort": 2282 },
        "rabbitmq": { "port": 5683, "erlEpmdPort": 4381 },
        "redis": { "redisPort": 6489 },
        "config": {
            "apiPort": MOVED_API, "apiIntrospectPort": 9184, "schemaIntrospectPort": 9187, "svcMonitorIntrospectPort": 9188,
            "deviceManagerIntrospectPort": 9196, "apiWorkerCount": 2,
        },
        "controls": { "bgpPort": 1179, "xmppPort": 6269, "dnsPort": 1053, "dnsIntrospectPort": 9192 },
    });
    for (key, ports) in moved.as_object().into_iter().flatten() {
        let service = services.get_mut(key).with_context(|| format!("examples/manager.yaml has no {key}"))?;
        let of_each: Vec<&mut Value> =
            if service.is_array() { service.as_array_mut().into_iter().flatten().collect() } else { vec![service] };
        for resource in of_each {
            for (field, port) in ports.as_object().into_iter().flatten() {
                resource["spec"]["serviceConfiguration"][field] = port.clone();
            }
        }
    }
    Ok(manifest)
}

/// A lab of control-plane nodes that have the images, with every operator installed from its chart.
///
/// # Errors
/// When one of them cannot be had.
pub async fn installed(nodes: u32, namespace: &str, archives: &[PathBuf]) -> Result<Lab> {
    let lab = Lab::start(Options::real(nodes)).await?;
    for node in lab.real_nodes()?.all()? {
        operator::label_control_plane(&lab, node.name()).await?;
        node.stand_in_for_vhost0().await?;
    }
    lab.real_nodes()?.load(archives).await?;
    try_join_all(operators::ALL.map(|name| {
        let lab = &lab;
        async move {
            let values = ["replicaCount=1".to_owned()].into_iter().chain(values(name)).collect();
            lab.install(name, namespace, &Install { values, ..Install::default() }).await
        }
    }))
    .await?;
    Ok(lab)
}

/// Values of an operator's chart, by which its pods run played daemons.
pub fn values(operator: &str) -> Vec<String> {
    stand_ins(operator).into_iter().map(|(_, name, image)| format!("{IMAGES}{name}={image}")).collect()
}

/// The images that an operator's pods run, by the names that releases have them under. Of each the archive and the image that the lab has in its place.
pub fn stand_ins(operator: &str) -> Vec<(&'static str, &'static str, &'static str)> {
    let sim = |names: &[&'static str]| names.iter().map(|name| ("tf-sim", *name, SIM)).collect();
    let store = |archive: &'static str, value: &'static str| {
        let (name, image) = value.trim_start_matches(IMAGES).split_once('=').unwrap_or_default();
        (archive, name, image)
    };
    match operator {
        "analytics-op" => {
            let mut all: Vec<_> = sim(&ANALYTICS);
            all.push(store(image::KAFKA_ARCHIVE, image::KAFKA));
            all
        }
        "cassandra-op" => vec![store(image::CASSANDRA_ARCHIVE, image::CASSANDRA)],
        "rabbitmq-op" => vec![store(image::RABBITMQ_ARCHIVE, image::RABBITMQ)],
        "redis-op" => vec![store(image::REDIS_ARCHIVE, image::REDIS)],
        "zookeeper-op" => vec![store(image::ZOOKEEPER_ARCHIVE, image::ZOOKEEPER)],
        "vrouter-op" => sim(&["kubernetes-cni-init", "vrouter-agent"]),
        "config-op" => sim(&CONFIG),
        "kubemanager-op" => sim(&["kubernetes-kube-manager"]),
        "webui-op" => sim(&["controller-webui-job", "controller-webui-web"]),
        "control-op" => sim(&["controller-control-control", "controller-control-dns", "controller-control-named"]),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_whole_and_its_vrouter_needs_no_kernel_module() {
        let manifest: Value = serde_saphyr::from_str(&manifest().unwrap()).unwrap();
        let services = manifest["spec"]["services"].as_object().unwrap();
        let kinds = [
            "analytics",
            "analyticsAlarm",
            "analyticsSnmp",
            "cassandras",
            "config",
            "controls",
            "kubemanager",
            "queryengine",
            "rabbitmq",
            "redis",
            "vrouters",
            "webui",
            "zookeeper",
        ];
        assert_eq!(services.keys().collect::<Vec<_>>(), kinds);
        let vrouter = &services["vrouters"][0]["spec"]["serviceConfiguration"];
        assert_eq!(vrouter["containers"], serde_json::json!([{"name": "vrouteragent"}]));
        let fewer: Value = serde_saphyr::from_str(&manifest_of_control_nodes(2).unwrap()).unwrap();
        assert_eq!(fewer["spec"]["services"]["controls"][0]["spec"]["commonConfiguration"]["replicas"], 2);
        let with: Value = serde_saphyr::from_str(&manifest_with("A: \"1\"").unwrap()).unwrap();
        let vrouter = &with["spec"]["services"]["vrouters"][0]["spec"]["serviceConfiguration"];
        assert_eq!(vrouter["envVariablesConfig"]["A"], "1");
        let rings = services["cassandras"].as_array().unwrap();
        assert!(rings.iter().all(|ring| ring["spec"]["serviceConfiguration"]["maxHeapSize"] == "192M"), "{rings:?}");
    }
    #[test]
    fn of_the_example_on_moved_ports_nothing_is_left_of_analytics_and_no_heap_is_lost() {
        let manifest = manifest_on_moved_ports().unwrap();
        let services = manifest["spec"]["services"].as_object().unwrap();
        let kinds =
            ["cassandras", "config", "controls", "kubemanager", "rabbitmq", "redis", "vrouters", "webui", "zookeeper"];
        assert_eq!(services.keys().collect::<Vec<_>>(), kinds);
        let rings = services["cassandras"].as_array().unwrap();
        assert_eq!(rings.len(), 1);
        let ring = &rings[0]["spec"]["serviceConfiguration"];
        assert_eq!((&ring["cqlPort"], &ring["maxHeapSize"]), (&json!(9141), &json!("192M")));
        assert_eq!(services["config"]["spec"]["serviceConfiguration"]["apiPort"], MOVED_API);
        assert_eq!(services["redis"][0]["spec"]["serviceConfiguration"]["redisPort"], 6489);
    }
}
