//! What is done to members that run: what the next one waits for before it is brought up to date, and what is said of a ring that is
//! not of one mind.

use std::{collections::BTreeMap, net::IpAddr};

use tf_agent_api::{
    cassandra::{Change, Facts, NORMAL},
    content::ContentHash,
};
use tf_api::{Cassandra, contract::MemberStatus};
use tf_plan::{
    observed::{Observed, Pod},
    plan::Plan,
    procedure::{self, DisruptionPolicy, Store, Troubles},
    reports::{Reports, pod_of},
    resize::Decision,
    step::{Request, Step, Target},
};

use crate::{config::jvm::DAEMON, membership::LEAVING};

/// How the state of a member that joins begins, as gossip has it: `BOOT`, `BOOT_REPLACE`.
const JOINING: &str = "BOOT";

/// The ring, as the procedures of all stores see it.
pub const RING: Store =
    Store { daemon: DAEMON, policy: DisruptionPolicy::Quorum(gate), troubles: divided, election: None };

/// The configuration that the member on each node is to run with. What it was founded with lacks nothing but what a new disk needs, and
/// a new pod takes the newest one by itself: nobody goes over to another configuration for that alone, but one whose disk was emptied beside it.
pub fn wanted(
    contents: BTreeMap<String, ContentHash>,
    founding: &BTreeMap<String, ContentHash>,
    observed: &Observed<Cassandra>,
) -> BTreeMap<String, ContentHash> {
    let reports = Reports::of_observed(observed);
    let active = |node: &String| {
        let pod = reports.pods.iter().find(|pod| !pod.terminating && pod.node.as_ref() == Some(node))?;
        let active = reports.active(pod, DAEMON).filter(|active| founding.get(node) == Some(active))?;
        let is_empty = |facts: &Facts| facts.founds && !facts.has_served && facts.host_id.is_empty();
        let facts = reports.of(pod).and_then(|status| status.cassandra.as_ref());
        (!facts.is_some_and(is_empty)).then(|| active.clone())
    };
    contents.into_iter().map(|(node, newest)| (node.clone(), active(&node).unwrap_or(newest))).collect()
}

/// What the servers of all members say, with their pods, if the ring is as it should be and nobody is about to change it.
pub fn told<'a>(members: &[MemberStatus], reports: &Reports<'a>) -> Option<Vec<(&'a Pod, &'a Facts)>> {
    if gate(members, reports).or_else(|| routine(members, reports)).is_some() {
        return None;
    }
    let ring = answering(members, reports);
    (ring.len() == members.len()).then_some(ring)
}

/// Has a pod's agent change something, for a reason.
pub fn ask(pod: &Pod, change: Change, why: String) -> Step {
    Step::Ask(Target::of(pod, why), Request::Ring(change))
}

/// Completes a plan. `contents`: the configuration of the member on each node. `decided`: what is to be done about the ring, where that can be
/// told. `upgrade`: what others may be waiting for. `routine`: what is done while nothing else is.
pub fn complete(
    plan: &mut Plan,
    cr: &Cassandra,
    observed: &Observed<Cassandra>,
    contents: &BTreeMap<String, ContentHash>,
    decided: Option<Decision>,
    upgrade: Option<Step>,
    routine: Option<Step>,
) {
    procedure::complete(&RING, plan, cr, observed, contents);
    let Some(mut decided) = decided else { return };
    // A node that is nobody's any more keeps its pod, and the member in whose place another one is waits for that.
    procedure::reschedule_while(plan, observed, |_| false);
    // Whoever was told to restart a moment ago is still taken for well, and could not take what is handed over.
    if plan.under_way.is_some() {
        decided.step.take_if(|step| matches!(step, Step::Ask(_, Request::Ring(Change::Decommission))));
    }
    decided.carry_out(plan);
    plan.step = plan.step.take().or(upgrade);
    if plan.under_way.is_none() {
        plan.step = plan.step.take().or(routine);
    }
}

/// What the servers of all members say, with the members and their pods, if the ring is whole, whatever goes on in it.
///
/// # Errors
/// What is not as it should be.
pub fn whole<'a>(
    members: &'a [MemberStatus],
    reports: &Reports<'a>,
) -> Result<Vec<(&'a MemberStatus, &'a Pod, &'a Facts)>, String> {
    if let Some(why) = mixed(&torn(members, reports, &[])?) {
        return Err(why);
    }
    let told = |member| {
        let pod = pod_of(member, reports.pods)?;
        Some((member, pod, facts(pod, reports)?))
    };
    members
        .iter()
        .map(told)
        .collect::<Option<_>>()
        .ok_or_else(|| "not all members report the state of the ring".to_owned())
}

/// What keeps a member that serves from being stopped: all members are up and in their usual state as each of them sees it, and those of one
/// release go by one schema (docs/upstream/cassandra.md#restarts). Then a quorum of every key's replicas is left when one of them stops.
fn gate(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    busy(members, reports).or_else(|| torn(members, reports, &[]).err())
}

/// What goes on in the ring that nobody may disturb.
pub fn busy(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    doing(members, reports, |change| !change.is_routine())
}

/// What goes on in the ring that would be cut short if its servers were stopped: requests, and who comes or goes as the others see it.
pub fn moving(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    let moves = |member: &MemberStatus| {
        let pod = pod_of(member, reports.pods)?;
        let is_moving = |state: &str| state.starts_with(JOINING) || state == LEAVING;
        let (address, _) =
            facts(pod, reports)?.peers.iter().find(|(_, peer)| peer.state.as_deref().is_some_and(is_moving))?;
        Some(format!("{address} joins or leaves the ring, as pod {} sees it", pod.name))
    };
    busy(members, reports).or_else(|| members.iter().find_map(moves))
}

/// A repair that goes on as is done from time to time. A server that is stopped breaks it off, and it is begun anew later.
pub fn routine(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    doing(members, reports, Change::is_routine)
}

fn doing(members: &[MemberStatus], reports: &Reports<'_>, counts: impl Fn(&Change) -> bool) -> Option<String> {
    members.iter().find_map(|member| {
        let pod = pod_of(member, reports.pods)?;
        let doing = reports.of(pod)?.cassandra.as_ref()?.doing.as_ref();
        let what = match doing.filter(|change| counts(change))? {
            Change::Repair { keyspace, .. } | Change::RepairWithout { keyspace, .. } => {
                format!("repairs keyspace {keyspace}")
            }
            Change::UpgradeSstables => "rewrites files of an earlier release".to_owned(),
            Change::Decommission => "hands over what it holds".to_owned(),
            Change::Remove { host_id } => format!("takes {host_id} out of the ring"),
            Change::Replicate { keyspace, .. } => format!("changes keyspace {keyspace}"),
            Change::Backup { of, .. } | Change::Look { of } => format!("makes backup {}", of.name),
            Change::RestoreSchema { of, .. } => format!("makes the tables of backup {}", of.name),
            Change::RestoreRows { of, .. } => format!("takes in backup {}", of.name),
        };
        Some(format!("pod {} {what}", pod.name))
    })
}

/// A pod that runs another image than new ones, which is made anew.
pub fn outdated(image: &str, reports: &Reports<'_>) -> Option<String> {
    let pod = reports.pods.iter().find(|pod| pod.images.get(DAEMON).is_some_and(|other| other != image))?;
    Some(format!("pod {} runs another image than new ones would, and is replaced before", pod.name))
}

/// What is not as it should be in the ring, but for some members, for others to fetch what is in it.
pub fn fragile(members: &[MemberStatus], reports: &Reports<'_>, without: &[&MemberStatus]) -> Option<String> {
    torn(members, reports, without).map_or_else(Some, |known| mixed(&known).or_else(|| old(&known)))
}

/// Servers that answer, with their pods, whatever they say.
pub fn answering<'a>(members: &[MemberStatus], reports: &Reports<'a>) -> Vec<(&'a Pod, &'a Facts)> {
    let answers = |member| {
        let pod = pod_of(member, reports.pods)?;
        Some((pod, facts(pod, reports)?))
    };
    members.iter().filter_map(answers).collect()
}

/// What the servers say, but for some members.
///
/// # Errors
/// When they do not all say that they are one ring.
pub fn torn<'a>(
    members: &[MemberStatus],
    reports: &Reports<'a>,
    without: &[&MemberStatus],
) -> Result<Vec<(&'a Pod, &'a Facts)>, String> {
    let is_absent = |member: &&MemberStatus| without.iter().any(|absent| absent.id == member.id);
    let members: Vec<MemberStatus> = members.iter().filter(|member| !is_absent(member)).cloned().collect();
    let absent: Vec<IpAddr> = without.iter().filter_map(|member| member.address.parse().ok()).collect();
    let unknown = |pod| reports.of(pod).and_then(|status| status.cassandra.as_ref()?.unknown.as_deref());
    let says = |pod| facts(pod, reports).ok_or_else(|| unknown(pod));
    let known = procedure::heard(members.iter(), reports, "ring", says)?;
    let trouble = known.iter().find_map(|(pod, facts)| sees(pod, facts, &members, &absent));
    trouble.or_else(|| schemas(&known)).map_or(Ok(known), Err)
}

/// What a server sees of the ring that is not as it should be, but for some addresses.
fn sees(pod: &Pod, facts: &Facts, members: &[MemberStatus], absent: &[IpAddr]) -> Option<String> {
    let own = address_of(pod, members);
    let others =
        members.iter().filter_map(|member| member.address.parse().ok()).filter(|address| Some(*address) != own);
    let missing = others.clone().find(|address| !facts.peers.contains_key(address));
    if let Some(missing) = missing {
        return Some(format!("{missing} is not in the ring of pod {}", pod.name));
    }
    if !facts.peers.is_empty() && facts.peers.values().all(|peer| peer.state.is_none()) {
        let why = facts.unheard.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        return Some(format!("pod {} does not report its gossip state yet{why}", pod.name));
    }
    facts.peers.iter().filter(|(address, _)| !absent.contains(address)).find_map(|(address, peer)| {
        let is_member = || others.clone().any(|other| other == *address);
        let state = match peer.state.as_deref() {
            // Somebody who left long ago can stand in the table of peers for ever; gossip has forgotten it.
            None if !is_member() => return None,
            state => state.unwrap_or_default(),
        };
        let seen = if state.is_empty() { "not in the ring yet".to_owned() } else { format!("in the state {state}") };
        match peer.heard {
            _ if state != NORMAL => Some(format!("{address} is {seen}, as pod {} sees it", pod.name)),
            Some(false) => Some(format!("pod {} sees {address} as DOWN", pod.name)),
            None => Some(format!("pod {} has not seen {address} as UP for long enough yet", pod.name)),
            Some(true) => None,
        }
    })
}

fn address_of(pod: &Pod, members: &[MemberStatus]) -> Option<IpAddr> {
    members.iter().find(|member| pod.node.as_ref() == Some(&member.node))?.address.parse().ok()
}

/// Servers of one release that go by different schemas. Otherwise one that starts could not take part in what the others know. Those of
/// different releases have different versions of the same schema.
fn schemas(known: &[(&Pod, &Facts)]) -> Option<String> {
    known.iter().enumerate().find_map(|(index, (pod, facts))| {
        let differs = |(_, other): &&(&Pod, &Facts)| line(other) == line(facts) && other.schema != facts.schema;
        let (other, _) = known[index + 1..].iter().find(differs)?;
        Some(format!("pods {} and {} go by different versions of the schema", pod.name, other.name))
    })
}

/// Servers of different lines of releases, which do not exchange data in all of them (docs/upstream/cassandra.md#mixed-releases).
pub fn mixed(known: &[(&Pod, &Facts)]) -> Option<String> {
    let (first, rest) = known.split_first()?;
    let (other, facts) = rest.iter().find(|(_, facts)| line(facts) != line(first.1))?;
    let (pod, release) = (&first.0.name, &first.1.release);
    Some(format!("pods {pod} and {} are of different releases, {release} and {}", other.name, facts.release))
}

/// Files that nobody takes from a server: they are in the format of an earlier line (`BigVersion.isCompatibleForStreaming`).
fn old(known: &[(&Pod, &Facts)]) -> Option<String> {
    let (pod, facts) = known.iter().find(|(_, facts)| facts.older > 0)?;
    Some(format!("{} files of pod {} are of an earlier release and are rewritten before", facts.older, pod.name))
}

/// The line of a server's release: `3.11` of `3.11.19`.
fn line(facts: &Facts) -> &str {
    let is_dot = |(_, it): &(usize, char)| *it == '.';
    let end = facts.release.char_indices().filter(is_dot).nth(1);
    end.map_or(facts.release.as_str(), |(end, _)| &facts.release[..end])
}

/// Pods whose servers answer and do not hear another one that answers, too: clients of theirs miss what it holds.
fn divided(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let serving: Vec<(IpAddr, &Pod, &Facts)> = members
        .iter()
        .filter_map(|member| {
            let pod = pod_of(member, reports.pods)?;
            Some((member.address.parse().ok()?, pod, facts(pod, reports)?))
        })
        .collect();
    let unheard = |facts: &Facts| {
        let is_unheard = |address: &IpAddr| facts.peers.get(address).is_some_and(|peer| peer.heard == Some(false));
        serving.iter().map(|(address, ..)| *address).find(is_unheard)
    };
    let explain = |other: IpAddr| format!("its server sees {other} as DOWN, which is running");
    serving.iter().filter_map(|(_, pod, facts)| Some((pod.name.clone(), explain(unheard(facts)?)))).collect()
}

/// What a pod's server says of its ring, if it says anything.
fn facts<'a>(pod: &Pod, reports: &Reports<'a>) -> Option<&'a Facts> {
    reports.of(pod)?.cassandra.as_ref().filter(|facts| !facts.host_id.is_empty())
}
