//! What the operator makes of its resource and of what it sees, without a cluster.

mod fields;
mod files;
mod foreign;
mod goldens;
mod keystone;
mod login;
mod properties;
mod registration;
mod rolling;
mod support;
