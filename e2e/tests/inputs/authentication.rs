//! Clients of Cassandra that log in.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ListParams};
use serde_json::json;
use tf_api::kinds::CASSANDRA;
use tf_testing::{Cluster, resources};

use crate::support::{cluster, member, merge, secret};

/// The text under a key of a Secret.
async fn text(cluster: &Cluster, name: &str, key: &str) -> Result<Option<String>> {
    let api: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let data = api.get_opt(name).await?.and_then(|secret| secret.data).unwrap_or_default();
    Ok(data.get(key).map(|value| String::from_utf8_lossy(&value.0).into_owned()))
}

#[tokio::test]
async fn clients_are_given_a_password_that_is_told_nowhere_else_and_keep_it_while_members_cannot_be_told_another()
-> Result<()> {
    const OWN: &str = "configdb1-cassandra-passwords";
    let cluster = cluster("in-authentication", &["cassandra-op"]).await?;
    cluster.nodes(1, 0).await?;
    member(&cluster, CASSANDRA, "configdb1", json!({"serviceConfiguration": {"authentication": "Password"}})).await?;
    let ring = cluster.ready(CASSANDRA, "configdb1").await?;
    let status = &ring.object.data["status"];
    assert_eq!(status["authentication"], "Password");
    let name = status["connectionSecretRef"]["name"].as_str().context("no Secret for clients")?;
    let password = text(&cluster, name, "password").await?.context("no password")?;
    assert_eq!(text(&cluster, name, "username").await?.as_deref(), Some("tf"));
    assert!(password.len() == 32 && text(&cluster, name, "keystorePassword").await?.is_none());
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    for map in maps.list(&ListParams::default()).await? {
        assert!(!format!("{map:?}").contains(&password), "{:?}", map.metadata.name);
    }
    assert!(!ring.object.data.to_string().contains(&password));

    // Nobody hears these members' servers, which are simulated.
    for (other, why) in [("another-one", "for now: "), ("an other", "has to be 1 to 72 ASCII letters")] {
        secret(&cluster, OWN, json!({"password": other})).await?;
        let is_told = |ring: &resources::Resource| {
            let told = ring.explain("Ready");
            told.contains("clients go on with the former password") && told.contains(why)
        };
        cluster.until(CASSANDRA, "configdb1", why, is_told).await?;
        assert_eq!(text(&cluster, OWN, "password").await?.as_deref(), Some(other), "what a person put there stays");
        assert_eq!(text(&cluster, name, "password").await?.as_ref(), Some(&password));
    }
    secret(&cluster, OWN, json!({"password": password})).await?;
    let is_silent = |ring: &resources::Resource| !ring.explain("Ready").contains("former password");
    cluster.until(CASSANDRA, "configdb1", "nothing to tell", is_silent).await?;

    // Without the field nothing changes, and clients go on to be given what they have.
    merge(&cluster, CASSANDRA, "configdb1", json!({"spec": {"serviceConfiguration": {"authentication": null}}}))
        .await?;
    let settled = |ring: &resources::Resource| {
        let status = &ring.object.data["status"];
        status["observedGeneration"].as_i64() == ring.object.metadata.generation && ring.is_ready()
    };
    let after = cluster.until(CASSANDRA, "configdb1", "Ready as it is", settled).await?;
    assert_eq!(after.object.data["status"]["authentication"], "Password");
    assert_eq!(text(&cluster, name, "password").await?.as_ref(), Some(&password));

    let nonsense = json!({"spec": {"serviceConfiguration": {"authentication": "Kerberos"}}});
    let refused = merge(&cluster, CASSANDRA, "configdb1", nonsense).await.err().context("it was taken")?.to_string();
    assert!(refused.contains("authentication"), "{refused}");
    Ok(())
}
