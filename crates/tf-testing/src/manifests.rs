//! Applying manifests without kubectl.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::gvk::GroupVersionKind;
use kube::discovery::{ApiCapabilities, ApiResource, Scope, pinned_kind};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::wait::eventually;

/// Field manager of everything a test applies by hand.
pub const FIELD_MANAGER: &str = "lab";

/// How long a new kind may take to be served.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

/// The documents of a YAML stream, with `List` objects unpacked and empty documents left out.
pub fn documents(yaml: &str) -> Result<Vec<Value>> {
    let mut documents = Vec::new();
    for document in serde_saphyr::from_multiple::<Value>(yaml).context("not YAML")? {
        match document {
            Value::Null => {}
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                match list.remove("items") {
                    Some(Value::Array(items)) => documents.extend(items),
                    _ => bail!("a List without items"),
                }
            }
            Value::Object(object) => documents.push(Value::Object(object)),
            other => bail!("a document that is not an object: {other}"),
        }
    }
    Ok(documents)
}

/// Applies every document in order and returns what the API server made of them.
pub async fn apply(client: &Client, yaml: &str) -> Result<Vec<DynamicObject>> {
    let mut applied = Vec::new();
    for document in documents(yaml)? {
        let object: DynamicObject = serde_json::from_value(document)?;
        let types = object.types.clone().context("a document without apiVersion and kind")?;
        let gvk = GroupVersionKind::try_from(&types)?;
        let (resource, capabilities) = served(client, &gvk).await?;
        let api = api(client, &object, &resource, &capabilities);
        let name = object.name_any();
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let stored = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.push(stored.with_context(|| format!("applying {} {name}", gvk.kind))?);
    }
    Ok(applied)
}

fn api(client: &Client, object: &DynamicObject, resource: &ApiResource, of: &ApiCapabilities) -> Api<DynamicObject> {
    match of.scope {
        Scope::Cluster => Api::all_with(client.clone(), resource),
        Scope::Namespaced => {
            Api::namespaced_with(client.clone(), object.metadata.namespace.as_deref().unwrap_or("default"), resource)
        }
    }
}

/// How a kind is served. A CRD applied just before is served a moment later, so an unknown kind is asked for again.
async fn served(client: &Client, gvk: &GroupVersionKind) -> Result<(ApiResource, ApiCapabilities)> {
    let what = format!("kind {} of {} to be served", gvk.kind, gvk.api_version());
    eventually(&what, SERVED_WITHIN, async || match pinned_kind(client, gvk).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Discovery(_)) => Ok(None),
        // An unknown group is answered in plain text, so there is no reason to look at.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_unpacked_and_empty_documents_skipped() {
        let yaml = "---\nkind: A\n---\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n---\n# nothing\n";
        let kinds: Vec<Value> = documents(yaml).unwrap().into_iter().map(|document| document["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        assert!(documents("just words").is_err());
        assert!(documents("kind: List").is_err());
    }
}
