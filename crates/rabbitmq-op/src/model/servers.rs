//! Servers: who is in the cluster, what each has on its disk, and what they do when they are asked.

use super::*;

impl World {
    pub fn runs(&self, at: usize) -> bool {
        self.machines[at].server == Server::Running
    }

    pub fn serves(&self, at: usize) -> bool {
        self.runs(at) && !self.machines[at].drained
    }

    /// Whether the cluster can come back from what is on this disk.
    pub fn holds(&self, at: usize) -> bool {
        self.cluster.contains(&at) && self.machines[at].data.is_some()
    }

    pub fn stop(&mut self, at: usize) {
        (self.machines[at].server, self.machines[at].stopped) = (Server::Off, self.time);
    }

    pub fn servers_go_on(&mut self) -> Result<(), TestCaseError> {
        for pod in self.set.pods.clone().iter().filter(|pod| pod.leaving.is_none()) {
            let Some(at) = pod.at else { continue };
            let Machine { server, stopped, .. } = &self.machines[at];
            if matches!(server, Server::Off | Server::Failing) && *stopped < self.time {
                self.start(at, pod)?;
            }
        }
        for at in 0..self.machines.len() {
            if self.set.pod_at(at).is_none() {
                self.machines[at].server = Server::Off;
            } else if self.runs(at) {
                self.machines[at].data = Some(self.cluster.clone());
            }
        }
        self.copy();
        Ok(())
    }

    /// Mirrors take what they lack from one that lacks nothing. Where nobody is left who does not, what they have has to do.
    fn copy(&mut self) {
        let running: Vec<usize> = (0..self.machines.len()).filter(|at| self.runs(*at)).collect();
        let has_whole = running.iter().any(|at| self.is_whole(*at));
        for at in running {
            let copies = &mut self.machines[at].copies;
            *copies = if has_whole { copies.saturating_sub(1) } else { 0 };
        }
    }

    /// Whether a server has all messages of queues with mirrors.
    pub fn is_whole(&self, at: usize) -> bool {
        self.runs(at) && self.machines[at].copies == 0
    }

    fn start(&mut self, at: usize, pod: &Pod) -> Result<(), TestCaseError> {
        if pod.active.is_none() {
            return Ok(());
        }
        self.machines[at].server = Server::Failing;
        let Some(id) = self.content(pod).and_then(|content| content.member(at)) else { return Ok(()) };
        let former = self.machines[at].owner.replace(id).filter(|former| *former != id);
        if former.is_some() {
            // It may have been in the cluster again, with the pod that it kept when its member was struck off.
            let is_held = (0..self.machines.len()).any(|it| it != at && self.holds(it));
            prop_assert!(is_held, "the last data goes: {self:#?}");
            self.machines[at].data = None;
        }
        let has_holder = (0..self.machines.len()).any(|it| self.holds(it));
        let others_run = self.cluster.iter().any(|it| self.runs(*it));
        let is_listed = self.cluster.contains(&at);
        let starts = match &self.machines[at].data {
            None if !has_holder => {
                self.founded += 1;
                prop_assert!(self.founded == 1, "a second cluster is founded: {self:#?}");
                self.cluster = BTreeSet::from([at]);
                true
            }
            None => !is_listed && others_run,
            Some(_) => is_listed,
        };
        if starts {
            self.cluster.insert(at);
            let machine = &mut self.machines[at];
            machine.data = Some(self.cluster.clone());
            (machine.server, machine.drained) = (Server::Running, false);
            machine.copies = if others_run { self.copying } else { 0 };
        }
        Ok(())
    }

    pub fn carry_out(&mut self, step: &Step) {
        let Some((index, Request::Membership(change))) = self.set.carry_out(step) else { return };
        let Pod { at, template, .. } = self.set.pods[index];
        if let Some(at) = at.filter(|at| self.runs(*at)) {
            self.change(at, template, change);
        }
    }

    /// What a server that runs does when its agent is asked.
    fn change(&mut self, at: usize, template: usize, change: &Membership) {
        match change {
            // Refused while it has messages that nobody else has.
            Membership::Leave if !self.has_mirror(at) => {}
            Membership::Leave if std::mem::take(&mut self.is_cut_short) => self.machines[at].drained = true,
            Membership::Leave => self.machines[at].server = Server::Left,
            Membership::Forget { name } => {
                let gone = named(name);
                if !self.runs(gone) {
                    self.cluster.remove(&gone);
                    self.queue.remove(&gone);
                }
            }
            Membership::Grow if self.is_short(at) => {
                self.queue.insert(at);
            }
            Membership::Grow => {}
            Membership::ImportDefinitions => self.has_policy = true,
            Membership::EnableFlags => self.machines[at].flags = Some(template),
        }
    }

    /// Whether another server has all messages, too.
    pub fn has_mirror(&self, but: usize) -> bool {
        (0..self.machines.len()).any(|at| at != but && self.is_whole(at))
    }

    /// Members of the quorum queue that serve, without this one.
    pub fn online(&self, without: usize) -> usize {
        self.queue.iter().filter(|at| self.runs(**at) && **at != without).count()
    }

    /// Whether the quorum queue would have no majority without this server.
    pub fn is_critical(&self, at: usize) -> bool {
        self.cluster.len() > 1 && self.queue.contains(&at) && 2 * self.online(at) <= self.queue.len()
    }

    /// Whether the quorum queue is on too few members and not on this one.
    pub fn is_short(&self, at: usize) -> bool {
        self.has_quorum_queue && self.queue.len() < GROUP.min(self.cluster.len()) && !self.queue.contains(&at)
    }
}
