//! What the procedures of stores do alike: one member after the other is brought up to date as far as the store can bear it, and
//! what is the matter with members is reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use tf_agent_api::content::ContentHash;
use tf_api::{
    Managed,
    contract::{ConditionStatus, ConditionType, DaemonStatus, MemberStatus, Reason},
    kinds::CertificatesMode,
    names,
};

use crate::{
    certificates, daemons,
    election::{Election, Line},
    fleet::{self, Batch, PodGroup, View},
    observed::{Node, Observed, Pod},
    plan::{Mark, Plan},
    reports::{self, AgentCoverage, Reports, pod_of},
    rollout::{self, Change, Decision, PodSlot},
    status,
    step::{Step, Target},
};

/// What is the matter with pods, by their names.
pub type Troubles = BTreeMap<String, String>;

/// What the agents of a resource's pods tell, whether or not there is a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentReport {
    /// What each daemon does.
    pub daemons: Vec<DaemonStatus>,
    /// Pods that do not serve whatever the kubelet says of them, with the cause.
    pub troubles: Troubles,
    /// Pods that serve without something that they should have, with what it is.
    pub shortages: Troubles,
    /// Why members serve nobody together, although enough of them serve each for itself.
    pub outage: Option<String>,
    /// That none of a daemon's processes is elected, for longer than a handover takes.
    pub unelected: Option<String>,
    /// When that changes by the passing of time alone.
    pub again: Option<Duration>,
}

impl AgentReport {
    /// What they say of members, whose daemon `main` speaks for its pod; see [`daemons::statuses`].
    fn of_members(main: &str, wanted: Option<i32>, reports: &Reports<'_>) -> Self {
        let daemons = daemons::statuses(main, wanted, reports);
        Self { daemons, troubles: reports.troubles(), shortages: reports.shortages(), ..Self::default() }
    }

    /// The same of pods by the names of their nodes.
    fn of_nodes(main: &str, reports: &Reports<'_>) -> Self {
        let troubles = on_nodes(reports.pods, reports.troubles());
        let shortages = on_nodes(reports.pods, reports.shortages());
        Self { daemons: daemons::statuses(main, None, reports), troubles, shortages, ..Self::default() }
    }

    /// The same with what else is wrong with pods.
    fn with(mut self, troubles: Troubles) -> Self {
        for (pod, why) in troubles {
            self.troubles.entry(pod).or_insert(why);
        }
        self
    }

    /// The same with whether daemons that are elected have a leader.
    fn with_election<Cr: Managed>(mut self, election: Option<Election>, cr: &Cr, observed: &Observed<Cr>) -> Self {
        let Some(election) = election else { return self };
        let before = cr.contract().map(|contract| contract.daemons.as_slice()).unwrap_or_default();
        (self.unelected, self.again) = election.judge(&mut self.daemons, before, observed);
        self
    }

    fn put_into(self, plan: &mut Plan) {
        plan.unelected = self.unelected;
        plan.again = plan.again.into_iter().chain(self.again).min();
        plan.troubles = self.troubles;
        plan.shortages = self.shortages;
        plan.daemons = Some(self.daemons);
    }
}

/// Whether no daemon does anything, since there is no pod.
pub fn is_deserted<Cr>(observed: &Observed<Cr>) -> bool {
    observed.pods.known().is_ok_and(Vec::is_empty)
}

/// What agents tell where nothing is planned; none where somebody was not asked yet, or cannot be.
fn heard_of<Cr>(observed: &Observed<Cr>, tell: impl FnOnce(&Reports<'_>) -> AgentReport) -> Option<AgentReport> {
    let reports = Reports::of_observed(observed);
    match reports.clarity() {
        _ if is_deserted(observed) => Some(AgentReport::default()),
        AgentCoverage::Complete => Some(tell(&reports)),
        AgentCoverage::Unobserved | AgentCoverage::Polling => None,
    }
}

/// What agents tell of the members that are recorded, whose daemon `main` speaks for its pod, while there is no plan.
pub fn agent_report<Cr: Managed>(main: &str, cr: &Cr, observed: &Observed<Cr>) -> Option<AgentReport> {
    let wanted = cr.contract().and_then(|contract| contract.replicas);
    heard_of(observed, |reports| AgentReport::of_members(main, wanted, reports))
}

/// The same of pods that are the same on every node.
pub fn agent_report_of_nodes<Cr>(main: &str, observed: &Observed<Cr>) -> Option<AgentReport> {
    heard_of(observed, |reports| AgentReport::of_nodes(main, reports))
}

/// What distinguishes one store from another. None of it looks at anything but its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// The daemon that is the store.
    pub daemon: &'static str,
    /// What keeps a member that serves from being stopped.
    pub policy: DisruptionPolicy,
    /// Pods that do not serve as they should although they say so, with the cause.
    pub troubles: fn(&[MemberStatus], &Reports<'_>) -> Troubles,
    /// How one server is elected to lead the others. None where no server does, or it does not matter which one.
    pub election: Option<Election>,
}

impl Store {
    /// What agents tell of the members that are recorded while there is no plan.
    pub fn agent_report<Cr: Managed>(&self, cr: &Cr, observed: &Observed<Cr>) -> Option<AgentReport> {
        let members = cr.contract().map(|contract| contract.members.as_slice()).unwrap_or_default();
        let more = (self.troubles)(members, &Reports::of_observed(observed));
        let report = agent_report(self.daemon, cr, observed)?;
        Some(report.with(more).with_election(self.election, cr, observed))
    }
}

/// What keeps a member that serves from being stopped.
#[derive(Clone, Copy, Debug)]
pub enum DisruptionPolicy {
    /// Members serve each for itself, and are called this: the others have to serve. Those whose nodes are lost are not waited for, as long as
    /// another one serves.
    Independent(&'static str),
    /// Members hold something together: this tells what it cannot bear.
    Quorum(fn(&[MemberStatus], &Reports<'_>) -> Option<String>),
}

impl DisruptionPolicy {
    /// Whether the daemon that speaks for a pod is all that counts of it, where its agent reports that it serves. A server of those that hold something together
    /// is needed with what is beside it.
    const fn goes_by_main_daemon(self) -> bool {
        matches!(self, Self::Independent(_))
    }

    /// `is_mended`: whether something in a pod fails that its own change may mend.
    fn held(
        self,
        members: &[MemberStatus],
        reports: &Reports<'_>,
        nodes: &[Node],
        is_mended: impl Fn(&Pod) -> bool,
    ) -> Option<String> {
        let what = match self {
            Self::Quorum(held) => return held(members, reports),
            Self::Independent(what) => what,
        };
        let (lost, there): (Vec<_>, Vec<_>) = members.iter().partition(|member| is_unreachable(nodes, &member.node));
        let serves =
            |member: &MemberStatus| pod_of(member, reports.pods).is_some_and(|pod| pod.ready || is_mended(pod));
        let away = there.iter().find(|member| !serves(member));
        away.map(|member| format!("the member on node {} does not serve", member.node)).or_else(|| {
            let MemberStatus { node, .. } = lost.first()?;
            (there.len() < 2).then(|| format!("no other {what} serves while node {node} is lost"))
        })
    }
}

/// Completes a plan. `contents`: the configuration of the member on each node.
pub fn complete<Cr: Managed>(
    store: &Store,
    plan: &mut Plan,
    cr: &Cr,
    observed: &Observed<Cr>,
    contents: &BTreeMap<String, ContentHash>,
) {
    let reports = Reports::of_observed(observed);
    match hear(plan, cr, observed, &reports) {
        // The kubelet's word is all there is.
        AgentCoverage::Unobserved | AgentCoverage::Polling => {}
        AgentCoverage::Complete => {
            roll(store, plan, cr, observed, &reports, contents);
            let report = AgentReport::of_members(store.daemon, plan.wanted(), &reports);
            let report = report.with((store.troubles)(&plan.members, &reports));
            report.with_election(store.election, cr, observed).put_into(plan);
        }
    }
}

/// Completes the plan of a component whose pods are the same on every node: DaemonSets, whose workloads and templates are those of the
/// plan's roll-out and stand in groups, too. `contents`: the configuration of the pods of each workload.
pub fn complete_nodes<Cr: Managed>(
    daemon: &str,
    plan: &mut Plan,
    cr: &Cr,
    observed: &Observed<Cr>,
    groups: &[PodGroup],
    contents: &BTreeMap<String, ContentHash>,
) {
    let reports = Reports::of_observed(observed);
    let clarity = hear(plan, cr, observed, &reports);
    if clarity == AgentCoverage::Polling {
        return;
    }
    let of_node = |pod: &Pod| Some((pod.node.clone()?, contents.get(pod.workload())?.clone()));
    let contents: BTreeMap<String, ContentHash> = reports.pods.iter().filter_map(of_node).collect();
    let is_clear = clarity == AgentCoverage::Complete;
    let troubles = if is_clear { reports.troubles() } else { Troubles::new() };
    let nodes: BTreeMap<&str, &Node> =
        observed.nodes.known().into_iter().flatten().map(|node| (node.name.as_str(), node)).collect();
    let node = |pod: &Pod| nodes.get(pod.node.as_deref()?).copied();
    let view = View {
        pods: reports.pods,
        lost: &|pod| node(pod).is_some_and(|node| node.unreachable),
        live: &observed.workloads,
        change: &|pod, live, template| {
            let outdated = || rollout::outdated(pod, live, template);
            let change = if is_clear { reports.change(pod, daemon, live, template, &contents) } else { outdated() };
            // Nothing of it differs, and another one loads the kernel module again.
            let is_drained = || node(pod).is_some_and(Node::takes_no_pods) && reports.may_reload(pod);
            change.or_else(|| is_drained().then_some(Change::Template))
        },
        trouble: &|pod| troubles.get(&pod.name).cloned(),
        lately: &|pod| left_of_patience(pod, observed.now).is_some(),
        soaks: &|pod, time| reports.soaks(pod, daemon, time, observed.now),
        label: &|pod, key| node(pod)?.labels.get(key).map(String::as_str),
        status: &|pod| reports.of(pod),
        drained: &|pod| node(pod).is_some_and(|node| node.has_taint(names::TAINT_DRAIN)),
    };
    // Without agents nothing is known of what uses a forwarder.
    let of = |group: &PodGroup| {
        if is_clear { group.clone() } else { PodGroup { forwarders: BTreeSet::new(), ..group.clone() } }
    };
    let batches: Vec<Batch> = groups.iter().map(|group| fleet::batch(&of(group), &view)).collect();
    let changes = batches.iter().flat_map(|batch| batch.changes.iter().cloned());
    let mut steps = changes.filter_map(|change| reports.step(change, &contents));
    plan.step = steps.next();
    plan.batch = steps.collect();
    let beside = |more: usize| if more > 0 { format!(", and {more} more") } else { String::new() };
    let explained = plan.step.as_ref().map(|step| format!("{}{}", step.explain(), beside(plan.batch.len())));
    plan.under_way = explained.or_else(|| batches.iter().find_map(|batch| batch.held.clone()));
    plan.again = batches.iter().filter_map(|batch| batch.again).chain(plan.again).min();
    if is_clear {
        plan.drains = batches.iter().flat_map(|batch| batch.drains.iter().cloned()).collect();
        let ended = batches.iter().flat_map(|batch| &batch.drained);
        plan.marks.extend(ended.map(|node| Mark::untaint(node, names::TAINT_DRAIN)));
        let drained = || {
            let first = &plan.drains.first()?.node;
            Some(format!("pods are evicted from node {first}{}", beside(plan.drains.len() - 1)))
        };
        plan.under_way = plan.under_way.take().or_else(drained);
    }
    plan.left = batches.into_iter().flat_map(|batch| batch.left).collect();
    let left = plan.left.len();
    plan.notes.extend((left > 0).then(|| {
        format!("{left} pods are not up to date and are not replaced, as upgradeStrategy says; delete a pod to have it replaced")
    }));
    if is_clear {
        AgentReport::of_nodes(daemon, &reports).put_into(plan);
    }
}

/// Tells of certificates, and does nothing while members that can be asked were not: what one may conclude from the kubelet's word alone
/// is not for them.
fn hear<Cr: Managed>(plan: &mut Plan, cr: &Cr, observed: &Observed<Cr>, reports: &Reports<'_>) -> AgentCoverage {
    let clarity = reports.clarity();
    plan.notes.extend(reports.pods.iter().filter_map(moved));
    plan.daemons = is_deserted(observed).then(Vec::new);
    plan.drafts.push(certificates::condition(CertificatesMode::Issued, observed, reports, clarity));
    if clarity == AgentCoverage::Polling {
        plan.step = None;
        plan.under_way = reports::being_asked(cr);
    }
    clarity
}

/// That a pod has an address that its node does not have any more, for people.
fn moved(pod: &Pod) -> Option<String> {
    let (node, now, was) = (pod.node.as_ref()?, pod.node_address.as_ref()?, pod.address.as_ref()?);
    Some(format!(
        "node {node} has the address {now} now; pod {} keeps {was} until it is replaced, when it is its turn",
        pod.name
    ))
}

/// Troubles with the names of the nodes, which the names of a DaemonSet's pods do not tell.
fn on_nodes(pods: &[Pod], troubles: Troubles) -> Troubles {
    let node = |name: &str| pods.iter().find(|pod| pod.name == name)?.node.as_deref();
    let named = |(pod, why): (String, String)| {
        let named = node(&pod).map(|node| format!("node {node}: {why}"));
        (pod, named.unwrap_or(why))
    };
    troubles.into_iter().map(named).collect()
}

/// What keeps pods that serve from being touched, as agents report it: the kubelet notices late that a daemon which was just restarted does not
/// serve yet. `counts`: whether a pod, by its name, is waited for.
fn unserving(troubles: &Troubles, counts: impl Fn(&str) -> bool) -> Option<String> {
    let (pod, why) = troubles.iter().find(|(pod, _)| counts(pod))?;
    Some(format!("pod {pod} does not serve: {why}"))
}

/// Whether this node was given up.
fn is_unreachable(nodes: &[Node], name: &str) -> bool {
    nodes.iter().any(|node| node.name == name && node.unreachable)
}

/// Whether nothing can be done to a pod and nobody can say when: its node is lost, or it waits for a place where only lost ones are left.
fn is_lost(pod: &Pod, members: &[MemberStatus], reports: &Reports<'_>, nodes: &[Node]) -> bool {
    let free = || members.iter().filter(|member| pod_of(member, reports.pods).is_none());
    match &pod.node {
        Some(node) => is_unreachable(nodes, node),
        None => free().next().is_some() && free().all(|member| is_unreachable(nodes, &member.node)),
    }
}

/// Brings one pod up to date if the store can bear it.
fn roll<Cr: Managed>(
    store: &Store,
    plan: &mut Plan,
    cr: &Cr,
    observed: &Observed<Cr>,
    reports: &Reports<'_>,
    contents: &BTreeMap<String, ContentHash>,
) {
    let nodes = observed.nodes.known().map(Vec::as_slice).unwrap_or_default();
    let (lost, there): (Vec<&Pod>, Vec<&Pod>) =
        reports.pods.iter().partition(|pod| is_lost(pod, &plan.members, reports, nodes));
    let (workload, template) = plan.workload();
    let live = observed.workloads.get(workload);
    let unwell = |contract| status::since(contract, ConditionType::WorkloadReady, ConditionStatus::False);
    let since = cr.contract().and_then(unwell).unwrap_or(observed.now);
    let queue = Line { pods: &there, reports, contents, since, now: observed.now };
    let change = |pod| reports.change(pod, store.daemon, live, template, contents);
    let settles = |pod: &Pod| reports.settles(pod, store.daemon, observed.now);
    let is_away = |pod: &Pod| reports.serves(pod) == Some(false);
    let slot = |pod| {
        let slot: PodSlot<'_> = slot(pod, change(pod), reports);
        let is_another_away = || there.iter().any(|other| other.uid != pod.uid && is_away(other));
        // A server of those that hold something together is needed with what is beside it, and not stopped while another one is away.
        let counts_as_down = slot.ails && !store.policy.goes_by_main_daemon() && !is_another_away();
        PodSlot {
            last: store.election.is_some_and(|election| election.goes_last(pod, &queue)),
            settles: settles(pod).is_some(),
            lately: left_of_patience(pod, observed.now).is_some(),
            pending: slot.change.is_some() && reports.is_pending(pod, store.daemon),
            serves: slot.serves && !counts_as_down,
            away: is_away(pod),
            ails: slot.ails && !counts_as_down,
            ..slot
        }
    };
    let slots: Vec<PodSlot<'_>> = there.iter().copied().map(slot).collect();
    let is_mended = |pod: &Pod| slots.iter().any(|slot| slot.uid == pod.uid && slot.is_mended());
    let counts =
        |name: &str| !lost.iter().chain(&there).any(|pod| pod.name == name && (lost.contains(pod) || is_mended(pod)));
    let gate = || {
        unserving(&reports.troubles(), counts).or_else(|| store.policy.held(&plan.members, reports, nodes, is_mended))
    };
    let needs = plan.drafts.iter().find(|draft| draft.kind == ConditionType::DependenciesReady);
    let away = needs.filter(|draft| draft.reason == Reason::DependencyUnavailable);
    let lacks = away.map(|draft| draft.message.as_str());
    let decision = match store.policy {
        DisruptionPolicy::Independent(_) if cr.is_initialized() => rollout::next_independent(&slots, lacks, gate),
        DisruptionPolicy::Independent(_) | DisruptionPolicy::Quorum(_) => rollout::next(&slots, gate),
    };
    let left = lost.iter().find(|pod| change(pod).is_some());
    let told = decision.held().and_then(|_| rollout::told(&slots));
    let decision = match (told.unwrap_or(decision), left) {
        (Decision::Done, Some(pod)) => Decision::Hold(format!(
            "pod {} is brought up to date when its node is back, or in its place another one",
            pod.name
        )),
        (decision, _) => decision,
    };
    let turn = decision.target().and_then(|target| store.election?.turn(target, &slots, &queue));
    let is_held = decision.held().is_some();
    let settled = there.iter().filter_map(|pod| settles(pod)).max().filter(|_| is_held);
    let patient = there.iter().filter_map(|pod| left_of_patience(pod, observed.now)).min().filter(|_| is_held);
    let turned = turn.as_ref().map(|(left, _)| *left);
    plan.again = turned.into_iter().chain(settled).chain(patient).chain(plan.again).min();
    let decision = turn.map_or(decision, |(_, why)| Decision::Hold(why));
    let held = decision.held().map(str::to_owned);
    plan.step = reports.step(decision, contents);
    plan.under_way = plan.step.as_ref().map(Step::explain).or(held);
}

/// How much longer a pod counts as away for a moment only ([`rollout::PATIENCE`]).
fn left_of_patience(pod: &Pod, now: Timestamp) -> Option<Duration> {
    let away = Duration::try_from(now.duration_since(pod.unready_since?)).unwrap_or_default();
    rollout::PATIENCE.checked_sub(away).filter(|left| !left.is_zero())
}

/// Makes a pod anew whose node is of no member, where members may leave at any time: a StatefulSet that is made smaller keeps the lowest
/// ordinals, on whatever nodes they are, and a node that is no member's any more keeps its pod. The new pod finds a node that lacks one. One
/// that serves goes only while all others do.
pub fn reschedule<Cr>(plan: &mut Plan, observed: &Observed<Cr>) {
    reschedule_while(plan, observed, |all_serve| all_serve);
}

/// The same; one that serves goes where `is_borne` says so, knowing whether all others do.
pub fn reschedule_while<Cr>(plan: &mut Plan, observed: &Observed<Cr>, is_borne: impl Fn(bool) -> bool) {
    if plan.step.is_some() {
        return;
    }
    let slots = plan.members.len();
    let is_member = |node: &String| plan.members.iter().any(|member| member.node == *node);
    let is_kept = |pod: &&Pod| !pod.terminating && pod.ordinal().is_some_and(|ordinal| (ordinal as usize) < slots);
    let pods: Vec<&Pod> = Reports::of_observed(observed).pods.iter().filter(is_kept).collect();
    let elsewhere = || pods.iter().filter(|pod| pod.node.as_ref().is_some_and(|node| !is_member(node)));
    let (workload, _) = plan.workload();
    // Until its controller has seen the members it would put the pod where it was.
    let is_current = observed.workloads.get(workload).is_some_and(|live| live.current);
    let all_serve = pods.len() == slots && pods.iter().all(|pod| pod.ready);
    let stray = elsewhere().find(|pod| !pod.ready).or_else(|| elsewhere().next().filter(|_| is_borne(all_serve)));
    if let Some(pod) = stray.filter(|_| is_current) {
        let step = Step::Restart(Target::of(pod, "its node is of no member"));
        plan.under_way = Some(step.explain());
        plan.step = Some(step);
    }
}

/// What the servers of members that can be asked say, with their pods; else why one of the members is not to be counted on. `says`: what a
/// pod's server says, or why it says nothing; `whole`: what the members are together, for people.
///
/// # Errors
/// A member that does not serve, or whose server does not tell.
pub fn heard<'m, 'a, Facts>(
    members: impl Iterator<Item = &'m MemberStatus>,
    reports: &Reports<'a>,
    whole: &str,
    says: impl Fn(&'a Pod) -> Result<Facts, Option<&'a str>>,
) -> Result<Vec<(&'a Pod, Facts)>, String> {
    let mut heard = Vec::new();
    for member in members {
        let pod = pod_of(member, reports.pods).filter(|pod| pod.ready);
        let pod = pod.ok_or_else(|| format!("the member on node {} does not serve", member.node))?;
        // One that another operator or an earlier release made has no agent.
        if pod.certificate.is_none() {
            continue;
        }
        let facts = says(pod).map_err(|why| {
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            format!("pod {} does not report the state of its {whole}{why}", pod.name)
        })?;
        heard.push((pod, facts));
    }
    Ok(heard)
}

/// A pod with what its agent reports: one that does not answer says nothing about the server, and one that is cut off serves the clients it sees.
fn slot<'a>(pod: &'a Pod, change: Option<Change>, reports: &Reports<'_>) -> PodSlot<'a> {
    let serves = pod.ready || reports.serves(pod) == Some(true);
    PodSlot { serves, ails: reports.ails(pod), ..rollout::of_kubelet(pod, change) }
}
