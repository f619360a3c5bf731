//! Secrets that a spec names: missing, spoilt, and with passwords that no file format likes.

use anyhow::{Context as _, Result};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Secret};
use kube::api::{Api, ListParams};
use serde_json::json;
use tf_api::kinds::{CONFIG, RABBITMQ};
use tf_config_files::read;
use tf_testing::Cluster;

use crate::support::{cluster, config_with_keystone, made, member, secret, told};

#[tokio::test]
async fn a_missing_secret_is_named_a_spoilt_one_explained_and_the_right_one_taken_at_once() -> Result<()> {
    let cluster = cluster("in-secret", &["rabbitmq-op"]).await?;
    cluster.nodes(3, 0).await?;
    member(&cluster, RABBITMQ, "mq", json!({"serviceConfiguration": {"secret": "login"}})).await?;
    let message = told(&cluster, RABBITMQ, "mq", ("InputsReady", "False", "SecretNotFound")).await?;
    assert!(message.contains("in-secret/login"), "{message}");
    assert!(made::<StatefulSet>(&cluster, "mq").await?.is_empty(), "pods without their password");

    // A neighbour is not disturbed, with the same operator and on the same nodes.
    let ports = json!({"port": 5683, "erlEpmdPort": 4370});
    member(&cluster, RABBITMQ, "neighbour", json!({ "serviceConfiguration": ports })).await?;
    cluster.ready(RABBITMQ, "neighbour").await?;

    secret(&cluster, "login", json!({"user": "sdn", "password": "a&b\"+%", "vhost": "/"})).await?;
    let message = told(&cluster, RABBITMQ, "mq", ("InputsReady", "False", "SecretInvalid")).await?;
    assert!(message.contains("password") && !message.contains("a&b"), "{message}");

    secret(&cluster, "login", json!({"user": "sdn", "password": "Good-enough_1.x", "vhost": "/"})).await?;
    cluster.ready(RABBITMQ, "mq").await?;
    Ok(())
}

#[tokio::test]
async fn a_password_reaches_the_daemon_as_it_is_or_is_refused_where_a_client_would_spoil_it() -> Result<()> {
    const PASSWORD: &str = "a&b+%<c>='#;é%(d)s";
    let cluster = cluster("in-password", &["config-op"]).await?;
    cluster.nodes(1, 0).await?;
    secret(&cluster, "keystone", json!({"password": "a&b\"+%"})).await?;
    secret(&cluster, "mq-login", json!({"username": "sdn", "password": "plain", "vhost": "/"})).await?;
    let parameters = json!({"address": "keystone.example.org"});
    let spec = config_with_keystone(&parameters);
    member(&cluster, CONFIG, "api", spec).await?;
    let message = told(&cluster, CONFIG, "api", ("InputsReady", "False", "SecretInvalid")).await?;
    assert!(message.contains("in-password/keystone") && message.contains("quotation mark"), "{message}");
    secret(&cluster, "keystone", json!({ "password": PASSWORD })).await?;
    cluster.ready(CONFIG, "api").await?;
    let file = keystone_file(&cluster).await?;
    let options = read::python(&file)?;
    assert_eq!(options["KEYSTONE"]["admin_password"], PASSWORD);
    Ok(())
}

async fn keystone_file(cluster: &Cluster) -> Result<String> {
    let api: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let secrets = api.list(&ListParams::default()).await?;
    let mut files = secrets.items.into_iter().filter_map(|secret| secret.data?.remove("contrail-keystone-auth.conf"));
    Ok(String::from_utf8(files.next_back().context("no file for Keystone in any Secret")?.0)?)
}
