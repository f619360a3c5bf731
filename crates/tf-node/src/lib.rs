//! The node agent: the one static binary inside every operand pod.
//!
//! It holds no table of daemons. What it has to know about one stands in the daemon's launch file
//! ([`tf_agent_api::launch`]), which the operator stores beside the configuration. Decisions are pure ([`activation`],
//! [`back_off`], [`set::Set::effect`], [`identity::decide`]); the rest carries them out. What the operator wants arrives as
//! files, so a running member does not notice when the API server is away: all it asks Kubernetes for is its next certificate.

pub mod activation;
pub mod agent;
pub mod annotations;
pub mod back_off;
pub mod cli;
pub mod cni;
pub mod command;
pub mod disk_space;
pub mod drain;
pub mod health;
pub mod host;
pub mod identity;
pub mod install;
pub mod keeping;
pub mod kubernetes;
pub mod level;
pub mod local;
pub mod log;
pub mod materialise;
pub mod paths;
pub mod pause;
pub mod place;
pub mod pod;
pub mod probe;
pub mod process;
pub mod queues;
pub mod reload;
pub mod set;
pub mod settings;
pub mod signals;
pub mod source;
pub mod state_file;
pub mod store;
pub mod supervise;
pub mod tls;
pub mod vhost0;
pub mod volume;
pub mod watch;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
