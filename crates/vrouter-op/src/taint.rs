//! The taint that keeps pods from a node until its agent serves in this boot (`agentNotReadyTaint`).
//!
//! A CNI configuration is on the disk of a node that boots, so its kubelet calls the node Ready before the agent serves. That an agent served in a
//! boot is noted in an annotation of the Node: an agent that restarts later taints nothing.
//!
//! By default the first boot is noted with the label that says that pods of the vRouter are on a node ([`crate::removal`]): until then pods there had another
//! network, or none. From the next boot on the node is tainted.

use std::collections::{BTreeMap, BTreeSet};

use tf_api::{Vrouter, names};
use tf_plan::{
    observed::{Node, Observed, Pod},
    plan::Mark,
};

use crate::{
    groups::{self, Group},
    removal,
};

fn is_tainted(node: &Node) -> bool {
    node.has_taint(names::TAINT_AGENT_NOT_READY)
}

/// The annotation that the first boot of a node gets with the label of the vRouter. None: the spec says when nodes are tainted, or this one waits for its agent.
pub fn first_boot(cr: &Vrouter, node: &Node, brings_plugin: bool) -> BTreeMap<&'static str, Option<String>> {
    let is_default = brings_plugin && cr.spec.service_configuration.agent_not_ready_taint.is_none();
    let boot = node.boot.clone().filter(|_| is_default && !is_tainted(node) && node.served_boot.is_none());
    boot.map(|boot| (names::ANNOTATION_SERVED_BOOT, Some(boot))).into_iter().collect()
}

/// What a node loses with the label of the vRouter: annotation and taints.
pub fn without(node: &Node) -> Mark {
    let annotation = node.served_boot.is_some().then_some((names::ANNOTATION_SERVED_BOOT, None));
    Mark {
        node: node.name.clone(),
        annotations: annotation.into_iter().collect(),
        taints: [names::TAINT_AGENT_NOT_READY, names::TAINT_DRAIN]
            .into_iter()
            .filter(|key| node.has_taint(key))
            .map(|key| (key, false))
            .collect(),
        ..Mark::default()
    }
}

/// What nodes get and lose. `brings_plugin`: whether pods use the CNI plugin of the vRouter. `forwards`: whether agents know a control node; without
/// one none of them gives pods a network.
pub fn marks(
    cr: &Vrouter,
    observed: &Observed<Vrouter>,
    groups: &[Group<'_>],
    brings_plugin: bool,
    forwards: bool,
) -> Vec<Mark> {
    let stated = cr.spec.service_configuration.agent_not_ready_taint;
    let is_wanted = brings_plugin && stated != Some(false) && cr.metadata.deletion_timestamp.is_none();
    let (Ok(nodes), Ok(pods)) = (observed.nodes.known(), observed.pods.known()) else { return Vec::new() };
    let is_serving = |pod: &&Pod| pod.ready && !pod.terminating && forwards;
    let serving: BTreeSet<&str> = pods.iter().filter(is_serving).filter_map(|pod| pod.node.as_deref()).collect();
    let own = removal::owner(cr);
    let mark = |node: &Node| {
        let is_selected = is_wanted && groups::select(groups, node);
        let has = is_tainted(node);
        let has_served = node.boot.is_some() && node.served_boot == node.boot;
        let is_ours = node.labels.get(names::LABEL_VROUTER) == Some(&own);
        let (annotation, taint) = if !is_selected {
            (is_ours && (has || node.served_boot.is_some())).then_some((Some(None), false))?
        } else if has_served {
            has.then_some((None, false))?
        } else if serving.contains(node.name.as_str()) {
            (stated.is_some() || is_ours || has).then_some((Some(Some(node.boot.clone()?)), false))?
        } else {
            let is_due = stated.is_some() || node.served_boot.is_some();
            (is_due && !has && node.boot.is_some()).then_some((None, true))?
        };
        let annotations = annotation.map(|value| (names::ANNOTATION_SERVED_BOOT, value));
        Some(Mark {
            node: node.name.clone(),
            annotations: annotations.into_iter().collect(),
            taints: BTreeMap::from([(names::TAINT_AGENT_NOT_READY, taint)]),
            labels: BTreeMap::new(),
        })
    };
    nodes.iter().filter_map(mark).collect()
}
