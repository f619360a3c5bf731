//! `tf-runtime` keeps its promises against a real API server: with the operators for ZooKeeper, the Manager and
//! analytics, and with a [probe](e2e::probe) that uses everything the runtime offers.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

mod apply;
mod changes;
mod definitions;
mod deletion;
mod draining;
mod election;
mod faults;
mod footprint;
mod outage;
mod parts;
mod service;
mod support;
mod watches;
