//! Servers and Sentinels: who copies whom, what each has, and who is elected by more than half.

use super::*;

impl World {
    pub fn starts(&mut self, at: usize) {
        let Some(pod) = self.set.pod_at(at).filter(|pod| pod.leaving.is_none() && !self.machines[at].is_off) else {
            return;
        };
        if pod.template == 0 {
            let server = Server { copies: None, linked: false, data: 0, needs: 0 };
            self.set.pod_at_mut(at).unwrap().own.server = Some(server);
            return;
        }
        let Some(content) = self.content(pod).cloned() else { return };
        let noted = pod.own.noted.filter(|(master, epoch)| *epoch > 0 && content.members.contains(master));
        if self.mode == RedisMode::Sentinel && pod.own.sentinel.is_none() {
            let (master, epoch) = noted.unwrap_or((content.members[0], 0));
            let known = content.members.iter().copied().filter(|other| *other != at).collect();
            let quorum = content.majority();
            let sentinel = Sentinel { master, epoch, known, quorum, missed: 0, settled: 0 };
            self.set.pod_at_mut(at).unwrap().own.sentinel = Some(sentinel);
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
        self.set.pod_at_mut(at).unwrap().own.server = Some(Server { copies, linked: false, data: 0, needs });
    }

    /// `tf-node copy`.
    pub fn start(&self, own: usize, content: &Content) -> Start {
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
    pub fn gossip(&mut self) {
        let all: Vec<(usize, usize, u64)> = self
            .set
            .pods
            .iter()
            .filter_map(|pod| Some((pod.at?, pod.own.sentinel.as_ref()?)))
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
            let pod = self.set.pod_at_mut(*own).unwrap();
            pod.own.noted = Some((master, epoch));
            let sentinel = pod.own.sentinel.as_mut().unwrap();
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
    pub fn voters(&self, own: usize) -> Vec<usize> {
        let known = self.sentinel(own).map(|sentinel| sentinel.known.clone()).unwrap_or_default();
        let others = known.into_iter().chain([own]);
        others.filter(|other| self.reaches(own, *other) && self.sentinel(*other).is_some()).collect()
    }

    pub fn refuses(&self, own: usize) -> Option<String> {
        let sentinel = self.sentinel(own)?;
        let (usable, all) = (self.voters(own).len(), sentinel.known.len() + 1);
        (usable < sentinel.quorum || usable <= all / 2).then(|| "NOQUORUM".to_owned())
    }

    pub fn fail_over(&mut self) {
        let leader = self.set.nodes().find(|own| {
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
    pub fn promote(&mut self, leader: usize, next: usize) {
        let Some(former) = self.sentinel(leader).map(|sentinel| sentinel.master) else { return };
        let voters = self.voters(leader);
        // Sentinels that forgot everything while another one was cut off could give a number that it has, too, and would never agree with it (ADR
        // 0030, "Price"): that is left out.
        self.epochs += 1;
        let epoch = self.epochs;
        for at in voters {
            let pod = self.set.pod_at_mut(at).unwrap();
            pod.own.noted = Some((next, epoch));
            let sentinel = pod.own.sentinel.as_mut().unwrap();
            (sentinel.master, sentinel.epoch, sentinel.missed, sentinel.settled) = (next, epoch, 0, 0);
        }
        for at in self.running().into_iter().filter(|it| self.reaches(leader, *it)).collect::<Vec<_>>() {
            let server = self.server_mut(at).unwrap();
            if at == next {
                (server.copies, server.linked) = (None, false);
            } else if server.copies == Some(former) {
                (server.copies, server.linked) = (Some(next), false);
            }
        }
    }

    /// A Sentinel that sees another server take writes, or one that copies another than it should, for long enough tells it whom to copy.
    pub fn reconfigure(&mut self) {
        let settled = |at: &usize| self.sentinel(*at).is_some_and(|it| it.missed == 0 && it.settled > 3);
        let sentinels: Vec<usize> = self.set.nodes().filter(settled).collect();
        for own in sentinels {
            let master = self.sentinel(own).unwrap().master;
            let others = self.running().into_iter().filter(|it| *it != master && self.reaches(own, *it));
            for other in others.collect::<Vec<_>>() {
                let server = self.server_mut(other).unwrap();
                if server.copies != Some(master) {
                    (server.copies, server.linked) = (Some(master), false);
                }
            }
        }
    }

    pub fn copy(&mut self) {
        for at in self.running() {
            let Some(master) = self.server(at).and_then(|server| server.copies) else { continue };
            let data = self.server(master).filter(|_| self.reaches(at, master)).map(|server| server.data);
            let lags = self.machines[at].lags;
            let server = self.server_mut(at).unwrap();
            match data {
                None => server.linked = false,
                Some(_) if lags => {}
                Some(data) => (server.data, server.linked) = (data, true),
            }
        }
    }

    /// Clients write wherever they are let, and wait for as many copies as are half of the servers, those that leave among them until they are gone.
    pub fn write(&mut self) -> Result<(), TestCaseError> {
        if self.mode == RedisMode::Independent || !self.is_busy {
            return Ok(());
        }
        let waits = self.recorded.len().max(self.set.pods.len()) / 2;
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
                self.server_mut(*at).unwrap().data |= write;
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
    pub fn step_down(&mut self, own: usize, is_stopped: bool) -> bool {
        let Some(server) = self.server(own).cloned() else { return true };
        if server.copies.is_some() || self.mode == RedisMode::Independent {
            return true;
        }
        let copies = self.linked_to(own);
        let pod = self.set.pod_at(own).unwrap();
        let members = pod.active.map(|active| self.contents[active].members.clone()).unwrap_or_default();
        let others: Vec<usize> = members.into_iter().filter(|it| *it != own).collect();
        let answers = |it: &&usize| self.reaches(own, **it) && self.server(**it).is_some();
        let has_all = |it: &usize| copies.contains(it) && self.server(*it).is_some_and(|it| it.data == server.data);
        if copies.is_empty() || !others.iter().filter(answers).chain(&copies).all(has_all) {
            return false;
        }
        let begins = |it: &usize| self.reaches(own, *it) && self.sentinel(*it).is_some_and(|it| it.master == own);
        let Some(leader) = others.iter().copied().chain((!is_stopped).then_some(own)).find(begins) else {
            return false;
        };
        // The Sentinel may go by what a server had before it started anew.
        let is_running = |it: &&usize| self.reaches(leader, **it) && self.server(**it).is_some();
        let chosen = others.iter().filter(is_running).chain(&copies);
        let next = *chosen.min_by_key(|it| self.server(**it).map(|server| bytes(server.data))).unwrap();
        self.promote(leader, next);
        let server = self.server_mut(own).unwrap();
        (server.copies, server.linked) = (Some(next), false);
        true
    }
}
