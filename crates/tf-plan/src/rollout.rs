//! Which pod is brought up to date now, if any: the one engine of all components.
//!
//! StatefulSets use `OnDelete`, so a changed template replaces no pod by itself: the operator deletes outdated pods, or has
//! their agents take another configuration or certificate, one at a time. An outdated pod that does not serve goes first, since what is
//! outdated of it may be what breaks it; the others go only while all serve, the leader last, so that leadership moves
//! once (docs/upstream/zookeeper.md#restarts). No pod is touched while another one is still disturbed by the operator: it terminates, has not
//! changed over yet, or has served for less than [`SETTLING`] (ADR 0068). The decision looks at what is observed and nothing else, so
//! killing the operator between two steps changes nothing.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use crate::{
    observed::{Pod, Workload},
    step::{Step, Target},
};

/// How long a member that was started has to serve before the next one may be stopped: two rounds of questions to its agent, and one of the
/// kubelet's, so that a daemon which ends again, or serves in turn with one that does not, is seen.
pub const SETTLING: Duration = Duration::from_secs(5);

/// How long a member may be away before it gets a template by which another member, which has it already, does not serve: a restart, or a moment without
/// an answer, is over by then. Servers that need a quorum may serve with that template together alone, so that it is not waited for longer.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// What of a pod is not current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its template: it has to be made anew.
    Template,
    /// The certificate that its daemons read when they started.
    Certificate,
    /// The configuration its agent has activated.
    Configuration,
    /// The same, and its daemons would take the current one as they run.
    HotReload,
    /// Nothing any more: its agent was told to change over and has not done so yet.
    UnderWay,
}

/// A pod of a roll-out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSlot<'a> {
    /// Its name.
    pub pod: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// The node that it is on, if it has one.
    pub node: Option<&'a str>,
    /// Whether the daemon that speaks for it serves. It does not when neither the kubelet nor the pod's agent says so: the kubelet speaks of all
    /// containers of the pod, and late.
    pub serves: bool,
    /// Whether the daemon that speaks for it does not serve, as its agent reports, whatever the kubelet still says.
    pub away: bool,
    /// Whether the daemon that speaks for it serves, as its agent reports, and something else in the pod does not.
    pub ails: bool,
    /// Whether its agent was asked for a configuration that is not wanted any more, and has not taken it: it may do so at any moment, or never.
    pub pending: bool,
    /// Whether it was started so lately that it counts as disturbed ([`SETTLING`]).
    pub settles: bool,
    /// Whether it does not serve for less than [`PATIENCE`].
    pub lately: bool,
    /// Whether the kubelet cannot get an image of it.
    pub lacks_image: bool,
    /// Whether it goes last of those that serve.
    pub last: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// What of it is not current.
    pub change: Option<Change>,
}

impl PodSlot<'_> {
    /// What it is called in messages: a pod of a DaemonSet is known by its node.
    pub(crate) fn title(&self) -> String {
        let Self { pod, node, .. } = self;
        node.map_or_else(|| format!("pod {pod}"), |node| format!("pod {pod} on node {node}"))
    }

    /// Whether something has to be done to it.
    pub fn is_due(&self) -> bool {
        self.change.is_some_and(|change| change != Change::UnderWay)
    }

    /// Whether something in it fails that the change may mend, so that it keeps no other pod from being touched.
    pub fn is_mended(&self) -> bool {
        self.is_due() && self.ails
    }

    /// What the operator did to it that is not over yet.
    fn disturbed(&self) -> Option<&'static str> {
        match self.change {
            _ if self.terminating => Some("is terminating"),
            Some(Change::UnderWay) => Some("has not changed over yet"),
            _ => None,
        }
    }
}

/// State of a roll-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Every pod is up to date.
    Done,
    /// Restart this pod now.
    Restart(Target),
    /// Let the agent of this pod take the current configuration now.
    Activate(Target),
    /// Let the agents of this pod start its daemons anew with the current certificate now.
    Renew(Target),
    /// Not everything is up to date and nothing may be done now, because of this.
    Hold(String),
}

impl Decision {
    /// The pod that is touched now.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Self::Restart(target) | Self::Activate(target) | Self::Renew(target) => Some(target),
            Self::Done | Self::Hold(_) => None,
        }
    }

    /// Why nothing may be done now although something is not up to date, for people.
    pub fn held(&self) -> Option<&str> {
        match self {
            Self::Hold(why) => Some(why),
            Self::Done | Self::Restart(_) | Self::Activate(_) | Self::Renew(_) => None,
        }
    }

    /// The step, for a component whose configuration is part of its pods' template.
    pub fn restart(self) -> Option<Step> {
        match self {
            Self::Restart(target) => Some(Step::Restart(target)),
            Self::Activate(_) | Self::Renew(_) | Self::Done | Self::Hold(_) => None,
        }
    }
}

/// Decides, for pods in the order of their ordinals. `gate` says what keeps a pod that serves from being touched.
pub fn next(slots: &[PodSlot<'_>], gate: impl FnOnce() -> Option<String>) -> Decision {
    // The highest ordinal first, as a StatefulSet's own rolling update does.
    let mut due: Vec<&PodSlot<'_>> = slots.iter().rev().filter(|slot| slot.is_due()).collect();
    let held = |why| hold(due.len(), why);
    if let Some(down) = down(&due) {
        // It may be back in a moment, and then two would be away.
        let beside = || slots.iter().filter(|slot| slot.uid != down.uid);
        let why = disturbed(beside()).or_else(|| settling(beside())).or_else(|| untried(down, slots));
        return why.map_or_else(|| update(down, DOWN), held);
    }
    let disturbed = disturbed(slots);
    if due.is_empty() {
        // The last one may not have begun to change over yet.
        return disturbed.map_or(Decision::Done, Decision::Hold);
    }
    if let Some(why) = disturbed.or_else(gate) {
        return held(why);
    }
    // Before any other one that serves, since it may take what it was asked for at any moment.
    due.sort_by_key(|slot| (!slot.pending, !slot.ails, slot.last));
    due.first().map_or(Decision::Done, |slot| update(slot, "it is not up to date"))
}

fn hold(due: usize, why: String) -> Decision {
    Decision::Hold(held(due, why))
}

/// That so many pods are not up to date and none is touched, for people.
pub(crate) fn held(due: usize, why: String) -> String {
    format!("{due} pods are not up to date, none is touched now: {why}")
}

/// Why a pod that does not serve is touched.
pub(crate) const DOWN: &str = "it does not serve and is not up to date";

/// The first of these that does not serve and can be brought up to date.
fn down<'s, 'a>(due: &[&'s PodSlot<'a>]) -> Option<&'s PodSlot<'a>> {
    due.iter().find(|slot| !slot.serves && !slot.terminating).copied()
}

/// Why a pod that does not serve does not get the template that it lacks: one that has it does not serve, either.
pub(crate) fn untried(down: &PodSlot<'_>, slots: &[PodSlot<'_>]) -> Option<String> {
    let has_it = |slot: &&PodSlot<'_>| slot.change.is_none() && !slot.serves;
    if down.change != Some(Change::Template) {
        return None;
    }
    if let Some(slot) = slots.iter().filter(has_it).find(|slot| slot.lacks_image) {
        return Some(format!("{} is, and its image cannot be pulled", slot.title()));
    }
    let slot = slots.iter().find(has_it).filter(|_| down.lately)?;
    let (tried, seconds) = (slot.title(), PATIENCE.as_secs());
    Some(format!("{tried} is, and does not serve; {} has been away for less than {seconds} s", down.title()))
}

/// Decides as [`next`] does for members that serve each for itself and have served. Where servers hold something together, what they report says more than a
/// time does; here one that was started settles first. One that lost what it lives on goes on with what it read
/// before, and would come back without: nobody is touched meanwhile. `lacks`: what all of them lack, if anything; besides, when one that is
/// up to date does not serve, either, what the others need is elsewhere.
pub fn next_independent(slots: &[PodSlot<'_>], lacks: Option<&str>, gate: impl FnOnce() -> Option<String>) -> Decision {
    let suffers = slots.iter().any(|slot| slot.is_due() && !slot.serves);
    let anyway = slots.iter().find(|slot| suffers && !slot.is_due() && (slot.away || !slot.serves));
    let anyway = anyway.map(|slot| format!("{} is, or is on its way there, and does not serve, either", slot.title()));
    let due = slots.iter().filter(|slot| slot.is_due()).count();
    match lacks.map(str::to_owned).or(anyway) {
        Some(why) if due > 0 => hold(due, why),
        _ => next(slots, || settling(slots).or_else(gate)),
    }
}

/// The decision where one is held that stops nobody: a pod whose daemons take the configuration as they run. None where those that have it
/// do not all serve, which may be what it does.
pub fn told(slots: &[PodSlot<'_>]) -> Option<Decision> {
    let is_borne = disturbed(slots).is_none() && slots.iter().all(|slot| slot.is_due() || slot.serves);
    let told = slots.iter().rev().find(|slot| slot.change == Some(Change::HotReload))?;
    is_borne.then(|| update(told, "it is not up to date"))
}

/// The disturbance by the operator that is not over yet.
pub fn disturbed<'s, 'a: 's>(slots: impl IntoIterator<Item = &'s PodSlot<'a>>) -> Option<String> {
    slots.into_iter().find_map(|slot| Some(format!("{} {}", slot.title(), slot.disturbed()?)))
}

/// A pod that was started a moment ago.
fn settling<'s, 'a: 's>(slots: impl IntoIterator<Item = &'s PodSlot<'a>>) -> Option<String> {
    let slot = slots.into_iter().find(|slot| slot.settles)?;
    Some(format!("{} has served for less than {} s", slot.title(), SETTLING.as_secs()))
}

/// Brings one pod up to date, whatever else holds.
pub(crate) fn update(slot: &PodSlot<'_>, why: &str) -> Decision {
    let target = Target { pod: slot.pod.to_owned(), uid: slot.uid.to_owned(), why: why.to_owned() };
    match slot.change {
        Some(Change::Configuration | Change::HotReload) => Decision::Activate(target),
        Some(Change::Certificate) => Decision::Renew(target),
        Some(Change::Template | Change::UnderWay) | None => Decision::Restart(target),
    }
}

/// Decides where the kubelet's word is all there is, for pods of these workloads, each with the hash that its pods' template
/// should have.
pub fn of_pods(pods: &[Pod], live: &BTreeMap<String, Workload>, templates: &[(String, String)]) -> Decision {
    let slot = |pod: &Pod| {
        let (name, template) = templates.iter().find(|(name, _)| pod.workload() == name)?;
        outdated(pod, live.get(name), template)
    };
    let slots = in_turn(pods, templates, |pod| of_kubelet(pod, slot(pod)));
    next(&slots, || unready(pods).or_else(|| any_incomplete(pods, live, templates)))
}

/// Whether a pod has to be replaced: for another template, because `kubectl rollout restart` asks for it, or since its node has another address. Until the controller of its workload has seen that one it would make the pod from the
/// old one again.
pub fn outdated(pod: &Pod, live: Option<&Workload>, template: &str) -> Option<Change> {
    let live = live.filter(|workload| workload.current)?;
    let is_outdated =
        pod.template.as_deref() != Some(template) || restart_is_due(pod, live) || pod.node_address.is_some();
    is_outdated.then_some(Change::Template)
}

/// Whether `kubectl rollout restart` asked for other pods since this one was made. The workload replaces none by itself.
pub fn restart_is_due(pod: &Pod, live: &Workload) -> bool {
    live.restarted_at.is_some() && pod.restarted_at != live.restarted_at
}

/// A pod as the kubelet has it.
pub fn of_kubelet(pod: &Pod, change: Option<Change>) -> PodSlot<'_> {
    let Pod { name, uid, ready, terminating, .. } = pod;
    let node = pod.node.as_deref();
    let (serves, terminating, lacks_image) = (*ready, *terminating, pod.lacks_image);
    PodSlot { pod: name, uid, node, serves, terminating, lacks_image, change, ..PodSlot::default() }
}

/// Pods of one workload after the other, the first first: pods are taken from the end.
fn in_turn<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    templates: &[(String, String)],
    slot: impl Fn(&'a Pod) -> PodSlot<'a>,
) -> Vec<PodSlot<'a>> {
    let rank = |pod: &Pod| templates.iter().position(|(name, _)| pod.workload() == name).unwrap_or(usize::MAX);
    let mut ordered: Vec<&Pod> = pods.into_iter().collect();
    ordered.sort_by_key(|pod| Reverse(rank(pod)));
    ordered.into_iter().map(slot).collect()
}

pub(crate) fn unready<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<String> {
    let unready = pods.into_iter().find(|pod| !pod.ready)?;
    Some(format!("{} is not ready", of_kubelet(unready, None).title()))
}

pub(crate) fn any_incomplete(
    pods: &[Pod],
    live: &BTreeMap<String, Workload>,
    templates: &[(String, String)],
) -> Option<String> {
    templates.iter().find_map(|(name, _)| incomplete(pods, name, live.get(name)))
}

fn incomplete(pods: &[Pod], name: &str, workload: Option<&Workload>) -> Option<String> {
    let Some(workload) = workload.filter(|workload| workload.current) else {
        return Some(format!("the controller of {name} has not seen the new template yet"));
    };
    let existing = pods.iter().filter(|pod| pod.workload() == name).count() as i32;
    (existing < workload.wanted).then(|| format!("{existing} of {} pods of {name} exist", workload.wanted))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pod(index: usize, ready: bool, template: &str) -> Pod {
        Pod {
            name: format!("set-{index}"),
            uid: format!("uid-{index}"),
            ready,
            template: Some(template.into()),
            ..Pod::default()
        }
    }

    fn of_set(pods: &[Pod], workload: Workload) -> Decision {
        let live = BTreeMap::from([("set".to_owned(), workload)]);
        of_pods(pods, &live, &[("set".to_owned(), "new".to_owned())])
    }

    fn workload(wanted: i32) -> Workload {
        Workload { current: true, wanted, ..Workload::default() }
    }

    #[test]
    fn nothing_to_do_when_every_pod_is_current() {
        assert_eq!(of_set(&[pod(0, true, "new"), pod(1, false, "new")], workload(2)), Decision::Done);
    }

    #[test]
    fn the_highest_ordinal_goes_first_but_for_who_goes_last() {
        let pods = [pod(0, true, "old"), pod(1, true, "old"), pod(2, true, "old")];
        assert!(matches!(of_set(&pods, workload(3)), Decision::Restart(target) if target.pod == "set-2"));
        let slot = |pod, last| {
            let change = Some(Change::Configuration);
            PodSlot { pod, serves: true, last, change, ..PodSlot::default() }
        };
        let led = [slot("a", false), slot("b", false), slot("c", true)];
        assert!(matches!(next(&led, || None), Decision::Activate(target) if target.pod == "b"));
        assert!(matches!(next(&led[2..], || None), Decision::Activate(target) if target.pod == "c"));
    }

    #[test]
    fn a_broken_outdated_pod_goes_before_healthy_ones() {
        let pods = [pod(0, false, "old"), pod(1, true, "old")];
        assert!(matches!(of_set(&pods, workload(2)), Decision::Restart(target) if target.pod == "set-0"));
    }

    #[test]
    fn a_pod_on_its_way_back_holds_the_rest() {
        let pods = [pod(0, true, "old"), pod(1, false, "new")];
        assert!(matches!(of_set(&pods, workload(2)), Decision::Hold(why) if why.contains("set-1")));
        let missing = [pod(0, true, "old")];
        assert!(matches!(of_set(&missing, workload(2)), Decision::Hold(why) if why.contains("1 of 2 pods")));
    }

    #[test]
    fn kubectl_rollout_restart_replaces_each_pod_once() {
        let asked = Workload { restarted_at: Some("2026-11-29T00:00:00Z".into()), ..workload(2) };
        let made = |index, at: Option<&str>| Pod { restarted_at: at.map(str::to_owned), ..pod(index, true, "new") };
        let now = Some("2026-11-29T00:00:00Z");
        let decide = |pods: &[Pod]| of_set(pods, asked.clone());
        let before = Some("2026-11-28T00:00:00Z");
        assert!(
            matches!(decide(&[made(0, None), made(1, before)]), Decision::Restart(target) if target.pod == "set-1")
        );
        assert!(matches!(decide(&[made(0, None), made(1, now)]), Decision::Restart(target) if target.pod == "set-0"));
        assert_eq!(decide(&[made(0, now), made(1, now)]), Decision::Done);
        assert_eq!(of_set(&[made(0, now), made(1, None)], workload(2)), Decision::Done, "the annotation is gone");
    }

    #[test]
    fn a_template_its_controller_has_not_seen_restarts_nothing() {
        let pods = [pod(0, true, "old"), pod(1, false, "old")];
        let unseen = Workload { current: false, ..workload(2) };
        assert_eq!(of_set(&pods, unseen), Decision::Done);
        let templates = [("set".to_owned(), "new".to_owned())];
        assert_eq!(of_pods(&pods, &BTreeMap::new(), &templates), Decision::Done);
    }

    #[test]
    fn of_members_that_serve_each_for_itself_none_follows_one_that_does_not_serve_although_it_is_up_to_date() {
        let slot = |pod, serves, change| PodSlot { pod, uid: pod, serves, change, ..PodSlot::default() };
        let old = Some(Change::Configuration);
        let fine = || None;
        let down = [slot("a", false, old), slot("b", false, old), slot("c", false, old)];
        assert!(matches!(next_independent(&down, None, fine), Decision::Activate(target) if target.pod == "c"));
        for way in [None, Some(Change::UnderWay)] {
            let tried = [slot("a", false, old), slot("b", true, old), slot("c", false, way)];
            let Decision::Hold(why) = next_independent(&tried, None, fine) else { panic!("it goes on") };
            assert!(why.starts_with("2 pods are not up to date, none is touched now: pod c"), "{why}");
        }
        let helped = [slot("a", false, old), slot("b", false, old), slot("c", true, None)];
        assert!(matches!(next_independent(&helped, None, fine), Decision::Activate(target) if target.pod == "b"));
        let lacks = Some("Cassandra tf/a is not available");
        let Decision::Hold(why) = next_independent(&down, lacks, fine) else { panic!("what it would read is gone") };
        assert_eq!(why, "3 pods are not up to date, none is touched now: Cassandra tf/a is not available");
        assert_eq!(next_independent(&[slot("a", true, None)], lacks, fine), Decision::Done);
    }

    fn change() -> impl Strategy<Value = Option<Change>> {
        prop::option::of(prop::sample::select(vec![
            Change::Template,
            Change::Certificate,
            Change::Configuration,
            Change::HotReload,
            Change::UnderWay,
        ]))
    }

    #[test]
    fn what_is_down_waits_for_what_the_operator_stopped_a_moment_ago() {
        let old = Some(Change::Configuration);
        let away = PodSlot { pod: "a", uid: "a", change: old, ..PodSlot::default() };
        let stopped = [
            PodSlot { pod: "b", uid: "b", serves: true, change: Some(Change::UnderWay), ..PodSlot::default() },
            PodSlot { pod: "b", uid: "b", serves: true, settles: true, ..PodSlot::default() },
            PodSlot { pod: "b", uid: "b", terminating: true, ..PodSlot::default() },
        ];
        for other in stopped {
            let Decision::Hold(why) = next(&[away.clone(), other], || None) else { panic!("it goes on") };
            assert!(why.starts_with("1 pods are not up to date, none is touched now: pod b "), "{why}");
        }
        let back = PodSlot { pod: "b", uid: "b", serves: true, ..PodSlot::default() };
        assert!(matches!(next(&[away.clone(), back], || None), Decision::Activate(target) if target.pod == "a"));
        let settles = [PodSlot { settles: true, ..PodSlot::default() }, PodSlot { serves: true, ..away.clone() }];
        assert!(
            matches!(next_independent(&settles, None, || None), Decision::Hold(why) if why.contains("less than 5 s"))
        );
        let restarts = [PodSlot { serves: true, away: true, ..PodSlot::default() }, away.clone()];
        let Decision::Hold(why) = next_independent(&restarts, None, || None) else { panic!("the kubelet is late") };
        assert!(why.contains("does not serve, either"), "{why}");
        let begins = PodSlot { settles: true, ..away };
        assert!(
            matches!(next(&[begins], || None), Decision::Activate(target) if target.pod == "a"),
            "it is no other one"
        );
    }

    #[test]
    fn a_template_by_which_a_member_does_not_serve_goes_to_no_other_one_that_was_away_for_a_moment() {
        let due = |lately| PodSlot { pod: "a", uid: "a", change: Some(Change::Template), lately, ..PodSlot::default() };
        let tried = |lacks_image| PodSlot { pod: "c", uid: "c", lacks_image, ..PodSlot::default() };
        let well = PodSlot { pod: "b", uid: "b", serves: true, change: Some(Change::Template), ..PodSlot::default() };
        let decide = |a: PodSlot<'static>, c: PodSlot<'static>| next(&[a, well.clone(), c], || None);
        let Decision::Hold(why) = decide(due(true), tried(false)) else { panic!("it gets the template") };
        assert_eq!(
            why,
            "2 pods are not up to date, none is touched now: pod c is, and does not serve; pod a has been away for less than 60 s"
        );
        // Servers that need each other may serve when several have it.
        assert!(matches!(decide(due(false), tried(false)), Decision::Restart(target) if target.pod == "a"));
        for lately in [false, true] {
            let Decision::Hold(why) = decide(due(lately), tried(true)) else { panic!("it gets the template") };
            assert!(why.ends_with("pod c is, and its image cannot be pulled"), "{why}");
        }
        // A template that mends it has been tried by none yet.
        let serves = PodSlot { serves: true, ..tried(false) };
        assert!(matches!(decide(due(true), serves), Decision::Restart(target) if target.pod == "a"));
        let configuration = PodSlot { change: Some(Change::Configuration), ..due(true) };
        assert!(matches!(decide(configuration, tried(true)), Decision::Activate(target) if target.pod == "a"));
    }

    #[test]
    fn a_pod_in_which_something_beside_the_speaker_fails_goes_before_healthy_ones() {
        let slot = |pod, ails, last| {
            let change = Some(Change::Configuration);
            PodSlot { pod, uid: pod, serves: true, ails, last, change, ..PodSlot::default() }
        };
        let slots = [slot("a", true, true), slot("b", false, false), slot("c", false, false)];
        assert!(matches!(next(&slots, || None), Decision::Activate(target) if target.pod == "a"));
        assert!(matches!(next(&slots, || Some("held".into())), Decision::Hold(_)), "its speaker serves");
    }

    fn slot(
        pod: &str,
        [serves, away, ails, pending, settles, last, terminating, lately, lacks_image]: [bool; 9],
        change: Option<Change>,
    ) -> PodSlot<'_> {
        let pending = pending && change.is_some_and(|change| change != Change::UnderWay);
        let (lately, lacks_image) = (lately && !serves, lacks_image && !serves);
        let (ails, uid, node) = (ails && serves, pod, None);
        PodSlot { pod, uid, node, serves, away, ails, pending, settles, lately, lacks_image, last, terminating, change }
    }

    proptest! {
        /// The operator takes a pod away only where it has disturbed no other one, and a pod that serves only where nothing else holds it; and
        /// no decision waits for nothing.
        #[test]
        fn never_takes_a_second_pod_away_and_goes_on_whenever_it_can(
            states in prop::collection::vec((any::<[bool; 9]>(), change()), 1..7), held: bool,
        ) {
            let names: Vec<String> = (0..states.len()).map(|index| format!("pod-{index}")).collect();
            let slots: Vec<PodSlot<'_>> = names.iter().zip(&states).map(|(pod, (is, change))| slot(pod, *is, *change)).collect();
            let disturbed = |slot: &&PodSlot<'_>| slot.terminating || slot.change == Some(Change::UnderWay);
            let busy = |slot: &&PodSlot<'_>| slot.settles || disturbed(slot);
            let due = |slot: &&PodSlot<'_>| slot.change.is_some_and(|change| change != Change::UnderWay);
            if let Some(target) = next_independent(&slots, None, || None).target() {
                let target = slots.iter().find(|slot| slot.pod == target.pod).unwrap();
                let is_away = |slot: &PodSlot<'_>| !due(&slot) && (slot.away || !slot.serves);
                prop_assert!(!slots.iter().any(|slot| slot.pod != target.pod && busy(&slot)));
                prop_assert!(target.serves || !slots.iter().any(is_away));
            }
            let has_failed = |why: &dyn Fn(&PodSlot<'_>) -> bool| slots.iter().any(|slot| slot.change.is_none() && !slot.serves && why(slot));
            match next(&slots, || held.then(|| "held".to_owned())) {
                Decision::Restart(target) | Decision::Activate(target) | Decision::Renew(target) => {
                    let target = slots.iter().find(|slot| slot.pod == target.pod).unwrap();
                    prop_assert!(due(&target) && !target.terminating);
                    let others_are = |busy: &dyn Fn(&&PodSlot<'_>) -> bool| slots.iter().any(|slot| slot.pod != target.pod && busy(&slot));
                    prop_assert!(!others_are(&disturbed), "two are away");
                    prop_assert!(target.serves || !others_are(&busy), "two may be away");
                    let is_template = target.change == Some(Change::Template) && !target.serves;
                    prop_assert!(!is_template || !has_failed(&|slot| slot.lacks_image || target.lately), "it was tried in vain");
                    prop_assert!(!target.serves || !held && !disturbed(&target));
                    prop_assert!(!target.serves || target.pending || !others_are(&|slot| slot.pending && due(slot) && slot.serves));
                    let is_first = !target.serves || target.pending;
                    let others = || slots.iter().filter(due).filter(|slot| slot.serves);
                    prop_assert!(is_first || target.ails || others().all(|slot| !slot.ails));
                    prop_assert!(is_first || !target.last || target.ails || others().all(|slot| slot.last));
                }
                Decision::Hold(_) => {
                    prop_assert!(held || slots.iter().any(|slot| busy(&slot)) || has_failed(&|_| true));
                    let down = || slots.iter().filter(due).filter(|slot| !slot.serves && !slot.terminating);
                    let others_are_busy = |down: &PodSlot<'_>| slots.iter().any(|slot| slot.pod != down.pod && busy(&slot));
                    let is_untried = |down: &PodSlot<'_>| down.change == Some(Change::Template) && has_failed(&|slot| slot.lacks_image || down.lately);
                    prop_assert!(down().next_back().is_none_or(|down| others_are_busy(down) || is_untried(down)));
                }
                Decision::Done => prop_assert!(!slots.iter().any(|slot| due(&slot) || disturbed(&slot))),
            }
            let had = || slots.iter().filter(|slot| !due(slot));
            match told(&slots) {
                Some(Decision::Activate(target)) => {
                    let target = slots.iter().find(|slot| slot.pod == target.pod).unwrap();
                    prop_assert!(target.change == Some(Change::HotReload) && had().all(|slot| slot.serves));
                    prop_assert!(!slots.iter().any(|slot| disturbed(&slot)));
                }
                Some(other) => prop_assert!(false, "{other:?} stops somebody"),
                None => {
                    let nobody = slots.iter().all(|slot| slot.change != Some(Change::HotReload));
                    prop_assert!(nobody || slots.iter().any(|slot| disturbed(&slot)) || had().any(|slot| !slot.serves));
                }
            }
        }
    }
}
