//! Manifests: YAML or JSON, one document or several, lists taken apart.

use kube::core::DynamicObject;
use serde_json::Value;

/// What is wrong with a manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is no YAML. The lines around the place are left out: they may hold what a Secret does.
    #[error("{}", .0.without_snippet())]
    Syntax(serde_saphyr::Error),
    /// A document is no object of Kubernetes.
    #[error("document {number}: {why}")]
    Document {
        /// Counted from 1.
        number: usize,
        /// The parser's words.
        why: String,
    },
}

/// The objects of a manifest. Those of a namespaced kind of ours that name no namespace get this one.
///
/// # Errors
/// When it is no YAML, or a document lacks `apiVersion`, `kind` or a name.
pub fn read(text: &str, namespace: &str) -> Result<Vec<DynamicObject>, ManifestError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(ManifestError::Syntax)?;
    let mut objects = Vec::new();
    for (index, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
        let wrong = |why: String| ManifestError::Document { number: index + 1, why };
        let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        let items = match document["items"].as_array() {
            Some(items) if is_list => items.clone(),
            _ => vec![document],
        };
        for item in items {
            let mut object: DynamicObject = serde_json::from_value(item).map_err(|error| wrong(error.to_string()))?;
            let Some(types) = &object.types else { return Err(wrong("apiVersion and kind are missing".into())) };
            if object.metadata.name.is_none() {
                return Err(wrong(format!("{} without metadata.name", types.kind)));
            }
            if types.kind != "Node" {
                object.metadata.namespace.get_or_insert_with(|| namespace.to_owned());
            }
            objects.push(object);
        }
    }
    Ok(objects)
}
