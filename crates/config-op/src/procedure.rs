//! What is done to members that run: what the next one waits for before it is brought up to date.

use tf_plan::procedure::{Gate, Store, Troubles};

use crate::containers::API;

/// The members, as the procedures of all components see them. An API that answers is asked for nothing more.
pub const MEMBERS: Store =
    Store { daemon: API, gate: Gate::Apart("API"), troubles: |_, _| Troubles::new(), election: None };
