//! Fields that the definition of a kind does not have. The API server drops them unless it is asked to check (`kubectl apply --validate=ignore`; Kubernetes,
//! "Extend the Kubernetes API with CustomResourceDefinitions", field pruning).

use serde_json::Value;

use crate::{
    crd::Definition,
    kinds::{KindInfo, definitions},
};

/// Annotation in which `kubectl apply` keeps what it was given.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields of the Go tf-operator R2011 that later releases have no more, and what says the same now.
const FORMER: [(&str, &str); 10] = [
    ("cassandraInstance", "spec.dependencies.cassandra"),
    ("clusterConfig", "clusterName, podSubnet and serviceSubnet in serviceConfiguration of the Kubemanager"),
    ("configInstance", "spec.dependencies.config"),
    ("controlInstance", "spec.dependencies.control"),
    ("gateway", "vrouterGateway"),
    ("kubemanagerInstance", "spec.dependencies"),
    ("logLevel", "commonConfiguration.logLevel"),
    ("metaDataSecret", "metadataProxySecret"),
    ("rabbitmqInstance", "spec.dependencies.rabbitmq"),
    ("zookeeperInstance", "spec.dependencies.zookeeper"),
];

/// Fields of a spec as it was written that are not in what the API server kept (`kept`) and that the kind does not have, each with its path and what
/// to write instead. Empty as long as everything was kept.
pub fn pruned(kind: KindInfo, written: &Value, kept: &Value) -> Vec<String> {
    // A definition is large, and nearly never asked.
    if is_kept(written, kept) {
        return Vec::new();
    }
    let unknown = unknown(kind, written).into_iter();
    unknown.filter(|field| !field.is_in(kept)).map(|field| field.to_string()).collect()
}

/// Fields of a spec that the kind does not have, each with its path and what to write instead.
pub fn unknown_fields(kind: KindInfo, spec: &Value) -> Vec<String> {
    unknown(kind, spec).iter().map(Unknown::to_string).collect()
}

/// Whether everything that says something in one value is in the other.
fn is_kept(written: &Value, kept: &Value) -> bool {
    match (written, kept) {
        (Value::Object(written), Value::Object(kept)) => written.iter().all(|(key, value)| match kept.get(key) {
            Some(kept) => is_kept(value, kept),
            None => is_empty(value),
        }),
        (Value::Array(written), Value::Array(kept)) => {
            written.iter().zip(kept).all(|(written, kept)| is_kept(written, kept))
        }
        _ => true,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().all(is_empty),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// One level of a path.
#[derive(Clone)]
enum Step {
    Field(String),
    Entry(usize),
}

/// A field that the kind does not have.
struct Unknown {
    kind: &'static str,
    path: Vec<Step>,
    near: Option<String>,
}

impl Unknown {
    fn is_in(&self, spec: &Value) -> bool {
        let found = self.path.iter().try_fold(spec, |value, step| match step {
            Step::Field(name) => value.get(name),
            Step::Entry(number) => value.get(number),
        });
        found.is_some()
    }

    fn former(&self) -> Option<&'static str> {
        let Some(Step::Field(last)) = self.path.last() else { return None };
        FORMER.iter().find(|(field, _)| field == last).map(|(_, now)| *now)
    }
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("spec")?;
        for step in &self.path {
            match step {
                Step::Field(name) => write!(formatter, ".{name}")?,
                Step::Entry(number) => write!(formatter, "[{number}]")?,
            }
        }
        write!(formatter, ": {} has no such field", self.kind)?;
        match (self.former(), &self.near) {
            (Some(now), _) => write!(formatter, "; use {now}"),
            (None, Some(near)) => write!(formatter, "; did you mean {near}?"),
            (None, None) => Ok(()),
        }
    }
}

fn unknown(kind: KindInfo, spec: &Value) -> Vec<Unknown> {
    let definition = definitions().into_iter().find(|definition| definition.info == kind);
    let mut found = Vec::new();
    if let Some(schema) = definition.as_ref().map(Definition::schema) {
        walk(kind.kind, &schema["properties"]["spec"], spec, &mut Vec::new(), &mut found);
    }
    found
}

/// Goes through a value along its schema. An object of which the schema names no field may have any.
fn walk(kind: &'static str, schema: &Value, value: &Value, path: &mut Vec<Step>, found: &mut Vec<Unknown>) {
    match value {
        Value::Object(fields) => {
            let known = schema["properties"].as_object();
            for (key, inner) in fields {
                path.push(Step::Field(key.clone()));
                let inside = known.and_then(|known| known.get(key)).or_else(|| schema.get("additionalProperties"));
                match (inside, known) {
                    (Some(inside), _) => walk(kind, inside, inner, path, found),
                    (None, Some(known)) => {
                        let near = nearest(key, known.keys().map(String::as_str)).map(str::to_owned);
                        found.push(Unknown { kind, path: path.clone(), near });
                    }
                    (None, None) => {}
                }
                path.pop();
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                path.push(Step::Entry(number));
                walk(kind, &schema["items"], item, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The known name that one has most likely meant: at most a third of it is different.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let distance = |other: &str| strsim::damerau_levenshtein(&lower, &other.to_lowercase());
    let near = known.map(|other| (distance(other), other)).min()?;
    (near.0 * 3 <= name.len()).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::{CONFIG, MANAGER};

    #[test]
    fn misspelt_fields_are_named_with_the_nearest_one_at_any_depth() {
        let spec = json!({"services": {
            "cassandras": [{"metadata": {"name": "configdb1"}}],
            "config": {"spec": {"serviceConfiguration": {"globlaASNNumber": 65201, "bgpEnable4Byte": true}}},
            "controls": [{"spec": {"serviceConfiguration": {"asnNumbr": 65201}}}],
            "vrouters": [{"spec": {"serviceConfiguration": {"cniMtu": 1300}}}],
        }});
        assert_eq!(
            unknown_fields(MANAGER, &spec),
            [
                "spec.services.config.spec.serviceConfiguration.globlaASNNumber: Manager has no such field; did you mean globalASNNumber?",
                "spec.services.controls[0].spec.serviceConfiguration.asnNumbr: Manager has no such field; did you mean asnNumber?",
                "spec.services.vrouters[0].spec.serviceConfiguration.cniMtu: Manager has no such field; did you mean cniMTU?",
            ]
        );
    }

    #[test]
    fn fields_of_r2011_are_named_with_what_says_the_same_now() {
        let spec = json!({"serviceConfiguration": {"zookeeperInstance": "zookeeper1", "logLevel": "SYS_DEBUG"}, "nothingLikeIt": 1});
        assert_eq!(
            unknown_fields(CONFIG, &spec),
            [
                "spec.nothingLikeIt: Config has no such field",
                "spec.serviceConfiguration.logLevel: Config has no such field; use commonConfiguration.logLevel",
                "spec.serviceConfiguration.zookeeperInstance: Config has no such field; use spec.dependencies.zookeeper",
            ]
        );
    }

    #[test]
    fn labels_variables_and_what_is_passed_on_as_it_is_may_have_any_name() {
        let spec = json!({"commonConfiguration": {
            "nodeSelector": {"a.example.org/b": "c"},
            "tolerations": [{"operator": "Exists"}],
        }});
        assert!(unknown_fields(CONFIG, &spec).is_empty(), "{:?}", unknown_fields(CONFIG, &spec));
        assert!(unknown_fields(MANAGER, &json!({"services": {"config": {"spec": spec}}})).is_empty());
        // The definition of a Manager only names what is in them.
        let spec = json!({"commonConfiguration": {"podOverrides": {"anything": {"below": true}}}});
        assert!(unknown_fields(MANAGER, &json!({"services": {"config": {"spec": spec}}})).is_empty());
        assert_eq!(unknown_fields(CONFIG, &spec).len(), 1);
    }

    #[test]
    fn of_what_was_applied_only_that_is_pruned_which_is_not_there() {
        let written = json!({"serviceConfiguration": {"apiPort": 9182, "apiPrt": 1, "logLevel": "SYS_DEBUG"}});
        let kept = json!({"serviceConfiguration": {"apiPort": 9183, "logLevel": "x"}});
        assert_eq!(
            pruned(CONFIG, &written, &kept),
            ["spec.serviceConfiguration.apiPrt: Config has no such field; did you mean apiPort?"]
        );
        // A field that somebody else took away since is none that the kind does not have.
        assert!(pruned(CONFIG, &json!({"serviceConfiguration": {"apiPort": 1}}), &json!({})).is_empty());
        assert!(pruned(CONFIG, &kept, &kept).is_empty());
        assert!(pruned(CONFIG, &json!({"x": null, "y": []}), &json!({})).is_empty());
    }
}
