//! What the operator makes of its resource and of what it sees, without a cluster.

mod changeover;
mod fields;
mod goldens;
mod membership;
mod properties;
