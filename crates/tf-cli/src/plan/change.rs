//! What becomes of an object in a cluster. What Secrets hold is never shown, only how long it is and whether it changes.

use std::fmt::Write as _;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use similar::TextDiff;
use tf_plan::object::{Kind, SECRET};

/// Lines around a change.
const CONTEXT: usize = 3;

/// What becomes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is made.
    Created,
    /// It stays as it is.
    Same,
    /// It becomes another one.
    Changed(Changed),
    /// It is removed.
    Deleted,
    /// It cannot be told, for this reason.
    Unknown(String),
}

/// How an object changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The lines that change, with some around them, as `diff -u` shows them.
    pub lines: String,
    /// Whether pods are made anew, one at a time.
    pub replaces_pods: bool,
}

impl Change {
    /// From an object to what it becomes.
    pub fn between(kind: Kind, before: &Value, after: &Value) -> Self {
        let (before, after) = (without_bookkeeping(before), without_bookkeeping(after));
        if before == after {
            return Self::Same;
        }
        let (old, new) = (masked(kind, &before, None), masked(kind, &after, Some(&before)));
        let (old, new) = (yaml(&old), yaml(&new));
        let lines = TextDiff::from_lines(&old, &new).unified_diff().context_radius(CONTEXT).to_string();
        let template = "/spec/template";
        let replaces_pods = before.pointer(template).is_some() && before.pointer(template) != after.pointer(template);
        Self::Changed(Changed { lines, replaces_pods })
    }

    /// Whether something is written or removed, or may be.
    pub fn is_one(&self) -> bool {
        *self != Self::Same
    }
}

/// The object without what the API server notes by itself.
fn without_bookkeeping(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"] {
            metadata.remove(field);
        }
    }
    object
}

/// The object as it may be shown. `before` is the same object as it was.
pub fn masked(kind: Kind, object: &Value, before: Option<&Value>) -> Value {
    let mut object = object.clone();
    if kind != SECRET {
        return object;
    }
    if let Some(fields) = object.get_mut("data").and_then(Value::as_object_mut) {
        for (key, value) in fields {
            let was = before.and_then(|before| before.get("data")?.get(key));
            let note = if was.is_some_and(|was| was != value) { ", another one" } else { "" };
            let bytes =
                value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok()).map_or(0, |bytes| bytes.len());
            *value = json!(format!("({bytes} bytes{note})"));
        }
    }
    object
}

/// As YAML.
pub(super) fn yaml(value: &Value) -> String {
    let mut text = serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string());
    if !text.ends_with('\n') {
        let _ = writeln!(text);
    }
    text
}
