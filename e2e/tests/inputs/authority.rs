//! The Secret with the authority of a namespace: deleted, spoilt, and another one put there. Members are simulated here and hold no
//! certificates, so nobody has to follow.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams};
use serde_json::json;
use tf_api::{kinds::ZOOKEEPER, names::AUTHORITY};
use tf_pki::{
    authority::{AUTHORITY_LIFETIME, Authority, Curve},
    bundle::Bundle,
    fingerprint::Fingerprint,
};
use tf_testing::{Cluster, sample::has_turn, wait::eventually};

use crate::support::{cluster, member, secret, told};

/// Two pauses of half a minute, and what a busy machine adds.
pub const ROTATION: Duration = Duration::from_mins(3);

/// The certificates that members are told to trust, that of the authority that signs first.
pub async fn bundle(cluster: &Cluster) -> Result<Bundle> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let data = maps.get(AUTHORITY).await?.data.context("no data")?;
    Ok(Bundle::from_pem(data.get("ca-bundle.crt").context("no bundle")?)?)
}

async fn trusted(cluster: &Cluster) -> Result<Vec<Fingerprint>> {
    let bundle = bundle(cluster).await?;
    Ok(bundle.certificates().iter().map(tf_pki::certificate::Certificate::fingerprint).collect())
}

#[tokio::test]
async fn a_deleted_authority_is_restored_a_spoilt_one_explained_and_a_users_takes_over_with_overlap() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = cluster("in-authority", &["zookeeper-op"]).await?;
    cluster.nodes(1, 0).await?;
    member(&cluster, ZOOKEEPER, "zk", json!({})).await?;
    cluster.ready(ZOOKEEPER, "zk").await?;
    let first = trusted(&cluster).await?;
    ensure!(first.len() == 1, "{first:?}");

    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let before = secrets.get(AUTHORITY).await?;
    secrets.delete(AUTHORITY, &DeleteParams::default()).await?;
    let restored = eventually("the Secret to be there again", Duration::from_secs(30), async || {
        Ok(secrets.get_opt(AUTHORITY).await?.filter(|now| now.metadata.uid != before.metadata.uid))
    })
    .await?;
    ensure!(restored.data == before.data, "another authority was made");

    let theirs = Authority::generate("theirs", Curve::P256, AUTHORITY_LIFETIME, Timestamp::now())?;
    let certificate = theirs.certificates_pem();
    secret(&cluster, AUTHORITY, json!({"tls.crt": certificate, "tls.key": "no key"})).await?;
    let message = told(&cluster, ZOOKEEPER, "zk", ("ConfigReady", "False", "SecretInvalid")).await?;
    ensure!(message.contains("in-authority/tf-ca: tls.crt and tls.key"), "{message}");
    ensure!(trusted(&cluster).await? == first, "who is trusted changed");

    secret(&cluster, AUTHORITY, json!({"tls.crt": certificate, "tls.key": theirs.key_pem()})).await?;
    let mut seen = vec![first];
    eventually("the user's authority alone", ROTATION, async || {
        let now = trusted(&cluster).await?;
        if seen.last() != Some(&now) {
            seen.push(now.clone());
        }
        Ok((now == [theirs.fingerprint()]).then_some(()))
    })
    .await?;
    let (old, new) = (seen[0][0], theirs.fingerprint());
    ensure!(seen == [vec![old], vec![old, new], vec![new, old], vec![new]], "{seen:?}");
    cluster.ready(ZOOKEEPER, "zk").await?;
    Ok(())
}
