//! What the audit log says about how long a bring-up waited for others. Pure: from its entries to figures.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::{Component, Entry, Verb};

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
    use super::*;
    use crate::audit::tests::entry;

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
