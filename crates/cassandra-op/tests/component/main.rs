//! What the operator makes of its resource and of what it sees, without a cluster.

mod fields;
mod goldens;
mod login;
mod maintenance;
mod membership;
mod properties;
mod ring;
mod rolling;
mod takeover;
