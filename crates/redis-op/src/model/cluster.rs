//! Where pods are put, and the kubelets with the agents' part in starting and stopping a server.

use super::*;

impl World {
    pub fn control(&mut self) {
        self.set.control(|at| self.machines[at].is_heard());
    }

    pub fn kubelet(&mut self, index: usize) {
        let Some(at) = self.set.pods[index].at.filter(|at| self.is_heard(*at)) else { return };
        self.set.pods[index].age += 1;
        if let Some(left) = self.set.pods[index].leaving {
            // `tf-node step-down`, before the server is stopped.
            let has_gone = self.set.pods[index].is_just_deleted() && self.step_down(at, true);
            self.set.pods[index].leaving = Some(if has_gone { 0 } else { left - 1 });
            return;
        }
        let mounted = self.files.filter(|files| self.contents[*files].members.contains(&at));
        let pod = &mut self.set.pods[index];
        if pod.takes(mounted) {
            let size = |content: usize| (self.contents[content].version, self.contents[content].majority());
            if pod.active.map(size) != mounted.map(size) {
                pod.own.server = None;
            }
            pod.own.sentinel = None;
            pod.active = mounted;
        }
    }

    /// The content that a pod runs with, if a server can.
    pub fn content(&self, pod: &Pod) -> Option<&Content> {
        let content = &self.contents[pod.active?];
        (!self.broken.contains(&pod.template) && !self.broken.contains(&content.version)).then_some(content)
    }
}
