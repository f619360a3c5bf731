//! What is secret in an ensemble is nowhere that people read.

use anyhow::ensure;

use super::*;
use crate::secrets;

/// The password of the list of members, and its digest.
fn secret(key: &str, text: &str) -> Vec<String> {
    let digest = text.split_once("superDigest=").map(|(_, digest)| {
        let digest = digest.lines().next().unwrap_or_default().replace('\\', "");
        digest.trim_start_matches("super:").to_owned()
    });
    digest.into_iter().chain((key == "password").then(|| text.to_owned())).collect()
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
        let values = secrets::values(lab, client, secret).await?;
        let mut pages = secrets::pages(&STORE, lab, client).await?;
        for address in lab.real_nodes()?.addresses()? {
            pages.insert(format!("metrics of the server at {address}"), super::server_metrics(address).await?);
        }
        // The password and its digest, keys of the authority and of three members, tokens of their pods and the operator's.
        let of = |part: &str| values.values().filter(|place| place.contains(part)).count();
        ensure!(of("password") >= 1 && of("zoo.cfg") >= 1 && of("tf-ca") >= 1, "{:?}", values.values());
        ensure!(of("pods/") >= 6 && of("token") >= 3, "{:?}", values.values());
        let metrics = &pages["metrics"];
        ensure!(
            metrics.lines().any(|line| {
                line.starts_with("tf_agents{") && line.contains("state=\"answering\"") && line.ends_with(" 3")
            }),
            "{metrics}"
        );
        told::by_operator(&tf_plan::metrics::OPERATOR, metrics)?;
        ensure!(pages.keys().filter(|name| name.starts_with("log of")).count() >= 7, "{:?}", pages.keys());
        secrets::nothing_leaks(&values, &pages)
    })
    .await
}
