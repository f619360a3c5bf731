//! Where pods are put, and the kubelets with the agents' part in taking a configuration.

use super::*;

impl World {
    pub fn control(&mut self) {
        self.set.control(|at| self.machines[at].exists);
    }

    pub fn kubelet(&mut self, index: usize) {
        let Some(at) = self.set.pods[index].at else { return };
        self.set.pods[index].age += 1;
        if let Some(left) = self.set.pods[index].leaving {
            self.stop(at);
            self.set.pods[index].leaving = Some(left - 1);
            return;
        }
        let Pod { template, active, .. } = self.set.pods[index];
        let mounted = self.files.filter(|files| self.contents[*files].member(at).is_some());
        if self.has_agent(template) && self.set.pods[index].takes(mounted) {
            if !self.is_taken_as_it_runs(active) {
                self.stop(at);
            }
            self.set.pods[index].active = mounted;
        }
    }

    /// Whether a server that runs with a configuration goes on with the one that is mounted: who else is a member counts when it starts.
    pub fn is_taken_as_it_runs(&self, active: Option<usize>) -> bool {
        let version = |index: Option<usize>| index.map(|index| self.contents[index].version);
        version(active) == version(self.files)
    }

    pub fn has_agent(&self, template: usize) -> bool {
        self.broken.get(&template) != Some(&Fault::Image)
    }

    /// The content that a pod runs with, if a server can.
    pub fn content(&self, pod: &Pod) -> Option<&Content> {
        let content = &self.contents[pod.active?];
        let is_broken = [pod.template, content.version].iter().any(|it| self.broken.contains_key(it));
        (!is_broken).then_some(content)
    }
}
