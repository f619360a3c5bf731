//! What is done to members that run: what the next one waits for before it is brought up to date.

use tf_api::contract::MemberStatus;
use tf_plan::{
    procedure::{Gate, Store, Troubles},
    reports::Reports,
};

use crate::containers::WEB;

/// The members, as the procedures of all components see them.
pub const MEMBERS: Store = Store { daemon: WEB, gate: Gate::Apart("web UI"), troubles, election: None };

/// A server that answers and has its Redis is asked for nothing more.
fn troubles(_: &[MemberStatus], _: &Reports<'_>) -> Troubles {
    Troubles::new()
}
