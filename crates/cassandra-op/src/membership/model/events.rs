//! What happens to a ring that nobody decides, what people ask for, and how all of it ends.

use super::*;

#[derive(Clone, Debug)]
pub enum Event {
    Wanted(usize),
    /// Another image is asked for, of the next line where all data is of one; no server may be able to run with it.
    Template {
        is_next_line: bool,
        is_broken: bool,
    },
    /// One of those that were asked for before is asked for again.
    FormerTemplate(usize),
    /// Another configuration is asked for; no server may be able to run with it.
    Configuration(bool),
    FormerConfiguration(usize),
    /// Something that servers take as they run.
    AgentReport,
    Hibernate,
    Dies(usize),
    Comes,
    /// A node loses its power, or has it back.
    Power(usize),
    /// An agent does not answer for so many steps.
    Silent(usize, usize),
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
    /// A client writes, and the first of so many servers answer.
    Written(usize),
    /// What agents are asked for next is carried out when some steps more have passed.
    Late(usize),
    /// What goes on is cut short.
    AgentEnds(usize),
    /// What goes on fails.
    Fails(usize),
    /// Somebody asks for a backup, or for another one.
    Backup(usize),
    /// So many hours pass.
    Hours(i64),
    /// The operator is killed after so many writes.
    Killed(usize),
    /// Controllers and kubelets do nothing in this step.
    Slow,
    Nothing,
}

pub fn event() -> impl Strategy<Value = Event> {
    let at = || 0_usize..16;
    let template = (prop::bool::weighted(0.5), prop::bool::weighted(0.2));
    prop_oneof![
        2 => (1_usize..6).prop_map(Event::Wanted),
        2 => template.prop_map(|(is_next_line, is_broken)| Event::Template { is_next_line, is_broken }),
        1 => at().prop_map(Event::FormerTemplate),
        1 => prop::bool::weighted(0.3).prop_map(Event::Configuration),
        1 => at().prop_map(Event::FormerConfiguration),
        1 => Just(Event::AgentReport),
        1 => Just(Event::Hibernate),
        1 => at().prop_map(Event::Dies),
        1 => Just(Event::Comes),
        1 => at().prop_map(Event::Power),
        1 => (at(), 1_usize..5).prop_map(|(index, steps)| Event::Silent(index, steps)),
        2 => at().prop_map(Event::Ends),
        1 => at().prop_map(Event::EmptyDisk),
        1 => at().prop_map(Event::Moves),
        1 => at().prop_map(Event::Cramped),
        1 => Just(Event::Roomy),
        1 => Just(Event::Unmounted),
        2 => Just(Event::Mounted),
        1 => (0_usize..5).prop_map(Event::PodDeleted),
        2 => (1_u32..6).prop_map(Event::Keyspace),
        3 => at().prop_map(Event::Written),
        2 => (1_usize..6).prop_map(Event::Late),
        1 => at().prop_map(Event::AgentEnds),
        1 => at().prop_map(Event::Fails),
        1 => (0_usize..4).prop_map(Event::Backup),
        2 => (1_i64..100).prop_map(Event::Hours),
        1 => (0_usize..4).prop_map(Event::Killed),
        1 => Just(Event::Slow),
        24 => Just(Event::Nothing),
    ]
}

impl World {
    pub fn happens(&mut self, event: &Event) {
        let count = self.machines.len();
        match event {
            Event::Wanted(wanted) => self.wanted = *wanted,
            Event::Template { is_next_line, is_broken } => self.asks_for_template(*is_next_line, *is_broken),
            Event::FormerTemplate(index) => self.template = index % self.templates.len(),
            Event::Configuration(is_broken) => {
                self.version = self.versions;
                self.versions += 1;
                self.broken.extend(is_broken.then_some(self.version));
            }
            Event::FormerConfiguration(index) => self.version = index % self.versions,
            Event::AgentReport => self.told += 1,
            Event::Hibernate => self.hibernates = !self.hibernates,
            Event::Dies(index) => {
                let at = index % count;
                if self.can_lose(at) {
                    let Machine { moved, listed, heard, joined, .. } = self.machines[at];
                    self.machines[at] = Machine { moved, listed, heard, joined, ..Machine::default() };
                    self.set.pods.retain(|pod| pod.at != Some(at));
                }
            }
            Event::Comes => self.machines.push(Machine { exists: true, ..Machine::default() }),
            Event::Power(index) => self.has_power(index % count, self.machines[index % count].is_off),
            Event::Silent(index, steps) => self.machines[index % count].silent = *steps,
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
            Event::PodDeleted(index) => self.set.delete_any(*index),
            Event::Keyspace(factor) if self.factor.is_none() && !self.ring.is_empty() => {
                self.factor = Some((*factor).min(self.ring.len() as u32));
            }
            Event::Written(first) => self.is_written_to(*first),
            Event::Late(steps) => self.late.delay(*steps),
            Event::AgentEnds(index) => {
                let machine = &mut self.machines[index % count];
                let ended = machine.doing.take();
                machine.stuck |= matches!(ended, Some((Change::Decommission, ..)));
                machine.failed = None;
                machine.repaired_without.clear();
            }
            Event::Fails(index) => self.fails(index % count),
            Event::Backup(index) => self.wish = (*index > 0).then(|| format!("b{index}")),
            Event::Hours(hours) => self.passes(*hours),
            Event::Killed(writes) => self.writes = WritesLeft(*writes),
            Event::Slow => self.is_slow = true,
            Event::Keyspace(_) | Event::Nothing => {}
        }
    }

    /// Nobody goes on to the next line before all data is of the one before: servers of lines that are further apart do not hear each other.
    fn asks_for_template(&mut self, is_next_line: bool, is_broken: bool) {
        let newest = self.newest_line();
        let is_alike = self.ring.iter().all(|at| self.machines[*at].lines == (newest, newest));
        let line = if is_next_line && is_alike { newest + 1 } else { newest };
        self.template = self.templates.len();
        self.templates.push(Template { line, patch: self.template, is_broken });
    }

    fn newest_line(&self) -> u32 {
        self.ring.iter().map(|at| self.machines[*at].lines.1).max().unwrap_or_default()
    }

    /// Whether all others run and hold everything: what is lost with more than one is nobody's to bring back.
    fn can_lose(&self, at: usize) -> bool {
        let others = self.ring.iter().all(|other| *other == at || self.runs(*other) && self.machines[*other].has_data);
        let has_copies = self.factor.is_none_or(|factor| factor > 1);
        // One that never said where it is now is for a person to take out.
        let can = self.ring.len() > 1 && others && has_copies && self.unrepaired.is_empty() && self.is_known(at);
        !self.ring.contains(&at) || can
    }

    fn has_power(&mut self, at: usize, is_back: bool) {
        self.stop(at);
        self.machines[at].is_off = !is_back;
    }

    fn fails(&mut self, at: usize) {
        let now = self.now;
        let can_fail = |it: &Change| {
            let is_repair = matches!(it, Change::Repair { .. } | Change::RepairWithout { .. });
            is_repair || matches!(it, Change::Backup { .. } | Change::UpgradeSstables)
        };
        let machine = &mut self.machines[at];
        if let Some((of, ..)) = machine.doing.take_if(|(it, ..)| can_fail(it)) {
            machine.failed = Some(Failed { of, why: "no room".into(), at: now });
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
            let Machine { has_data, owner, repaired, repaired_at, lines, has_row, has_left, .. } = *before;
            self.stop(at);
            let machine = &mut self.machines[at];
            (machine.has_data, machine.owner, machine.lines) = (has_data, owner, lines);
            (machine.repaired, machine.repaired_at) = (repaired, repaired_at);
            (machine.has_row, machine.has_left) = (has_row, has_left);
        }
    }

    /// Everything works again, and people ask for what can be.
    pub fn heals(&mut self) {
        self.late.heal();
        (self.writes, self.is_slow, self.hibernates) = (WritesLeft::default(), false, false);
        self.mounts();
        for at in 0..self.machines.len() {
            (self.machines[at].is_off, self.machines[at].silent) = (false, 0);
        }
        self.get_room();
        let nodes = |world: &Self| world.machines.iter().filter(|machine| machine.exists).count();
        while nodes(self) < self.wanted.max(self.record.members.len()) {
            self.happens(&Event::Comes);
        }
        self.sets_back();
    }

    /// What no server runs with is set back to what the last of them ran with.
    fn sets_back(&mut self) {
        let newest = self.newest_line();
        let can_run = |it: &usize| !self.templates[*it].is_broken && self.templates[*it].line >= newest;
        if !can_run(&self.template) {
            let former = (0..self.templates.len()).rev().find(can_run);
            self.template = former.unwrap_or_else(|| {
                self.templates.push(Template { line: newest, patch: self.templates.len(), is_broken: false });
                self.templates.len() - 1
            });
        }
        let last = (0..self.versions).rev().find(|it| !self.broken.contains(it));
        if let Some(last) = last.filter(|_| self.broken.contains(&self.version)) {
            self.version = last;
        }
    }

    /// All servers can start, but for one that is not wanted and has not joined: it is not waited for.
    fn get_room(&mut self) {
        let last = self.set.nodes().last();
        let last = last.filter(|_| self.set.pods.len() == self.record.members.len());
        let is_unwanted = self.record.members.len() > self.wanted;
        for (at, machine) in self.machines.iter_mut().enumerate() {
            machine.cramped &= is_unwanted && last == Some(at) && !self.ring.contains(&at) && !machine.has_data;
        }
    }

    /// A person helps where a member is lost in the middle of a roll-out to another line: nobody is taken out of a ring of two lines, nobody joins one of
    /// another line, and nobody else is stopped while one is away. Before any server has run with the new line the image is set back; after that
    /// pods of the former one are deleted by hand.
    pub fn is_helped(&mut self) {
        if self.record.members.iter().all(|member| self.runs(machine(&member.node))) {
            return;
        }
        self.get_room();
        self.sets_back();
        let newest = self.newest_line();
        let line = self.templates[self.template].line;
        if line > newest {
            let former = (0..self.templates.len()).rev().find(|it| {
                let template = self.templates[*it];
                !template.is_broken && template.line == newest
            });
            self.template = former.unwrap();
        } else if self.is_mixed() {
            let is_former = |pod: &&mut Pod| self.templates[pod.template].line < newest;
            if let Some(pod) = self.set.pods.iter_mut().find(is_former) {
                pod.delete();
            }
        }
    }
}
