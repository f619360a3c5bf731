//! Directories of the nodes: where a ring keeps its data. That no other ring does is [`crate::claim`]'s business.

use tf_api::{Cassandra, Managed as _};
use tf_plan::build::{identity::Identity, storage};

use crate::{OPERATOR, role::Role};

/// Below this are the directories of all data.
pub const DATA_BASE: &str = "/var/lib/contrail";

/// The Go tf-operator's directory of a ring that is not the only one.
pub fn legacy(role: Role) -> String {
    format!("{DATA_BASE}/{}", role.node_type().name())
}

/// The ring's directory if the spec names none.
pub fn usual(cr: &Cassandra) -> String {
    Role::of(cr.title()).directory(DATA_BASE, &Identity::of(OPERATOR, cr))
}

/// The ring's directory on its nodes; none if its data is elsewhere.
pub fn used(cr: &Cassandra) -> Option<String> {
    storage::directory(cr.common().storage.as_ref(), &usual(cr))
}
