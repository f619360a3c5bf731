//! What runs is changed under a client of the config API, which notices nothing but that members take turns.

use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use serde_json::Value;
use tf_api::kinds::{ANALYTICS, ANALYTICS_SNMP, RABBITMQ, REDIS, ZOOKEEPER};
use tf_api::names::CONFIGDB;
use tf_testing::identity::Identity;

use super::elected::{daemons_without_a_leader_are_reported, killed_leaders_are_followed};
use super::world::World;
use super::*;
use crate::{
    rabbitmq,
    store::{Server, edit_secret, replace_authority},
};

#[tokio::test(flavor = "multi_thread")]
async fn passwords_and_settings_change_under_a_client_of_the_api_and_none_of_its_requests_fails() -> Result<()> {
    Long::Changes.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    let other = "another0password";
    world
        .goes_through("rabbitmq", edit_secret(client, "rabbitmq1-secret", "password", other), &[RABBITMQ, CONFIG_KIND])
        .await?;
    // All of them were just restarted.
    killed_leaders_are_followed(&world).await?;
    daemons_without_a_leader_are_reported(&world).await?;
    world.goes_through("agents", edit_secret(client, "rabbitmq1-secret", "agent_password", other), &[RABBITMQ]).await?;
    world.goes_through("redis", edit_secret(client, "redis1-redis-password", "password", other), &[REDIS]).await?;
    world.goes_through("pods", CONFIG.restarted(client), &[CONFIG_KIND]).await?;
    let before = servers(lab)?;
    let followers = [RABBITMQ, REDIS, CASSANDRA, CONFIG_KIND, CONTROL, VROUTER];
    world.goes_through("level", log_more(lab), &followers).await?;
    ensure!(servers(lab)? == before, "servers were started anew for another log level: {before:?}");
    logs_more(client, world.addresses.len()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_credential_changes_under_a_client_of_the_api_and_none_of_its_requests_fails() -> Result<()> {
    Long::Credentials.run(credentials).await
}

pub async fn credentials(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    let (key_store, trust_store) = ("keystorePassword", "truststorePassword");
    let stores = ["configdb1-cassandra-passwords", "analyticsdb1-cassandra-passwords"]
        .map(|secret| [(secret, key_store, "another0keystore"), (secret, trust_store, "another0truststore")])
        .concat();
    let edited = [
        ("redis", vec![("redis1-redis-password", "password", "another0password")], ANALYTICS),
        ("rndc", vec![("control1-control-rndc", "rndckey", "YW5vdGhlciBrZXkgb2Ygb3RoZXIgYnl0ZXM=")], CONTROL),
        ("web", vec![("webui1-webui-login", "password", "another0password")], WEBUI),
        ("stores", stores, CASSANDRA),
        ("super", vec![("zookeeper1-zookeeper-super", "password", "another0password")], ZOOKEEPER),
    ];
    for (what, edits, follower) in edited {
        let edit = async {
            for (secret, key, value) in edits {
                edit_secret(client, secret, key, value).await?;
            }
            Ok(())
        };
        world.goes_through(what, edit, &[follower]).await?;
    }
    // Topology is functional again as soon as it and the API of its node have the same one.
    let login = edit_secret(client, "analytics1-analytics-login", "password", "another0password");
    world.goes_through("login", login, &[ANALYTICS, ANALYTICS_SNMP]).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let token =
        async { Ok(secrets.delete("kubemanager1-kubemanager-token", &DeleteParams::default()).await.map(drop)?) };
    world.goes_through("token", token, &[KUBEMANAGER]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_of_cassandra_asks_for_a_password_and_then_for_another_one_and_no_request_of_a_client_of_the_api_fails()
-> Result<()> {
    Long::Ring.run(ring).await
}

async fn ring(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    let mut manifest: Value = serde_saphyr::from_str(&whole::manifest()?)?;
    let ring = &mut manifest["spec"]["services"]["cassandras"][0];
    ensure!(ring["metadata"]["name"] == CONFIGDB, "examples/manager.yaml has other rings than it had: {ring}");
    ring["spec"]["serviceConfiguration"]["authentication"] = "Password".into();
    let asks = async {
        lab.apply(&manifest.to_string()).await?;
        let asks = |it: &Resource| it.object.data["status"]["authentication"] == "Password";
        resources::until(client, CASSANDRA, NAMESPACE, CONFIGDB, "asking for a password", 2 * BRING_UP, asks).await?;
        Ok(())
    };
    world.goes_through("asks", asks, &[CONFIG_KIND]).await?;
    let edit = edit_secret(client, "configdb1-cassandra-passwords", "password", "another0password");
    world.goes_through("password", edit, &[CONFIG_KIND]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_of_all_certificates_changes_under_a_client_of_the_api_and_none_of_its_requests_fails()
-> Result<()> {
    Long::Authority.run(authority).await
}

pub async fn authority(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    let before = pods(client).await?;
    world.goes_through("authority", replace_authority(client), &[]).await?;
    let after = pods(client).await?;
    ensure!(before == after, "pods were made anew: {before:?}\n{after:?}");
    Ok(())
}

/// Names and uids of all pods.
async fn pods(client: &Client) -> Result<BTreeMap<String, Option<String>>> {
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await?;
    Ok(pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect())
}

/// The daemons of all members were told, and so was Cassandra.
async fn logs_more(client: &Client, members: usize) -> Result<()> {
    const TOLD: &str = "logs from SYS_DEBUG on";
    for (kind, container) in [(CONFIG_KIND, "api"), (CONTROL, "control")] {
        let told = logs(client, kind, container).await?.matches(TOLD).count();
        ensure!(told == members, "{container}: {told} were told");
    }
    let debug = logs(client, CASSANDRA, "cassandra").await?;
    ensure!(debug.lines().any(|line| line.starts_with("DEBUG")), "no Cassandra logs more");
    // Servers look at their file every 10 s.
    eventually("every ZooKeeper to log more", RECOVERY, async || {
        let told = logs(client, ZOOKEEPER, "zookeeper").await?.matches(" - DEBUG [").count();
        Ok((told >= members).then_some(()))
    })
    .await
}

/// Servers that can be told another log level, on all nodes. Of those in Java Kafka's cannot.
fn servers(lab: &Lab) -> Result<Vec<Identity>> {
    let daemons = ["redis-server", "contrail-api", "contrail-control"];
    let mut found = Vec::new();
    let zookeeper = Server { name: "java", mark: "QuorumPeerMain" };
    for server in daemons.map(Server::named).into_iter().chain([rabbitmq::SERVER, zookeeper]) {
        found.extend(server.processes(lab)?.concat());
    }
    found.sort_by_key(|server| server.pid);
    Ok(found)
}

async fn log_more(lab: &Lab) -> Result<()> {
    let mut manifest = whole::manifest_without_analytics()?;
    let level = &mut manifest["spec"]["commonConfiguration"]["logLevel"];
    ensure!(level == "info", "examples/manager.yaml has another level than it had: {level}");
    *level = "debug".into();
    lab.apply(&manifest.to_string()).await.map(drop)
}
