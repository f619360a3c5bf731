//! No field of a spec lies: each one changes what the operator does, or is told to have no effect, and none does both.
//!
//! The fields are those of the custom resource's definition, so that a new one cannot be forgotten. Each is set alone in an
//! otherwise planned resource, and again in the company in which it means something. It may also be refused, by name,
//! where the company without which it means nothing is missing.

#![expect(clippy::expect_used, clippy::panic, reason = "a lying field is a failing test")]

use serde_json::{Map, Value, json};
use tf_api::{Managed, kinds};
use tf_plan::{
    component::Component,
    not_ready::{NotReady, Obstacle},
    observed::Observed,
    plan::Plan,
};

use crate::golden::situation;

/// Fields that are no business of a plan: the runtime applies nothing while `paused`, and an endpoint's name says what is
/// spoken there, its `protocol` repeats that for people.
fn is_elsewhere(path: &str) -> bool {
    path == "paused" || path.ends_with(".external.endpoints.[].protocol")
}

const TEXT: &str = "some-text";

/// Where fields are tried, and with what.
pub struct Stage<'a, C: Component> {
    /// A resource whose spec says as little as possible, so that every field has something to change.
    pub resource: C::Cr,
    /// A snapshot in which it can be planned, with what samples refer to.
    pub observed: Observed<C::Cr>,
    /// Name of a container that runs.
    pub container: &'a str,
    /// Dependencies of the spec, each with an endpoint that is used.
    pub dependencies: &'a [(&'a str, &'a str)],
    /// Values of fields for which any of the schema's type would not do, by path, for example `version`. `.[]` in a path
    /// stands for the first entry of a list. With a value for it, a field is not looked into.
    pub sample: &'a dyn Fn(&str) -> Option<Value>,
    /// Other settings in which a field means something: a merge patch of the spec, by path of the field.
    pub company: &'a dyn Fn(&str) -> Option<Value>,
    /// Fields that are left out, with why.
    pub except: &'a [(&'a str, &'a str)],
}

/// What became of a resource.
type Outcome = Result<Plan, NotReady>;

impl<'a, C: Component> Stage<'a, C> {
    /// The stage of a golden case, for fields that need nothing else.
    pub fn of(package: &str, case: &str, container: &'a str) -> Self {
        let (resource, observed) = situation::<C>(package, case);
        let nothing = &|_: &str| None;
        Self { resource, observed, container, dependencies: &[], sample: nothing, company: nothing, except: &[] }
    }
}

impl<C: Component> Stage<'_, C> {
    /// Tries every field. Returns how many there are.
    ///
    /// # Panics
    /// When a field lies.
    pub fn no_field_lies(&self) -> usize {
        let kind = C::Cr::INFO.kind;
        let definition = kinds::definitions().into_iter().find(|definition| definition.info.kind == kind);
        let schema = definition.expect("a definition").schema()["properties"]["spec"].clone();
        let mut fields = Vec::new();
        self.walk("", &schema, &mut fields);
        assert!(matches!(self.outcome(&json!({})), Ok(Ok(_))), "the resource itself cannot be planned");
        let lies: Vec<String> = fields.iter().filter_map(|(path, value)| self.lie(path, value)).collect();
        assert!(lies.is_empty(), "fields of {kind} that lie:\n{}", lies.join("\n"));
        fields.len()
    }

    /// The fields at and below `path`, each with a value that the schema allows and that is not its default.
    fn walk(&self, path: &str, schema: &Value, fields: &mut Vec<(String, Value)>) {
        if is_elsewhere(path) || self.except.iter().any(|(field, _)| *field == path) {
            return;
        }
        let sample = (self.sample)(path).or_else(|| common_sample(path));
        if let Some(value) = sample {
            fields.push((path.to_owned(), value));
        } else if let Some(properties) = schema["properties"].as_object() {
            for (name, schema) in properties {
                // The name of an entry tells which one is meant, and is set in company with its other fields.
                if !(path.ends_with("[]") && name == "name") {
                    let separator = if path.is_empty() { "" } else { "." };
                    self.walk(&format!("{path}{separator}{name}"), schema, fields);
                }
            }
        } else if schema["type"] == "array" && schema["items"]["type"] == "object" {
            self.walk(&format!("{path}.[]"), &schema["items"], fields);
        } else {
            fields.push((path.to_owned(), value(path, schema)));
        }
    }

    /// How a field lies, if it does.
    fn lie(&self, path: &str, value: &Value) -> Option<String> {
        let company = (self.company)(path).or_else(|| self.common_company(path));
        let alone = self.attempt(path, value, &json!({}), company.is_some());
        alone.or_else(|| company.and_then(|company| self.attempt(path, value, &company, false)))
    }

    /// Company of fields that many kinds have.
    fn common_company(&self, path: &str) -> Option<Value> {
        let listed = json!([{"name": self.container}]);
        if path.starts_with("commonConfiguration.podOverrides.spec.containers.[]") {
            return Some(json!({"commonConfiguration": {"podOverrides": {"spec": {"containers": listed}}}}));
        }
        if path.starts_with("serviceConfiguration.containers.[]") {
            return Some(json!({"serviceConfiguration": {"containers": listed}}));
        }
        if let Some(field) = path.strip_prefix("commonConfiguration.authParameters.") {
            let mut auth = json!({"authMode": "keystone", "keystoneAuthParameters": {"adminPassword": "p"}});
            match field {
                "authMode" | "keystoneSecretName" => auth = json!({"keystoneSecretName": "some-secret"}),
                // Both have to be the same.
                "keystoneAuthParameters.projectDomainName" => {
                    auth["keystoneAuthParameters"]["userDomainName"] = json!(TEXT);
                }
                "keystoneAuthParameters.userDomainName" => {
                    auth["keystoneAuthParameters"]["projectDomainName"] = json!(TEXT);
                }
                _ => {}
            }
            return Some(json!({"commonConfiguration": {"authParameters": auth}}));
        }
        if path.starts_with("commonConfiguration.storage.persistentVolumeClaim.") {
            return Some(json!({"commonConfiguration": {"storage": {"persistentVolumeClaim": {"size": "1Gi"}}}}));
        }
        let (dependency, field) = path.strip_prefix("dependencies.")?.split_once('.')?;
        let (_, endpoint) = self.dependencies.iter().find(|(name, _)| *name == dependency)?;
        let external =
            |nodes: &[&str]| json!({"external": {"endpoints": [{"name": endpoint, "port": 4321, "nodes": nodes}]}});
        let source = match field {
            "ref.namespace" => json!({"ref": {"name": TEXT}}),
            // Members, where they are listed, are used instead.
            "external.endpoints.[].service" => external(&[]),
            external_field if external_field.starts_with("external.") => external(&["192.0.2.9"]),
            _ => return None,
        };
        Some(json!({"dependencies": {dependency: source}}))
    }

    fn attempt(&self, path: &str, value: &Value, company: &Value, may_be_refused: bool) -> Option<String> {
        let mut spec = company.clone();
        put(&mut spec, path, value.clone());
        let before = self.outcome(company).unwrap_or_else(|error| panic!("{company}: {error}"));
        let after = match self.outcome(&spec) {
            Ok(after) => after,
            Err(error) => return (!may_be_refused).then(|| format!("{path}: {spec} does not parse: {error}")),
        };
        if let Err(refused) = &after
            && refused.obstacle == Obstacle::Invalid
        {
            let named = path.split('.').skip(1).any(|segment| segment != "[]" && refused.message.contains(segment));
            let fine = may_be_refused && named;
            return (!fine).then(|| format!("{path}: {value} in {company} is refused: {}", refused.message));
        }
        let (changed, told) = (differ(&before, &after), tells(&after, path));
        (changed == told).then(|| {
            let ignored = after.map_or_else(|why| why.ignored, |plan| plan.ignored);
            format!("{path}: {value} in {company}: changes something: {changed}, is told: {told}, {ignored:?}")
        })
    }

    /// What becomes of the resource with a merge patch of its spec.
    fn outcome(&self, patch: &Value) -> serde_json::Result<Outcome> {
        let mut resource = serde_json::to_value(&self.resource)?;
        merge(&mut resource["spec"], patch);
        let cr = serde_json::from_value(resource)?;
        let outcome = C::plan(&cr, &self.observed);
        super::check::<C>(&patch.to_string(), &cr, &self.observed, &outcome);
        Ok(outcome)
    }
}

/// Whether the operator would do, or wait for, anything else.
fn differ(before: &Outcome, after: &Outcome) -> bool {
    match (before, after) {
        (Ok(a), Ok(b)) => {
            (&a.objects, &a.drafts, &a.version, &a.members, &a.held, &a.registration, &a.marks)
                != (&b.objects, &b.drafts, &b.version, &b.members, &b.held, &b.registration, &b.marks)
        }
        (Err(a), Err(b)) => a.message != b.message,
        _ => true,
    }
}

/// Whether the outcome says that the field, or something it is part of, has no effect.
fn tells(outcome: &Outcome, path: &str) -> bool {
    let ignored = match outcome {
        Ok(plan) => &plan.ignored,
        Err(not_ready) => &not_ready.ignored,
    };
    let plain = format!("spec.{}", path.replace(".[]", ""));
    ignored.iter().any(|line| {
        let field = without_names(line.split(": ").next().unwrap_or_default());
        plain == field || plain.starts_with(&format!("{field}."))
    })
}

/// A path without the names of entries, which stand in brackets.
fn without_names(path: &str) -> String {
    let mut depth = 0;
    let mut plain = String::new();
    for character in path.chars() {
        match character {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    plain
}

/// Values of fields that many kinds have.
fn common_sample(path: &str) -> Option<Value> {
    Some(match path {
        "version" => json!("tungstenfabric-latest"),
        "commonConfiguration.hostNetwork" | "commonConfiguration.authParameters.keystoneAuthParameters.insecure" => {
            json!(false)
        }
        "commonConfiguration.replicas" => json!(1),
        "commonConfiguration.tolerations" => json!([{"operator": "Exists"}]),
        "commonConfiguration.certificates.duration" => json!("24h"),
        "commonConfiguration.storage.hostPath.path" => json!("/some/path"),
        "commonConfiguration.storage.persistentVolumeClaim.size" => json!("5Gi"),
        "commonConfiguration.podOverrides.spec.containers.[].env" => json!([{"name": "SOME", "value": TEXT}]),
        "commonConfiguration.podOverrides.spec.containers.[].resources" => json!({"limits": {"memory": "2Gi"}}),
        "commonConfiguration.authParameters.authMode" => json!("keystone"),
        "commonConfiguration.authParameters.keystoneAuthParameters.authProtocol" => json!("http"),
        address if address.ends_with(".external.endpoints.[].nodes") => json!(["192.0.2.7"]),
        _ => return None,
    })
}

/// A value of the schema's type that is not the default.
fn value(path: &str, schema: &Value) -> Value {
    let default = schema.get("default");
    if let Some(choices) = schema["enum"].as_array() {
        return choices.iter().rfind(|choice| Some(*choice) != default).cloned().expect("a choice");
    }
    match schema["type"].as_str() {
        Some("string") => json!(TEXT),
        Some("boolean") => json!(default != Some(&json!(true))),
        Some("integer") => {
            let least = schema["minimum"].as_i64().unwrap_or_default();
            json!(default.and_then(Value::as_i64).unwrap_or(least) + 7)
        }
        Some("array") => json!([value(path, &schema["items"])]),
        Some("object") if schema.get("additionalProperties").is_some() => json!({"some-key": TEXT}),
        Some("object") => json!({}),
        _ => panic!("{path}: no sample for {schema}"),
    }
}

/// Sets the field at `path`; the first entry of a list if the path leads into one.
fn put(spec: &mut Value, path: &str, value: Value) {
    let mut place = spec;
    for segment in path.split('.') {
        if segment == "[]" {
            if place.get(0).is_none() {
                *place = json!([{}]);
            }
            place = &mut place[0];
        } else {
            place = &mut place[segment];
        }
    }
    *place = value;
}

/// A merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (field, value) in fields {
        if value.is_null() {
            target.as_object_mut().and_then(|target| target.remove(field));
        } else {
            merge(&mut target[field.as_str()], value);
        }
    }
}
