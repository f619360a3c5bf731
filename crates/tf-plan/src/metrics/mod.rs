//! Every metric that alerts and dashboards may rest on, as data.
//!
//! The runtime registers its metrics from this table and from nothing else, the documents, the alert rules and the dashboards are made
//! from it, and tests compare it with what a running operator and running servers tell. A name here is stable.

mod operator;
mod servers;

pub use operator::{
    AGENTS, API_REQUESTS, AUTHORITY_END, AUTHORITY_LATE, CERTIFICATE_END, CERTIFICATE_LATE, CONDITION, CONDITION_SINCE,
    DAEMON_CONNECTIONS_DOWN, DAEMON_SERVING, DAEMON_STANDBY, DAEMON_WANTED, IN_BACKOFF, INITIALIZED, LEADER,
    MEMBERS_READY, MEMBERS_WANTED, OBJECTS, OPERATOR, POD_RESTARTS, PROCESS, PROCESS_CPU, PROCESS_MEMORY,
    RECONCILE_DURATION, RECONCILES, REGISTRATION_CALLS, REPAIR_LATE, RESOURCES, RESOURCES_OMITTED, UNDECODABLE,
    UNREGISTERED, WATCH_ERRORS, WATCH_SYNCED,
};
pub use servers::{
    RABBITMQ, RABBITMQ_CONNECTIONS, RABBITMQ_DISK, RABBITMQ_DISK_ALARM, RABBITMQ_DISK_LIMIT, RABBITMQ_MEMORY,
    RABBITMQ_MEMORY_ALARM, RABBITMQ_MEMORY_LIMIT, RABBITMQ_READY, RABBITMQ_UNACKNOWLEDGED, ZOOKEEPER,
    ZOOKEEPER_CONNECTIONS, ZOOKEEPER_DATA, ZOOKEEPER_LATENCY, ZOOKEEPER_NODES, ZOOKEEPER_OUTSTANDING, ZOOKEEPER_SIZE,
    ZOOKEEPER_SYNCED,
};

/// Name of the label that every metric of an operator has: which operator.
pub const OPERATOR_LABEL: &str = "operator";

/// Labels that name a resource of ours. Not `namespace` and `name`: Prometheus gives the former to what it scrapes, and would rename
/// ours.
pub const RESOURCE_LABELS: [&str; 3] = ["kind", "resource_namespace", "resource_name"];

/// How a metric changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Type {
    /// Only ever grows, from 0 at the start of the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Buckets, sum and count.
    Histogram,
}

/// What the number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Unit {
    /// Things.
    Number,
    /// 1 if it holds, else 0.
    #[strum(serialize = "0 or 1")]
    Flag,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds since 1970.
    #[strum(serialize = "seconds since 1970")]
    Moment,
    /// Bytes.
    Bytes,
}

/// Which process tells a metric, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Told {
    /// Each operator.
    #[strum(serialize = "each operator")]
    Always,
    /// The process that leads, of an operator that speaks with agents, while there are members.
    #[strum(serialize = "leader, while there are members")]
    OfMembers,
    /// The process of `cassandra-op` that leads, while a ring has to be repaired from time to time.
    #[strum(serialize = "leader, while a ring is to be repaired")]
    OfRings,
    /// The process that leads, of an operator that registers something, once it has looked.
    #[strum(serialize = "leader, where something is registered")]
    OfRegistered,
    /// The process that leads.
    #[strum(serialize = "leader")]
    ByLeader,
    /// Each server.
    #[strum(serialize = "each server")]
    ByServer,
    /// The server that leads the others.
    #[strum(serialize = "leading server")]
    ByLeadingServer,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, without what a histogram appends.
    pub name: &'static str,
    /// How it changes.
    pub kind: Type,
    /// Its labels, without [`OPERATOR_LABEL`].
    pub labels: &'static [&'static str],
    /// What the number counts.
    pub unit: Unit,
    /// What it says, and which values labels have, for people.
    pub meaning: &'static str,
    /// Who tells it.
    pub told: Told,
}

/// Every metric of the table.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    [OPERATOR.as_slice(), &PROCESS, &RABBITMQ, &ZOOKEEPER].into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Prometheus' rules for names: <https://prometheus.io/docs/practices/naming/>.
    #[test]
    fn names_are_unique_and_say_what_they_are() {
        let mut names = BTreeSet::new();
        for Metric { name, kind, unit, labels, meaning, .. } in all() {
            assert!(names.insert(name), "{name} is there twice");
            assert!(name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Type::Counter, "{name}");
            assert!(!labels.contains(&OPERATOR_LABEL), "{name}");
            assert!(!meaning.is_empty() && !meaning.ends_with('.') && !meaning.contains('|'), "{name}: {meaning}");
            if name.starts_with("tf_") {
                assert_eq!(name.ends_with("_timestamp_seconds"), *unit == Unit::Moment, "{name}");
            }
        }
    }

    #[test]
    fn what_names_a_resource_is_named_alike_and_told_by_one_process() {
        for metric in OPERATOR {
            assert!(metric.name.starts_with("tf_"), "{}", metric.name);
            if metric.labels.contains(&"resource_name") {
                assert_eq!(metric.labels[..3], RESOURCE_LABELS, "{}", metric.name);
                assert!(
                    matches!(metric.told, Told::ByLeader | Told::OfMembers | Told::OfRegistered | Told::OfRings),
                    "{}",
                    metric.name
                );
            }
        }
    }
}
