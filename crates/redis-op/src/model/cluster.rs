//! The StatefulSet controller, the scheduler and the kubelets with the agents' part in starting and stopping a server.

use super::*;

impl World {
    pub fn control(&mut self) {
        self.seen = self.set.clone();
        if self.revisions.last() != Some(&self.seen) {
            self.revisions.push(self.seen.clone());
        }
        let machines = &self.machines;
        self.pods.retain(|pod| pod.at.is_none_or(|at| machines[at].exists));
        for pod in self.pods.iter_mut().filter(|pod| pod.ordinal >= self.seen.replicas) {
            pod.leaving.get_or_insert(2);
        }
        // Nobody has to stop what was never put anywhere.
        self.pods.retain(|pod| pod.leaving.is_none() || pod.at.is_some());
        for ordinal in 0..self.seen.replicas {
            if self.pods.iter().all(|pod| pod.ordinal != ordinal) {
                self.uids += 1;
                self.pods.push(Pod {
                    ordinal,
                    uid: self.uids,
                    at: None,
                    template: self.seen.template,
                    revision: self.revisions.len() - 1,
                    age: 0,
                    leaving: None,
                    told: None,
                    active: None,
                    noted: None,
                    server: None,
                    sentinel: None,
                });
            }
        }
        self.pods.sort_by_key(|pod| pod.ordinal);
        for index in (0..self.pods.len()).filter(|index| self.pods[*index].at.is_none()).collect::<Vec<_>>() {
            let is_free = |at: &usize| self.is_heard(*at) && self.pod_at(*at).is_none();
            let nodes = &self.revisions[self.pods[index].revision].nodes;
            self.pods[index].at = nodes.iter().copied().find(is_free);
        }
    }

    pub fn kubelet(&mut self, index: usize) {
        let Some(at) = self.pods[index].at.filter(|at| self.is_heard(*at)) else { return };
        self.pods[index].age += 1;
        if let Some(left) = self.pods[index].leaving {
            // `tf-node step-down`, before the server is stopped.
            let has_gone = left == 2 && self.step_down(at, true);
            self.pods[index].leaving = Some(if has_gone { 0 } else { left - 1 });
            return;
        }
        let files = self.files;
        let content = |index: Option<usize>| index.map(|index: usize| self.contents[index].clone());
        let (told, active) = (self.pods[index].told, self.pods[index].active);
        let wants = told.or(active).or(files);
        // Only what is mounted can be taken.
        if wants != active && wants == files && content(files).is_some_and(|it| it.members.contains(&at)) {
            let (former, next) = (content(active), content(files));
            let pod = &mut self.pods[index];
            pod.active = files;
            let size = |content: &Option<Content>| content.as_ref().map(|it| (it.version, it.majority()));
            if size(&former) != size(&next) {
                pod.server = None;
            }
            pod.sentinel = None;
        }
    }

    /// The content that a pod runs with, if a server can.
    pub fn content(&self, pod: &Pod) -> Option<&Content> {
        let content = &self.contents[pod.active?];
        (!self.broken.contains(&pod.template) && !self.broken.contains(&content.version)).then_some(content)
    }
}
