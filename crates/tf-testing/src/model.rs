//! What models of stores play alike: nodes by their numbers, servers, the pods of a StatefulSet and where they are put, and requests that are carried
//! out late. What a store's servers do and what its agents say of them is for its model.

#![expect(clippy::expect_used, reason = "a node that has no number is a panicking test")]

use std::collections::BTreeMap;

use tf_api::contract::MemberStatus;
use tf_plan::{
    node::state::{Phase, State, Status},
    observed::{Agent, Certificate, Pod},
    step::Step,
};

/// Name of the node with this number.
pub fn node(at: usize) -> String {
    format!("n{at}")
}

/// The number of a node.
///
/// # Panics
/// When [`node`] did not name it.
pub fn machine(node: &str) -> usize {
    node.trim_start_matches('n').parse().expect("the number of a node")
}

/// A server and the process that is it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Server {
    /// There is no pod, or it has just been started.
    #[default]
    Off,
    /// It serves.
    Running,
    /// Its process runs, and it left.
    Left,
    /// It ends by itself again and again.
    Failing,
}

impl Server {
    /// What its agent says of the process.
    pub fn state(self) -> State {
        let phase = match self {
            Self::Off => Phase::Starting,
            Self::Running | Self::Left => Phase::Running,
            Self::Failing => Phase::BackOff,
        };
        State { phase, ..State::default() }
    }
}

/// A pod and the number of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The number of its node.
    pub at: usize,
    /// Which no other pod ever has.
    pub uid: u32,
}

/// The pods of a StatefulSet, by ordinal.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    pods: Vec<Option<Placed>>,
    uids: u32,
}

impl Pods {
    /// Those that there are.
    pub fn iter(&self) -> impl Iterator<Item = Placed> + '_ {
        self.pods.iter().flatten().copied()
    }

    fn has(&self, at: usize) -> bool {
        self.iter().any(|pod| pod.at == at)
    }

    /// The one that a step is for, by ordinal.
    pub fn target(&self, step: &Step) -> Option<(usize, Placed)> {
        let is_it = |pod: &&Placed| pod.uid.to_string() == step.target().uid;
        self.pods.iter().enumerate().find_map(|(ordinal, pod)| Some((ordinal, *pod.as_ref().filter(is_it)?)))
    }

    /// One more, on this node.
    pub fn add(&mut self, at: usize) {
        self.uids += 1;
        self.pods.push(Some(Placed { at, uid: self.uids }));
    }

    /// Ends one of so many ordinals, whichever there are. The number of its node.
    pub fn end(&mut self, ordinal: usize) -> Option<usize> {
        let count = self.pods.len().max(1);
        self.pods.get_mut(ordinal % count)?.take().map(|pod| pod.at)
    }

    /// Those of a node that is gone are, too.
    pub fn lose(&mut self, at: usize) {
        self.pods.iter_mut().filter(|pod| pod.is_some_and(|pod| pod.at == at)).for_each(|pod| *pod = None);
    }

    /// As many as there are members; those above end. The numbers of their nodes.
    pub fn resize(&mut self, members: usize) -> Vec<usize> {
        let above = self.pods.iter().skip(members).flatten().map(|pod| pod.at).collect();
        self.pods.resize(members, None);
        above
    }

    /// Makes those that are missing, each on the first node of a member that has none and `is_there`.
    pub fn place(&mut self, members: &[MemberStatus], is_there: impl Fn(usize) -> bool) {
        for ordinal in 0..self.pods.len() {
            let mut nodes = members.iter().map(|member| machine(&member.node));
            let free = nodes.find(|at| is_there(*at) && !self.has(*at));
            if let (None, Some(at)) = (self.pods[ordinal], free) {
                self.uids += 1;
                self.pods[ordinal] = Some(Placed { at, uid: self.uids });
            }
        }
    }

    /// As the operator sees them. `is_ready`: whether the server on this node serves.
    pub fn observed(&self, is_ready: impl Fn(usize) -> bool) -> Vec<Pod> {
        let pod = |(ordinal, pod): (usize, &Option<Placed>)| {
            let Placed { at, uid } = (*pod)?;
            Some(Pod {
                name: format!("set-{ordinal}"),
                uid: uid.to_string(),
                node: Some(node(at)),
                ready: is_ready(at),
                certificate: Some(Certificate { not_after: jiff::Timestamp::MAX, issuer: String::new() }),
                ..Pod::default()
            })
        };
        self.pods.iter().enumerate().filter_map(pod).collect()
    }

    /// What their agents say, all of which answer.
    pub fn agents(&self, status: impl Fn(Placed) -> Status) -> BTreeMap<String, Agent> {
        self.iter().map(|pod| (pod.uid.to_string(), Agent::Says(Box::new(status(pod))))).collect()
    }
}

/// What is asked of an agent and may be carried out when its answer was given up long ago.
#[derive(Clone, Debug, Default)]
pub struct Late {
    delay: usize,
    waiting: Option<(usize, Step)>,
}

impl Late {
    /// What is asked for next is carried out when so many steps more have passed.
    pub fn delay(&mut self, steps: usize) {
        self.delay = steps;
    }

    /// Nothing is late any more, apart from what is already.
    pub fn heal(&mut self) {
        self.delay = 0;
    }

    /// Whether nothing is late, nor will be.
    pub fn is_none(&self) -> bool {
        self.delay == 0 && self.waiting.is_none()
    }

    /// A step passes. What is carried out in it.
    pub fn due(&mut self) -> Option<Step> {
        match self.waiting.take()? {
            (0, step) => Some(step),
            (steps, step) => {
                self.waiting = Some((steps - 1, step));
                None
            }
        }
    }

    /// Asks. What is carried out at once.
    pub fn ask(&mut self, step: Step) -> Option<Step> {
        match std::mem::take(&mut self.delay) {
            0 => Some(step),
            steps => {
                self.waiting = Some((steps, step));
                None
            }
        }
    }
}
