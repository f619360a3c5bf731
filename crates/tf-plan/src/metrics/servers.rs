//! What servers tell themselves, as far as alerts and dashboards use it. Redis and Cassandra tell nothing over HTTP here.

use super::{Metric, Told, Type, Unit};

const fn gauge(name: &'static str, unit: Unit, meaning: &'static str) -> Metric {
    Metric { name, kind: Type::Gauge, labels: &[], unit, meaning, told: Told::ByServer }
}

/// Memory alarm.
pub const RABBITMQ_MEMORY_ALARM: Metric = gauge(
    "rabbitmq_alarms_memory_used_watermark",
    Unit::Flag,
    "Whether the server is short of memory, which keeps publishers of the whole cluster waiting",
);
/// Disk alarm.
pub const RABBITMQ_DISK_ALARM: Metric = gauge(
    "rabbitmq_alarms_free_disk_space_watermark",
    Unit::Flag,
    "Whether the server is short of disk, which keeps publishers of the whole cluster waiting",
);
/// Memory in use.
pub const RABBITMQ_MEMORY: Metric =
    gauge("rabbitmq_process_resident_memory_bytes", Unit::Bytes, "Memory that the server has in use");
/// Memory that raises the alarm.
pub const RABBITMQ_MEMORY_LIMIT: Metric =
    gauge("rabbitmq_resident_memory_limit_bytes", Unit::Bytes, "Memory from which on the server is short of it");
/// Free disk.
pub const RABBITMQ_DISK: Metric =
    gauge("rabbitmq_disk_space_available_bytes", Unit::Bytes, "Disk that is free for the server");
/// Free disk that raises the alarm.
pub const RABBITMQ_DISK_LIMIT: Metric =
    gauge("rabbitmq_disk_space_available_limit_bytes", Unit::Bytes, "Free disk below which the server is short of it");
/// Connections.
pub const RABBITMQ_CONNECTIONS: Metric = gauge("rabbitmq_connections", Unit::Number, "Connections of clients");
/// Messages that wait.
pub const RABBITMQ_READY: Metric =
    gauge("rabbitmq_queue_messages_ready", Unit::Number, "Messages in queues that wait for a consumer");
/// Messages that consumers have.
pub const RABBITMQ_UNACKNOWLEDGED: Metric =
    gauge("rabbitmq_queue_messages_unacked", Unit::Number, "Messages that consumers have and did not acknowledge");

/// Of RabbitMQ's plugin `rabbitmq_prometheus`, which always runs here: HTTPS on the port 10019 above the one for AMQP. Names:
/// rabbitmq-server, `deps/rabbitmq_prometheus/metrics.md` and its `prometheus_rabbitmq_alarm_metrics_collector`.
pub const RABBITMQ: [&Metric; 9] = [
    &RABBITMQ_DISK_ALARM,
    &RABBITMQ_MEMORY_ALARM,
    &RABBITMQ_CONNECTIONS,
    &RABBITMQ_DISK,
    &RABBITMQ_DISK_LIMIT,
    &RABBITMQ_MEMORY,
    &RABBITMQ_MEMORY_LIMIT,
    &RABBITMQ_READY,
    &RABBITMQ_UNACKNOWLEDGED,
];

/// Members of the quorum.
pub const ZOOKEEPER_SIZE: Metric =
    gauge("quorum_size", Unit::Number, "Servers with a vote, by the server's list of members");
/// Followers.
pub const ZOOKEEPER_SYNCED: Metric = Metric {
    told: Told::ByLeadingServer,
    ..gauge("synced_followers", Unit::Number, "Followers with a vote that are in sync with the leader")
};
/// Requests under way.
pub const ZOOKEEPER_OUTSTANDING: Metric =
    gauge("outstanding_requests", Unit::Number, "Requests that wait to be processed");
/// Latency.
pub const ZOOKEEPER_LATENCY: Metric =
    gauge("avg_latency", Unit::Milliseconds, "Average time to an answer since the server began");
/// Connections.
pub const ZOOKEEPER_CONNECTIONS: Metric = gauge("num_alive_connections", Unit::Number, "Connections of clients");
/// Data nodes.
pub const ZOOKEEPER_NODES: Metric = gauge("znode_count", Unit::Number, "Nodes in the tree of data");
/// Data.
pub const ZOOKEEPER_DATA: Metric = gauge("approximate_data_size", Unit::Bytes, "Size of the data, about");

/// Of ZooKeeper's `PrometheusMetricsProvider`, from 3.6 on, where the spec has a `metricsPort`. Names: `ZooKeeperServer.registerMetrics` and
/// `LeaderZooKeeperServer.registerMetrics` of zookeeper 3.9.
pub const ZOOKEEPER: [&Metric; 7] = [
    &ZOOKEEPER_DATA,
    &ZOOKEEPER_LATENCY,
    &ZOOKEEPER_CONNECTIONS,
    &ZOOKEEPER_OUTSTANDING,
    &ZOOKEEPER_SIZE,
    &ZOOKEEPER_SYNCED,
    &ZOOKEEPER_NODES,
];
