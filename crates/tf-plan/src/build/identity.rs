//! Names, labels and ownership of a resource's objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use tf_api::{GROUP, Managed, VERSION, names};

use crate::hash;

/// Longest value of a label, and longest name of a Service or of a pod's host.
pub const LABEL_LIMIT: usize = 63;
/// Longest name of a workload: its controller adds a dash and a hash of up to 10 characters and uses the result as a
/// label value.
const WORKLOAD_LIMIT: usize = 52;
/// Label that tells the workloads of one resource apart where it has several.
pub const LABEL_GROUP: &str = "tf.tungsten.io/group";

/// The group of pods that undo on a node what the resource's pods changed there. No group of a spec has this name.
pub const REMOVAL: &str = "tf-removal";

/// Whether a pod with these labels is one of [`REMOVAL`].
pub fn is_removal(labels: &BTreeMap<String, String>) -> bool {
    labels.get(LABEL_GROUP).is_some_and(|group| group == REMOVAL)
}

/// Who a resource is, for everything that is made for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The operator.
    pub operator: &'static str,
    /// Lower-case kind.
    pub type_name: String,
    /// Kind.
    pub kind: &'static str,
    /// Namespace.
    pub namespace: String,
    /// Name of the resource.
    pub name: String,
    group: Option<String>,
    uid: String,
}

impl Identity {
    /// The identity of `cr` for the operator of that name.
    pub fn of<Cr: Managed>(operator: &'static str, cr: &Cr) -> Self {
        Self {
            operator,
            type_name: Cr::type_name(),
            kind: Cr::INFO.kind,
            namespace: cr.home().to_owned(),
            name: cr.title().to_owned(),
            group: None,
            uid: cr.meta().uid.clone().unwrap_or_default(),
        }
    }

    /// The identity of what belongs to one group of the resource: objects of their own, `<name>-<group>-<type>-<suffix>`,
    /// and pods that are the resource's and the group's.
    #[must_use]
    pub fn in_group(&self, group: &str) -> Self {
        Self { group: Some(group.to_owned()), ..self.clone() }
    }

    /// Name of an object of the resource: `<name>-<type>-<suffix>`, as the Go tf-operator named them.
    pub fn object_name(&self, suffix: &str) -> String {
        fit(&self.full_name(suffix), LABEL_LIMIT)
    }

    /// Name of a workload: like [`Self::object_name`], but short enough for its controller.
    pub fn workload_name(&self, suffix: &str) -> String {
        fit(&self.full_name(suffix), WORKLOAD_LIMIT)
    }

    fn full_name(&self, suffix: &str) -> String {
        let group = self.group.as_ref().map(|group| format!("-{group}")).unwrap_or_default();
        format!("{}{group}-{}-{suffix}", self.name, self.type_name)
    }

    /// Name of a Service: `<name>-<suffix>` as a DNS label, which has to begin with a letter.
    pub fn service_name(&self, suffix: &str) -> String {
        let name = format!("{}-{suffix}", self.name);
        let name = if name.starts_with(|c: char| c.is_ascii_digit()) { format!("s{name}") } else { name };
        fit(&name.replace('.', "-"), LABEL_LIMIT)
    }

    /// Name of the headless Service of the members, by which their certificates name them, too.
    pub fn members_service(&self) -> String {
        self.service_name(&format!("{}-members", self.type_name))
    }

    /// The labels that select the resource's pods: exactly those of the Go tf-operator, because a StatefulSet's selector
    /// cannot change.
    pub fn selector(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([
            (names::LABEL_TYPE.to_owned(), self.type_name.clone()),
            (self.type_name.clone(), fit(&self.name, LABEL_LIMIT)),
        ]);
        labels.extend(self.group.iter().map(|group| (LABEL_GROUP.to_owned(), group.clone())));
        labels
    }

    /// The selector as text.
    pub fn selector_text(&self) -> String {
        let pairs: Vec<_> = self.selector().iter().map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join(",")
    }

    /// All labels of the resource's objects.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.selector();
        labels.extend([
            (names::LABEL_NAME.to_owned(), self.type_name.clone()),
            (names::LABEL_INSTANCE.to_owned(), fit(&self.name, LABEL_LIMIT)),
            (names::LABEL_COMPONENT.to_owned(), self.type_name.clone()),
            (names::LABEL_PART_OF.to_owned(), names::PART_OF.to_owned()),
            (names::LABEL_MANAGED_BY.to_owned(), self.operator.to_owned()),
        ]);
        labels
    }

    /// Metadata of a namespaced object that belongs to the resource and goes with it.
    pub fn meta(&self, name: impl Into<String>) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.labels()),
            owner_references: Some(vec![self.owner()]),
            ..ObjectMeta::default()
        }
    }

    /// The resource as controlling owner. It does not block its deletion (ADR 0012).
    pub fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: self.kind.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }
}

/// Makes a name fit: dots become dashes, and what is too long or was changed ends in a hash of the original, so that
/// different names stay different.
pub fn fit(name: &str, limit: usize) -> String {
    let plain = name.replace('.', "-");
    if plain.len() <= limit && plain == name {
        return plain;
    }
    let digest = &hash::of_contents([("name", name.as_bytes())])[..8];
    let room = limit.saturating_sub(digest.len() + 1).min(plain.len());
    let head = plain[..plain.floor_char_boundary(room)].trim_end_matches('-');
    format!("{head}-{digest}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn identity(name: &str) -> Identity {
        Identity {
            operator: "zookeeper-op",
            type_name: "zookeeper".into(),
            kind: "Zookeeper",
            namespace: "tf".into(),
            name: name.into(),
            group: None,
            uid: "u".into(),
        }
    }

    #[test]
    fn usual_names_are_those_of_the_go_tf_operator() {
        let identity = identity("zookeeper1");
        assert_eq!(identity.workload_name("statefulset"), "zookeeper1-zookeeper-statefulset");
        assert_eq!(identity.selector_text(), "tf_manager=zookeeper,zookeeper=zookeeper1");
    }

    /// What selects, reports and adopts by labels depends on every one of them.
    #[test]
    fn labels_are_those_of_the_go_tf_operator_and_the_recommended_ones() {
        let labels = identity("zookeeper1").labels();
        let labels: Vec<_> = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            labels,
            [
                ("app.kubernetes.io/component", "zookeeper"),
                ("app.kubernetes.io/instance", "zookeeper1"),
                ("app.kubernetes.io/managed-by", "zookeeper-op"),
                ("app.kubernetes.io/name", "zookeeper"),
                ("app.kubernetes.io/part-of", "tungsten-fabric"),
                ("tf_manager", "zookeeper"),
                ("zookeeper", "zookeeper1"),
            ]
        );
        let group = identity("zookeeper1").in_group("edge").labels();
        assert_eq!(group.len(), labels.len() + 1);
        assert_eq!(group["tf.tungsten.io/group"], "edge");
    }

    #[test]
    fn a_group_has_objects_and_pods_of_its_own_that_are_the_resource_s_too() {
        let all = identity("vrouter1");
        let edge = all.in_group("edge");
        assert_eq!(edge.workload_name("daemonset"), "vrouter1-edge-zookeeper-daemonset");
        assert_eq!(edge.owner(), all.owner());
        assert!(all.selector().iter().all(|(key, value)| edge.selector().get(key) == Some(value)));
        assert_ne!(edge.selector(), all.in_group("core").selector());
    }

    #[test]
    fn two_long_names_with_a_common_beginning_stay_different() {
        let (a, b) = (format!("{}a", "x".repeat(252)), format!("{}b", "x".repeat(252)));
        assert_ne!(identity(&a).workload_name("statefulset"), identity(&b).workload_name("statefulset"));
        assert_ne!(identity("a.b").selector(), identity("a-b").selector());
    }

    proptest! {
        #[test]
        fn every_name_fits_and_is_valid(name in "[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?") {
            let identity = identity(&name);
            let label = |text: &str, limit: usize| {
                text.len() <= limit
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                    && !text.starts_with('-')
                    && !text.ends_with('-')
            };
            prop_assert!(label(&identity.workload_name("statefulset"), WORKLOAD_LIMIT));
            prop_assert!(label(&identity.object_name("configmap"), LABEL_LIMIT));
            prop_assert!(label(&identity.service_name("api"), LABEL_LIMIT));
            prop_assert!(identity.service_name("api").starts_with(|c: char| c.is_ascii_lowercase()));
            prop_assert!(identity.selector().values().all(|value| label(value, LABEL_LIMIT)));
        }
    }
}
