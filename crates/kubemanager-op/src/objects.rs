//! Objects of the config API that a spec names, in the daemon's words: a dictionary of texts, which it reads as a literal of Python (upstream
//! `common/utils.py`). JSON of such a dictionary is one.

use std::collections::BTreeMap;

use tf_api::{KubemanagerConfiguration, contract::Reason};
use tf_plan::not_ready::NotReady;

const PROJECT: &[&str] = &["domain", "project"];
const NETWORK: &[&str] = &["domain", "project", "name"];
const POOL: &[&str] = &["domain", "project", "network", "name"];

/// What the file says of objects, as the daemon reads it. None where the spec says nothing and neither does the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// The project of all namespaces.
    pub project: Option<String>,
    /// The network of the machines.
    pub network: Option<String>,
    /// The network of pods.
    pub pod_network: Option<String>,
    /// The network of services.
    pub service_network: Option<String>,
    /// The pool of public addresses, or `{}`.
    pub public_pool: String,
}

impl Objects {
    /// What a spec names. `cluster` is the name of the cluster, which is part of those of its projects.
    ///
    /// # Errors
    /// `InvalidSpec` with the field that the daemon could not read.
    pub fn of(spec: &KubemanagerConfiguration, cluster: &str) -> Result<Self, NotReady> {
        let given =
            |text: &Option<String>| text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        let named = |field, text: &Option<String>, keys| {
            given(text).map(|text| dictionary(field, &text, keys, &BTreeMap::new())).transpose()
        };
        // As with the Go tf-operator (docs/upstream/go-operator.md#kube-manager).
        let project = format!("{cluster}-default");
        let usual =
            POOL.iter().copied().zip(["default-domain", &project, "__public__", "__fip_pool_public__"]).collect();
        Ok(Self {
            project: named("clusterProject", &spec.cluster_project, PROJECT)?,
            network: named("clusterNetwork", &spec.cluster_network, NETWORK)?,
            pod_network: named("clusterPodNetwork", &spec.cluster_pod_network, NETWORK)?,
            service_network: named("clusterServiceNetwork", &spec.cluster_service_network, NETWORK)?,
            public_pool: match given(&spec.public_fip_pool).as_deref() {
                Some("{}") => "{}".to_owned(),
                // One that is named by its network alone is the usual one of that.
                text => dictionary("publicFIPPool", text.unwrap_or("{}"), POOL, &usual)?,
            },
        })
    }
}

/// The dictionary with its keys in the order that is usual, whatever blanks and order the spec has. What it leaves out is as `usual`.
fn dictionary(field: &str, given: &str, keys: &[&str], usual: &BTreeMap<&str, &str>) -> Result<String, NotReady> {
    let wrong = || {
        let message = format!(
            "serviceConfiguration.{field} is not JSON with the texts {}; write it like {}",
            keys.join(", "),
            text(keys.iter().zip(keys.iter().copied()))
        );
        NotReady::invalid(Reason::InvalidSpec, message)
    };
    let found = read(given).ok_or_else(wrong)?;
    let value = |key: &&str| found.get(*key).map(String::as_str).or_else(|| usual.get(key).copied());
    let values: Option<Vec<&str>> = keys.iter().map(value).collect();
    match values {
        Some(values)
            if found.keys().all(|key| keys.contains(&key.as_str())) && values.iter().all(|it| !it.is_empty()) =>
        {
            Ok(text(keys.iter().zip(values)))
        }
        _ => Err(wrong()),
    }
}

/// JSON, or the same in the quotation marks that Python writes, as manifests of the Go tf-operator have it.
fn read(text: &str) -> Option<BTreeMap<String, String>> {
    let plain = || (!text.contains(['"', '\\'])).then(|| text.replace('\'', "\""));
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&plain()?).ok())
}

fn text<'a>(pairs: impl Iterator<Item = (&'a &'a str, &'a str)>) -> String {
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{}: {}", quoted(key), quoted(value))).collect();
    format!("{{{}}}", pairs.join(", "))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
