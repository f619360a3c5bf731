//! What a component takes over from the Manager.
//!
//! The component's own value wins where it has one, as in the Go tf-operator (peer-operator 2.5), but for
//! authentication: there the Manager's wins, because components that disagree about it cannot work together.

use serde_json::{Map, Value, json};
use tf_api::{Manager, ServiceInfo};

use crate::children::without_empty;

/// A component's spec with what it inherits.
#[derive(Clone, Debug, PartialEq)]
pub struct Inherited {
    /// The spec.
    pub spec: Map<String, Value>,
    /// Whether `authParameters` are the Manager's.
    pub shares_auth: bool,
    /// Fields of the entry that lost against the Manager's, with why.
    pub ignored: Vec<String>,
}

/// Settings whose own value, if there is one, replaces the Manager's.
const OWN_WINS: [&str; 11] = [
    "nodeSelector",
    "imagePullSecrets",
    "tolerations",
    "logLevel",
    "distribution",
    "hostNetwork",
    "replicas",
    "podOverrides",
    "storage",
    "networkPolicy",
    "certificates",
];

/// The spec of the component `name`, of which the user wrote `own`.
pub fn spec(cr: &Manager, service: &ServiceInfo, name: &str, own: &Map<String, Value>) -> Inherited {
    let mut spec = own.clone();
    let mut ignored = Vec::new();
    if has_no_pods(service) {
        return Inherited { spec, shares_auth: false, ignored };
    }
    let settings = serde_json::to_value(&cr.spec.common_configuration.common).unwrap_or_default();
    let settings = settings.as_object().cloned().unwrap_or_default();
    let mut common = spec.get("commonConfiguration").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in OWN_WINS {
        if !concerns(field, service) {
            continue;
        }
        if let Some(value) = settings.get(field).filter(|_| says_nothing(common.get(field))) {
            common.insert(field.to_owned(), own_directory(field, value.clone(), service, name));
        }
    }
    let auth = settings.get("authParameters").filter(|_| concerns("authParameters", service)).map(effective);
    let auth = auth.as_ref();
    if let Some(auth) = auth {
        let replaced = common.insert("authParameters".into(), auth.clone());
        if replaced.is_some_and(|own| own != *auth) {
            ignored.push(format!(
                "spec.services.{}[{name}].spec.commonConfiguration.authParameters: the Manager's are used for all components",
                service.key
            ));
        }
    }
    if let Some(field) =
        common.get_mut("authParameters").and_then(drop_password_without_keystone).filter(|_| auth.is_none())
    {
        ignored.push(format!("spec.services.{}[{name}].spec.commonConfiguration.{field}", service.key));
    }
    let common = without_empty(common);
    if common.is_empty() {
        spec.remove("commonConfiguration");
    } else {
        spec.insert("commonConfiguration".into(), Value::Object(common));
    }
    if let Some(version) = &cr.spec.version
        && says_nothing(spec.get("version"))
    {
        spec.insert("version".into(), json!(version));
    }
    Inherited { spec, shares_auth: auth.is_some(), ignored }
}

/// Settings that none of the components takes over, with why.
pub fn unused(cr: &Manager) -> Vec<String> {
    let settings = serde_json::to_value(&cr.spec.common_configuration.common).unwrap_or_default();
    let set = settings.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
    let unused = set.filter(|field| {
        cr.spec.services.requested().all(|(service, _)| has_no_pods(service) || !concerns(field, service))
    });
    unused.map(|field| format!("spec.commonConfiguration.{field}: no component that is listed uses it")).collect()
}

/// Whether the kind is a piece of configuration, without common settings.
fn has_no_pods(service: &ServiceInfo) -> bool {
    service.kind.kind == "VrouterProfile"
}

/// Whether a common setting can have an effect on the component. Where it cannot, passing it on would only make the
/// component report it.
fn concerns(field: &str, service: &ServiceInfo) -> bool {
    match field {
        "replicas" => service.kind.scales,
        "distribution" => service.kind.kind == "Vrouter",
        "authParameters" => !matches!(service.kind.kind, "Cassandra" | "Rabbitmq" | "Redis" | "Zookeeper"),
        "storage" => !matches!(service.kind.kind, "Config" | "Control" | "Kubemanager" | "Vrouter" | "Webui"),
        _ => true,
    }
}

/// The Manager's `authParameters` without what has no effect in it, which the Manager itself tells of.
fn effective(auth: &Value) -> Value {
    let mut auth = auth.clone();
    if is_without_keystone(&auth)
        && let Some(fields) = auth.as_object_mut()
    {
        fields.retain(|field, _| !field.starts_with("keystone"));
    }
    auth
}

/// Takes away a password that nobody will use. What is returned is said about it.
fn drop_password_without_keystone(auth: &mut Value) -> Option<&'static str> {
    if !is_without_keystone(auth) {
        return None;
    }
    let password = auth.pointer_mut("/keystoneAuthParameters")?.as_object_mut()?.remove("adminPassword")?;
    let said = "authParameters.keystoneAuthParameters.adminPassword: authMode is not keystone";
    (!says_nothing(Some(&password))).then_some(said)
}

/// Modes that a later release of a component may know are left to it.
fn is_without_keystone(auth: &Value) -> bool {
    matches!(auth.get("authMode").and_then(Value::as_str), None | Some("noauth"))
}

/// Two components must not keep their data in one directory, so each gets its own below an inherited one.
fn own_directory(field: &str, mut value: Value, service: &ServiceInfo, name: &str) -> Value {
    if field == "storage"
        && let Some(path) = value.pointer_mut("/hostPath/path")
        && let Some(base) = path.as_str()
    {
        let base = base.trim_end_matches('/');
        *path = json!(format!("{base}/{}-{name}", service.kind.kind.to_lowercase()));
    }
    value
}

fn says_nothing(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Bool(_) | Value::Number(_)) => false,
    }
}
