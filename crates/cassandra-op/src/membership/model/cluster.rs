//! Where pods are put, and the kubelets with the agents' part in starting and stopping a server.

use super::*;

/// Steps after which Kubernetes gives a node up that is not heard.
const UNHEARD: usize = 3;

impl World {
    /// Whether Kubernetes has given a node up.
    pub fn is_given_up(&self, at: usize) -> bool {
        self.machines[at].unheard >= UNHEARD
    }

    pub fn control(&mut self) {
        self.set.control(|at| self.machines[at].is_heard());
    }

    pub fn kubelet(&mut self, index: usize) {
        let Some(at) = self.set.pods[index].at.filter(|at| self.machines[*at].is_heard()) else { return };
        self.set.pods[index].age += 1;
        if let Some(left) = self.set.pods[index].leaving {
            self.set.pods[index].leaving = Some(left - 1);
            if left == 1 {
                self.stop(at);
            }
            return;
        }
        let own = address(at, self.machines[at].moved);
        let mounted = self.files.get(&at).copied().filter(|it| self.contents[*it].address == own);
        let active = self.set.pods[index].active;
        if !self.set.pods[index].takes(mounted) {
            return;
        }
        self.set.pods[index].active = mounted;
        let [former, next] = [active, mounted].map(|it| it.map(|it| &self.contents[it]));
        if former.zip(next).is_none_or(|(former, next)| !former.is_taken_for(next)) {
            self.stop(at);
        }
    }

    /// The content that a pod runs with.
    pub fn content(&self, pod: &Pod) -> Option<&Content> {
        Some(&self.contents[pod.active?])
    }

    /// Whether the pod of a machine has what the ring was founded with, with which it does not join.
    pub fn founds(&self, at: usize) -> bool {
        self.set.pod_at(at).and_then(|pod| self.content(pod)).is_some_and(|content| content.founds)
    }

    /// Whether a server can run with what a pod has.
    pub fn can_run(&self, pod: &Pod) -> bool {
        let is_whole = |content: &Content| !self.broken.contains(&content.version);
        !self.templates[pod.template].is_broken && self.content(pod).is_some_and(is_whole)
    }
}
