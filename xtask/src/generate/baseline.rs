//! No release may refuse a resource that an earlier one accepted.
//!
//! `crds/baseline.txt` holds, for every field of the last release, what its schema demands. The check compares today's
//! schemas with it: a field that is gone, a type that changed, a choice that is missing, a bound that is narrower, a rule
//! or pattern that is new or different, a default that changed, and content that was free and is not any more are reported.
//! A keyword that the check knows nothing about may not change at all. A baseline that lacks a line or a kind is no baseline.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Where the last release's demands are kept.
pub const FILE: &str = "crds/baseline.txt";

/// Begins the line that says how many fields follow, so that a file that was cut off does not pass for a short one.
const COUNT: &str = "# Fields: ";

/// Demands by field: name of the demand and its value.
type Demands = BTreeMap<String, BTreeMap<String, Value>>;

/// Today's schemas in the form of the file.
pub fn current() -> String {
    let demands = demands();
    let mut text =
        String::from("# What the schemas of the last release demand. Written by cargo xtask gen --accept-baseline.\n");
    let _ = writeln!(text, "{COUNT}{}", demands.len());
    for (field, demands) in demands {
        let object: serde_json::Map<String, Value> = demands.into_iter().collect();
        let _ = writeln!(text, "{field} {}", Value::Object(object));
    }
    text
}

/// Changes since `baseline` that refuse what was accepted, or give it another meaning.
pub fn tightened(baseline: &str) -> Result<Vec<String>> {
    let before = parse(baseline)?;
    for definition in tf_api::definitions() {
        let kind = definition.info.kind;
        ensure!(
            before.contains_key(kind),
            "{FILE} says nothing about {kind}: cargo xtask gen --accept-baseline adds it"
        );
    }
    Ok(compare(&before, &demands()))
}

fn parse(text: &str) -> Result<Demands> {
    let mut demands = Demands::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((field, object)) = line.split_once(" {") else { bail!("{FILE}: {line:?} is no field with demands") };
        demands.insert(field.to_owned(), serde_json::from_str(&format!("{{{object}"))?);
    }
    let count = text.lines().find_map(|line| line.strip_prefix(COUNT));
    let count = count.with_context(|| format!("{FILE} does not say how many fields it has"))?;
    ensure!(demands.len().to_string() == count, "{FILE} has {} of its {count} fields", demands.len());
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

/// Schema keywords that demand nothing of a value themselves.
const NEUTRAL: [&str; 6] = ["description", "title", "example", "externalDocs", "properties", "items"];

/// Keywords of a rule that say nothing about which objects it refuses.
const WORDS: [&str; 4] = ["message", "messageExpression", "reason", "fieldPath"];

const DEFAULT: &str = "default";
const RULES: &str = "x-kubernetes-validations";
const FREE: &str = "x-kubernetes-preserve-unknown-fields";
const VALUES: &str = "additionalProperties";

fn collect(path: &str, schema: &Value, demands: &mut Demands) {
    let keywords = schema.as_object().into_iter().flatten();
    let demanding = keywords.filter(|(keyword, value)| {
        // A schema of values is compared like a field; here it counts only where it is a plain yes or no.
        !NEUTRAL.contains(&keyword.as_str()) && (*keyword != VALUES || value.is_boolean())
    });
    let stated = demanding.map(|(keyword, value)| {
        let value = if keyword == RULES { without_words(value) } else { value.clone() };
        (keyword.clone(), value)
    });
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
    if let Some(values) = schema.get(VALUES).filter(|values| values.is_object()) {
        collect(&format!("{path}{{}}"), values, demands);
    }
}

/// Rules as far as they decide what is refused.
fn without_words(rules: &Value) -> Value {
    let mut rules = rules.clone();
    for rule in rules.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        rule.retain(|keyword, _| !WORDS.contains(&keyword.as_str()));
    }
    rules
}

/// Rules without those that every object keeps which lacks some new field: `!has(self.field) || ...`.
fn without_those_about(rules: &Value, is_new: impl Fn(&str) -> bool) -> Value {
    let is_kept_without = |rule: &Value| {
        let guarded = rule["rule"].as_str().and_then(|rule| rule.strip_prefix("!has(self."));
        let Some((field, rest)) = guarded.and_then(|rest| rest.split_once(") || ")) else { return false };
        // A choice binds less than the guard, unless it is in brackets.
        is_new(field) && !outside_of_brackets(rest).contains('?')
    };
    let mut rules = rules.clone();
    if let Some(rules) = rules.as_array_mut() {
        rules.retain(|rule| !is_kept_without(rule));
    }
    rules
}

fn outside_of_brackets(text: &str) -> String {
    let mut depth = 0;
    let outside = text.chars().filter(|character| {
        depth += i32::from(*character == '(') - i32::from(*character == ')');
        depth == 0
    });
    outside.collect()
}

fn compare(before: &Demands, now: &Demands) -> Vec<String> {
    let mut changes = Vec::new();
    for (field, old) in before {
        let Some(new) = now.get(field) else {
            changes.push(format!("{field}: the field is gone"));
            continue;
        };
        let is_new = |name: &str| !before.contains_key(&format!("{field}.{name}"));
        let rules = new.get(RULES).map(|rules| without_those_about(rules, is_new));
        for keyword in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            let new = if keyword == RULES { rules.as_ref() } else { new.get(keyword) };
            if keyword == DEFAULT && !old.contains_key(DEFAULT) && means_nothing(field, now) {
                continue;
            }
            if let Some(change) = narrower(keyword, old.get(keyword), new) {
                changes.push(format!("{field}: {change}"));
            }
        }
    }
    for field in now.keys().filter(|field| !before.contains_key(*field)) {
        let was_free =
            |parent| before.get(parent).is_some_and(|old| is_true(old.get(FREE)) || is_true(old.get(VALUES)));
        if parent(field).is_some_and(was_free) {
            changes.push(format!("{field}: is restricted, and anything was accepted"));
        }
    }
    changes
}

/// Whether the default of an object fills nothing in: it is empty, and so is what its fields get.
fn means_nothing(field: &str, now: &Demands) -> bool {
    let within = format!("{field}.");
    let fields = now.range(within.clone()..).take_while(|(name, _)| name.starts_with(&within));
    let is_empty = |demands: &BTreeMap<String, Value>| {
        demands.get(DEFAULT).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty)
    };
    // Those further inside get theirs when the field that they are in is there.
    let mut filled = fields.filter(|(name, demands)| parent(name) == Some(field) && demands.contains_key(DEFAULT));
    now.get(field).is_some_and(is_empty) && filled.all(|(name, _)| means_nothing(name, now))
}

/// The field that a field is in.
fn parent(field: &str) -> Option<&str> {
    let container = field.strip_suffix("[]").or_else(|| field.strip_suffix("{}"));
    container.or_else(|| field.rsplit_once('.').map(|(parent, _)| parent))
}

fn is_true(value: Option<&Value>) -> bool {
    value == Some(&Value::Bool(true))
}

/// How a demand became narrower, if it did.
fn narrower(keyword: &str, old: Option<&Value>, new: Option<&Value>) -> Option<String> {
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    let is_narrower = match keyword {
        "minimum" | "minLength" | "minItems" | "minProperties" => {
            number(new)? > number(old).unwrap_or(f64::NEG_INFINITY)
        }
        "maximum" | "maxLength" | "maxItems" | "maxProperties" => number(new)? < number(old).unwrap_or(f64::INFINITY),
        // A shorter list of choices, more required fields and more rules are narrower; the reverse is not.
        "enum" => new.is_some() && (old.is_none() || !contains(new, old)),
        "required" | RULES => !contains(old, new),
        "pattern" | "format" | "multipleOf" | "not" | "allOf" | "anyOf" | "oneOf" => new.is_some() && old != new,
        "uniqueItems" | "exclusiveMinimum" | "exclusiveMaximum" => is_true(new) && !is_true(old),
        // What these allow is refused without them.
        FREE | VALUES | "x-kubernetes-int-or-string" | "nullable" => is_true(old) && !is_true(new),
        _ => old != new,
    };
    let show = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    is_narrower.then(|| format!("{keyword} was {} and is {}", show(old), show(new)))
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
        let rule = |rule: &str| json!([{"rule": rule, "message": "no"}]);
        for (old, new, told) in [
            (json!({"type": "integer"}), json!({"type": "string"}), r#"type was "integer" and is "string""#),
            (json!({"minimum": 1}), json!({"minimum": 2}), "minimum was 1 and is 2"),
            (json!({"maximum": 9}), json!({"maximum": 8}), "maximum was 9 and is 8"),
            (json!({}), json!({"maxLength": 5}), "maxLength was nothing and is 5"),
            (json!({"maxLength": 6}), json!({"maxLength": 5}), "maxLength was 6 and is 5"),
            (json!({"default": 1}), json!({"default": 3}), "default was 1 and is 3"),
            (
                json!({"properties": {"g": {"default": 1}}}),
                json!({"default": {}, "properties": {"g": {"default": 1}}}),
                "default was nothing and is {}",
            ),
            (json!({}), json!({"enum": ["a"]}), r#"enum was nothing and is ["a"]"#),
            (json!({"enum": ["a", "b"]}), json!({"enum": ["a"]}), r#"enum was ["a","b"] and is ["a"]"#),
            (json!({"pattern": "^a"}), json!({"pattern": "^a$"}), r#"pattern was "^a" and is "^a$""#),
            (json!({"required": ["a"]}), json!({"required": ["a", "b"]}), r#"required was ["a"] and is ["a","b"]"#),
            (
                json!({"x-kubernetes-validations": rule("self > 3")}),
                json!({"x-kubernetes-validations": rule("self > 4")}),
                r#"x-kubernetes-validations was [{"rule":"self > 3"}] and is [{"rule":"self > 4"}]"#,
            ),
            (
                json!({"x-kubernetes-list-map-keys": ["name"]}),
                json!({"x-kubernetes-list-map-keys": ["name", "port"]}),
                r#"x-kubernetes-list-map-keys was ["name"] and is ["name","port"]"#,
            ),
            (
                json!({"x-kubernetes-list-type": "atomic"}),
                json!({"x-kubernetes-list-type": "set"}),
                r#"x-kubernetes-list-type was "atomic" and is "set""#,
            ),
            (json!({FREE: true}), json!({}), "x-kubernetes-preserve-unknown-fields was true and is nothing"),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!({}),
                "x-kubernetes-int-or-string was true and is nothing",
            ),
            (json!({"nullable": true}), json!({"nullable": false}), "nullable was true and is false"),
            (json!({VALUES: true}), json!({VALUES: false}), "additionalProperties was true and is false"),
            (json!({}), json!({"uniqueItems": true}), "uniqueItems was nothing and is true"),
            (json!({}), json!({"exclusiveMinimum": true}), "exclusiveMinimum was nothing and is true"),
            (json!({}), json!({"multipleOf": 2}), "multipleOf was nothing and is 2"),
            (json!({}), json!({"oneOf": [{"required": ["a"]}]}), r#"oneOf was nothing and is [{"required":["a"]}]"#),
            (json!({}), json!({"not": {"required": ["a"]}}), r#"not was nothing and is {"required":["a"]}"#),
            (json!({}), json!({"x-kubernetes-new": 1}), "x-kubernetes-new was nothing and is 1"),
        ] {
            let mut demands = (old, new);
            // Beside what is compared, everything is as it was.
            for demand in [&mut demands.0, &mut demands.1] {
                demand["description"] = json!(format!("{told} or not"));
            }
            assert_eq!(changes(&demands.0, &demands.1), [format!("K.f: {told}")]);
        }
    }

    #[test]
    fn what_was_inside_and_is_gone_or_restricted_is_reported() {
        let string = json!({"type": "string"});
        let object = json!({"type": "object"});
        let gone = |inside: &Value| changes(inside, &object);
        let names: [&str; 0] = [];
        assert_eq!(gone(&json!({"type": "object", "properties": {"a": string}})), ["K.f.a: the field is gone"]);
        assert_eq!(gone(&json!({"type": "object", VALUES: string})), ["K.f{}: the field is gone"]);
        assert_eq!(gone(&json!({"type": "object", "items": string})), ["K.f[]: the field is gone"]);

        let free = json!({"type": "object", FREE: true});
        let known = json!({"type": "object", FREE: true, "properties": {"a": string}});
        assert_eq!(changes(&free, &known), ["K.f.a: is restricted, and anything was accepted"]);
        let values = json!({"type": "object", VALUES: true});
        assert_eq!(
            changes(&values, &json!({"type": "object", VALUES: string})),
            ["K.f: additionalProperties was true and is nothing", "K.f{}: is restricted, and anything was accepted"]
        );
        assert_eq!(changes(&object, &json!({"type": "object", "properties": {"a": string}})), names, "a new field");
    }

    #[test]
    fn what_accepts_as_much_as_before_or_more_is_fine() {
        let base = json!({
            "type": "string", "enum": ["a"], "maxLength": 5, "minLength": 2, "pattern": "^a$", "required": ["a"],
            "uniqueItems": true, "not": {}, "description": "one", "nullable": false,
            "x-kubernetes-validations": [{"rule": "true", "message": "no"}],
        });
        for new in [
            json!({"type": "string"}),
            json!({"type": "string", "enum": ["a", "b"], "maxLength": 6, "minLength": 1}),
            json!({"type": "string", "nullable": true, FREE: true, VALUES: true, "x-kubernetes-int-or-string": true}),
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "message": "a better word"}]}),
        ] {
            assert!(changes(&base, &new).is_empty(), "{new}");
        }
        let inner = json!({"properties": {"g": {"type": "integer"}, "h": {"default": {}}}});
        let mut filled = inner.clone();
        filled["default"] = json!({});
        assert!(changes(&inner, &filled).is_empty(), "nothing is filled in");
    }

    #[test]
    fn a_rule_about_a_field_that_nobody_could_set_refuses_nothing_that_was_accepted() {
        let with = |rules: &[&str]| {
            let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule, "message": "no"})).collect();
            json!({"properties": {"old": {"type": "integer"}}, "x-kubernetes-validations": rules})
        };
        let told = |rule: &str| !changes(&with(&["true"]), &with(&["true", rule])).is_empty();
        assert!(!told("!has(self.new) || self.new < 3 && self.old > 1"));
        assert!(!told("!has(self.new) || self.new < (has(self.old) ? self.old : 3)"));
        assert!(told("!has(self.old) || self.old < 3") && told("self.new < 3"));
        assert!(told("!has(self.new) || self.old < 3 ? self.old > 1 : false"), "the guard is a part of the condition");
    }

    #[test]
    fn the_file_reads_back() {
        assert!(tightened(&current()).unwrap().is_empty());
    }

    #[test]
    fn a_baseline_that_lost_lines_or_a_kind_is_refused() {
        let whole = current();
        let refused = |text: &str| tightened(text).unwrap_err().to_string();
        assert_eq!(refused(""), "crds/baseline.txt does not say how many fields it has");

        let cut: String = whole.lines().take(1000).fold(String::new(), |text, line| text + line + "\n");
        let count = demands().len();
        assert_eq!(refused(&cut), format!("crds/baseline.txt has 998 of its {count} fields"));
        assert!(parse(&whole[..whole.len() - 2]).is_err(), "the last line is cut off");

        let others: Vec<&str> =
            whole.lines().filter(|line| !line.starts_with('#') && !line.starts_with("Zookeeper")).collect();
        let without = format!("{COUNT}{}\n{}", others.len(), others.join("\n"));
        assert!(refused(&without).contains("says nothing about Zookeeper"), "{}", refused(&without));
    }
}
