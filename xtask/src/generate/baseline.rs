//! No release may refuse a resource that an earlier one accepted.
//!
//! `crds/baseline.txt` holds, for every field of the last release, what its schema demands. The check compares today's
//! schemas with it: a field that is gone, a type that changed, a choice that is missing, a bound that is narrower, a rule
//! or pattern that is new or different, and a default that changed are reported.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::{Result, bail};
use serde_json::Value;

/// Where the last release's demands are kept.
pub const FILE: &str = "crds/baseline.txt";

/// Demands by field: name of the demand and its value.
type Demands = BTreeMap<String, BTreeMap<String, Value>>;

/// Today's schemas in the form of the file.
pub fn current() -> String {
    let mut text =
        String::from("# What the schemas of the last release demand. Written by cargo xtask gen --accept-baseline.\n");
    for (field, demands) in demands() {
        let object: serde_json::Map<String, Value> = demands.into_iter().collect();
        let _ = writeln!(text, "{field} {}", Value::Object(object));
    }
    text
}

/// Changes since `baseline` that refuse what was accepted, or give it another meaning.
pub fn tightened(baseline: &str) -> Result<Vec<String>> {
    Ok(compare(&parse(baseline)?, &demands()))
}

fn parse(text: &str) -> Result<Demands> {
    let mut demands = Demands::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((field, object)) = line.split_once(" {") else { bail!("{FILE}: {line:?} is no field with demands") };
        demands.insert(field.to_owned(), serde_json::from_str(&format!("{{{object}"))?);
    }
    Ok(demands)
}

fn demands() -> Demands {
    let mut demands = Demands::new();
    for definition in tf_api::definitions() {
        if let Some(schema) = definition.object.pointer("/spec/versions/0/schema/openAPIV3Schema") {
            collect(definition.info.kind, schema, &mut demands);
        }
    }
    demands
}

/// Schema keywords that demand something, or give an absent field its meaning.
const KEYWORDS: [&str; 17] = [
    "type",
    "enum",
    "pattern",
    "format",
    "default",
    "required",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
];

fn collect(path: &str, schema: &Value, demands: &mut Demands) {
    let stated = KEYWORDS.iter().filter_map(|keyword| Some(((*keyword).to_owned(), schema.get(*keyword)?.clone())));
    demands.insert(path.to_owned(), stated.collect());
    // The specs inside a Manager are those of the components, loosened; they are compared there.
    if path.starts_with("Manager.spec.services.") && path.rsplit('.').next() == Some("spec") {
        return;
    }
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        collect(&format!("{path}.{name}"), field, demands);
    }
    if let Some(items) = schema.get("items") {
        collect(&format!("{path}[]"), items, demands);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        collect(&format!("{path}{{}}"), values, demands);
    }
}

fn compare(before: &Demands, now: &Demands) -> Vec<String> {
    let mut changes = Vec::new();
    for (field, old) in before {
        let Some(new) = now.get(field) else {
            changes.push(format!("{field}: the field is gone"));
            continue;
        };
        for keyword in KEYWORDS {
            if let Some(change) = narrower(keyword, old.get(keyword), new.get(keyword)) {
                changes.push(format!("{field}: {change}"));
            }
        }
    }
    changes
}

/// How a demand became narrower, if it did.
fn narrower(keyword: &str, old: Option<&Value>, new: Option<&Value>) -> Option<String> {
    if old == new {
        return None;
    }
    let show = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let changed = || Some(format!("{keyword} was {} and is {}", show(old), show(new)));
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    match keyword {
        "minimum" | "minLength" | "minItems" | "minProperties" => {
            (number(new)? > number(old).unwrap_or(f64::NEG_INFINITY)).then(changed)?
        }
        "maximum" | "maxLength" | "maxItems" | "maxProperties" => {
            (number(new)? < number(old).unwrap_or(f64::INFINITY)).then(changed)?
        }
        // A shorter list of choices, more required fields and more rules are narrower; the reverse is not.
        "enum" => (new.is_some() && (old.is_none() || !contains(new, old))).then(changed)?,
        "required" | "x-kubernetes-validations" => (!contains(old, new)).then(changed)?,
        "pattern" | "format" => new.is_some().then(changed)?,
        _ => changed(),
    }
}

/// Whether every item of the second list is in the first.
fn contains(list: Option<&Value>, items: Option<&Value>) -> bool {
    let empty = Vec::new();
    let list = list.and_then(Value::as_array).unwrap_or(&empty);
    items.and_then(Value::as_array).unwrap_or(&empty).iter().all(|item| list.contains(item))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(old: &Value, new: &Value) -> Vec<String> {
        let demands = |schema: &Value| {
            let mut demands = Demands::new();
            collect("K", &json!({"properties": {"f": schema}}), &mut demands);
            demands
        };
        compare(&demands(old), &demands(new))
    }

    #[test]
    fn what_refuses_more_than_before_is_reported() {
        let base = json!({"type": "integer", "minimum": 1, "maximum": 9});
        for new in [
            json!({"type": "string", "minimum": 1, "maximum": 9}),
            json!({"type": "integer", "minimum": 2, "maximum": 9}),
            json!({"type": "integer", "minimum": 1, "maximum": 8}),
            json!({"type": "integer", "minimum": 1, "maximum": 9, "default": 3}),
            json!({"type": "integer", "minimum": 1, "maximum": 9, "x-kubernetes-validations": [{"rule": "self > 3"}]}),
            json!({"type": "integer", "minimum": 1, "maximum": 9, "enum": [1, 2]}),
        ] {
            assert_eq!(changes(&base, &new).len(), 1, "{new}");
        }
    }

    #[test]
    fn what_accepts_more_than_before_is_fine() {
        let base = json!({"type": "string", "enum": ["a"], "maxLength": 5, "pattern": "^a$",
                          "x-kubernetes-validations": [{"rule": "true"}]});
        assert!(changes(&base, &json!({"type": "string", "enum": ["a", "b"], "maxLength": 6})).is_empty());
        assert!(changes(&base, &json!({"type": "string"})).is_empty());
    }

    #[test]
    fn a_field_that_is_gone_is_reported() {
        let old = parse("K.f {\"type\":\"string\"}").unwrap();
        assert_eq!(compare(&old, &Demands::new()), ["K.f: the field is gone"]);
    }

    #[test]
    fn the_file_reads_back() {
        assert!(tightened(&current()).unwrap().is_empty());
    }
}
