//! A model of an ensemble and of everything that happens to it, and the decision walking through it.
//!
//! The model plays ZooKeeper (a list of members, a quorum), the StatefulSet controller and the scheduler (pods by ordinal, on
//! the nodes of the record) and the world (nodes fail, agents fall silent, people change their minds). After each step the
//! promises are checked; at the end the world rests, and the wish has to come true.

// Says to clippy that the helpers below are tests, too.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tf_agent_api::zookeeper::{Facts, Role, Server, Servers};
use tf_api::{
    ZookeeperConfiguration,
    contract::MemberStatus,
    kinds::{PlainClients, ZookeeperTls},
    schema::Port,
};
use tf_plan::{observed, rollout};
use tf_testing::model_runs;
use zookeeper_op::membership::{Change, Decision, Inputs, Place, PodSlot, Step, decide, is_as_wanted};

/// The template of pods that another operator made.
const FOREIGN: u32 = 0;

/// The entry of a member in the list.
fn entry(address: &str, plain_clients: PlainClients) -> Server {
    let tls = ZookeeperTls { client_port: Some(Port(2281)), plain_clients, ..ZookeeperTls::default() };
    let spec = ZookeeperConfiguration { tls: Some(tls), ..ZookeeperConfiguration::default() };
    zookeeper_op::config::server(&spec, address)
}

/// States to look at, all walks together.
const STATES: u32 = 120_000;
/// Disturbances of one walk.
const DISTURBANCES: usize = 60;
/// Steps after which an undisturbed ensemble is as wanted.
const PATIENCE: usize = 120;

#[derive(Clone, Debug)]
struct Node {
    name: String,
    address: String,
    exists: bool,
    up: bool,
    matches: bool,
}

#[derive(Clone, Debug)]
struct Pod {
    ordinal: usize,
    uid: u32,
    node: Option<String>,
    template: u32,
    configuration: u32,
}

#[derive(Clone, Debug)]
struct World {
    nodes: Vec<Node>,
    wanted: usize,
    plain_clients: PlainClients,
    recorded: Vec<MemberStatus>,
    highest: u32,
    leaving: BTreeMap<u32, u64>,
    pods: Vec<Pod>,
    /// Members as the StatefulSet was last told.
    slots: Vec<MemberStatus>,
    servers: Servers,
    template: u32,
    configuration: u32,
    /// Templates and configurations that no server can run with.
    broken: BTreeSet<u32>,
    silent: BTreeSet<u32>,
    /// A request to the ensemble whose answer was given up, and that may still be carried out, with what was wanted then.
    under_way: Option<(Step, PlainClients)>,
    uids: u32,
    addresses: u32,
    seed: u64,
}

impl World {
    fn new(seed: u64, random: &mut StdRng) -> Self {
        let count = random.random_range(1..=6);
        let nodes: Vec<Node> = (0..count)
            .map(|index| Node {
                name: format!("n{index}"),
                address: format!("10.0.0.{index}"),
                exists: true,
                up: true,
                matches: true,
            })
            .collect();
        let mut world = Self {
            nodes,
            wanted: random.random_range(1..=count),
            plain_clients: wish(random),
            recorded: Vec::new(),
            highest: 0,
            leaving: BTreeMap::new(),
            pods: Vec::new(),
            slots: Vec::new(),
            servers: Servers::default(),
            template: 1,
            configuration: 1_000,
            broken: BTreeSet::new(),
            silent: BTreeSet::new(),
            under_way: None,
            uids: 0,
            addresses: 100,
            seed,
        };
        if random.random_bool(0.3) {
            let names = random.random_bool(0.5);
            world.inherit(random.random_range(1..=count), names);
        }
        world
    }

    /// An ensemble that another operator made, its members listed by name or by address.
    fn inherit(&mut self, members: usize, names: bool) {
        for (node, id) in self.nodes.iter().take(members).zip(1..) {
            let (name, address) = (node.name.clone(), node.address.clone());
            let listed = if names { format!("host-{name}") } else { address.clone() };
            self.servers.servers.insert(id, entry(&listed, PlainClients::Everywhere));
            let (node, ordinal, configuration) = (Some(name.clone()), self.pods.len(), self.configuration);
            self.pods.push(Pod { ordinal, uid: id, node, template: FOREIGN, configuration });
            self.recorded.push(MemberStatus { id, node: name, address });
            (self.highest, self.uids) = (id, id);
        }
        self.slots.clone_from(&self.recorded);
    }

    /// The address that a name stands for.
    fn resolved<'a>(&'a self, address: &'a str) -> &'a str {
        let named = |node: &&Node| address.strip_prefix("host-") == Some(&node.name);
        self.nodes.iter().find(named).map_or(address, |node| &node.address)
    }

    /// Whether the server of a member has no agent that could be asked, and runs.
    fn foreign(&self) -> BTreeMap<u32, bool> {
        let pod = |member: &MemberStatus| self.pods.iter().find(|pod| pod.node.as_ref() == Some(&member.node));
        let is_legacy = |member: &&MemberStatus| pod(member).is_some_and(|pod| pod.template == FOREIGN);
        self.recorded.iter().filter(is_legacy).map(|it| (it.id, self.runs(it.id, &it.address))).collect()
    }

    /// What is decided where the kubelet's word is all there is.
    fn decide_in_the_dark(&self) -> Decision {
        let name = |pod: &Pod| format!("set-{}", pod.ordinal);
        let pods: Vec<observed::Pod> = self
            .pods
            .iter()
            .map(|pod| observed::Pod {
                name: name(pod),
                uid: pod.uid.to_string(),
                ready: self.serves(pod),
                template: (pod.template != FOREIGN).then(|| pod.template.to_string()),
                ..observed::Pod::default()
            })
            .collect();
        let workload = observed::Workload { current: true, wanted: self.slots.len() as i32, ..Default::default() };
        let live = BTreeMap::from([("set".to_owned(), workload)]);
        let due = rollout::of_pods(&pods, &live, &[("set".to_owned(), self.template.to_string())]);
        let step = match due {
            rollout::Decision::Restart(target) => {
                Some(Step::Restart { pod: target.pod, uid: target.uid, why: target.why })
            }
            _ => None,
        };
        let mut members = self.recorded.clone();
        for member in &mut members {
            if let Some(node) = self.node(&member.node).filter(|node| node.matches) {
                member.address.clone_from(&node.address);
            }
        }
        Decision { members, highest: self.highest, leaving: self.leaving.clone(), step, ..Decision::default() }
    }

    fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name && node.exists)
    }

    /// Whether the server of this identity and address runs.
    fn runs(&self, id: u32, address: &str) -> bool {
        self.pods.iter().any(|pod| {
            let Some(node) = pod.node.as_deref().and_then(|name| self.node(name)) else { return false };
            let identity =
                self.slots.iter().chain(&self.recorded).any(|member| member.id == id && member.node == node.name);
            let good = !self.broken.contains(&pod.template) && !self.broken.contains(&pod.configuration);
            node.up && node.address == address && identity && good
        })
    }

    fn serves(&self, pod: &Pod) -> bool {
        let member = self.recorded.iter().find(|member| Some(&member.node) == pod.node.as_ref());
        member.is_some_and(|member| self.runs(member.id, &member.address))
    }

    fn is_listed(&self, id: u32, address: &str) -> bool {
        self.servers.servers.get(&id).is_some_and(|server| self.resolved(&server.address) == address)
    }

    fn alive(&self) -> BTreeSet<u32> {
        let runs = |id: &u32| self.runs(*id, self.resolved(&self.servers.servers[id].address));
        self.servers.voters().filter(runs).collect()
    }

    fn has_quorum(&self) -> bool {
        self.alive().len() > self.servers.servers.len() / 2
    }

    fn facts(&self) -> BTreeMap<u32, Facts> {
        let alive = self.alive();
        let quorum = self.has_quorum();
        let mut facts = BTreeMap::new();
        let foreign = self.foreign();
        for member in &self.recorded {
            if foreign.contains_key(&member.id)
                || self.silent.contains(&member.id)
                || !self.runs(member.id, &member.address)
            {
                continue;
            }
            let leads = self.is_listed(member.id, &member.address) && alive.first() == Some(&member.id);
            let role = if leads { Role::Leader } else { Role::Follower };
            let followers = self.recorded.iter().filter(|other| self.runs(other.id, &other.address)).count() as u32;
            facts.insert(
                member.id,
                Facts {
                    id: member.id,
                    serving: quorum,
                    role: if quorum { role } else { Role::None },
                    zxid: 0,
                    synced_followers: (leads && quorum).then(|| followers.saturating_sub(1)),
                    servers: Some(self.servers.clone()),
                },
            );
        }
        facts
    }

    fn decide(&self) -> Decision {
        let (facts, foreign) = (self.facts(), self.foreign());
        if !foreign.is_empty() && !facts.values().any(|facts| facts.serving) {
            return self.decide_in_the_dark();
        }
        let places: Vec<Place> = self
            .nodes
            .iter()
            .filter(|node| node.exists)
            .map(|node| Place { node: node.name.clone(), address: node.address.clone(), matches: node.matches })
            .collect();
        let quorum = self.has_quorum();
        let slots: Vec<PodSlot> = self
            .pods
            .iter()
            .map(|pod| PodSlot {
                ordinal: pod.ordinal,
                pod: pod.ordinal.to_string(),
                uid: pod.uid.to_string(),
                node: pod.node.clone(),
                ready: quorum && self.serves(pod),
                terminating: false,
                change: if pod.template == self.template {
                    (pod.configuration != self.configuration).then_some(Change::Configuration)
                } else {
                    Some(Change::Template)
                },
            })
            .collect();
        decide(&Inputs {
            wanted: self.wanted,
            plain_clients: self.plain_clients,
            places: &places,
            recorded: &self.recorded,
            highest: self.highest,
            leaving: &self.leaving,
            slots: &slots,
            facts: &facts,
            foreign: &foreign,
        })
    }

    /// Carries a decision out, or the beginning of it: the operator may be killed after each write. `late`: a request to the
    /// ensemble takes longer than the operator waits.
    fn carry_out(&mut self, decision: &Decision, writes: usize, late: bool) {
        if writes == 0 {
            return;
        }
        if self.recorded.is_empty() {
            self.servers.servers =
                decision.members.iter().map(|m| (m.id, entry(&m.address, self.plain_clients))).collect();
        }
        self.recorded.clone_from(&decision.members);
        self.highest = decision.highest;
        self.leaving.clone_from(&decision.leaving);
        if writes > 1 {
            self.slots.clone_from(&decision.members);
            self.controllers();
        }
        match decision.step.as_ref().filter(|_| writes > 2) {
            Some(step @ (Step::Add { .. } | Step::Remove { .. })) if late => {
                self.under_way = Some((step.clone(), self.plain_clients));
            }
            Some(step) => self.take(step, self.plain_clients),
            None => {}
        }
    }

    /// What the StatefulSet controller, the scheduler and the garbage collector of pods do.
    fn controllers(&mut self) {
        let nodes = self.nodes.clone();
        let exists = |name: &str| nodes.iter().any(|node| node.name == name && node.exists);
        let wanted = self.slots.len();
        self.pods.retain(|pod| pod.ordinal < wanted && pod.node.as_deref().is_none_or(exists));
        for ordinal in 0..wanted {
            if self.pods.iter().all(|pod| pod.ordinal != ordinal) {
                self.uids += 1;
                self.pods.push(Pod {
                    ordinal,
                    uid: self.uids,
                    node: None,
                    template: self.template,
                    configuration: self.configuration,
                });
            }
        }
        self.pods.sort_by_key(|pod| pod.ordinal);
        for index in 0..self.pods.len() {
            if self.pods[index].node.is_some() {
                continue;
            }
            let free = |member: &&MemberStatus| {
                let up = nodes.iter().any(|node| node.name == member.node && node.exists && node.up);
                up && self.pods.iter().all(|pod| pod.node.as_ref() != Some(&member.node))
            };
            self.pods[index].node = self.slots.iter().find(free).map(|member| member.node.clone());
        }
    }

    fn take(&mut self, step: &Step, plain_clients: PlainClients) {
        match step {
            Step::Add { id, address, version } if *version == self.servers.version && self.has_quorum() => {
                let duplicate =
                    self.servers.servers.iter().any(|(other, server)| other != id && server.address == *address);
                assert!(!duplicate, "seed {}: {address} is listed twice", self.seed);
                // ZooKeeper refuses a further vote for who does not follow.
                if self.is_listed(*id, address) || self.runs(*id, address) {
                    self.servers.servers.insert(*id, entry(address, plain_clients));
                    self.servers.version += 1;
                }
            }
            Step::Remove { id, version } if *version == self.servers.version && self.has_quorum() => {
                self.servers.servers.remove(id);
                assert!(!self.servers.servers.is_empty(), "seed {}: the last member is removed", self.seed);
                self.servers.version += 1;
            }
            Step::Add { .. } | Step::Remove { .. } => {}
            Step::Restart { uid, .. } => {
                self.pods.retain(|pod| pod.uid.to_string() != *uid);
                self.controllers();
            }
            Step::Activate { uid, .. } => {
                let configuration = self.configuration;
                if let Some(pod) = self.pods.iter_mut().find(|pod| pod.uid.to_string() == *uid) {
                    pod.configuration = configuration;
                }
            }
        }
    }

    /// The request under way is carried out after all.
    fn finish(&mut self) {
        if let Some((step, plain_clients)) = self.under_way.take() {
            self.take(&step, plain_clients);
        }
    }

    /// Something happens that nobody decided.
    fn disturb(&mut self, random: &mut StdRng) {
        let index = random.random_range(0..self.nodes.len());
        match random.random_range(0..17) {
            0 | 1 => self.nodes[index].up = false,
            2..=4 => self.nodes[index].up = true,
            5 => self.nodes[index].exists = random.random_bool(0.7),
            6 => self.nodes[index].matches = random.random_bool(0.7),
            7 | 14 | 15 => self.wanted = random.random_range(1..=self.nodes.len()),
            8 => {
                self.template += 1;
                if random.random_bool(0.2) {
                    self.broken.insert(self.template);
                }
            }
            9 => {
                self.configuration += 1;
                if random.random_bool(0.2) {
                    self.broken.insert(self.configuration);
                }
            }
            10 => {
                let ids: Vec<u32> = self.recorded.iter().map(|member| member.id).collect();
                self.silent = ids.into_iter().filter(|_| random.random_bool(0.2)).collect();
            }
            11 => self.finish(),
            16 => self.plain_clients = wish(random),
            12 => {
                if let Some(pod) = self.pods.choose(random).map(|pod| pod.uid) {
                    self.pods.retain(|other| other.uid != pod);
                }
            }
            _ if random.random_bool(0.3) => {
                // Somebody gave two machines one address.
                let other = self.nodes.choose(random).map(|node| node.address.clone());
                self.nodes[index].address = other.unwrap_or_default();
                self.nodes[index].up = false;
            }
            _ => self.move_node(index),
        }
        self.controllers();
    }

    /// A node gets an address that nobody had.
    fn move_node(&mut self, index: usize) {
        self.addresses += 1;
        self.nodes[index].address = format!("10.0.0.{}", self.addresses);
    }

    /// Everything works again.
    fn heal(&mut self) {
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            (node.exists, node.up, node.matches) = (true, true, true);
            let address = node.address.clone();
            if self.nodes.iter().take(index).any(|other| other.address == address) {
                self.move_node(index);
            }
        }
        self.silent.clear();
        self.template += 1;
        self.configuration += 1;
        self.controllers();
    }

    fn is_as_wanted(&self) -> bool {
        let listed: BTreeSet<u32> = self.servers.voters().collect();
        let recorded: BTreeSet<u32> = self.recorded.iter().map(|member| member.id).collect();
        let current = |pod: &Pod| pod.template == self.template && pod.configuration == self.configuration;
        listed.len() == self.wanted
            && listed == recorded
            && self.alive() == listed
            && self.servers.servers.values().all(|server| is_as_wanted(server, self.plain_clients))
            && self.pods.len() == self.wanted
            && self.pods.iter().all(current)
    }

    /// What holds whatever happens.
    fn check(&self, before: &Self, decision: &Decision, doing: &str) {
        let seed = self.seed;
        let ids: BTreeSet<u32> = decision.members.iter().map(|member| member.id).collect();
        assert_eq!(ids.len(), decision.members.len(), "seed {seed}: an identity is given twice: {decision:?}");
        let nodes: BTreeSet<&str> = decision.members.iter().map(|member| member.node.as_str()).collect();
        assert_eq!(nodes.len(), decision.members.len(), "seed {seed}: a node carries two members: {decision:?}");
        for member in &decision.members {
            let known = before.recorded.iter().any(|other| other.id == member.id && other.node == member.node);
            assert!(known || member.id > before.highest, "seed {seed}: identity {} is used again", member.id);
        }
        // One server, or two, cannot be brought up to date without an interruption.
        let updates = matches!(decision.step, Some(Step::Restart { .. } | Step::Activate { .. }));
        let small = before.servers.servers.len() < 3 && updates;
        if before.has_quorum() && !small {
            assert!(
                self.has_quorum(),
                "seed {seed}: {doing} took the quorum: {decision:#?}\nbefore {before:#?}\nafter {self:#?}"
            );
        }
        // A removal that was asked for before may have made somebody else the leader since.
        let is_seen = decision.quorum.as_ref().is_none_or(|it| it.servers.version == before.servers.version);
        if let Some(Step::Restart { uid, .. } | Step::Activate { uid, .. }) = &decision.step
            && is_seen
        {
            let facts = before.facts();
            let leader =
                before.recorded.iter().find(|m| facts.get(&m.id).is_some_and(|facts| facts.role == Role::Leader));
            let pod = before.pods.iter().find(|pod| pod.uid.to_string() == *uid);
            let leads = leader.is_some() && pod.and_then(|pod| pod.node.as_ref()) == leader.map(|member| &member.node);
            let others = before.pods.iter().filter(|other| other.uid.to_string() != *uid && before.serves(other));
            let current =
                others.clone().all(|pod| pod.template == before.template && pod.configuration == before.configuration);
            assert!(!leads || current, "seed {seed}: the leader is not the last: {decision:#?}\n{before:#?}");
        }
        // Who moves, or is called by an address instead of a name, gets the wanted entry with that.
        if let Some(Step::Add { id, address, .. }) = &decision.step
            && is_seen
            && before.servers.servers.get(id).is_some_and(|server| server.address == *address)
            && before.plain_clients == PlainClients::Node
        {
            let all_serve = before.alive().len() == before.servers.servers.len();
            let have_tls = before.pods.iter().all(|pod| pod.template == before.template);
            assert!(all_serve && have_tls, "seed {seed}: a port is closed too early: {decision:#?}\n{before:#?}");
        }
        let lost = before.alive().difference(&self.alive()).filter(|id| self.servers.servers.contains_key(id)).count();
        assert!(lost <= 1, "seed {seed}: {doing} disturbed {lost} members: {decision:#?}");
    }
}

/// From where somebody wants clients to connect without TLS.
fn wish(random: &mut StdRng) -> PlainClients {
    if random.random_bool(0.5) { PlainClients::Everywhere } else { PlainClients::Node }
}

fn walk(seed: u64) -> u32 {
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::new(seed, &mut random);
    let mut states = 0;
    for _ in 0..DISTURBANCES {
        for _ in 0..random.random_range(0..6) {
            let decision = world.decide();
            assert_eq!(decision, world.decide(), "seed {seed}: the same situation, another decision");
            // What was asked for before may happen after the operator looked and before it acts.
            if random.random_bool(0.3) {
                world.finish();
            }
            let before = world.clone();
            let writes = if random.random_bool(0.8) { 3 } else { random.random_range(0..3) };
            world.carry_out(&decision, writes, random.random_bool(0.3));
            world.check(&before, &decision, "a decision");
            states += 1;
        }
        world.disturb(&mut random);
    }
    if !world.recorded.is_empty() && !survives(&world) {
        return states;
    }
    world.heal();
    for _ in 0..PATIENCE {
        let decision = world.decide();
        let before = world.clone();
        world.carry_out(&decision, 3, false);
        world.check(&before, &decision, "a decision at rest");
        states += 1;
        if world.is_as_wanted() {
            return states;
        }
    }
    panic!("seed {seed}: the wish did not come true: {:#?}\n{world:#?}", world.decide());
}

/// Whether a majority can come back at the addresses that the ensemble knows: otherwise only people can help.
fn survives(world: &World) -> bool {
    let mut healed = world.clone();
    healed.heal();
    let there =
        |id: &u32| {
            let address = healed.resolved(&healed.servers.servers[id].address);
            let listed = |member: &&MemberStatus| member.id == *id;
            healed.recorded.iter().find(listed).is_some_and(|member| {
                healed.nodes.iter().any(|node| node.name == member.node && node.address == address)
            })
        };
    healed.servers.voters().filter(there).count() > healed.servers.servers.len() / 2
}

#[test]
fn whatever_happens_no_step_of_ours_takes_the_quorum_and_the_wish_comes_true() {
    let (mut states, mut seed) = (0, 0);
    while states < model_runs::times(STATES) {
        states += walk(seed);
        seed += 1;
    }
    println!("{states} states in {seed} walks");
}
