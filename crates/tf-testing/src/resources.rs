//! Custom resources as tests and the demo look at them: through their conditions.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, TypeMeta},
    discovery,
};
use serde_json::{Value, json};
use tf_api::{KindInfo, contract::PeerStatus, kinds, names};
use tf_plan::object::Kind;

use crate::wait::eventually;

/// A custom resource of ours, reduced to what is asked about it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Kind.
    pub kind: KindInfo,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Generation of the spec.
    pub generation: i64,
    /// The thin view of its status.
    pub status: PeerStatus,
    /// The whole object.
    pub object: DynamicObject,
}

impl Resource {
    /// An object of this kind as it was read. A status that is none counts as not reported.
    pub fn new(kind: KindInfo, object: DynamicObject) -> Self {
        let status = object.data.get("status").cloned().unwrap_or_default();
        Self {
            kind,
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            status: serde_json::from_value(status).unwrap_or_default(),
            object,
        }
    }

    /// A condition.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.condition(kind)
    }

    /// Whether a condition has this status.
    pub fn is(&self, kind: &str, status: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == status)
    }

    /// Whether it is Ready, for its current generation.
    pub fn is_ready(&self) -> bool {
        self.is("Ready", "True") && self.status.observed_generation == Some(self.generation)
    }

    /// Whether it is Ready with so many members, each of which is.
    pub fn is_ready_with(&self, members: usize) -> bool {
        let status = &self.object.data["status"];
        self.is_ready()
            && status["members"].as_array().map(Vec::len) == Some(members)
            && status["readyReplicas"] == json!(members)
    }

    /// Whether it is Ready with a pod on each of so many nodes.
    pub fn is_ready_on(&self, nodes: usize) -> bool {
        self.is_ready() && self.status.members_ready == Some(format!("{nodes}/{nodes}"))
    }

    /// Status, reason and message of a condition, or that it is missing.
    pub fn explain(&self, kind: &str) -> String {
        match self.condition(kind) {
            Some(condition) => format!("{}={} {}: {}", kind, condition.status, condition.reason, condition.message),
            None => format!("{kind} is not reported"),
        }
    }
}

/// Custom resources of a kind in a namespace.
pub fn api(client: &Client, kind: KindInfo, namespace: &str) -> Api<DynamicObject> {
    objects(client, Kind::custom(kind), namespace)
}

/// Objects of any kind in a namespace; in the cluster if the kind has none.
pub fn objects(client: &Client, kind: Kind, namespace: &str) -> Api<DynamicObject> {
    if kind.namespaced {
        Api::namespaced_with(client.clone(), namespace, &resource_of(kind))
    } else {
        Api::all_with(client.clone(), &resource_of(kind))
    }
}

/// The kind for kube's dynamic API.
pub fn resource_of(kind: Kind) -> ApiResource {
    ApiResource {
        group: kind.group.into(),
        version: kind.version.into(),
        api_version: kind.api_version(),
        kind: kind.kind.into(),
        plural: kind.plural.into(),
    }
}

/// One resource.
pub async fn get(client: &Client, kind: KindInfo, namespace: &str, name: &str) -> Result<Option<Resource>> {
    match api(client, kind, namespace).get_opt(name).await {
        Ok(object) => Ok(object.map(|object| Resource::new(kind, object))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Every resource of our kinds in a namespace, by kind and name. Kinds that are not installed have none.
pub async fn all(client: &Client, namespace: &str) -> Result<Vec<Resource>> {
    let mut found = Vec::new();
    for kind in kinds::ALL {
        match api(client, kind, namespace).list(&ListParams::default()).await {
            Ok(list) => found.extend(list.items.into_iter().map(|object| Resource::new(kind, object))),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Every object in a namespace, of every kind that the API server lists, Events included.
pub async fn everything_in(client: &Client, namespace: &str) -> Result<Vec<DynamicObject>> {
    let discovery = discovery::Discovery::new(client.clone()).run().await?;
    let mut found = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let namespaced = capabilities.scope == discovery::Scope::Namespaced;
            if !namespaced || !capabilities.supports_operation(discovery::verbs::LIST) {
                continue;
            }
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
            let objects = match api.list(&ListParams::default()).await {
                Ok(list) => list.items,
                // A definition that another test takes away at this moment.
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                Err(error) => return Err(error).with_context(|| format!("listing {}", resource.plural)),
            };
            let types = TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() };
            found.extend(objects.into_iter().map(|object| DynamicObject { types: Some(types.clone()), ..object }));
        }
    }
    Ok(found)
}

/// Pods of all resources of a kind in a namespace.
pub async fn pods(client: &Client, kind: KindInfo, namespace: &str) -> Result<Vec<Pod>> {
    let of_kind = format!("{}={}", names::LABEL_TYPE, kind.kind.to_ascii_lowercase());
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    Ok(pods.list(&ListParams::default().labels(&of_kind)).await?.items)
}

/// Whether a pod is Ready, as its kubelet said last.
pub fn is_pod_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Waits until a resource satisfies `wanted`; on failure the error says what its conditions were.
pub async fn until(
    client: &Client,
    kind: KindInfo,
    namespace: &str,
    name: &str,
    what: &str,
    limit: Duration,
    wanted: impl Fn(&Resource) -> bool,
) -> Result<Resource> {
    let label = format!("{} {namespace}/{name} to be {what}", kind.kind);
    let mut last = String::from("it does not exist");
    let outcome = eventually(&label, limit, async || {
        let found = get(client, kind, namespace, name).await?;
        if let Some(resource) = &found {
            last = conditions(resource);
        }
        Ok(found.filter(&wanted))
    })
    .await;
    outcome.with_context(|| format!("its conditions were:\n{last}"))
}

/// Waits until a resource is Ready for its current generation.
pub async fn ready(client: &Client, kind: KindInfo, namespace: &str, name: &str, limit: Duration) -> Result<Resource> {
    until(client, kind, namespace, name, "Ready", limit, Resource::is_ready).await
}

/// Applies a spec to a resource, as a user would.
pub async fn apply(client: &Client, kind: KindInfo, namespace: &str, name: &str, spec: Value) -> Result<DynamicObject> {
    let body = json!({
        "apiVersion": format!("{}/{}", tf_api::GROUP, tf_api::VERSION),
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    });
    let parameters = PatchParams::apply("user").force();
    Ok(api(client, kind, namespace).patch(name, &parameters, &Patch::Apply(&body)).await?)
}

/// All conditions as lines.
pub fn conditions(resource: &Resource) -> String {
    let lines: BTreeMap<_, _> =
        resource.status.conditions.iter().map(|c| (&c.type_, resource.explain(&c.type_))).collect();
    lines.into_values().collect::<Vec<_>>().join("\n")
}
