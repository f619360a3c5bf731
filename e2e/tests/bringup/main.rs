//! A Manager becomes a Ready cluster: all operators with the rights of their charts, real controllers, simulated nodes.
//!
//! No daemon runs here: a pod is Ready because its simulated kubelet says so. What is shown is what the operators do, in
//! which order, with which rights, and that they stop when nothing is left to do.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

mod access;
mod after_ready;
#[path = "../shared/credentials.rs"]
mod credentials;
#[path = "../shared/external.rs"]
mod external;
mod faults;
mod grow;
mod manifest;
mod order;
#[path = "../shared/picture.rs"]
mod picture;
#[path = "../shared/quiet.rs"]
mod quiet;
mod registration;
mod rights;
mod secrets;
mod selective;
mod shared;
mod story;
mod support;
mod two;
