//! What operators tell.

use super::{Metric, Told, Type, Unit};

const fn counter(name: &'static str, labels: &'static [&'static str], meaning: &'static str) -> Metric {
    Metric { name, kind: Type::Counter, labels, unit: Unit::Number, meaning, told: Told::Always }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], unit: Unit, meaning: &'static str) -> Metric {
    Metric { name, kind: Type::Gauge, labels, unit, meaning, told: Told::Always }
}

const fn of_leader(metric: Metric) -> Metric {
    Metric { told: Told::ByLeader, ..metric }
}

const fn of_members(metric: Metric) -> Metric {
    Metric { told: Told::OfMembers, ..metric }
}

const RESOURCE: &[&str] = &super::RESOURCE_LABELS;

/// Requests to the API server.
pub const API_REQUESTS: Metric = counter("tf_api_requests_total", &["verb"], "Requests to the API server by verb");
/// Passes.
pub const RECONCILES: Metric = counter(
    "tf_reconcile_total",
    &["outcome"],
    "Reconcile passes by outcome: planned, waiting, invalid, failed, deleting",
);
/// How long they take.
pub const RECONCILE_DURATION: Metric = Metric {
    name: "tf_reconcile_duration_seconds",
    kind: Type::Histogram,
    labels: &[],
    unit: Unit::Seconds,
    meaning: "Duration of reconcile passes",
    told: Told::Always,
};
/// Objects and what was done to them.
pub const OBJECTS: Metric = counter(
    "tf_objects_total",
    &["kind", "action"],
    "Objects by kind and what was done to them: created, changed, unchanged, deleted",
);
/// Whether watches work.
pub const WATCH_SYNCED: Metric = gauge(
    "tf_watch_synced",
    &["kind"],
    Unit::Flag,
    "Whether the watch of a kind is synchronised; 0, too, while the definition of the kind is not installed",
);
/// Their errors.
pub const WATCH_ERRORS: Metric = counter("tf_watch_errors_total", &["kind"], "Errors of watches by kind");
/// Objects nobody can read.
pub const UNDECODABLE: Metric =
    gauge("tf_undecodable_objects", &["kind"], Unit::Number, "Stored objects that do not parse, by kind");
/// Resources that fail.
pub const IN_BACKOFF: Metric = gauge(
    "tf_resources_in_backoff",
    &[],
    Unit::Number,
    "Resources that are retried after a failure; 0 in a process that does not lead",
);
/// Who leads.
pub const LEADER: Metric = gauge("tf_leader", &[], Unit::Flag, "Whether this process holds the leader lease");
/// Restarted pods.
pub const POD_RESTARTS: Metric =
    gauge("tf_pod_restarts", &[], Unit::Number, "Pods that this process replaced since it began");

/// How many resources there are.
pub const RESOURCES: Metric = of_leader(gauge(
    "tf_resources",
    &["ready"],
    Unit::Number,
    "Resources by the value of their condition Ready: true, false, unknown",
));
/// How many of them have no metrics of their own.
pub const RESOURCES_OMITTED: Metric = of_leader(gauge(
    "tf_resources_omitted",
    &[],
    Unit::Number,
    "Resources beyond the first hundred, which have no metrics of their own; those that are not Ready come first",
));
/// Conditions.
pub const CONDITION: Metric = of_leader(gauge(
    "tf_condition",
    &["kind", "resource_namespace", "resource_name", "type", "status"],
    Unit::Flag,
    "Whether a condition of a resource has this status: True, False or Unknown; of the types Ready, Available, Progressing, \
     Degraded, DependenciesReady, CertificatesReady, Provisioned, Stalled, Paused and Hibernated",
));
/// Their age.
pub const CONDITION_SINCE: Metric = of_leader(gauge(
    "tf_condition_transition_timestamp_seconds",
    &["kind", "resource_namespace", "resource_name", "type"],
    Unit::Moment,
    "When the status of a condition changed last",
));
/// Whether a resource was brought up once.
pub const INITIALIZED: Metric = of_leader(gauge(
    "tf_initialized",
    RESOURCE,
    Unit::Flag,
    "Whether the first bring-up of a resource was complete once",
));
/// Members a resource is to have.
pub const MEMBERS_WANTED: Metric =
    of_leader(gauge("tf_members_wanted", RESOURCE, Unit::Number, "Members that a resource is to have"));
/// Members that serve.
pub const MEMBERS_READY: Metric =
    of_leader(gauge("tf_members_ready", RESOURCE, Unit::Number, "Members of a resource that are ready"));

const DAEMON: &[&str] = &["kind", "resource_namespace", "resource_name", "daemon"];

/// Pods that a daemon is to serve in.
pub const DAEMON_WANTED: Metric = of_members(gauge(
    "tf_daemon_wanted",
    DAEMON,
    Unit::Number,
    "Pods of a resource in which a daemon, named by its container, shall serve",
));
/// Pods that it serves in.
pub const DAEMON_SERVING: Metric = of_members(gauge(
    "tf_daemon_serving",
    DAEMON,
    Unit::Number,
    "Pods in which a daemon serves, those included in which it waits to take over",
));
/// Pods that it waits in.
pub const DAEMON_STANDBY: Metric = of_members(gauge(
    "tf_daemon_standby",
    DAEMON,
    Unit::Number,
    "Pods in which a daemon waits to take over from the member that is elected",
));
/// What it lost.
pub const DAEMON_CONNECTIONS_DOWN: Metric = of_members(gauge(
    "tf_daemon_connections_down",
    DAEMON,
    Unit::Number,
    "Connections that a daemon says are down, each in each pod; status.daemons names them",
));

/// Agents.
pub const AGENTS: Metric = of_members(gauge(
    "tf_agents",
    &["kind", "resource_namespace", "resource_name", "state"],
    Unit::Number,
    "Node agents of members by whether they answer the operator: answering, silent (two questions in a row), unheard (not \
     asked to the end yet)",
));
/// End of certificates.
pub const CERTIFICATE_END: Metric = of_members(gauge(
    "tf_certificate_expiry_timestamp_seconds",
    RESOURCE,
    Unit::Moment,
    "When the first certificate of a resource's members ends; absent while there is none",
));
/// When their renewal is late.
pub const CERTIFICATE_LATE: Metric = of_members(gauge(
    "tf_certificate_overdue_timestamp_seconds",
    RESOURCE,
    Unit::Moment,
    "When the first certificate of a resource's members is late with its renewal: five sixths of its life, as its agent reports it",
));
/// End of authorities.
pub const AUTHORITY_END: Metric = of_members(gauge(
    "tf_authority_expiry_timestamp_seconds",
    &["resource_namespace"],
    Unit::Moment,
    "When the authority ends that signs the certificates of a namespace (Secret tf-ca)",
));
/// When their replacement is late.
pub const AUTHORITY_LATE: Metric = of_members(gauge(
    "tf_authority_overdue_timestamp_seconds",
    &["resource_namespace"],
    Unit::Moment,
    "When the authority of a namespace is late with its replacement: five sixths of its life",
));

/// When a repair is late.
pub const REPAIR_LATE: Metric = Metric {
    told: Told::OfRings,
    ..gauge(
        "tf_repair_overdue_timestamp_seconds",
        RESOURCE,
        Unit::Moment,
        "When what was deleted in a Cassandra ring may come back, unless the next repair has succeeded: status.repairBy",
    )
};

/// What is asked of the config API.
pub const REGISTRATION_CALLS: Metric = counter(
    "tf_registration_calls_total",
    &["outcome"],
    "Changes asked of the config API by outcome: done, changed (another client was faster), refused, failed (the API cannot), unanswered",
);
/// What is not registered.
pub const UNREGISTERED: Metric = Metric {
    told: Told::OfRegistered,
    ..gauge(
        "tf_unregistered_objects",
        RESOURCE,
        Unit::Number,
        "Objects of a resource that are not in the config API as they shall be, when that was looked at last",
    )
};

/// What operators register.
pub const OPERATOR: [&Metric; 29] = [
    &AGENTS,
    &API_REQUESTS,
    &AUTHORITY_END,
    &AUTHORITY_LATE,
    &CERTIFICATE_END,
    &CERTIFICATE_LATE,
    &CONDITION,
    &CONDITION_SINCE,
    &DAEMON_CONNECTIONS_DOWN,
    &DAEMON_SERVING,
    &DAEMON_STANDBY,
    &DAEMON_WANTED,
    &INITIALIZED,
    &LEADER,
    &MEMBERS_READY,
    &MEMBERS_WANTED,
    &OBJECTS,
    &POD_RESTARTS,
    &RECONCILE_DURATION,
    &RECONCILES,
    &REGISTRATION_CALLS,
    &RESOURCES,
    &IN_BACKOFF,
    &REPAIR_LATE,
    &RESOURCES_OMITTED,
    &UNDECODABLE,
    &UNREGISTERED,
    &WATCH_ERRORS,
    &WATCH_SYNCED,
];

/// Processor time.
pub const PROCESS_CPU: Metric = Metric {
    unit: Unit::Seconds,
    ..counter("process_cpu_seconds_total", &[], "Processor time that the process has used")
};
/// Memory.
pub const PROCESS_MEMORY: Metric =
    gauge("process_resident_memory_bytes", &[], Unit::Bytes, "Memory that the process has in use");

/// What the Prometheus library tells of the process by itself.
pub const PROCESS: [&Metric; 7] = [
    &PROCESS_CPU,
    &gauge("process_max_fds", &[], Unit::Number, "File descriptors that the process may have"),
    &gauge("process_open_fds", &[], Unit::Number, "File descriptors that the process has open"),
    &PROCESS_MEMORY,
    &gauge("process_start_time_seconds", &[], Unit::Moment, "When the process began"),
    &gauge("process_threads", &[], Unit::Number, "Threads of the process"),
    &gauge("process_virtual_memory_bytes", &[], Unit::Bytes, "Address space of the process"),
];
