//! The rest of the status: numbers, members, endpoints.

use std::collections::BTreeMap;

use serde_json::json;
use tf_api::{
    CONTRACT,
    contract::{ConditionType, Contract, Draft, NameReference, NodeStatus, VersionStatus},
};

use super::{Inputs, Outcome, facts::Facts};
use crate::{hash, observed::Pod, plan::Plan, status};

/// Pods listed in a status; larger sets are only counted.
const LISTED_PODS: usize = 100;

/// The status with these conditions.
pub(super) fn contract(given: &Inputs<'_>, facts: &Facts, drafts: Vec<Draft>) -> Contract {
    let previous = given.previous.cloned().unwrap_or_default();
    let is_true = |kind| drafts.iter().any(|draft: &Draft| draft.kind == kind && draft.is_true());
    let ready = is_true(ConditionType::Ready);
    let available = is_true(ConditionType::Available);
    let mut next = Contract {
        observed_generation: given.generation,
        contract: Some(CONTRACT.into()),
        operator_version: Some(given.operator.into()),
        initialized: Some(facts.initialized || ready),
        active: Some(available),
        config_changed: Some(facts.initialized && facts.progressing),
        ..previous.clone()
    };
    if facts.has_workload {
        next.replicas = Some(facts.wanted);
        next.ready_replicas = Some(facts.ready);
        next.members_ready = Some(format!("{}/{}", facts.ready, facts.wanted));
        next.degraded = Some(is_true(ConditionType::Degraded));
        next.nodes = nodes(given.pods);
    }
    if let Outcome::Planned(plan, _) = given.outcome {
        plan_facts(&mut next, &previous, plan, available, ready);
    } else if let Some(told) = &given.told {
        next.daemons.clone_from(&told.daemons);
    }
    next.conditions = status::merge(&previous.conditions, drafts, given.generation, given.now);
    next
}

fn plan_facts(next: &mut Contract, previous: &Contract, plan: &Plan, available: bool, ready: bool) {
    next.members.clone_from(&plan.members);
    if let Some(daemons) = &plan.daemons {
        next.daemons.clone_from(daemons);
    }
    next.selector = plan.rollout.as_ref().map(|rollout| rollout.selector.clone());
    let deployed = previous.version.as_ref().and_then(|version| version.deployed.clone());
    let deployed = if ready && plan.left.is_empty() { Some(plan.version.clone()) } else { deployed };
    next.version = Some(VersionStatus { desired: Some(plan.version.clone()), deployed });
    // Before the first bring-up nobody may take the endpoints for served ones; afterwards they stay, conditions tell.
    if available || previous.initialized == Some(true) {
        next.endpoints.clone_from(&plan.endpoints);
        next.connection_secret_ref = plan.connection.as_ref().map(|(name, _)| NameReference { name: name.clone() });
        let offers = !plan.endpoints.is_empty() || plan.connection.is_some();
        next.connection_hash = offers.then(|| connection_hash(plan));
        next.discovery_config_map_ref = plan.discovery.clone().map(|name| NameReference { name });
    }
}

fn connection_hash(plan: &Plan) -> String {
    let endpoints = serde_json::to_value(&plan.endpoints).unwrap_or_default();
    let secret = plan.connection.as_ref().map(|(_, hash)| hash.as_str()).unwrap_or_default();
    hash::of_value(&json!([endpoints, secret]))
}

fn nodes(pods: &[Pod]) -> BTreeMap<String, NodeStatus> {
    if pods.len() > LISTED_PODS {
        return BTreeMap::new();
    }
    let status = |pod: &Pod| NodeStatus { ip: pod.address.clone(), hostname: pod.node.clone() };
    pods.iter().filter(|pod| pod.address.is_some()).map(|pod| (pod.name.clone(), status(pod))).collect()
}
