//! What models of stores play alike: nodes and contents by their numbers, and servers. What a store's servers do and what its agents say of them is
//! for its model.

#![expect(clippy::expect_used, reason = "what has no number is a panicking test")]

mod late;
mod set;
mod writes;

use tf_agent_api::{
    content::ContentHash,
    state::{Phase, State},
};

pub use self::{
    late::Late,
    set::{Pod, Spec, StatefulSet},
    writes::WritesLeft,
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

/// Hash of the content with this number.
///
/// # Panics
/// Never: no number is longer.
pub fn hash(content: usize) -> ContentHash {
    format!("{content:032x}").parse().expect("a hash")
}

/// The number of the content with this hash.
fn content(hash: &ContentHash) -> usize {
    usize::from_str_radix(hash.as_str(), 16).expect("the number of a content")
}

/// The number of a content among all that were. A new one is the last of them.
pub fn numbered<C: PartialEq>(contents: &mut Vec<C>, content: C) -> usize {
    contents.iter().position(|it| *it == content).unwrap_or_else(|| {
        contents.push(content);
        contents.len() - 1
    })
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
