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

use crate::{
    observed::{Pod, Workload},
    rollout::{self, Change, DOWN, Decision, Seat},
};

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

/// What is changed without a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Everything.
    #[default]
    RollingUpdate,
    /// What a pod can take without being replaced.
    InPlace,
    /// Certificates.
    OnDelete,
}

/// How a change goes through nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// What is changed without a person.
    pub method: Method,
    /// How many nodes may be without a working agent at the same time.
    pub max_unavailable: Share,
    /// At how many pods that are up to date and have not served for [`rollout::PATIENCE`] the change stops.
    pub max_failures: usize,
    /// How long a changed pod has to serve before it counts as available.
    pub soak: Duration,
    /// Label of nodes, of which only those with the same value are changed at the same time.
    pub topology_key: Option<String>,
}

impl Default for Strategy {
    fn default() -> Self {
        Self {
            method: Method::default(),
            max_unavailable: Share::Nodes(1),
            max_failures: 1,
            soak: Duration::ZERO,
            topology_key: None,
        }
    }
}

/// Workloads through which a change goes by one strategy, one workload after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// DaemonSets, with the hash of each one's pod template.
    pub workloads: Vec<(String, String)>,
    /// The strategy.
    pub strategy: Strategy,
}

/// What of a pod is not current, by its live workload and the hash that its template should have.
pub type ChangeOf<'f> = dyn Fn(&Pod, Option<&Workload>, &str) -> Option<Change> + 'f;

/// What is known of pods.
pub struct View<'a, 'f> {
    /// The pods of all lanes.
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
}

/// What is done now to the pods of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wave {
    /// Pods that are changed, each as its decision says.
    pub changes: Vec<Decision>,
    /// Why nothing may be done now although something is not up to date, for people.
    pub held: Option<String>,
    /// Names of pods that are not up to date and wait for a person, who deletes them.
    pub left: Vec<String>,
    /// When a pod has soaked.
    pub again: Option<Duration>,
}

/// A pod with what decides about it.
struct Member<'a> {
    pod: &'a Pod,
    seat: Seat<'a>,
    /// Why it does not serve although its kubelet reports it Ready.
    trouble: Option<String>,
    soaks: Option<Duration>,
}

impl Member<'_> {
    /// Whether the operator disturbs it, or has done so lately.
    fn is_begun(&self) -> bool {
        self.soaks.is_some() || rollout::disturbed([&self.seat]).is_some()
    }

    /// Whether its node is without a working agent.
    fn is_away(&self) -> bool {
        self.is_begun() || !self.seat.serves || self.trouble.is_some()
    }

    fn is_current(&self) -> bool {
        self.seat.change.is_none()
    }
}

/// Decides for the pods of a lane.
pub fn wave(lane: &Lane, view: &View<'_, '_>) -> Wave {
    let Lane { workloads, strategy } = lane;
    let mut left = Vec::new();
    let unasked: BTreeMap<String, Workload> = match strategy.method {
        Method::RollingUpdate => BTreeMap::new(),
        Method::InPlace | Method::OnDelete => {
            let unasked = |live: &Workload| Workload { restarted_at: None, ..live.clone() };
            view.live.iter().map(|(name, live)| (name.clone(), unasked(live))).collect()
        }
    };
    let mut member = |(pod, template): (&'_ Pod, &str)| {
        let live = view.live.get(pod.workload());
        match strategy.method {
            Method::RollingUpdate => (view.change)(pod, live, template),
            method => {
                // The pod is as it was made, and its other files may have changed nevertheless.
                let made = pod.template.as_deref().unwrap_or_default();
                let change = (view.change)(pod, unasked.get(pod.workload()), made);
                let is_done = |change: &Change| {
                    *change == Change::UnderWay
                        || *change == Change::Certificate
                        || *change == Change::Told
                        || method == Method::InPlace && *change == Change::Configuration
                };
                let kept = change.filter(is_done);
                let is_left = rollout::outdated(pod, live, template).is_some() || kept != change;
                left.extend(is_left.then(|| pod.name.clone()));
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
        let seat = rollout::of_kubelet(pod, member((pod, &workloads[place].1)));
        let soaks = (view.soaks)(pod, strategy.soak).filter(|_| seat.serves && !strategy.soak.is_zero());
        members.push(Member { pod, seat, trouble: (view.trouble)(pod), soaks });
    }
    let wave = decide(strategy, workloads, view, &members);
    let again = members.iter().filter_map(|member| member.soaks).min().filter(|_| wave.held.is_some());
    Wave { left, again, ..wave }
}

fn decide(strategy: &Strategy, workloads: &[(String, String)], view: &View<'_, '_>, members: &[Member<'_>]) -> Wave {
    let due: Vec<&Member<'_>> = members.iter().filter(|member| member.seat.is_due()).collect();
    let disturbed = || rollout::disturbed(members.iter().map(|member| &member.seat));
    if due.is_empty() {
        // The last one may not have begun to change over yet.
        return Wave { held: disturbed(), ..Wave::default() };
    }
    let held = |why| Wave { held: Some(rollout::held(due.len(), why)), ..Wave::default() };
    let count = |name: &str| view.pods.iter().filter(|pod| pod.workload() == name).count();
    let counts: Vec<(usize, usize)> = workloads
        .iter()
        .map(|(name, _)| (count(name), view.live.get(name).map_or(0, |live| live.wanted.max(0) as usize)))
        .collect();
    let nodes = counts.iter().map(|(existing, wanted)| existing.max(wanted)).sum();
    let budget = strategy.max_unavailable.of(nodes);
    if due.iter().any(|member| is_down(member)) {
        let changes = mended(&due, members, budget);
        return changes.map_or_else(held, |changes| Wave { changes, ..Wave::default() });
    }
    let unready = || {
        let unready = members.iter().find(|member| !member.seat.serves)?;
        Some(format!("{} is not ready", unready.seat.title()))
    };
    let incomplete = || {
        let (index, (existing, wanted)) =
            counts.iter().enumerate().find(|(_, (existing, wanted))| existing < wanted)?;
        Some(format!("{existing} of {wanted} pods of {} exist", workloads[index].0))
    };
    let unseen = || {
        let (name, _) = workloads.iter().find(|(name, _)| view.live.get(name).is_none_or(|live| !live.current))?;
        Some(format!("the controller of {name} has not seen the new template yet"))
    };
    let trouble = || {
        let (member, why) = members.iter().find_map(|member| Some((member, member.trouble.as_ref()?)))?;
        Some(format!("{} does not serve: {why}", member.seat.title()))
    };
    let soaking = || {
        let soaking = members.iter().find(|member| member.soaks.is_some())?;
        Some(format!("{} has served for less than {} s", soaking.seat.title(), strategy.soak.as_secs()))
    };
    let missing: usize = counts.iter().map(|(existing, wanted)| wanted.saturating_sub(*existing)).sum();
    let away = members.iter().filter(|member| member.is_away()).count() + missing;
    let room = budget.saturating_sub(away);
    let changes = if room == 0 || unseen().is_some() {
        Vec::new()
    } else if let Some(why) = failed(strategy, view, members) {
        return held(why);
    } else {
        chosen(strategy, view, members, &due, room)
    };
    if !changes.is_empty() {
        return Wave { changes, ..Wave::default() };
    }
    let why = disturbed().or_else(unready).or_else(unseen).or_else(incomplete).or_else(trouble).or_else(soaking);
    held(why.unwrap_or_default())
}

/// Whether a pod that is not up to date does not serve and can be brought up to date.
fn is_down(member: &Member<'_>) -> bool {
    !member.seat.serves && !member.seat.terminating
}

/// Changes of pods that do not serve, `most` at most.
///
/// # Errors
/// Why none of them gets what it lacks.
fn mended(due: &[&Member<'_>], members: &[Member<'_>], most: usize) -> Result<Vec<Decision>, String> {
    let seats: Vec<Seat<'_>> = members.iter().map(|member| member.seat.clone()).collect();
    let mut changes = Vec::new();
    for member in due.iter().filter(|member| is_down(member)) {
        match rollout::untried(&member.seat, &seats) {
            Some(why) => return if changes.is_empty() { Err(why) } else { Ok(changes) },
            None if changes.len() < most => changes.push(rollout::update(&member.seat, DOWN)),
            None => break,
        }
    }
    Ok(changes)
}

/// Why nothing that serves is changed: pods that are up to date do not serve.
fn failed(strategy: &Strategy, view: &View<'_, '_>, members: &[Member<'_>]) -> Option<String> {
    let has_failed = |it: &&Member<'_>| it.is_current() && !it.seat.serves && !it.seat.terminating;
    let failed: Vec<_> = members.iter().filter(has_failed).filter(|it| !(view.lately)(it.pod)).collect();
    let (count, most) = (failed.len(), strategy.max_failures);
    let first = failed.first().filter(|_| count >= most)?.seat.title();
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
    let mut due: Vec<&Member<'_>> = due.iter().copied().filter(|member| !member.seat.terminating).collect();
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
            changes.push(rollout::update(&member.seat, "it is not up to date"));
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    const SET: &str = "set";
    const NEW: &str = "new";

    fn pod(index: usize, ready: bool, template: &str) -> Pod {
        Pod {
            name: format!("{SET}-{index}"),
            uid: format!("uid-{index}"),
            node: Some(format!("node-{index}")),
            ready,
            template: Some(template.into()),
            ..Pod::default()
        }
    }

    fn fleet(count: usize) -> Vec<Pod> {
        (0..count).map(|index| pod(index, true, "old")).collect()
    }

    /// Pods of one DaemonSet, and what is known of them by their indexes.
    #[derive(Debug, Default)]
    struct World {
        pods: Vec<Pod>,
        /// Changes beside those of templates.
        changes: BTreeMap<String, Change>,
        lost: BTreeSet<String>,
        troubled: BTreeSet<String>,
        lately: BTreeSet<String>,
        soaking: BTreeSet<String>,
        zones: BTreeMap<String, String>,
    }

    impl World {
        fn of(pods: Vec<Pod>) -> Self {
            Self { pods, ..Self::default() }
        }

        fn decide(&self, strategy: Strategy) -> Wave {
            let wanted = i32::try_from(self.pods.len()).unwrap();
            let live = BTreeMap::from([(SET.to_owned(), Workload { current: true, wanted, ..Workload::default() })]);
            let lane = Lane { workloads: vec![(SET.to_owned(), NEW.to_owned())], strategy };
            let view = View {
                pods: &self.pods,
                lost: &|pod| self.lost.contains(&pod.name),
                live: &live,
                change: &|pod, live, template| {
                    rollout::outdated(pod, live, template).or_else(|| self.changes.get(&pod.name).copied())
                },
                trouble: &|pod| self.troubled.contains(&pod.name).then(|| "its agent does not answer".to_owned()),
                lately: &|pod| !pod.ready && self.lately.contains(&pod.name),
                soaks: &|pod, time| self.soaking.contains(&pod.name).then_some(time),
                label: &|pod, _| self.zones.get(&pod.name).map(String::as_str),
            };
            wave(&lane, &view)
        }

        fn changed(&self, strategy: Strategy) -> Vec<String> {
            names(&self.decide(strategy))
        }
    }

    fn names(wave: &Wave) -> Vec<String> {
        wave.changes.iter().filter_map(|change| Some(change.target()?.pod.clone())).collect()
    }

    fn percent(percent: usize) -> Strategy {
        Strategy { max_unavailable: Share::Percent(percent), ..Strategy::default() }
    }

    fn nodes(count: usize) -> Strategy {
        Strategy { max_unavailable: Share::Nodes(count), ..Strategy::default() }
    }

    #[test]
    fn a_percentage_is_rounded_up_and_is_one_node_at_least() {
        let shares = [(Share::Percent(5), 5000), (Share::Percent(5), 21), (Share::Percent(1), 3), (Share::Nodes(3), 2)];
        assert_eq!(shares.map(|(share, nodes)| share.of(nodes)), [250, 2, 1, 3]);
        assert_eq!(Share::Percent(5).of(0), 1);
    }

    #[test]
    fn none_gets_an_image_that_cannot_be_pulled_on_another_node() {
        let lacking = Pod { lacks_image: true, ..pod(1, false, NEW) };
        let pods = vec![pod(0, false, "old"), lacking, pod(2, true, "old")];
        let why = World::of(pods).decide(Strategy::default()).held.unwrap();
        assert!(why.ends_with("pod set-1 on node node-1 is, and its image cannot be pulled"), "{why}");
        let failing = vec![pod(0, false, "old"), pod(1, false, NEW), pod(2, true, "old")];
        assert_eq!(World::of(failing).changed(Strategy::default()), ["set-0"]);
    }

    #[test]
    fn a_pod_that_is_down_waits_for_no_other_one() {
        let under_way = [("set-1".to_owned(), Change::UnderWay)];
        let mut world = World {
            changes: under_way.into(),
            ..World::of(vec![pod(0, false, "old"), pod(1, true, NEW), pod(2, true, "old")])
        };
        assert_eq!(world.changed(Strategy::default()), ["set-0"]);
        world.pods.remove(0);
        let why = world.decide(Strategy::default()).held.unwrap();
        assert!(why.contains("set-1 on node node-1 has not changed over"), "{why}");
        let dead: Vec<Pod> = (0..10).map(|index| pod(index, false, "old")).collect();
        assert_eq!(World::of(dead.clone()).changed(Strategy::default()).len(), 1);
        assert_eq!(World::of(dead).changed(nodes(4)).len(), 4, "a fix gets through although no agent serves");
    }

    #[test]
    fn the_first_node_is_changed_alone_and_others_together_when_it_serves() {
        let mut world = World::of(fleet(10));
        assert_eq!(world.changed(nodes(3)), ["set-9"]);
        world.pods[9] = Pod { terminating: true, ..world.pods[9].clone() };
        let why = world.decide(nodes(3)).held.unwrap();
        assert!(why.contains("pod set-9 on node node-9 is terminating"), "{why}");
        world.pods[9] = pod(9, true, NEW);
        assert_eq!(world.changed(nodes(3)), ["set-8", "set-7", "set-6"]);
        world.soaking.insert("set-9".into());
        let soaking = Strategy { soak: Duration::from_secs(30), ..nodes(3) };
        let wave = world.decide(soaking.clone());
        assert_eq!((names(&wave).len(), wave.again), (0, Some(Duration::from_secs(30))));
        assert!(wave.held.unwrap().ends_with("pod set-9 on node node-9 has served for less than 30 s"));
        world.soaking.clear();
        assert_eq!(world.changed(soaking).len(), 3);
    }

    #[test]
    fn what_is_away_for_another_reason_counts_and_lost_nodes_do_not() {
        let mut world = World::of(fleet(10));
        world.pods[9] = pod(9, true, NEW);
        world.troubled.insert("set-0".into());
        world.lost.insert("set-1".into());
        world.pods[1].terminating = true;
        world.pods[2] = Pod { terminating: true, ..world.pods[2].clone() };
        assert_eq!(world.changed(nodes(3)), ["set-8"]);
        let why = world.decide(nodes(2)).held.unwrap();
        assert!(why.contains("set-2 on node node-2 is terminating"), "{why}");
    }

    #[test]
    fn a_change_stops_at_so_many_failures_and_says_where() {
        let mut world = World::of(fleet(10));
        for index in 5..10 {
            world.pods[index] = pod(index, index > 6, NEW);
        }
        world.lately.insert("set-6".into());
        let two = Strategy { max_failures: 2, ..nodes(5) };
        let why = world.decide(nodes(5)).held.unwrap();
        assert_eq!(
            why,
            "5 pods are not up to date, none is touched now: 1 that are up to date do not serve (maxFailures: 1), first pod set-5 on node \
             node-5; correct what keeps it from serving, or raise maxFailures"
        );
        assert_eq!(world.changed(two.clone()).len(), 3, "one of the two has been away for a moment only");
        world.lately.clear();
        assert_eq!(world.changed(two.clone()), [""; 0]);
        world.pods[6].ready = true;
        assert_eq!(world.changed(two).len(), 4);
    }

    #[test]
    fn nodes_of_one_failure_domain_are_changed_together() {
        let mut world = World::of(fleet(9));
        world.zones = (0..9).map(|index| (format!("set-{index}"), format!("zone-{}", index % 3))).collect();
        world.pods[8] = pod(8, true, NEW);
        let strategy = Strategy { topology_key: Some("zone".into()), ..nodes(4) };
        assert_eq!(world.changed(strategy.clone()), ["set-6", "set-3", "set-0"]);
        world.pods[7] = Pod { terminating: true, ..world.pods[7].clone() };
        assert_eq!(world.changed(strategy.clone()), ["set-4", "set-1"], "the zone that has begun");
        for index in [1, 4] {
            world.pods[index] = pod(index, true, NEW);
        }
        let why = world.decide(strategy).held.unwrap();
        assert!(why.contains("pod set-7 on node node-7 is terminating"), "{why}");
    }

    #[test]
    fn what_a_strategy_leaves_to_people_is_counted_and_not_done() {
        let mut world = World::of(fleet(4));
        let change = |index: usize, change| (format!("set-{index}"), change);
        world.changes =
            [change(1, Change::Configuration), change(2, Change::Certificate), change(3, Change::Told)].into();
        for index in 1..4 {
            world.pods[index].template = Some(NEW.into());
        }
        let of = |method| world.decide(Strategy { method, ..nodes(4) });
        let rolling = of(Method::RollingUpdate);
        assert_eq!((rolling.changes.len(), rolling.left.len()), (1, 0), "the first one alone");
        let in_place = of(Method::InPlace);
        assert!(in_place.changes.iter().all(|change| !matches!(change, Decision::Restart(_))), "{in_place:?}");
        assert_eq!(in_place.left, ["set-0"]);
        assert_eq!(of(Method::OnDelete).left.len(), 2);
        let mut certificates = World::of(vec![pod(0, true, "old"), pod(1, true, NEW)]);
        certificates.changes = [change(0, Change::Certificate)].into();
        let wave = certificates.decide(Strategy { method: Method::OnDelete, ..Strategy::default() });
        assert!(matches!(&wave.changes[..], [Decision::Renew(target)] if target.pod == "set-0"), "{wave:?}");
        assert_eq!(wave.left, ["set-0"]);
    }

    #[test]
    fn five_thousand_nodes_are_changed_in_at_most_twenty_five_waves() {
        let mut world = World::of(fleet(5000));
        let mut waves = 0;
        while let changed @ [_, ..] = &world.changed(percent(5))[..] {
            let changed: BTreeSet<&String> = changed.iter().collect();
            let is_changed = |pod: &&mut Pod| changed.contains(&pod.name);
            assert!(changed.len() <= 250);
            for pod in world.pods.iter_mut().filter(is_changed) {
                pod.terminating = true;
            }
            waves += 1;
            assert!(world.changed(percent(5)).len() + changed.len() <= 250, "a wave that is under way counts");
            for pod in world.pods.iter_mut().filter(|pod| pod.terminating) {
                *pod = Pod { terminating: false, template: Some(NEW.into()), ..pod.clone() };
            }
        }
        assert!(world.pods.iter().all(|pod| pod.template.as_deref() == Some(NEW)));
        assert_eq!(waves, 21);
    }

    fn change() -> impl prop::strategy::Strategy<Value = Option<Change>> {
        prop::option::of(prop::sample::select(vec![
            Change::Certificate,
            Change::Configuration,
            Change::Told,
            Change::UnderWay,
        ]))
    }

    proptest! {
        /// Never more nodes than the strategy bears are without a working agent by the operator's hand, and no decision waits for nothing.
        #[test]
        fn no_strategy_is_exceeded_and_something_is_done_or_said(
            states in prop::collection::vec((any::<[bool; 7]>(), 0..3_usize, change()), 1..12),
            (share, failures, soaks, by_zone) in (1..14_usize, 1..4_usize, any::<bool>(), any::<bool>()),
            method in prop::sample::select(vec![Method::RollingUpdate, Method::InPlace, Method::OnDelete]),
        ) {
            let mut world = World::default();
            for (index, ([ready, is_new, terminating, troubled, lately, soaking, lost], zone, change)) in states.into_iter().enumerate() {
                let pod = Pod { terminating, ..pod(index, ready, if is_new { NEW } else { "old" }) };
                let name = pod.name.clone();
                world.zones.insert(name.clone(), format!("zone-{zone}"));
                for (is, set) in [(troubled, &mut world.troubled), (lately, &mut world.lately), (soaking, &mut world.soaking), (lost && index % 4 == 0, &mut world.lost)] {
                    if is {
                        set.insert(name.clone());
                    }
                }
                world.changes.extend(change.map(|change| (name, change)));
                world.pods.push(pod);
            }
            let soak = Duration::from_secs(if soaks { 60 } else { 0 });
            let topology_key = by_zone.then(|| "zone".to_owned());
            let strategy = Strategy { method, max_unavailable: Share::Nodes(share), max_failures: failures, soak, topology_key };
            let wave = world.decide(strategy);
            let changed: Vec<&Pod> = names(&wave).iter().map(|name| world.pods.iter().find(|pod| pod.name == *name).unwrap()).collect();
            let distinct: BTreeSet<&str> = changed.iter().map(|pod| pod.name.as_str()).collect();
            prop_assert_eq!(distinct.len(), changed.len());
            prop_assert!(changed.iter().all(|pod| !pod.terminating && !world.lost.contains(&pod.name)));
            let is_under_way = |pod: &Pod| {
                let is_made = method != Method::RollingUpdate || pod.template.as_deref() == Some(NEW);
                is_made && world.changes.get(&pod.name) == Some(&Change::UnderWay)
            };
            let begun = |pod: &&Pod| pod.terminating || is_under_way(pod) || soaks && pod.ready && world.soaking.contains(&pod.name);
            let there = || world.pods.iter().filter(|pod| !world.lost.contains(&pod.name));
            let away = there().filter(|pod| begun(pod) || !pod.ready || world.troubled.contains(&pod.name));
            let (well, down): (Vec<&Pod>, Vec<&Pod>) = changed.iter().copied().partition(|pod| pod.ready);
            prop_assert!(down.len() <= share && (well.is_empty() || down.is_empty()));
            prop_assert!(well.is_empty() || well.len() + away.count() <= share, "{:?}", wave);
            if by_zone {
                let zones: BTreeSet<&String> = well.iter().copied().chain(there().filter(begun).take(well.len())).map(|pod| &world.zones[&pod.name]).collect();
                let begun_in: BTreeSet<&String> = there().filter(begun).map(|pod| &world.zones[&pod.name]).collect();
                prop_assert!(zones.len() <= 1 || begun_in.len() > 1, "{zones:?}");
            }
            let is_proof = |pod: &&Pod| pod.ready && !pod.terminating && !world.troubled.contains(&pod.name) && !begun(pod) && !distinct.contains(pod.name.as_str());
            prop_assert!(well.len() <= 1 || there().any(|pod| is_proof(&pod)), "several go although none was tried");
            for change in &wave.changes {
                prop_assert!(method == Method::RollingUpdate || !matches!(change, Decision::Restart(_)));
                let is_told = |pod: &str| world.changes.get(pod) == Some(&Change::Told);
                prop_assert!(method != Method::OnDelete || !matches!(change, Decision::Activate(target) if !is_told(&target.pod)));
            }
            prop_assert!(wave.changes.is_empty() || wave.held.is_none());
            let is_outdated = |pod: &&Pod| pod.template.as_deref() != Some(NEW) || world.changes.contains_key(&pod.name);
            let says = wave.held.is_some() || !wave.left.is_empty() || !wave.changes.is_empty();
            prop_assert!(says || !there().any(|pod| is_outdated(&pod)), "{wave:?}");
            prop_assert!(wave.held.is_none_or(|why| !why.ends_with(": ")), "it is held for no reason");
        }
    }
}
