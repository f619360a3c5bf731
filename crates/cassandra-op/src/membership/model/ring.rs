//! Servers: how they start, join, work and leave, and what they do of what they are asked for.

use super::*;

impl World {
    /// Whether the ring has a machine at the address that it has now.
    pub fn is_known(&self, at: usize) -> bool {
        let Machine { moved, listed, .. } = self.machines[at];
        !self.ring.contains(&at) || moved == listed
    }

    pub fn host_id(&self, at: usize) -> String {
        format!("{}-{}", node(at), self.machines[at].joined)
    }

    pub fn runs(&self, at: usize) -> bool {
        self.machines[at].runs()
    }

    pub fn all_run(&self) -> bool {
        self.all_run_without(&BTreeSet::new())
    }

    /// The template that the server on a machine runs with.
    pub fn runs_with(&self, at: usize) -> Option<Template> {
        self.set.pod_at(at).filter(|_| self.runs(at)).map(|pod| self.templates[pod.template])
    }

    /// Whether servers of the ring that run are of several lines.
    pub fn is_mixed(&self) -> bool {
        let lines: BTreeSet<u32> = self.ring.iter().filter_map(|at| Some(self.runs_with(*at)?.line)).collect();
        lines.len() > 1
    }

    /// Whether a server of the ring has files of an earlier line than it is of, which nobody takes.
    pub fn has_old_files(&self) -> bool {
        let is_old = |at: &usize| self.runs_with(*at).is_some_and(|it| self.machines[*at].lines.0 < it.line);
        self.ring.iter().any(is_old)
    }

    /// Whether members can fetch from each other what they hold.
    pub fn exchanges(&self) -> bool {
        self.exchanges_without(&BTreeSet::new())
    }

    /// Whether the ring knows a machine by one of these.
    pub fn is_of(&self, at: usize, ids: &BTreeSet<String>) -> bool {
        ids.contains(&self.host_id(at))
    }

    /// Whether all but these run.
    pub fn all_run_without(&self, absent: &BTreeSet<String>) -> bool {
        self.ring.iter().all(|at| self.runs(*at) || self.is_of(*at, absent))
    }

    /// Whether all but these can fetch from each other what they hold.
    fn exchanges_without(&self, absent: &BTreeSet<String>) -> bool {
        self.all_run_without(absent) && !self.is_mixed() && !self.has_old_files()
    }

    /// How often the one was heard that the ring knows by this.
    pub fn heard(&self, host_id: &str) -> usize {
        let known = self.ring.iter().find(|at| self.host_id(**at) == host_id);
        known.map_or(0, |at| self.machines[*at].heard)
    }

    /// All but these have the row that one of them has.
    fn spreads_row(&mut self, absent: &BTreeSet<String>) {
        let all: Vec<usize> = self.ring.iter().copied().filter(|at| !self.is_of(*at, absent)).collect();
        let has_row = all.iter().any(|at| self.machines[*at].has_row);
        for at in all {
            self.machines[at].has_row = has_row;
        }
    }

    /// A client writes a row with a quorum, which the others have not got for the time being.
    pub fn is_written_to(&mut self, first: usize) {
        let Some(quorum) = self.quorum() else { return };
        let running: Vec<usize> = self.ring.iter().copied().filter(|at| self.runs(*at)).collect();
        if running.len() < quorum || self.ring.len() != self.factor.unwrap_or_default() as usize {
            return;
        }
        for machine in &mut self.machines {
            machine.has_row = false;
            machine.unmounted.iter_mut().for_each(|machine| machine.has_row = false);
        }
        for index in 0..quorum {
            self.machines[running[(first + index) % running.len()]].has_row = true;
        }
        self.is_written = true;
    }

    /// How many members have to acknowledge a row, where each is to be on every one.
    pub fn quorum(&self) -> Option<usize> {
        let factor = self.factor.filter(|factor| *factor as usize >= self.ring.len())?;
        Some(factor as usize / 2 + 1)
    }

    pub fn stop(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        (machine.server, machine.joining, machine.serves) = (Server::Off, None, 0);
        // The agent is started anew with it, as in most cases.
        (machine.doing, machine.stuck, machine.failed) = (None, false, None);
        machine.repaired_without.clear();
    }

    /// What a server does in a step.
    pub fn serves(&mut self, index: usize) {
        let Some(at) = self.set.pods[index].at.filter(|at| self.machines[*at].is_heard()) else { return };
        self.works(at);
        let is_old_place = self.content(&self.set.pods[index]).is_some_and(|it| it.address != self.address(at));
        if is_old_place && self.machines[at].server == Server::Running {
            self.stop(at);
        }
        if let Some(steps) = self.machines[at].joining {
            self.joins(at, index, steps);
        } else if matches!(self.machines[at].server, Server::Off | Server::Failing) {
            if self.set.pods[index].leaving.is_none() && self.set.pods[index].active.is_some() {
                self.start(at, index);
            }
        } else {
            self.machines[at].serves += 1;
            self.machines[at].heard += 1;
        }
    }

    pub fn address(&self, at: usize) -> String {
        address(at, self.machines[at].moved)
    }

    fn start(&mut self, at: usize, index: usize) {
        let pod = self.set.pods[index].clone();
        let content = self.content(&pod).unwrap().clone();
        self.machines[at].server = Server::Failing;
        if content.address != self.address(at) {
            return;
        }
        let Machine { owner, renumbered, .. } = self.machines[at];
        let is_renumbered = owner.is_some_and(|owner| renumbered == Some((pod.uid, content.id, owner)));
        if !is_renumbered && self.machines[at].owner.replace(content.id).is_some_and(|former| former != content.id) {
            assert!(!self.ring.contains(&at), "data of a member of the ring goes");
            self.machines[at].loses_data();
        }
        let Template { line, .. } = self.templates[pod.template];
        let Machine { has_data, cramped, lines: (_, newest), .. } = self.machines[at];
        if cramped || !self.can_run(&pod) || has_data && newest > line {
            return;
        }
        match (self.ring.contains(&at), has_data) {
            (true, true) => {
                let machine = &mut self.machines[at];
                machine.lines.1 = line;
                (machine.listed, machine.server) = (machine.moved, Server::Running);
            }
            // Its agent starts no founder that has lost what it served with. Who has nothing fetches it from all others.
            (false, false) if !content.founds && self.takes_in(line) => {
                (self.machines[at].server, self.machines[at].joining) = (Server::Off, Some(1));
            }
            _ => {}
        }
    }

    /// Whether a server of this line can fetch from all members what they hold.
    fn takes_in(&self, line: u32) -> bool {
        self.exchanges() && self.ring.iter().all(|at| self.runs_with(*at).is_some_and(|it| it.line == line))
    }

    fn joins(&mut self, at: usize, index: usize, steps: usize) {
        let Template { line, .. } = self.templates[self.set.pods[index].template];
        if !self.takes_in(line) {
            (self.machines[at].server, self.machines[at].joining) = (Server::Failing, None);
        } else if steps > 0 {
            self.machines[at].joining = Some(steps - 1);
        } else {
            let fetches_row = self.ring.iter().all(|at| self.machines[*at].has_row);
            self.ring.push(at);
            if self.factor.is_some() {
                self.unrepaired.insert(at);
            }
            let machine = &mut self.machines[at];
            (machine.server, machine.joining, machine.serves) = (Server::Running, None, 0);
            (machine.listed, machine.lines) = (machine.moved, (line, line));
            (machine.joined, machine.has_row) = (machine.joined + 1, fetches_row);
            machine.has_data = true;
            // Its agent looks who is recorded now: it may have been struck off meanwhile, and another one in its place.
            let recorded = self.files.get(&at).map(|mounted| self.contents[*mounted].id).or(machine.owner);
            let Pod { uid, .. } = self.set.pods[index];
            machine.renumbered = machine.owner.zip(recorded).map(|(former, owner)| (uid, former, owner));
            machine.owner = recorded;
        }
    }

    /// What goes on comes nearer to its end.
    fn works(&mut self, at: usize) {
        let Some((change, steps, begun)) = self.machines[at].doing.take() else { return };
        if steps > 0 {
            self.machines[at].doing = Some((change, steps - 1, begun));
            return;
        }
        match change {
            Change::Repair { factor, routine, .. } if self.exchanges() && self.factor == Some(factor) => {
                self.machines[at].repaired_at = Some(begun);
                self.spreads_row(&BTreeSet::new());
                if !routine {
                    self.machines[at].repaired = Some(factor);
                    self.unrepaired.remove(&at);
                }
            }
            Change::RepairWithout { factor, absent, .. }
                if self.exchanges_without(&absent) && self.factor == Some(factor) =>
            {
                self.spreads_row(&absent);
                self.machines[at].repaired_without = std::mem::take(&mut self.machines[at].repairs_without);
            }
            Change::Repair { .. } | Change::RepairWithout { .. } => {
                self.machines[at].failed = Some(Failed { of: change, why: "others".into(), at: self.now });
            }
            Change::Backup { of, members, .. } => {
                let members = members.into_iter().map(|(id, _)| id).collect();
                self.machines[at].saved.insert(of.name, members);
            }
            Change::Decommission if self.exchanges() => {
                self.ring.retain(|other| *other != at);
                self.unrepaired.remove(&at);
                (self.machines[at].server, self.machines[at].has_left) = (Server::Left, true);
            }
            Change::Decommission => self.machines[at].stuck = true,
            Change::Remove { host_id } => {
                let gone = self.ring.iter().copied().find(|other| self.host_id(*other) == host_id);
                self.ring.retain(|other| Some(*other) != gone);
                self.unrepaired.retain(|other| Some(*other) != gone);
            }
            Change::UpgradeSstables => {
                if let Some(Template { line, .. }) = self.runs_with(at) {
                    self.machines[at].lines.0 = line;
                }
            }
            _ => {}
        }
    }

    /// What an agent does of what it is asked for.
    pub fn is_asked(&mut self, at: usize, change: &Change) {
        if !self.runs(at) || !self.machines[at].is_heard() || self.machines[at].doing.is_some() {
            return;
        }
        match change {
            Change::Replicate { from, to, .. } if self.factor == Some(*from) => {
                (self.factor, self.unrepaired) = (Some(*to), self.ring.iter().copied().collect());
                self.is_written = false;
            }
            Change::Replicate { .. } => {}
            Change::Repair { factor, .. } if self.factor != Some(*factor) => {}
            Change::Decommission if self.factor.is_some_and(|factor| factor as usize >= self.ring.len()) => {}
            Change::Remove { host_id }
                if self.ring.iter().any(|it| self.host_id(*it) == *host_id && self.runs(*it)) => {}
            Change::RepairWithout { factor, absent, .. }
                if self.factor != Some(*factor)
                    || self.ring.iter().any(|it| self.runs(*it) && self.is_of(*it, absent)) => {}
            change => {
                if let Change::RepairWithout { absent, .. } = change {
                    self.machines[at].repairs_without = absent.iter().map(|id| (id.clone(), self.heard(id))).collect();
                }
                self.machines[at].doing = Some((change.clone(), 2, self.now));
                self.machines[at].failed = None;
            }
        }
    }
}
