//! The authority of a namespace comes from an issuer of cert-manager, whose controllers are the real ones. Members are simulated here
//! and hold no certificates, so nobody has to follow; `e2e/tests/real/zookeeper/issuer.rs` has real ones.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use serde_json::{Value, json};
use tf_api::{
    kinds::ZOOKEEPER,
    names::{ANNOTATION_ISSUER, AUTHORITY},
};
use tf_pki::bundle::Bundle;
use tf_testing::{Cluster, Options, cert_manager, sample::has_turn, wait::eventually};

use crate::{
    authority::{ROTATION, bundle},
    support::{alone, member, merge, told},
};

const PENDING: (&str, &str, &str) = ("Ready", "False", "CertificatePending");
const NOT_THAT: (&str, &str, &str) = ("CertificatesReady", "False", "CertificatePending");

/// One member, beside those of the others on the same node.
fn spec(ports: u16, issuer: Option<&str>) -> Value {
    let port = |number: u16| ports + number;
    let certificates = issuer.map_or_else(|| json!({}), |issuer| json!({"issuer": issuer}));
    json!({
        "commonConfiguration": {"replicas": 1, "certificates": certificates},
        "serviceConfiguration": {
            "clientPort": port(0), "electionPort": port(1), "serverPort": port(2), "adminPort": port(3),
        },
    })
}

/// Waits until members trust one authority alone, which is another one than before, with those above it.
async fn replaced(cluster: &Cluster, before: &Bundle, above: usize) -> Result<Bundle> {
    let mut met = false;
    let now = eventually("another authority alone", ROTATION, async || {
        let now = bundle(cluster).await?;
        let (old, new) = (before.fingerprints(), now.fingerprints());
        met |= now.certificates().len() > above + 1 && !old.is_disjoint(&new);
        Ok((now.certificates()[0] != before.certificates()[0] && new.len() == above + 1).then_some(now))
    })
    .await?;
    ensure!(met, "without overlap");
    Ok(now)
}

#[tokio::test]
async fn an_issuer_outside_signs_the_authority_and_what_keeps_it_from_that_is_told() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = alone(Options::fleet(0, 0), "in-issuer", &["zookeeper-op"]).await?;
    cluster.nodes(3, 0).await?;
    member(&cluster, ZOOKEEPER, "zk", spec(2000, Some("ClusterIssuer/corp"))).await?;
    let message = told(&cluster, ZOOKEEPER, "zk", PENDING).await?;
    ensure!(message.contains("ClusterIssuer/corp: cert-manager is not installed; install it"), "{message}");

    let _running = cert_manager::start(&cluster.lab).await?;
    cluster
        .until(ZOOKEEPER, "zk", "told what is missing", |resource| {
            let message = resource.condition("Ready").map(|condition| condition.message.as_str());
            message.is_some_and(|message| message.contains("clusterissuer.cert-manager.io \"corp\" not found"))
        })
        .await?;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    ensure!(secrets.get_opt(AUTHORITY).await?.is_none(), "an authority was made meanwhile");

    let root = Bundle::from_pem(&cert_manager::cluster_issuer(&cluster.lab, "corp").await?)?;
    cluster.ready(ZOOKEEPER, "zk").await?;
    let first = bundle(&cluster).await?;
    ensure!(first.certificates()[1..] == *root.certificates(), "the root of {first:?}");
    ensure!(first.certificates()[0].is_issued_by(&root.certificates()[0]), "{first:?}");

    // There is one authority in a namespace.
    member(&cluster, ZOOKEEPER, "plain", spec(2100, None)).await?;
    cluster.ready(ZOOKEEPER, "plain").await?;
    member(&cluster, ZOOKEEPER, "other", spec(2200, Some("other"))).await?;
    let message = told(&cluster, ZOOKEEPER, "other", NOT_THAT).await?;
    ensure!(message.contains("signed by ClusterIssuer/corp") && message.contains("name the same issuer"), "{message}");
    ensure!(bundle(&cluster).await? == first, "others changed who is trusted");

    cert_manager::renew(&cluster.client, &cluster.namespace, AUTHORITY).await?;
    let second = replaced(&cluster, &first, 1).await?;
    ensure!(second.certificates()[0].is_issued_by(&root.certificates()[0]), "{second:?}");
    cluster.ready(ZOOKEEPER, "zk").await?;

    // Nobody wants it any more but one who could not have what it wants, and then nobody at all.
    merge(&cluster, ZOOKEEPER, "other", json!({"spec": {"commonConfiguration": {"certificates": null}}})).await?;
    merge(&cluster, ZOOKEEPER, "zk", json!({"spec": {"commonConfiguration": {"certificates": null}}})).await?;
    let own = replaced(&cluster, &second, 0).await?;
    ensure!(own.certificates()[0].is_issued_by(&own.certificates()[0]), "{own:?}");
    let certificates = cert_manager::certificates(&cluster.client, &cluster.namespace);
    ensure!(certificates.get_opt(AUTHORITY).await?.is_none(), "it is still asked for");
    let annotations = secrets.get(AUTHORITY).await?.metadata.annotations.unwrap_or_default();
    ensure!(!annotations.contains_key(ANNOTATION_ISSUER), "{annotations:?}");
    for name in ["zk", "plain", "other"] {
        cluster.ready(ZOOKEEPER, name).await?;
    }
    Ok(())
}
