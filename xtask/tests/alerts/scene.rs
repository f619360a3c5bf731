//! Time series of an operator and one resource, a sample each minute: all well unless something else is said.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// Who the series are of.
#[derive(Clone, Copy)]
pub struct Subject {
    /// The operator.
    pub operator: &'static str,
    /// Kind of its resources.
    pub kind: &'static str,
    /// Whether it has members with agents and certificates.
    pub has_agents: bool,
    /// Hours after which a roll-out is slow.
    pub rollout_hours: usize,
    /// Minutes after which a resource is not Ready for long.
    pub unready_minutes: usize,
}

impl Subject {
    pub fn of(operator: &'static str) -> Result<Self> {
        let (kind, has_agents, rollout_hours, unready_minutes) = match operator {
            "analytics-op" => ("Analytics", true, 1, 15),
            "cassandra-op" => ("Cassandra", true, 6, 15),
            "config-op" => ("Config", true, 1, 15),
            "control-op" => ("Control", true, 1, 15),
            "kubemanager-op" => ("Kubemanager", true, 1, 15),
            "manager-op" => ("Manager", false, 1, 60),
            "rabbitmq-op" => ("Rabbitmq", true, 1, 15),
            "redis-op" => ("Redis", true, 1, 15),
            "vrouter-op" => ("Vrouter", true, 6, 15),
            "webui-op" => ("Webui", true, 1, 15),
            "zookeeper-op" => ("Zookeeper", true, 1, 15),
            other => bail!("{other}: no operator is known by this name"),
        };
        Ok(Self { operator, kind, has_agents, rollout_hours, unready_minutes })
    }

    /// Whether its resources cannot be well while a store of their namespace hibernates.
    pub fn needs_stores(&self) -> bool {
        matches!(
            self.operator,
            "analytics-op" | "config-op" | "control-op" | "kubemanager-op" | "manager-op" | "webui-op"
        )
    }

    /// Whether it registers something in the config API.
    pub fn registers(&self) -> bool {
        matches!(self.operator, "analytics-op" | "config-op" | "control-op" | "vrouter-op")
    }

    /// The name of an alert about its resources.
    pub fn alert(&self, name: &str) -> String {
        format!("{}{name}", self.kind)
    }
}

/// Minutes that series last.
pub const LENGTH: usize = 7 * 60;

/// The same value all the time.
pub fn always(value: i64) -> String {
    format!("{value}x{LENGTH}")
}

/// One value up to this minute, another one from then on.
pub fn from(minute: usize, before: i64, after: i64) -> String {
    format!("{before}x{} {after}x{LENGTH}", minute - 1)
}

/// Series by name and labels, with their values.
#[derive(Clone)]
pub struct Scene {
    subject: Subject,
    pub series: BTreeMap<String, String>,
}

impl Scene {
    /// Nothing is told.
    pub fn empty(subject: &Subject) -> Self {
        Self { subject: *subject, series: BTreeMap::new() }
    }

    /// One process leads, another one stands by, and one resource is fine.
    pub fn well(subject: &Subject) -> Self {
        let mut scene = Self::empty(subject)
            .of_pod("tf_leader", "b", "", &always(0))
            .of_pod("tf_resources_in_backoff", "b", "", &always(0))
            .of_pod("tf_watch_errors_total", "b", "kind=\"Pod\"", &always(0));
        for kind in ["tf_leader", "tf_resources_in_backoff"] {
            scene = scene.of_pod(kind, "a", "", &always(i64::from(kind == "tf_leader")));
        }
        scene = scene.of_pod("tf_watch_errors_total", "a", "kind=\"Pod\"", &always(3)).resource("one");
        if subject.has_agents {
            scene = scene
                .of_pod("tf_authority_expiry_timestamp_seconds", "a", "resource_namespace=\"tf\"", &always(9_000_000))
                .of_pod("tf_authority_overdue_timestamp_seconds", "a", "resource_namespace=\"tf\"", &always(8_000_000));
        }
        scene
    }

    /// One more resource that is fine.
    fn resource(mut self, name: &str) -> Self {
        let alike = ["Progressing", "Degraded", "Stalled", "Paused", "Hibernated"].map(|kind| (kind, 0));
        for (condition, holds) in [("Ready", 1), ("Available", 1)].into_iter().chain(alike) {
            self = self.condition_of(name, condition, &always(holds), &always(1 - holds));
        }
        self = self.number_of(name, "tf_initialized", &always(1));
        self = self.number_of(name, "tf_members_wanted", &always(3)).number_of(name, "tf_members_ready", &always(3));
        if self.subject.has_agents {
            self = self.number_of(name, "tf_certificate_expiry_timestamp_seconds", &always(7_000_000)).number_of(
                name,
                "tf_certificate_overdue_timestamp_seconds",
                &always(6_000_000),
            );
        }
        self
    }

    /// In how many pods a daemon of the resource serves, and in how many of them it is standby.
    pub fn daemon(self, name: &str, serving: &str, standby: &str) -> Self {
        let labels = format!("{},daemon=\"{name}\"", self.labels("one"));
        self.of_pod("tf_daemon_serving", "a", &labels, serving).of_pod("tf_daemon_standby", "a", &labels, standby)
    }

    /// A series of a process.
    pub fn of_pod(mut self, metric: &str, pod: &str, labels: &str, values: &str) -> Self {
        let operator = self.subject.operator;
        let comma = if labels.is_empty() { "" } else { "," };
        let series = format!(
            "{metric}{{{labels}{comma}operator=\"{operator}\",job=\"{operator}\",namespace=\"tf-system\",instance=\"{pod}\"}}"
        );
        self.series.insert(series, values.to_owned());
        self
    }

    fn labels(&self, name: &str) -> String {
        format!("kind=\"{}\",resource_namespace=\"tf\",resource_name=\"{name}\"", self.subject.kind)
    }

    fn number_of(self, name: &str, metric: &str, values: &str) -> Self {
        let labels = self.labels(name);
        self.of_pod(metric, "a", &labels, values)
    }

    fn condition_of(mut self, name: &str, condition: &str, holds: &str, fails: &str) -> Self {
        let labels = self.labels(name);
        for (status, values) in [("True", holds), ("False", fails), ("Unknown", &always(0))] {
            let labels = format!("{labels},type=\"{condition}\",status=\"{status}\"");
            self = self.of_pod("tf_condition", "a", &labels, values);
        }
        self
    }

    /// A number about the resource.
    pub fn number(self, metric: &str, values: &str) -> Self {
        self.number_of("one", metric, values)
    }

    /// A condition of the resource that holds up to this minute, and not from then on, or the other way round.
    pub fn turns(self, condition: &str, minute: usize, holds: bool) -> Self {
        let (before, after) = (i64::from(!holds), i64::from(holds));
        let labels = format!("{},type=\"{condition}\"", self.labels("one"));
        let since = from(minute, 0, 60 * minute as i64);
        self.condition_of("one", condition, &from(minute, before, after), &from(minute, after, before)).of_pod(
            "tf_condition_transition_timestamp_seconds",
            "a",
            &labels,
            &since,
        )
    }

    /// A store of the same namespace hibernates from this minute on, as its own operator tells.
    pub fn beside_a_store_that_sleeps(mut self, minute: usize) -> Self {
        let series = "tf_condition{kind=\"Zookeeper\",resource_namespace=\"tf\",resource_name=\"asleep\",type=\"Hibernated\",\
                      status=\"True\",operator=\"zookeeper-op\",job=\"zookeeper-op\",namespace=\"tf-system\",instance=\"z\"}";
        self.series.insert(series.to_owned(), from(minute, 0, 1));
        self
    }

    /// The resource has been paused for so many minutes when it begins.
    pub fn paused_for(self, minutes: i64) -> Self {
        let labels = format!("{},type=\"Paused\"", self.labels("one"));
        let since = always(-60 * minutes);
        self.condition_of("one", "Paused", &always(1), &always(0)).of_pod(
            "tf_condition_transition_timestamp_seconds",
            "a",
            &labels,
            &since,
        )
    }

    /// Another resource, which is fine.
    pub fn and_another(self) -> Self {
        self.resource("other")
    }

    /// From this minute on the other process leads, and says what this one said.
    pub fn handed_over(mut self, minute: usize) -> Result<Self> {
        let mut series = BTreeMap::new();
        for (name, values) in self.series {
            let of_resources = name.contains("resource_namespace");
            let (first, second) = (name.contains("instance=\"a\""), name.contains("instance=\"b\""));
            if first && of_resources {
                let other = name.replace("instance=\"a\"", "instance=\"b\"");
                series.insert(other, shifted(&values, minute)?);
                series.insert(name, format!("{} stale", until(&values, minute)?));
            } else if name.starts_with("tf_leader{") {
                series.insert(name, from(minute, i64::from(first), i64::from(second)));
            } else {
                series.insert(name, values);
            }
        }
        self.series = series;
        Ok(self)
    }
}

/// The values that a notation stands for.
fn expanded(values: &str) -> Result<Vec<String>> {
    let mut each = Vec::new();
    for part in values.split(' ') {
        let (value, times) = part.split_once('x').unwrap_or((part, "0"));
        each.extend(vec![value.to_owned(); times.parse::<usize>()? + 1]);
    }
    each.truncate(LENGTH);
    Ok(each)
}

fn until(values: &str, minute: usize) -> Result<String> {
    Ok(expanded(values)?[..minute].join(" "))
}

/// Nothing up to a minute, then what it would be.
fn shifted(values: &str, minute: usize) -> Result<String> {
    Ok(format!("_x{minute} {}", expanded(values)?[minute..].join(" ")))
}
