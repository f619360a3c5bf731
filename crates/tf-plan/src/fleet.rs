//! Which pods of DaemonSets are brought up to date now: some nodes at a time, as their strategy says. Like [`crate::rollout`], whose rules hold for each pod, it
//! rests on what is observed alone, so killing the operator between two steps changes nothing.
//!
//! No pod serves in the place of one on another node. So a pod that does not serve and is not up to date is brought up to date at once, and what a strategy
//! limits is how many nodes are without a working agent: pods that terminate, change over, do not serve, are missing, or serve for less than the soak time. The
//! first pod of a workload is changed alone, and others follow when it serves.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tf_agent_api::state::Status;
use tf_api::UpgradeType;

use crate::{
    observed::{Pod, Workload},
    plan::Drain,
    rollout::{self, Change, DOWN, Decision, PodSlot},
};

mod drain;

/// A number of nodes, or a percentage of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// So many.
    Nodes(usize),
    /// So many of a hundred.
    Percent(usize),
}

impl Share {
    /// How many that is, 1 at least. A percentage is rounded up, as Kubernetes does for DaemonSets.
    pub fn of(self, nodes: usize) -> usize {
        let share = match self {
            Self::Nodes(count) => count,
            Self::Percent(percent) => (nodes * percent).div_ceil(100),
        };
        share.max(1)
    }
}

/// How a change goes through nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// What is changed without a person.
    pub method: UpgradeType,
    /// How many nodes may be without a working agent at the same time.
    pub max_unavailable: Share,
    /// At how many pods that are up to date and have not served for [`rollout::PATIENCE`] the change stops.
    pub max_failures: usize,
    /// How long a changed pod has to serve before it counts as available.
    pub soak: Duration,
    /// Label of nodes, of which only those with the same value are changed at the same time.
    pub topology_key: Option<String>,
    /// Whether pods are evicted from nodes whose kernel module has to be loaded again, or whose forwarder is not up to date.
    pub drains: bool,
    /// Whether pods that forward packets are replaced while others use them.
    pub cuts_off: bool,
}

impl Default for Strategy {
    fn default() -> Self {
        Self {
            method: UpgradeType::default(),
            max_unavailable: Share::Nodes(1),
            max_failures: 1,
            soak: Duration::ZERO,
            topology_key: None,
            drains: false,
            cuts_off: false,
        }
    }
}

/// Workloads through which a change goes by one strategy, one workload after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodGroup {
    /// DaemonSets, with the hash of each one's pod template.
    pub workloads: Vec<(String, String)>,
    /// Those among them whose pods forward packets: pods of a node have no network while its pod is replaced.
    pub forwarders: BTreeSet<String>,
    /// The strategy.
    pub strategy: Strategy,
}

/// What of a pod is not current, by its live workload and the hash that its template should have.
pub type ChangeOf<'f> = dyn Fn(&Pod, Option<&Workload>, &str) -> Option<Change> + 'f;

/// What is known of pods.
pub struct View<'a, 'f> {
    /// The pods of all groups.
    pub pods: &'a [Pod],
    /// Whether nothing can be done to a pod, since its node is lost: no other one waits for it.
    pub lost: &'f dyn Fn(&Pod) -> bool,
    /// DaemonSets by their names.
    pub live: &'f BTreeMap<String, Workload>,
    /// What of a pod is not current, by its live workload and the hash that its template should have.
    pub change: &'f ChangeOf<'f>,
    /// Why a pod does not serve although its kubelet reports it Ready.
    pub trouble: &'f dyn Fn(&Pod) -> Option<String>,
    /// Whether a pod does not serve for less than [`rollout::PATIENCE`].
    pub lately: &'f dyn Fn(&Pod) -> bool,
    /// How much longer a pod soaks that has to serve for this long.
    pub soaks: &'f dyn Fn(&Pod, Duration) -> Option<Duration>,
    /// The value that the node of a pod has for a label.
    pub label: &'f dyn Fn(&Pod, &str) -> Option<&'a str>,
    /// What the agent of a pod reports, if it answers.
    pub status: &'f dyn Fn(&Pod) -> Option<&'a Status>,
    /// Whether pods are being evicted from the node of a pod.
    pub drained: &'f dyn Fn(&Pod) -> bool,
}

/// What is done now to the pods of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Pods that are changed, each as its decision says.
    pub changes: Vec<Decision>,
    /// Why nothing may be done now although something is not up to date, for people.
    pub held: Option<String>,
    /// Names of pods that are not up to date and wait for a person, who deletes them.
    pub left: Vec<String>,
    /// When a pod has soaked.
    pub again: Option<Duration>,
    /// Nodes from which pods are evicted.
    pub drains: Vec<Drain>,
    /// Nodes that take pods again.
    pub drained: Vec<String>,
}

/// A pod with what decides about it.
struct Member<'a> {
    pod: &'a Pod,
    slot: PodSlot<'a>,
    /// Why it does not serve although its kubelet reports it Ready.
    trouble: Option<String>,
    soaks: Option<Duration>,
    /// Whether its forwarder is not up to date and is used.
    waits: bool,
}

impl Member<'_> {
    /// Whether the operator disturbs it, or has done so lately.
    fn is_begun(&self) -> bool {
        self.soaks.is_some() || rollout::disturbed([&self.slot]).is_some()
    }

    /// Whether its node is without a working agent.
    fn is_away(&self) -> bool {
        self.is_begun() || !self.slot.serves || self.trouble.is_some()
    }

    fn is_current(&self) -> bool {
        self.slot.change.is_none()
    }
}

/// Decides for the pods of a group.
pub fn batch(group: &PodGroup, view: &View<'_, '_>) -> Batch {
    let PodGroup { workloads, strategy, forwarders } = group;
    let mut left = Vec::new();
    let unasked = |live: &Workload| Workload { restarted_at: None, ..live.clone() };
    let unasked: BTreeMap<String, Workload> =
        view.live.iter().map(|(name, live)| (name.clone(), unasked(live))).collect();
    let is_kept = |pod: &Pod| {
        let is_used = || (view.status)(pod).is_none_or(|status| status.used != Some(false));
        !strategy.cuts_off && forwarders.contains(pod.workload()) && pod.ready && !pod.terminating && is_used()
    };
    let mut member = |(pod, template): (&'_ Pod, &str), method| {
        let live = view.live.get(pod.workload());
        match method {
            UpgradeType::RollingUpdate => (view.change)(pod, live, template),
            method => {
                // The pod is as it was made, and its other files may have changed nevertheless.
                let made = pod.template.as_deref().unwrap_or_default();
                let change = (view.change)(pod, unasked.get(pod.workload()), made);
                let is_done = |change: &Change| {
                    *change == Change::UnderWay
                        || *change == Change::Certificate
                        || *change == Change::HotReload
                        || method == UpgradeType::InPlace && *change == Change::Configuration
                };
                let kept = change.filter(is_done);
                let is_left = rollout::outdated(pod, live, template).is_some() || kept != change;
                left.extend((is_left && !strategy.drains).then(|| pod.name.clone()));
                kept
            }
        }
    };
    let place = |pod: &Pod| workloads.iter().position(|(name, _)| pod.workload() == name);
    let there = view.pods.iter().filter(|pod| !(view.lost)(pod));
    let mut ordered: Vec<(usize, &Pod)> = there.filter_map(|pod| Some((place(pod)?, pod))).collect();
    // Pods of one workload after the other, the last pod first, as a DaemonSet of one node at a time always had it.
    ordered.reverse();
    ordered.sort_by_key(|(place, _)| *place);
    let mut members: Vec<Member<'_>> = Vec::with_capacity(ordered.len());
    for (place, pod) in ordered {
        let is_kept = strategy.method == UpgradeType::RollingUpdate && is_kept(pod);
        let method = if is_kept { UpgradeType::InPlace } else { strategy.method };
        let slot = rollout::of_kubelet(pod, member((pod, &workloads[place].1), method));
        let waits = is_kept && rollout::outdated(pod, view.live.get(pod.workload()), &workloads[place].1).is_some();
        let soaks = (view.soaks)(pod, strategy.soak).filter(|_| slot.serves && !strategy.soak.is_zero());
        members.push(Member { pod, slot, trouble: (view.trouble)(pod), soaks, waits });
    }
    let mut batch = decide(strategy, workloads, view, &members);
    drain::complete(&mut batch, group, view, &members);
    let again = members.iter().filter_map(|member| member.soaks).min().filter(|_| batch.held.is_some());
    Batch { left, again, ..batch }
}

fn decide(strategy: &Strategy, workloads: &[(String, String)], view: &View<'_, '_>, members: &[Member<'_>]) -> Batch {
    let due: Vec<&Member<'_>> = members.iter().filter(|member| member.slot.is_due()).collect();
    let disturbed = || rollout::disturbed(members.iter().map(|member| &member.slot));
    if due.is_empty() {
        // The last one may not have begun to change over yet.
        return Batch { held: disturbed(), ..Batch::default() };
    }
    let held = |why| Batch { held: Some(rollout::held(due.len(), why)), ..Batch::default() };
    let Size { budget, missing } = size(strategy, workloads, view);
    if due.iter().any(|member| is_down(member)) {
        let changes = mended(&due, members, budget);
        return changes.map_or_else(held, |changes| Batch { changes, ..Batch::default() });
    }
    let unready = || rollout::unready(members.iter().map(|member| member.pod));
    let incomplete = || rollout::any_incomplete(view.pods, view.live, workloads);
    let trouble = || {
        let (member, why) = members.iter().find_map(|member| Some((member, member.trouble.as_ref()?)))?;
        Some(format!("{} does not serve: {why}", member.slot.title()))
    };
    let soaking = || {
        let soaking = members.iter().find(|member| member.soaks.is_some())?;
        Some(format!("{} has served for less than {} s", soaking.slot.title(), strategy.soak.as_secs()))
    };
    let away = members.iter().filter(|member| member.is_away()).count() + missing;
    let room = budget.saturating_sub(away);
    let is_seen = workloads.iter().all(|(name, _)| view.live.get(name).is_some_and(|live| live.current));
    let changes = if room == 0 || !is_seen {
        Vec::new()
    } else if let Some(why) = failed(strategy, view, members) {
        return held(why);
    } else {
        chosen(strategy, view, members, &due, room)
    };
    if !changes.is_empty() {
        return Batch { changes, ..Batch::default() };
    }
    let why = disturbed().or_else(unready).or_else(incomplete).or_else(trouble).or_else(soaking);
    held(why.unwrap_or_default())
}

/// What a group may bear.
struct Size {
    /// How many nodes may be without a working agent at the same time.
    budget: usize,
    /// How many pods are missing.
    missing: usize,
}

fn size(strategy: &Strategy, workloads: &[(String, String)], view: &View<'_, '_>) -> Size {
    let count = |name: &str| view.pods.iter().filter(|pod| pod.workload() == name).count();
    let wanted = |name: &str| view.live.get(name).map_or(0, |live| usize::try_from(live.wanted).unwrap_or(0));
    let counts: Vec<(usize, usize)> = workloads.iter().map(|(name, _)| (count(name), wanted(name))).collect();
    let nodes = counts.iter().map(|(existing, wanted)| existing.max(wanted)).sum();
    Size {
        budget: strategy.max_unavailable.of(nodes),
        missing: counts.iter().map(|(existing, wanted)| wanted.saturating_sub(*existing)).sum(),
    }
}

/// Whether a pod that is not up to date does not serve and can be brought up to date.
fn is_down(member: &Member<'_>) -> bool {
    !member.slot.serves && !member.slot.terminating
}

/// Changes of pods that do not serve, `most` at most.
///
/// # Errors
/// Why none of them gets what it lacks.
fn mended(due: &[&Member<'_>], members: &[Member<'_>], most: usize) -> Result<Vec<Decision>, String> {
    let slots: Vec<PodSlot<'_>> = members.iter().map(|member| member.slot.clone()).collect();
    let mut changes = Vec::new();
    for member in due.iter().filter(|member| is_down(member)) {
        match rollout::untried(&member.slot, &slots) {
            Some(why) => return if changes.is_empty() { Err(why) } else { Ok(changes) },
            None if changes.len() < most => changes.push(rollout::update(&member.slot, DOWN)),
            None => break,
        }
    }
    Ok(changes)
}

/// Why nothing that serves is changed: pods that are up to date do not serve.
fn failed(strategy: &Strategy, view: &View<'_, '_>, members: &[Member<'_>]) -> Option<String> {
    let has_failed = |it: &&Member<'_>| it.is_current() && !it.slot.serves && !it.slot.terminating;
    let failed: Vec<_> = members.iter().filter(has_failed).filter(|it| !(view.lately)(it.pod)).collect();
    let (count, most) = (failed.len(), strategy.max_failures);
    let first = failed.first().filter(|_| count >= most)?.slot.title();
    Some(format!(
        "{count} that are up to date do not serve (maxFailures: {most}), first {first}; correct what keeps it from serving, or raise maxFailures"
    ))
}

/// Of pods that serve and are not up to date those that are changed now, `room` at most.
fn chosen(
    strategy: &Strategy,
    view: &View<'_, '_>,
    members: &[Member<'_>],
    due: &[&Member<'_>],
    room: usize,
) -> Vec<Decision> {
    let key = strategy.topology_key.as_deref();
    let domain = |member: &Member<'_>| key.and_then(|key| (view.label)(member.pod, key));
    let mut due: Vec<&Member<'_>> = due.iter().copied().filter(|member| !member.slot.terminating).collect();
    due.sort_by_key(|member| domain(member));
    let begun = members.iter().find(|member| member.is_begun());
    let now = begun.or_else(|| due.first().copied()).map(domain);
    // Where a pod has been changed and serves, others may be changed together.
    let is_proof = |member: &&Member<'_>| member.is_current() && !member.is_away();
    let proven: BTreeSet<&str> = members.iter().filter(is_proof).map(|member| member.pod.workload()).collect();
    let is_first = |it: &&Member<'_>| it.is_begun() || it.is_current() && it.is_away() && (view.lately)(it.pod);
    let mut tried: BTreeSet<&str> = members.iter().filter(is_first).map(|member| member.pod.workload()).collect();
    let mut changes = Vec::new();
    for member in due.into_iter().filter(|member| Some(domain(member)) == now) {
        let workload = member.pod.workload();
        if changes.len() < room && (proven.contains(workload) || tried.insert(workload)) {
            changes.push(rollout::update(&member.slot, "it is not up to date"));
        }
    }
    changes
}

#[cfg(test)]
mod tests;
