//! StatefulSets, DaemonSets, and what stands beside them.

use k8s_openapi::{
    api::{
        apps::v1::{
            DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy,
        },
        core::v1::{PersistentVolumeClaim, PodTemplateSpec, ServiceAccount},
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};

use crate::{
    build::identity::{Identity, LABEL_LIMIT, fit},
    object::{DAEMON_SET, Object, POD_DISRUPTION_BUDGET, SERVICE_ACCOUNT, STATEFUL_SET},
};

/// Nothing but the operator replaces pods.
const ON_DELETE: &str = "OnDelete";

/// A StatefulSet of members.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    /// Name.
    pub name: String,
    /// Number of pods.
    pub replicas: i32,
    /// Pod template.
    pub template: PodTemplateSpec,
    /// Claim template.
    pub claim: Option<PersistentVolumeClaim>,
    /// Name of the headless Service.
    pub service: &'a str,
}

/// A StatefulSet whose pods start in parallel and are replaced by the operator only.
pub fn stateful_set(identity: &Identity, members: Members<'_>) -> Object {
    Object::new(
        STATEFUL_SET,
        &StatefulSet {
            metadata: identity.meta(members.name),
            spec: Some(StatefulSetSpec {
                replicas: Some(members.replicas),
                pod_management_policy: Some("Parallel".into()),
                update_strategy: Some(StatefulSetUpdateStrategy {
                    type_: Some(ON_DELETE.into()),
                    ..StatefulSetUpdateStrategy::default()
                }),
                service_name: Some(members.service.to_owned()),
                selector: selector(identity),
                template: members.template,
                volume_claim_templates: members.claim.map(|claim| vec![claim]),
                ..StatefulSetSpec::default()
            }),
            ..StatefulSet::default()
        },
    )
}

/// A DaemonSet whose pods are replaced by the operator only.
pub fn daemon_set(identity: &Identity, name: String, template: PodTemplateSpec) -> Object {
    Object::new(
        DAEMON_SET,
        &DaemonSet {
            metadata: identity.meta(name),
            spec: Some(DaemonSetSpec {
                update_strategy: Some(DaemonSetUpdateStrategy {
                    type_: Some(ON_DELETE.into()),
                    ..DaemonSetUpdateStrategy::default()
                }),
                selector: selector(identity),
                template,
                ..DaemonSetSpec::default()
            }),
            ..DaemonSet::default()
        },
    )
}

/// At most one member may be evicted at a time, whatever the size.
pub fn disruption_budget(identity: &Identity) -> Object {
    Object::new(
        POD_DISRUPTION_BUDGET,
        &PodDisruptionBudget {
            metadata: identity.meta(disruption_budget_name(identity)),
            spec: Some(PodDisruptionBudgetSpec {
                max_unavailable: Some(IntOrString::Int(1)),
                selector: Some(selector(identity)),
                ..PodDisruptionBudgetSpec::default()
            }),
            ..PodDisruptionBudget::default()
        },
    )
}

/// Name of the disruption budget; the Go tf-operator's. With two budgets for one pod the API server evicts nobody.
fn disruption_budget_name(identity: &Identity) -> String {
    fit(&format!("{}-{}", identity.name, identity.type_name), LABEL_LIMIT)
}

/// The pods' ServiceAccount, without a token.
pub fn service_account(identity: &Identity) -> Object {
    Object::new(
        SERVICE_ACCOUNT,
        &ServiceAccount {
            metadata: identity.meta(service_account_name(identity)),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        },
    )
}

/// Name of the pods' ServiceAccount; the Go tf-operator's.
pub fn service_account_name(identity: &Identity) -> String {
    identity.object_name("service-account")
}

fn selector(identity: &Identity) -> LabelSelector {
    LabelSelector { match_labels: Some(identity.selector()), ..LabelSelector::default() }
}
