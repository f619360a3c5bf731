//! The StatefulSet controller, the scheduler and the kubelets with the agents' part in starting and stopping a server.

use super::*;

/// Steps after which Kubernetes gives a node up that is not heard.
const UNHEARD: usize = 3;

impl World {
    /// Whether Kubernetes has given a node up.
    pub fn is_given_up(&self, at: usize) -> bool {
        self.machines[at].unheard >= UNHEARD
    }

    pub fn pod_at(&self, at: usize) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.at == Some(at))
    }

    pub fn control(&mut self) {
        self.seen = self.set.clone();
        if self.revisions.last() != Some(&self.seen) {
            self.revisions.push(self.seen.clone());
        }
        for pod in self.pods.iter_mut().filter(|pod| pod.ordinal >= self.seen.replicas) {
            pod.leaving.get_or_insert(2);
        }
        // Nobody has to stop what was never put anywhere.
        self.pods.retain(|pod| pod.leaving.is_none() || pod.at.is_some());
        for ordinal in 0..self.seen.replicas {
            if self.pods.iter().all(|pod| pod.ordinal != ordinal) {
                self.uids += 1;
                let (template, revision) = (self.seen.template, self.revisions.len() - 1);
                let (leaving, told, active) = (None, None, None);
                let (uid, at, age) = (self.uids, None, 0);
                self.pods.push(Pod { ordinal, uid, at, template, revision, age, leaving, told, active });
            }
        }
        self.pods.sort_by_key(|pod| pod.ordinal);
        for index in (0..self.pods.len()).filter(|index| self.pods[*index].at.is_none()).collect::<Vec<_>>() {
            let is_free = |at: &usize| self.machines[*at].is_heard() && self.pod_at(*at).is_none();
            let nodes = &self.revisions[self.pods[index].revision].nodes;
            self.pods[index].at = nodes.iter().copied().find(is_free);
        }
    }

    pub fn kubelet(&mut self, index: usize) {
        let Some(at) = self.pods[index].at.filter(|at| self.machines[*at].is_heard()) else { return };
        self.pods[index].age += 1;
        if let Some(left) = self.pods[index].leaving {
            self.pods[index].leaving = Some(left - 1);
            if left == 1 {
                self.stop(at);
            }
            return;
        }
        let own = address(at, self.machines[at].moved);
        let mounted = self.files.get(&at).copied().filter(|it| self.contents[*it].address == own);
        let (told, active) = (self.pods[index].told, self.pods[index].active);
        let wants = told.or(active).or(mounted);
        // Only what is mounted can be taken.
        if wants == active || wants != mounted {
            return;
        }
        self.pods[index].active = mounted;
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
        self.pod_at(at).and_then(|pod| self.content(pod)).is_some_and(|content| content.founds)
    }

    /// Whether a server can run with what a pod has.
    pub fn can_run(&self, pod: &Pod) -> bool {
        let is_whole = |content: &Content| !self.broken.contains(&content.version);
        !self.templates[pod.template].is_broken && self.content(pod).is_some_and(is_whole)
    }
}
