//! The API of the Tungsten Fabric operators: custom resource types, the status contract between operators, and the
//! names, labels and ports that all of them share.
//!
//! Types only. Nothing here does I/O, reads a clock or decides anything about a cluster; `tf-plan` decides and
//! `tf-runtime` acts. The group's schema is a superset of the Go tf-operator's (`docs/adr/0003`), so every object that
//! worked there is accepted here with the same meaning.

pub mod common;
pub mod contract;
pub mod crd;
pub mod dependencies;
pub mod fields;
mod kind;
pub mod kinds;
pub mod names;
pub mod ports;
pub mod resource;
pub mod schema;

pub use kinds::*;
pub use resource::{Managed, Resource, ResourceExt};

/// API group of every kind in this crate.
pub const GROUP: &str = "tf.tungsten.io";
/// The one served and stored version.
pub const VERSION: &str = "v1alpha1";
/// Version of the status contract that this release writes, and the only one it reads.
pub const CONTRACT: &str = "v1";
