//! Small helpers around objects of the API.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicObject};
use tf_plan::object::Kind;

/// A cache lags behind our own writes for less than this. Versions that are still behind then went backwards, as after a restore of
/// the cluster's store.
pub const LAG: Duration = Duration::from_mins(5);

/// Namespace (empty for cluster-scoped objects) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// A key.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// The kind as kube's dynamic API addresses it.
pub fn api_resource(kind: Kind) -> ApiResource {
    ApiResource {
        group: kind.group.into(),
        version: kind.version.into(),
        api_version: kind.api_version(),
        kind: kind.kind.into(),
        plural: kind.plural.into(),
    }
}

/// The resource version as a number. Kubernetes promises comparable versions since 1.35 and has always had them.
pub fn resource_version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_deref()?.parse().ok()
}

/// The uid of the controlling owner.
pub fn controller_uid(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_deref()?;
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

/// The controlling owner as text for messages.
pub fn describe_owner(object: &DynamicObject) -> String {
    let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
    match owners.iter().find(|owner| owner.controller == Some(true)) {
        Some(owner) => format!("{} {}", owner.kind, owner.name),
        None => "nobody".into(),
    }
}
