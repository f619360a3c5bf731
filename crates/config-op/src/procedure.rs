//! What is done to members that run: what the next one waits for before it is brought up to date.

use tf_api::contract::MemberStatus;
use tf_plan::{
    procedure::{self, Store, Troubles},
    reports::Reports,
};

use crate::containers::API;

/// The members, as the procedures of all components see them.
pub const MEMBERS: Store = Store { daemon: API, gate, troubles, election: None };

/// What keeps a member that serves from being stopped: the others have to serve (tf-components 3.1).
fn gate(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    procedure::heard(members.iter(), reports, "API", |_| Ok(())).err()
}

/// An API that answers is asked for nothing more.
fn troubles(_: &[MemberStatus], _: &Reports<'_>) -> Troubles {
    Troubles::new()
}
