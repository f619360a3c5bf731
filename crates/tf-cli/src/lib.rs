//! `kubectl tf`: what a person asks about Tungsten Fabric in a cluster. [`status`] decides what is said, [`cluster`] reads; nothing
//! is ever written.

pub mod cluster;
pub mod status;
