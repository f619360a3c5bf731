//! What a schema cannot see: specs that are well-formed and still cannot be carried out as they are, and clusters that
//! are not as one expects. Each gets a condition that says what to do, or a correct result, and heals without a restart.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

mod admission;
mod adoption;
mod authentication;
mod authority;
mod bootstrap;
mod claims;
mod dpdk;
#[path = "../shared/external.rs"]
mod external;
mod families;
mod fleet;
#[path = "../shared/former.rs"]
mod former;
mod habits;
mod hibernation;
mod issuer;
mod keystone;
mod manifests;
mod names;
mod nodes;
mod openshift;
mod profiles;
#[path = "../shared/quiet.rs"]
mod quiet;
mod secrets;
mod stored;
mod support;
mod values;
mod volumes;
