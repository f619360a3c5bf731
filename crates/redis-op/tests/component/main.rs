//! What the operator makes of its resource and of what it sees, without a cluster.

mod fields;
mod goldens;
mod properties;
mod rolling;
mod sentinel;
mod support;
