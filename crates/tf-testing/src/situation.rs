//! Situations in code, for tests of planners: a resource, what is observed around it, and a plan taken apart.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a situation that cannot be made is a failing test"
)]

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::CertifiedKey;
use serde_json::{Value, json};
use tf_agent_api::launch::{Launch, OnChange};
use tf_api::Managed;
use tf_config_files::read;
use tf_plan::{
    object::{CONFIG_MAP, Kind, SECRET, STATEFUL_SET},
    plan::Plan,
};

/// A resource with this name and spec.
pub fn resource<Cr: Managed>(namespace: &str, name: &str, spec: &Value) -> Cr {
    serde_json::from_value(json!({
        "apiVersion": "tf.tungsten.io/v1alpha1",
        "kind": Cr::INFO.kind,
        "metadata": {"namespace": namespace, "name": name, "uid": "uid-1", "generation": 1},
        "spec": spec,
    }))
    .unwrap()
}

/// A resource with a status.
pub fn with_status<Cr: Managed>(cr: &Cr, status: Value) -> Cr {
    let mut cr = serde_json::to_value(cr).unwrap();
    cr["status"] = status;
    serde_json::from_value(cr).unwrap()
}

/// A resource after its first bring-up.
pub fn initialized<Cr: Managed>(cr: &Cr) -> Cr {
    with_status(cr, json!({"initialized": true, "observedGeneration": 1}))
}

/// Control-plane nodes with these addresses, as `Observed` has them.
pub fn nodes(addresses: &[String]) -> Value {
    let node = |(index, address): (usize, &String)| {
        json!({
            "name": format!("cp{}", index + 1),
            "address": address,
            "labels": {"node-role.kubernetes.io/control-plane": ""},
        })
    };
    json!({"known": addresses.iter().enumerate().map(node).collect::<Vec<_>>()})
}

/// An endpoint of a status. It speaks TLS or not.
pub fn endpoint(name: &str, port: u16, tls: bool, nodes: &[String]) -> Value {
    json!({"name": name, "protocol": "TCP", "port": port, "tls": tls, "nodes": nodes})
}

/// Another resource with these endpoints, as `Observed` has it. `secret`: that of the login for its clients.
pub fn peer(namespace: &str, name: &str, endpoints: &[Value], secret: Option<&str>, ready: bool) -> Value {
    let ready = json!({
        "type": "Ready",
        "status": if ready { "True" } else { "False" },
        "reason": if ready { "Succeeded" } else { "ReplicasUnavailable" },
        "message": "as it is",
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    });
    json!({
        "namespace": namespace,
        "name": name,
        "generation": 1,
        "status": {
            "contract": "v1",
            "observedGeneration": 1,
            "endpoints": endpoints,
            "connectionSecretRef": secret.map(|name| json!({"name": name})),
            "conditions": [ready],
        },
    })
}

/// A service that no operator of ours runs, with TLS at this port of 192.0.2.1 and what the Secret `outer` has for it.
pub fn external(endpoints: &[(&str, u16)]) -> Value {
    let nodes = ["192.0.2.1".to_owned()];
    let endpoints: Vec<Value> = endpoints.iter().map(|(name, port)| endpoint(name, *port, true, &nodes)).collect();
    json!({"external": {"endpoints": endpoints, "secretRef": {"name": "outer"}}})
}

/// A connection Secret of a service of another authority: who signed its certificate, and what it is shown.
pub fn foreign() -> BTreeMap<String, String> {
    let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["outer".to_owned()]).unwrap();
    let (certificate, key) = (cert.pem(), signing_key.serialize_pem());
    [("ca.crt", certificate.clone()), ("tls.crt", certificate), ("tls.key", key)]
        .map(|(name, text)| (name.to_owned(), text))
        .into()
}

/// That files for TLS to a service are those of its Secret, that its key is with the secrets, and that these daemons start anew for them, where
/// any do. `shows`: whether the service is shown the pair of the Secret.
pub fn has_foreign(
    planned: &Planned,
    service: &str,
    shows: bool,
    secret: &BTreeMap<String, String>,
    launches: &[&str],
) {
    let names = [("ca.crt", "ca.crt"), ("tls.crt", "client.crt"), ("tls.key", "client.key")];
    let (open, secrets) = (planned.open(), planned.secret());
    for (key, file) in names {
        let name = format!("{service}-{file}");
        let (right, wrong) = if key == "tls.key" { (&secrets, &open) } else { (&open, &secrets) };
        let is_there = shows || key == "ca.crt";
        assert_eq!(right.get(&name), Some(&secret[key]).filter(|_| is_there), "{name}");
        assert_eq!(wrong.get(&name), None, "{name}");
        for launch in launches {
            let restarts = planned.launch(launch).files.get(&name) == Some(&OnChange::Restart);
            assert_eq!(restarts, is_there, "{launch}: {name}");
        }
    }
}

/// The object of a plan whose name ends so.
pub fn body<'a>(plan: &'a Plan, kind: Kind, suffix: &str) -> Option<&'a Value> {
    let object = plan.objects.iter().find(|object| object.kind == kind && object.name.ends_with(suffix));
    object.map(|object| &object.body)
}

/// What that object holds, Secrets decoded; nothing if there is none.
pub fn data(plan: &Plan, kind: Kind, suffix: &str) -> BTreeMap<String, String> {
    let Some(body) = body(plan, kind, suffix) else { return BTreeMap::new() };
    let data: BTreeMap<String, String> = serde_json::from_value(body["data"].clone()).unwrap();
    let text = |encoded: String| String::from_utf8(BASE64_STANDARD.decode(encoded).unwrap()).unwrap();
    let is_encoded = kind == SECRET;
    data.into_iter().map(|(key, value)| (key, if is_encoded { text(value) } else { value })).collect()
}

/// Files without secrets, by key.
pub fn open_files(plan: &Plan) -> BTreeMap<String, String> {
    data(plan, CONFIG_MAP, "-files")
}

/// Files with secrets, by key.
pub fn secret_files(plan: &Plan) -> BTreeMap<String, String> {
    data(plan, SECRET, "-secret-files")
}

/// All files, by key.
pub fn files(plan: &Plan) -> BTreeMap<String, String> {
    open_files(plan).into_iter().chain(secret_files(plan)).collect()
}

/// The pods of the one StatefulSet.
pub fn pod(plan: &Plan) -> &Value {
    &body(plan, STATEFUL_SET, "").unwrap()["spec"]["template"]["spec"]
}

/// A container of these pods.
pub fn container<'a>(plan: &'a Plan, name: &str) -> &'a Value {
    pod(plan)["containers"].as_array().unwrap().iter().find(|container| container["name"] == name).unwrap()
}

/// Sections of an INI file by name, options by name.
pub type Ini = BTreeMap<String, BTreeMap<String, String>>;

/// A plan, taken apart as the daemons would see it.
pub struct Planned(pub Plan);

impl Planned {
    /// Files without secrets, by key.
    pub fn open(&self) -> BTreeMap<String, String> {
        open_files(&self.0)
    }

    /// Files with secrets, by key.
    pub fn secret(&self) -> BTreeMap<String, String> {
        secret_files(&self.0)
    }

    /// All files, by key.
    pub fn files(&self) -> BTreeMap<String, String> {
        files(&self.0)
    }

    /// A file, with secrets or without.
    pub fn file(&self, key: &str) -> String {
        let mut files = self.files();
        files.remove(key).unwrap_or_else(|| panic!("no {key} among {:?}", files.keys()))
    }

    /// A file as a daemon in Python reads it.
    pub fn ini(&self, key: &str) -> Ini {
        read::python(&self.file(key)).unwrap()
    }

    /// The options of `[DEFAULTS]`.
    pub fn defaults(&self, key: &str) -> BTreeMap<String, String> {
        self.ini(key).remove("DEFAULTS").unwrap()
    }

    /// A launch file, by its key.
    pub fn launch(&self, key: &str) -> Launch {
        Launch::parse(self.file(key).as_bytes()).unwrap()
    }

    /// The pods of the one StatefulSet.
    pub fn pod(&self) -> &Value {
        pod(&self.0)
    }

    /// A container of these pods.
    pub fn container(&self, name: &str) -> &Value {
        container(&self.0, name)
    }
}
