//! Names of a kind, and what its resources have.

use crate::contract::ConditionType;

/// What tools need to know about a kind without its Rust type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KindInfo {
    /// Kind, for example Zookeeper.
    pub kind: &'static str,
    /// Plural in URLs.
    pub plural: &'static str,
    /// The operator that owns the kind, for example zookeeper-op.
    pub operator: &'static str,
    /// Name of the resource where nothing states another, the Go tf-operator's, for example zookeeper1.
    pub default_name: &'static str,
    /// The condition of a Manager that shows resources of the kind; of a Manager itself `Ready`.
    pub shown_as: ConditionType,
    /// Whether its resources have pods, and so common settings; a kind without is a piece of configuration.
    pub has_pods: bool,
    /// Whether `spec.commonConfiguration.replicas` counts members.
    pub scales: bool,
    /// Whether members keep data, in what `spec.commonConfiguration.storage` states.
    pub keeps_data: bool,
    /// Whether `spec.commonConfiguration.authParameters` has an effect.
    pub uses_auth: bool,
    /// Whether `spec.commonConfiguration.distribution` has an effect: it concerns the kernel module.
    pub uses_distribution: bool,
    /// Whether the status has an `endpoint`, the cluster address of a Service.
    pub endpoint_column: bool,
}

impl KindInfo {
    /// A kind without pods.
    pub(crate) const fn new(
        kind: &'static str,
        plural: &'static str,
        operator: &'static str,
        default_name: &'static str,
        shown_as: ConditionType,
    ) -> Self {
        Self {
            kind,
            plural,
            operator,
            default_name,
            shown_as,
            has_pods: false,
            scales: false,
            keeps_data: false,
            uses_auth: false,
            uses_distribution: false,
            endpoint_column: false,
        }
    }

    /// The same with a pod on each node, of a DaemonSet, and with a kernel module.
    pub(crate) const fn on_nodes(self) -> Self {
        Self { has_pods: true, uses_distribution: true, ..self }
    }

    /// The same with members that are the pods of a StatefulSet.
    pub(crate) const fn members(self) -> Self {
        Self { has_pods: true, scales: true, ..self }
    }

    /// The same with members that keep data.
    pub(crate) const fn data(self) -> Self {
        Self { keeps_data: true, ..self }
    }

    /// The same with daemons that authenticate users or themselves at Keystone.
    pub(crate) const fn keystone(self) -> Self {
        Self { uses_auth: true, ..self }
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
