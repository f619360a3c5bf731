//! Secrets given in clear reach no log by way of `Debug`.

use serde_json::{Value, json};
use tf_api::{kinds::SERVICES, schema::Sensitive};

use super::support::{definitions, nodes, through_rust};

#[test]
fn a_sensitive_text_is_stored_in_clear_and_prints_nothing() {
    let secret = Sensitive::new("hunter2");
    assert_eq!(serde_json::to_value(&secret).unwrap(), json!("hunter2"));
    assert_eq!(serde_json::from_value::<Sensitive>(json!("hunter2")).unwrap().expose(), "hunter2");
    assert_eq!(format!("{secret:?} {secret:#?}"), "Sensitive Sensitive");
}

/// Puts `value` at a path such as `.spec.a.b`.
fn object_with(kind: &str, path: &str, value: &str) -> Value {
    let mut object = json!({ "kind": kind, "metadata": { "name": "a" }, "spec": {} });
    let mut place = &mut object;
    for name in path.split('.').skip(1) {
        place = &mut place[name];
    }
    *place = json!(value);
    object
}

fn debug_of(object: &Value) -> String {
    use tf_api::kinds::*;
    let object = object.clone();
    match object["kind"].as_str().unwrap() {
        "Config" => format!("{:?}", serde_json::from_value::<Config>(object).unwrap()),
        "Control" => format!("{:?}", serde_json::from_value::<Control>(object).unwrap()),
        "Manager" => format!("{:?}", serde_json::from_value::<Manager>(object).unwrap()),
        "Rabbitmq" => format!("{:?}", serde_json::from_value::<Rabbitmq>(object).unwrap()),
        "Vrouter" => format!("{:?}", serde_json::from_value::<Vrouter>(object).unwrap()),
        "VrouterProfile" => format!("{:?}", serde_json::from_value::<VrouterProfile>(object).unwrap()),
        kind => panic!("no Debug output of {kind} here"),
    }
}

#[test]
fn no_secret_of_a_spec_is_printed() {
    let paths = [
        ("Config", ".spec.commonConfiguration.authParameters.keystoneAuthParameters.adminPassword"),
        ("Manager", ".spec.commonConfiguration.authParameters.keystoneAuthParameters.adminPassword"),
        ("Control", ".spec.serviceConfiguration.rndckey"),
        ("Rabbitmq", ".spec.serviceConfiguration.erlangCookie"),
        ("Rabbitmq", ".spec.serviceConfiguration.password"),
        ("Vrouter", ".spec.serviceConfiguration.envVariablesConfig.KEYSTONE_AUTH_ADMIN_PASSWORD"),
        ("VrouterProfile", ".spec.other.moreConfig.KEYSTONE_AUTH_ADMIN_PASSWORD"),
        ("Vrouter", ".spec.serviceConfiguration.barbicanPassword"),
        ("Vrouter", ".spec.serviceConfiguration.k8sToken"),
        ("Vrouter", ".spec.serviceConfiguration.keystoneAuthAdminPassword"),
        ("Vrouter", ".spec.serviceConfiguration.metadataProxySecret"),
        ("Vrouter", ".spec.serviceConfiguration.vrouterDecryptKey"),
    ];
    for (kind, path) in paths {
        let object = object_with(kind, path, "hunter2");
        assert!(through_rust(&object).unwrap().to_string().contains("hunter2"), "{kind}{path} is kept");
        assert!(!debug_of(&object).contains("hunter2"), "{kind}{path} is printed");
    }
    // A field added later with such a name must be wrapped, and then listed above.
    for definition in definitions().iter().filter(|definition| definition.info.kind != "Manager") {
        let prefix = ".spec.serviceConfiguration.";
        for (path, node) in nodes(definition) {
            let name = path.strip_prefix(prefix).unwrap_or_default().to_lowercase();
            let secret = ["password", "cookie", "token", "proxysecret", "rndckey", "decryptkey"]
                .iter()
                .any(|word| name.ends_with(word));
            if node["type"] == "string" && secret {
                assert!(paths.contains(&(definition.info.kind, path.as_str())), "{}{path}", definition.info.kind);
            }
        }
    }
}

#[test]
fn the_spec_of_a_managers_component_is_not_printed() {
    for info in SERVICES {
        let entry = json!({ "spec": { "serviceConfiguration": { "password": "hunter2" } } });
        let entries = if info.list { json!([entry]) } else { entry };
        let object = json!({ "kind": "Manager", "metadata": {}, "spec": { "services": { info.key: entries } } });
        assert!(through_rust(&object).unwrap().to_string().contains("hunter2"), "{} is kept", info.key);
        assert!(!debug_of(&object).contains("hunter2"), "{} is printed", info.key);
    }
}
