//! What models of stores play alike: nodes by their numbers, servers, and requests that are carried out late. What a store's servers do and what its
//! agents say of them is for its model.

#![expect(clippy::expect_used, reason = "a node that has no number is a panicking test")]

use tf_plan::{
    node::state::{Phase, State},
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
