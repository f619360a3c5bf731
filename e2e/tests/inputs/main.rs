//! What a schema cannot see: specs that are well-formed and still cannot be carried out as they are, and clusters that
//! are not as one expects. Each gets a condition that says what to do, or a correct result, and heals without a restart.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

mod adoption;
mod authentication;
mod authority;
mod claims;
#[path = "../shared/external.rs"]
mod external;
#[path = "../shared/former.rs"]
mod former;
mod hibernation;
mod issuer;
mod keystone;
mod names;
mod nodes;
mod openshift;
mod secrets;
mod stored;
mod support;
mod values;
mod volumes;
