//! What an object in the config API is known by as ours: two of its annotations, of which every type has some.
//!
//! One names the resource that it was made for. The other one holds what the operator set last, so that what a person changed since is
//! told from what the spec changed. Objects that are everybody's have the second one only.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Annotation with the owner.
pub const OWNER: &str = "tf.tungsten.io/owner";
/// Annotation with what was set last, as JSON.
pub const LAST_APPLIED: &str = "tf.tungsten.io/last-applied";
/// The property that has annotations, and the list in it.
pub const ANNOTATIONS: &str = "annotations";
const PAIRS: &str = "key_value_pair";

/// The resource that objects are made for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// Whose an object that was found is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// The resource's own.
    Own,
    /// Of a former resource of its kind, namespace and name: nobody else's any more.
    Former,
    /// Somebody else's, or nobody's that we know.
    Foreign,
}

impl Owner {
    /// As it stands in the annotation.
    pub fn text(&self) -> String {
        format!("{}/{}", self.path(), self.uid)
    }

    /// Kind, namespace and name.
    pub fn path(&self) -> String {
        format!("{}/{}/{}", self.kind, self.namespace, self.name)
    }

    /// Whose an object is, by its properties.
    pub fn bears(&self, properties: &Map<String, Value>) -> Bearer {
        match annotation(properties, OWNER) {
            Some(text) if text == self.text() => Bearer::Own,
            Some(text) if text.rsplit_once('/').is_some_and(|(path, _)| path == self.path()) => Bearer::Former,
            _ => Bearer::Foreign,
        }
    }
}

/// Whom an object says that it was made for, if it was made by operators of ours.
pub fn owner_of(properties: &Map<String, Value>) -> Option<&str> {
    annotation(properties, OWNER)
}

/// What was set last on an object, by its properties; nothing where that is not known.
pub fn last_applied(properties: &Map<String, Value>) -> Map<String, Value> {
    let text = annotation(properties, LAST_APPLIED).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

/// The annotations of an object with ours among them; the others stay as they are.
pub fn annotations(properties: &Map<String, Value>, owner: Option<&Owner>, last: &Map<String, Value>) -> Value {
    let ours = owner.map(|owner| (OWNER, owner.text())).into_iter();
    let ours: Vec<_> = ours.chain([(LAST_APPLIED, Value::Object(last.clone()).to_string())]).collect();
    let is_foreign = |pair: &&Value| ours.iter().all(|(key, _)| pair["key"] != *key);
    let pairs: Vec<Value> = pairs(properties).iter().filter(is_foreign).cloned().collect();
    let pairs: Vec<Value> =
        pairs.into_iter().chain(ours.iter().map(|(key, value)| json!({"key": key, "value": value}))).collect();
    json!({ PAIRS: pairs })
}

fn pairs(properties: &Map<String, Value>) -> &[Value] {
    let pairs = properties.get(ANNOTATIONS).and_then(|annotations| annotations.get(PAIRS));
    pairs.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn annotation<'a>(properties: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    pairs(properties).iter().find(|pair| pair["key"] == key)?["value"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_noted_stays_and_a_former_resource_of_the_name_is_known() {
        let owner =
            Owner { kind: "Control".into(), namespace: "tf".into(), name: "control1".into(), uid: "uid-2".into() };
        let noted = json!({"annotations": {"key_value_pair": [{"key": "mine", "value": "1"}]}});
        let properties = noted.as_object().unwrap();
        assert_eq!(owner.bears(properties), Bearer::Foreign);
        let last = Map::from_iter([("a".to_owned(), json!(1))]);
        let marked = Map::from_iter([(ANNOTATIONS.to_owned(), annotations(properties, Some(&owner), &last))]);
        assert_eq!(pairs(&marked).len(), 3);
        assert_eq!((owner.bears(&marked), last_applied(&marked)), (Bearer::Own, last));
        assert_eq!(Owner { uid: "uid-3".into(), ..owner.clone() }.bears(&marked), Bearer::Former);
        for other in ["control", "control11"] {
            assert_eq!(Owner { name: other.into(), ..owner.clone() }.bears(&marked), Bearer::Foreign);
        }
    }
}
