//! Names of a kind.

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

impl KindInfo {
    /// A kind whose members are the pods of a StatefulSet.
    pub(crate) const fn stateful(kind: &'static str, plural: &'static str, operator: &'static str) -> Self {
        Self { kind, plural, operator, scales: true, endpoint_column: false }
    }

    /// A kind without members, or whose members are counted by nodes.
    pub(crate) const fn other(kind: &'static str, plural: &'static str, operator: &'static str) -> Self {
        Self { kind, plural, operator, scales: false, endpoint_column: false }
    }

    /// The same with a Service in front of the members.
    pub(crate) const fn served(self) -> Self {
        Self { endpoint_column: true, ..self }
    }

    /// The longest name a resource can have, in bytes. The name becomes the value of a label, and that of a StatefulSet,
    /// `<name>-<type>-statefulset`, the value of another one together with a hash of ten characters.
    pub const fn longest_name(self) -> usize {
        const LABEL: usize = 63;
        if self.scales {
            LABEL - "-".len() - self.kind.len() - "-statefulset".len() - "-0123456789".len()
        } else {
            LABEL
        }
    }
}
