//! Files of an agent and of what stands beside it. Each takes parameters and services, and says nothing about a node: what
//! only the node knows is a placeholder (`tf_agent_api::template`).

pub mod agent;
pub mod clients;
pub mod cni;
pub mod host;
mod ini_template;
pub mod qos;

/// Where daemons write their logs unless the spec says otherwise.
pub const LOG_DIR: &str = "/var/log/contrail";
