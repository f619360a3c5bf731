//! `kubectl tf`: what a person asks about Tungsten Fabric in a cluster. [`status`], [`nodes`], [`plan`] and [`lock`] decide what is said, [`cluster`] and
//! [`rehearsal`] read; [`release`] alone writes. [`main`] is the program.

pub mod cluster;
mod command;
pub mod lock;
pub mod nodes;
pub mod plan;
pub mod rehearsal;
pub mod release;
pub mod status;

pub use command::main;
