//! What is told of each resource: made anew from a snapshot whenever somebody asks, so that nothing is left of a resource that is gone and
//! nothing lags behind its status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use prometheus::IntGaugeVec;
use tf_api::contract::{ConditionType, Contract, DaemonStatus};
use tf_pki::lifetime::Validity;
use tf_plan::metrics as table;

use super::Registering;
use crate::object::Key;

/// Resources of one kind that have metrics of their own. Who may create resources must not be able to fill the memory of the operator
/// and of whoever collects its metrics.
const LIMIT: usize = 100;

/// Daemons of one resource that are told; the kind with the most has six.
const DAEMONS: usize = 16;

/// Conditions that are told.
const CONDITIONS: [ConditionType; 10] = [
    ConditionType::Ready,
    ConditionType::Available,
    ConditionType::Progressing,
    ConditionType::Degraded,
    ConditionType::DependenciesReady,
    ConditionType::CertificatesReady,
    ConditionType::Provisioned,
    ConditionType::Stalled,
    ConditionType::Paused,
    ConditionType::Hibernated,
];
/// Their values, as a status has them.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];
/// Values of label `ready`.
const READINESS: [&str; 3] = ["true", "false", "unknown"];

/// A condition as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    kind: ConditionType,
    status: &'static str,
    since: Option<Timestamp>,
}

/// A daemon as it is told: in how many pods it is how, and how many connections it lacks there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Daemon {
    name: String,
    wanted: i64,
    serving: i64,
    standby: i64,
    connections_down: i64,
}

impl Daemon {
    fn of(status: &DaemonStatus) -> Self {
        Self {
            name: status.name.clone(),
            wanted: status.wanted.into(),
            serving: status.serving.into(),
            standby: status.standby.unwrap_or_default().into(),
            connections_down: status.connections.iter().map(|connection| i64::from(connection.down)).sum(),
        }
    }
}

/// How many agents of a resource are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// They answer.
    pub answering: i64,
    /// They did not answer several times in a row.
    pub silent: i64,
    /// They were not asked to the end yet.
    pub unheard: i64,
}

/// What is told of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    conditions: Vec<Condition>,
    initialized: bool,
    wanted: Option<i32>,
    ready: Option<i32>,
    daemons: Vec<Daemon>,
    /// Its agents, where its operator speaks with some.
    pub agents: Option<Answers>,
    /// When the first certificate of a member ends.
    pub certificate_end: Option<Timestamp>,
    /// When the first one is late with its renewal.
    pub certificate_late: Option<Timestamp>,
    /// When a repair is late.
    pub repair_late: Option<Timestamp>,
    /// How many of its objects are not in the config API as they shall be.
    pub unregistered: Option<i64>,
}

impl Facts {
    /// What a status says; nothing was said where there is none.
    pub fn of(contract: Option<&Contract>) -> Self {
        let conditions = CONDITIONS.into_iter().filter_map(|kind| condition(contract, kind));
        Self {
            conditions: conditions.collect(),
            initialized: contract.is_some_and(|contract| contract.initialized == Some(true)),
            wanted: contract.and_then(|contract| contract.replicas),
            ready: contract.and_then(|contract| contract.ready_replicas),
            daemons: contract
                .into_iter()
                .flat_map(|contract| &contract.daemons)
                .take(DAEMONS)
                .map(Daemon::of)
                .collect(),
            ..Self::default()
        }
    }

    fn ready(&self) -> &'static str {
        let status = self.conditions.iter().find(|condition| condition.kind == ConditionType::Ready);
        match status.map(|condition| condition.status) {
            Some("True") => "true",
            Some("False") => "false",
            _ => "unknown",
        }
    }
}

/// The condition in a status. One that is only ever written as True does not hold where it is absent; one that not every resource has is
/// not told of those that have none.
fn condition(contract: Option<&Contract>, kind: ConditionType) -> Option<Condition> {
    let found = contract.and_then(|contract| contract.conditions.iter().find(|it| it.type_ == kind.as_ref()));
    let (status, since) = match found {
        Some(found) => {
            let status = STATUSES.into_iter().find(|status| *status == found.status).unwrap_or("Unknown");
            (status, Some(found.last_transition_time.0))
        }
        None if kind.is_abnormal_true() => ("False", None),
        None if ConditionType::ALWAYS.contains(&kind) => ("Unknown", None),
        None => return None,
    };
    Some(Condition { kind, status, since })
}

/// What a process that leads knows of one kind.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Kind of the resources.
    pub kind: &'static str,
    /// They.
    pub resources: BTreeMap<Key, Facts>,
    /// How long the authority that signs in a namespace is good.
    pub authorities: BTreeMap<String, Validity>,
}

impl Snapshot {
    /// Those that have metrics of their own: where there are too many, those that are not Ready first.
    fn told(&self) -> Vec<(&Key, &Facts)> {
        let mut all: Vec<_> = self.resources.iter().collect();
        all.sort_by_key(|(_, facts)| facts.ready() == "true");
        all.truncate(LIMIT);
        all
    }
}

/// The metrics.
#[derive(Debug)]
pub(super) struct Resources {
    counts: IntGaugeVec,
    omitted: IntGaugeVec,
    conditions: IntGaugeVec,
    since: IntGaugeVec,
    initialized: IntGaugeVec,
    wanted: IntGaugeVec,
    ready: IntGaugeVec,
    daemons_wanted: IntGaugeVec,
    daemons_serving: IntGaugeVec,
    daemons_standby: IntGaugeVec,
    connections_down: IntGaugeVec,
    agents: IntGaugeVec,
    certificate_end: IntGaugeVec,
    certificate_late: IntGaugeVec,
    repair_late: IntGaugeVec,
    unregistered: IntGaugeVec,
    authority_end: IntGaugeVec,
    authority_late: IntGaugeVec,
}

impl Resources {
    pub(super) fn new(new: &Registering<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            counts: new.gauges(&table::RESOURCES)?,
            omitted: new.gauges(&table::RESOURCES_OMITTED)?,
            conditions: new.gauges(&table::CONDITION)?,
            since: new.gauges(&table::CONDITION_SINCE)?,
            initialized: new.gauges(&table::INITIALIZED)?,
            wanted: new.gauges(&table::MEMBERS_WANTED)?,
            ready: new.gauges(&table::MEMBERS_READY)?,
            daemons_wanted: new.gauges(&table::DAEMON_WANTED)?,
            daemons_serving: new.gauges(&table::DAEMON_SERVING)?,
            daemons_standby: new.gauges(&table::DAEMON_STANDBY)?,
            connections_down: new.gauges(&table::DAEMON_CONNECTIONS_DOWN)?,
            agents: new.gauges(&table::AGENTS)?,
            certificate_end: new.gauges(&table::CERTIFICATE_END)?,
            certificate_late: new.gauges(&table::CERTIFICATE_LATE)?,
            repair_late: new.gauges(&table::REPAIR_LATE)?,
            unregistered: new.gauges(&table::UNREGISTERED)?,
            authority_end: new.gauges(&table::AUTHORITY_END)?,
            authority_late: new.gauges(&table::AUTHORITY_LATE)?,
        })
    }

    /// Tells this and nothing else.
    pub(super) fn show(&self, snapshots: &[Snapshot]) {
        self.all().into_iter().for_each(IntGaugeVec::reset);
        if snapshots.is_empty() {
            return;
        }
        for ready in READINESS {
            let all = snapshots.iter().flat_map(|snapshot| snapshot.resources.values());
            self.counts.with_label_values(&[ready]).set(number(all.filter(|facts| facts.ready() == ready).count()));
        }
        let mut omitted = 0;
        for snapshot in snapshots {
            let told = snapshot.told();
            omitted += snapshot.resources.len() - told.len();
            for (key, facts) in told {
                self.resource([snapshot.kind, &key.namespace, &key.name], facts);
            }
            for (namespace, validity) in &snapshot.authorities {
                self.authority_end.with_label_values(&[namespace]).set(validity.not_after.as_second());
                self.authority_late.with_label_values(&[namespace]).set(validity.overdue().as_second());
            }
        }
        self.omitted.with_label_values::<&str>(&[]).set(number(omitted));
    }

    fn resource(&self, resource: [&str; 3], facts: &Facts) {
        let [kind, namespace, name] = resource;
        for Condition { kind: type_, status, since } in &facts.conditions {
            for possible in STATUSES {
                let labels = [kind, namespace, name, type_.as_ref(), possible];
                self.conditions.with_label_values(&labels).set(i64::from(*status == possible));
            }
            if let Some(since) = since {
                self.since.with_label_values(&[kind, namespace, name, type_.as_ref()]).set(since.as_second());
            }
        }
        self.initialized.with_label_values(&resource).set(i64::from(facts.initialized));
        if let Some(Answers { answering, silent, unheard }) = facts.agents {
            for (state, count) in [("answering", answering), ("silent", silent), ("unheard", unheard)] {
                self.agents.with_label_values(&[kind, namespace, name, state]).set(count);
            }
        }
        for Daemon { name: daemon, wanted, serving, standby, connections_down } in &facts.daemons {
            for (gauge, value) in [
                (&self.daemons_wanted, wanted),
                (&self.daemons_serving, serving),
                (&self.daemons_standby, standby),
                (&self.connections_down, connections_down),
            ] {
                gauge.with_label_values(&[kind, namespace, name, daemon]).set(*value);
            }
        }
        let second = |moment: Option<Timestamp>| moment.map(Timestamp::as_second);
        let numbers = [
            (&self.wanted, facts.wanted.map(i64::from)),
            (&self.ready, facts.ready.map(i64::from)),
            (&self.certificate_end, second(facts.certificate_end)),
            (&self.certificate_late, second(facts.certificate_late)),
            (&self.repair_late, second(facts.repair_late)),
            (&self.unregistered, facts.unregistered),
        ];
        // Nobody is told of a certificate that ended in 1970.
        for (gauge, value) in numbers {
            if let Some(value) = value {
                gauge.with_label_values(&resource).set(value);
            }
        }
    }

    fn all(&self) -> [&IntGaugeVec; 18] {
        let Self { counts, omitted, conditions, since, initialized, wanted, ready, agents, .. } = self;
        let Self { daemons_wanted, daemons_serving, daemons_standby, connections_down, .. } = self;
        let Self {
            certificate_end, certificate_late, repair_late, unregistered, authority_end, authority_late, ..
        } = self;
        [
            counts,
            omitted,
            conditions,
            since,
            initialized,
            wanted,
            ready,
            daemons_wanted,
            daemons_serving,
            daemons_standby,
            connections_down,
            agents,
            certificate_end,
            certificate_late,
            repair_late,
            unregistered,
            authority_end,
            authority_late,
        ]
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::metrics::Metrics;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A status with these conditions, each since second 1000.
    fn status(conditions: &[(&str, &str)]) -> Contract {
        let condition = |(kind, status): &(&str, &str)| {
            json!({
                "type": kind, "status": status, "reason": "Succeeded", "message": "",
                "lastTransitionTime": "1970-01-01T00:16:40Z", "observedGeneration": 1,
            })
        };
        let conditions: Vec<_> = conditions.iter().map(condition).collect();
        let status =
            json!({"contract": "v1", "initialized": true, "replicas": 3, "readyReplicas": 2, "conditions": conditions});
        serde_json::from_value(status).unwrap()
    }

    /// A snapshot that says something for each metric.
    pub fn full() -> Snapshot {
        let connection = |name: &str, down| json!({"name": name, "up": 1, "down": down});
        let daemon = json!({
            "name": "server", "wanted": 3, "serving": 2, "standby": 1,
            "connections": [connection("Database:Cassandra", 2), connection("Database:RabbitMQ", 0), connection("XMPP:a", 1)],
        });
        let daemons = serde_json::from_value(json!([daemon, {"name": "agent", "wanted": 3, "serving": 3}])).unwrap();
        let conditions = [("Ready", "False"), ("Available", "True"), ("Paused", "True")];
        let facts = Facts {
            agents: Some(Answers { answering: 2, silent: 1, unheard: 0 }),
            certificate_end: Some(at(3000)),
            certificate_late: Some(at(2000)),
            repair_late: Some(at(4000)),
            unregistered: Some(2),
            ..Facts::of(Some(&Contract { daemons, ..status(&conditions) }))
        };
        Snapshot {
            kind: "Zookeeper",
            resources: [(Key::new("tf", "zookeeper1"), facts)].into(),
            authorities: [("tf".to_owned(), Validity { not_before: at(0), not_after: at(6000) })].into(),
        }
    }

    /// Lines of the page about resources, without the operator.
    fn lines(metrics: &Metrics, snapshot: &Snapshot) -> Vec<String> {
        let text = String::from_utf8(metrics.page(std::slice::from_ref(snapshot)).unwrap()).unwrap();
        let plain = |line: &str| {
            line.replace(",operator=\"zookeeper-op\"", "")
                .replace("kind=\"Zookeeper\",", "")
                .replace("resource_name=\"zookeeper1\"", "N")
                .replace("resource_namespace=\"tf\"", "S")
        };
        text.lines().filter(|line| !line.starts_with('#') && line.contains("resource_name")).map(plain).collect()
    }

    #[test]
    fn a_status_is_told_with_each_value_of_each_condition_and_the_ends_of_certificates() {
        let metrics = Metrics::new("zookeeper-op").unwrap();
        let lines = lines(&metrics, &full());
        let is_told = |line: &str| assert!(lines.iter().any(|told| told == line), "{line} is not in {lines:#?}");
        for (kind, status) in [
            ("Ready", "False"),
            ("Available", "True"),
            // Every resource has one, and this status does not say it.
            ("Degraded", "Unknown"),
            // Absent means that it does not hold.
            ("Stalled", "False"),
            ("Paused", "True"),
        ] {
            for possible in STATUSES {
                let holds = i64::from(possible == status);
                is_told(&format!("tf_condition{{N,S,status=\"{possible}\",type=\"{kind}\"}} {holds}"));
            }
        }
        assert!(!lines.iter().any(|line| line.contains("DependenciesReady")), "this resource depends on nothing");
        is_told("tf_condition_transition_timestamp_seconds{N,S,type=\"Ready\"} 1000");
        is_told("tf_agents{N,S,state=\"silent\"} 1");
        is_told("tf_members_wanted{N,S} 3");
        is_told("tf_members_ready{N,S} 2");
        is_told("tf_daemon_wanted{daemon=\"server\",N,S} 3");
        is_told("tf_daemon_serving{daemon=\"server\",N,S} 2");
        is_told("tf_daemon_standby{daemon=\"server\",N,S} 1");
        is_told("tf_daemon_connections_down{daemon=\"server\",N,S} 3");
        is_told("tf_daemon_standby{daemon=\"agent\",N,S} 0");
        is_told("tf_daemon_connections_down{daemon=\"agent\",N,S} 0");
        is_told("tf_initialized{N,S} 1");
        is_told("tf_certificate_expiry_timestamp_seconds{N,S} 3000");
        is_told("tf_certificate_overdue_timestamp_seconds{N,S} 2000");
        is_told("tf_repair_overdue_timestamp_seconds{N,S} 4000");
        is_told("tf_unregistered_objects{N,S} 2");
        let text = String::from_utf8(metrics.page(std::slice::from_ref(&full())).unwrap()).unwrap();
        assert!(
            text.contains(
                "tf_authority_overdue_timestamp_seconds{resource_namespace=\"tf\",operator=\"zookeeper-op\"} 5000"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_resource_without_a_status_is_not_known_to_be_ready_and_has_no_numbers() {
        let facts = Facts::of(None);
        assert_eq!(facts.ready(), "unknown");
        let resources = [(Key::new("tf", "zookeeper1"), facts)].into();
        let metrics = Metrics::new("zookeeper-op").unwrap();
        let lines = lines(&metrics, &Snapshot { kind: "Zookeeper", resources, ..Snapshot::default() });
        assert!(lines.contains(&"tf_condition{N,S,status=\"Unknown\",type=\"Ready\"} 1".to_owned()), "{lines:#?}");
        assert!(
            lines.iter().all(|line| line.starts_with("tf_condition{") || line == "tf_initialized{N,S} 0"),
            "{lines:#?}"
        );
    }

    #[test]
    fn nothing_is_left_of_a_resource_that_is_gone() {
        let metrics = Metrics::new("zookeeper-op").unwrap();
        assert!(!lines(&metrics, &full()).is_empty());
        let none = Snapshot { kind: "Zookeeper", ..Snapshot::default() };
        assert_eq!(lines(&metrics, &none), Vec::<String>::new());
    }

    #[test]
    fn of_too_many_daemons_the_first_are_told() {
        let daemon = |number| DaemonStatus { name: format!("d{number:02}"), ..DaemonStatus::default() };
        let contract = Contract { daemons: (0..99).map(daemon).collect(), ..status(&[]) };
        let resources = [(Key::new("tf", "zookeeper1"), Facts::of(Some(&contract)))].into();
        let metrics = Metrics::new("zookeeper-op").unwrap();
        let lines = lines(&metrics, &Snapshot { kind: "Zookeeper", resources, ..Snapshot::default() });
        assert_eq!(lines.iter().filter(|line| line.starts_with("tf_daemon_wanted{")).count(), DAEMONS, "{lines:#?}");
    }

    #[test]
    fn of_too_many_resources_those_are_told_that_are_not_ready_and_the_others_are_counted() {
        let ready = Facts::of(Some(&status(&[("Ready", "True")])));
        let unready = Facts::of(Some(&status(&[("Ready", "False")])));
        let facts = |number: usize| if number >= 2 * LIMIT - 3 { unready.clone() } else { ready.clone() };
        let resources = (0..2 * LIMIT).map(|number| (Key::new("tf", format!("r{number:04}")), facts(number))).collect();
        let snapshot = Snapshot { kind: "Zookeeper", resources, ..Snapshot::default() };
        let told = snapshot.told();
        assert_eq!(told.len(), LIMIT);
        assert_eq!(told.iter().filter(|(_, facts)| facts.ready() == "false").count(), 3, "all of them");
        let metrics = Metrics::new("zookeeper-op").unwrap();
        let text = String::from_utf8(metrics.page(std::slice::from_ref(&snapshot)).unwrap()).unwrap();
        for line in
            ["tf_resources_omitted{operator=\"zookeeper-op\"} 100", "{ready=\"true\",operator=\"zookeeper-op\"} 197"]
        {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
