//! Which nodes a selector matches, and how that is said to the scheduler.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodAntiAffinity,
    Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use tf_api::{
    common::PodConfiguration,
    names::{self, NODE_CONTROL_PLANE, NODE_MASTER},
};

use crate::observed::{Node, Taint};

/// The one field that an affinity can name.
const NODE_NAME: &str = "metadata.name";

/// A set of nodes by their labels. The two names of the control-plane role are one role here: Kubernetes renamed the
/// label in 1.20 and dropped the old one in 1.24, while manifests written for the Go tf-operator still say `master`.
#[derive(Clone, Debug, PartialEq)]
pub enum Placement {
    /// Nodes with the control-plane role.
    ControlPlane,
    /// Nodes with all of these labels.
    Labels(BTreeMap<String, String>),
    /// Every node.
    Everywhere,
    /// Nodes of the set that match one of the terms, too.
    Narrowed(Box<Self>, NodeSelector),
}

impl Placement {
    /// What an explicit selector means; `default` if it is empty.
    pub fn from_selector(selector: &BTreeMap<String, String>, default: Self) -> Self {
        if selector.is_empty() { default } else { Self::Labels(selector.clone()) }
    }

    /// The nodes of the set that an affinity requires.
    #[must_use]
    pub fn narrowed(self, affinity: Option<&NodeAffinity>) -> Self {
        let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.clone());
        match required {
            Some(selector) => Self::Narrowed(Box::new(self), selector),
            None => self,
        }
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
            Self::Narrowed(set, selector) => {
                set.matches(node) && selector.node_selector_terms.iter().any(|term| is_met(term, node))
            }
        }
    }

    /// Whether one of two sets holds all of the other, as far as the labels tell. Two sets that ask for different labels
    /// may have nodes in common all the same.
    pub fn covers_or_is_covered(&self, other: &Self) -> bool {
        let within = |a: &BTreeMap<&str, Option<&str>>, b: &BTreeMap<&str, Option<&str>>| {
            b.iter().all(|(key, value)| a.get(key).is_some_and(|found| value.is_none() || found == value))
        };
        match (self, other) {
            (Self::Narrowed(..), Self::Narrowed(..)) => self == other,
            (Self::Narrowed(set, _), wide) | (wide, Self::Narrowed(set, _)) => {
                within(&set.requirements(), &wide.requirements())
            }
            (a, b) => {
                let (a, b) = (a.requirements(), b.requirements());
                within(&a, &b) || within(&b, &a)
            }
        }
    }

    /// Labels and their values, with one name for a role; a label without a value has to exist.
    fn requirements(&self) -> BTreeMap<&str, Option<&str>> {
        match self {
            Self::Everywhere => BTreeMap::new(),
            Self::ControlPlane => BTreeMap::from([(NODE_CONTROL_PLANE, None)]),
            Self::Labels(labels) => {
                labels.iter().filter_map(|(key, value)| Some((role_names(key).next()?, asked(key, value)))).collect()
            }
            Self::Narrowed(set, _) => set.requirements(),
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
            Self::Narrowed(set, _) => format!("{} that its nodeAffinity requires", set.describe()),
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
            Self::Narrowed(set, selector) => return Some(both(set.node_selector(), selector)),
        };
        let terms = alternatives
            .into_iter()
            .map(|requirements| NodeSelectorTerm { match_expressions: Some(requirements), match_fields: None })
            .collect();
        Some(NodeSelector { node_selector_terms: terms })
    }
}

/// Nodes that match a term of each of two selectors.
fn both(wide: Option<NodeSelector>, narrow: &NodeSelector) -> NodeSelector {
    let Some(wide) = wide else { return narrow.clone() };
    let joined = |a: &NodeSelectorTerm, b: &NodeSelectorTerm| {
        let all = |part: fn(&NodeSelectorTerm) -> &Option<Vec<NodeSelectorRequirement>>| {
            let all: Vec<_> = part(a).iter().chain(part(b)).flatten().cloned().collect();
            (!all.is_empty()).then_some(all)
        };
        NodeSelectorTerm {
            match_expressions: all(|term| &term.match_expressions),
            match_fields: all(|term| &term.match_fields),
        }
    };
    // A term without requirements matches no node, and would match those of the other one.
    let terms = narrow.node_selector_terms.iter().filter(|term| !is_empty(term));
    let pairs = terms.flat_map(|narrow| wide.node_selector_terms.iter().map(move |wide| joined(wide, narrow)));
    NodeSelector { node_selector_terms: pairs.collect() }
}

fn is_empty(term: &NodeSelectorTerm) -> bool {
    term.match_expressions.iter().chain(&term.match_fields).flatten().next().is_none()
}

/// Whether a node meets all that a term requires, as the scheduler sees it (Kubernetes, `nodeaffinity.NewNodeSelector`).
fn is_met(term: &NodeSelectorTerm, node: &Node) -> bool {
    let label = |it: &NodeSelectorRequirement| holds(it, node.labels.get(&it.key).map(String::as_str));
    let field = |it: &NodeSelectorRequirement| it.key == NODE_NAME && holds(it, Some(&node.name));
    !is_empty(term)
        && term.match_expressions.iter().flatten().all(label)
        && term.match_fields.iter().flatten().all(field)
}

/// Whether a value is what a requirement wants.
fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_one = || value.is_some_and(|value| values.iter().any(|wanted| wanted == value));
    let numbers = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "In" => is_one(),
        "NotIn" => !is_one(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, limit)| value > limit),
        "Lt" => numbers().is_some_and(|(value, limit)| value < limit),
        _ => false,
    }
}

/// What an affinity says that would have no effect, or that the API server would refuse in the workload (Kubernetes, `ValidateNodeSelector`), with its path
/// below the affinity.
pub fn mistake(affinity: &NodeAffinity) -> Option<String> {
    const TERMS: &str = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten().count();
    if preferred > 0 {
        let why = "nodes are selected, and none is preferred; use requiredDuringSchedulingIgnoredDuringExecution";
        return Some(format!("preferredDuringSchedulingIgnoredDuringExecution: {why}"));
    }
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    if required.node_selector_terms.iter().all(is_empty) {
        return Some(format!("{TERMS}: no term has a requirement, so no node matches; add matchExpressions"));
    }
    required.node_selector_terms.iter().enumerate().find_map(|(index, term)| {
        let label = |it: &NodeSelectorRequirement| wrong(it, &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
        let field = |it: &NodeSelectorRequirement| {
            if it.key == NODE_NAME {
                wrong(it, &["In", "NotIn"])
            } else {
                Some(format!("the only field is {NODE_NAME}"))
            }
        };
        let expressions = term.match_expressions.iter().flatten().find_map(label);
        let found = expressions.map(|why| ("matchExpressions", why));
        let (part, why) =
            found.or_else(|| Some(("matchFields", term.match_fields.iter().flatten().find_map(field)?)))?;
        Some(format!("{TERMS}[{index}].{part}: {why}"))
    })
}

fn wrong(requirement: &NodeSelectorRequirement, operators: &[&str]) -> Option<String> {
    let NodeSelectorRequirement { key, operator, values } = requirement;
    let values = values.as_deref().unwrap_or_default();
    if !operators.contains(&operator.as_str()) {
        return Some(format!("{key}: operator {operator:?} is not one of {}", operators.join(", ")));
    }
    let cause = match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => "needs values",
        "Exists" | "DoesNotExist" if !values.is_empty() => "takes no values",
        "Gt" | "Lt" if values.len() != 1 || values[0].parse::<i64>().is_err() => "needs one value, a whole number",
        _ => return None,
    };
    Some(format!("{key}: {operator} {cause}"))
}

/// Tolerations of a spec, and that of the taint of nodes whose vRouter does not serve yet: pods of Tungsten Fabric are in the network of their node, and agents
/// would wait for ever.
pub fn with_own_taint(stated: &[Toleration]) -> Vec<Toleration> {
    with_taint(stated, names::TAINT_AGENT_NOT_READY)
}

/// Tolerations of a spec, and that of a taint with the effect `NoSchedule`.
pub fn with_taint(stated: &[Toleration], key: &str) -> Vec<Toleration> {
    let own = Toleration {
        key: Some(key.into()),
        operator: Some("Exists".into()),
        effect: Some("NoSchedule".into()),
        ..Toleration::default()
    };
    let is_there = stated.contains(&own);
    stated.iter().cloned().chain((!is_there).then_some(own)).collect()
}

/// The taint that keeps pods with these tolerations from a node, if there is one (Kubernetes, "Taints and Tolerations").
pub fn untolerated<'a>(node: &'a Node, tolerations: &[Toleration]) -> Option<&'a Taint> {
    node.taints.iter().find(|taint| !tolerates(taint, tolerations))
}

/// Whether pods with these tolerations tolerate a taint.
pub fn tolerates(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|it| {
        let is_effect = it.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect);
        let key = it.key.as_deref().unwrap_or_default();
        let is_any = it.operator.as_deref() == Some("Exists");
        let is_key = key == taint.key || key.is_empty() && is_any;
        is_effect && is_key && (is_any || it.value.as_deref().unwrap_or_default() == taint.value)
    })
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
    let term =
        |node: &str| NodeSelectorTerm { match_expressions: None, match_fields: Some(vec![equals(NODE_NAME, node)]) };
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

    fn affinity_of(terms: serde_json::Value) -> NodeAffinity {
        serde_json::from_value(
            serde_json::json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}),
        )
        .unwrap()
    }

    #[test]
    fn an_affinity_matches_as_the_scheduler_does_and_narrows_a_selector() {
        let term =
            |expression: serde_json::Value| affinity_of(serde_json::json!([{ "matchExpressions": [expression] }]));
        let matches =
            |affinity: &NodeAffinity, node: &Node| Placement::Everywhere.narrowed(Some(affinity)).matches(node);
        let (plain, rack) = (node(&[]), node(&[("rack", "7")]));
        for (operator, values, expected) in [
            ("In", &["6", "7"][..], (false, true)),
            ("NotIn", &["7"], (true, false)),
            ("Exists", &[], (false, true)),
            ("DoesNotExist", &[], (true, false)),
            ("Gt", &["6"], (false, true)),
            ("Lt", &["7"], (false, false)),
            ("Like", &["7"], (false, false)),
        ] {
            let affinity = term(serde_json::json!({"key": "rack", "operator": operator, "values": values}));
            assert_eq!((matches(&affinity, &plain), matches(&affinity, &rack)), expected, "{operator}");
            assert_eq!(mistake(&affinity).is_some(), operator == "Like", "{operator}");
        }
        let named = affinity_of(serde_json::json!([
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, {},
        ]));
        let n1 = Node { name: "n1".into(), ..Node::default() };
        assert_eq!((matches(&named, &n1), matches(&named, &plain)), (true, false));
        let narrowed = labels(&[(NODE_MASTER, "")]).narrowed(Some(&named));
        assert!(!narrowed.matches(&n1));
        let terms = narrowed.node_selector().unwrap().node_selector_terms;
        assert_eq!(terms.len(), 2, "both names of the role, and not the empty term: {terms:?}");
        assert!(terms.iter().all(|term| term.match_expressions.is_some() && term.match_fields.is_some()), "{terms:?}");
        assert!(mistake(&affinity_of(serde_json::json!([{}]))).unwrap().ends_with("add matchExpressions"));
        let preferred =
            serde_json::json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]});
        let said = mistake(&serde_json::from_value(preferred).unwrap()).unwrap();
        assert!(said.starts_with("preferredDuringSchedulingIgnoredDuringExecution: nodes are selected"), "{said}");
    }

    #[test]
    fn a_narrowed_set_is_part_of_what_it_was_and_of_others_nothing_is_known() {
        let not = |rack: &str| {
            affinity_of(
                serde_json::json!([{"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": [rack]}]}]),
            )
        };
        let others = Placement::Everywhere.narrowed(Some(&not("7")));
        assert!(others.covers_or_is_covered(&Placement::Everywhere));
        assert!(others.covers_or_is_covered(&others.clone()));
        assert!(!others.covers_or_is_covered(&labels(&[("rack", "7")])));
        assert!(!others.covers_or_is_covered(&Placement::Everywhere.narrowed(Some(&not("8")))));
        assert!(labels(&[("a", "b")]).narrowed(Some(&not("7"))).covers_or_is_covered(&labels(&[("a", "b")])));
    }
}
