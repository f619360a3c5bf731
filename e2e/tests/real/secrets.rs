//! What is secret in a real store is in Secrets and in files of its pods, and nowhere that people read: objects of other
//! kinds, events, logs, metrics, arguments of processes.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use futures::AsyncReadExt as _;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, ListParams, LogParams};
use kube::{Client, ResourceExt as _};
use tf_testing::Lab;
use tf_testing::real::operator;
use tf_testing::resources;
use tf_testing::secrets::Value;

use crate::store::{NAMESPACE, Store};

/// Shorter words of a Secret are names and numbers.
const WORD: usize = 16;

/// What must not be found, with where it is kept: keys, tokens, and what of a Secret's key and value the store keeps secret.
pub async fn values(
    lab: &Lab,
    client: &Client,
    kept: impl Fn(&str, &str) -> Vec<String>,
) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    for secret in secrets.list(&ListParams::default()).await? {
        let name = secret.name_any();
        for (key, value) in secret.data.unwrap_or_default() {
            let place = format!("Secret {name} {key}");
            let text = String::from_utf8(value.0).with_context(|| place.clone())?;
            for value in private_key(&text).into_iter().chain(kept(&key, &text)) {
                found.insert(value, place.clone());
            }
        }
    }
    for node in lab.real_nodes()?.all()? {
        let files = "grep -rlIE 'BEGIN( [A-Z]+)? PRIVATE KEY' /var/lib/kubelet/pods; ls /var/lib/kubelet/pods/*/volumes/*/*/token";
        for path in node.run("bash", &["-c", files]).await?.lines() {
            let text = node.run("cat", &[path]).await?;
            found.insert(private_key(&text).unwrap_or(text), format!("{path} on {}", node.name()));
        }
    }
    found.retain(|value, _| value.len() >= WORD);
    Ok(found)
}

/// A line of a private key in PEM: of those in the middle nobody else has the like.
fn private_key(text: &str) -> Option<String> {
    let (_, key) = text.split_once("PRIVATE KEY-----\n")?;
    let (key, _) = key.split_once("-----END")?;
    key.lines().max_by_key(|line| line.len()).map(str::to_owned)
}

/// What people can read who may not read Secrets.
pub async fn pages(store: &Store, lab: &Lab, client: &Client) -> Result<BTreeMap<String, String>> {
    let mut pages = BTreeMap::new();
    for object in resources::everything_in(client, NAMESPACE).await? {
        let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        if kind != "Secret" {
            pages.insert(format!("{kind} {}", object.name_any()), serde_json::to_string(&object)?);
        }
    }
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    for request in requests.list(&ListParams::default()).await? {
        pages.insert(format!("CertificateSigningRequest {}", request.name_any()), serde_json::to_string(&request)?);
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for pod in pods.list(&ListParams::default()).await? {
        let spec = pod.spec.clone().unwrap_or_default();
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            let parameters = LogParams { container: Some(container.name.clone()), ..LogParams::default() };
            let text = log(&pods, &pod.name_any(), &parameters).await?;
            pages.insert(format!("log of {} in {}", container.name, pod.name_any()), text);
        }
    }
    for node in lab.real_nodes()?.all()? {
        let arguments = node.run("bash", &["-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).await?;
        pages.insert(format!("arguments on {}", node.name()), arguments);
    }
    pages.insert("metrics".into(), metrics_of_operator(store, lab, client).await?);
    Ok(pages)
}

/// What a container said, in whatever bytes: those of RabbitMQ 4.0.5 are not all UTF-8.
pub async fn log(pods: &Api<Pod>, name: &str, parameters: &LogParams) -> Result<String> {
    let mut said = Vec::new();
    pods.log_stream(name, parameters).await?.read_to_end(&mut said).await?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// The operator's metrics, as its node gets them.
pub async fn metrics_of_operator(store: &Store, lab: &Lab, client: &Client) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let of_operator = ListParams::default().labels(&format!("app.kubernetes.io/name={}", store.operator));
    let pod = pods.list(&of_operator).await?.items.into_iter().next().context("the operator has no pod")?;
    let address = pod.status.and_then(|status| status.pod_ip).context("the operator has no address")?;
    let node = lab.real_nodes()?.node(&operator::node_of(client, store.operator, NAMESPACE).await?)?;
    let ask = format!("exec 3<>/dev/tcp/{address}/8080; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
    node.run("bash", &["-c", &ask]).await
}

/// Fails if one of the values is on a page.
pub fn nothing_leaks(values: &BTreeMap<String, String>, pages: &BTreeMap<String, String>) -> Result<()> {
    let mut leaks = Vec::new();
    for (value, place) in values {
        let value = Value::new(value);
        leaks.extend(
            pages.iter().filter(|(_, text)| value.is_in(text)).map(|(page, _)| format!("{place} is in {page}")),
        );
    }
    ensure!(leaks.is_empty(), "{}", leaks.join("\n"));
    Ok(())
}
