//! Three-way merge of a property: what is wanted, what is there, and what was set last.

use serde_json::{Map, Value};

use super::record::{Property, Setting, Strength};

/// What comes of a merge.
#[derive(Debug, PartialEq)]
pub struct Merged {
    /// The property as it has to be written, if it has to be.
    pub write: Option<Value>,
    /// What is remembered as set last; null for nothing.
    pub last: Value,
}

/// Merges what is wanted into what is there.
pub fn merge(wanted: &Property, live: &Value, last: &Value) -> Merged {
    match wanted {
        Property::Whole(setting) => {
            let write = is_due(setting, live, given(last)).then(|| setting.value.clone());
            Merged { write, last: setting.value.clone() }
        }
        Property::Fields(settings) => {
            let due = settings.iter().filter(|(field, setting)| {
                is_due(setting, live.get(**field).unwrap_or(&Value::Null), last.get(**field))
            });
            let due: Vec<_> = due.collect();
            let write = (!due.is_empty()).then(|| {
                let mut fields = live.as_object().cloned().unwrap_or_default();
                fields.extend(due.iter().map(|(field, setting)| ((**field).to_owned(), setting.value.clone())));
                Value::Object(fields)
            });
            let values = settings.iter().map(|(field, setting)| ((*field).to_owned(), setting.value.clone()));
            Merged { write, last: Value::Object(values.collect()) }
        }
        Property::Entries { list, key, entries } => {
            let present = live.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let name = |entry: &Value| entry[*key].as_str().unwrap_or_default().to_owned();
            // What we no longer want and nobody changed goes.
            let is_left_over = |entry: &Value| {
                let name = name(entry);
                !entries.contains_key(&name) && last.get(&name).is_some_and(|last| is_same(last, entry))
            };
            let mut merged: Vec<Value> = present
                .iter()
                .filter(|entry| !is_left_over(entry))
                .map(|entry| {
                    entries.get(&name(entry)).filter(|wanted| !is_same(wanted, entry)).unwrap_or(entry).clone()
                })
                .collect();
            let is_missing = |entry: &&Value| present.iter().all(|other| name(other) != name(entry));
            merged.extend(entries.values().filter(is_missing).cloned());
            let write = (merged != present).then(|| {
                let mut fields = live.as_object().cloned().unwrap_or_default();
                fields.insert((*list).to_owned(), Value::Array(merged));
                Value::Object(fields)
            });
            let last: Map<String, Value> = entries.iter().map(|(name, entry)| (name.clone(), entry.clone())).collect();
            Merged { write, last: if last.is_empty() { Value::Null } else { Value::Object(last) } }
        }
        Property::Initial { .. } => Merged { write: None, last: Value::Null },
    }
}

/// What of a property that is somebody else's is not as it has to be, with what it is and what it should be. What is merely usual may be
/// otherwise.
pub fn contradiction(property: &str, wanted: &Property, live: &Value) -> Option<String> {
    let differs = |path: String, setting: &Setting, live: &Value| {
        let contradicts = setting.strength == Strength::Stated && !is_same(&setting.value, live);
        contradicts.then(|| format!("{path} is {live} where {} is wanted", setting.value))
    };
    match wanted {
        Property::Whole(setting) => differs(property.to_owned(), setting, live),
        Property::Fields(settings) => settings.iter().find_map(|(field, setting)| {
            differs(format!("{property}.{field}"), setting, live.get(*field).unwrap_or(&Value::Null))
        }),
        Property::Entries { list, entries, .. } => {
            let present = live.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let missing = entries.iter().find(|(_, wanted)| !present.iter().any(|entry| is_same(wanted, entry)));
            missing.map(|(name, _)| format!("{property} lacks {name}"))
        }
        Property::Initial { value, absent } => {
            let live = if live.is_null() { absent } else { live };
            (live != value).then(|| format!("{property} is {live} where {value} is wanted"))
        }
    }
}

/// Whether a value has to be set.
fn is_due(setting: &Setting, live: &Value, last: Option<&Value>) -> bool {
    if is_same(&setting.value, live) {
        return false;
    }
    match (setting.strength, last) {
        (Strength::Stated, _) => true,
        // The spec changed since, or somebody else did.
        (Strength::Usual, Some(last)) => *last != setting.value,
        (Strength::Usual, None) => is_nothing(live),
    }
}

/// A list that is empty is as good as none: the API begins with some.
fn is_nothing(live: &Value) -> bool {
    live.is_null() || live.as_array().is_some_and(Vec::is_empty)
}

/// The API leaves out fields without a value, and fields of an object that we do not name are not ours.
fn is_same(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            wanted.iter().all(|(field, value)| is_same(value, live.get(field).unwrap_or(&Value::Null)))
        }
        (wanted, live) => wanted == live,
    }
}

fn given(last: &Value) -> Option<&Value> {
    (!last.is_null()).then_some(last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn whole(setting: Setting, live: Value, last: Value) -> Option<Value> {
        merge(&Property::Whole(setting), &live, &last).write
    }

    #[test]
    fn what_a_person_changed_stays_until_the_spec_says_something_else() {
        let usual = || Setting::usual(64512);
        assert_eq!(whole(usual(), Value::Null, Value::Null), Some(json!(64512)), "nothing was there");
        assert_eq!(whole(usual(), json!(65000), Value::Null), None, "somebody was before us");
        assert_eq!(whole(usual(), json!(65000), json!(64512)), None, "somebody changed it since");
        assert_eq!(whole(usual(), json!(65000), json!(65000)), Some(json!(64512)), "the spec changed since");
        assert_eq!(whole(Setting::stated(64513), json!(65000), json!(64513)), Some(json!(64513)), "it is stated");
        assert_eq!(whole(Setting::stated(64513), json!(64513), Value::Null), None);
    }

    #[test]
    fn fields_that_nobody_named_stay() {
        let wanted = Property::Fields([("address", Setting::stated("10.0.0.1"))].into());
        let live = json!({"address": "10.0.0.9", "admin_down": true});
        let merged = merge(&wanted, &live, &json!({"address": "10.0.0.1"}));
        assert_eq!(merged.write, Some(json!({"address": "10.0.0.1", "admin_down": true})));
        assert_eq!(merge(&wanted, &merged.write.unwrap(), &merged.last).write, None);
    }

    #[test]
    fn entries_are_merged_by_name_and_only_our_own_go() {
        let entry = |name: &str, port: u16| json!({"name": name, "port": port});
        let entries = |names: &[(&str, u16)]| Property::Entries {
            list: "entry",
            key: "name",
            entries: names.iter().map(|(name, port)| ((*name).to_owned(), entry(name, *port))).collect(),
        };
        let live = json!({"entry": [entry("foreign", 1), entry("old", 2), entry("changed", 9), entry("metadata", 3)]});
        let last = json!({"old": entry("old", 2), "changed": entry("changed", 4)});
        let merged = merge(&entries(&[("metadata", 80), ("more", 81)]), &live, &last);
        let expected =
            json!({"entry": [entry("foreign", 1), entry("changed", 9), entry("metadata", 80), entry("more", 81)]});
        assert_eq!(merged.write, Some(expected));
        let none = merge(&entries(&[]), &merged.write.unwrap(), &merged.last);
        assert_eq!(none.write, Some(json!({"entry": [entry("foreign", 1), entry("changed", 9)]})));
        assert_eq!(none.last, Value::Null);
    }
}
