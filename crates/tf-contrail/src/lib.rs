//! What the daemons of Tungsten Fabric have in common: a daemon as one value, the node manager beside them, introspection and its TLS, the clients of the config API, and the services
//! that they connect to.

pub mod daemon;
pub mod nodemanager;
pub mod sandesh;
pub mod services;
pub mod vnc_api;
