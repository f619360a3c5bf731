//! The broker of Kafka beside each alarm generator (docs/upstream/analytics.md#kafka).
//!
//! Collectors send again what is in Kafka, so a broker keeps it in a directory that goes with its pod. Brokers and their clients show
//! certificates to each other; no other client gets in.

use k8s_openapi::api::core::v1::{Volume, VolumeMount};
use tf_agent_api::{
    launch::{Launch, Probe, Unusable, port},
    node,
};
use tf_api::{contract::MemberStatus, ports};
use tf_config_files::{Properties, Separator::Comma, Settings as _, Unrepresentable, url::authority};
use tf_contrail::daemon::{self, Daemon, LOG_DIR, native, path};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{DaemonContainer, mount},
        storage::empty_dir,
    },
    images::Builtin,
    not_ready::NotReady,
};

use crate::{alarm::Cluster, config::PARTITIONS, services::KAFKA};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "kafka", image: "external-kafka", default: true };
/// The configuration.
const FILE: &str = "server.properties";
/// Volume of what brokers keep.
const DATA: &str = "kafka-data";
const DATA_DIR: &str = "/var/lib/kafka";
/// Where the images have the program (docs/upstream/images.md#programs).
const PROGRAM: &str = "/opt/kafka/bin/kafka-server-start.sh";

/// The broker.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let mut container = DaemonContainer { ports: vec![(KAFKA, ports::KAFKA)], ..native(container) };
    container.mounts.push(data());
    let mut files = Files::default();
    for member in cluster.members {
        files.member(FILE, &member.address, file(cluster, member)?);
    }
    Ok(Daemon::new(container, launch()?, files))
}

/// The volume of what brokers keep.
pub fn volume() -> Volume {
    empty_dir(DATA)
}

/// The mount of what brokers keep.
pub fn data() -> VolumeMount {
    mount(DATA, DATA_DIR)
}

fn launch() -> Result<Launch, Unusable> {
    let mut launch = daemon::launch(vec![PROGRAM.into(), path(FILE)], [FILE], Vec::new());
    launch.awaits.extend([node::KEYSTORE_PEM, node::TRUSTSTORE_PEM].map(str::to_owned));
    launch.environment.insert("LOG_DIR".into(), LOG_DIR.into());
    launch.ready = Probe::Kafka { port: port("ready.port", ports::KAFKA)? };
    Ok(launch)
}

/// [`FILE`]. What is made automatically is on as many brokers as there are, three at most.
fn file(cluster: &Cluster<'_>, member: &MemberStatus) -> Result<String, Unrepresentable> {
    let copies = cluster.members.len().clamp(1, 3);
    let listener = format!("SSL://{}", authority(&member.address, ports::KAFKA.get()));
    let mut file = Properties::java(FILE);
    file.set("broker.id", member.id)
        .set("reserved.broker.max.id", 100_001)
        .set("listeners", &listener)
        .set("advertised.listeners", &listener)
        .set("security.inter.broker.protocol", "SSL")
        .set("ssl.client.auth", "required")
        .set("ssl.keystore.type", "PEM")
        .set("ssl.keystore.location", node::KEYSTORE_PEM)
        .set("ssl.truststore.type", "PEM")
        .set("ssl.truststore.location", node::TRUSTSTORE_PEM)
        .list("zookeeper.connect", Comma, &cluster.around.services.zookeeper)
        .set("log.dirs", DATA_DIR)
        .set("num.partitions", PARTITIONS)
        .set("default.replication.factor", copies)
        .set("offsets.topic.replication.factor", copies)
        // Topics that were made when there were fewer brokers have fewer copies, and no producer could write to them.
        .set("min.insync.replicas", 1)
        // Of a partition without any copy in sync another one is better than none: collectors send the state again.
        .set("unclean.leader.election.enable", true)
        .set("log.cleanup.policy", "delete")
        .set("log.retention.hours", 24)
        .set("log.retention.bytes", 268_435_456)
        .set("log.segment.bytes", 268_435_456)
        // Of memory. The usual 128 MiB are for many compacted topics, and there is none but that of consumers' offsets.
        .set("log.cleaner.dedupe.buffer.size", 16_777_216);
    file.render()
}
