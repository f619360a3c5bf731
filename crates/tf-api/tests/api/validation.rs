//! The files of `testdata/validation` are complete, and say of the structural part of the schema what an API server says.
//! CEL rules, and the exact words, are checked against a real API server by the api tier.

use std::{collections::BTreeSet, fmt::Write, fs};

use regex::Regex;
use serde_json::Value;
use tf_api::kinds::ALL;

use super::support::{definition, definitions, lost, nodes, properties, required, testdata, through_rust};

struct Case {
    /// Folder and file.
    name: String,
    accepted: bool,
    /// A part of the message of a refusal.
    expected: String,
    /// Objects to write one after the other; the last one is judged.
    objects: Vec<Value>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for info in ALL {
        let folder = testdata("validation").join(info.kind.to_lowercase());
        for file in fs::read_dir(&folder).unwrap() {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let file = path.file_name().unwrap().to_str().unwrap();
            let expected = text.lines().find_map(|line| line.strip_prefix("# expect: ")).unwrap_or_default();
            let objects: Vec<Value> =
                text.split("---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
            assert!(objects.iter().all(|object| object["kind"] == info.kind), "{file} is in the wrong folder");
            let accepted = file.starts_with("accept-");
            assert!(accepted || file.starts_with("reject-"), "{file}");
            assert_eq!(accepted, expected.is_empty(), "{file}: a refusal, and only that, has an expected message");
            cases.push(Case {
                name: format!("{}/{file}", info.kind),
                accepted,
                expected: expected.to_owned(),
                objects,
            });
        }
    }
    assert!(cases.len() > 150, "only {} files", cases.len());
    cases
}

/// What an API server says of `value` before it comes to the rules, one complaint a line.
fn complaints(schema: &Value, value: &Value, path: &str) -> String {
    let mut said = String::new();
    let number = value.as_i64();
    let text = value.as_str();
    let type_matches = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => number.is_some(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    };
    if !type_matches {
        return format!("{path} in body must be of type {}\n", schema["type"].as_str().unwrap_or_default());
    }
    if let (Some(number), Some(least)) = (number, schema["minimum"].as_i64())
        && number < least
    {
        let _ = writeln!(said, "{path} in body should be greater than or equal to {least}");
    }
    if let (Some(number), Some(most)) = (number, schema["maximum"].as_i64())
        && number > most
    {
        let _ = writeln!(said, "{path} in body should be less than or equal to {most}");
    }
    if let (Some(text), Some(least)) = (text, schema["minLength"].as_u64())
        && (text.chars().count() as u64) < least
    {
        let _ = writeln!(said, "{path} in body should be at least {least} chars long");
    }
    if let (Some(text), Some(most)) = (text, schema["maxLength"].as_u64())
        && text.chars().count() as u64 > most
    {
        let _ = writeln!(said, "{path} may not be more than {most} bytes");
    }
    if let (Some(text), Some(pattern)) = (text, schema["pattern"].as_str())
        && !Regex::new(pattern).unwrap().is_match(text)
    {
        let _ = writeln!(said, "{path} in body should match '{pattern}'");
    }
    if let Some(choices) = schema["enum"].as_array()
        && !choices.contains(value)
    {
        let _ = writeln!(said, "{path}: Unsupported value: {value}");
    }
    for field in required(schema).into_iter().filter(|field| value.get(field).is_none()) {
        let _ = writeln!(said, "{path}.{field}: Required value");
    }
    for (name, field) in properties(schema) {
        if let Some(value) = value.get(name) {
            said += &complaints(field, value, &format!("{path}.{name}"));
        }
    }
    if let (Some(items), Some(entries)) = (schema.get("items"), value.as_array()) {
        let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for key in keys {
            let mut seen = BTreeSet::new();
            if !entries.iter().all(|entry| seen.insert(entry[key].to_string())) {
                let _ = writeln!(said, "{path}: Duplicate value");
            }
        }
        for entry in entries {
            said += &complaints(items, entry, &format!("{path}[]"));
        }
    }
    said
}

/// The messages of all rules outside of status.
fn rule_messages() -> BTreeSet<String> {
    let all = definitions().iter().flat_map(nodes).filter(|(path, _)| !path.starts_with(".status"));
    all.flat_map(|(_, node)| node["x-kubernetes-validations"].as_array().cloned().unwrap_or_default())
        .map(|rule| rule["message"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn accepted_objects_have_the_right_structure_and_keep_everything_in_rust() {
    for case in cases() {
        let definition = definition(case.objects[0]["kind"].as_str().unwrap());
        let accepted = if case.accepted { &case.objects[..] } else { &case.objects[..case.objects.len() - 1] };
        for object in accepted {
            assert_eq!(complaints(definition.schema(), object, ""), "", "{}", case.name);
            let kept = through_rust(object).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert_eq!(lost(object, &kept, ""), Vec::<String>::new(), "{}", case.name);
        }
    }
}

#[test]
fn refused_objects_break_the_structure_or_a_rule_in_the_way_that_is_expected() {
    let messages = rule_messages();
    for case in cases().into_iter().filter(|case| !case.accepted) {
        let definition = definition(case.objects[0]["kind"].as_str().unwrap());
        let said = complaints(definition.schema(), case.objects.last().unwrap(), "");
        let by_a_rule = messages.iter().any(|message| message.contains(&case.expected));
        assert!(
            said.contains(&case.expected) || by_a_rule,
            "{}: nobody says {:?}, but: {said}",
            case.name,
            case.expected
        );
        assert!(!by_a_rule || said.is_empty(), "{}: refused before the rule is read: {said}", case.name);
    }
}

#[test]
fn every_rule_has_an_object_that_breaks_it() {
    let cases = cases();
    for message in rule_messages() {
        let broken = cases.iter().any(|case| !case.accepted && message.contains(&case.expected));
        assert!(broken, "no file breaks the rule: {message}");
    }
}

#[test]
fn every_pattern_has_an_object_that_breaks_it() {
    let cases = cases();
    let components = definitions().iter().filter(|definition| definition.info.kind != "Manager");
    for (path, _) in components.flat_map(nodes).filter(|(_, node)| node.get("pattern").is_some()) {
        let field = path.rsplit('.').next().unwrap_or_default();
        let expected = format!("{field} in body should match");
        assert!(cases.iter().any(|case| case.expected == expected), "no file breaks the pattern of {path}");
    }
}

#[test]
fn every_kind_accepts_and_refuses_something() {
    let cases = cases();
    for info in ALL {
        for accepted in [true, false] {
            let found = cases.iter().any(|case| case.objects[0]["kind"] == info.kind && case.accepted == accepted);
            assert!(found, "{}: no file with accepted = {accepted}", info.kind);
        }
    }
}
