//! A model of Redis servers and of everything that happens to them, and the decisions walking through it.
//!
//! The model plays servers (who copies whom, what each has), Sentinels (whom they know, elections by more than half), the node agents with
//! what they ask and tell, the StatefulSet controller and the scheduler, and the world: servers and Sentinels end, nodes die, lose their power
//! or are cut off, copies lag, requests are refused or carried out late, the operator is killed between two writes or sees what was a moment
//! ago, people change their minds. After each step the promises are checked; at the end the world rests, and the wish has to come true.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tf_api::{
    Redis, RedisConfiguration, RedisSpec,
    common::PodConfiguration,
    contract::MemberStatus,
    kinds::{RedisMode, RedisStatus},
    names::ANNOTATION_HIBERNATE,
};
use tf_plan::{
    hibernation::{self, Hibernation},
    node::{
        ContentHash,
        redis::{self, Change, Copying, Facts, Replication, Sentinel as Said, Start},
        state::{Health, Phase, State, Status},
    },
    observed::{self, Agent, Certificate, Observed, Source, Workload},
    plan::{Plan, Rollout},
    rollout,
    step::{Request, Step},
};

use crate::{
    plan::{CONTAINER, Servers, servers},
    procedure, sentinel,
};

const DISTURBANCES: usize = 40;
/// Steps after which undisturbed servers are as wanted. Each is as long as it takes an operator to look again.
const PATIENCE: usize = 200;
/// About 100,000 states, of servers on their own and of such as copy one of them together.
const WALKS: u32 = 800;
const SET: &str = "redis1-redis-statefulset";
/// Steps for which a Sentinel misses the server that takes writes before it takes it for lost.
const MISSED: usize = 3;
/// Steps after which Kubernetes gives a node up that is not heard.
const UNHEARD: usize = 3;
/// Bytes of every second write. The others are so small that a copy without them is taken for up to date.
const LARGE: u64 = 1 << 21;

/// Writes by their numbers.
type Writes = u128;

#[derive(Clone, Debug, Default)]
struct Machine {
    exists: bool,
    /// It has no power.
    is_off: bool,
    /// Nobody reaches it.
    is_cut: bool,
    /// Steps for which it was not heard.
    unheard: usize,
    /// What is copied does not arrive, although the connection is there.
    lags: bool,
    /// Steps for which its agent does not answer.
    silent: usize,
}

#[derive(Clone, Debug)]
struct Server {
    copies: Option<usize>,
    /// Whether it has had everything of the one that it copies, and is in touch with it.
    linked: bool,
    data: Writes,
    /// How many copies it needs to take writes.
    needs: usize,
}

#[derive(Clone, Debug)]
struct Sentinel {
    master: usize,
    epoch: u64,
    /// The others that it counts.
    known: BTreeSet<usize>,
    quorum: usize,
    missed: usize,
    /// Steps since it has that one.
    settled: usize,
}

/// A configuration: one of servers and Sentinels, with the members that are named in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    version: u32,
    members: Vec<usize>,
}

impl Content {
    fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }
}

#[derive(Clone, Debug)]
struct Pod {
    ordinal: usize,
    uid: u32,
    at: Option<usize>,
    template: u32,
    revision: usize,
    age: usize,
    /// Steps until it is gone, which pass while its node is heard.
    leaving: Option<usize>,
    told: Option<usize>,
    active: Option<usize>,
    /// What its Sentinel noted.
    noted: Option<(usize, u64)>,
    server: Option<Server>,
    sentinel: Option<Sentinel>,
}

/// What a StatefulSet is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Set {
    replicas: usize,
    template: u32,
    nodes: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Event {
    Wanted(usize),
    Template(bool),
    Configuration(bool),
    Mode,
    Hibernate,
    Dies(usize),
    Comes,
    Power(usize),
    Cut(usize),
    Ends(usize),
    SentinelEnds(usize),
    PodDeleted(usize),
    Lags(usize),
    Silent(usize, usize),
    /// What an agent is asked for next is carried out when some steps more have passed.
    Late(usize),
    /// What is asked for next is refused.
    Refused,
    /// The operator is killed after so many writes.
    Killed(usize),
    /// The operator sees pods and agents as they were a step ago.
    Stale,
    /// Controllers do nothing in this step.
    Slow,
    Nothing,
}

impl Event {
    /// Whether what clients were told can be lost by it, whatever the operator does.
    fn is_grave(&self) -> bool {
        use Event::*;
        matches!(self, Hibernate | Dies(_) | Power(_) | Cut(_) | Ends(_) | PodDeleted(_))
    }
}

type Sight = (Vec<observed::Pod>, BTreeMap<String, Agent>);

#[derive(Debug)]
struct World {
    mode: RedisMode,
    machines: Vec<Machine>,
    pods: Vec<Pod>,
    wanted: Option<usize>,
    asks_other_mode: bool,
    hibernates: bool,
    template: u32,
    version: u32,
    /// Templates and configurations that no server can run with.
    broken: BTreeSet<u32>,
    recorded: Vec<MemberStatus>,
    /// What the operator applied last, and what the controller has seen of it.
    set: Set,
    seen: Set,
    /// All that the StatefulSet ever was, its revisions.
    revisions: Vec<Set>,
    contents: Vec<Content>,
    /// The configuration that is mounted.
    files: Option<usize>,
    uids: u32,
    /// Failovers that were.
    epochs: u64,
    late: Option<(usize, Step)>,
    delay: usize,
    refuses: bool,
    writes: usize,
    is_stale: bool,
    is_slow: bool,
    before: Sight,
    /// Whether clients write.
    is_busy: bool,
    written: u32,
    acknowledged: Writes,
    last: String,
}

fn node(at: usize) -> String {
    format!("n{at}")
}

fn machine(node: &str) -> usize {
    node.trim_start_matches('n').parse().unwrap()
}

fn address(at: usize) -> String {
    format!("10.0.0.{}", at + 1)
}

fn at(address: std::net::IpAddr) -> usize {
    address.to_string().trim_start_matches("10.0.0.").parse::<usize>().unwrap() - 1
}

fn hash(index: usize) -> ContentHash {
    format!("{index:032x}").parse().unwrap()
}

fn bytes(data: Writes) -> u64 {
    let large = u128::MAX / 3;
    u64::from((data & !large).count_ones()) + u64::from((data & large).count_ones()) * LARGE
}

impl World {
    fn new(mode: RedisMode, machines: usize, wanted: Option<usize>) -> Self {
        Self {
            mode,
            machines: vec![Machine { exists: true, ..Machine::default() }; machines],
            pods: Vec::new(),
            wanted,
            asks_other_mode: false,
            hibernates: false,
            template: 1,
            version: 1_000,
            broken: BTreeSet::new(),
            recorded: Vec::new(),
            set: Set::default(),
            seen: Set::default(),
            revisions: vec![Set::default()],
            contents: Vec::new(),
            files: None,
            uids: 0,
            epochs: 0,
            late: None,
            delay: 0,
            refuses: false,
            writes: usize::MAX,
            is_stale: false,
            is_slow: false,
            before: Sight::default(),
            is_busy: true,
            written: 0,
            acknowledged: 0,
            last: String::new(),
        }
    }

    /// Servers that the Go tf-operator made.
    fn taken_over(mut self) -> Self {
        let nodes: Vec<usize> = (0..self.machines.len()).collect();
        self.set = Set { replicas: nodes.len(), template: 0, nodes };
        self.seen = self.set.clone();
        self.revisions = vec![self.set.clone()];
        self
    }

    fn is_heard(&self, at: usize) -> bool {
        let Machine { exists, is_off, is_cut, .. } = self.machines[at];
        exists && !is_off && !is_cut
    }

    fn reaches(&self, one: usize, other: usize) -> bool {
        one == other || self.is_heard(one) && self.is_heard(other)
    }

    fn pod_at(&self, at: usize) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.at == Some(at))
    }

    fn pod_at_mut(&mut self, at: usize) -> Option<&mut Pod> {
        self.pods.iter_mut().find(|pod| pod.at == Some(at))
    }

    fn server(&self, at: usize) -> Option<&Server> {
        self.pod_at(at)?.server.as_ref()
    }

    fn sentinel(&self, at: usize) -> Option<&Sentinel> {
        self.pod_at(at)?.sentinel.as_ref()
    }

    /// Machines on which a server runs.
    fn running(&self) -> Vec<usize> {
        self.pods.iter().filter(|pod| pod.server.is_some()).filter_map(|pod| pod.at).collect()
    }

    fn linked_to(&self, master: usize) -> Vec<usize> {
        let is_copy = |it: &usize| {
            let server = self.server(*it);
            server.is_some_and(|server| server.copies == Some(master) && server.linked) && self.reaches(*it, master)
        };
        self.running().into_iter().filter(is_copy).collect()
    }

    /// What any server has.
    fn kept(&self) -> Writes {
        self.pods.iter().filter_map(|pod| pod.server.as_ref()).fold(0, |sum, server| sum | server.data)
    }

    fn happens(&mut self, event: &Event) {
        let count = self.machines.len();
        let some = |index: &usize| index % count;
        match event {
            Event::Wanted(wanted) if self.mode == RedisMode::Sentinel => self.wanted = Some([3, 5, 7][wanted % 3]),
            Event::Wanted(wanted) => self.wanted = (*wanted > 0).then_some(*wanted),
            Event::Template(breaks) => {
                self.template += 1;
                self.broken.extend(breaks.then_some(self.template));
            }
            Event::Configuration(breaks) => {
                self.version += 1;
                self.broken.extend(breaks.then_some(self.version));
            }
            // Members are founded as what is asked for then.
            Event::Mode if self.recorded.is_empty() => {}
            Event::Mode => self.asks_other_mode = !self.asks_other_mode,
            Event::Hibernate => self.hibernates = !self.hibernates,
            Event::Dies(index) => {
                self.machines[some(index)] = Machine::default();
                self.pods.retain(|pod| pod.at != Some(some(index)));
            }
            Event::Comes => self.machines.push(Machine { exists: true, ..Machine::default() }),
            Event::Power(index) => {
                let at = some(index);
                self.machines[at].is_off = !self.machines[at].is_off;
                if let Some(pod) = self.pod_at_mut(at) {
                    (pod.server, pod.sentinel, pod.noted) = (None, None, None);
                }
            }
            Event::Cut(index) => self.machines[some(index)].is_cut = !self.machines[some(index)].is_cut,
            Event::Ends(index) => {
                if let Some(pod) = self.pod_at_mut(some(index)) {
                    pod.server = None;
                }
            }
            Event::SentinelEnds(index) => {
                if let Some(pod) = self.pod_at_mut(some(index)) {
                    pod.sentinel = None;
                }
            }
            Event::PodDeleted(index) => {
                let count = self.pods.len().max(1);
                if let Some(pod) = self.pods.get_mut(index % count) {
                    pod.leaving.get_or_insert(2);
                }
            }
            Event::Lags(index) => self.machines[some(index)].lags = !self.machines[some(index)].lags,
            Event::Silent(index, steps) => self.machines[some(index)].silent = *steps,
            Event::Late(steps) => self.delay = *steps,
            Event::Refused => self.refuses = true,
            Event::Killed(writes) => self.writes = *writes,
            Event::Stale => self.is_stale = true,
            Event::Slow => self.is_slow = true,
            Event::Nothing => {}
        }
    }

    /// What controllers, kubelets, agents, servers and Sentinels do.
    fn goes_on(&mut self) -> Result<(), TestCaseError> {
        if let Some((steps, step)) = self.late.take() {
            match steps {
                0 => self.carry_out(&step),
                _ => self.late = Some((steps - 1, step)),
            }
        }
        for machine in &mut self.machines {
            machine.silent = machine.silent.saturating_sub(1);
            machine.unheard = if machine.is_off || machine.is_cut { machine.unheard + 1 } else { 0 };
        }
        if !std::mem::take(&mut self.is_slow) {
            self.control();
        }
        for index in 0..self.pods.len() {
            self.kubelet(index);
        }
        self.pods.retain(|pod| pod.leaving != Some(0));
        for at in self.pods.iter().filter_map(|pod| pod.at).collect::<Vec<_>>() {
            self.starts(at);
        }
        self.gossip();
        self.fail_over();
        self.reconfigure();
        self.copy();
        self.write()
    }

    fn control(&mut self) {
        self.seen = self.set.clone();
        if self.revisions.last() != Some(&self.seen) {
            self.revisions.push(self.seen.clone());
        }
        let machines = &self.machines;
        self.pods.retain(|pod| pod.at.is_none_or(|at| machines[at].exists));
        for pod in self.pods.iter_mut().filter(|pod| pod.ordinal >= self.seen.replicas) {
            pod.leaving.get_or_insert(2);
        }
        // Nobody has to stop what was never put anywhere.
        self.pods.retain(|pod| pod.leaving.is_none() || pod.at.is_some());
        for ordinal in 0..self.seen.replicas {
            if self.pods.iter().all(|pod| pod.ordinal != ordinal) {
                self.uids += 1;
                self.pods.push(Pod {
                    ordinal,
                    uid: self.uids,
                    at: None,
                    template: self.seen.template,
                    revision: self.revisions.len() - 1,
                    age: 0,
                    leaving: None,
                    told: None,
                    active: None,
                    noted: None,
                    server: None,
                    sentinel: None,
                });
            }
        }
        self.pods.sort_by_key(|pod| pod.ordinal);
        for index in (0..self.pods.len()).filter(|index| self.pods[*index].at.is_none()).collect::<Vec<_>>() {
            let is_free = |at: &usize| self.is_heard(*at) && self.pod_at(*at).is_none();
            let nodes = &self.revisions[self.pods[index].revision].nodes;
            self.pods[index].at = nodes.iter().copied().find(is_free);
        }
    }

    fn kubelet(&mut self, index: usize) {
        let Some(at) = self.pods[index].at.filter(|at| self.is_heard(*at)) else { return };
        self.pods[index].age += 1;
        if let Some(left) = self.pods[index].leaving {
            // `tf-node step-down`, before the server is stopped.
            let has_gone = left == 2 && self.step_down(at, true);
            self.pods[index].leaving = Some(if has_gone { 0 } else { left - 1 });
            return;
        }
        let files = self.files;
        let content = |index: Option<usize>| index.map(|index: usize| self.contents[index].clone());
        let (told, active) = (self.pods[index].told, self.pods[index].active);
        let wants = told.or(active).or(files);
        // Only what is mounted can be taken.
        if wants != active && wants == files && content(files).is_some_and(|it| it.members.contains(&at)) {
            let (former, next) = (content(active), content(files));
            let pod = &mut self.pods[index];
            pod.active = files;
            let size = |content: &Option<Content>| content.as_ref().map(|it| (it.version, it.majority()));
            if size(&former) != size(&next) {
                pod.server = None;
            }
            pod.sentinel = None;
        }
    }

    /// The content that a pod runs with, if a server can.
    fn content(&self, pod: &Pod) -> Option<&Content> {
        let content = &self.contents[pod.active?];
        (!self.broken.contains(&pod.template) && !self.broken.contains(&content.version)).then_some(content)
    }

    fn starts(&mut self, at: usize) {
        let Some(pod) = self.pod_at(at).filter(|pod| pod.leaving.is_none() && !self.machines[at].is_off) else {
            return;
        };
        if pod.template == 0 {
            let server = Server { copies: None, linked: false, data: 0, needs: 0 };
            self.pod_at_mut(at).unwrap().server = Some(server);
            return;
        }
        let Some(content) = self.content(pod).cloned() else { return };
        let noted = pod.noted.filter(|(master, epoch)| *epoch > 0 && content.members.contains(master));
        if self.mode == RedisMode::Sentinel && pod.sentinel.is_none() {
            let (master, epoch) = noted.unwrap_or((content.members[0], 0));
            let known = content.members.iter().copied().filter(|other| *other != at).collect();
            let quorum = content.majority();
            let sentinel = Sentinel { master, epoch, known, quorum, missed: 0, settled: 0 };
            self.pod_at_mut(at).unwrap().sentinel = Some(sentinel);
        }
        if self.server(at).is_some() {
            return;
        }
        let copies = match self.mode {
            RedisMode::Independent => None,
            RedisMode::Sentinel => match self.start(at, &content) {
                Start::Copy(master) => Some(self::at(master)),
                Start::Wait(_) => return,
            },
        };
        let needs = if self.mode == RedisMode::Sentinel { content.majority() - 1 } else { 0 };
        self.pod_at_mut(at).unwrap().server = Some(Server { copies, linked: false, data: 0, needs });
    }

    /// `tf-node copy`.
    fn start(&self, own: usize, content: &Content) -> Start {
        let answers = content.members.iter().filter(|other| self.reaches(own, **other)).filter_map(|other| {
            let Sentinel { master, epoch, .. } = *self.sentinel(*other)?;
            let said = Said { master: address(master).parse().ok()?, epoch, others: None, refuses: None };
            Some((address(*other).parse().ok()?, said))
        });
        let members = content.members.iter().map(|at| address(*at).parse().unwrap()).collect();
        let replication = Replication { master: "redis1".into(), sentinel: std::num::NonZeroU16::MAX, members };
        redis::start(address(own).parse().unwrap(), &replication, &answers.collect())
    }

    /// Sentinels make themselves known to each other, with the last failover they know of.
    fn gossip(&mut self) {
        let all: Vec<(usize, usize, u64)> = self
            .pods
            .iter()
            .filter_map(|pod| Some((pod.at?, pod.sentinel.as_ref()?)))
            .map(|(at, sentinel)| (at, sentinel.master, sentinel.epoch))
            .collect();
        for (own, ..) in &all {
            let heard: Vec<_> = all.iter().filter(|(other, ..)| other != own && self.reaches(*own, *other)).collect();
            let server = |master: usize| self.server(master).filter(|server| server.copies.is_none());
            let newest = heard.iter().max_by_key(|(_, _, epoch)| *epoch).map(|(_, master, epoch)| (*master, *epoch));
            let current = self.sentinel(*own).unwrap();
            let (master, epoch) =
                newest.filter(|(_, epoch)| *epoch > current.epoch).unwrap_or((current.master, current.epoch));
            let is_there = self.reaches(*own, master) && server(master).is_some();
            let pod = self.pod_at_mut(*own).unwrap();
            pod.noted = Some((master, epoch));
            let sentinel = pod.sentinel.as_mut().unwrap();
            sentinel.known.extend(heard.iter().map(|(other, ..)| *other));
            if sentinel.master != master {
                (sentinel.missed, sentinel.settled) = (0, 0);
            }
            (sentinel.master, sentinel.epoch) = (master, epoch);
            sentinel.missed = if is_there { 0 } else { sentinel.missed + 1 };
            sentinel.settled += 1;
        }
    }

    /// Sentinels that a Sentinel reaches, itself among them.
    fn voters(&self, own: usize) -> Vec<usize> {
        let known = self.sentinel(own).map(|sentinel| sentinel.known.clone()).unwrap_or_default();
        let others = known.into_iter().chain([own]);
        others.filter(|other| self.reaches(own, *other) && self.sentinel(*other).is_some()).collect()
    }

    fn refuses(&self, own: usize) -> Option<String> {
        let sentinel = self.sentinel(own)?;
        let (usable, all) = (self.voters(own).len(), sentinel.known.len() + 1);
        (usable < sentinel.quorum || usable <= all / 2).then(|| "NOQUORUM".to_owned())
    }

    fn fail_over(&mut self) {
        let leader = self.pods.iter().filter_map(|pod| pod.at).find(|own| {
            let Some(sentinel) = self.sentinel(*own).filter(|sentinel| sentinel.missed >= MISSED) else { return false };
            let agrees = |other: &&usize| {
                let other = self.sentinel(**other);
                other.is_some_and(|other| other.master == sentinel.master && other.missed >= MISSED)
            };
            let agree = self.voters(*own).iter().filter(agrees).count();
            agree >= sentinel.quorum && self.refuses(*own).is_none()
        });
        let Some(leader) = leader else { return };
        let is_copy = |it: &usize| self.reaches(leader, *it) && self.server(*it).is_some_and(|it| it.copies.is_some());
        let copies = self.running().into_iter().filter(is_copy);
        if let Some(next) = copies.max_by_key(|it| self.server(*it).map(|server| bytes(server.data))) {
            self.promote(leader, next);
        }
    }

    /// The others hear of it at once: who leads tells them as soon as the server says that it takes writes (`sentinelForceHelloUpdateForMaster`).
    fn promote(&mut self, leader: usize, next: usize) {
        let Some(former) = self.sentinel(leader).map(|sentinel| sentinel.master) else { return };
        let voters = self.voters(leader);
        // Sentinels that forgot everything while another one was cut off could give a number that it has, too, and would never agree with it (ADR
        // 0030, "Price"): that is left out.
        self.epochs += 1;
        let epoch = self.epochs;
        for at in voters {
            let pod = self.pod_at_mut(at).unwrap();
            pod.noted = Some((next, epoch));
            let sentinel = pod.sentinel.as_mut().unwrap();
            (sentinel.master, sentinel.epoch, sentinel.missed, sentinel.settled) = (next, epoch, 0, 0);
        }
        for at in self.running().into_iter().filter(|it| self.reaches(leader, *it)).collect::<Vec<_>>() {
            let server = self.pod_at_mut(at).and_then(|pod| pod.server.as_mut()).unwrap();
            if at == next {
                (server.copies, server.linked) = (None, false);
            } else if server.copies == Some(former) {
                (server.copies, server.linked) = (Some(next), false);
            }
        }
    }

    /// A Sentinel that sees another server take writes, or one that copies another than it should, for long enough tells it whom to copy.
    fn reconfigure(&mut self) {
        let settled = |at: &usize| self.sentinel(*at).is_some_and(|it| it.missed == 0 && it.settled > 3);
        let sentinels: Vec<usize> = self.pods.iter().filter_map(|pod| pod.at).filter(settled).collect();
        for own in sentinels {
            let master = self.sentinel(own).unwrap().master;
            let others = self.running().into_iter().filter(|it| *it != master && self.reaches(own, *it));
            for other in others.collect::<Vec<_>>() {
                let server = self.pod_at_mut(other).and_then(|pod| pod.server.as_mut()).unwrap();
                if server.copies != Some(master) {
                    (server.copies, server.linked) = (Some(master), false);
                }
            }
        }
    }

    fn copy(&mut self) {
        for at in self.running() {
            let Some(master) = self.server(at).and_then(|server| server.copies) else { continue };
            let data = self.server(master).filter(|_| self.reaches(at, master)).map(|server| server.data);
            let lags = self.machines[at].lags;
            let server = self.pod_at_mut(at).and_then(|pod| pod.server.as_mut()).unwrap();
            match data {
                None => server.linked = false,
                Some(_) if lags => {}
                Some(data) => (server.data, server.linked) = (data, true),
            }
        }
    }

    /// Clients write wherever they are let, and wait for as many copies as are half of the members.
    fn write(&mut self) -> Result<(), TestCaseError> {
        if self.mode == RedisMode::Independent || !self.is_busy {
            return Ok(());
        }
        let waits = self.recorded.len() / 2;
        let mut acknowledge = Vec::new();
        for master in self.running() {
            let copies = self.linked_to(master);
            let is_master = self.server(master).is_some_and(|it| it.copies.is_none() && copies.len() >= it.needs);
            if !is_master || self.written >= Writes::BITS {
                continue;
            }
            let write = 1 << self.written;
            self.written += 1;
            let takers: Vec<usize> = copies.into_iter().filter(|it| !self.machines[*it].lags).collect();
            for at in takers.iter().chain([&master]) {
                self.pod_at_mut(*at).and_then(|pod| pod.server.as_mut()).unwrap().data |= write;
            }
            if takers.len() >= waits {
                self.acknowledged |= write;
                acknowledge.push(master);
            }
        }
        prop_assert!(acknowledge.len() < 2, "two servers acknowledge writes: {acknowledge:?} {self:#?}");
        Ok(())
    }

    /// Has another server take writes, as the agent does. Whether this one takes none. `is_stopped`: whether its own Sentinel is about to be.
    fn step_down(&mut self, own: usize, is_stopped: bool) -> bool {
        let Some(server) = self.server(own).cloned() else { return true };
        if server.copies.is_some() || self.mode == RedisMode::Independent {
            return true;
        }
        let copies = self.linked_to(own);
        if copies.is_empty() || copies.iter().any(|it| self.server(*it).is_some_and(|it| it.data != server.data)) {
            return false;
        }
        let pod = self.pod_at(own).unwrap();
        let members = pod.active.map(|active| self.contents[active].members.clone()).unwrap_or_default();
        let begins = |it: &usize| self.reaches(own, *it) && self.sentinel(*it).is_some_and(|it| it.master == own);
        let others = members.into_iter().filter(|it| *it != own);
        let Some(leader) = others.chain((!is_stopped).then_some(own)).find(begins) else { return false };
        let next = copies.into_iter().max_by_key(|it| self.server(*it).map(|server| bytes(server.data))).unwrap();
        self.promote(leader, next);
        let server = self.pod_at_mut(own).and_then(|pod| pod.server.as_mut()).unwrap();
        (server.copies, server.linked) = (Some(next), false);
        true
    }

    fn carry_out(&mut self, step: &Step) {
        let uid = &step.target().uid;
        let Some(index) = self.pods.iter().position(|pod| pod.uid.to_string() == *uid) else { return };
        let pod = &mut self.pods[index];
        match step {
            Step::Restart(_) => {
                pod.leaving.get_or_insert(2);
            }
            Step::Activate(_, wanted) => pod.told = (0..self.contents.len()).find(|it| hash(*it) == *wanted),
            Step::Ask(_, Request::Redis(change)) => {
                let Some(at) = pod.at.filter(|at| self.is_heard(*at)) else { return };
                match change {
                    Change::StepDown => {
                        self.step_down(at, false);
                    }
                    Change::Recount => self.pods[index].sentinel = None,
                }
            }
            Step::Ask(..) | Step::Renew(..) => {}
        }
    }

    fn sees(&self) -> Sight {
        let pods = self.pods.iter().map(|pod| self.observed(pod)).collect();
        let agents = self.pods.iter().filter(|pod| pod.template != 0 && pod.age > 1);
        let agent = |pod: &Pod| match pod.at.filter(|at| self.is_heard(*at) && self.machines[*at].silent == 0) {
            Some(at) => Agent::Says(Box::new(self.status(pod, at))),
            None => Agent::Silent("no answer".into()),
        };
        (pods, agents.map(|pod| (pod.uid.to_string(), agent(pod))).collect())
    }

    fn observed(&self, pod: &Pod) -> observed::Pod {
        let is_known = pod.at.is_some_and(|at| self.machines[at].unheard < UNHEARD);
        observed::Pod {
            name: format!("{SET}-{}", pod.ordinal),
            uid: pod.uid.to_string(),
            node: pod.at.map(node),
            ready: is_known && pod.server.is_some() && pod.leaving != Some(1),
            terminating: pod.leaving.is_some(),
            template: (pod.template != 0).then(|| pod.template.to_string()),
            revision: Some(pod.revision.to_string()),
            active: pod.told.map(|told| hash(told).as_str().to_owned()),
            certificate: (pod.template != 0 && pod.age > 0)
                .then(|| Certificate { not_after: jiff::Timestamp::MAX, issuer: String::new() }),
            ..observed::Pod::default()
        }
    }

    fn status(&self, pod: &Pod, at: usize) -> Status {
        let phase = if self.content(pod).is_some() { Phase::Running } else { Phase::BackOff };
        let daemon = |name: &str| {
            let active = pod.active.map(hash);
            (name.to_owned(), State { phase, active, ..State::default() })
        };
        let both = [daemon(CONTAINER), daemon(sentinel::CONTAINER)];
        let mut facts = Facts { unknown: Some("refused".into()), ..Facts::default() };
        if let Some(server) = &pod.server {
            let copies = self.linked_to(at);
            let far = |it: &usize| Some((address(*it).parse().ok()?, bytes(self.server(*it)?.data)));
            let copying = Copying {
                offset: bytes(server.data),
                linked: server.linked,
                copies: copies.iter().filter_map(far).collect(),
            };
            facts.unknown = None;
            facts.copies = server.copies.map(|master| format!("{}:6389", address(master)));
            facts.copying = (self.mode == RedisMode::Sentinel).then_some(copying);
        }
        if let Some(sentinel) = &pod.sentinel {
            let Sentinel { master, epoch, known, .. } = sentinel;
            let (others, refuses) = (Some(known.len()), self.refuses(at));
            facts.sentinel = Some(Said { master: address(*master).parse().unwrap(), epoch: *epoch, others, refuses });
        }
        Status {
            node: node(at),
            daemons: both.into_iter().take(if self.mode == RedisMode::Sentinel { 2 } else { 1 }).collect(),
            health: Some(Health::new(pod.server.is_some(), "as it is")),
            redis: Some(facts),
            ..Status::default()
        }
    }

    fn resource(&self) -> Redis {
        let other = if self.mode == RedisMode::Sentinel { RedisMode::Independent } else { RedisMode::Sentinel };
        let asked = if self.asks_other_mode { other } else { self.mode };
        let replicas = self.wanted.map(|wanted| wanted as i32);
        let mut cr = Redis::new(
            "redis1",
            RedisSpec {
                common_configuration: PodConfiguration { replicas, ..PodConfiguration::default() },
                service_configuration: RedisConfiguration { mode: Some(asked), ..RedisConfiguration::default() },
                ..RedisSpec::default()
            },
        );
        let hibernates = self.hibernates.then(|| (ANNOTATION_HIBERNATE.to_owned(), "true".to_owned()));
        cr.metadata.annotations = Some(hibernates.into_iter().collect());
        cr.metadata.namespace = Some("tf".into());
        let mut status = RedisStatus::default();
        status.contract.members.clone_from(&self.recorded);
        status.contract.initialized = Some(!self.recorded.is_empty());
        status.own.mode = (self.mode == RedisMode::Sentinel).then_some(self.mode);
        cr.status = Some(status);
        cr
    }

    fn observe(&self, (pods, agents): Sight) -> Observed<Redis> {
        let labels = BTreeMap::from([("node-role.kubernetes.io/control-plane".to_owned(), String::new())]);
        let nodes = self.machines.iter().enumerate().filter(|(_, machine)| machine.exists);
        let nodes = nodes.map(|(at, machine)| observed::Node {
            name: node(at),
            address: Some(address(at)),
            labels: labels.clone(),
            unreachable: machine.unheard >= UNHEARD,
        });
        let workload = Workload {
            name: SET.into(),
            current: self.seen == self.set,
            wanted: self.set.replicas as i32,
            revision: Some((self.revisions.len() - 1).to_string()),
            ..Workload::default()
        };
        let is_there = self.set != Set::default();
        Observed {
            nodes: Source::Known(nodes.collect()),
            pods: Source::Known(pods),
            agents,
            workloads: is_there.then(|| (SET.to_owned(), workload)).into_iter().collect(),
            ..Observed::default()
        }
    }

    /// The plan without what does not bear on the decision: objects, files and conditions.
    fn plan(&self, observed: &Observed<Redis>) -> Option<(Plan, Set, Content)> {
        let cr = self.resource();
        let Servers { ensemble, mode, .. } = servers(&cr, observed).ok()?;
        let members = ensemble.members().to_vec();
        let nodes: Vec<usize> = members.iter().map(|member| machine(&member.node)).collect();
        let replicas = if ensemble.is_asleep() { 0 } else { members.len() };
        let set = Set { replicas, template: self.template, nodes: nodes.clone() };
        // Servers on their own are told of nobody else.
        let named = if mode == RedisMode::Sentinel { nodes } else { (0..self.machines.len()).collect() };
        let content = Content { version: self.version, members: named };
        let templates = vec![(SET.to_owned(), self.template.to_string())];
        let pods = observed.pods.known().unwrap();
        let index = self.contents.iter().position(|it| *it == content).unwrap_or(self.contents.len());
        let contents = members.iter().map(|member| (member.node.clone(), hash(index))).collect();
        let mut plan = Plan {
            step: rollout::of_pods(pods, &observed.workloads, &templates).restart(),
            rollout: Some(Rollout { workloads: templates, wanted: None, selector: String::new() }),
            hibernation: if ensemble.is_asleep() { Hibernation::Asleep } else { Hibernation::Awake },
            members,
            ..Plan::default()
        };
        procedure::complete(mode, &mut plan, &cr, observed, &contents);
        hibernation::finish(&mut plan);
        Some((plan, set, content))
    }

    /// One pass of the operator. Whether there is something left to do.
    fn decides(&mut self) -> Result<bool, TestCaseError> {
        let sight = self.sees();
        let is_stale = std::mem::take(&mut self.is_stale);
        let former = std::mem::replace(&mut self.before, sight.clone());
        let writes = std::mem::replace(&mut self.writes, usize::MAX);
        let seen = if is_stale { former } else { sight };
        let Some((plan, set, content)) = self.plan(&self.observe(seen)) else { return Ok(true) };
        prop_assert!(!plan.members.is_empty());
        self.last = format!("{:?} {:?} {:?}", plan.step, plan.under_way, plan.troubles);
        let mut left = writes;
        let mut may = || left.checked_sub(1).inspect(|less| left = *less).is_some();
        if plan.members != self.recorded {
            if !may() {
                return Ok(true);
            }
            self.recorded.clone_from(&plan.members);
        }
        let index = self.contents.iter().position(|it| *it == content).unwrap_or_else(|| {
            self.contents.push(content);
            self.contents.len() - 1
        });
        let mut is_settled = true;
        if self.files != Some(index) {
            if !may() {
                return Ok(true);
            }
            (self.files, is_settled) = (Some(index), false);
        }
        if self.set != set {
            if !may() {
                return Ok(true);
            }
            (self.set, is_settled) = (set, false);
        }
        let is_idle = plan.step.is_none() && plan.under_way.is_none() && plan.troubles.is_empty();
        let Some(step) = plan.step.filter(|_| is_settled) else { return Ok(!is_settled || !is_idle) };
        if !may() {
            return Ok(true);
        }
        if !is_stale {
            self.keeps_promises(&step)?;
        }
        if !std::mem::take(&mut self.refuses) {
            match (matches!(step, Step::Ask(..)), std::mem::take(&mut self.delay)) {
                // Its answer is given up, and the operator goes on.
                (true, steps) if steps > 0 => self.late = Some((steps, step)),
                _ => self.carry_out(&step),
            }
        }
        Ok(true)
    }

    fn keeps_promises(&self, step: &Step) -> Result<(), TestCaseError> {
        let target = self.pods.iter().find(|pod| pod.uid.to_string() == step.target().uid);
        prop_assert!(target.is_some(), "a pod that is not there is touched: {step:?}");
        let target = target.unwrap();
        prop_assert!(target.leaving.is_none(), "it is deleted twice, or asked for something: {step:?}");
        let serves = |pod: &Pod| self.observed(pod).ready && pod.leaving.is_none();
        if let Step::Ask(_, Request::Redis(Change::StepDown)) = step {
            // One that was cut off takes itself for it still, and has no copies to take writes with.
            let is_master = |it: &usize| self.is_heard(*it) && self.server(*it).is_some_and(|it| it.copies.is_none());
            let masters: Vec<usize> = self.running().into_iter().filter(is_master).collect();
            prop_assert!(masters.iter().eq(&target.at), "a further server is to take writes: {masters:?} {self:#?}");
        }
        if let Step::Ask(_, Request::Redis(Change::Recount)) = step {
            let others = self.pods.iter().filter(|pod| pod.uid != target.uid);
            let all = others.clone().all(|pod| pod.sentinel.is_some());
            prop_assert!(all, "a Sentinel starts anew while another one does");
        }
        if matches!(step, Step::Ask(..)) || !serves(target) {
            return Ok(());
        }
        let others = self.pods.iter().filter(|pod| pod.uid != target.uid);
        let nodes: Vec<usize> = self.recorded.iter().map(|member| machine(&member.node)).collect();
        let is_member = target.at.is_some_and(|at| nodes.contains(&at));
        // One whose node is of no member leaves it to a member that has none.
        let free = others.clone().filter(|pod| pod.at.is_some_and(|at| !nodes.contains(&at))).count()
            + usize::from(!is_member);
        let mut away = nodes.into_iter().filter(|at| target.at != Some(*at) && !self.pod_at(*at).is_some_and(serves));
        let first = away.nth(if is_member { 0 } else { free });
        // Before one of them was made the one that takes writes there is nothing to stop.
        let is_founded = self.pods.iter().any(|pod| pod.sentinel.as_ref().is_none_or(|it| it.epoch > 0));
        prop_assert!(
            first.is_none() || !is_founded,
            "a member that serves is stopped while {first:?} is away: {step:?} {self:#?}"
        );
        if self.mode == RedisMode::Sentinel {
            let stopped = target.server.as_ref().unwrap();
            prop_assert!(stopped.copies.is_some(), "who takes writes is stopped: {step:?} {self:#?}");
            let kept = others.filter_map(|pod| pod.server.as_ref()).fold(0, |sum, server| sum | server.data);
            let lost = self.acknowledged & stopped.data & !kept;
            prop_assert!(lost == 0, "what was acknowledged goes with it: {step:?} {self:#?}");
        }
        Ok(())
    }

    /// Everything works again.
    fn heals(&mut self) {
        for machine in &mut self.machines {
            *machine = Machine { exists: machine.exists, ..Machine::default() };
        }
        let wanted = self.wanted.unwrap_or(3);
        while self.machines.iter().filter(|machine| machine.exists).count() < wanted.max(self.recorded.len()) {
            self.happens(&Event::Comes);
        }
        (self.asks_other_mode, self.hibernates, self.is_busy) = (false, false, false);
        self.template += 1;
        self.version += 1;
        (self.delay, self.refuses, self.writes, self.is_stale, self.is_slow) = (0, false, usize::MAX, false, false);
    }

    /// Whether everything is as wanted.
    fn rests(&self) -> bool {
        let matching = self.machines.iter().filter(|machine| machine.exists).count();
        let default = if self.mode == RedisMode::Sentinel { 3 } else { matching };
        let members: BTreeSet<usize> = self.recorded.iter().map(|member| machine(&member.node)).collect();
        let pods: BTreeSet<usize> = self.pods.iter().filter_map(|pod| pod.at).collect();
        let is_current = |pod: &Pod| {
            let told = pod.told.is_none_or(|told| Some(told) == self.files);
            pod.template == self.template && pod.active == self.files && told && pod.leaving.is_none()
        };
        let current = self.pods.len() == members.len() && self.pods.iter().all(is_current);
        members.len() == self.wanted.unwrap_or(default)
            && members == pods
            && current
            && self.running().len() == members.len()
            && (self.mode == RedisMode::Independent || self.agrees(&members))
    }

    /// Whether servers and Sentinels are of one mind.
    fn agrees(&self, members: &BTreeSet<usize>) -> bool {
        let masters: BTreeSet<Option<usize>> = members.iter().map(|at| Some(self.sentinel(*at)?.master)).collect();
        let [Some(master)] = masters.into_iter().collect::<Vec<_>>()[..] else { return false };
        let Some(all) = self.server(master).filter(|server| server.copies.is_none()) else { return false };
        members.iter().all(|at| {
            let (Some(server), Some(sentinel)) = (self.server(*at), self.sentinel(*at)) else { return false };
            let copies = *at == master || server.copies == Some(master) && server.linked && server.data == all.data;
            copies && sentinel.known.len() + 1 == members.len()
        })
    }

    fn keeps_what_was_acknowledged(&self) -> Result<(), TestCaseError> {
        let lost = self.acknowledged & !self.kept();
        prop_assert!(lost == 0, "acknowledged and lost: {lost:b} {self:#?}");
        Ok(())
    }
}

fn event() -> impl Strategy<Value = Event> {
    let at = || 0_usize..16;
    prop_oneof![
        2 => (0_usize..8).prop_map(Event::Wanted),
        2 => prop::bool::weighted(0.2).prop_map(Event::Template),
        3 => prop::bool::weighted(0.2).prop_map(Event::Configuration),
        1 => Just(Event::Mode),
        1 => Just(Event::Hibernate),
        1 => at().prop_map(Event::Dies),
        1 => Just(Event::Comes),
        1 => at().prop_map(Event::Power),
        1 => at().prop_map(Event::Cut),
        2 => at().prop_map(Event::Ends),
        2 => at().prop_map(Event::SentinelEnds),
        1 => at().prop_map(Event::PodDeleted),
        2 => at().prop_map(Event::Lags),
        2 => (at(), 1_usize..5).prop_map(|(index, steps)| Event::Silent(index, steps)),
        2 => (1_usize..6).prop_map(Event::Late),
        1 => Just(Event::Refused),
        1 => (0_usize..4).prop_map(Event::Killed),
        1 => Just(Event::Stale),
        1 => Just(Event::Slow),
        16 => Just(Event::Nothing),
    ]
}

fn walk(mut world: World, events: &[Event], is_calm: bool) -> Result<(), TestCaseError> {
    for event in events.iter().filter(|event| !is_calm || !event.is_grave()) {
        world.happens(event);
        world.goes_on()?;
        world.decides()?;
        if is_calm {
            world.keeps_what_was_acknowledged()?;
        }
    }
    world.heals();
    for _ in 0..PATIENCE {
        world.goes_on()?;
        let has_more = world.decides()?;
        if is_calm {
            world.keeps_what_was_acknowledged()?;
        }
        if !has_more && world.rests() {
            world.goes_on()?;
            prop_assert!(!world.decides()?, "it is not silent: {}", world.last);
            return Ok(());
        }
    }
    prop_assert!(false, "it is not as wished: {world:#?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: WALKS, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_no_second_server_is_stopped_and_in_the_end_all_are_as_wished(
        machines in 1_usize..6, wanted in prop::option::of(1_usize..6), is_taken_over: bool,
        events in prop::collection::vec(event(), DISTURBANCES),
    ) {
        let world = World::new(RedisMode::Independent, machines, wanted);
        let mut world = if is_taken_over { world.taken_over() } else { world };
        // Who is taken over has to be somewhere.
        world.goes_on()?;
        world.decides()?;
        walk(world, &events, false)?;
    }

    /// Of calm walks nothing is lost that was acknowledged.
    #[test]
    fn whatever_happens_one_server_takes_writes_and_in_the_end_the_others_copy_it(
        machines in 3_usize..8, wanted in prop::sample::select(vec![None, Some(3), Some(5), Some(7)]), is_calm: bool,
        events in prop::collection::vec(event(), DISTURBANCES),
    ) {
        walk(World::new(RedisMode::Sentinel, machines, wanted), &events, is_calm)?;
    }
}
