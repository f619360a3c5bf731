//! The custom resources, one file per kind.

mod zookeeper;

pub use zookeeper::*;

/// What tools need to know about a kind without its Rust type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KindInfo {
    /// Kind, for example Zookeeper.
    pub kind: &'static str,
    /// Plural in URLs.
    pub plural: &'static str,
    /// The operator that owns the kind, for example zookeeper-op.
    pub operator: &'static str,
    /// Whether `spec.commonConfiguration.replicas` counts members.
    pub scales: bool,
    /// Whether the status has an `endpoint`, the cluster address of a Service.
    pub endpoint_column: bool,
}

/// Zookeeper.
pub const ZOOKEEPER: KindInfo = KindInfo {
    kind: "Zookeeper",
    plural: "zookeepers",
    operator: "zookeeper-op",
    scales: true,
    endpoint_column: false,
};

/// All definitions, in the order of their plurals.
pub fn definitions() -> Vec<crate::crd::Definition> {
    use crate::crd::definition;
    vec![definition::<Zookeeper>(ZOOKEEPER)]
}
