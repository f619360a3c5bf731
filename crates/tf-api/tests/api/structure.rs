//! What every finished schema must look like for the API server, for server-side apply and for `kubectl explain`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tf_api::{
    crd::Definition,
    kinds::{ALL, KindInfo, MANAGER, SERVICES},
};

use super::support::{definition, definitions, nodes, properties, required};

/// Calls `check` with every schema of every kind.
fn every_schema(mut check: impl FnMut(&str, &Value)) {
    for definition in definitions() {
        for (path, node) in nodes(definition) {
            check(&format!("{}{path}", definition.info.kind), node);
        }
    }
}

#[test]
fn numbers_are_bounded_by_integers_so_that_each_one_that_is_stored_can_be_read() {
    every_schema(|path, node| {
        for bound in ["minimum", "maximum"] {
            if let Some(value) = node.get(bound) {
                assert!(value.is_i64(), "{path}: {bound} is {value}");
            }
        }
        if node["type"] == "integer" && node["format"] != "int64" {
            assert!(node["minimum"].is_i64() && node["maximum"].is_i64(), "{path} is not bounded");
        }
    });
}

#[test]
fn formats_are_known_and_null_means_not_set() {
    every_schema(|path, node| {
        assert_eq!(node.get("nullable"), None, "{path}");
        assert_ne!(node.get("default"), Some(&Value::Null), "{path}");
        if let Some(choices) = node.get("enum").and_then(Value::as_array) {
            assert!(!choices.contains(&Value::Null), "{path}");
        }
        if let Some(format) = node.get("format").and_then(Value::as_str) {
            assert!(["int32", "int64", "double", "date-time"].contains(&format), "{path}: {format}");
        }
    });
}

#[test]
fn every_field_is_explained_in_a_few_words() {
    every_schema(|path, node| {
        for (name, field) in
            properties(node).filter(|(name, _)| path.contains('.') || ["spec", "status"].contains(&name.as_str()))
        {
            let text = field["description"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{path}.{name} has no description");
            assert!(text.len() <= 300, "{path}.{name} has a description of {} bytes", text.len());
        }
    });
}

#[test]
fn lists_are_keyed_by_fields_that_every_entry_has() {
    let mut keyed = 0;
    every_schema(|path, node| {
        if node.get("x-kubernetes-list-type") != Some(&json!("map")) {
            assert_eq!(node.get("x-kubernetes-list-map-keys"), None, "{path}");
            return;
        }
        let item = &node["items"];
        for key in node["x-kubernetes-list-map-keys"].as_array().unwrap() {
            let key = key.as_str().unwrap();
            let default = item["properties"][key].get("default");
            assert!(required(item).contains(&key) || default.is_some(), "{path}: entries may lack {key}");
            keyed += 1;
        }
    });
    assert!(keyed > 3 * ALL.len(), "conditions, endpoints and members of every kind are keyed");
}

/// A field that a CEL rule reads, as the names below `self`.
fn fields_read(rule: &str) -> BTreeSet<Vec<&str>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    for (at, _) in rule.match_indices("self") {
        if rule[..at].ends_with(|c: char| is_name(c) || c == '.') {
            continue;
        }
        let mut rest = &rule[at + "self".len()..];
        let mut names = Vec::new();
        while let Some(after) = rest.strip_prefix('.') {
            let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
            names.push(&after[..end]);
            rest = &after[end..];
        }
        if rest.starts_with('(') {
            names.pop();
        }
        found.insert(names);
    }
    found
}

#[test]
fn fields_read_finds_fields_and_no_methods() {
    let found = fields_read("has(self.a.b) && self.size() < 2 && self.c.all(x, x == oldSelf.d) && self == ''");
    assert_eq!(found, BTreeSet::from([vec!["a", "b"], vec![], vec!["c"]]));
}

fn rules(node: &Value) -> impl Iterator<Item = (&str, &str)> {
    let rules = node.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    rules.map(|rule| (rule["rule"].as_str().unwrap(), rule["message"].as_str().unwrap_or_default()))
}

#[test]
fn rules_say_what_to_do_and_read_only_bounded_fields_that_are_there() {
    let mut seen = 0;
    every_schema(|path, node| {
        for (rule, message) in rules(node) {
            seen += 1;
            assert!(message.len() > 20, "{path}: rule without a message: {rule}");
            for names in fields_read(rule).into_iter().filter(|names| names.first() != Some(&"metadata")) {
                check_field_of_rule(path, node, rule, &names);
            }
        }
    });
    assert!(seen > 50, "only {seen} rules");
}

fn check_field_of_rule(path: &str, node: &Value, rule: &str, names: &[&str]) {
    let mut field = node;
    for (depth, name) in names.iter().enumerate() {
        let parent = field;
        field = parent["properties"].get(name).unwrap_or_else(|| panic!("{path}: no field {names:?}, read by: {rule}"));
        let guard = format!("has(self.{})", names[..=depth].join("."));
        let there = required(parent).contains(name) || field.get("default").is_some();
        assert!(there || rule.contains(&guard), "{path}: {names:?} may be absent, read unguarded by: {rule}");
    }
    let bound = match field["type"].as_str() {
        Some("string") if field.get("enum").is_none() => "maxLength",
        Some("array") => "maxItems",
        Some("object") if field.get("additionalProperties").is_some() => "maxProperties",
        _ => return,
    };
    assert!(field.get(bound).is_some(), "{path}: {names:?} has no {bound}, read by: {rule}");
}

#[test]
fn defaults_of_objects_with_rules_satisfy_the_api_server_before_it_fills_anything_in() {
    every_schema(|path, node| {
        let Some(default) = node.get("default").and_then(Value::as_object) else { return };
        for (rule, _) in rules(node) {
            for names in fields_read(rule) {
                let Some(first) = names.first() else { continue };
                let guarded =
                    rule.contains(&format!("has(self.{first})")) || rule.contains(&format!("has(self.{first}."));
                assert!(guarded || default.contains_key(*first), "{path}: the default lacks {first}, read by: {rule}");
            }
        }
    });
}

fn names_of(definition: &Definition) -> &Value {
    &definition.object["spec"]["names"]
}

#[test]
fn the_table_of_kinds_agrees_with_the_definitions() {
    assert_eq!(definitions().iter().map(|definition| definition.info).collect::<Vec<_>>(), ALL);
    for definition in definitions() {
        let (info, names) = (definition.info, names_of(definition));
        assert_eq!(names["kind"], info.kind);
        assert_eq!(names["plural"], info.plural);
        assert_eq!(names["singular"], info.kind.to_lowercase());
        assert_eq!(names["listKind"], format!("{}List", info.kind));
        assert_eq!(names["categories"], json!(["tf"]));
        assert_eq!(definition.object["metadata"]["name"], format!("{}.tf.tungsten.io", info.plural));
        assert_eq!(definition.object["spec"]["scope"], "Namespaced");
        assert_eq!(KindInfo::of(info.kind), Some(info));
    }
    assert_eq!(KindInfo::of("Pod"), None);
}

#[test]
fn each_kind_but_the_manager_is_a_service_of_the_manager_and_default_names_differ() {
    let services: BTreeSet<&str> = SERVICES.iter().map(|service| service.kind.kind).collect();
    let kinds: BTreeSet<&str> = ALL.iter().filter(|info| **info != MANAGER).map(|info| info.kind).collect();
    assert_eq!(services, kinds);
    assert_eq!(ALL.iter().map(|info| info.default_name).collect::<BTreeSet<_>>().len(), ALL.len());
}

#[test]
fn short_names_are_unique() {
    let short: BTreeSet<_> =
        definitions().iter().map(|definition| names_of(definition)["shortNames"][0].as_str().unwrap()).collect();
    assert_eq!(short.len(), ALL.len());
    assert!(short.iter().all(|name| name.starts_with("tf")), "{short:?}");
}

#[test]
fn a_name_that_fits_leaves_room_for_the_names_made_of_it() {
    for info in ALL.into_iter().filter(|info| info.scales) {
        let revision =
            format!("{}-{}-statefulset-0123456789", "n".repeat(info.longest_name()), info.kind.to_lowercase());
        assert_eq!(revision.len(), 63, "{}", info.kind);
    }
}

#[test]
fn columns_are_the_same_everywhere_and_their_paths_start_with_a_dot() {
    for definition in definitions() {
        let version = &definition.object["spec"]["versions"][0];
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        let names: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(names[..4], ["Ready", "Reason", "Members", "Version"], "{}", definition.info.kind);
        assert_eq!(names.contains(&"Endpoint"), definition.info.endpoint_column, "{}", definition.info.kind);
        assert!(columns.iter().all(|column| column["jsonPath"].as_str().unwrap().starts_with('.')));
        assert!(version["subresources"].get("status").is_some());
        assert_eq!(version["subresources"].get("scale").is_some(), definition.info.scales, "{}", definition.info.kind);
        let has_endpoint = definition.schema()["properties"]["status"]["properties"].get("endpoint").is_some();
        assert_eq!(has_endpoint, definition.info.endpoint_column, "{}", definition.info.kind);
    }
}

#[test]
fn a_status_starts_as_not_observed() {
    for definition in definitions() {
        assert_eq!(definition.schema()["properties"]["status"]["default"], json!({ "observedGeneration": -1 }));
    }
}

#[test]
fn the_manager_passes_specs_through() {
    let manager = definition("Manager");
    let mut specs = 0;
    for (path, node) in nodes(manager) {
        let Some(inside) = path.strip_prefix(".spec.services.").and_then(|rest| rest.split_once(".spec")) else {
            continue;
        };
        specs += usize::from(inside.1.is_empty());
        for key in ["default", "required", "x-kubernetes-validations", "x-kubernetes-list-type"] {
            assert_eq!(node.get(key), None, "{path}: {key}");
        }
        if node.get("properties").is_some() {
            assert_eq!(node["x-kubernetes-preserve-unknown-fields"], true, "{path}");
        }
    }
    assert_eq!(specs, SERVICES.len());
}

#[test]
fn the_manager_explains_what_a_component_explains() {
    let services = &definition("Manager").schema()["properties"]["spec"]["properties"]["services"]["properties"];
    assert_eq!(services.as_object().unwrap().len(), SERVICES.len());
    for service in SERVICES.iter().filter(|service| !service.former) {
        let entry = if service.list { &services[service.key]["items"] } else { &services[service.key] };
        let ours = &definition(service.kind.kind).schema()["properties"]["spec"];
        let passed = &entry["properties"]["spec"];
        let names = |schema| properties(schema).map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(passed), names(ours), "{}", service.key);
        for (name, field) in properties(ours) {
            assert_eq!(passed["properties"][name]["description"], field["description"], "{}.{name}", service.key);
        }
    }
}

#[test]
fn every_definition_can_be_applied_by_kubectl_with_room_to_grow() {
    // `kubectl apply` keeps a copy in an annotation, and annotations have 256 KiB together.
    for definition in definitions() {
        let size = serde_json::to_string(&definition.object).unwrap().len();
        assert!(size < 240 * 1024, "{} has {size} bytes", definition.info.kind);
    }
}
