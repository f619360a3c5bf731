//! What of the snapshot the decision about members rests on.

use std::collections::BTreeMap;

use tf_agent_api::zookeeper::{Facts, Server, Servers};
use tf_api::{Zookeeper, contract::MemberStatus, kinds::PlainClients};
use tf_plan::{
    members::{self, SizeRule},
    observed::{Node, Observed, Pod},
    placement::Placement,
    reports::{AgentCoverage, Reports, pod_of},
    rollout::Change,
    takeover,
};

use crate::{
    config,
    membership::{Inputs, Place, PodSlot},
};

/// Members, pods and nodes as they were seen.
pub struct ClusterState<'a> {
    /// How much is known.
    pub clarity: AgentCoverage,
    /// Pods of the ensemble, with what their agents say.
    pub reports: Reports<'a>,
    wanted: usize,
    plain_clients: PlainClients,
    places: Vec<Place>,
    recorded: &'a [MemberStatus],
    highest: u32,
    leaving: BTreeMap<u32, u64>,
    facts: BTreeMap<u32, Facts>,
    foreign: BTreeMap<u32, bool>,
}

impl<'a> ClusterState<'a> {
    /// Looks at a snapshot of an ensemble with these members.
    pub fn of(
        cr: &'a Zookeeper,
        observed: &'a Observed<Zookeeper>,
        rule: SizeRule,
        recorded: &'a [MemberStatus],
    ) -> Self {
        let common = &cr.spec.common_configuration;
        let nodes = observed.nodes.known().map(Vec::as_slice).unwrap_or_default();
        let pods = observed.pods.known().map(Vec::as_slice).unwrap_or_default();
        let reports = Reports::of_observed(observed);
        let placement = Placement::of_members(common);
        let places: Vec<Place> = nodes.iter().filter_map(|node| place(node, &placement)).collect();
        let matching = places.iter().filter(|place| place.matches).count();
        // A node that is gone for a while takes nobody's vote: only a stated number does.
        let fitting = || recorded.len().max(usize::try_from(rule.default_size(matching as i32)).unwrap_or_default());
        let own = cr.status.as_ref().map(|status| &status.own);
        let known = recorded.iter().map(|member| member.id).max().unwrap_or_default();
        let stored = own.and_then(|own| own.highest_id).unwrap_or_default();
        let facts: BTreeMap<u32, Facts> =
            recorded.iter().filter_map(|it| Some((it.id, reports.of_member(it)?.zookeeper.clone()?))).collect();
        let foreign: BTreeMap<u32, bool> = recorded.iter().filter_map(|member| foreign(member, pods)).collect();
        let is_dark = !foreign.is_empty() && !facts.values().any(|facts| facts.serving);
        Self {
            clarity: if is_dark { AgentCoverage::Unobserved } else { reports.clarity() },
            reports,
            wanted: common
                .replicas
                .map_or_else(fitting, |replicas| usize::try_from(replicas).unwrap_or_default())
                .max(1),
            plain_clients: config::plain_clients(&cr.spec.service_configuration),
            places,
            recorded,
            highest: known.max(stored),
            leaving: own
                .map(|own| &own.leaving)
                .into_iter()
                .flatten()
                .map(|it| (it.id, version(&it.since_version)))
                .collect(),
            facts,
            foreign,
        }
    }

    /// The members of the status, in the order they were recorded.
    pub fn recorded(&self) -> &'a [MemberStatus] {
        self.recorded
    }

    /// Highest identity that was ever given.
    pub fn highest(&self) -> u32 {
        self.highest
    }

    /// Members on their way out, with the version of the list when that was decided.
    pub fn leaving(&self) -> &BTreeMap<u32, u64> {
        &self.leaving
    }

    /// Whether there are members.
    pub fn is_founded(&self) -> bool {
        !self.recorded.is_empty()
    }

    /// Members without a node, for people.
    pub fn homeless(&self) -> impl Iterator<Item = String> + '_ {
        let has_node =
            |member: &&MemberStatus| self.places.iter().any(|place| place.matches && place.node == member.node);
        self.recorded.iter().filter(move |member| !has_node(member)).map(members::explain_homeless)
    }

    /// Number of members asked for.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Number of nodes that could carry one.
    pub fn matching(&self) -> usize {
        self.places.iter().filter(|place| place.matches).count()
    }

    /// What the decision rests on, with these pods.
    pub fn inputs<'b>(&'b self, slots: &'b [PodSlot]) -> Inputs<'b> {
        Inputs {
            wanted: self.wanted,
            plain_clients: self.plain_clients,
            places: &self.places,
            recorded: self.recorded,
            highest: self.highest,
            leaving: &self.leaving,
            slots,
            facts: &self.facts,
            foreign: &self.foreign,
        }
    }

    /// The pods, with what of each is not as it should be.
    pub fn slots(&self, change: impl Fn(&Pod) -> Option<Change>) -> Vec<PodSlot> {
        let slot = |pod: &Pod| {
            Some(PodSlot {
                ordinal: pod.ordinal()? as usize,
                pod: pod.name.clone(),
                uid: pod.uid.clone(),
                node: pod.node.clone(),
                ready: pod.ready,
                terminating: pod.terminating,
                change: change(pod),
            })
        };
        self.reports.pods.iter().filter_map(slot).collect()
    }
}

fn place(node: &Node, placement: &Placement) -> Option<Place> {
    Some(Place { node: node.name.clone(), address: node.address.clone()?, matches: placement.matches(node) })
}

/// A member whose pod another operator made, with whether it serves in the kubelet's words.
fn foreign(member: &MemberStatus, pods: &[Pod]) -> Option<(u32, bool)> {
    pod_of(member, pods).filter(|pod| takeover::is_legacy(pod)).map(|pod| (member.id, pod.ready))
}

/// A version as it is stored. What somebody wrote by hand counts as the oldest.
fn version(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_default()
}

/// The list that a server which starts now goes by: that of the quorum, or of the last one that was heard of, or the
/// members themselves where the ensemble is being founded. Addresses are those of the moment.
pub fn list(
    quorum: Option<&Servers>,
    cr: &Zookeeper,
    members: &[MemberStatus],
    entry: impl Fn(&str) -> Server,
) -> Servers {
    let stored = || {
        let ensemble = cr.status.as_ref()?.own.ensemble.as_ref()?;
        let servers = ensemble.members.iter().map(|member| (member.id, entry(&member.address))).collect();
        Some(Servers { version: version(&ensemble.version), servers })
    };
    let founders = || Servers { version: 0, servers: members.iter().map(|it| (it.id, entry(&it.address))).collect() };
    let mut list = quorum.cloned().or_else(stored).filter(|list| !list.servers.is_empty()).unwrap_or_else(founders);
    for member in members {
        if let Some(server) = list.servers.get_mut(&member.id).filter(|server| server.address != member.address) {
            *server = entry(&member.address);
        }
    }
    list
}

/// The same, with the member itself: one that joins has to be in its own list (docs/upstream/zookeeper.md#reconfiguration).
pub fn with_itself(list: &Servers, member: &MemberStatus, entry: impl Fn(&str) -> Server) -> Servers {
    let mut list = list.clone();
    list.servers.entry(member.id).or_insert_with(|| entry(&member.address));
    list
}
