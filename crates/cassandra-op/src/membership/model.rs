//! A model of a ring and of everything that happens to it, and the decisions walking through it: who is a member, what is repaired and what is
//! written to a backup.
//!
//! The model plays Cassandra (who is in the ring, on how many members a keyspace is to be, who has repaired it and when), the node agents, the
//! StatefulSet controller and the scheduler, and the world: nodes die, disks are emptied, servers end, requests are carried out late or fail, time
//! passes, clients make keyspaces, people change their minds. After each step the promises are checked; at the end the world rests, and the wish
//! has to come true.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use tf_api::{
    BackupState, BackupStatus, BackupVolume, Cassandra, CassandraSpec,
    common::HostPathStorage,
    kinds::{CassandraConfiguration, CassandraStatus},
    names::ANNOTATION_BACKUP,
};
use tf_plan::{
    node::{
        ContentHash,
        cassandra::{Facts, Failed, NORMAL, Peer, backup::Saved},
        state::{Health, State, Status},
    },
    observed::{self, Observed, Source},
    plan::Plan,
    step::Request,
};
use tf_testing::{
    model::{Late, Placed, Pods, Server, machine, node},
    walks,
};

use super::{view::LEAVING, *};
use crate::{backup, config::jvm::DAEMON, plan::look_after};

const DISTURBANCES: usize = 40;
/// Steps after which an undisturbed ring is as wanted.
const PATIENCE: usize = 200;
/// About 120,000 states.
const WALKS: u32 = 500;
const KEYSPACE: &str = "config_db_uuid";
/// Hours for which deletions are remembered, after which share of them a repair is due, and how long it may take until it is asked for where
/// nothing else goes on: the last one may have failed an hour ago.
const REMEMBERED: i64 = 240;
const DUE: i64 = 168;
const SOON: i64 = 6;

#[derive(Clone, Debug, Default)]
struct Machine {
    exists: bool,
    /// How often its address was changed, and how often as the ring has it.
    moved: usize,
    listed: usize,
    /// Whether its server cannot start: it has no room, say.
    cramped: bool,
    /// What is on its disk while that is not mounted.
    unmounted: Option<Box<Machine>>,
    server: Server,
    has_data: bool,
    /// Whether its pod has what the ring was founded with, with which it does not join.
    founds: bool,
    /// The member that the data is of.
    owner: Option<u32>,
    repaired: Option<u32>,
    repaired_at: Option<Timestamp>,
    /// Backups that it wrote what it held to, each with the numbers of all members.
    saved: BTreeMap<String, Vec<u32>>,
    failed: Option<Failed>,
    /// How often it joined, each time under another host ID.
    joined: usize,
    /// What goes on, for so many steps more, and since when.
    doing: Option<(Change, usize, Timestamp)>,
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
    /// A node has another address when it is back.
    Moves(usize),
    /// A server cannot start any more.
    Cramped(usize),
    /// All can.
    Roomy,
    /// Most of the ring begins anew without its disks.
    Unmounted,
    /// They are back.
    Mounted,
    PodDeleted(usize),
    /// A client that knows so many servers makes the keyspace.
    Keyspace(u32),
    /// What was asked for is carried out when some steps more have passed.
    Late(usize),
    /// What goes on is cut short.
    AgentEnds(usize),
    /// What goes on fails.
    Fails(usize),
    /// Somebody asks for a backup, or for another one.
    Backup(usize),
    /// So many hours pass.
    Hours(i64),
    /// The operator is killed before it asks for anything.
    Killed,
    Nothing,
}

#[derive(Debug)]
struct World {
    machines: Vec<Machine>,
    wanted: usize,
    record: Record,
    pods: Pods,
    /// Who is in the ring, as its servers have it.
    ring: Vec<usize>,
    factor: Option<u32>,
    /// Who has not repaired since the number was changed, or since it joined.
    unrepaired: BTreeSet<usize>,
    late: Late,
    now: Timestamp,
    /// The backup that is asked for, and the status of all that were.
    wish: Option<String>,
    backups: Vec<BackupStatus>,
    is_killed: bool,
    /// Since when nothing has been in the way of a repair.
    calm_since: Timestamp,
    /// What was decided last.
    last: String,
}

fn address(at: usize, moved: usize) -> String {
    format!("10.0.{moved}.{at}")
}

/// What the pods of a ring's founders have, and what others have.
fn content(founds: bool) -> ContentHash {
    if founds { "a" } else { "b" }.repeat(32).parse().unwrap()
}

impl Machine {
    fn loses_data(&mut self) {
        (self.has_data, self.repaired, self.repaired_at) = (false, None, None);
    }
}

impl World {
    /// A ring that was founded.
    fn new(machines: usize, members: usize) -> Self {
        let mut world = Self {
            machines: vec![Machine { exists: true, ..Machine::default() }; machines.max(members)],
            wanted: members,
            record: Record::default(),
            pods: Pods::default(),
            ring: (0..members).collect(),
            factor: None,
            unrepaired: BTreeSet::new(),
            late: Late::default(),
            now: Timestamp::UNIX_EPOCH,
            wish: None,
            backups: Vec::new(),
            is_killed: false,
            calm_since: Timestamp::UNIX_EPOCH,
            last: String::new(),
        };
        for at in 0..members {
            let place = world.place(at);
            world.record.add(&place);
            let data =
                Machine { has_data: true, founds: true, owner: Some(at as u32 + 1), ..world.machines[at].clone() };
            world.machines[at] = data;
        }
        world
    }

    fn place(&self, at: usize) -> observed::Node {
        let address = address(at, self.machines[at].moved);
        observed::Node { name: node(at), address: Some(address), ..observed::Node::default() }
    }

    /// Whether the ring has a machine at the address that it has now.
    fn is_known(&self, at: usize) -> bool {
        let Machine { moved, listed, .. } = self.machines[at];
        !self.ring.contains(&at) || moved == listed
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
        // One that never said where it is now is for a person to take out.
        let can = self.ring.len() > 1 && others && has_copies && self.unrepaired.is_empty() && self.is_known(at);
        !self.ring.contains(&at) || can
    }

    fn happens(&mut self, event: &Event) {
        let count = self.machines.len();
        match event {
            Event::Wanted(wanted) => self.wanted = *wanted,
            Event::Dies(index) => {
                let at = index % count;
                if self.can_lose(at) {
                    let Machine { moved, listed, joined, .. } = self.machines[at];
                    self.machines[at] = Machine { moved, listed, joined, ..Machine::default() };
                    self.pods.lose(at);
                }
            }
            Event::Comes => self.machines.push(Machine { exists: true, ..Machine::default() }),
            Event::Ends(index) => self.stop(index % count),
            Event::EmptyDisk(index) => {
                let at = index % count;
                if self.can_lose(at) {
                    self.stop(at);
                    self.machines[at].loses_data();
                    self.machines[at].owner = None;
                }
            }
            Event::Moves(index) => {
                let at = index % count;
                // One that has lost what it has and cannot say where it is now is for a person to take out.
                let is_there = self.machines[at].has_data || !self.ring.contains(&at);
                if is_there && self.machines[at].unmounted.is_none() {
                    self.machines[at].moved += 1;
                    self.stop(at);
                }
            }
            Event::Cramped(index) => {
                let at = index % count;
                self.machines[at].cramped = true;
                self.stop(at);
            }
            Event::Unmounted => self.unmounts(),
            Event::Mounted => self.mounts(),
            Event::Roomy => self.machines.iter_mut().for_each(|machine| machine.cramped = false),
            Event::PodDeleted(ordinal) => self.end_pod(*ordinal),
            Event::Keyspace(factor) if self.factor.is_none() && !self.ring.is_empty() => {
                self.factor = Some((*factor).min(self.ring.len() as u32));
            }
            Event::Late(steps) => self.late.delay(*steps),
            Event::AgentEnds(index) => {
                let machine = &mut self.machines[index % count];
                let ended = machine.doing.take();
                machine.stuck |= matches!(ended, Some((Change::Decommission, ..)));
                machine.failed = None;
            }
            Event::Fails(index) => {
                let machine = &mut self.machines[index % count];
                if let Some((of, ..)) =
                    machine.doing.take_if(|(it, ..)| matches!(it, Change::Repair { .. } | Change::Backup { .. }))
                {
                    machine.failed = Some(Failed { of, why: "no room".into(), at: self.now });
                }
            }
            Event::Backup(index) => self.wish = (*index > 0).then(|| format!("b{index}")),
            Event::Hours(hours) => self.passes(*hours),
            Event::Killed => self.is_killed = true,
            Event::Keyspace(_) | Event::Nothing => {}
        }
    }

    fn unmounts(&mut self) {
        let is_calm = self.late.is_none() && self.machines.iter().all(|machine| machine.doing.is_none());
        if !is_calm || !self.ring.iter().all(|at| self.runs(*at) && self.is_known(*at)) {
            return;
        }
        let most = self.ring.len() / 2 + 1;
        for at in self.ring.iter().copied().take(most).collect::<Vec<_>>() {
            self.stop(at);
            self.machines[at].unmounted = Some(Box::new(self.machines[at].clone()));
            self.machines[at].loses_data();
            self.machines[at].owner = None;
        }
    }

    fn mounts(&mut self) {
        for at in 0..self.machines.len() {
            let Some(before) = self.machines[at].unmounted.take() else { continue };
            let Machine { has_data, owner, repaired, repaired_at, .. } = *before;
            self.stop(at);
            let machine = &mut self.machines[at];
            (machine.has_data, machine.owner) = (has_data, owner);
            (machine.repaired, machine.repaired_at) = (repaired, repaired_at);
        }
    }

    fn passes(&mut self, hours: i64) {
        self.now += SignedDuration::from_hours(hours);
    }

    fn stop(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        // The agent is started anew with it, as in most cases.
        (machine.server, machine.doing, machine.stuck, machine.failed) = (Server::Off, None, false, None);
    }

    fn end_pod(&mut self, ordinal: usize) {
        if let Some(at) = self.pods.end(ordinal) {
            self.ends_with_pod(at);
        }
    }

    /// Its next pod takes the newest configuration.
    fn ends_with_pod(&mut self, at: usize) {
        self.machines[at].founds = false;
        self.stop(at);
    }

    /// What controllers, kubelets and servers do.
    fn goes_on(&mut self) {
        if let Some(step) = self.late.due() {
            self.carry_out(&step);
        }
        for at in self.pods.resize(self.record.members.len()) {
            self.ends_with_pod(at);
        }
        self.pods.place(&self.record.members, |at| self.machines[at].exists);
        for Placed { at, .. } in self.pods.iter().collect::<Vec<_>>() {
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
            self.machines[at].loses_data();
        }
        let (listed, has_data) = (self.ring.contains(&at), self.machines[at].has_data);
        // Who has none fetches it from all others.
        // Its agent starts no founder that has lost what it served with.
        let is_able = !listed && !has_data && !self.machines[at].cramped && !self.machines[at].founds;
        let joins = is_able && self.ring.iter().all(|other| self.runs(*other));
        let starts = listed && has_data && !self.machines[at].cramped || joins;
        if starts {
            self.machines[at].listed = self.machines[at].moved;
        }
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
        let Some((change, steps, begun)) = self.machines[at].doing.take() else { return };
        if steps > 0 {
            self.machines[at].doing = Some((change, steps - 1, begun));
            return;
        }
        let all_run = self.ring.iter().all(|other| self.runs(*other));
        match change {
            Change::Repair { factor, routine, .. } if all_run && self.factor == Some(factor) => {
                self.machines[at].repaired_at = Some(begun);
                if !routine {
                    self.machines[at].repaired = Some(factor);
                    self.unrepaired.remove(&at);
                }
            }
            Change::Repair { .. } => {
                self.machines[at].failed = Some(Failed { of: change, why: "others".into(), at: self.now });
            }
            Change::Backup { of, members, .. } => {
                let members = members.into_iter().map(|(id, _)| id).collect();
                self.machines[at].saved.insert(of.name, members);
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
        let Some((ordinal, Placed { at, .. })) = self.pods.target(step) else { return };
        match step {
            Step::Restart(_) => self.end_pod(ordinal),
            Step::Activate(..) => self.ends_with_pod(at),
            Step::Ask(_, Request::Ring(change)) if self.runs(at) && self.machines[at].doing.is_none() => match change {
                Change::Replicate { from, to, .. } if self.factor == Some(*from) => {
                    (self.factor, self.unrepaired) = (Some(*to), self.ring.iter().copied().collect());
                }
                Change::Replicate { .. } => {}
                Change::Repair { factor, .. } if self.factor != Some(*factor) => {}
                Change::Decommission if self.factor.is_some_and(|factor| factor as usize >= self.ring.len()) => {}
                Change::Remove { host_id }
                    if self.ring.iter().any(|it| self.host_id(*it) == *host_id && self.runs(*it)) => {}
                change => {
                    self.machines[at].doing = Some((change.clone(), 2, self.now));
                    self.machines[at].failed = None;
                }
            },
            _ => {}
        }
    }

    fn status(&self, at: usize) -> Status {
        let Machine { server, has_data, repaired, repaired_at, saved, failed, doing, stuck, .. } = &self.machines[at];
        let peer = |it: &usize| {
            let heard = Some(self.runs(*it));
            let state = if self.machines[*it].stuck { LEAVING } else { NORMAL };
            let address = address(*it, self.machines[*it].listed).parse().unwrap();
            (address, Peer { state: Some(state.into()), heard, host_id: Some(self.host_id(*it)) })
        };
        let keyspace = |factor: Option<u32>| factor.map(|factor| (KEYSPACE.to_owned(), factor)).into_iter().collect();
        let mut facts = Facts {
            repaired: keyspace(*repaired),
            repaired_at: repaired_at.map(|at| (KEYSPACE.to_owned(), at)).into_iter().collect(),
            grace: self.factor.map(|_| (KEYSPACE.to_owned(), REMEMBERED as u32 * 3600)).into_iter().collect(),
            backups: saved
                .keys()
                .map(|name| (name.clone(), Saved { resource: "u".into(), at: self.now, bytes: 1 }))
                .collect(),
            doing: doing.as_ref().map(|(change, ..)| change.clone()),
            left: *server == Server::Left,
            has_served: *has_data,
            founds: self.machines[at].founds,
            owner: self.machines[at].owner,
            joined: self.machines[at].joined > 0,
            failed: failed.clone().or_else(|| {
                stuck.then(|| Failed { of: Change::Decommission, why: "others".into(), at: Timestamp::UNIX_EPOCH })
            }),
            ..Facts::default()
        };
        if *server == Server::Running {
            facts.host_id = self.host_id(at);
            facts.peers = self.ring.iter().filter(|it| **it != at).map(peer).collect();
            facts.keyspaces = keyspace(self.factor);
        }
        let active = Some(content(self.machines[at].founds));
        let daemons = BTreeMap::from([(DAEMON.to_owned(), State { active, ..server.state() })]);
        let health = Some(Health::new(self.runs(at), "as it is"));
        Status { node: node(at), daemons, health, cassandra: Some(facts), ..Status::default() }
    }

    fn resource(&self) -> Cassandra {
        let backup = BackupVolume {
            host_path: Some(HostPathStorage { path: Some("/backups".into()) }),
            ..BackupVolume::default()
        };
        let service_configuration =
            CassandraConfiguration { backup: Some(backup), ..CassandraConfiguration::default() };
        let mut cr = Cassandra::new("configdb1", CassandraSpec { service_configuration, ..CassandraSpec::default() });
        cr.metadata.namespace = Some("tf".into());
        cr.metadata.uid = Some("u".into());
        cr.metadata.annotations = self.wish.clone().map(|wish| [(ANNOTATION_BACKUP.to_owned(), wish)].into());
        let mut status = CassandraStatus::default();
        status.contract.initialized = Some(true);
        status.contract.members.clone_from(&self.record.members);
        status.own.backups.clone_from(&self.backups);
        cr.status = Some(status);
        cr
    }

    /// One pass of the operator. Whether there is something left to do.
    fn decides(&mut self) -> Result<bool, TestCaseError> {
        let nodes: Vec<observed::Node> =
            (0..self.machines.len()).filter(|at| self.machines[*at].exists).map(|at| self.place(at)).collect();
        for member in &mut self.record.members {
            let place = nodes.iter().find(|place| place.name == member.node);
            member.address = place.and_then(|place| place.address.clone()).unwrap_or_else(|| member.address.clone());
        }
        let places: Vec<&observed::Node> = nodes.iter().collect();
        let pods = self.pods.observed(|at| self.runs(at));
        let agents = self.pods.agents(|pod| self.status(pod.at));
        let cr = self.resource();
        let observed =
            Observed::<Cassandra> { now: self.now, pods: Source::Known(pods), agents, ..Observed::default() };
        let reports = Reports::of_observed(&observed);
        let decision = decide(&Situation {
            room: Room {
                wanted: Some(self.wanted),
                members: &self.record.members,
                places: &places,
                pods: reports.pods,
            },
            record: &self.record,
            reports: &reports,
            image: None,
            now: self.now,
        });
        let mut plan = Plan { members: decision.record.members.clone(), ..Plan::default() };
        let contents = |founds| {
            let content = |member: &MemberStatus| (member.node.clone(), content(founds));
            self.record.members.iter().map(content).collect()
        };
        let contents = procedure::wanted(contents(false), &contents(true), &observed);
        look_after(&mut plan, &cr, &observed, &contents, Some(decision.clone()), Some(&self.record), None);
        let decision = Decision { step: plan.step.take(), waits: plan.under_way.take(), ..decision };
        let backups: Vec<BackupStatus> = plan
            .own_status
            .get(backup::FIELD)
            .map(|list| serde_json::from_value(list.clone()).unwrap())
            .unwrap_or_default();
        self.keeps_backups(&backups)?;
        let is_told = backups != self.backups;
        self.backups = backups;
        if self.is_repair_missed(&decision) {
            prop_assert!(false, "a repair is due and is not asked for: {self:#?}");
        }
        if let Some(step) = &decision.step {
            self.keeps_promises(step, &decision.record)?;
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
        let rest = changed || is_told || decision.step.is_some() || decision.waits.is_some();
        // A step rests on what is recorded.
        let asks = !changed && !std::mem::take(&mut self.is_killed);
        if let Some(step) = decision.step.filter(|_| asks).and_then(|step| self.late.ask(step)) {
            self.carry_out(&step);
        }
        Ok(rest)
    }

    fn keeps_promises(&self, step: &Step, record: &Record) -> Result<(), TestCaseError> {
        let target = self.pods.target(step).map(|(_, pod)| pod.at);
        prop_assert!(target.is_some(), "a pod that is not there is asked");
        let all_run = self.ring.iter().all(|it| self.runs(*it));
        let Step::Ask(_, Request::Ring(change)) = step else { return Ok(()) };
        let is_busy = target.is_some_and(|at| self.machines[at].doing.is_some());
        prop_assert!(!is_busy, "two things at once on a member, or the same one twice: {change:?}");
        let goes_on = self.machines.iter().filter_map(|machine| machine.doing.as_ref());
        // Members write backups beside each other, and beside a repair that could as well be done later.
        let is_beside =
            goes_on.map(|(other, ..)| other).all(|other| matches!(change, Change::Backup { .. }) && other.is_routine());
        prop_assert!(is_beside, "two things at once: {change:?}");
        match change {
            Change::Replicate { from, to, .. } => {
                prop_assert!(from.abs_diff(*to) == 1 && *to > 0 && self.factor == Some(*from), "{change:?}");
                let is_repaired = |it: &usize| self.machines[*it].repaired == Some(*from);
                prop_assert!(self.ring.iter().all(is_repaired), "what was written is not where it should be");
                prop_assert!(all_run);
            }
            Change::Repair { routine, .. } => {
                prop_assert!(all_run, "it would fail");
                let is_changing = !record.leaving.is_empty() || !self.unrepaired.is_empty();
                prop_assert!(!routine || !is_changing, "a repair from time to time goes before what is due now");
            }
            Change::Backup { of, members, .. } => {
                prop_assert!(all_run && record.leaving.is_empty(), "a backup is begun that cannot be whole: {self:#?}");
                let ids = members.iter().map(|(id, _)| *id).eq(self.record.members.iter().map(|member| member.id));
                prop_assert!(ids && self.wish.as_ref() == Some(&of.name));
                let has_it = target.is_some_and(|at| self.machines[at].saved.contains_key(&of.name));
                prop_assert!(!has_it, "a member writes what it has written");
            }
            Change::Decommission => {
                prop_assert!(all_run, "a member leaves while another one is away");
                let fits = self.factor.is_none_or(|factor| (factor as usize) < self.ring.len());
                prop_assert!(fits && self.ring.len() > 1, "too few are left");
                prop_assert!(self.record.members.len() > self.wanted, "a member leaves that is wanted");
            }
            Change::Remove { host_id } => {
                let gone = machine(host_id.split('-').next().unwrap_or_default());
                prop_assert!(
                    !self.runs(gone) && !self.machines[gone].has_data && self.machines[gone].unmounted.is_none(),
                    "a member is taken out that could come back"
                );
            }
            Change::UpgradeSstables
            | Change::Look { .. }
            | Change::RestoreSchema { .. }
            | Change::RestoreRows { .. } => {
                prop_assert!(false, "nobody wants that: {change:?}");
            }
        }
        Ok(())
    }

    /// A backup is called complete only when every member of it has written what it held.
    fn keeps_backups(&self, now: &[BackupStatus]) -> Result<(), TestCaseError> {
        for backup in now.iter().filter(|backup| !self.backups.contains(backup)) {
            let saved = |id: &u32| {
                let member = self.record.members.iter().find(|member| member.id == *id)?;
                self.machines[machine(&member.node)].saved.get(&backup.name)
            };
            let is_whole = backup.members.iter().all(|id| saved(id) == Some(&backup.members));
            prop_assert!(backup.state != BackupState::Complete || is_whole, "{backup:?} {self:#?}");
            prop_assert!(backup.state != BackupState::Failed || backup.message.is_some(), "nobody is told why");
        }
        let is_complete = |it: &&BackupStatus| it.state == BackupState::Complete;
        let is_kept = |it: &BackupStatus| now.contains(it) || now.len() == 10;
        prop_assert!(self.backups.iter().filter(is_complete).all(is_kept), "one that is complete is made again");
        Ok(())
    }

    /// Whether nothing has been in the way of a repair for long enough, and it is neither asked for nor under way.
    fn is_repair_missed(&mut self, decision: &Decision) -> bool {
        let goes_on = self.machines.iter().any(|machine| machine.doing.is_some());
        let last = self.ring.iter().filter_map(|at| self.machines[*at].repaired_at).max();
        let age = last.map_or(REMEMBERED, |last| self.now.duration_since(last).as_hours());
        let is_idle = self.rests() && decision.step.is_none() && !goes_on && self.late.is_none();
        if !is_idle || age < DUE || self.factor.is_none() || self.ring.len() == 1 {
            self.calm_since = self.now;
        }
        self.now.duration_since(self.calm_since).as_hours() > SOON
    }

    /// All servers can start, but for one that is not wanted and has not joined: it is not waited for.
    fn get_room(&mut self) {
        let last = self.pods.iter().last().filter(|_| self.pods.iter().count() == self.record.members.len());
        let is_unwanted = self.record.members.len() > self.wanted;
        for (at, machine) in self.machines.iter_mut().enumerate() {
            let is_last = last.is_some_and(|last| last.at == at);
            machine.cramped &= is_unwanted && is_last && !self.ring.contains(&at) && !machine.has_data;
        }
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
        1 => (0_usize..16).prop_map(Event::Moves),
        1 => (0_usize..16).prop_map(Event::Cramped),
        1 => Just(Event::Roomy),
        1 => Just(Event::Unmounted),
        2 => Just(Event::Mounted),
        1 => (0_usize..5).prop_map(Event::PodDeleted),
        2 => (1_u32..6).prop_map(Event::Keyspace),
        2 => (1_usize..6).prop_map(Event::Late),
        1 => (0_usize..16).prop_map(Event::AgentEnds),
        1 => (0_usize..16).prop_map(Event::Fails),
        1 => (0_usize..4).prop_map(Event::Backup),
        2 => (1_i64..100).prop_map(Event::Hours),
        1 => Just(Event::Killed),
        10 => Just(Event::Nothing),
    ]
}

proptest! {
    #![proptest_config(walks::random(WALKS))]

    #[test]
    fn whatever_happens_no_row_is_lost_or_comes_back_and_in_the_end_the_ring_is_as_wished(
        machines in 1_usize..6, members in 1_usize..6, events in prop::collection::vec(event(), DISTURBANCES),
    ) {
        let mut world = World::new(machines, members);
        for event in &events {
            world.happens(event);
            world.passes(1);
            world.goes_on();
            world.decides()?;
        }
        world.late.heal();
        world.is_killed = false;
        world.mounts();
        world.get_room();
        while world.machines.iter().filter(|machine| machine.exists).count() < world.wanted.max(world.record.members.len()) {
            world.happens(&Event::Comes);
        }
        // A week and more, so that repairs come round.
        for _ in 0..PATIENCE {
            world.passes(1);
            world.goes_on();
            world.decides()?;
        }
        let is_silent = |world: &mut World| -> Result<bool, TestCaseError> {
            world.goes_on();
            Ok(!world.decides()?)
        };
        let mut left = 20;
        while left > 0 && !is_silent(&mut world)? {
            left -= 1;
        }
        prop_assert!(world.rests(), "{world:?}");
        prop_assert!(left > 0 && is_silent(&mut world)?, "it is not silent: {}", world.last);
        let last = world.ring.iter().filter_map(|at| world.machines[*at].repaired_at).max();
        let is_repaired = last.is_some_and(|last| world.now.duration_since(last).as_hours() < REMEMBERED);
        prop_assert!(is_repaired || world.factor.is_none() || world.ring.len() == 1, "what was deleted comes back: {world:#?}");
        let wish = world.backups.iter().find(|it| Some(&it.name) == world.wish.as_ref());
        prop_assert!(wish.is_none_or(|it| it.state != BackupState::Running) && wish.is_some() == world.wish.is_some());
    }
}
