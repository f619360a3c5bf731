//! A model of a cluster and of everything that happens to it, and the decisions walking through it.
//!
//! The model plays RabbitMQ (who is in the cluster, who has which data, a queue with mirrors and a quorum queue), clients that consume, the node agents,
//! the StatefulSet controller and the scheduler (pods by ordinal, on the nodes of the members) and the world: nodes die or match no longer, disks are
//! emptied, servers end, requests are carried out late, images and configurations are good or broken, the operator is killed between two writes, people
//! change their minds. After each step the promises are checked; at the end the world rests, and the wish has to come true.

mod clients;
mod cluster;
mod promises;
mod servers;
mod sight;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tf_agent_api::{
    rabbitmq::{Facts, Membership, Queues, Unmirrored},
    state::{Health, State, Status},
};
use tf_api::{
    Rabbitmq, RabbitmqSpec, common::PodConfiguration, contract::MemberStatus, kinds::RabbitmqStatus,
    names::ANNOTATION_HIBERNATE,
};
use tf_plan::{
    hibernation,
    observed::{self, Agent, Observed, Source},
    plan::Plan,
    resize::Record,
    step::{Request, Step},
};
use tf_testing::{
    model::{Late, Pod, Server, Spec, StatefulSet, WritesLeft, hash, machine, node, numbered},
    model_runs,
};

use self::clients::{Client, Memory};
use crate::{
    pinned::PinnedFiles,
    plan::{CONTAINER, Members, members, prepare},
    procedure,
};

const DISTURBANCES: usize = 40;
/// Steps after which an undisturbed cluster is as wanted.
const PATIENCE: usize = 300;
/// About 100,000 states. Every second walk begins with a cluster that was taken over.
const WALKS: u32 = 1200;
const SET: &str = "rabbitmq1-rabbitmq-statefulset";
const DOMAIN: &str = "cluster.local";
/// Members of a quorum queue.
const GROUP: usize = 3;

#[derive(Clone, Debug, Default)]
struct Machine {
    exists: bool,
    /// It lost the label by which nodes are chosen.
    is_unfit: bool,
    server: Server,
    /// When it was stopped: it is away for a step at least.
    stopped: usize,
    /// It began to leave, and runs.
    drained: bool,
    /// The cluster as it is on the disk.
    data: Option<BTreeSet<usize>>,
    /// The member that it is of.
    owner: Option<u32>,
    /// The release whose feature flags it had enabled.
    flags: Option<usize>,
    /// Steps until its mirrors have what the others have.
    copies: usize,
}

/// A configuration: one of servers, with the members that are named in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    version: usize,
    members: Vec<(u32, usize)>,
}

impl Content {
    /// Who the member on this node is.
    fn member(&self, at: usize) -> Option<u32> {
        self.members.iter().find(|(_, node)| *node == at).map(|(id, _)| *id)
    }
}

/// What is the matter with an image or a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// No server starts with it.
    Server,
    /// It cannot be had, so that there is no agent, either.
    Image,
}

#[derive(Clone, Debug)]
enum Event {
    Wanted(usize),
    Template(Fault),
    Configuration(bool),
    /// Image and configuration are those again that all were good with.
    SetBack,
    Hibernate,
    Dies(usize),
    Comes,
    Label(usize),
    Ends(usize),
    EmptyDisk(usize),
    PodDeleted(usize),
    /// A client finds another server after so many steps.
    Slow(usize),
    /// A client is stopped for good, or started again.
    Client(usize),
    /// Mirrors of servers that start lack something for so many steps.
    Copies(usize),
    /// The policy of mirrors is deleted.
    PolicyGone,
    /// What was asked for is carried out when some steps more have passed.
    Late(usize),
    /// The next one that leaves is cut short.
    CutShort,
    /// The operator is killed after so many writes.
    Killed(usize),
    /// Controllers and kubelets do nothing for so many steps.
    Busy(usize),
    Nothing,
}

impl Event {
    /// Whether messages can be lost by it, whatever the operator does.
    fn is_grave(&self) -> bool {
        matches!(self, Self::Dies(_) | Self::EmptyDisk(_))
    }
}

#[derive(Debug)]
struct World {
    machines: Vec<Machine>,
    wanted: usize,
    hibernates: bool,
    template: usize,
    version: usize,
    /// Those that servers run with, the newest ones.
    good: (usize, usize),
    /// Templates and configurations that no server can run with.
    broken: BTreeMap<usize, Fault>,
    latest: usize,
    record: Record,
    set: StatefulSet,
    contents: Vec<Content>,
    /// The configuration that is mounted.
    files: Option<usize>,
    /// Who is in the cluster, as its servers have it.
    cluster: BTreeSet<usize>,
    /// How often a cluster was founded.
    founded: usize,
    late: Late,
    is_cut_short: bool,
    writes: WritesLeft,
    busy: usize,
    time: usize,
    clients: [Client; 2],
    slowness: usize,
    /// By the uids of their pods.
    memories: BTreeMap<u32, Memory>,
    /// Members of a quorum queue, once it is declared.
    queue: BTreeSet<usize>,
    /// Whether somebody uses one.
    has_quorum_queue: bool,
    /// Queues that were lost with a majority of their members.
    lost: usize,
    copying: usize,
    has_policy: bool,
    last: String,
}

fn name(at: usize) -> String {
    format!("rabbit@{}.{DOMAIN}", node(at))
}

fn named(name: &str) -> usize {
    machine(name.trim_start_matches("rabbit@").trim_end_matches(&format!(".{DOMAIN}")))
}

fn address(at: usize) -> String {
    format!("10.0.0.{}", at + 1)
}

impl World {
    fn new(machines: usize, wanted: usize) -> Self {
        Self {
            machines: vec![Machine { exists: true, ..Machine::default() }; machines],
            wanted,
            hibernates: false,
            template: 1,
            version: 2,
            good: (1, 2),
            broken: BTreeMap::new(),
            latest: 2,
            record: Record::default(),
            set: StatefulSet::new(SET, Spec::default()),
            contents: Vec::new(),
            files: None,
            cluster: BTreeSet::new(),
            founded: 0,
            late: Late::default(),
            is_cut_short: false,
            writes: WritesLeft::default(),
            busy: 0,
            time: 0,
            clients: Default::default(),
            slowness: 0,
            memories: BTreeMap::new(),
            queue: BTreeSet::new(),
            has_quorum_queue: true,
            lost: 0,
            copying: 0,
            has_policy: true,
            last: String::new(),
        }
    }

    /// A cluster that another operator founded, on all machines, when its last pod has just been replaced: of any size, and with members in
    /// another order than their nodes.
    fn taken_over(mut self) -> Self {
        self.cluster = (0..self.machines.len()).collect();
        (self.founded, self.files) = (1, Some(0));
        let nodes: Vec<usize> = (0..self.machines.len()).rev().collect();
        for (id, at) in (1..).zip(nodes.iter().copied()) {
            self.record.members.push(MemberStatus { id, node: node(at), address: address(at) });
            self.record.highest = id;
            let data = Some(self.cluster.clone());
            self.machines[at] =
                Machine { exists: true, server: Server::Running, data, owner: Some(id), ..Machine::default() };
        }
        self.contents = vec![Content { version: self.version, members: (1..).zip(nodes.iter().copied()).collect() }];
        self.set = StatefulSet::new(SET, Spec { replicas: nodes.len(), template: self.template, nodes });
        self.control();
        for pod in &mut self.set.pods {
            (pod.age, pod.active) = (2, self.files);
        }
        self.queue = (0..self.machines.len()).take(GROUP).collect();
        self
    }

    /// Another template or configuration.
    fn anew(&mut self, fault: Fault) -> usize {
        self.latest += 1;
        if fault != Fault::None {
            self.broken.insert(self.latest, fault);
        }
        self.latest
    }

    fn happens(&mut self, event: &Event) {
        let count = self.machines.len();
        let some = |index: &usize| index % count;
        match event {
            Event::Wanted(wanted) => self.wanted = *wanted,
            Event::Template(fault) => self.template = self.anew(*fault),
            Event::Configuration(breaks) => self.version = self.anew(if *breaks { Fault::Server } else { Fault::None }),
            Event::SetBack => (self.template, self.version) = self.good,
            Event::Hibernate => self.hibernates ^= true,
            Event::Dies(index) => {
                if self.others_have_it(some(index)) {
                    self.machines[some(index)] = Machine::default();
                    self.set.pods.retain(|pod| pod.at != Some(some(index)));
                }
            }
            Event::Comes => self.machines.push(Machine { exists: true, ..Machine::default() }),
            Event::Label(index) => self.machines[some(index)].is_unfit ^= true,
            Event::Ends(index) => self.stop(some(index)),
            Event::EmptyDisk(index) => {
                if self.others_have_it(some(index)) {
                    self.stop(some(index));
                    let machine = &mut self.machines[some(index)];
                    (machine.data, machine.owner, machine.flags) = (None, None, None);
                }
            }
            Event::PodDeleted(index) => self.set.delete_any(*index),
            Event::Slow(steps) => self.slowness = *steps,
            Event::Client(index) => self.clients[*index].stopped ^= true,
            Event::Copies(steps) => self.copying = *steps,
            Event::PolicyGone => self.has_policy = false,
            Event::Late(steps) => self.late.delay(*steps),
            Event::CutShort => self.is_cut_short = true,
            Event::Killed(writes) => self.writes = WritesLeft(*writes),
            Event::Busy(steps) => self.busy = *steps,
            Event::Nothing => {}
        }
    }

    /// Whether somebody else has the data: what is lost with everybody is nobody's to bring back.
    fn others_have_it(&self, but: usize) -> bool {
        let others = |is_one: &dyn Fn(usize) -> bool| (0..self.machines.len()).any(|at| at != but && is_one(at));
        let is_asleep = self.set.pods.is_empty() && self.set.seen.replicas == 0;
        others(&|at| self.runs(at)) || is_asleep && others(&|at| self.holds(at))
    }

    /// What controllers, kubelets, agents, servers and clients do.
    fn goes_on(&mut self) -> Result<(), TestCaseError> {
        if let Some(step) = self.late.due() {
            self.carry_out(&step);
        }
        if self.busy == 0 {
            self.control();
            for index in 0..self.set.pods.len() {
                self.kubelet(index);
            }
            self.set.pods.retain(|pod| pod.leaving != Some(0));
        }
        self.busy = self.busy.saturating_sub(1);
        self.servers_go_on()?;
        self.clients_go_on();
        Ok(())
    }

    /// One pass of the operator. Whether there is something left to do.
    fn decides(&mut self) -> Result<bool, TestCaseError> {
        let mut writes = std::mem::take(&mut self.writes);
        let Some((plan, record, spec, content)) = self.plan(&self.observe()) else { return Ok(true) };
        self.last = format!("{:?} {:?} {:?}", plan.step, plan.under_way, plan.troubles);
        self.keeps_record(&record)?;
        let Some(is_recorded) = writes.write(&mut self.record, record) else { return Ok(true) };
        let index = numbered(&mut self.contents, content);
        let Some(is_mounted) = writes.write(&mut self.files, Some(index)) else { return Ok(true) };
        let Some(is_applied) = writes.write(&mut self.set.spec, spec) else { return Ok(true) };
        let is_settled = !is_mounted && !is_applied;
        let is_idle = plan.step.is_none() && plan.under_way.is_none() && plan.troubles.is_empty();
        // A step rests on what is there, and is taken in the pass that records what it rests on.
        let Some(step) = plan.step.filter(|_| is_settled) else { return Ok(is_recorded || !is_settled || !is_idle) };
        let Some(()) = writes.spend() else { return Ok(true) };
        self.keeps_promises(&step)?;
        if let Some(step) = self.late.ask(step) {
            self.carry_out(&step);
        }
        Ok(true)
    }

    /// Everything works again. `is_set_back`: with the image and the configuration that were good before.
    fn heals(&mut self, is_set_back: bool) {
        for machine in &mut self.machines {
            machine.is_unfit = false;
        }
        while self.machines.iter().filter(|machine| machine.exists).count() < self.wanted.max(self.record.members.len())
        {
            self.happens(&Event::Comes);
        }
        if is_set_back {
            self.happens(&Event::SetBack);
        } else {
            self.good = (self.anew(Fault::None), self.anew(Fault::None));
            (self.template, self.version) = self.good;
        }
        (self.hibernates, self.writes, self.busy) = (false, WritesLeft::default(), 0);
        self.late.heal();
    }
}

fn event() -> impl Strategy<Value = Event> {
    let at = || 0_usize..16;
    let fault = || prop_oneof![6 => Just(Fault::None), 1 => Just(Fault::Server), 1 => Just(Fault::Image)];
    prop_oneof![
        2 => (1_usize..6).prop_map(Event::Wanted),
        2 => fault().prop_map(Event::Template),
        2 => prop::bool::weighted(0.2).prop_map(Event::Configuration),
        1 => Just(Event::SetBack),
        1 => prop::bool::weighted(0.5).prop_map(|it| if it { Event::Hibernate } else { Event::Nothing }),
        1 => at().prop_map(Event::Dies),
        1 => Just(Event::Comes),
        1 => at().prop_map(Event::Label),
        2 => at().prop_map(Event::Ends),
        1 => at().prop_map(Event::EmptyDisk),
        1 => at().prop_map(Event::PodDeleted),
        2 => (1_usize..6).prop_map(Event::Late),
        1 => Just(Event::CutShort),
        1 => (0_usize..10).prop_map(Event::Slow),
        1 => (0_usize..2).prop_map(Event::Client),
        1 => (0_usize..5).prop_map(Event::Copies),
        1 => Just(Event::PolicyGone),
        1 => (0_usize..4).prop_map(Event::Killed),
        1 => (1_usize..4).prop_map(Event::Busy),
        16 => Just(Event::Nothing),
    ]
}

proptest! {
    #![proptest_config(model_runs::same(WALKS))]

    /// In calm walks no disk is lost, and no message.
    #[test]
    fn whatever_happens_nothing_is_lost_and_in_the_end_the_cluster_is_as_wished(
        machines in 1_usize..6, wanted in 1_usize..6, is_taken_over: bool, is_calm: bool, is_set_back: bool,
        events in prop::collection::vec(event(), DISTURBANCES),
    ) {
        let world = World::new(machines, wanted);
        let mut world = if is_taken_over { world.taken_over() } else { world };
        for event in events.iter().filter(|event| !is_calm || !event.is_grave()) {
            world.happens(event);
            world.goes_on()?;
            world.decides()?;
            prop_assert!(!is_calm || world.lost == 0, "a quorum queue is lost: {world:#?}");
        }
        world.heals(is_set_back);
        for step in 0..PATIENCE {
            world.goes_on()?;
            let has_more = world.decides()?;
            prop_assert!(!is_calm || world.lost == 0, "a quorum queue is lost: {world:#?}");
            if world.rests() && !has_more {
                world.goes_on()?;
                prop_assert!(!world.decides()?, "it is not silent: {}", world.last);
                return Ok(());
            }
            if step == PATIENCE / 2 {
                prop_assert!(has_more, "it does not say what it waits for: {world:#?}");
                if world.is_for_people() {
                    return Ok(());
                }
                world.gives_up_quorum_queue();
            }
        }
        prop_assert!(false, "it is not as wished: {} {world:#?}", world.last);
    }
}
