//! Groups of nodes, one DaemonSet each, and who may take which nodes.
//!
//! A node can run one agent. Two agents that want the same node are kept apart by the scheduler; where the labels already
//! tell that they will, the younger resource is refused with the name of the older one.

use k8s_openapi::{api::core::v1::Toleration, apimachinery::pkg::apis::meta::v1::Time};
use tf_api::{Managed, UpgradeStrategy, Vrouter, contract::Reason, names};
use tf_plan::{
    build::identity::{Identity, REMOVAL},
    not_ready::NotReady,
    observed::Node,
    placement::{self, Placement},
};

use crate::strategy;

/// Nodes that share settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<'a> {
    /// Name; none for the one group of a spec without groups.
    pub name: Option<&'a str>,
    /// Its nodes.
    pub placement: Placement,
    /// Tolerations of its pods. None: they tolerate every taint.
    pub tolerations: Vec<Toleration>,
    /// Gateway of its nodes.
    pub gateway: Option<&'a str>,
    /// VrouterProfiles of its nodes, the strongest last.
    pub profiles: &'a [String],
    /// Whether profiles win over the group's own fields.
    pub profiles_win: bool,
    /// How a change goes through its nodes, where that is not as the spec says for all.
    pub strategy: Option<&'a UpgradeStrategy>,
}

impl Group<'_> {
    /// The identity of what is made for the group.
    pub fn identity(&self, resource: &Identity) -> Identity {
        self.name.map_or_else(|| resource.clone(), |name| resource.in_group(name))
    }
}

/// Groups of a resource, in the order of the spec.
pub fn of(cr: &Vrouter) -> Vec<Group<'_>> {
    let common = &cr.spec.common_configuration;
    let everywhere = || Placement::from_selector(&common.node_selector, Placement::Everywhere);
    if cr.spec.groups.is_empty() {
        let tolerations = tolerated(&common.tolerations, cr.spec.upgrade_strategy.as_ref());
        return vec![Group {
            name: None,
            placement: everywhere(),
            tolerations,
            gateway: None,
            profiles: &[],
            profiles_win: false,
            strategy: None,
        }];
    }
    let groups = cr.spec.groups.iter().map(|group| Group {
        name: Some(&group.name),
        placement: Placement::from_selector(&group.node_selector, everywhere()).narrowed(group.node_affinity.as_ref()),
        tolerations: tolerated(
            if group.tolerations.is_empty() { &common.tolerations } else { &group.tolerations },
            group.upgrade_strategy.as_ref().or(cr.spec.upgrade_strategy.as_ref()),
        ),
        gateway: group.vrouter_gateway.as_deref(),
        profiles: &group.profiles,
        profiles_win: group.override_fields == Some(true),
        strategy: group.upgrade_strategy.as_ref(),
    });
    groups.collect()
}

/// Tolerations of the spec. None are stated: pods tolerate every taint.
fn tolerated(stated: &[Toleration], strategy: Option<&UpgradeStrategy>) -> Vec<Toleration> {
    if stated.is_empty() {
        return Vec::new();
    }
    let own = placement::with_own_taint(stated);
    if strategy::drains(strategy) { placement::with_taint(&own, names::TAINT_DRAIN) } else { own }
}

/// Whether one of the groups selects a node.
pub fn select(groups: &[Group<'_>], node: &Node) -> bool {
    groups.iter().any(|group| group.placement.matches(node))
}

/// The first few of a list for people, and how many more there are. None where there is nothing.
pub fn few(mut found: Vec<String>, shown: usize) -> Option<String> {
    let more = found.len().saturating_sub(shown);
    found.truncate(shown);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!found.is_empty()).then(|| format!("{}{more}", found.join(", ")))
}

/// Nodes that a group matches and whose taints keep its pods away: no agent runs there, and the DaemonSet does not count them. Without tolerations of its
/// own a group tolerates everything.
pub fn kept_away(groups: &[Group<'_>], nodes: &[Node]) -> Option<String> {
    let kept_away = |node: &Node| {
        let group = groups.iter().find(|group| group.placement.matches(node))?;
        let taint = placement::untolerated(node, &group.tolerations).filter(|_| !group.tolerations.is_empty())?;
        Some(format!("{} ({}:{})", node.name, taint.key, taint.effect))
    };
    let found = few(nodes.iter().filter_map(kept_away).collect(), 1)?;
    Some(format!("no agent on {found}: tolerations do not cover the taint"))
}

/// Settings of and around groups that have no effect.
pub fn ignored(cr: &Vrouter) -> Vec<String> {
    let (common, groups) = (&cr.spec.common_configuration, &cr.spec.groups);
    let mut ignored: Vec<String> = groups
        .iter()
        .filter(|group| group.profiles.is_empty() && group.override_fields == Some(true))
        .map(|group| format!("spec.groups[{}].override: it takes effect together with profiles", group.name))
        .collect();
    let everyone = |own: fn(&tf_api::VrouterGroup) -> bool| !groups.is_empty() && groups.iter().all(own);
    if !common.node_selector.is_empty() && everyone(|group| !group.node_selector.is_empty()) {
        ignored.push("spec.commonConfiguration.nodeSelector: every group has its own".into());
    }
    if !common.tolerations.is_empty() && everyone(|group| !group.tolerations.is_empty()) {
        ignored.push("spec.commonConfiguration.tolerations: every group has its own".into());
    }
    ignored
}

/// Refuses groups that take each other's nodes, and affinities that mean nothing.
///
/// # Errors
/// With the names of the first two that do, or the path of the affinity.
pub fn distinct(cr: &Vrouter, groups: &[Group<'_>]) -> Result<(), NotReady> {
    let mistake = cr.spec.groups.iter().find_map(|group| {
        let why = placement::mistake(group.node_affinity.as_ref()?)?;
        Some(format!("spec.groups[{}].nodeAffinity.{why}", group.name))
    });
    if let Some(message) = mistake {
        return Err(NotReady::invalid(Reason::InvalidSpec, message));
    }
    if groups.iter().any(|group| group.name == Some(REMOVAL)) {
        let message = format!("spec.groups[{REMOVAL}]: the operator uses this name itself; choose another one");
        return Err(NotReady::invalid(Reason::InvalidSpec, message));
    }
    for (index, group) in groups.iter().enumerate() {
        if let Some(other) = groups[..index].iter().find(|other| other.placement.covers_or_is_covered(&group.placement))
        {
            let name = |group: &Group<'_>| group.name.unwrap_or_default().to_owned();
            return Err(NotReady::invalid(
                Reason::InvalidSpec,
                format!(
                    "groups {} and {} of spec.groups take the same nodes; give each a nodeSelector or nodeAffinity of its own",
                    name(other),
                    name(group)
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses the younger of two resources that take each other's nodes.
///
/// # Errors
/// With the name of the older one.
pub fn alone(cr: &Vrouter, groups: &[Group<'_>], siblings: &[Vrouter]) -> Result<(), NotReady> {
    let overlaps = |sibling: &&Vrouter| {
        self::of(sibling)
            .iter()
            .any(|other| groups.iter().any(|group| group.placement.covers_or_is_covered(&other.placement)))
    };
    let older = siblings.iter().filter(|sibling| age(sibling) < age(cr)).filter(overlaps).min_by_key(|s| age(s));
    match older {
        None => Ok(()),
        Some(older) => Err(NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "Vrouter {}/{} is older and takes nodes that this one takes too; a node runs one agent, so give each of \
                 them a nodeSelector of its own",
                older.home(),
                older.title()
            ),
        )),
    }
}

/// Nodes that two groups select, although neither selector covers the other: only one of both agents finds room there.
pub fn contested(groups: &[Group<'_>], nodes: &[Node]) -> Option<String> {
    let contested = |node: &Node| {
        let mut names = groups.iter().filter(|group| group.placement.matches(node)).filter_map(|group| group.name);
        let (first, second) = (names.next()?, names.next()?);
        Some(format!("node {} (groups {first} and {second})", node.name))
    };
    let found = few(nodes.iter().filter_map(contested).collect(), 1)?;
    Some(format!(
        "two groups select {found}, and a node runs one agent; have their nodeSelectors exclude each other, for example by a nodeAffinity with NotIn"
    ))
}

/// Nodes that an older resource selects, too, although neither selector covers the other: only one of both agents finds room there.
pub fn shared(cr: &Vrouter, groups: &[Group<'_>], siblings: &[Vrouter], nodes: &[Node]) -> Option<String> {
    let older: Vec<(&Vrouter, Vec<Group<'_>>)> =
        siblings.iter().filter(|sibling| age(sibling) < age(cr)).map(|sibling| (sibling, self::of(sibling))).collect();
    let shared = |node: &Node| {
        let (holder, _) = older.iter().find(|(_, others)| select(others, node)).filter(|_| select(groups, node))?;
        Some(format!("node {} (Vrouter {}/{})", node.name, holder.home(), holder.title()))
    };
    let found = few(nodes.iter().filter_map(shared).collect(), 1)?;
    Some(format!(
        "an older Vrouter selects {found}, too, and a node runs one agent; have their nodeSelectors exclude each other"
    ))
}

/// Resources in the order they were made. One that does not exist yet comes last.
fn age(cr: &Vrouter) -> (bool, Option<&Time>, &str, &str) {
    let made = cr.metadata.creation_timestamp.as_ref();
    (made.is_none(), made, cr.title(), cr.home())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vrouter(name: &str, minute: u8, spec: serde_json::Value) -> Vrouter {
        let made = format!("2026-11-21T09:{minute:02}:00Z");
        let metadata = json!({"name": name, "namespace": "tf", "creationTimestamp": made});
        let resource =
            json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Vrouter", "metadata": metadata, "spec": spec});
        serde_json::from_value(resource).unwrap()
    }

    fn labelled(name: &str, minute: u8, selector: serde_json::Value) -> Vrouter {
        vrouter(name, minute, json!({"commonConfiguration": {"nodeSelector": selector}}))
    }

    fn allowed(cr: &Vrouter, siblings: &[Vrouter]) -> bool {
        alone(cr, &of(cr), siblings).is_ok()
    }

    #[test]
    fn the_younger_of_two_that_take_the_same_nodes_is_refused() {
        let everywhere = serde_json::json!({});
        let (old, young) = (labelled("b", 1, everywhere.clone()), labelled("a", 2, everywhere));
        assert!(allowed(&old, std::slice::from_ref(&young)));
        let why = alone(&young, &of(&young), std::slice::from_ref(&old)).unwrap_err();
        assert!(why.message.starts_with("Vrouter tf/b is older"), "{}", why.message);
    }

    #[test]
    fn of_two_made_at_the_same_time_the_name_decides() {
        let (a, b) = (labelled("a", 1, json!({"x": "1"})), labelled("b", 1, json!({"x": "1"})));
        assert!(allowed(&a, std::slice::from_ref(&b)));
        assert!(!allowed(&b, std::slice::from_ref(&a)));
    }

    #[test]
    fn a_manifest_that_was_never_applied_is_the_youngest() {
        let old = labelled("z", 1, json!({}));
        let mut manifest = labelled("a", 1, json!({}));
        manifest.metadata.creation_timestamp = None;
        assert!(!allowed(&manifest, std::slice::from_ref(&old)));
        assert!(allowed(&old, &[manifest]));
    }

    #[test]
    fn different_labels_are_left_to_the_scheduler() {
        let old = labelled("old", 1, json!({"rack": "a"}));
        assert!(allowed(&labelled("young", 2, json!({"rack": "b"})), std::slice::from_ref(&old)));
        assert!(allowed(&labelled("young", 2, json!({"tier": "edge"})), std::slice::from_ref(&old)));
        assert!(!allowed(&labelled("young", 2, json!({"rack": "a", "tier": "edge"})), std::slice::from_ref(&old)));
    }

    #[test]
    fn nodes_that_two_selectors_meet_on_are_named_with_the_older_resource_in_the_younger_one() {
        let (old, young) = (labelled("old", 1, json!({"rack": "a"})), labelled("young", 2, json!({"tier": "edge"})));
        let node = |name: &str, labels: &[(&str, &str)]| Node {
            name: name.into(),
            labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            ..Node::default()
        };
        let both = [("rack", "a"), ("tier", "edge")];
        let mut nodes = vec![node("n1", &both[..1]), node("n2", &both), node("n3", &both[1..])];
        let shared_by =
            |cr: &Vrouter, other: &Vrouter, nodes: &[Node]| shared(cr, &of(cr), std::slice::from_ref(other), nodes);
        let message = "an older Vrouter selects node n2 (Vrouter tf/old), too, and a node runs one agent; have their nodeSelectors exclude each other";
        assert_eq!(shared_by(&young, &old, &nodes).as_deref(), Some(message));
        assert_eq!(shared_by(&old, &young, &nodes), None);
        nodes.push(node("n4", &both));
        assert!(shared_by(&young, &old, &nodes).unwrap().contains("node n2 (Vrouter tf/old) and 1 more, too"));
        assert_eq!(shared_by(&young, &old, &nodes[..1]), None);
    }

    #[test]
    fn groups_count_each_for_itself() {
        let groups = json!({"groups": [
            {"name": "a", "nodeSelector": {"rack": "a"}}, {"name": "b", "nodeSelector": {"rack": "b"}},
        ]});
        let old = vrouter("old", 1, groups);
        assert!(distinct(&old, &of(&old)).is_ok());
        assert!(!allowed(&labelled("young", 2, json!({"rack": "b"})), std::slice::from_ref(&old)));
        assert!(allowed(&labelled("young", 2, json!({"rack": "c"})), std::slice::from_ref(&old)));
    }

    /// Groups of nodes without and with a label.
    fn apart(expression: serde_json::Value) -> Vrouter {
        let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}});
        let groups =
            json!([{"name": "usual", "nodeAffinity": terms}, {"name": "fast", "nodeSelector": {"nic": "x710"}}]);
        vrouter("vrouter1", 1, json!({ "groups": groups }))
    }

    #[test]
    fn nodes_with_settings_of_their_own_leave_the_group_of_all_others() {
        let cr = apart(json!({"key": "nic", "operator": "NotIn", "values": ["x710"]}));
        let groups = of(&cr);
        assert!(distinct(&cr, &groups).is_ok());
        let node = |name: &str, labels: &[(&str, &str)]| Node {
            name: name.into(),
            labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            ..Node::default()
        };
        let nodes = [node("n1", &[]), node("n2", &[("nic", "x710")]), node("n3", &[("nic", "e810")])];
        let of = |node: &Node| {
            let found: Vec<_> = groups.iter().filter(|group| group.placement.matches(node)).collect();
            found.iter().filter_map(|group| group.name).collect::<Vec<_>>()
        };
        assert_eq!(nodes.each_ref().map(of), [vec!["usual"], vec!["fast"], vec!["usual"]]);
        assert_eq!(contested(&groups, &nodes), None);
        let overlapping = apart(json!({"key": "nic", "operator": "Exists"}));
        let said = contested(&super::of(&overlapping), &nodes).unwrap();
        assert!(
            said.starts_with("two groups select node n2 (groups usual and fast), and a node runs one agent; "),
            "{said}"
        );
    }

    #[test]
    fn an_affinity_that_means_nothing_is_refused_with_its_path() {
        for (expression, why) in [
            (
                json!({"key": "nic", "operator": "Is", "values": ["x710"]}),
                r#"nic: operator "Is" is not one of In, NotIn, "#,
            ),
            (json!({"key": "nic", "operator": "In"}), "nic: In needs values"),
            (json!({"key": "nic", "operator": "Gt", "values": ["many"]}), "nic: Gt needs one value, a whole number"),
        ] {
            let cr = apart(expression);
            let refused = distinct(&cr, &of(&cr)).unwrap_err().message;
            let path = "spec.groups[usual].nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions: ";
            assert!(refused.starts_with(&format!("{path}{why}")), "{refused}");
        }
    }
}
