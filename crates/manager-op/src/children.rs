//! The resources that a Manager's entries become: exactly what the user wrote, plus what is inherited.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tf_api::{Manager, Service, ServiceInfo, contract::Reason, names};
use tf_plan::{
    build::{
        identity::{Identity, LABEL_LIMIT, fit},
        publish,
    },
    not_ready::NotReady,
    object::{Kind, Object},
    secret::SecretData,
};

use crate::{OPERATOR, inherit};

/// One entry of the Manager and the objects it becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// Key of `spec.services`.
    pub service: &'static ServiceInfo,
    /// Name of the resource.
    pub name: String,
    /// The resource.
    pub object: Object,
    /// A Secret with the password that the spec states.
    pub secret: Option<Object>,
    /// Fields of the entry that have no effect, with why.
    pub ignored: Vec<String>,
}

/// The resources of all entries, in the order of the spec.
///
/// # Errors
/// When two entries would be the same resource.
pub fn children(cr: &Manager) -> Result<Vec<Child>, NotReady> {
    let identity = Identity::of(OPERATOR, cr);
    let mut taken = BTreeSet::new();
    let mut children = Vec::new();
    for (service, entry) in cr.spec.services.requested() {
        let name = entry.metadata.name.clone().unwrap_or_else(|| service.kind.default_name.to_owned());
        if !taken.insert((service.kind.kind, name.clone())) {
            return Err(NotReady::invalid(
                Reason::InvalidSpec,
                format!(
                    "two entries of spec.services.{} are {} {name}; give each a metadata.name",
                    service.key, service.kind.kind
                ),
            ));
        }
        children.push(child(cr, &identity, service, entry, name));
    }
    Ok(children)
}

fn child(cr: &Manager, identity: &Identity, service: &'static ServiceInfo, entry: &Service, name: String) -> Child {
    let inherited = inherit::spec(cr, service, &name, &entry.spec.0);
    let mut spec = Value::Object(inherited.spec);
    let secret_name = if inherited.shares_auth {
        identity.object_name("keystone")
    } else {
        identity.object_name(&format!("{}-{name}-keystone", service.kind.kind.to_lowercase()))
    };
    let mut ignored = inherited.ignored;
    let auth = spec.pointer("/commonConfiguration/authParameters").filter(|_| !inherited.shares_auth);
    if let Some(unused) = auth.and_then(inherit::unused_secret) {
        ignored.push(format!("spec.services.{}[{name}].spec.commonConfiguration.{unused}", service.key));
    }
    let secret = lift_password(&mut spec, identity, &secret_name);
    let kind = Kind::custom(service.kind);
    let labels = labels(service, &name, &entry.metadata.labels, &mut ignored);
    let body = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": identity.namespace,
            "labels": labels,
            "ownerReferences": [identity.owner()],
        },
        "spec": spec,
    });
    let object = Object::shared(kind, &identity.namespace, &name, body);
    Child { service, name, object, secret, ignored }
}

/// The recommended labels and those of the entry, which win but for the one that watches select by.
fn labels(
    service: &ServiceInfo,
    name: &str,
    own: &BTreeMap<String, String>,
    ignored: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let type_name = service.kind.kind.to_lowercase();
    let mut labels = BTreeMap::from([
        (names::LABEL_NAME.to_owned(), type_name.clone()),
        (names::LABEL_INSTANCE.to_owned(), fit(name, LABEL_LIMIT)),
        (names::LABEL_COMPONENT.to_owned(), type_name),
        (names::LABEL_PART_OF.to_owned(), names::PART_OF.to_owned()),
    ]);
    labels.extend(own.clone());
    let replaced = labels.insert(names::LABEL_MANAGED_BY.to_owned(), OPERATOR.to_owned());
    if replaced.is_some_and(|value| value != OPERATOR) {
        let (key, label) = (service.key, names::LABEL_MANAGED_BY);
        ignored.push(format!("spec.services.{key}[{name}].metadata.labels[{label}]: the operator sets it"));
    }
    labels
}

/// A Keystone password that the spec states goes into a Secret, and the component's spec refers to it: who may read
/// resources need not be allowed to read passwords. An empty one is none, and the reference of the spec stays.
fn lift_password(spec: &mut Value, identity: &Identity, secret_name: &str) -> Option<Object> {
    let auth = spec.pointer_mut("/commonConfiguration/authParameters")?.as_object_mut()?;
    let keystone = auth.get_mut("keystoneAuthParameters").and_then(Value::as_object_mut);
    let password = keystone.and_then(|keystone| keystone.remove("adminPassword"))?;
    let password = password.as_str().filter(|password| !password.is_empty())?;
    auth.insert("keystoneSecretName".into(), json!(secret_name));
    let data: SecretData = [("password".to_owned(), password.to_owned())].into_iter().collect();
    Some(publish::credentials(identity, secret_name, &data))
}

/// A map without fields that say nothing.
pub fn without_empty(mut map: Map<String, Value>) -> Map<String, Value> {
    map.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    });
    map
}
