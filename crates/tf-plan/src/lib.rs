//! Pure vocabulary of desired state.
//!
//! Everything in this crate is a function of its arguments: no clock, no randomness, no environment, no iteration order
//! leaks into an output. That is what makes an offline preview of every object, golden tests and model checking possible.

pub mod assess;
pub mod build;
pub mod certificates;
pub mod cluster;
pub mod component;
pub mod conflicts;
pub mod connection;
pub mod credentials;
pub mod daemons;
pub mod declaration;
pub mod dependency;
pub mod election;
pub mod external_tls;
pub mod fleet;
pub mod hash;
pub mod hibernation;
pub mod images;
pub mod keystone;
pub mod member_set;
pub mod members;
pub mod metrics;
pub mod not_ready;
pub mod numbers;
pub mod object;
pub mod observed;
pub mod placement;
pub mod plan;
pub mod procedure;
pub mod rbac;
pub mod references;
pub mod registration;
pub mod reports;
pub mod resize;
pub mod rollout;
pub mod rule;
pub mod secret;
pub mod selection;
pub mod status;
pub mod step;
pub mod takeover;
pub mod text;
