//! A model of a ring and of everything that happens to it, and the decisions walking through it: who is a member, what runs on the members, what is
//! repaired and what is written to a backup.
//!
//! The model plays Cassandra (who is in the ring, on how many members a keyspace is to be, who has repaired it and when, which files and servers of
//! other releases are understood), the node agents, the StatefulSet controller and the scheduler, and the world: nodes die or lose their power, disks are
//! emptied, servers end, requests are carried out late or fail, time passes, clients make keyspaces, people change their minds about size, image,
//! configuration and hibernation, and some of what they ask for can never run. After each step the promises are checked; at the end the world
//! rests, and the wish has to come true.

mod cluster;
mod events;
mod promises;
mod ring;
mod sight;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use tf_agent_api::cassandra::{Change, Failed};
use tf_api::{BackupStatus, contract::MemberStatus};
use tf_plan::{
    observed,
    plan::Plan,
    resize::Record,
    step::{Request, Step},
};
use tf_testing::{
    model::{Late, Pod, Server, Spec, StatefulSet, WritesLeft, hash, machine, node, numbered},
    model_runs,
};

use self::events::event;

const DISTURBANCES: usize = 60;
/// Steps after which an undisturbed ring is as wanted.
const PATIENCE: usize = 500;
/// About 100,000 states.
const WALKS: u32 = 900;
const SET: &str = "configdb1-cassandra-statefulset";
const KEYSPACE: &str = "config_db_uuid";
/// Hours for which deletions are remembered, after which share of them a repair is due, and how long it may take until it is asked for where
/// nothing else goes on: the last one may have failed an hour ago.
const REMEMBERED: i64 = 240;
const DUE: i64 = 168;
const SOON: i64 = 6;

/// A node with its disk, and the server of the pod that is on it.
#[derive(Clone, Debug, Default)]
struct Machine {
    exists: bool,
    /// It has no power.
    is_off: bool,
    /// Steps for which it was not heard.
    unheard: usize,
    /// Steps for which its agent does not answer.
    silent: usize,
    /// How often its address was changed, and how often as the ring has it.
    moved: usize,
    listed: usize,
    /// Whether its server cannot start: it has no room, say.
    cramped: bool,
    /// What is on its disk while that is not mounted.
    unmounted: Option<Box<Machine>>,
    server: Server,
    /// Steps until its server has joined, while it does.
    joining: Option<usize>,
    /// Steps for which its server serves.
    serves: usize,
    has_data: bool,
    /// Whether it left the ring with that.
    has_left: bool,
    /// Lines of releases: of the oldest file on its disk, and of the newest.
    lines: (u32, u32),
    /// The member that the data is of.
    owner: Option<u32>,
    /// The pod in which the data was fetched as that of one member, and became that of another one, with both.
    renumbered: Option<(u32, u32, u32)>,
    repaired: Option<u32>,
    repaired_at: Option<Timestamp>,
    /// Whether it has the row that was acknowledged last.
    has_row: bool,
    /// How often it was heard.
    heard: usize,
    /// What was heard of those without whom it has repaired, and of those without whom it does.
    repaired_without: BTreeMap<String, usize>,
    repairs_without: BTreeMap<String, usize>,
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

impl Machine {
    fn loses_data(&mut self) {
        (self.has_data, self.repaired, self.repaired_at) = (false, None, None);
        (self.has_row, self.has_left) = (false, false);
    }

    fn is_heard(&self) -> bool {
        self.exists && !self.is_off
    }

    fn runs(&self) -> bool {
        self.server == Server::Running
    }
}

/// What pods are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Template {
    /// The line of its release, and which of that line it is.
    line: u32,
    patch: usize,
    /// Whether no server can run with it.
    is_broken: bool,
}

impl Template {
    fn release(self) -> String {
        format!("4.{}.{}", self.line, self.patch)
    }
}

/// The files of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    /// Of what a server has to be started anew for.
    version: usize,
    founds: bool,
    seeds: Vec<String>,
    address: String,
    /// Of what it is told as it runs.
    told: usize,
    id: u32,
    others: Vec<u32>,
}

impl Content {
    /// Whether a server that runs with one takes the other one as it runs.
    fn is_taken_for(&self, other: &Self) -> bool {
        let hard = |it: &Self| (it.version, it.address.clone());
        hard(self) == hard(other)
    }
}

#[derive(Debug)]
struct World {
    machines: Vec<Machine>,
    wanted: usize,
    hibernates: bool,
    templates: Vec<Template>,
    /// The template that is asked for.
    template: usize,
    /// The configuration that is asked for: of what servers are started anew for, and of what they are told.
    version: usize,
    told: usize,
    versions: usize,
    /// Versions that no server can run with.
    broken: BTreeSet<usize>,
    record: Record,
    set: StatefulSet,
    contents: Vec<Content>,
    /// What is mounted, of the member on each machine.
    files: BTreeMap<usize, usize>,
    /// Who is in the ring, as its servers have it.
    ring: Vec<usize>,
    factor: Option<u32>,
    /// Whether a row was acknowledged since the number was changed.
    is_written: bool,
    /// Who has not repaired since the number was changed, or since it joined.
    unrepaired: BTreeSet<usize>,
    late: Late,
    now: Timestamp,
    /// The backup that is asked for, and the status of all that were.
    wish: Option<String>,
    backups: Vec<BackupStatus>,
    writes: WritesLeft,
    /// Controllers and kubelets do nothing in this step.
    is_slow: bool,
    /// Since when nothing has been in the way of a repair.
    calm_since: Timestamp,
    /// What was decided last.
    last: String,
}

fn address(at: usize, moved: usize) -> String {
    format!("10.0.{moved}.{at}")
}

impl World {
    /// A ring that was founded.
    fn new(machines: usize, members: usize) -> Self {
        let first = Template { line: 0, patch: 0, is_broken: false };
        let spec = Spec { replicas: members, template: 0, nodes: (0..members).collect() };
        let mut world = Self {
            machines: vec![Machine { exists: true, ..Machine::default() }; machines.max(members)],
            wanted: members,
            hibernates: false,
            templates: vec![first],
            template: 0,
            version: 0,
            told: 0,
            versions: 1,
            broken: BTreeSet::new(),
            record: Record::default(),
            set: StatefulSet::new(SET, spec),
            contents: Vec::new(),
            files: BTreeMap::new(),
            ring: (0..members).collect(),
            factor: None,
            is_written: false,
            unrepaired: BTreeSet::new(),
            late: Late::default(),
            now: Timestamp::UNIX_EPOCH,
            wish: None,
            backups: Vec::new(),
            writes: WritesLeft::default(),
            is_slow: false,
            calm_since: Timestamp::UNIX_EPOCH,
            last: String::new(),
        };
        for at in 0..members {
            let place = world.place(at);
            world.record.add(&place);
            (world.machines[at].has_data, world.machines[at].owner) = (true, Some(at as u32 + 1));
        }
        let founding = world.contents_of(&world.record.members.clone(), true);
        world.files = founding.into_iter().map(|(at, content)| (at, numbered(&mut world.contents, content))).collect();
        world.control();
        for index in 0..members {
            world.kubelet(index);
        }
        world
    }

    fn place(&self, at: usize) -> observed::Node {
        let labels = [("node-role.kubernetes.io/control-plane".to_owned(), String::new())].into();
        let address = Some(address(at, self.machines[at].moved));
        observed::Node {
            name: node(at),
            address,
            labels,
            unreachable: self.is_given_up(at),
            ..observed::Node::default()
        }
    }

    fn passes(&mut self, hours: i64) {
        self.now += SignedDuration::from_hours(hours);
    }

    /// What controllers, kubelets, agents and servers do.
    fn goes_on(&mut self) -> Result<(), TestCaseError> {
        self.passes(1);
        if let Some(step) = self.late.due() {
            self.carry_out(&step);
        }
        for machine in &mut self.machines {
            machine.silent = machine.silent.saturating_sub(1);
            machine.unheard = if machine.is_off { machine.unheard + 1 } else { 0 };
        }
        if !std::mem::take(&mut self.is_slow) {
            self.control();
            for index in 0..self.set.pods.len() {
                self.kubelet(index);
            }
            self.set.pods.retain(|pod| pod.leaving != Some(0));
        }
        for index in 0..self.set.pods.len() {
            self.serves(index);
        }
        self.keeps_data()?;
        self.keeps_rows()
    }

    /// One pass of the operator. Whether there is something left to do.
    fn decides(&mut self) -> Result<bool, TestCaseError> {
        let observed = self.observe();
        let Planned { plan, record, spec, contents } = self.plan(&observed);
        let mut writes = std::mem::take(&mut self.writes);
        self.last = format!("{:?} {:?} {:?}", plan.step, plan.under_way, plan.troubles);
        let backups = sight::backups_of(&plan);
        self.keeps_members(&record)?;
        self.keeps_backups(&backups)?;
        prop_assert!(!self.is_repair_missed(&plan), "a repair is due and is not asked for: {self:#?}");
        let is_idle = plan.step.is_none() && plan.under_way.is_none() && plan.troubles.is_empty();
        let mut is_quiet = is_idle && record == self.record && backups == self.backups;
        if (&record, &backups) != (&self.record, &self.backups) {
            let Some(()) = writes.spend() else { return Ok(true) };
            (self.record, self.backups) = (record, backups);
        }
        // A step rests on what was observed; what this pass changes has to be observed first.
        let files = contents.into_iter().map(|(at, content)| (at, numbered(&mut self.contents, content))).collect();
        let Some(is_mounted) = writes.write(&mut self.files, files) else { return Ok(true) };
        self.keeps_awake(&spec)?;
        let Some(is_applied) = writes.write(&mut self.set.spec, spec) else { return Ok(true) };
        let is_settled = !is_mounted && !is_applied;
        is_quiet &= is_settled;
        let Some(step) = plan.step.filter(|_| is_settled) else { return Ok(!is_quiet) };
        let Some(()) = writes.spend() else { return Ok(true) };
        self.keeps_promises(&step)?;
        if let Some(step) = self.late.ask(step) {
            self.carry_out(&step);
        }
        Ok(true)
    }

    fn carry_out(&mut self, step: &Step) {
        let Some((index, Request::Ring(change))) = self.set.carry_out(step) else { return };
        let Pod { at, leaving, .. } = self.set.pods[index];
        if let Some(at) = at.filter(|_| leaving.is_none()) {
            self.is_asked(at, change);
        }
    }
}

/// What the operator makes of what it sees.
struct Planned {
    plan: Plan,
    record: Record,
    spec: Spec,
    /// Of the member on each machine.
    contents: BTreeMap<usize, Content>,
}

proptest! {
    #![proptest_config(model_runs::same(WALKS))]

    #[test]
    fn whatever_happens_no_row_is_lost_or_comes_back_and_in_the_end_the_ring_is_as_wished(
        machines in 1_usize..6, members in 1_usize..6, events in prop::collection::vec(event(), DISTURBANCES),
    ) {
        let mut world = World::new(machines, members);
        for event in &events {
            world.happens(event);
            world.goes_on()?;
            world.decides()?;
        }
        world.heals();
        let mut left = PATIENCE;
        // A week passes, and repairs come round.
        for pause in [0, DUE + 1] {
            world.passes(pause);
            let mut quiet = 0;
            while left > 0 && quiet < 2 {
                world.goes_on()?;
                quiet = if !world.decides()? && !world.is_busy() && world.rests() { quiet + 1 } else { 0 };
                left -= 1;
                if left < PATIENCE - 60 && left.is_multiple_of(20) {
                    world.is_helped();
                }
            }
        }
        prop_assert!(left > 0, "it is not as wished: {world:#?}");
        world.keeps_what_is_deleted()?;
    }
}
