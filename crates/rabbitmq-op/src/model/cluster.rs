//! The StatefulSet controller, the scheduler and the kubelets, with the agents' part in taking a configuration.

use super::*;

impl World {
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
                });
            }
        }
        self.pods.sort_by_key(|pod| pod.ordinal);
        for index in 0..self.pods.len() {
            if self.pods[index].at.is_none() {
                let is_free = |at: &usize| self.machines[*at].exists && self.pod_at(*at).is_none();
                let nodes = &self.revisions[self.pods[index].revision].nodes;
                self.pods[index].at = nodes.iter().copied().find(is_free);
            }
        }
    }

    pub fn kubelet(&mut self, index: usize) {
        let Some(at) = self.pods[index].at else { return };
        self.pods[index].age += 1;
        if let Some(left) = self.pods[index].leaving {
            self.stop(at);
            self.pods[index].leaving = Some(left - 1);
            return;
        }
        let Pod { told, active, template, .. } = self.pods[index];
        let wants = told.or(active).or(self.files);
        let mounted = self.files.map(|files| &self.contents[files]);
        // Only what is mounted can be taken.
        let is_mounted = wants == self.files && mounted.is_some_and(|content| content.member(at).is_some());
        if wants != active && is_mounted && self.has_agent(template) {
            if !self.is_taken_as_it_runs(active) {
                self.stop(at);
            }
            self.pods[index].active = self.files;
        }
    }

    /// Whether a server that runs with a configuration goes on with the one that is mounted: who else is a member counts when it starts.
    pub fn is_taken_as_it_runs(&self, active: Option<usize>) -> bool {
        let version = |index: Option<usize>| index.map(|index| self.contents[index].version);
        version(active) == version(self.files)
    }

    pub fn has_agent(&self, template: u32) -> bool {
        self.broken.get(&template) != Some(&Fault::Image)
    }

    /// The content that a pod runs with, if a server can.
    pub fn content(&self, pod: &Pod) -> Option<&Content> {
        let content = &self.contents[pod.active?];
        let is_broken = [pod.template, content.version].iter().any(|it| self.broken.contains_key(it));
        (!is_broken).then_some(content)
    }
}
