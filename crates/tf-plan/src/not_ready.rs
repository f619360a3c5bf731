//! Why there is no plan yet.

use tf_api::contract::{ConditionType, Draft, Reason};

use crate::object::Object;

/// Why there is no plan, and what is known nevertheless.
#[derive(Clone, Debug, PartialEq)]
pub struct NotReady {
    /// What kind of obstacle it is.
    pub obstacle: Obstacle,
    /// Why, for machines.
    pub reason: Reason,
    /// Why, for people: what, where, what to do.
    pub message: String,
    /// Conditions known so far: dependencies, inputs.
    pub drafts: Vec<Draft>,
    /// Paths of spec fields that cannot have an effect.
    pub ignored: Vec<String>,
    /// Objects that are applied all the same, because what is waited for is made from them. Nothing else is touched.
    pub prepared: Vec<Object>,
}

/// Kinds of obstacles. They differ in what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Something else has to happen first and will be noticed. Not an error.
    Waiting,
    /// The user has to change something.
    Invalid,
}

impl NotReady {
    fn met(obstacle: Obstacle, reason: Reason, message: String) -> Self {
        Self { obstacle, reason, message, drafts: Vec::new(), ignored: Vec::new(), prepared: Vec::new() }
    }

    /// Something else has to happen first.
    pub fn waiting(reason: Reason, message: impl Into<String>) -> Self {
        Self::met(Obstacle::Waiting, reason, message.into())
    }

    /// The user has to change something.
    pub fn invalid(reason: Reason, message: impl Into<String>) -> Self {
        Self::met(Obstacle::Invalid, reason, message.into())
    }

    /// An input that the spec names is missing or does not parse.
    pub fn input(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        let mut not_ready = Self::waiting(reason, message.clone());
        not_ready.drafts.push(Draft::fails(ConditionType::InputsReady, reason, message));
        not_ready
    }

    /// The content of a Secret is of no use. A person has to change it.
    pub fn secret(message: impl Into<String>) -> Self {
        Self { obstacle: Obstacle::Invalid, ..Self::input(Reason::SecretInvalid, message) }
    }

    /// Adds conditions known so far; the ones already present win.
    #[must_use]
    pub fn with_drafts(mut self, drafts: impl IntoIterator<Item = Draft>) -> Self {
        for draft in drafts {
            if self.drafts.iter().all(|present| present.kind != draft.kind) {
                self.drafts.push(draft);
            }
        }
        self
    }
}
