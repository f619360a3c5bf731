//! A model of a ring and of everything that happens to it, and the decision walking through it.
//!
//! The model plays Cassandra (who is in the ring, on how many members a keyspace is to be, who has repaired it), the node agents, the StatefulSet controller and
//! the scheduler, and the world: nodes die, disks are emptied, servers end, requests are carried out late or fail, clients make keyspaces,
//! people change their minds. After each step the promises are checked; at the end the world rests, and the wish has to come true.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use proptest::prelude::*;
use tf_plan::{
    node::{
        cassandra::{Facts, Failed, NORMAL, Peer, backup::Backup},
        state::{Phase, State, Status},
    },
    observed::{self, Agent, Certificate, Pod},
    step::Request,
};

use super::{view::LEAVING, *};
use crate::config::jvm::DAEMON;

const DISTURBANCES: usize = 40;
/// Steps after which an undisturbed ring is as wanted.
const PATIENCE: usize = 200;
/// About 100,000 states.
const WALKS: u32 = 1500;
const KEYSPACE: &str = "config_db_uuid";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Server {
    /// There is no pod, or it has just been started.
    #[default]
    Off,
    Running,
    /// Its process runs, and it left.
    Left,
    /// It ends by itself again and again.
    Failing,
}

#[derive(Clone, Debug, Default)]
struct Machine {
    exists: bool,
    server: Server,
    has_data: bool,
    /// The member that the data is of.
    owner: Option<u32>,
    repaired: Option<u32>,
    /// How often it joined, each time under another host ID.
    joined: usize,
    /// What goes on, for so many steps more.
    doing: Option<(Change, usize)>,
    /// Whether it began to leave, and could not: others were away, or it was cut short.
    stuck: bool,
}

#[derive(Clone, Debug)]
enum Event {
    Wanted(usize),
    Dies(usize),
    Comes,
    Ends(usize),
    EmptyDisk(usize),
    PodDeleted(usize),
    /// A client that knows so many servers makes the keyspace.
    Keyspace(u32),
    /// What was asked for is carried out when some steps more have passed.
    Late(usize),
    /// What goes on is cut short.
    AgentEnds(usize),
    /// A member begins to write what it holds to a backup.
    Backup(usize),
    Nothing,
}

#[derive(Debug)]
struct World {
    machines: Vec<Machine>,
    wanted: usize,
    record: Record,
    /// Machine and uid of each pod, by ordinal.
    pods: Vec<Option<(usize, u32)>>,
    /// Who is in the ring, as its servers have it.
    ring: Vec<usize>,
    factor: Option<u32>,
    /// Who has not repaired since the number was changed, or since it joined.
    unrepaired: BTreeSet<usize>,
    uids: u32,
    delay: usize,
    late: Option<(usize, Step)>,
    /// What was decided last.
    last: String,
}

fn node(at: usize) -> String {
    format!("n{at}")
}

fn address(at: usize) -> String {
    format!("10.0.0.{at}")
}

fn machine(node: &str) -> usize {
    node.trim_start_matches('n').parse().unwrap()
}

impl World {
    /// A ring that was founded.
    fn new(machines: usize, members: usize) -> Self {
        let mut world = Self {
            machines: vec![Machine { exists: true, ..Machine::default() }; machines.max(members)],
            wanted: members,
            record: Record::default(),
            pods: Vec::new(),
            ring: (0..members).collect(),
            factor: None,
            unrepaired: BTreeSet::new(),
            uids: 0,
            delay: 0,
            late: None,
            last: String::new(),
        };
        for at in 0..members {
            world.record.add(&Self::place(at));
            let data = Machine { has_data: true, owner: Some(at as u32 + 1), ..world.machines[at].clone() };
            world.machines[at] = data;
        }
        world
    }

    fn place(at: usize) -> observed::Node {
        observed::Node { name: node(at), address: Some(address(at)), ..observed::Node::default() }
    }

    fn host_id(&self, at: usize) -> String {
        format!("{}-{}", node(at), self.machines[at].joined)
    }

    fn runs(&self, at: usize) -> bool {
        self.machines[at].server == Server::Running
    }

    /// Whether all others run and hold everything: what is lost with more than one is nobody's to bring back.
    fn can_lose(&self, at: usize) -> bool {
        let others = self.ring.iter().all(|other| *other == at || self.runs(*other) && self.machines[*other].has_data);
        let has_copies = self.factor.is_none_or(|factor| factor > 1);
        !self.ring.contains(&at) || self.ring.len() > 1 && others && has_copies && self.unrepaired.is_empty()
    }

    fn happens(&mut self, event: &Event) {
        let count = self.machines.len();
        match event {
            Event::Wanted(wanted) => self.wanted = *wanted,
            Event::Dies(index) => {
                let at = index % count;
                if self.can_lose(at) {
                    self.machines[at] = Machine { joined: self.machines[at].joined, ..Machine::default() };
                    self.pods.iter_mut().filter(|pod| pod.is_some_and(|(it, _)| it == at)).for_each(|pod| *pod = None);
                }
            }
            Event::Comes => self.machines.push(Machine { exists: true, ..Machine::default() }),
            Event::Ends(index) => self.stop(index % count),
            Event::EmptyDisk(index) => {
                let at = index % count;
                if self.can_lose(at) {
                    self.stop(at);
                    (self.machines[at].has_data, self.machines[at].repaired, self.machines[at].owner) =
                        (false, None, None);
                }
            }
            Event::PodDeleted(ordinal) => {
                let count = self.pods.len().max(1);
                self.end_pod(ordinal % count);
            }
            Event::Keyspace(factor) if self.factor.is_none() && !self.ring.is_empty() => {
                self.factor = Some((*factor).min(self.ring.len() as u32));
            }
            Event::Late(steps) => self.delay = *steps,
            Event::AgentEnds(index) => {
                let ended = self.machines[index % count].doing.take();
                self.machines[index % count].stuck |= matches!(ended, Some((Change::Decommission, _)));
            }
            Event::Backup(index) => {
                let at = index % count;
                let is_member = self.record.members.iter().any(|member| machine(&member.node) == at);
                if is_member && self.runs(at) && self.machines[at].doing.is_none() {
                    let of = Backup::default();
                    let change = Change::Backup { of, resource: String::new(), member: 1, members: Vec::new() };
                    self.machines[at].doing = Some((change, 2));
                }
            }
            Event::Keyspace(_) | Event::Nothing => {}
        }
    }

    fn stop(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        (machine.server, machine.doing, machine.stuck) = (Server::Off, None, false);
    }

    fn end_pod(&mut self, ordinal: usize) {
        if let Some((at, _)) = self.pods.get_mut(ordinal).and_then(Option::take) {
            self.stop(at);
        }
    }

    /// What controllers, kubelets and servers do.
    fn goes_on(&mut self) {
        if let Some((steps, step)) = self.late.take() {
            match steps {
                0 => self.carry_out(&step),
                _ => self.late = Some((steps - 1, step)),
            }
        }
        for ordinal in self.record.members.len()..self.pods.len() {
            self.end_pod(ordinal);
        }
        self.pods.resize(self.record.members.len(), None);
        for ordinal in 0..self.pods.len() {
            let is_taken = |at: usize| self.pods.iter().flatten().any(|(it, _)| *it == at);
            let free = self.record.members.iter().map(|it| machine(&it.node));
            let free = free.into_iter().find(|at| self.machines[*at].exists && !is_taken(*at));
            if let (None, Some(at)) = (self.pods[ordinal], free) {
                self.uids += 1;
                self.pods[ordinal] = Some((at, self.uids));
            }
        }
        let pods: Vec<usize> = self.pods.iter().flatten().map(|(at, _)| *at).collect();
        for at in pods {
            self.works(at);
            if matches!(self.machines[at].server, Server::Off | Server::Failing) {
                self.start(at);
            }
        }
    }

    fn start(&mut self, at: usize) {
        let member = self.record.members.iter().find(|member| machine(&member.node) == at);
        let Some(id) = member.map(|member| member.id) else { return };
        if self.machines[at].owner.replace(id).is_some_and(|former| former != id) {
            assert!(!self.ring.contains(&at), "data of a member of the ring goes");
            (self.machines[at].has_data, self.machines[at].repaired) = (false, None);
        }
        let (listed, has_data) = (self.ring.contains(&at), self.machines[at].has_data);
        // Who has none fetches it from all others.
        let joins = !listed && !has_data && self.ring.iter().all(|other| self.runs(*other));
        let starts = listed && has_data || joins;
        if joins {
            self.ring.push(at);
            self.machines[at].joined += 1;
            self.machines[at].has_data = true;
            if self.factor.is_some() {
                self.unrepaired.insert(at);
            }
        }
        self.machines[at].server = if starts { Server::Running } else { Server::Failing };
    }

    /// What goes on comes nearer to its end.
    fn works(&mut self, at: usize) {
        let Some((change, steps)) = self.machines[at].doing.take() else { return };
        if steps > 0 {
            self.machines[at].doing = Some((change, steps - 1));
            return;
        }
        let all_run = self.ring.iter().all(|other| self.runs(*other));
        match change {
            Change::Repair { factor, .. } if all_run && self.factor == Some(factor) => {
                self.machines[at].repaired = Some(factor);
                self.unrepaired.remove(&at);
            }
            Change::Decommission if all_run => {
                self.ring.retain(|other| *other != at);
                self.unrepaired.remove(&at);
                self.machines[at].server = Server::Left;
            }
            Change::Decommission => self.machines[at].stuck = true,
            Change::Remove { host_id } => {
                let gone = self.ring.iter().copied().find(|other| self.host_id(*other) == host_id);
                self.ring.retain(|other| Some(*other) != gone);
                self.unrepaired.retain(|other| Some(*other) != gone);
            }
            _ => {}
        }
    }

    fn carry_out(&mut self, step: &Step) {
        let target = self.pods.iter().position(|pod| pod.is_some_and(|(_, uid)| uid.to_string() == step.target().uid));
        let Some(ordinal) = target else { return };
        let at = self.pods[ordinal].map(|(at, _)| at).unwrap();
        match step {
            Step::Restart(_) => self.end_pod(ordinal),
            Step::Ask(_, Request::Ring(change)) if self.runs(at) && self.machines[at].doing.is_none() => match change {
                Change::Replicate { from, to, .. } if self.factor == Some(*from) => {
                    (self.factor, self.unrepaired) = (Some(*to), self.ring.iter().copied().collect());
                }
                Change::Replicate { .. } => {}
                Change::Repair { factor, .. } if self.factor != Some(*factor) => {}
                Change::Decommission if self.factor.is_some_and(|factor| factor as usize >= self.ring.len()) => {}
                Change::Remove { host_id }
                    if self.ring.iter().any(|it| self.host_id(*it) == *host_id && self.runs(*it)) => {}
                change => self.machines[at].doing = Some((change.clone(), 2)),
            },
            _ => {}
        }
    }

    fn status(&self, at: usize) -> Status {
        let Machine { server, has_data, repaired, doing, stuck, .. } = &self.machines[at];
        let peer = |it: &usize| {
            let heard = Some(self.runs(*it));
            let state = if self.machines[*it].stuck { LEAVING } else { NORMAL };
            (address(*it).parse().unwrap(), Peer { state: Some(state.into()), heard, host_id: Some(self.host_id(*it)) })
        };
        let keyspace = |factor: Option<u32>| factor.map(|factor| (KEYSPACE.to_owned(), factor)).into_iter().collect();
        let mut facts = Facts {
            repaired: keyspace(*repaired),
            doing: doing.as_ref().map(|(change, _)| change.clone()),
            left: *server == Server::Left,
            has_served: *has_data,
            owner: self.machines[at].owner,
            joined: self.machines[at].joined > 0,
            failed: stuck.then(|| Failed { of: Change::Decommission, why: "others".into(), at: Timestamp::UNIX_EPOCH }),
            ..Facts::default()
        };
        if *server == Server::Running {
            facts.host_id = self.host_id(at);
            facts.peers = self.ring.iter().filter(|it| **it != at).map(peer).collect();
            facts.keyspaces = keyspace(self.factor);
        }
        let phase = match server {
            Server::Off => Phase::Starting,
            Server::Running | Server::Left => Phase::Running,
            Server::Failing => Phase::BackOff,
        };
        let daemons = BTreeMap::from([(DAEMON.to_owned(), State { phase, ..State::default() })]);
        Status { node: node(at), daemons, cassandra: Some(facts), ..Status::default() }
    }

    fn pod(&self, ordinal: usize, (at, uid): (usize, u32)) -> Pod {
        Pod {
            name: format!("set-{ordinal}"),
            uid: uid.to_string(),
            node: Some(node(at)),
            ready: self.runs(at),
            certificate: Some(Certificate { not_after: jiff::Timestamp::MAX, issuer: String::new() }),
            ..Pod::default()
        }
    }

    /// One pass of the operator. Whether there is something left to do.
    fn decides(&mut self) -> Result<bool, TestCaseError> {
        let nodes: Vec<observed::Node> =
            (0..self.machines.len()).filter(|at| self.machines[*at].exists).map(Self::place).collect();
        let places: Vec<&observed::Node> = nodes.iter().collect();
        let pods: Vec<Pod> =
            self.pods.iter().enumerate().filter_map(|(ordinal, pod)| Some(self.pod(ordinal, (*pod)?))).collect();
        let says = |(at, uid): &(usize, u32)| (uid.to_string(), Agent::Says(Box::new(self.status(*at))));
        let agents: BTreeMap<String, Agent> = self.pods.iter().flatten().map(says).collect();
        let reports = Reports { pods: &pods, agents: &agents };
        let decision = decide(&Situation {
            room: Room { wanted: Some(self.wanted), members: &self.record.members, places: &places, pods: &pods },
            record: &self.record,
            reports: &reports,
        });
        if let Some(step) = &decision.step {
            self.keeps_promises(step)?;
        }
        for gone in self.record.members.iter().filter(|member| !decision.record.members.contains(member)) {
            prop_assert!(!self.ring.contains(&machine(&gone.node)), "{gone:?} is struck off and in the ring");
            prop_assert!(self.record.is_leaving(gone.id), "{gone:?} is struck off without a mark");
        }
        prop_assert!(!decision.record.members.is_empty(), "nobody is left");
        prop_assert!(decision.record.highest >= self.record.highest);
        self.last = format!("{:?} {:?}", decision.step, decision.waits);
        let changed = decision.record != self.record;
        self.record = decision.record;
        let rest = changed || decision.step.is_some() || decision.waits.is_some();
        // A step rests on what is recorded.
        if !changed {
            match (decision.step, std::mem::take(&mut self.delay)) {
                (Some(step), 0) => self.carry_out(&step),
                // Its answer is given up, and the operator goes on.
                (Some(step), steps) => self.late = Some((steps, step)),
                (None, _) => {}
            }
        }
        Ok(rest)
    }

    fn keeps_promises(&self, step: &Step) -> Result<(), TestCaseError> {
        let at = |uid: &str| self.pods.iter().flatten().find(|(_, it)| it.to_string() == uid).map(|(at, _)| *at);
        let target = at(&step.target().uid);
        prop_assert!(target.is_some(), "a pod that is not there is asked");
        let all_run = self.ring.iter().all(|it| self.runs(*it));
        let nothing_goes_on = self.machines.iter().all(|machine| machine.doing.is_none());
        let Step::Ask(_, Request::Ring(change)) = step else { return Ok(()) };
        prop_assert!(nothing_goes_on, "two things at once");
        match change {
            Change::Replicate { from, to, .. } => {
                prop_assert!(from.abs_diff(*to) == 1 && *to > 0 && self.factor == Some(*from), "{change:?}");
                let is_repaired = |it: &usize| self.machines[*it].repaired == Some(*from);
                prop_assert!(self.ring.iter().all(is_repaired), "what was written is not where it should be");
                prop_assert!(all_run);
            }
            Change::Repair { .. } => prop_assert!(all_run),
            Change::Decommission => {
                prop_assert!(all_run, "a member leaves while another one is away");
                let fits = self.factor.is_none_or(|factor| (factor as usize) < self.ring.len());
                prop_assert!(fits && self.ring.len() > 1, "too few are left");
                prop_assert!(self.record.members.len() > self.wanted, "a member leaves that is wanted");
            }
            Change::Remove { host_id } => {
                let gone = machine(host_id.split('-').next().unwrap_or_default());
                prop_assert!(
                    !self.runs(gone) && !self.machines[gone].has_data,
                    "a member is taken out that could come back"
                );
            }
            Change::UpgradeSstables
            | Change::Backup { .. }
            | Change::Look { .. }
            | Change::RestoreSchema { .. }
            | Change::RestoreRows { .. } => {
                prop_assert!(false, "no business of who is a member: {change:?}");
            }
        }
        Ok(())
    }

    /// Whether everything is as wanted.
    fn rests(&self) -> bool {
        let mut members: Vec<usize> = self.record.members.iter().map(|member| machine(&member.node)).collect();
        let mut ring = self.ring.clone();
        members.sort_unstable();
        ring.sort_unstable();
        let factor = self.factor.is_none_or(|factor| factor as usize == self.wanted);
        members.len() == self.wanted
            && members == ring
            && members.iter().all(|at| self.runs(*at))
            && factor
            && self.unrepaired.is_empty()
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (1_usize..6).prop_map(Event::Wanted),
        1 => (0_usize..16).prop_map(Event::Dies),
        1 => Just(Event::Comes),
        2 => (0_usize..16).prop_map(Event::Ends),
        1 => (0_usize..16).prop_map(Event::EmptyDisk),
        1 => (0_usize..5).prop_map(Event::PodDeleted),
        2 => (1_u32..6).prop_map(Event::Keyspace),
        2 => (1_usize..6).prop_map(Event::Late),
        1 => (0_usize..16).prop_map(Event::AgentEnds),
        1 => (0_usize..16).prop_map(Event::Backup),
        10 => Just(Event::Nothing),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: WALKS, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_no_row_is_lost_and_in_the_end_the_ring_is_as_wished(
        machines in 1_usize..6, members in 1_usize..6, events in prop::collection::vec(event(), DISTURBANCES),
    ) {
        let mut world = World::new(machines, members);
        for event in &events {
            world.happens(event);
            world.goes_on();
            world.decides()?;
        }
        world.delay = 0;
        while world.machines.iter().filter(|machine| machine.exists).count() < world.wanted.max(world.record.members.len()) {
            world.happens(&Event::Comes);
        }
        for _ in 0..PATIENCE {
            world.goes_on();
            world.decides()?;
        }
        world.goes_on();
        let has_more = world.decides()?;
        prop_assert!(world.rests(), "{world:?}");
        prop_assert!(!has_more, "it is not silent");
    }
}
