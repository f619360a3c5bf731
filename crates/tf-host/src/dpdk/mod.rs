//! The DPDK mode: a program, the forwarder, has the physical interface for itself, and `vhost0` is a TAP that it makes.
//!
//! [`forward::Forwarding`] takes the interface and gives it back. The kernel does not see an interface that a program has, so all that was on it is
//! recorded first ([`taken`]); [`binding`] gives a device another driver and its own one back; [`command`] is the forwarder's command line.
//!
//! `vhost0` ends with the forwarder, and addresses and routes with it. Then the node has to have its interface back: what is recorded is what
//! `vhost0` had last.

pub mod binding;
pub mod command;
pub mod forward;
pub mod process;
pub mod taken;
