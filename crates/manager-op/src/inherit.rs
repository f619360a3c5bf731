//! What a component takes over from the Manager.
//!
//! The component's own value wins where it has one, as in the Go tf-operator (docs/upstream/go-operator.md#inheritance), but for
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
    if !service.kind.has_pods {
        return Inherited { spec, shares_auth: false, ignored };
    }
    let settings = settings(cr);
    let mut common = own_settings(&spec);
    for field in OWN_WINS {
        if !takes(field, service, &common, &settings) {
            continue;
        }
        if let Some(value) = settings.get(field).filter(|_| says_nothing(common.get(field))) {
            common.insert(field.to_owned(), own_directory(field, value.clone(), service, name));
        }
    }
    let auth = settings
        .get("authParameters")
        .filter(|_| concerns("authParameters", service))
        .map(|auth| effective(auth, service));
    let auth = auth.as_ref();
    if let Some(auth) = auth {
        let replaced = common.insert("authParameters".into(), auth.clone());
        if replaced.is_some_and(|own| effective(&own, service) != *auth) {
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
    let settings = settings(cr);
    let unused = settings.keys().map(String::as_str).filter(|field| {
        let mut requested = cr.spec.services.requested();
        requested.all(|(service, entry)| {
            !service.kind.has_pods || !takes(field, service, &own_settings(&entry.spec.0), &settings)
        })
    });
    let why = |field| match field {
        "networkPolicy" => "policies have no effect on pods in their node's network",
        _ => "no component that is listed uses it",
    };
    let unused = unused.map(|field| format!("{field}: {}", why(field)));
    let secret = settings.get("authParameters").and_then(unused_secret).map(str::to_owned);
    unused.chain(secret).map(|said| format!("spec.commonConfiguration.{said}")).collect()
}

/// The Manager's common settings by their names.
fn settings(cr: &Manager) -> Map<String, Value> {
    let settings = serde_json::to_value(&cr.spec.common_configuration.common).unwrap_or_default();
    settings.as_object().cloned().unwrap_or_default()
}

/// Those of a component's own spec.
fn own_settings(spec: &Map<String, Value>) -> Map<String, Value> {
    spec.get("commonConfiguration").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// What is said where `authParameters` state Keystone's password and name a Secret with it, too: the name has no effect, as in the Go tf-operator.
pub fn unused_secret(auth: &Value) -> Option<&'static str> {
    let is_stated = |pointer| !says_nothing(auth.pointer(pointer));
    let both = is_stated("/keystoneAuthParameters/adminPassword") && is_stated("/keystoneSecretName");
    (both && !is_without_keystone(auth)).then_some(
        "authParameters.keystoneSecretName: keystoneAuthParameters.adminPassword is stated and used; remove it to use the Secret",
    )
}

/// Whether a component with these settings of its own takes over one of the Manager's.
fn takes(field: &str, service: &ServiceInfo, own: &Map<String, Value>, settings: &Map<String, Value>) -> bool {
    let in_network_of_node = || own.get("hostNetwork").or(settings.get("hostNetwork")) != Some(&json!(false));
    concerns(field, service) && !(field == "networkPolicy" && in_network_of_node())
}

/// Whether a common setting can have an effect on the component. Where it cannot, passing it on would only make the
/// component report it.
fn concerns(field: &str, service: &ServiceInfo) -> bool {
    match field {
        "replicas" => service.kind.scales,
        "distribution" => service.kind.uses_distribution,
        "authParameters" => service.kind.uses_auth,
        "storage" => service.kind.keeps_data,
        _ => true,
    }
}

/// The Manager's `authParameters` without what has no effect in the component.
fn effective(auth: &Value, service: &ServiceInfo) -> Value {
    let mut auth = auth.clone();
    // Of Control only the operator asks Keystone, for a token that is good in every region.
    if service.kind.kind == "Control"
        && let Some(keystone) = auth.pointer_mut("/keystoneAuthParameters").and_then(Value::as_object_mut)
    {
        keystone.remove("region");
    }
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
