//! What is done to members that run: which of them is brought up to date now, what that waits for, and what is said of it.

use std::collections::BTreeMap;

use tf_agent_api::{
    content::ContentHash,
    rabbitmq::{Facts, Membership, Queues, Unmirrored},
};
use tf_api::{Rabbitmq, contract::MemberStatus};
use tf_plan::{
    observed::{Observed, Pod},
    plan::Plan,
    procedure::{self, DisruptionPolicy, Store, Troubles},
    reports::{Reports, pod_of},
    resize::Decision,
    step::{Request, Step, Target},
};

use crate::{nodes::Node, plan::CONTAINER, takeover};

/// The cluster, as the procedures of all stores see it.
pub const CLUSTER: Store =
    Store { daemon: CONTAINER, policy: DisruptionPolicy::Quorum(gate), troubles, election: None };

/// Completes a plan. `contents`: the configuration of the member on each node. `nodes`: what the members are called, in their order. `decided`:
/// who is to be a member, where that can be told.
pub fn complete(
    plan: &mut Plan,
    cr: &Rabbitmq,
    observed: &Observed<Rabbitmq>,
    contents: &BTreeMap<String, ContentHash>,
    nodes: &[Node],
    decided: Option<Decision>,
) {
    let reports = Reports::of_observed(observed);
    procedure::complete(&CLUSTER, plan, cr, observed, contents);
    takeover::spare(plan, nodes, &reports);
    if decided.is_some() {
        reschedule(plan, observed, nodes, &reports);
    }
    plan.notes.extend(mirrorless(&plan.members, &reports));
    let is_told = |note: &String| plan.under_way.as_ref().is_some_and(|why| why.contains(note));
    let bare = unmirrored(&plan.members, &reports).map(bare).filter(|note| !is_told(note));
    plan.notes.extend(bare);
    plan.step = plan.step.take().or_else(|| mend(&plan.members, &reports));
    let Some(decided) = decided else { return };
    plan.troubles.extend(left(&plan.members, &reports));
    decided.carry_out(plan);
}

/// Makes a pod anew whose node is of no member: a node that is nobody's any more keeps its pod, and a member waits for that. One may serve, where its disk
/// was emptied and it joined once more just before it was struck off. It goes while all members serve that have pods, one at least: those that wait for it
/// cannot.
fn reschedule(plan: &mut Plan, observed: &Observed<Rabbitmq>, nodes: &[Node], reports: &Reports<'_>) {
    let names: Vec<String> = nodes.iter().map(Node::name).collect();
    let waiting = plan.members.iter().zip(&names).filter(|(member, _)| pod_of(member, reports.pods).is_none());
    let waiting: Vec<Absent<'_>> = waiting.map(|(member, name)| Absent { name, member: Some(member.id) }).collect();
    let held = fragile(&plan.members, reports, &waiting).or_else(|| deserted(&plan.members, reports));
    let serves = answering(&plan.members, reports).next().is_some();
    procedure::reschedule_while(plan, observed, |_| serves && held.is_none());
}

/// What keeps a member that serves from being stopped: everybody has to be there, in one cluster, with every message in more
/// than one place, and consumers that lost the server before this one are back: what comes meanwhile waits in their queues
/// (docs/upstream/rabbitmq.md#restarts). An alarm keeps nobody: what is being changed may be what it is about.
pub fn gate(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    fragile(members, reports, &[]).or_else(|| {
        let critical = |pod: &Pod| {
            let why = facts(pod, reports)?.critical.as_ref()?;
            Some(format!("pod {} may not be stopped: {why}", pod.name))
        };
        let bare = || Some(bare(unmirrored(members, reports)?));
        let mut pods = members.iter().filter_map(|member| pod_of(member, reports.pods));
        pods.find_map(critical).or_else(bare).or_else(|| deserted(members, reports)).or_else(|| {
            let (_, Facts { release, .. }) = unflagged(members, reports)?;
            Some(format!(
                "feature flags of RabbitMQ {release} are enabled before, without which a later line may not start"
            ))
        })
    })
}

/// A member whose agent can enable the feature flags of the release that all members run, where nobody has. Nobody knows whether the next image is of
/// another line, so that is done as soon as it can be.
pub fn unflagged<'a>(members: &[MemberStatus], reports: &Reports<'a>) -> Option<(&'a Pod, &'a Facts)> {
    let all: Vec<(&Pod, &Facts)> = answering(members, reports).collect();
    let is_same = all.iter().all(|(_, facts)| facts.release == all[0].1.release);
    let is_done = all.iter().any(|(_, facts)| facts.flags == Some(true));
    let first = all.iter().find(|(_, facts)| facts.flags == Some(false)).copied();
    first.filter(|_| all.len() == members.len() && is_same && !is_done)
}

/// Queues whose consumers are not back. Those agents know of them that were there before, and they say no more of who does not come back.
fn deserted(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    let queues = answering(members, reports).find_map(|(_, facts)| facts.deserted.as_ref())?;
    let Queues { vhost, .. } = queues;
    Some(format!(
        "consumers of queues of virtual host {vhost} are not back since a server came or went ({queues}); they are waited for, for two minutes"
    ))
}

/// Queues of clients without a mirror, as the first member that answers has it: all of them have the same ones.
fn unmirrored<'a>(members: &[MemberStatus], reports: &Reports<'a>) -> Option<&'a Unmirrored> {
    answering(members, reports).find_map(|(_, facts)| facts.unmirrored.as_ref())
}

fn bare(Unmirrored { are, policy }: &Unmirrored) -> String {
    let vhost = &are.vhost;
    let why = match policy {
        Some(policy) => {
            format!("policy {policy} goes before the one that has them mirrored; have it say so, too, or delete it")
        }
        None => "no policy is about them".to_owned(),
    };
    format!("queues of virtual host {vhost} have no mirror ({are}) and would be lost with their node: {why}")
}

/// Has a member take its definitions anew where the policy of mirrors is gone.
fn mend(members: &[MemberStatus], reports: &Reports<'_>) -> Option<Step> {
    let is_gone = |facts: &Facts| facts.unmirrored.as_ref().is_some_and(|it| it.policy.is_none());
    let (pod, _) = answering(members, reports).find(|(_, facts)| is_gone(facts))?;
    let why =
        format!("pod {} imports its definitions again, because the policy that mirrors queues is missing", pod.name);
    Some(Step::Ask(Target::of(pod, why), Request::Membership(Membership::ImportDefinitions)))
}

/// Servers that answer, with their pods.
fn answering<'a>(members: &[MemberStatus], reports: &Reports<'a>) -> impl Iterator<Item = (&'a Pod, &'a Facts)> {
    let pods = members.iter().filter_map(|member| pod_of(member, reports.pods));
    pods.filter_map(|pod| Some((pod, facts(pod, reports)?)))
}

/// A node that does not count, as if it had left already.
#[derive(Clone, Copy, Debug)]
pub struct Absent<'a> {
    /// Its name.
    pub name: &'a str,
    /// The member that it is of, if it is of one.
    pub member: Option<u32>,
}

/// What is missing in the cluster, if anything is.
pub fn fragile(members: &[MemberStatus], reports: &Reports<'_>, without: &[Absent<'_>]) -> Option<String> {
    let is_absent = |member: &&MemberStatus| without.iter().any(|absent| absent.member == Some(member.id));
    let present = members.iter().filter(|member| !is_absent(member));
    let unknown = |pod| reports.of(pod).and_then(|status| status.rabbitmq.as_ref()?.unknown.as_deref());
    let says = |pod| facts(pod, reports).ok_or_else(|| unknown(pod));
    let names = match procedure::heard(present, reports, "cluster", says) {
        Ok(names) => names,
        Err(why) => return Some(why),
    };
    names.iter().find_map(|(_, facts)| {
        let counts = |name: &str| without.iter().all(|absent| absent.name != name);
        let down = facts.nodes.iter().find(|(name, runs)| !**runs && counts(name));
        let down = down.map(|(name, _)| format!("{name} does not run"));
        let missing = || {
            let other = names.iter().find(|(_, other)| !facts.nodes.contains_key(&other.name))?;
            Some(format!("{} is not in the cluster of {}", other.1.name, facts.name))
        };
        let parted = || {
            facts
                .partitions
                .iter()
                .find(|name| counts(name))
                .map(|other| format!("{} and {other} were cut off from each other", facts.name))
        };
        down.or_else(missing).or_else(parted)
    })
}

/// Pods whose servers were asked to leave and did.
fn left(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let pods = members.iter().filter_map(|member| pod_of(member, reports.pods));
    let has_left = |pod: &&Pod| reports.of(pod).and_then(|it| it.rabbitmq.as_ref()).is_some_and(|facts| facts.left);
    pods.filter(has_left).map(|pod| (pod.name.clone(), "its server has left the cluster".to_owned())).collect()
}

/// What is the matter with servers although they serve.
fn troubles(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let mut troubles = alarmed(members, reports);
    troubles.extend(divided(members, reports));
    troubles
}

/// Pods whose servers answer and do not see another one that answers, too: each of them takes itself for the cluster.
fn divided(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let seen: Vec<(&Pod, &Facts)> = answering(members, reports).collect();
    let lacks = |facts: &Facts| {
        let unseen = |other: &Facts| facts.nodes.get(&other.name) != Some(&true);
        seen.iter().map(|(_, other)| *other).find(|other| unseen(other)).map(|other| other.name.clone())
    };
    let explain = |other: &str| format!("its server does not see {other}, which runs, too");
    seen.iter().filter_map(|(pod, facts)| Some((pod.name.clone(), explain(&lacks(facts)?)))).collect()
}

/// Pods whose servers hold publishers back, and with them those of all other servers.
fn alarmed(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let alarm = |member: &MemberStatus| {
        let pod = pod_of(member, reports.pods)?;
        let alarms: Vec<&str> = facts(pod, reports)?.alarms.iter().map(String::as_str).collect();
        let told = || format!("no server takes messages, since this one runs short of {}", alarms.join(" and "));
        (!alarms.is_empty()).then(|| (pod.name.clone(), told()))
    };
    members.iter().filter_map(alarm).collect()
}

/// What is said of releases from 4.0 on, which have no mirrors.
fn mirrorless(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    let major = |release: &str| release.split('.').next().and_then(|it| it.parse::<u32>().ok());
    let mut releases = answering(members, reports).map(|(_, facts)| facts.release.as_str());
    let release = releases.find(|release| major(release).is_some_and(|major| major >= 4))?;
    Some(format!("RabbitMQ {release} mirrors no queue: a member that stops takes the queues with it that are on it"))
}

/// What a pod's server says of its cluster, if it says anything.
pub fn facts<'a>(pod: &Pod, reports: &Reports<'a>) -> Option<&'a Facts> {
    reports.of(pod)?.rabbitmq.as_ref().filter(|facts| !facts.name.is_empty())
}
