//! Wherever in a bring-up or a change an operator is killed, or its resource is changed or deleted, the cluster becomes the same.
//!
//! One after another, clusters are brought up on the same nodes. In each, one operator is killed (SIGKILL)
//! directly after its k-th mutating request: the API server has acted, the operator does not know the answer. It is started
//! again, and the cluster has to become Ready and equal to one that nobody disturbed, object by object, without an
//! object created twice, without a pod replaced, and without a generated credential that changed. The operators run
//! without leader election: a killed leader's lease takes 30 s to expire, which the tests of the election wait for.
//!
//! After a write that is no status or event the Manager can also be set back, or to something else, and to what is wished again, or the operator's
//! resources be deleted. In the end the cluster has to be as one that heard the last wish only, without an object left over, and each pod is
//! replaced no more often than the wishes need.
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
