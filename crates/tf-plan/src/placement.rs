//! Which nodes a selector matches, and how that is said to the scheduler.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodAntiAffinity,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use tf_api::names::{NODE_CONTROL_PLANE, NODE_MASTER};

use crate::observed::Node;

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

    /// Whether the node is in the set.
    pub fn matches(&self, node: &Node) -> bool {
        match self {
            Self::Everywhere => true,
            Self::ControlPlane => role_names(NODE_CONTROL_PLANE).any(|key| node.labels.contains_key(key)),
            Self::Labels(labels) => {
                labels.iter().all(|(key, value)| role_names(key).any(|key| node.labels.get(key) == Some(value)))
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
                labels.iter().filter_map(|(key, value)| Some((role_names(key).next()?, Some(value.as_str())))).collect()
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
                    .flat_map(|term| role_names(key).map(|key| [term.as_slice(), &[equals(key, value)]].concat()))
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
