//! What is secret in a real ensemble is in Secrets and in files of its pods, and nowhere that people read: objects of other
//! kinds, events, logs, metrics, arguments of processes.

use std::collections::BTreeMap;

use anyhow::ensure;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;
use tf_testing::secrets::Value;

use super::*;

/// Shorter words of a Secret are names and numbers.
const WORD: usize = 16;

/// What must not be found, with where it is kept.
async fn values(lab: &Lab, client: &Client) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    for secret in secrets.list(&ListParams::default()).await? {
        let name = secret.name_any();
        for (key, value) in secret.data.unwrap_or_default() {
            let place = format!("Secret {name} {key}");
            let text = String::from_utf8(value.0).with_context(|| place.clone())?;
            if key == "password" {
                found.insert(text, place);
            } else if let Some(key) = private_key(&text) {
                found.insert(key, place);
            } else if let Some((_, digest)) = text.split_once("superDigest=") {
                let digest = digest.lines().next().unwrap_or_default().replace('\\', "");
                found.insert(digest.trim_start_matches("super:").to_owned(), place);
            }
        }
    }
    for node in lab.real_nodes()?.all()? {
        let files = "grep -rlE 'BEGIN( [A-Z]+)? PRIVATE KEY' /var/lib/kubelet/pods; ls /var/lib/kubelet/pods/*/volumes/*/*/token";
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
async fn pages(lab: &Lab, client: &Client) -> Result<BTreeMap<String, String>> {
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
            let text = pods.logs(&pod.name_any(), &parameters).await?;
            pages.insert(format!("log of {} in {}", container.name, pod.name_any()), text);
        }
    }
    for node in lab.real_nodes()?.all()? {
        let arguments = node.run("bash", &["-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).await?;
        pages.insert(format!("arguments on {}", node.name()), arguments);
        pages.insert(format!("metrics of the server on {}", node.name()), super::metrics(node.address()).await?);
    }
    pages.insert("metrics".into(), metrics_of_operator(lab, client).await?);
    Ok(pages)
}

/// The operator's metrics, as its node gets them.
async fn metrics_of_operator(lab: &Lab, client: &Client) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let of_operator = ListParams::default().labels(&format!("app.kubernetes.io/name={OPERATOR}"));
    let pod = pods.list(&of_operator).await?.items.into_iter().next().context("the operator has no pod")?;
    let address = pod.status.and_then(|status| status.pod_ip).context("the operator has no address")?;
    let node = lab.real_nodes()?.node(&operator::node_of(client, OPERATOR, NAMESPACE).await?)?;
    let ask = format!("exec 3<>/dev/tcp/{address}/8080; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
    node.run("bash", &["-c", &ask]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_secret_is_in_logs_objects_events_metrics_or_arguments() -> Result<()> {
    with(3, &["logging.level=debug"], &[], async |lab, client| {
        // The password of the list of members is used when it changes, keys when servers change over to TLS.
        for (replicas, quorum) in [(1, false), (3, false), (3, true)] {
            let spec = json!({
                "commonConfiguration": {"replicas": replicas, "logLevel": "debug"},
                "serviceConfiguration": {"tls": {"clientPort": 2281, "quorum": quorum}, "metricsPort": METRICS_PORT},
            });
            resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
            let grown = |zookeeper: &Resource| {
                zookeeper.is_ready_with(replicas)
                    && zookeeper.is("CertificatesReady", "True")
                    && tls::has_changed_over(zookeeper, quorum)
            };
            let what = format!("{replicas} members, TLS between them: {quorum}");
            resources::until(client, ZOOKEEPER, NAMESPACE, NAME, &what, BRING_UP, grown).await?;
        }
        let (values, pages) = (values(lab, client).await?, pages(lab, client).await?);
        // The password and its digest, keys of the authority and of three members, tokens of their pods and the operator's.
        let of = |part: &str| values.values().filter(|place| place.contains(part)).count();
        ensure!(of("password") >= 1 && of("zoo.cfg") >= 1 && of("tf-ca") >= 1, "{:?}", values.values());
        ensure!(of("pods/") >= 6 && of("token") >= 3, "{:?}", values.values());
        let metrics = &pages["metrics"];
        ensure!(metrics.contains("tf_agents{state=\"answering\",operator=\"zookeeper-op\"} 3"), "{metrics}");
        ensure!(metrics.contains("tf_certificate_expiry_timestamp_seconds{"), "{metrics}");
        ensure!(pages.keys().filter(|name| name.starts_with("log of")).count() >= 7, "{:?}", pages.keys());
        let mut leaks = Vec::new();
        for (value, place) in &values {
            let value = Value::new(value);
            leaks.extend(
                pages.iter().filter(|(_, text)| value.is_in(text)).map(|(page, _)| format!("{place} is in {page}")),
            );
        }
        ensure!(leaks.is_empty(), "{}", leaks.join("\n"));
        Ok(())
    })
    .await
}
