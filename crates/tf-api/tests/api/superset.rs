//! Every field of the Go tf-operator's definitions is here, with the same type and at least the same values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::support::{definitions, nodes, required, testdata};

struct GoField {
    kind: String,
    path: String,
    type_: String,
    required: bool,
    choices: Vec<String>,
}

fn go_fields() -> Vec<GoField> {
    let text = std::fs::read_to_string(testdata("go-tf-operator/fields.txt")).unwrap();
    let fields: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            let choices = words.iter().find_map(|word| word.strip_prefix("enum="));
            GoField {
                kind: words[0].into(),
                path: words[1].into(),
                type_: words[2].into(),
                required: words.contains(&"required"),
                choices: choices.map(|list| list.split(',').map(Into::into).collect()).unwrap_or_default(),
            }
        })
        .collect();
    assert_eq!(fields.len(), 1658, "the list of fields was cut short");
    fields
}

#[test]
fn every_field_of_the_go_operator_is_accepted_with_the_same_type_and_values() {
    let ours: BTreeMap<(&str, String), &Value> = definitions()
        .iter()
        .flat_map(|definition| nodes(definition).into_iter().map(|(path, node)| ((definition.info.kind, path), node)))
        .collect();
    for field in go_fields() {
        let name = format!("{} {}", field.kind, field.path);
        let Some(node) = ours.get(&(field.kind.as_str(), field.path.clone())) else { panic!("{name} is missing") };
        assert_eq!(node["type"], field.type_.as_str(), "type of {name}");
        if let Some(choices) = node.get("enum").and_then(Value::as_array) {
            for choice in &field.choices {
                assert!(choices.iter().any(|ours| ours == choice), "{name} no longer accepts {choice}");
            }
        }
    }
}

#[test]
fn nothing_is_required_that_the_go_operator_did_not_require() {
    let go = go_fields();
    let known: BTreeSet<(&str, &str)> = go.iter().map(|field| (field.kind.as_str(), field.path.as_str())).collect();
    let go_requires: BTreeSet<(&str, &str)> =
        go.iter().filter(|field| field.required).map(|field| (field.kind.as_str(), field.path.as_str())).collect();
    for definition in definitions() {
        let kind = definition.info.kind;
        for (path, node) in nodes(definition) {
            // Inside an object that the Go operator did not have, the rules are ours.
            if !path.is_empty() && !known.contains(&(kind, path.as_str())) {
                continue;
            }
            for field in required(node) {
                let field = format!("{path}.{field}");
                assert!(go_requires.contains(&(kind, field.as_str())), "{kind} newly requires {field}");
            }
        }
    }
}
