//! A model of a cluster and of everything that happens to it, and the decision walking through it.
//!
//! The model plays RabbitMQ (who is in the cluster, who has which data, a quorum queue), clients that consume, the node agents, the StatefulSet controller and the scheduler (pods by
//! ordinal, on the nodes of the members) and the world (nodes die, disks are emptied, servers end, requests are carried out late, people
//! change their minds). After each step the promises are checked; at the end the world rests, and the wish has to come true.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tf_plan::{
    members::{Identities, Joining, Leaving, SizeRule, Wish, choose},
    node::{
        rabbitmq::{Facts, Queues},
        state::Status,
    },
    observed,
    placement::Placement,
    reports::Reports,
};
use tf_testing::{
    model::{Late, Placed, Pods, Server, machine, node},
    walks,
};

use super::*;
use crate::plan::CONTAINER;

const DISTURBANCES: usize = 40;
/// Steps after which an undisturbed cluster is as wanted.
const PATIENCE: usize = 80;
/// About 100,000 states. Every second walk begins with a cluster that was taken over.
const WALKS: u32 = 1500;
/// Steps for which consumers are waited for when a server came or went.
const LONGEST: usize = 6;
/// Members of a quorum queue.
const GROUP: usize = 3;

#[derive(Clone, Debug, Default)]
struct Machine {
    exists: bool,
    server: Server,
    /// It began to leave, and runs.
    drained: bool,
    /// The cluster as it is on the disk.
    data: Option<BTreeSet<usize>>,
    /// The member that it is of.
    owner: Option<u32>,
}

#[derive(Clone, Debug)]
enum Event {
    Wanted(usize),
    Dies(usize),
    Comes,
    Ends(usize),
    EmptyDisk(usize),
    PodDeleted(usize),
    /// A client finds another server after so many steps.
    Slow(usize),
    /// A client is stopped for good, or started again.
    Client(usize),
    /// What was asked for is carried out when some steps more have passed.
    Late(usize),
    /// The next one that leaves is cut short.
    CutShort,
    Nothing,
}

/// A client, which consumes from a queue with mirrors.
#[derive(Clone, Debug, Default)]
struct Client {
    stopped: bool,
    /// The server that it is connected to.
    on: Option<usize>,
    /// When it lost its server.
    lost: usize,
    /// Steps until it finds another one.
    away: usize,
}

/// What an agent remembers of queues (`tf_node::store::rabbitmq::queues`).
#[derive(Clone, Debug)]
struct Memory {
    nodes: Vec<(usize, bool)>,
    /// When the agent began, and when nodes changed.
    begun: usize,
    changed: usize,
    consumed: BTreeSet<usize>,
    deserted: BTreeSet<usize>,
}

#[derive(Debug)]
struct World {
    machines: Vec<Machine>,
    wanted: usize,
    record: Record,
    pods: Pods,
    /// Who is in the cluster, as its servers have it.
    cluster: BTreeSet<usize>,
    late: Late,
    is_cut_short: bool,
    time: usize,
    clients: [Client; 2],
    slowness: usize,
    /// By the uids of their pods.
    memories: BTreeMap<u32, Memory>,
    /// Members of a quorum queue, once it is declared.
    queue: BTreeSet<usize>,
}

fn name(at: usize) -> String {
    format!("rabbit@{}", node(at))
}

fn named(name: &str) -> usize {
    machine(name.trim_start_matches("rabbit@"))
}

impl World {
    fn new(machines: usize, wanted: usize) -> Self {
        Self {
            machines: vec![Machine { exists: true, ..Machine::default() }; machines],
            wanted,
            record: Record::default(),
            pods: Pods::default(),
            cluster: BTreeSet::new(),
            late: Late::default(),
            is_cut_short: false,
            time: 0,
            clients: Default::default(),
            slowness: 0,
            memories: BTreeMap::new(),
            queue: BTreeSet::new(),
        }
    }

    /// A cluster that another operator founded, on all machines, when its last pod has just been replaced: of any size, and with members in
    /// another order than their nodes.
    fn taken_over(mut self) -> Self {
        self.cluster = (0..self.machines.len()).collect();
        for (id, at) in (1..).zip((0..self.machines.len()).rev()) {
            self.pods.add(at);
            self.record.members.push(MemberStatus { id, node: node(at), address: format!("10.0.0.{at}") });
            self.record.highest = id;
            let data = Some(self.cluster.clone());
            self.machines[at] =
                Machine { exists: true, server: Server::Running, data, owner: Some(id), drained: false };
        }
        self.queue = (0..self.machines.len()).take(GROUP).collect();
        self
    }

    fn happens(&mut self, event: &Event) {
        let some = |index: usize, world: &Self| index % world.machines.len();
        match event {
            Event::Wanted(wanted) => self.wanted = *wanted,
            Event::Dies(index) => {
                let index = some(*index, self);
                if self.others_run(index) {
                    self.machines[index] = Machine::default();
                    self.pods.lose(index);
                }
            }
            Event::Comes => self.machines.push(Machine { exists: true, ..Machine::default() }),
            Event::Ends(index) => {
                let index = some(*index, self);
                self.machines[index].server = Server::Off;
            }
            Event::EmptyDisk(index) => {
                let index = some(*index, self);
                if self.others_run(index) {
                    (self.machines[index].server, self.machines[index].data) = (Server::Off, None);
                }
            }
            Event::PodDeleted(ordinal) => self.end_pod(*ordinal),
            Event::Slow(steps) => self.slowness = *steps,
            Event::Client(index) => self.clients[*index].stopped ^= true,
            Event::Late(steps) => self.late.delay(*steps),
            Event::CutShort => self.is_cut_short = true,
            Event::Nothing => {}
        }
    }

    /// Whether somebody else has the data: what is lost with everybody is nobody's to bring back.
    fn others_run(&self, but: usize) -> bool {
        (0..self.machines.len()).any(|at| at != but && self.runs(at))
    }

    fn end_pod(&mut self, ordinal: usize) {
        if let Some(at) = self.pods.end(ordinal) {
            self.machines[at].server = Server::Off;
        }
    }

    /// What controllers, kubelets and servers do.
    fn goes_on(&mut self) {
        if let Some(step) = self.late.due() {
            self.carry_out(&step);
        }
        for at in self.pods.resize(self.record.members.len()) {
            self.machines[at].server = Server::Off;
        }
        // The roll-out moves a pod whose node carries no member any more.
        let is_misplaced = |pod: &Placed| self.record.members.iter().all(|member| machine(&member.node) != pod.at);
        let misplaced = self.pods.iter().find(is_misplaced);
        if let Some(Placed { at, .. }) = misplaced {
            self.pods.lose(at);
            self.machines[at].server = Server::Off;
        }
        self.pods.place(&self.record.members, |at| self.machines[at].exists);
        for Placed { at, .. } in self.pods.iter().collect::<Vec<_>>() {
            if matches!(self.machines[at].server, Server::Off | Server::Failing) {
                self.start(at);
            }
        }
        for at in 0..self.machines.len() {
            if self.machines[at].server == Server::Running {
                self.machines[at].data = Some(self.cluster.clone());
            }
        }
        self.clients_go_on();
    }

    fn clients_go_on(&mut self) {
        self.time += 1;
        let running: BTreeSet<usize> = (0..self.machines.len()).filter(|at| self.serves(*at)).collect();
        for (client, number) in self.clients.iter_mut().zip(0..) {
            if client.on.is_some_and(|at| !running.contains(&at)) {
                *client = Client { on: None, lost: self.time, away: self.slowness, ..*client };
            }
            client.away = client.away.saturating_sub(1);
            if client.stopped {
                client.on = None;
            } else if client.on.is_none() && client.away == 0 {
                client.on = running.iter().copied().cycle().nth(number);
            }
        }
        // It is lost with a majority of those that have it, and declared anew.
        let has_it = self.queue.iter().filter(|at| self.machines[**at].data.is_some() && self.cluster.contains(at));
        if 2 * has_it.count() <= self.queue.len() {
            self.queue = running.iter().copied().take(GROUP).collect();
        }
        self.agents_look(&running);
    }

    fn agents_look(&mut self, running: &BTreeSet<usize>) {
        let now = self.time;
        let nodes: Vec<(usize, bool)> = self.cluster.iter().map(|at| (*at, running.contains(at))).collect();
        let connected = |number: &usize| self.clients[*number].on.is_some();
        let consumed: BTreeSet<usize> = (0..self.clients.len()).filter(connected).collect();
        let pods: BTreeMap<u32, usize> = self.pods.iter().map(|pod| (pod.uid, pod.at)).collect();
        self.memories.retain(|uid, _| pods.contains_key(uid));
        for (uid, _) in pods.iter().filter(|(_, at)| running.contains(at)) {
            let memory = self.memories.entry(*uid).or_insert_with(|| Memory {
                nodes: nodes.clone(),
                begun: now,
                changed: now,
                consumed: BTreeSet::new(),
                deserted: BTreeSet::new(),
            });
            if memory.nodes != nodes {
                (memory.nodes, memory.changed) = (nodes.clone(), now);
            }
            if now - memory.changed > LONGEST {
                memory.consumed = consumed.clone();
            }
            memory.consumed.extend(&consumed);
            memory.deserted = &memory.consumed - &consumed;
        }
    }

    /// Clients that are to be waited for: they lost their server a short while ago, and an agent that answers has seen them before.
    fn missed(&self) -> usize {
        let saw = |lost: usize| {
            self.pods.iter().any(|Placed { at, uid }| {
                let memory = self.memories.get(&uid);
                self.runs(at) && memory.is_some_and(|memory| memory.begun + LONGEST < lost)
            })
        };
        let is_missed = |client: &&Client| {
            client.on.is_none() && !client.stopped && self.time - client.lost < LONGEST && saw(client.lost)
        };
        self.clients.iter().filter(is_missed).count()
    }

    /// Members of the quorum queue that serve, without this one.
    fn online(&self, without: usize) -> usize {
        self.queue.iter().filter(|at| self.runs(**at) && **at != without).count()
    }

    fn runs(&self, at: usize) -> bool {
        self.machines[at].server == Server::Running
    }

    fn serves(&self, at: usize) -> bool {
        self.runs(at) && !self.machines[at].drained
    }

    fn start(&mut self, at: usize) {
        let Some(id) = self.record.members.iter().find(|member| machine(&member.node) == at).map(|member| member.id)
        else {
            return;
        };
        let former = self.machines[at].owner.replace(id).filter(|former| *former != id);
        if former.is_some() {
            let has_data = |it: &usize| self.machines[*it].data.is_some();
            assert!(!self.cluster.contains(&at) && self.cluster.iter().any(has_data), "the last data goes");
            self.machines[at].data = None;
        }
        let has_holder =
            self.machines.iter().enumerate().any(|(it, machine)| self.cluster.contains(&it) && machine.data.is_some());
        let others_run = self.cluster.iter().any(|it| self.runs(*it));
        let listed = self.cluster.contains(&at);
        let starts = match &self.machines[at].data {
            None if !has_holder => {
                self.cluster = BTreeSet::from([at]);
                true
            }
            None => !listed && others_run,
            Some(_) => listed,
        };
        if starts {
            self.cluster.insert(at);
            self.machines[at].data = Some(self.cluster.clone());
        }
        self.machines[at].server = if starts { Server::Running } else { Server::Failing };
        self.machines[at].drained = false;
    }

    fn carry_out(&mut self, step: &Step) {
        let Some((ordinal, Placed { at, .. })) = self.pods.target(step) else { return };
        match step {
            Step::Restart(_) => self.end_pod(ordinal),
            Step::Ask(_, Request::Membership(Membership::Leave)) if self.runs(at) => {
                if std::mem::take(&mut self.is_cut_short) {
                    self.machines[at].drained = true;
                } else {
                    self.machines[at].server = Server::Left;
                }
            }
            Step::Ask(_, Request::Membership(Membership::Forget { name }))
                if self.runs(at) && !self.runs(named(name)) =>
            {
                self.cluster.remove(&named(name));
                self.queue.remove(&named(name));
            }
            Step::Ask(_, Request::Membership(Membership::Grow)) if self.runs(at) && self.is_short(at) => {
                self.queue.insert(at);
            }
            _ => {}
        }
    }

    /// Whether the quorum queue is on too few members and not on this one.
    fn is_short(&self, at: usize) -> bool {
        self.queue.len() < GROUP.min(self.cluster.len()) && !self.queue.contains(&at)
    }

    fn status(&self, Placed { at, uid }: Placed) -> Status {
        let Machine { server, data, .. } = &self.machines[at];
        let (runs, names) =
            (*server == Server::Running, |set: &BTreeSet<usize>| set.iter().map(|it| name(*it)).collect());
        let facts = if runs {
            let nodes = self.cluster.iter().map(|it| (name(*it), self.runs(*it))).collect();
            let names = |numbers: &BTreeSet<usize>| numbers.iter().map(|number| format!("q{number}")).collect();
            let of = |names: Vec<String>| Queues::of("tf", names.iter());
            let deserted = self.memories.get(&uid).and_then(|memory| of(names(&memory.deserted)));
            let short = of(self.is_short(at).then(|| "ledger".to_owned()).into_iter().collect());
            let is_critical = self.queue.contains(&at) && 2 * self.online(at) <= self.queue.len();
            let critical = is_critical.then(|| "it would lose its majority".to_owned());
            let left = self.machines[at].drained;
            Facts { name: name(at), nodes, deserted, short, critical, left, ..Facts::default() }
        } else {
            let remembers = Some(data.as_ref().map(names).unwrap_or_default());
            Facts { unknown: Some("refused".into()), remembers, left: *server == Server::Left, ..Facts::default() }
        };
        Status {
            node: node(at),
            daemons: BTreeMap::from([(CONTAINER.to_owned(), server.state())]),
            rabbitmq: Some(facts),
            ..Status::default()
        }
    }

    /// One pass of the operator. Whether there is something left to do.
    fn decides(&mut self) -> Result<bool, TestCaseError> {
        let nodes: Vec<observed::Node> = (0..self.machines.len())
            .filter(|at| self.machines[*at].exists)
            .map(|at| observed::Node {
                name: node(at),
                address: Some(format!("10.0.0.{at}")),
                ..observed::Node::default()
            })
            .collect();
        let wish = Wish {
            placement: &Placement::Everywhere,
            replicas: Some(self.wanted as i32),
            rule: SizeRule::OddUpTo(5),
            joining: Joining::Anytime,
            leaving: Leaving::Released,
            identities: Identities::New { highest: self.record.highest },
        };
        let mut members = choose(&self.record.members, &nodes, &wish).members;
        let pods = self.pods.observed(|at| self.serves(at));
        let agents = self.pods.agents(|pod| self.status(pod));
        let reports = Reports { pods: &pods, agents: &agents };
        let joins = one_by_one(&mut members, &self.record.members, &reports);
        let names: Vec<Node> = members
            .iter()
            .map(|member| Node { host: member.node.clone(), address: std::net::Ipv4Addr::LOCALHOST.into() })
            .collect();
        let places: Vec<&observed::Node> = nodes.iter().collect();
        let decision = if self.record.members.is_empty() {
            let highest = members.iter().map(|member| member.id).max().unwrap_or_default();
            Decision { record: Record { members, highest, ..Record::default() }, ..Decision::default() }
        } else {
            decide(&Situation {
                room: Room { wanted: Some(self.wanted), members: &members, places: &places, pods: reports.pods },
                nodes: &names,
                record: &Record::of(&members, self.record.highest, &self.record.leaving),
                reports: &reports,
            })
        };
        if let Some(step) = &decision.step {
            self.keeps_promises(step, &decision.record.members)?;
        }
        for gone in self.record.members.iter().filter(|member| !decision.record.members.contains(member)) {
            let at = machine(&gone.node);
            prop_assert!(!self.cluster.contains(&at), "{gone:?} is struck off and in the cluster");
            prop_assert!(self.record.is_leaving(gone.id), "{gone:?} is struck off without a mark");
        }
        prop_assert!(!decision.record.members.is_empty(), "nobody is left");
        if !self.record.members.is_empty() && decision.record.members.len() > self.record.members.len() {
            prop_assert!(
                self.rests_with(&self.record.members),
                "a member joins while another one is away or on its way"
            );
            prop_assert!(decision.record.members.len() == self.record.members.len() + 1, "two join at the same moment");
        }
        let Record { members, highest, leaving } = &decision.record;
        let changed = *members != self.record.members || *leaving != self.record.leaving;
        prop_assert!(*highest >= self.record.highest);
        // A step rests on what is recorded.
        let is_recorded = !changed;
        self.record = decision.record;
        let rest = changed || decision.step.is_some() || decision.waits.is_some() || joins.is_some();
        if !is_recorded {
            return Ok(rest);
        }
        if let Some(step) = decision.step.and_then(|step| self.late.ask(step)) {
            self.carry_out(&step);
        }
        Ok(rest)
    }

    fn keeps_promises(&self, step: &Step, members: &[MemberStatus]) -> Result<(), TestCaseError> {
        let target = self.pods.target(step).map(|(_, pod)| pod.at);
        prop_assert!(target.is_some(), "a pod that is not there is asked");
        let others = |but: usize| members.iter().map(|member| machine(&member.node)).filter(move |it| *it != but);
        let is_member = |at: usize| members.iter().any(|member| machine(&member.node) == at);
        let goes = |at: usize| members.len() > self.wanted || !self.machines[at].exists;
        match step {
            Step::Ask(_, Request::Membership(Membership::Leave)) => {
                let leaver = target.unwrap_or_default();
                prop_assert!(goes(leaver), "a member leaves that is wanted");
                let marked = members.iter().any(|it| machine(&it.node) == leaver && self.record.is_leaving(it.id));
                prop_assert!(marked, "a member leaves without a mark");
                prop_assert!(others(leaver).all(|it| self.runs(it)), "a member leaves while another one is away");
                let is_drained = self.machines[leaver].drained;
                prop_assert!(is_drained || self.missed() == 0, "a member leaves while clients are not back");
                let is_kept = !self.queue.contains(&leaver) || 2 * self.online(leaver) > self.queue.len();
                prop_assert!(is_drained || is_kept, "a quorum queue loses its majority");
            }
            Step::Ask(_, Request::Membership(Membership::Grow)) => {
                let grower = target.unwrap_or_default();
                prop_assert!(self.is_short(grower) && self.rests_with(members) && self.record.leaving.is_empty());
            }
            Step::Ask(_, Request::Membership(Membership::Forget { name })) => {
                let gone = named(name);
                let has_data = self.machines[gone].data.as_ref().is_some_and(|data| data.len() > 1);
                prop_assert!(!self.runs(gone), "a server that runs is forgotten");
                prop_assert!(!is_member(gone) || goes(gone) || !has_data, "a member is forgotten that could come back");
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether only a person can tell whose data counts: a server does not start with its data, and those that are a cluster without it
    /// are not most of the members.
    fn is_for_people(&self) -> bool {
        let servers =
            |server| self.record.members.iter().filter(move |it| self.machines[machine(&it.node)].server == server);
        let outcast = |it: &MemberStatus| {
            let at = machine(&it.node);
            !self.cluster.contains(&at) && self.machines[at].data.is_some()
        };
        let is_divided =
            2 * servers(Server::Running).count() <= self.record.members.len() && servers(Server::Failing).any(outcast);
        // The quorum queue is on both of them.
        is_divided || self.wanted == 1 && self.record.members.len() == 2 && self.queue.len() == 2
    }

    /// Whether everything is as wanted.
    fn rests(&self) -> bool {
        self.record.members.len() == self.wanted && self.rests_with(&self.record.members)
    }

    /// Whether these are the cluster, and all of them run.
    fn rests_with(&self, members: &[MemberStatus]) -> bool {
        let members: BTreeSet<usize> = members.iter().map(|member| machine(&member.node)).collect();
        members == self.cluster && members.iter().all(|at| self.serves(*at))
    }

    /// Whether the quorum queue is on as many members as it should be.
    fn is_grown(&self) -> bool {
        self.queue.len() >= GROUP.min(self.cluster.len())
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
        2 => (1_usize..6).prop_map(Event::Late),
        1 => Just(Event::CutShort),
        1 => (0_usize..10).prop_map(Event::Slow),
        1 => (0_usize..2).prop_map(Event::Client),
        8 => Just(Event::Nothing),
    ]
}

proptest! {
    #![proptest_config(walks::random(WALKS))]

    #[test]
    fn whatever_happens_nothing_is_lost_and_in_the_end_the_cluster_is_as_wished(
        machines in 1_usize..6, wanted in 1_usize..6, is_taken_over: bool,
        events in prop::collection::vec(event(), DISTURBANCES),
    ) {
        let world = World::new(machines, wanted);
        let mut world = if is_taken_over { world.taken_over() } else { world };
        for event in &events {
            world.happens(event);
            world.goes_on();
            world.decides()?;
        }
        world.late.heal();
        while world.machines.iter().filter(|machine| machine.exists).count() < world.wanted.max(world.record.members.len()) {
            world.happens(&Event::Comes);
        }
        for _ in 0..PATIENCE {
            world.goes_on();
            world.decides()?;
        }
        world.goes_on();
        let has_more = world.decides()?;
        if world.is_for_people() {
            prop_assert!(has_more, "it does not say so");
        } else {
            prop_assert!(world.rests() && world.is_grown(), "{world:#?}");
            prop_assert!(!has_more, "it is not silent");
        }
    }
}
