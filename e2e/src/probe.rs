//! The smallest component that uses everything `tf-runtime` offers, so that tests of the runtime do not depend on what one
//! real component happens to need.
//!
//! It reconciles kind Redis in place of its own operator, and reads its spec like this:
//!
//! | Field | What it does |
//! | --- | --- |
//! | `commonConfiguration.logLevel` | key `level` of ConfigMap `<name>-redis-settings` |
//! | `commonConfiguration.authParameters.keystoneSecretName` | a Secret that has to exist; its hash is key `secret` there |
//! | `commonConfiguration.replicas` | a StatefulSet of so many pods, one after the other; none without it |
//! | `commonConfiguration.podOverrides.metadata.annotations` | annotations of those pods |
//! | `serviceConfiguration.clusterName` | a second ConfigMap `<name>-redis-extra`; none without it |
//! | `version` | a release that is not known is an invalid spec |
//!
//! Pods are evicted from the node that its annotation [`DRAINED`] names, and the node that [`UNDRAINED`] names loses the taint.
//!
//! Beside them there is always a ClusterRole without rules, `<namespace>-<name>-redis`: the cluster-scoped leftover that
//! needs a finalizer.

use k8s_openapi::{
    api::{core::v1::ConfigMap, rbac::v1::ClusterRole},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;
use tf_api::{
    Managed, Redis,
    contract::{ConditionType, Draft, Reason},
    kinds::{REDIS, ZOOKEEPER},
    names,
};
use tf_plan::{
    build::identity::Identity,
    component::Component,
    declaration::{Declaration, Owned, PeerKind, Read},
    dependency::{self, Dependency, Need, SecretUse},
    hash, images,
    not_ready::NotReady,
    object::{CLUSTER_ROLE, CONFIG_MAP, Kind, Object, STATEFUL_SET},
    observed::Observed,
    plan::{Drain, Mark, Plan, Rollout},
    references::References,
};

/// Name of the operator.
pub const OPERATOR: &str = "probe-op";
/// Annotation with the name of a node from which pods are evicted.
pub const DRAINED: &str = "e2e.tungsten.io/drained";
/// Annotation with the name of a node that takes pods again.
pub const UNDRAINED: &str = "e2e.tungsten.io/undrained";

/// The component.
pub struct Probe;

impl Component for Probe {
    type Cr = Redis;

    fn declaration() -> Declaration {
        let own = |kind, reason| Owned { kind, reason };
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(REDIS),
            owned: vec![
                own(CLUSTER_ROLE, "what is left behind without a finalizer"),
                own(CONFIG_MAP, "what follows from the spec"),
                own(STATEFUL_SET, "pods"),
            ],
            peers: vec![PeerKind {
                kind: Kind::custom(ZOOKEEPER),
                condition: ConditionType::ZookeeperReady,
                reason: "a dependency that may be absent",
            }],
            reads: vec![Read::Secrets { reason: "a password that the spec names" }],
            restarts_pods: false,
            calls_agents: false,
            grant: None,
            deregisters: false,
            marks_nodes: true,
            further: Vec::new(),
        }
    }

    fn references(cr: &Redis) -> References {
        References { secrets: secret_name(cr).into_iter().collect(), config_maps: Vec::new() }
    }

    fn dependencies(_: &Redis) -> Vec<Dependency> {
        vec![Dependency {
            condition: ConditionType::ZookeeperReady,
            kind: Kind::custom(ZOOKEEPER),
            source: None,
            default_name: "zookeeper1",
            endpoint: "client",
            need: Need::Optional,
            secret: SecretUse::ShowsNothing,
            logs_in: true,
        }]
    }

    fn plan(cr: &Redis, observed: &Observed<Redis>) -> Result<Plan, NotReady> {
        let release = images::release(cr.version())?;
        let initialized = cr.is_initialized();
        let resolved = dependency::resolve(&Self::dependencies(cr), cr.home(), initialized, observed)?;
        let secret = secret_hash(cr, observed).map_err(|missing| missing.with_drafts(resolved.drafts.clone()))?;

        let identity = Identity::of(OPERATOR, cr);
        let level = cr.spec.common_configuration.log_level.unwrap_or_default();
        let settings = [("level", json!(level).as_str().unwrap_or_default().to_owned()), ("secret", secret)];
        let mut objects = vec![cluster_role(&identity, cr), config_map(&identity, "settings", settings)];
        if let Some(name) = &cr.spec.service_configuration.cluster_name {
            objects.push(config_map(&identity, "extra", [("clusterName", name.clone())]));
        }
        let mut drafts = resolved.drafts;
        let rollout = if let Some(replicas) = cr.spec.common_configuration.replicas {
            let (set, template_hash) = stateful_set(&identity, cr, replicas);
            let workloads = vec![(set.name.clone(), template_hash)];
            objects.push(set);
            Some(Rollout { workloads, wanted: Some(replicas), selector: identity.selector_text() })
        } else {
            drafts.push(Draft::holds(ConditionType::Available, Reason::Succeeded, "there is nothing to wait for"));
            None
        };
        let annotation = |key: &str| cr.metadata.annotations.as_ref()?.get(key);
        Ok(Plan {
            marks: annotation(UNDRAINED).map(|node| Mark::untaint(node, names::TAINT_DRAIN)).into_iter().collect(),
            drains: annotation(DRAINED).map(|node| Drain { node: node.clone(), begins: true }).into_iter().collect(),
            objects,
            rollout,
            version: release.name,
            drafts,
            troubles: std::collections::BTreeMap::new(),
            ..Plan::default()
        })
    }
}

/// Name of the ClusterRole of a resource.
pub fn cluster_role_name(namespace: &str, name: &str) -> String {
    format!("{namespace}-{name}-redis")
}

fn secret_name(cr: &Redis) -> Option<String> {
    cr.spec.common_configuration.auth_parameters.as_ref()?.keystone_secret_name.clone()
}

/// Hash of the Secret that the spec names; empty if it names none.
fn secret_hash(cr: &Redis, observed: &Observed<Redis>) -> Result<String, NotReady> {
    let Some(name) = secret_name(cr) else { return Ok(String::new()) };
    let data = observed.secrets.get(&name).ok_or_else(|| {
        let message = format!("Secret {}/{name} does not exist; create it or name another", cr.home());
        NotReady::input(Reason::SecretNotFound, message)
    })?;
    Ok(hash::of_contents(data.iter().map(|(key, value)| (key, value.as_bytes()))))
}

fn cluster_role(identity: &Identity, cr: &Redis) -> Object {
    let mut labels = identity.labels();
    labels.insert(names::LABEL_OWNER_NAMESPACE.into(), identity.namespace.clone());
    labels.insert(names::LABEL_OWNER_UID.into(), cr.metadata.uid.clone().unwrap_or_default());
    let name = cluster_role_name(&identity.namespace, &identity.name);
    let metadata = ObjectMeta { name: Some(name), labels: Some(labels), ..ObjectMeta::default() };
    Object::new(CLUSTER_ROLE, &ClusterRole { metadata, ..ClusterRole::default() })
}

fn config_map<const N: usize>(identity: &Identity, suffix: &str, data: [(&str, String); N]) -> Object {
    let mut metadata = identity.meta(identity.object_name(suffix));
    let digest = hash::of_value(&json!(data.as_slice()));
    metadata.annotations = Some([(names::ANNOTATION_CONFIG_HASH.to_owned(), digest)].into());
    let data = data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Object::new(CONFIG_MAP, &ConfigMap { metadata, data: Some(data), ..ConfigMap::default() })
}

/// A StatefulSet whose pods start one after the other, and the hash of its template.
fn stateful_set(identity: &Identity, cr: &Redis, replicas: i32) -> (Object, String) {
    let overrides = cr.spec.common_configuration.pod_overrides.clone().unwrap_or_default();
    let mut annotations = overrides.metadata.unwrap_or_default().annotations;
    let pod = json!({
        "nodeSelector": cr.spec.common_configuration.node_selector,
        "tolerations": [{ "operator": "Exists" }],
        "terminationGracePeriodSeconds": 0,
        "containers": [{ "name": "probe", "image": "none" }],
    });
    let template_hash = hash::of_value(&json!([pod, annotations]));
    annotations.insert(names::ANNOTATION_RESTART_HASH.into(), template_hash.clone());
    let name = identity.workload_name("statefulset");
    let body = json!({
        "apiVersion": STATEFUL_SET.api_version(),
        "kind": STATEFUL_SET.kind,
        "metadata": identity.meta(&name),
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "OrderedReady",
            "selector": { "matchLabels": identity.selector() },
            "template": { "metadata": { "labels": identity.labels(), "annotations": annotations }, "spec": pod },
        },
    });
    let object = Object {
        kind: STATEFUL_SET,
        namespace: Some(identity.namespace.clone()),
        name,
        body,
        ownership: tf_plan::object::Ownership::Force,
        independent: false,
    };
    (object, template_hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_of_every_owned_kind_can_be_planned() {
        let cr: Redis = serde_json::from_value(json!({
            "apiVersion": "tf.tungsten.io/v1alpha1",
            "kind": "Redis",
            "metadata": { "name": "a", "namespace": "tf", "uid": "u" },
            "spec": {
                "commonConfiguration": { "replicas": 2 },
                "serviceConfiguration": { "clusterName": "c" },
            },
        }))
        .unwrap();
        let plan = Probe::plan(&cr, &Observed::default()).unwrap();
        let names: Vec<String> = plan.objects.iter().map(Object::describe).collect();
        assert_eq!(
            names,
            [
                "ClusterRole tf-a-redis",
                "ConfigMap tf/a-redis-settings",
                "ConfigMap tf/a-redis-extra",
                "StatefulSet tf/a-redis-statefulset"
            ]
        );
        let declared: Vec<Kind> = Probe::declaration().owned.iter().map(|owned| owned.kind).collect();
        assert!(plan.objects.iter().all(|object| declared.contains(&object.kind)));
    }
}
