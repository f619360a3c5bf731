//! Which nodes a selector matches, and how that is said to the scheduler.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodAntiAffinity,
    Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use tf_api::{
    common::PodConfiguration,
    names::{NODE_CONTROL_PLANE, NODE_MASTER},
};

use crate::observed::{Node, Taint};

/// A set of nodes by their labels. The two names of the control-plane role are one role here: Kubernetes renamed the
/// label in 1.20 and dropped the old one in 1.24, while manifests written for the Go tf-operator still say `master`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Nodes with the control-plane role.
    ControlPlane,
    /// Nodes with all of these labels.
    Labels(BTreeMap<String, String>),
    /// Every node.
    Everywhere,
}

impl Placement {
    /// What an explicit selector means; `default` if it is empty.
    pub fn from_selector(selector: &BTreeMap<String, String>, default: Self) -> Self {
        if selector.is_empty() { default } else { Self::Labels(selector.clone()) }
    }

    /// Where members of a resource may be: nodes that its selector matches, else those with the control-plane role.
    pub fn of_members(common: &PodConfiguration) -> Self {
        Self::from_selector(&common.node_selector, Self::ControlPlane)
    }

    /// Whether the node is in the set.
    pub fn matches(&self, node: &Node) -> bool {
        match self {
            Self::Everywhere => true,
            Self::ControlPlane => role_names(NODE_CONTROL_PLANE).any(|key| node.labels.contains_key(key)),
            Self::Labels(labels) => {
                let has = |key, value: Option<&str>| {
                    node.labels.get(key).is_some_and(|found| value.is_none_or(|value| found == value))
                };
                labels.iter().all(|(key, value)| role_names(key).any(|name| has(name, asked(key, value))))
            }
        }
    }

    /// Whether one of two sets holds all of the other, as far as the labels tell. Two sets that ask for different labels
    /// may have nodes in common all the same.
    pub fn covers_or_is_covered(&self, other: &Self) -> bool {
        let (a, b) = (self.requirements(), other.requirements());
        let within = |a: &BTreeMap<&str, Option<&str>>, b: &BTreeMap<&str, Option<&str>>| {
            b.iter().all(|(key, value)| a.get(key).is_some_and(|found| value.is_none() || found == value))
        };
        within(&a, &b) || within(&b, &a)
    }

    /// Labels and their values, with one name for a role; a label without a value has to exist.
    fn requirements(&self) -> BTreeMap<&str, Option<&str>> {
        match self {
            Self::Everywhere => BTreeMap::new(),
            Self::ControlPlane => BTreeMap::from([(NODE_CONTROL_PLANE, None)]),
            Self::Labels(labels) => {
                labels.iter().filter_map(|(key, value)| Some((role_names(key).next()?, asked(key, value)))).collect()
            }
        }
    }

    /// Text for messages.
    pub fn describe(&self) -> String {
        match self {
            Self::Everywhere => "any node".into(),
            Self::ControlPlane => format!("label {NODE_CONTROL_PLANE} or {NODE_MASTER}"),
            Self::Labels(labels) => {
                let pairs: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
                format!("labels {}", pairs.join(", "))
            }
        }
    }

    /// The set as a node selector for pods that follow labels, such as those of a DaemonSet. None for every node.
    pub fn node_selector(&self) -> Option<NodeSelector> {
        let alternatives = match self {
            Self::Everywhere => return None,
            Self::ControlPlane => role_names(NODE_CONTROL_PLANE).map(|key| vec![exists(key)]).collect(),
            Self::Labels(labels) => labels.iter().fold(vec![Vec::new()], |terms: Vec<Vec<_>>, (key, value)| {
                terms
                    .iter()
                    .flat_map(|term| {
                        role_names(key).map(|name| [term.as_slice(), &[requirement(name, value)]].concat())
                    })
                    .collect()
            }),
        };
        let terms = alternatives
            .into_iter()
            .map(|requirements| NodeSelectorTerm { match_expressions: Some(requirements), match_fields: None })
            .collect();
        Some(NodeSelector { node_selector_terms: terms })
    }
}

/// The taint that keeps pods with these tolerations from a node, if there is one (Kubernetes, "Taints and Tolerations").
pub fn untolerated<'a>(node: &'a Node, tolerations: &[Toleration]) -> Option<&'a Taint> {
    let tolerates = |taint: &Taint, it: &Toleration| {
        let is_effect = it.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect);
        let key = it.key.as_deref().unwrap_or_default();
        let is_any = it.operator.as_deref() == Some("Exists");
        let is_key = key == taint.key || key.is_empty() && is_any;
        is_effect && is_key && (is_any || it.value.as_deref().unwrap_or_default() == taint.value)
    };
    node.taints.iter().find(|taint| !tolerations.iter().any(|toleration| tolerates(taint, toleration)))
}

/// What value a label has to have; none where it only has to be there. A node has a role when it has the label, whatever its value (Kubernetes,
/// "Well-Known Labels, Annotations and Taints", `node-role.kubernetes.io/`): kubeadm leaves it empty, k3s and RKE write `true`.
fn asked<'a>(key: &str, value: &'a str) -> Option<&'a str> {
    let is_role = key.starts_with("node-role.kubernetes.io/") && matches!(value, "" | "true");
    (!is_role).then_some(value)
}

/// The same for the scheduler.
fn requirement(key: &str, value: &str) -> NodeSelectorRequirement {
    asked(key, value).map_or_else(|| exists(key), |value| equals(key, value))
}

/// All names of a role label; any other label has one name.
fn role_names(key: &str) -> impl Iterator<Item = &str> {
    let names = if key == NODE_CONTROL_PLANE || key == NODE_MASTER {
        [Some(NODE_CONTROL_PLANE), Some(NODE_MASTER)]
    } else {
        [Some(key), None]
    };
    names.into_iter().flatten()
}

fn exists(key: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement { key: key.into(), operator: "Exists".into(), values: None }
}

fn equals(key: &str, value: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement { key: key.into(), operator: "In".into(), values: Some(vec![value.into()]) }
}

/// Pods go to exactly these nodes. One term per node, because the API allows one value per field requirement.
pub fn on_nodes<'a>(nodes: impl IntoIterator<Item = &'a str>) -> NodeSelector {
    let term = |node: &str| NodeSelectorTerm {
        match_expressions: None,
        match_fields: Some(vec![equals("metadata.name", node)]),
    };
    NodeSelector { node_selector_terms: nodes.into_iter().map(term).collect() }
}

/// Pods keep to the given nodes, and no two pods of their namespace with the given labels share a node.
pub fn affinity(nodes: Option<NodeSelector>, apart: &BTreeMap<String, String>) -> Affinity {
    keep_apart(nodes, apart, None)
}

/// As [`affinity`], but apart from pods of every namespace: for what a node can have only one of.
pub fn affinity_alone(nodes: Option<NodeSelector>, apart: &BTreeMap<String, String>) -> Affinity {
    keep_apart(nodes, apart, Some(LabelSelector::default()))
}

fn keep_apart(
    nodes: Option<NodeSelector>,
    apart: &BTreeMap<String, String>,
    namespaces: Option<LabelSelector>,
) -> Affinity {
    Affinity {
        node_affinity: nodes.map(|selector| NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(selector),
            ..NodeAffinity::default()
        }),
        pod_anti_affinity: Some(PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![PodAffinityTerm {
                label_selector: Some(LabelSelector { match_labels: Some(apart.clone()), ..LabelSelector::default() }),
                topology_key: "kubernetes.io/hostname".into(),
                namespace_selector: namespaces,
                ..PodAffinityTerm::default()
            }]),
            ..PodAntiAffinity::default()
        }),
        pod_affinity: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &[(&str, &str)]) -> Node {
        Node { labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(), ..Node::default() }
    }

    fn labels(pairs: &[(&str, &str)]) -> Placement {
        Placement::Labels(pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect())
    }

    #[test]
    fn a_selector_for_master_matches_nodes_labelled_only_control_plane() {
        let selector = labels(&[(NODE_MASTER, "")]);
        assert!(selector.matches(&node(&[(NODE_CONTROL_PLANE, "")])));
        assert!(selector.matches(&node(&[(NODE_MASTER, "")])));
        assert!(!selector.matches(&node(&[("role", "worker")])));
    }

    #[test]
    fn a_role_is_a_label_that_is_there_whatever_its_value() {
        let k3s = node(&[(NODE_CONTROL_PLANE, "true")]);
        let infra = "node-role.kubernetes.io/infra";
        for value in ["", "true"] {
            assert!(labels(&[(NODE_MASTER, value)]).matches(&k3s), "{value}");
            assert!(labels(&[(NODE_CONTROL_PLANE, value)]).matches(&node(&[(NODE_MASTER, "")])), "{value}");
            assert!(labels(&[(infra, value)]).matches(&node(&[(infra, "")])), "{value}");
            let selector = labels(&[(infra, value)]).node_selector().unwrap();
            let term = selector.node_selector_terms[0].match_expressions.as_ref().unwrap();
            assert_eq!((term[0].operator.as_str(), &term[0].values), ("Exists", &None));
        }
        assert!(!labels(&[(infra, "other")]).matches(&node(&[(infra, "")])));
        assert!(!labels(&[("a", "")]).matches(&node(&[("a", "true")])), "no role");
    }

    #[test]
    fn a_taint_is_tolerated_by_its_key_value_and_effect() {
        let taint = Taint { key: "dedicated".into(), value: "tf".into(), effect: "NoSchedule".into() };
        let tainted = Node { taints: vec![taint], ..Node::default() };
        let tolerated = |key: &str, operator: &str, value: &str, effect: &str| {
            let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let toleration = Toleration {
                key: text(key),
                operator: text(operator),
                value: text(value),
                effect: text(effect),
                ..Toleration::default()
            };
            untolerated(&tainted, &[toleration]).is_none()
        };
        assert!(untolerated(&tainted, &[]).is_some());
        assert!(tolerated("", "Exists", "", "") && tolerated("", "Exists", "", "NoSchedule"));
        assert!(tolerated("dedicated", "Exists", "", "") && tolerated("dedicated", "Equal", "tf", "NoSchedule"));
        assert!(tolerated("dedicated", "", "tf", ""));
        assert!(!tolerated("dedicated", "Equal", "other", "") && !tolerated("dedicated", "Exists", "", "NoExecute"));
        assert!(!tolerated("other", "Exists", "", "") && !tolerated("", "Equal", "tf", ""));
    }

    #[test]
    fn all_labels_have_to_match() {
        let selector = labels(&[("a", "1"), ("b", "2")]);
        assert!(selector.matches(&node(&[("a", "1"), ("b", "2"), ("c", "3")])));
        assert!(!selector.matches(&node(&[("a", "1")])));
        assert!(!selector.matches(&node(&[("a", "1"), ("b", "3")])));
    }

    #[test]
    fn a_set_that_asks_for_more_labels_lies_within_one_that_asks_for_some_of_them() {
        let (a, ab, b) = (labels(&[("a", "1")]), labels(&[("a", "1"), ("b", "2")]), labels(&[("b", "2")]));
        assert!(a.covers_or_is_covered(&ab) && ab.covers_or_is_covered(&a) && a.covers_or_is_covered(&a));
        assert!(!a.covers_or_is_covered(&b) && !a.covers_or_is_covered(&labels(&[("a", "2")])));
        assert!(Placement::Everywhere.covers_or_is_covered(&b));
        let (master, control_plane) = (labels(&[(NODE_MASTER, "")]), labels(&[(NODE_CONTROL_PLANE, "")]));
        assert!(master.covers_or_is_covered(&control_plane) && master.covers_or_is_covered(&Placement::ControlPlane));
    }

    #[test]
    fn a_role_in_a_selector_becomes_one_term_per_name_of_the_role() {
        let selector = labels(&[("a", "1"), (NODE_MASTER, "")]).node_selector().unwrap();
        assert_eq!(selector.node_selector_terms.len(), 2);
        assert!(selector.node_selector_terms.iter().all(|t| t.match_expressions.as_ref().unwrap().len() == 2));
    }
}
