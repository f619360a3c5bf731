//! Wherever in a bring-up an operator is killed, the cluster becomes the same.
//!
//! One after another, clusters are brought up on the same nodes. In each, one operator is killed (SIGKILL)
//! directly after its k-th mutating request: the API server has acted, the operator does not know the answer. It is started
//! again, and the cluster has to become Ready and equal to one that nobody disturbed, object by object, without an
//! object created twice, without a pod replaced, and without a generated credential that changed. The operators run
//! without leader election: a killed leader's lease takes 30 s to expire, which the tests of the election wait for.
//!
//! `TF_SAMPLE` says which k: a number of them for each operator, drawn with `TF_TEST_SEED`, or `all`
//! (`cargo xtask soak crash-points`).

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

mod adoption;
#[path = "../shared/credentials.rs"]
mod credentials;
#[path = "../shared/former.rs"]
mod former;
mod points;
mod snapshot;
mod stage;
