//! The cluster as its servers report it.

use tf_agent_api::{
    rabbitmq::{Facts, Membership, Queues},
    state::Phase,
};
use tf_api::contract::MemberStatus;
use tf_plan::{observed::Pod, reports::pod_of, step::Step};

use super::{Inputs, ask};
use crate::{
    nodes::Node,
    plan::CONTAINER,
    procedure::{self, Absent},
};

/// A member with what is known of it.
#[derive(Clone, Debug)]
pub struct MemberState<'a> {
    /// The member.
    pub member: &'a MemberStatus,
    /// Name of its Erlang node.
    pub name: String,
    /// Its pod.
    pub pod: Option<&'a Pod>,
    facts: Option<&'a Facts>,
    failed: bool,
}

impl<'a> MemberState<'a> {
    fn of(member: &'a MemberStatus, node: &Node, inputs: &Inputs<'a>) -> Self {
        let pod = pod_of(member, inputs.reports.pods);
        let status = pod.and_then(|pod| inputs.reports.of(pod));
        let state = status.and_then(|status| status.daemons.get(CONTAINER));
        Self {
            member,
            name: node.name(),
            pod,
            facts: status.and_then(|status| status.rabbitmq.as_ref()),
            failed: state.is_some_and(|state| state.phase == Phase::BackOff),
        }
    }

    /// Whether its server left as it was asked to, or began to: others see it run then.
    pub fn has_left(&self) -> bool {
        self.facts.is_some_and(|facts| facts.left)
    }

    /// What its server says, if it answers.
    fn says(&self) -> Option<&'a Facts> {
        self.facts.filter(|facts| !facts.name.is_empty())
    }

    /// Quorum queues that are on too few members and not on this one.
    pub fn lacks(&self) -> Option<&'a Queues> {
        self.says()?.short.as_ref()
    }

    /// Whether a server that does not answer has data of a cluster with others; none where nobody can tell (ADR 0060).
    fn remembers_others(&self) -> Option<bool> {
        Some(self.facts?.remembers.as_ref()?.iter().any(|name| *name != self.name))
    }

    /// Whether what it has on its disk is of a former member: it is put aside as soon as the server has its files.
    fn has_former_data(&self) -> bool {
        let silent = self.facts.filter(|facts| facts.unknown.is_some());
        silent.and_then(|facts| facts.owner).is_some_and(|owner| owner != self.member.id)
    }

    /// Whether a server that does not answer has no data of a cluster with others, as far as anybody can tell.
    pub fn has_nothing(&self) -> bool {
        self.remembers_others() == Some(false)
    }
}

impl<'a> Absent<'a> {
    fn of(seen: &'a MemberState<'_>) -> Self {
        Self { name: &seen.name, member: Some(seen.member.id) }
    }
}

/// The members and what they say of each other.
pub struct ClusterState<'a> {
    /// What was observed.
    pub inputs: &'a Inputs<'a>,
    /// The members, in the order they were recorded.
    pub all: Vec<MemberState<'a>>,
}

impl<'a> ClusterState<'a> {
    /// Looks at a situation.
    pub fn of(inputs: &'a Inputs<'a>) -> Self {
        let pairs = inputs.members().iter().zip(inputs.nodes);
        Self { inputs, all: pairs.map(|(member, node)| MemberState::of(member, node, inputs)).collect() }
    }

    fn others(&self, seen: &MemberState<'_>) -> impl Iterator<Item = &MemberState<'a>> {
        let id = seen.member.id;
        self.all.iter().filter(move |other| other.member.id != id)
    }

    /// Whether a node is in the cluster as these have it, and if so, whether any of them sees it run.
    fn listed<'b>(name: &str, by: impl Iterator<Item = &'b MemberState<'a>>) -> Option<bool>
    where
        'a: 'b,
    {
        by.filter_map(|seen| seen.says()?.nodes.get(name)).copied().reduce(|one, other| one || other)
    }

    /// The same of a member, as the others have it; its own word counts where there is no other.
    pub fn listed_by_others(&self, seen: &MemberState<'_>) -> Option<bool> {
        if self.others(seen).all(|other| other.says().is_none()) {
            return Some(seen.says().is_some());
        }
        Self::listed(&seen.name, self.others(seen))
    }

    /// What is missing in the cluster besides this member and those that are of no use to it anyway, if anything is.
    pub fn fragile_without(&self, without: &MemberState<'_>) -> Option<String> {
        let is_void =
            |other: &&MemberState<'a>| self.is_lost(other) || self.has_lost_data(other) || self.is_outcast(other);
        let (void, present): (Vec<_>, Vec<_>) = self.others(without).partition(is_void);
        if present.is_empty() {
            return Some("there is no other one; raise replicas first".to_owned());
        }
        if let Some(silent) = present.iter().find(|other| other.says().is_none()) {
            return Some(format!("member {} does not report the state of the cluster", silent.member.id));
        }
        let strays = self.strays().map(|name| Absent { name, member: None });
        let mut absents: Vec<Absent<'_>> = void.into_iter().map(Absent::of).chain(strays).collect();
        absents.push(Absent::of(without));
        procedure::fragile(self.inputs.members(), self.inputs.reports, &absents)
    }

    /// Whether anything is missing in the cluster besides this member, whatever it is.
    pub fn lacks_another(&self, seen: &MemberState<'_>) -> bool {
        procedure::fragile(self.inputs.members(), self.inputs.reports, &[Absent::of(seen)]).is_some()
    }

    /// Whether a member's node is gone, and its pod with it.
    fn is_lost(&self, seen: &MemberState<'_>) -> bool {
        seen.pod.is_none() && !self.inputs.capacity.is_usable(&seen.member.node)
    }

    /// Whether a member's server does not start, has no data, and is in the cluster as the others have it.
    pub fn has_lost_data(&self, seen: &MemberState<'_>) -> bool {
        let listed = || Self::listed(&seen.name, self.others(seen));
        seen.failed && seen.has_nothing() && listed() == Some(false)
    }

    /// Whether a member's server does not start with its data while others are a cluster without it.
    fn is_estranged(&self, seen: &MemberState<'_>) -> bool {
        let has_own = seen.remembers_others() == Some(true) && !seen.has_former_data();
        seen.failed && has_own && self.listed_by_others(seen).is_none()
    }

    /// The same where those are most of the members.
    pub fn is_outcast(&self, seen: &MemberState<'_>) -> bool {
        let is_majority = || 2 * self.others(seen).filter(|other| other.says().is_some()).count() > self.all.len();
        self.is_estranged(seen) && is_majority()
    }

    /// Who cannot come back like that, for people: nobody can tell which of the two is the one to keep.
    pub fn estranged(&self) -> Option<String> {
        let estranged = self.all.iter().filter(|seen| self.is_estranged(seen));
        let names: Vec<&str> = estranged.map(|seen| seen.name.as_str()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{} cannot start: its data is of a cluster that the others are not in; decide which data counts (docs/rabbitmq.md)",
                names.join(" and ")
            )
        })
    }

    /// Nodes of the cluster that are of no member and do not run.
    fn strays(&self) -> impl Iterator<Item = &str> {
        let names = self.all.iter().filter_map(MemberState::says).flat_map(|facts| facts.nodes.keys());
        let is_stray = |name: &&String| self.all.iter().all(|seen| seen.name != **name);
        let strays = names.filter(is_stray).filter(|name| Self::listed(name, self.all.iter()) == Some(false));
        strays.map(String::as_str)
    }

    /// One of them, in a cluster that lacks nothing else.
    pub fn stray(&self) -> Option<&str> {
        let name = self.strays().next()?;
        let absents: Vec<Absent<'_>> = self.strays().map(|name| Absent { name, member: None }).collect();
        let fragile = procedure::fragile(self.inputs.members(), self.inputs.reports, &absents);
        fragile.is_none().then_some(name)
    }

    /// Has a server of the cluster forget a node.
    pub fn forget(&self, name: &str) -> Option<Step> {
        let mut speakers = self.all.iter().filter(|seen| seen.name != name && seen.says().is_some());
        let pod = speakers.find_map(|seen| seen.pod)?;
        let change = Membership::Forget { name: name.to_owned() };
        Some(ask(pod, change, format!("{name} is taken out of the cluster")))
    }
}
