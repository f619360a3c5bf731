//! What the audit log says about a bring-up. Pure: from its entries to figures.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use tf_testing::{Component, Entry, Verb, audit};

/// Requests of one operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// All of them.
    pub requests: u64,
    /// Mutating ones, refused ones and events included, those about the operator's lease left out.
    pub writes: u64,
    /// Mutating ones about the lease.
    pub lease_writes: u64,
    /// Those answered with 400 or more.
    pub failed: u64,
    /// Objects created, without events and the lease.
    pub objects: u64,
}

/// How long a bring-up waited for Kubernetes and the simulated kubelets, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waiting {
    /// Pods there were.
    pub pods: usize,
    /// In which at least one workload of ours was under way: from its creation by an operator to the last status that its
    /// controller wrote before Ready.
    pub workloads: f64,
    /// In which at least one pod was created and not yet Ready.
    pub pods_starting: f64,
    /// From the last pod that became Ready to the Manager's Ready.
    pub after_last_pod: f64,
}

/// The requests of one user.
pub fn of(entries: &[Entry], user: &str) -> Work {
    let count = audit::count_by_user(entries).get(user).copied().unwrap_or_default();
    let objects: BTreeSet<_> = entries
        .iter()
        .filter(|entry| entry.user == user && creates_object(entry))
        .map(|entry| (&entry.group, &entry.resource, &entry.namespace, &entry.name))
        .collect();
    Work {
        requests: count.total,
        writes: count.writes(),
        lease_writes: count.lease_writes,
        failed: count.failed,
        objects: objects.len() as u64,
    }
}

/// Server-side apply is a patch; 201 is what tells that the object is new.
fn creates_object(entry: &Entry) -> bool {
    let kept = !entry.is_lease() && entry.resource != "events" && entry.subresource.is_empty();
    kept && entry.counts() && entry.is_mutating() && entry.code == 201
}

/// How long the bring-up that was Ready at `ready` waited for others.
pub fn waiting(entries: &[Entry], operators: &[&str], namespace: &str, ready: Timestamp) -> Waiting {
    let mut workloads: BTreeMap<(&str, &str), (Timestamp, Timestamp)> = BTreeMap::new();
    let mut pods: BTreeMap<&str, (Timestamp, Option<Timestamp>)> = BTreeMap::new();
    let kwok = Component::Kwok.user().map_or("", |(user, _)| user);
    let of_interest = |entry: &&Entry| entry.namespace == namespace && entry.at <= ready && entry.counts();
    for entry in entries.iter().filter(of_interest).filter(|entry| entry.is_mutating() && entry.code < 300) {
        let ours = operators.contains(&entry.user.as_str());
        match (entry.group.as_str(), entry.resource.as_str(), entry.subresource.as_str()) {
            ("apps", resource, "") if ours && entry.code == 201 => {
                workloads.insert((resource, &entry.name), (entry.at, entry.at));
            }
            ("apps", resource, "status") if !ours => {
                if let Some((_, until)) = workloads.get_mut(&(resource, entry.name.as_str())) {
                    *until = entry.at;
                }
            }
            // The log does not know which name a pod of a DaemonSet was given, until it is bound to its node.
            ("", "pods", "" | "binding") if entry.verb == Verb::Create && !entry.name.is_empty() => {
                pods.entry(&entry.name).or_insert((entry.at, None));
            }
            ("", "pods", "status") if entry.user == kwok => {
                if let Some((_, until)) = pods.get_mut(entry.name.as_str()) {
                    until.get_or_insert(entry.at);
                }
            }
            _ => {}
        }
    }
    let last_pod = pods.values().filter_map(|(_, until)| *until).max();
    Waiting {
        pods: pods.len(),
        workloads: covered(workloads.into_values()),
        pods_starting: covered(pods.values().map(|(from, until)| (*from, until.unwrap_or(ready)))),
        after_last_pod: last_pod.map_or(0.0, |last| seconds(last, ready)),
    }
}

/// Seconds that at least one of the intervals covers.
fn covered(intervals: impl Iterator<Item = (Timestamp, Timestamp)>) -> f64 {
    let mut intervals: Vec<_> = intervals.collect();
    intervals.sort();
    let (mut total, mut end) = (0.0, Timestamp::MIN);
    for (from, until) in intervals {
        let from = from.max(end);
        if until > from {
            total += seconds(from, until);
            end = until;
        }
    }
    total
}

fn seconds(from: Timestamp, until: Timestamp) -> f64 {
    until.duration_since(from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use tf_testing::audit::Stage;

    use super::*;

    fn entry(at: i64, user: &str, verb: Verb, path: [&str; 4], code: u16) -> Entry {
        let [group, resource, subresource, name] = path.map(str::to_owned);
        Entry {
            id: String::new(),
            stage: Stage::ResponseComplete,
            at: Timestamp::from_second(at).unwrap(),
            user: user.into(),
            user_agent: String::new(),
            verb,
            group,
            resource,
            subresource,
            namespace: "tf".into(),
            name,
            uri: String::new(),
            code,
        }
    }

    #[test]
    fn objects_are_counted_once_and_events_and_leases_are_none() {
        let map = ["", "configmaps", "", "a"];
        let entries = [
            entry(1, "op", Verb::Patch, map, 201),
            entry(2, "op", Verb::Patch, map, 200),
            entry(3, "op", Verb::Patch, map, 201),
            entry(3, "op", Verb::Create, ["events.k8s.io", "events", "", "e"], 201),
            entry(3, "op", Verb::Create, ["coordination.k8s.io", "leases", "", "op"], 201),
            entry(4, "op", Verb::Get, map, 404),
            entry(4, "else", Verb::Patch, ["", "secrets", "", "s"], 201),
        ];
        let work = Work { requests: 6, writes: 4, lease_writes: 1, failed: 1, objects: 1 };
        assert_eq!(of(&entries, "op"), work);
    }

    #[test]
    fn overlapping_work_of_kubernetes_is_counted_once_and_only_until_ready() {
        let set = |name| ["apps", "statefulsets", "", name];
        let status = |name| ["apps", "statefulsets", "status", name];
        let entries = [
            entry(10, "op", Verb::Patch, set("a"), 201),
            entry(11, "op", Verb::Patch, set("b"), 201),
            entry(12, "controller", Verb::Create, ["", "pods", "", "a-0"], 201),
            entry(12, "controller", Verb::Create, ["", "pods", "", ""], 201),
            entry(13, "scheduler", Verb::Create, ["", "pods", "binding", "d-x7"], 201),
            entry(13, "kwok", Verb::Patch, ["", "pods", "status", "a-0"], 200),
            entry(14, "kwok", Verb::Patch, ["", "pods", "status", "d-x7"], 200),
            entry(14, "controller", Verb::Update, status("a"), 200),
            entry(15, "controller", Verb::Update, status("b"), 200),
            entry(20, "op", Verb::Patch, set("c"), 201),
            entry(22, "controller", Verb::Update, status("c"), 200),
            entry(99, "controller", Verb::Update, status("c"), 200),
        ];
        let found = waiting(&entries, &["op"], "tf", Timestamp::from_second(30).unwrap());
        assert_eq!(found, Waiting { pods: 2, workloads: 7.0, pods_starting: 2.0, after_last_pod: 16.0 });
    }
}
