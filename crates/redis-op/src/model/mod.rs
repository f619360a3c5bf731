//! A model of Redis servers and of everything that happens to them, and the decisions walking through it.
//!
//! The model plays servers (who copies whom, what each has), Sentinels (whom they know, elections by more than half), the node agents with
//! what they ask and tell, the StatefulSet controller and the scheduler, and the world: servers and Sentinels end, nodes die, lose their power
//! or are cut off, copies lag, requests are refused or carried out late, the operator is killed between two writes or sees what was a moment
//! ago, people change their minds. After each step the promises are checked; at the end the world rests, and the wish has to come true.

mod cluster;
mod promises;
mod servers;
mod sight;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tf_agent_api::{
    redis::{self, Change, Copying, Facts, Replication, Sentinel as Said, Start},
    state::{Health, Phase, State, Status},
};
use tf_api::{
    Redis, RedisConfiguration, RedisSpec,
    common::PodConfiguration,
    contract::MemberStatus,
    kinds::{RedisMode, RedisStatus},
    names::ANNOTATION_HIBERNATE,
};
use tf_plan::{
    hibernation,
    observed::{self, Agent, Observed, Source},
    plan::Plan,
    step::{Request, Step},
};
use tf_testing::{
    model::{self, Late, Spec, StatefulSet, WritesLeft, hash, machine, node, numbered},
    model_runs,
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

impl Machine {
    fn is_heard(&self) -> bool {
        self.exists && !self.is_off && !self.is_cut
    }
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
    version: usize,
    members: Vec<usize>,
}

impl Content {
    fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }
}

/// What runs in a pod, and what its Sentinel noted.
#[derive(Clone, Debug, Default)]
struct Processes {
    noted: Option<(usize, u64)>,
    server: Option<Server>,
    sentinel: Option<Sentinel>,
}

type Pod = model::Pod<Processes>;

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
    wanted: Option<usize>,
    asks_other_mode: bool,
    hibernates: bool,
    template: usize,
    version: usize,
    /// Templates and configurations that no server can run with.
    broken: BTreeSet<usize>,
    recorded: Vec<MemberStatus>,
    set: StatefulSet<Processes>,
    contents: Vec<Content>,
    /// The configuration that is mounted.
    files: Option<usize>,
    /// Failovers that were.
    epochs: u64,
    late: Late,
    refuses: bool,
    writes: WritesLeft,
    is_stale: bool,
    is_slow: bool,
    before: Sight,
    /// Whether clients write.
    is_busy: bool,
    written: u32,
    acknowledged: Writes,
    last: String,
}

fn address(at: usize) -> String {
    format!("10.0.0.{}", at + 1)
}

fn at(address: std::net::IpAddr) -> usize {
    address.to_string().trim_start_matches("10.0.0.").parse::<usize>().unwrap() - 1
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
            wanted,
            asks_other_mode: false,
            hibernates: false,
            template: 1,
            version: 1_000,
            broken: BTreeSet::new(),
            recorded: Vec::new(),
            set: StatefulSet::new(SET, Spec::default()),
            contents: Vec::new(),
            files: None,
            epochs: 0,
            late: Late::default(),
            refuses: false,
            writes: WritesLeft::default(),
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
        self.set = StatefulSet::new(SET, Spec { replicas: nodes.len(), template: 0, nodes });
        self
    }

    fn is_heard(&self, at: usize) -> bool {
        self.machines[at].is_heard()
    }

    fn reaches(&self, one: usize, other: usize) -> bool {
        one == other || self.is_heard(one) && self.is_heard(other)
    }

    fn server(&self, at: usize) -> Option<&Server> {
        self.set.pod_at(at)?.own.server.as_ref()
    }

    fn server_mut(&mut self, at: usize) -> Option<&mut Server> {
        self.set.pod_at_mut(at)?.own.server.as_mut()
    }

    fn sentinel(&self, at: usize) -> Option<&Sentinel> {
        self.set.pod_at(at)?.own.sentinel.as_ref()
    }

    /// Machines on which a server runs.
    fn running(&self) -> Vec<usize> {
        self.set.pods.iter().filter(|pod| pod.own.server.is_some()).filter_map(|pod| pod.at).collect()
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
        self.set.pods.iter().filter_map(|pod| pod.own.server.as_ref()).fold(0, |sum, server| sum | server.data)
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
                self.set.pods.retain(|pod| pod.at != Some(some(index)));
            }
            Event::Comes => self.machines.push(Machine { exists: true, ..Machine::default() }),
            Event::Power(index) => {
                let at = some(index);
                self.machines[at].is_off = !self.machines[at].is_off;
                if let Some(pod) = self.set.pod_at_mut(at) {
                    pod.own = Processes::default();
                }
            }
            Event::Cut(index) => self.machines[some(index)].is_cut = !self.machines[some(index)].is_cut,
            Event::Ends(index) => {
                if let Some(pod) = self.set.pod_at_mut(some(index)) {
                    pod.own.server = None;
                }
            }
            Event::SentinelEnds(index) => {
                if let Some(pod) = self.set.pod_at_mut(some(index)) {
                    pod.own.sentinel = None;
                }
            }
            Event::PodDeleted(index) => self.set.delete_any(*index),
            Event::Lags(index) => self.machines[some(index)].lags = !self.machines[some(index)].lags,
            Event::Silent(index, steps) => self.machines[some(index)].silent = *steps,
            Event::Late(steps) => self.late.delay(*steps),
            Event::Refused => self.refuses = true,
            Event::Killed(writes) => self.writes = WritesLeft(*writes),
            Event::Stale => self.is_stale = true,
            Event::Slow => self.is_slow = true,
            Event::Nothing => {}
        }
    }

    /// What controllers, kubelets, agents, servers and Sentinels do.
    fn goes_on(&mut self) -> Result<(), TestCaseError> {
        if let Some(step) = self.late.due() {
            self.carry_out(&step);
        }
        for machine in &mut self.machines {
            machine.silent = machine.silent.saturating_sub(1);
            machine.unheard = if machine.is_off || machine.is_cut { machine.unheard + 1 } else { 0 };
        }
        if !std::mem::take(&mut self.is_slow) {
            self.control();
        }
        for index in 0..self.set.pods.len() {
            self.kubelet(index);
        }
        self.set.pods.retain(|pod| pod.leaving != Some(0));
        for at in self.set.nodes().collect::<Vec<_>>() {
            self.starts(at);
        }
        self.gossip();
        self.fail_over();
        self.reconfigure();
        self.copy();
        self.write()
    }

    fn carry_out(&mut self, step: &Step) {
        let Some((index, Request::Redis(change))) = self.set.carry_out(step) else { return };
        let Some(at) = self.set.pods[index].at.filter(|at| self.is_heard(*at)) else { return };
        match change {
            Change::StepDown => {
                self.step_down(at, false);
            }
            Change::Recount => self.set.pods[index].own.sentinel = None,
        }
    }

    /// One pass of the operator. Whether there is something left to do.
    fn decides(&mut self) -> Result<bool, TestCaseError> {
        let sight = self.sees();
        let is_stale = std::mem::take(&mut self.is_stale);
        let former = std::mem::replace(&mut self.before, sight.clone());
        let mut writes = std::mem::take(&mut self.writes);
        let seen = if is_stale { former } else { sight };
        let Some((plan, spec, content)) = self.plan(&self.observe(seen)) else { return Ok(true) };
        prop_assert!(!plan.members.is_empty());
        self.last = format!("{:?} {:?} {:?}", plan.step, plan.under_way, plan.troubles);
        let Some(_) = writes.write(&mut self.recorded, plan.members) else { return Ok(true) };
        let index = numbered(&mut self.contents, content);
        let Some(is_mounted) = writes.write(&mut self.files, Some(index)) else { return Ok(true) };
        let Some(is_applied) = writes.write(&mut self.set.spec, spec) else { return Ok(true) };
        let is_settled = !is_mounted && !is_applied;
        let is_idle = plan.step.is_none() && plan.under_way.is_none() && plan.troubles.is_empty();
        let Some(step) = plan.step.filter(|_| is_settled) else { return Ok(!is_settled || !is_idle) };
        let Some(()) = writes.spend() else { return Ok(true) };
        if !is_stale {
            self.keeps_promises(&step)?;
        }
        if !std::mem::take(&mut self.refuses)
            && let Some(step) = self.late.ask(step)
        {
            self.carry_out(&step);
        }
        Ok(true)
    }

    /// Everything works again. `is_scarce`: there are no more machines than members need that are there.
    fn heals(&mut self, is_scarce: bool) {
        for machine in &mut self.machines {
            *machine = Machine { exists: machine.exists, ..Machine::default() };
        }
        let wanted = if is_scarce { 3 } else { self.wanted.unwrap_or(3) };
        while self.machines.iter().filter(|machine| machine.exists).count() < wanted.max(self.recorded.len()) {
            self.happens(&Event::Comes);
        }
        (self.asks_other_mode, self.hibernates, self.is_busy) = (false, false, false);
        self.template += 1;
        self.version += 1;
        self.late.heal();
        (self.refuses, self.writes, self.is_stale, self.is_slow) = (false, WritesLeft::default(), false, false);
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

fn walk(mut world: World, events: &[Event], is_calm: bool, is_scarce: bool) -> Result<(), TestCaseError> {
    for event in events.iter().filter(|event| !is_calm || !event.is_grave()) {
        world.happens(event);
        world.goes_on()?;
        world.decides()?;
        if is_calm {
            world.keeps_what_was_acknowledged()?;
        }
    }
    world.heals(is_scarce);
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
    #![proptest_config(model_runs::same(WALKS))]

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
        walk(world, &events, false, false)?;
    }

    /// Of calm walks nothing is lost that was acknowledged.
    #[test]
    fn whatever_happens_one_server_takes_writes_and_in_the_end_the_others_copy_it(
        machines in 3_usize..8, wanted in prop::sample::select(vec![None, Some(3), Some(5), Some(7)]), is_calm: bool,
        is_scarce: bool, events in prop::collection::vec(event(), DISTURBANCES),
    ) {
        walk(World::new(RedisMode::Sentinel, machines, wanted), &events, is_calm, is_scarce)?;
    }
}
