//! What is done to members that run: what the next one waits for before it is brought up to date.

use tf_plan::procedure::{Gate, Store, Troubles};

use crate::containers::WEB;

/// The members, as the procedures of all components see them. A server that answers and has its Redis is asked for nothing more.
pub const MEMBERS: Store =
    Store { daemon: WEB, gate: Gate::Apart("web UI"), troubles: |_, _| Troubles::new(), election: None };
