//! Resources that are being deleted and wait for an operator that is gone.

use anyhow::{Context as _, Result};
use kube::{
    Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    core::DynamicObject,
};
use serde_json::json;
use tf_api::{GROUP, kinds};
use tf_plan::object::Kind;

use crate::cluster::api;

/// Removes the operators' finalizers from the resources of a namespace that are being deleted, and returns a line about each. Others stay as they are.
///
/// # Errors
/// When the API server cannot be asked, or refuses a change.
pub async fn release(client: &Client, namespace: &str) -> Result<Vec<String>> {
    let mut released = Vec::new();
    for info in kinds::ALL {
        let api = api(client, Kind::custom(info), Some(namespace));
        let listed = match api.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => continue,
            listed => listed.with_context(|| format!("listing {}", info.plural))?,
        };
        for object in listed.items.iter().filter(|object| object.metadata.deletion_timestamp.is_some()) {
            let Some(others) = without_operators(object) else { continue };
            let name = object.name_any();
            let metadata = json!({"finalizers": others, "resourceVersion": object.metadata.resource_version});
            let patch = Patch::Merge(json!({ "metadata": metadata }));
            match api.patch(&name, &PatchParams::default(), &patch).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => continue,
                patched => patched.with_context(|| format!("{} {namespace}/{name}", info.kind))?,
            };
            released.push(format!(
                "{} {namespace}/{name}: finalizer removed; what it has in the config API stays there",
                info.kind
            ));
        }
    }
    Ok(released)
}

/// The finalizers of others; none if no operator has one.
fn without_operators(object: &DynamicObject) -> Option<Vec<&String>> {
    let all = object.finalizers();
    let others: Vec<_> = all.iter().filter(|name| !name.starts_with(&format!("{GROUP}/"))).collect();
    (others.len() < all.len()).then_some(others)
}
