//! Certificates of members: the authority of a namespace, and the requests that are signed with it.
//!
//! What is granted is decided in [`tf_pki::review`], and when another authority takes over in [`tf_pki::rotation`]; here it is
//! carried out. One authority serves all operators of a namespace, because members of different components meet (`docs/adr/0015`).

mod authority;
mod issuer;
mod participants;
mod requests;
mod stored;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

pub use authority::{Authorities, AuthorityFailure, LACKING, ROTATING};
pub use requests::{Pending, Requests, Signer};

/// One owner among others: none of them controls the object.
fn shared(owner: &OwnerReference) -> OwnerReference {
    OwnerReference { controller: None, block_owner_deletion: None, ..owner.clone() }
}
