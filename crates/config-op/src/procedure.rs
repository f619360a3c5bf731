//! What is done to members that run: what the next one waits for before it is brought up to date, and which one is the last.

use tf_api::kinds::SESSION_TIMEOUT_DEFAULT;
use tf_plan::{
    election::{self, Election},
    procedure::{Gate, Store, Troubles},
};

use crate::containers::{API, DEVICE_MANAGER, SCHEMA, SVC_MONITOR};

/// The members, as the procedures of all components see them. An API that answers is asked for nothing more; of each of the daemons beside it one
/// process is elected.
pub const MEMBERS: Store = Store {
    daemon: API,
    gate: Gate::Apart("API"),
    troubles: |_, _| Troubles::new(),
    election: Some(Election {
        daemons: &[SCHEMA, SVC_MONITOR, DEVICE_MANAGER],
        leads: election::companion_leads,
        session: SESSION_TIMEOUT_DEFAULT,
    }),
};
