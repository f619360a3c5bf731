//! A StatefulSet with its pods: what its controller and the scheduler make of what the operator applies, and how the operator sees them.

use std::collections::BTreeMap;

use tf_api::contract::MemberStatus;
use tf_plan::{
    observed::{self, Certificate, Observed, Workload},
    plan::{Hibernation, Plan, Rollout},
    rollout,
    step::{Request, Step},
};

use super::{content, hash, machine, node};

/// Steps until a pod is gone that is deleted.
const GRACE: usize = 2;

/// What a StatefulSet is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// Pods wanted.
    pub replicas: usize,
    /// What pods are made from.
    pub template: usize,
    /// Where they may be, the first one that is free before the others.
    pub nodes: Vec<usize>,
}

impl Spec {
    /// A pod on the node of each member, and none while they are asleep.
    pub fn of(members: &[MemberStatus], template: usize, is_asleep: bool) -> Self {
        let nodes: Vec<usize> = members.iter().map(|member| machine(&member.node)).collect();
        Self { replicas: if is_asleep { 0 } else { nodes.len() }, template, nodes }
    }
}

/// A pod. Nodes, templates, revisions and contents are known by their numbers.
#[derive(Clone, Debug)]
pub struct Pod<T = ()> {
    /// Its place in the set.
    pub ordinal: usize,
    /// No other pod has or had it.
    pub uid: u32,
    /// Its node, once it has one.
    pub at: Option<usize>,
    /// What it was made from.
    pub template: usize,
    /// Revision of the set that it was made from, which says where it may be.
    pub revision: usize,
    /// Steps of its kubelet so far.
    pub age: usize,
    /// Steps of its kubelet until it is gone, where it is deleted.
    pub leaving: Option<usize>,
    /// The content that its agent is told to run.
    pub told: Option<usize>,
    /// The content that it runs with.
    pub active: Option<usize>,
    /// What runs in it, where its store plays that by pods.
    pub own: T,
}

impl<T> Pod<T> {
    /// Deletes it. What runs in it has some steps left.
    pub fn delete(&mut self) {
        self.leaving.get_or_insert(GRACE);
    }

    /// Whether it is deleted and its kubelet has done nothing about that yet.
    pub fn is_just_deleted(&self) -> bool {
        self.leaving == Some(GRACE)
    }

    /// Whether its agent changes over to what is mounted: nothing else can be taken.
    pub fn takes(&self, mounted: Option<usize>) -> bool {
        let wants = self.told.or(self.active).or(mounted);
        wants != self.active && wants == mounted
    }

    /// Whether it was made from this template, runs with this content and stays so.
    pub fn is_current(&self, template: usize, content: Option<usize>) -> bool {
        let is_told = self.told.is_none() || self.told == content;
        self.template == template && self.active == content && is_told && self.leaving.is_none()
    }
}

/// A StatefulSet with its pods.
#[derive(Debug)]
pub struct StatefulSet<T = ()> {
    name: &'static str,
    /// What the operator applied last.
    pub spec: Spec,
    /// What the controller has seen of it.
    pub seen: Spec,
    /// All that it ever was.
    revisions: Vec<Spec>,
    /// By their ordinals.
    pub pods: Vec<Pod<T>>,
    uids: u32,
}

impl<T> StatefulSet<T> {
    /// One whose controller has seen this, and has made no pods yet. By default nobody has applied anything.
    pub fn new(name: &'static str, spec: Spec) -> Self {
        Self { name, seen: spec.clone(), revisions: vec![spec.clone()], spec, pods: Vec::new(), uids: 0 }
    }

    /// The pod on a node.
    pub fn pod_at(&self, at: usize) -> Option<&Pod<T>> {
        self.pods.iter().find(|pod| pod.at == Some(at))
    }

    /// The pod on a node, to be changed.
    pub fn pod_at_mut(&mut self, at: usize) -> Option<&mut Pod<T>> {
        self.pods.iter_mut().find(|pod| pod.at == Some(at))
    }

    /// Nodes that have a pod, in the order of ordinals.
    pub fn nodes(&self) -> impl Iterator<Item = usize> {
        self.pods.iter().filter_map(|pod| pod.at)
    }

    /// The pod that a step is taken on.
    pub fn target(&self, step: &Step) -> Option<&Pod<T>> {
        self.pods.get(self.index(step)?)
    }

    fn index(&self, step: &Step) -> Option<usize> {
        self.pods.iter().position(|pod| pod.uid.to_string() == step.target().uid)
    }

    /// Somebody deletes a pod. `index`: any number, by which one of them is chosen.
    pub fn delete_any(&mut self, index: usize) {
        let count = self.pods.len().max(1);
        if let Some(pod) = self.pods.get_mut(index % count) {
            pod.delete();
        }
    }

    /// Carries a step out, apart from what an agent is asked for: that is the store's own, and given back with the index of its pod.
    pub fn carry_out<'a>(&mut self, step: &'a Step) -> Option<(usize, &'a Request)> {
        let index = self.index(step)?;
        let pod = self.pods.get_mut(index)?;
        match step {
            Step::Restart(_) => pod.delete(),
            Step::Activate(_, wanted) => pod.told = Some(content(wanted)),
            Step::Ask(_, request) => return Some((index, request)),
            Step::Renew(..) => {}
        }
        None
    }

    /// What operators see of the set: nothing before they have applied it.
    pub fn workloads(&self) -> BTreeMap<String, Workload> {
        let is_applied = self.spec != Spec::default();
        let workload = Workload {
            name: self.name.to_owned(),
            current: self.seen == self.spec,
            wanted: self.spec.replicas as i32,
            revision: Some((self.revisions.len() - 1).to_string()),
            ..Workload::default()
        };
        is_applied.then(|| (self.name.to_owned(), workload)).into_iter().collect()
    }

    /// What operators see of a pod. Whether it is ready is for its store's model.
    pub fn observed(&self, pod: &Pod<T>) -> observed::Pod {
        let certificate = Certificate { not_after: jiff::Timestamp::MAX, issuer: String::new() };
        observed::Pod {
            name: format!("{}-{}", self.name, pod.ordinal),
            uid: pod.uid.to_string(),
            node: pod.at.map(node),
            terminating: pod.leaving.is_some(),
            template: Some(pod.template.to_string()),
            revision: Some(pod.revision.to_string()),
            active: pod.told.map(|told| hash(told).as_str().to_owned()),
            certificate: (pod.age > 0).then_some(certificate),
            ..observed::Pod::default()
        }
    }

    /// What operators plan alike, without what does not bear on the decision: objects, files and conditions.
    ///
    /// # Panics
    /// When it is not known which pods there are.
    pub fn plan<C>(&self, spec: &Spec, members: Vec<MemberStatus>, observed: &Observed<C>) -> Plan {
        let templates = vec![(self.name.to_owned(), spec.template.to_string())];
        let pods = observed.pods.known().expect("pods");
        Plan {
            step: rollout::of_pods(pods, &observed.workloads, &templates).restart(),
            rollout: Some(Rollout { workloads: templates, wanted: None, selector: String::new() }),
            hibernation: if spec.replicas == 0 { Hibernation::Asleep } else { Hibernation::Awake },
            members,
            ..Plan::default()
        }
    }
}

impl<T: Default> StatefulSet<T> {
    /// What the controller and the scheduler do. `is_fit`: whether a pod may be put on a node that has none.
    pub fn control(&mut self, is_fit: impl Fn(usize) -> bool) {
        self.seen = self.spec.clone();
        if self.revisions.last() != Some(&self.seen) {
            self.revisions.push(self.seen.clone());
        }
        self.pods.iter_mut().filter(|pod| pod.ordinal >= self.seen.replicas).for_each(Pod::delete);
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
                    own: T::default(),
                });
            }
        }
        self.pods.sort_by_key(|pod| pod.ordinal);
        for index in 0..self.pods.len() {
            if self.pods[index].at.is_none() {
                let is_free = |at: &usize| is_fit(*at) && self.pod_at(*at).is_none();
                let nodes = &self.revisions[self.pods[index].revision].nodes;
                self.pods[index].at = nodes.iter().copied().find(is_free);
            }
        }
    }
}
