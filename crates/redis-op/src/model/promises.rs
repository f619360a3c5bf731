//! What is promised: of each step, of what clients were told, and of the end.

use super::*;

impl World {
    pub fn keeps_promises(&self, step: &Step) -> Result<(), TestCaseError> {
        let target = self.set.target(step);
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
            let others = self.set.pods.iter().filter(|pod| pod.uid != target.uid);
            let all = others.clone().all(|pod| pod.own.sentinel.is_some());
            prop_assert!(all, "a Sentinel starts anew while another one does");
        }
        if matches!(step, Step::Ask(..)) || !serves(target) {
            return Ok(());
        }
        let others = self.set.pods.iter().filter(|pod| pod.uid != target.uid);
        let nodes: Vec<usize> = self.recorded.iter().map(|member| machine(&member.node)).collect();
        let is_member = target.at.is_some_and(|at| nodes.contains(&at));
        // One whose node is of no member leaves it to a member that has none.
        let free = others.clone().filter(|pod| pod.at.is_some_and(|at| !nodes.contains(&at))).count()
            + usize::from(!is_member);
        let mut away =
            nodes.into_iter().filter(|at| target.at != Some(*at) && !self.set.pod_at(*at).is_some_and(serves));
        let first = away.nth(if is_member { 0 } else { free });
        // Before one of them was made the one that takes writes there is nothing to stop.
        let is_founded = self.set.pods.iter().any(|pod| pod.own.sentinel.as_ref().is_none_or(|it| it.epoch > 0));
        // While most members have no pods yet those that have wait for them, and one of no member moves.
        let seated = self.recorded.iter().filter(|member| self.set.pod_at(machine(&member.node)).is_some()).count();
        let is_awaited = !is_member && 2 * seated <= self.recorded.len();
        prop_assert!(
            first.is_none() || !is_founded || is_awaited,
            "a member that serves is stopped while {first:?} is away: {step:?} {self:#?}"
        );
        if self.mode == RedisMode::Sentinel {
            let stopped = target.own.server.as_ref().unwrap();
            prop_assert!(stopped.copies.is_some(), "who takes writes is stopped: {step:?} {self:#?}");
            let kept = others.filter_map(|pod| pod.own.server.as_ref()).fold(0, |sum, server| sum | server.data);
            let lost = self.acknowledged & stopped.data & !kept;
            prop_assert!(lost == 0, "what was acknowledged goes with it: {step:?} {self:#?}");
        }
        Ok(())
    }

    /// Whether everything is as wanted.
    pub fn rests(&self) -> bool {
        let matching = self.machines.iter().filter(|machine| machine.exists).count();
        let wanted = match self.mode {
            RedisMode::Independent => self.wanted.unwrap_or(matching),
            RedisMode::Sentinel => self.wanted.unwrap_or(3).min(matching - usize::from(matching.is_multiple_of(2))),
        };
        let members: BTreeSet<usize> = self.recorded.iter().map(|member| machine(&member.node)).collect();
        let pods: BTreeSet<usize> = self.set.nodes().collect();
        let current = self.set.pods.len() == members.len()
            && self.set.pods.iter().all(|pod| pod.is_current(self.template, self.files));
        members.len() == wanted
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

    pub fn keeps_what_was_acknowledged(&self) -> Result<(), TestCaseError> {
        let lost = self.acknowledged & !self.kept();
        prop_assert!(lost == 0, "acknowledged and lost: {lost:b} {self:#?}");
        Ok(())
    }
}
