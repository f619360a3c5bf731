//! `kubectl tf`: what a person asks about Tungsten Fabric in a cluster. [`status`] and [`plan`] decide what is said, [`cluster`] and
//! [`rehearsal`] read; nothing is ever written. [`main`] is the program.

pub mod cluster;
mod command;
pub mod plan;
pub mod rehearsal;
pub mod status;

pub use command::main;
