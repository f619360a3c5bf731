//! The demo on real nodes: operators are pods of their charts, stores are servers that run, and the daemons of Config and Control and the vRouter's
//! agents are played by `tf-sim`, which connects to each server that their files name.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt as _,
    api::{Api, ListParams},
};
use tf_testing::{
    Lab,
    identity::Identity,
    operators,
    real::{
        image,
        sim::{AGENT, NodeStatus, Visitor},
        whole,
    },
    wait::eventually,
};

use super::{NAMESPACE, applied, keep};

const NODES: u32 = 3;
/// Daemons of Config: every member's API is at work, and one of each of the others.
const API: &str = "contrail-api";
const ELECTED: [&str; 3] = ["contrail-device-manager", "contrail-schema", "contrail-svc-monitor"];
/// Processes whose memory is told, by what they are.
const PROCESSES: [(&str, &str); 21] = [
    ("beam.smp", "RabbitMQ"),
    ("contrail-alarm-", "played"),
    ("contrail-analyt", "played"),
    ("contrail-api", "played"),
    ("contrail-collec", "played"),
    ("contrail-contro", "played"),
    ("contrail-device", "played"),
    ("contrail-dns", "played"),
    ("contrail-kube-m", "played"),
    ("contrail-named", "played"),
    ("contrail-query-", "played"),
    ("contrail-schema", "played"),
    ("contrail-svc-mo", "played"),
    ("contrail-vroute", "played, forwards nothing"),
    ("dnsmasq", "played"),
    ("java", "Cassandra, ZooKeeper, Kafka"),
    ("node", "played"),
    ("redis-server", "Redis"),
    ("tf-node", "node agents"),
    ("tf-snmp-collect", "played"),
    ("tf-topology", "played"),
];

/// Brings a manifest up and shows that it is one system.
pub async fn show(demo: &super::Demo, manifest: &str, images: &Path) -> Result<()> {
    let begun = Instant::now();
    println!("starting a control plane with {NODES} real nodes");
    let archives = image::archives_in(images, &whole::archives())?;
    let lab = whole::installed(NODES, NAMESPACE, &archives).await?;
    let elapsed = begun.elapsed().as_secs_f64();
    println!("{elapsed:5.1} s  every node is Ready, has the images, and {} charts are installed", operators::ALL.len());
    let took = applied(&lab.client().await?, NAMESPACE, demo, manifest, &[], begun).await?;
    println!("\nReady after {:.1} s\n", took.as_secs_f64());
    pods(&lab).await?;
    if has_config(&lab).await? {
        proof(&lab, demo).await?;
    }
    memory(&lab)?;
    keep(&lab, demo).await
}

/// Pods with their containers, by node.
async fn pods(lab: &Lab) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(lab.client().await?, NAMESPACE);
    let mut lines = Vec::new();
    for pod in pods.list(&ListParams::default()).await? {
        let spec = pod.spec.clone().context("spec")?;
        let containers: Vec<_> = spec.containers.iter().map(|container| container.name.as_str()).collect();
        let node = spec.node_name.unwrap_or_default();
        let restarts: i32 =
            pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten()).map(|c| c.restart_count).sum();
        lines.push(format!("{node:<8} {:<44} {} (restarts: {restarts})", pod.name_any(), containers.join(", ")));
    }
    lines.sort();
    println!("{}\n", lines.join("\n"));
    Ok(())
}

async fn has_config(lab: &Lab) -> Result<bool> {
    Ok(super::all(lab).await?.iter().any(|resource| resource.kind == tf_api::kinds::CONFIG))
}

/// What daemons say of their connections; and an object that one API makes is told to all of them, and read from each.
async fn proof(lab: &Lab, demo: &super::Demo) -> Result<()> {
    let visitor = Visitor::of(&lab.client().await?, NAMESPACE).await?;
    let addresses = lab.real_nodes()?.addresses()?;
    let limit = std::time::Duration::from_secs(demo.limit);
    let statuses = eventually("every daemon to be Functional", limit, async || {
        let found = visitor.statuses(&addresses).await?;
        let every_api = addresses.iter().all(|address| found.contains_key(&(API, *address)));
        let one_of_each = ELECTED.iter().all(|daemon| found.keys().any(|(name, _)| name == daemon));
        let is_well = every_api && one_of_each && found.values().all(NodeStatus::is_functional);
        Ok(is_well.then_some(found))
    })
    .await?;
    for ((daemon, address), status) in &statuses {
        let peers: Vec<_> = status.connections.iter().map(|(name, (status, _))| format!("{name} {status}")).collect();
        println!("{daemon:<24} {address:<12} {}: {}", status.state, peers.join(", "));
    }
    for (address, status) in visitor.agents(&addresses).await? {
        println!("{:<24} {address:<12} {}: {}", AGENT.0, status.state, status.description);
    }
    let begun = Instant::now();
    let id = visitor.create(addresses[0], "demo").await?;
    for address in &addresses {
        eventually("the object to be told", limit, async || {
            let (object, told) = visitor.read(*address, &id).await?;
            ensure!(object["fq_name"][2] == "demo", "{object}");
            Ok(told.then_some(()))
        })
        .await?;
    }
    let milliseconds = begun.elapsed().as_millis();
    println!(
        "\na network made by the API on {} is read from all {}, which received it: {milliseconds} ms\n",
        addresses[0],
        addresses.len()
    );
    Ok(())
}

/// Resident memory of what runs on the nodes.
fn memory(lab: &Lab) -> Result<()> {
    println!("{:<16} {:<28} {:>9} {:>10}", "process", "what", "processes", "memory");
    for (name, what) in PROCESSES {
        let mut found: Vec<Identity> = Vec::new();
        for node in lab.real_nodes()?.all()? {
            found.extend(node.processes(name)?);
        }
        let bytes: u64 = found.iter().filter_map(Identity::usage).map(|usage| usage.rss_bytes).sum();
        println!("{name:<16} {what:<28} {:>9} {:>6} MiB", found.len(), bytes / 1024 / 1024);
    }
    Ok(())
}
