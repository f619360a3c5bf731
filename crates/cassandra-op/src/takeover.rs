//! A ring that the Go tf-operator made.
//!
//! It has data, so it is no new one: no server of it takes itself for its founder. That, and its name, are recorded before anything is done, and
//! hold when its last pod is replaced and it has not been called Ready yet.

use tf_api::{Cassandra, Managed as _};
use tf_plan::{
    member_set::MemberSet,
    not_ready::NotReady,
    observed::Observed,
    references::References,
    takeover::data::{self, Place, Trusting},
};

use crate::{
    config::{self, jvm::DAEMON},
    directory,
    role::{ADOPTED_CLUSTER_NAME, Role},
};

/// Field of the status.
pub const FIELD: &str = "clusterName";

/// Its servers let in who is of the authority that they know.
const SERVERS: Trusting = Trusting { refuse: "they reject members", page: "docs/cassandra.md" };

/// Whether the ring had data before this operator saw it.
pub fn is_recorded(cr: &Cassandra) -> bool {
    recorded(cr).is_some()
}

/// Whether it is being taken over.
pub fn is_beginning(member_set: &MemberSet<'_, Cassandra>) -> bool {
    member_set.is_mixed() && !member_set.cr.is_initialized()
}

/// The name of a ring that is taken over, or was.
pub fn cluster_name(member_set: &MemberSet<'_, Cassandra>) -> Option<String> {
    recorded(member_set.cr).or_else(|| is_beginning(member_set).then(|| ADOPTED_CLUSTER_NAME.to_owned()))
}

fn recorded(cr: &Cassandra) -> Option<String> {
    cr.status.as_ref()?.own.cluster_name.clone()
}

/// What [`check`] looks at.
pub fn references(cr: &Cassandra) -> References {
    if cr.is_initialized() { References::default() } else { data::references() }
}

/// Sees to it that new pods can go on in the place of the former ones.
///
/// # Errors
/// When they could not.
pub fn check(member_set: &MemberSet<'_, Cassandra>, observed: &Observed<Cassandra>) -> Result<(), NotReady> {
    let cr = member_set.cr;
    if !is_beginning(member_set) {
        return Ok(());
    }
    let pods = observed.pods.known().map(Vec::as_slice).unwrap_or_default();
    // From the first pod on it is for the user to say: it may not run under this operator, and another one of the same release may.
    if let Some(chosen) = member_set.container(DAEMON).filter(|_| !is_recorded(cr)) {
        data::keeps_image(pods, DAEMON, &chosen.image)?;
    }
    let (role, ours) = (Role::of(cr.title()), directory::used(cr));
    let place = Place {
        mount: config::DATA_DIR,
        ours: ours.as_deref(),
        storage: cr.common().storage.as_ref(),
        is_usual: role.is_usual(&member_set.identity),
        legacy: &directory::legacy(role),
    };
    data::finds_data(pods, &place)?;
    data::trusts(observed, SERVERS)
}
