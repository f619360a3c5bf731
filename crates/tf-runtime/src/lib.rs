//! Runs a component against a Kubernetes API.
//!
//! The only crate that talks to Kubernetes. An operator is `tf_runtime::main::<Component>()`: this crate watches, takes a
//! snapshot, calls the component's pure functions, applies the plan, writes the status and decides when to look again.
//! See `docs/architecture.md` for one pass in a picture and [`reconcile`] for it in code.

mod agents;
mod apply;
mod arguments;
mod backoff;
mod caches;
mod client;
mod controller;
mod covers;
mod credentials;
mod drainer;
mod error;
mod events;
mod field_ownership;
mod finalizer;
mod health;
mod http_client;
mod identity;
mod invalid_object;
mod keystone;
mod leader;
mod lock;
mod managed;
mod marker;
mod metrics;
mod object;
mod observe;
mod operator;
mod pruned;
mod queue;
mod reconcile;
mod referenced_objects;
mod registration;
mod status;
mod step;
mod view;
mod watch;

pub use arguments::{Arguments, LogFormat};
pub use leader::Timing;
pub use operator::{Part, StartError, main, main_of, run};
