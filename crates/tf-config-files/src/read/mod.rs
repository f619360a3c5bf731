//! Readers that behave as the daemons' own parsers, traps included.
//!
//! They are for what stands in for a daemon: tests that look at a rendered file as its consumer would, and the simulated
//! daemons of the laboratory. Unlike the writers they accept whatever the real parser accepts. The tests compare them with
//! the real ones, where those are installed.

mod boost;
mod properties;
mod python;
mod redis;
mod sysctl;

pub use boost::boost;
pub use properties::properties;
pub use python::python;
pub use redis::redis;
pub use sysctl::{Cuttlefish, sysctl};
