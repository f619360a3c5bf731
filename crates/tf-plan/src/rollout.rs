//! Which pod is brought up to date now, if any: the one engine of all components.
//!
//! StatefulSets use `OnDelete`, so a changed template replaces no pod by itself: the operator deletes outdated pods, or has
//! their agents take another configuration or certificate, one at a time. One that is down goes first, since nothing can make it worse and
//! what is outdated of it may be what breaks it; the others go only while all serve, who leads last, so that leadership moves
//! once (stateful-services 1.1.5). The decision looks at what is observed and nothing else, so killing the operator between
//! two steps changes nothing.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::{
    observed::{Pod, Workload},
    step::{Step, Target},
};

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
    Told,
    /// Nothing any more: its agent was told to change over and has not done so yet.
    UnderWay,
}

/// A pod of a roll-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat<'a> {
    /// Its name.
    pub pod: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Whether it serves, in the best words there are: its member's, else the kubelet's.
    pub serves: bool,
    /// Whether it goes last of those that serve.
    pub last: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// What of it is not current.
    pub change: Option<Change>,
}

impl Seat<'_> {
    /// Whether something has to be done to it.
    fn is_due(&self) -> bool {
        self.change.is_some_and(|change| change != Change::UnderWay)
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
pub fn next(seats: &[Seat<'_>], gate: impl FnOnce() -> Option<String>) -> Decision {
    // The highest ordinal first, as a StatefulSet's own rolling update does.
    let mut due: Vec<&Seat<'_>> = seats.iter().rev().filter(|seat| seat.is_due()).collect();
    if let Some(seat) = due.iter().find(|seat| !seat.serves && !seat.terminating) {
        return update(seat, "it does not serve and is not up to date");
    }
    let disturbed = disturbed(seats);
    if due.is_empty() {
        // The last one that was told may not have begun yet.
        return disturbed.map_or(Decision::Done, Decision::Hold);
    }
    if let Some(why) = disturbed.or_else(gate) {
        return Decision::Hold(format!("{} pods are not up to date, none is touched now: {why}", due.len()));
    }
    due.sort_by_key(|seat| seat.last);
    due.first().map_or(Decision::Done, |seat| update(seat, "it is not up to date"))
}

/// Decides as [`next`] does for members that serve each for itself and have served. One that lost what it lives on goes on with what it read
/// before, and would come back without: nobody is touched meanwhile. `lacks`: what all of them lack, if anything; besides, when one that is
/// up to date does not serve, either, what the others need is elsewhere.
pub fn next_apart(seats: &[Seat<'_>], lacks: Option<&str>, gate: impl FnOnce() -> Option<String>) -> Decision {
    let suffers = seats.iter().any(|seat| seat.is_due() && !seat.serves);
    let anyway = seats.iter().find(|seat| suffers && !seat.is_due() && !seat.serves);
    let anyway = anyway.map(|seat| format!("pod {} is, or is on its way there, and does not serve, either", seat.pod));
    let due = seats.iter().filter(|seat| seat.is_due()).count();
    match lacks.map(str::to_owned).or(anyway) {
        Some(why) if due > 0 => Decision::Hold(format!("{due} pods are not up to date, none is touched now: {why}")),
        _ => next(seats, gate),
    }
}

/// The decision where one is held that stops nobody: a pod whose daemons take the configuration as they run. None where those that have it
/// do not all serve, which may be what it does.
pub fn told(seats: &[Seat<'_>]) -> Option<Decision> {
    let is_borne = disturbed(seats).is_none() && seats.iter().all(|seat| seat.is_due() || seat.serves);
    let told = seats.iter().rev().find(|seat| seat.change == Some(Change::Told))?;
    is_borne.then(|| update(told, "it is not up to date"))
}

/// The disturbance by us that is not over yet.
pub fn disturbed(seats: &[Seat<'_>]) -> Option<String> {
    let seat = seats.iter().find(|seat| seat.terminating || seat.change == Some(Change::UnderWay))?;
    let what = if seat.terminating { "is terminating" } else { "has not changed over yet" };
    Some(format!("pod {} {what}", seat.pod))
}

/// Brings one pod up to date, whatever else holds.
fn update(seat: &Seat<'_>, why: &str) -> Decision {
    let target = Target { pod: seat.pod.to_owned(), uid: seat.uid.to_owned(), why: why.to_owned() };
    match seat.change {
        Some(Change::Configuration | Change::Told) => Decision::Activate(target),
        Some(Change::Certificate) => Decision::Renew(target),
        Some(Change::Template | Change::UnderWay) | None => Decision::Restart(target),
    }
}

/// Decides where the kubelet's word is all there is, for pods of these workloads, each with the hash that its pods' template
/// should have.
pub fn of_pods(pods: &[Pod], live: &BTreeMap<String, Workload>, templates: &[(String, String)]) -> Decision {
    let change = |pod: &Pod, workload: Option<&Workload>, template: &str| {
        // Until its controller has seen the template it would make the pod from the old one again.
        let is_current = workload.is_some_and(|workload| workload.current);
        (is_current && pod.template.as_deref() != Some(template)).then_some(Change::Template)
    };
    of_workloads(pods, &[], live, templates, change, || None)
}

/// Decides for pods of several workloads, one after the other. `lost`: those that nothing can be done to, for which nobody waits; `change`: what
/// of a pod is not current, by its live workload and the hash that its template should have; `gate`: what else keeps a pod that serves from
/// being touched.
pub fn of_workloads(
    pods: &[Pod],
    lost: &[&Pod],
    live: &BTreeMap<String, Workload>,
    templates: &[(String, String)],
    change: impl Fn(&Pod, Option<&Workload>, &str) -> Option<Change>,
    gate: impl FnOnce() -> Option<String>,
) -> Decision {
    let change = |pod: &Pod| {
        let (name, template) = templates.iter().find(|(name, _)| pod.workload() == name)?;
        change(pod, live.get(name), template)
    };
    // One workload after the other, the first first: pods are taken from the end.
    let rank = |pod: &Pod| templates.iter().position(|(name, _)| pod.workload() == name).unwrap_or(usize::MAX);
    let is_there = |pod: &&Pod| !lost.iter().any(|lost| lost.uid == pod.uid);
    let mut ordered: Vec<&Pod> = pods.iter().filter(is_there).collect();
    ordered.sort_by_key(|pod| Reverse(rank(pod)));
    let seats: Vec<Seat<'_>> = ordered
        .into_iter()
        .map(|pod| {
            let Pod { name, uid, ready, terminating, .. } = pod;
            Seat { pod: name, uid, serves: *ready, last: false, terminating: *terminating, change: change(pod) }
        })
        .collect();
    next(&seats, || {
        let broken =
            pods.iter().filter(is_there).find(|pod| !pod.ready).map(|pod| format!("pod {} is not ready", pod.name));
        broken.or_else(|| templates.iter().find_map(|(name, _)| incomplete(pods, name, live.get(name)))).or_else(gate)
    })
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
        let seat = |pod, last| {
            let change = Some(Change::Configuration);
            Seat { pod, uid: "", serves: true, last, terminating: false, change }
        };
        let led = [seat("a", false), seat("b", false), seat("c", true)];
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
    fn a_template_its_controller_has_not_seen_restarts_nothing() {
        let pods = [pod(0, true, "old"), pod(1, false, "old")];
        let unseen = Workload { current: false, ..workload(2) };
        assert_eq!(of_set(&pods, unseen), Decision::Done);
        let templates = [("set".to_owned(), "new".to_owned())];
        assert_eq!(of_pods(&pods, &BTreeMap::new(), &templates), Decision::Done);
    }

    #[test]
    fn of_members_that_serve_each_for_itself_none_follows_one_that_does_not_serve_although_it_is_up_to_date() {
        let seat = |pod, serves, change| Seat { pod, uid: "", serves, last: false, terminating: false, change };
        let old = Some(Change::Configuration);
        let fine = || None;
        let down = [seat("a", false, old), seat("b", false, old), seat("c", false, old)];
        assert!(matches!(next_apart(&down, None, fine), Decision::Activate(target) if target.pod == "c"));
        for way in [None, Some(Change::UnderWay)] {
            let tried = [seat("a", false, old), seat("b", true, old), seat("c", false, way)];
            let Decision::Hold(why) = next_apart(&tried, None, fine) else { panic!("it goes on") };
            assert!(why.starts_with("2 pods are not up to date, none is touched now: pod c"), "{why}");
        }
        let helped = [seat("a", false, old), seat("b", false, old), seat("c", true, None)];
        assert!(matches!(next_apart(&helped, None, fine), Decision::Activate(target) if target.pod == "b"));
        let lacks = Some("Cassandra tf/a is not available");
        let Decision::Hold(why) = next_apart(&down, lacks, fine) else { panic!("what it would read is gone") };
        assert_eq!(why, "3 pods are not up to date, none is touched now: Cassandra tf/a is not available");
        assert_eq!(next_apart(&[seat("a", true, None)], lacks, fine), Decision::Done);
    }

    fn change() -> impl Strategy<Value = Option<Change>> {
        prop::option::of(prop::sample::select(vec![
            Change::Template,
            Change::Certificate,
            Change::Configuration,
            Change::Told,
            Change::UnderWay,
        ]))
    }

    proptest! {
        /// By our own action at most one pod is away, unless it was away before; and nobody waits for nothing.
        #[test]
        fn never_takes_a_second_healthy_pod_down_and_goes_on_whenever_it_can(
            states in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>(), change()), 1..7), held: bool,
        ) {
            let names: Vec<String> = (0..states.len()).map(|index| format!("pod-{index}")).collect();
            let seats: Vec<Seat<'_>> = names.iter().zip(&states).map(|(pod, (serves, last, terminating, change))| {
                Seat { pod, uid: pod, serves: *serves, last: *last, terminating: *terminating, change: *change }
            }).collect();
            let busy = |seat: &Seat<'_>| seat.terminating || seat.change == Some(Change::UnderWay);
            let due = |seat: &&Seat<'_>| seat.change.is_some_and(|change| change != Change::UnderWay);
            match next(&seats, || held.then(|| "held".to_owned())) {
                Decision::Restart(target) | Decision::Activate(target) | Decision::Renew(target) => {
                    let target = seats.iter().find(|seat| seat.pod == target.pod).unwrap();
                    prop_assert!(due(&target) && !target.terminating);
                    prop_assert!(!target.serves || !held && !seats.iter().any(busy));
                    let others = || seats.iter().filter(due).filter(|seat| seat.serves);
                    prop_assert!(!target.serves || !target.last || others().all(|seat| seat.last));
                }
                Decision::Hold(_) => {
                    prop_assert!(held || seats.iter().any(busy));
                    prop_assert!(!seats.iter().filter(due).any(|seat| !seat.serves && !seat.terminating));
                }
                Decision::Done => prop_assert!(!seats.iter().any(|seat| due(&seat) || busy(seat))),
            }
            let had = || seats.iter().filter(|seat| !due(seat));
            match told(&seats) {
                Some(Decision::Activate(target)) => {
                    let target = seats.iter().find(|seat| seat.pod == target.pod).unwrap();
                    prop_assert!(target.change == Some(Change::Told) && !seats.iter().any(busy) && had().all(|seat| seat.serves));
                }
                Some(other) => prop_assert!(false, "{other:?} stops somebody"),
                None => {
                    let nobody = seats.iter().all(|seat| seat.change != Some(Change::Told));
                    prop_assert!(nobody || seats.iter().any(busy) || had().any(|seat| !seat.serves));
                }
            }
        }
    }
}
