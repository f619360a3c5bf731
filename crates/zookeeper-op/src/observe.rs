//! What of the snapshot the decision about members rests on.

use std::collections::BTreeMap;

use tf_api::{Zookeeper, contract::MemberStatus, kinds::PlainClients};
use tf_plan::{
    adoption,
    members::{self, SizeRule},
    node::{
        ContentHash,
        state::HostFiles,
        zookeeper::{Facts, Server, Servers},
    },
    observed::{Agent, Node, Observed, Pod, Workload},
    placement::Placement,
};

use crate::{
    config,
    membership::{Change, Place, Seat, Situation},
};

/// How much is known of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clarity {
    /// Only the kubelet's word is known: no pod has a certificate, so no agent can be asked; or none that can knows of a
    /// quorum, and pods of another operator cannot be asked.
    Blind,
    /// Some agent has not been heard yet: nothing is concluded from its silence.
    Unheard,
    /// Every agent that could answer does, or has been found not to.
    Clear,
}

/// Members, pods and nodes as they were seen.
pub struct Sight<'a> {
    /// How much is known.
    pub clarity: Clarity,
    /// Pods of the ensemble.
    pub pods: &'a [Pod],
    wanted: usize,
    plain_clients: PlainClients,
    places: Vec<Place>,
    recorded: &'a [MemberStatus],
    highest: u32,
    leaving: BTreeMap<u32, u64>,
    facts: BTreeMap<u32, Facts>,
    foreign: BTreeMap<u32, bool>,
    agents: &'a BTreeMap<String, Agent>,
}

impl<'a> Sight<'a> {
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
        let placement = Placement::from_selector(&common.node_selector, Placement::ControlPlane);
        let places: Vec<Place> = nodes.iter().filter_map(|node| place(node, &placement)).collect();
        let matching = places.iter().filter(|place| place.matches).count();
        // A node that is gone for a while takes nobody's vote: only a stated number does.
        let fitting = || recorded.len().max(usize::try_from(rule.default_size(matching as i32)).unwrap_or_default());
        let own = cr.status.as_ref().map(|status| &status.own);
        let known = recorded.iter().map(|member| member.id).max().unwrap_or_default();
        let stored = own.and_then(|own| own.highest_id).unwrap_or_default();
        let facts: BTreeMap<u32, Facts> =
            recorded.iter().filter_map(|member| facts(member, pods, &observed.agents)).collect();
        let foreign: BTreeMap<u32, bool> = recorded.iter().filter_map(|member| foreign(member, pods)).collect();
        let is_dark = !foreign.is_empty() && !facts.values().any(|facts| facts.serving);
        Self {
            clarity: if is_dark { Clarity::Blind } else { clarity(pods, &observed.agents) },
            pods,
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
            agents: &observed.agents,
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
    pub fn situation<'b>(&'b self, seats: &'b [Seat]) -> Situation<'b> {
        Situation {
            wanted: self.wanted,
            plain_clients: self.plain_clients,
            places: &self.places,
            recorded: self.recorded,
            highest: self.highest,
            leaving: &self.leaving,
            seats,
            facts: &self.facts,
            foreign: &self.foreign,
        }
    }

    /// The pods, with what of each is not as it should be.
    pub fn seats(&self, change: impl Fn(&Pod) -> Option<Change>) -> Vec<Seat> {
        let seat = |pod: &Pod| {
            Some(Seat {
                ordinal: pod.ordinal()? as usize,
                pod: pod.name.clone(),
                uid: pod.uid.clone(),
                node: pod.node.clone(),
                ready: pod.ready,
                terminating: pod.terminating,
                change: change(pod),
            })
        };
        self.pods.iter().filter_map(seat).collect()
    }

    /// The configuration that a pod's server runs with, if its agent says so.
    pub fn active(&self, pod: &Pod, daemon: &str) -> Option<&ContentHash> {
        self.agents.get(&pod.uid)?.status()?.daemons.get(daemon)?.active.as_ref()
    }

    /// What became of the files of a pod's node, if its agent says so.
    pub fn host_files(&self, pod: &Pod) -> Option<&HostFiles> {
        self.agents.get(&pod.uid)?.status()?.host_files.as_ref()
    }

    /// Whether there is one pod on each of these nodes and no other, and its server runs with that configuration, as its agent
    /// says.
    pub fn all_run(&self, daemon: &str, contents: &BTreeMap<String, ContentHash>) -> bool {
        let wanted = |pod: &Pod| pod.node.as_ref().and_then(|node| contents.get(node));
        let runs = |pod: &Pod| !pod.terminating && wanted(pod).is_some_and(|it| self.active(pod, daemon) == Some(it));
        self.pods.len() == contents.len() && self.pods.iter().all(runs)
    }

    /// Pods that do not serve, with the cause.
    pub fn troubles(&self) -> BTreeMap<String, String> {
        let cause = |pod: &Pod| match self.agents.get(&pod.uid)? {
            Agent::Silent(why) => Some(format!("its agent does not answer: {why}")),
            Agent::Says(status) => match &status.health {
                Some(health) => (!health.serves).then(|| health.message.clone()),
                // It has just begun, and what the kubelet says may be from before.
                None => Some("its agent has not looked at the server yet".to_owned()),
            },
        };
        self.pods.iter().filter_map(|pod| Some((pod.name.clone(), cause(pod)?))).collect()
    }
}

/// The pod on the node of a member.
pub fn pod_of<'a>(member: &MemberStatus, pods: &'a [Pod]) -> Option<&'a Pod> {
    pods.iter().find(|pod| !pod.terminating && pod.node.as_ref() == Some(&member.node))
}

/// What of a pod is not as it should be. A template counts when the controller of the workload would make the pod from it.
pub fn change(
    pod: &Pod,
    workload: Option<&Workload>,
    template: &str,
    wanted: Option<&ContentHash>,
    active: Option<&ContentHash>,
) -> Option<Change> {
    if pod.template.as_deref() != Some(template) && workload.is_some_and(|workload| workload.current) {
        return Some(Change::Template);
    }
    let wanted = wanted?;
    let told = pod.active.as_deref();
    let is_told = told == Some(wanted.as_str());
    match active {
        Some(active) if active == wanted => None,
        Some(_) | None if is_told => active.map(|_| Change::UnderWay),
        Some(_) => Some(Change::Configuration),
        // Its agent says nothing. One that was told to wait for what is no more would wait for ever.
        None => told.map(|_| Change::Configuration),
    }
}

fn place(node: &Node, placement: &Placement) -> Option<Place> {
    Some(Place { node: node.name.clone(), address: node.address.clone()?, matches: placement.matches(node) })
}

fn clarity(pods: &[Pod], agents: &BTreeMap<String, Agent>) -> Clarity {
    let mut reachable = pods.iter().filter(|pod| pod.certificate.is_some() && !pod.terminating).peekable();
    if reachable.peek().is_none() {
        Clarity::Blind
    } else if reachable.all(|pod| agents.contains_key(&pod.uid)) {
        Clarity::Clear
    } else {
        Clarity::Unheard
    }
}

fn facts(member: &MemberStatus, pods: &[Pod], agents: &BTreeMap<String, Agent>) -> Option<(u32, Facts)> {
    Some((member.id, agents.get(&pod_of(member, pods)?.uid)?.status()?.zookeeper.clone()?))
}

/// A member whose pod another operator made, with whether it serves in the kubelet's words.
fn foreign(member: &MemberStatus, pods: &[Pod]) -> Option<(u32, bool)> {
    pod_of(member, pods).filter(|pod| adoption::is_foreign(pod)).map(|pod| (member.id, pod.ready))
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

/// The same, with the member itself: one that joins has to be in its own list (stateful-services 2.1).
pub fn with_itself(list: &Servers, member: &MemberStatus, entry: impl Fn(&str) -> Server) -> Servers {
    let mut list = list.clone();
    list.servers.entry(member.id).or_insert_with(|| entry(&member.address));
    list
}
