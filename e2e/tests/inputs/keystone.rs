//! A real Keystone says who operators are, and played ones of another version and of another authority.

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use tf_api::{kinds::CONFIG, names};
use tf_pki::authority::{AUTHORITY_LIFETIME, Authority, Curve};
use tf_testing::{
    config_api::keystone::RECENT,
    keystone::Keystone,
    resources::Resource,
    sample::{Sample, has_turn},
    skip,
};

use crate::support::{cluster, config_with_keystone, member, secret};

#[tokio::test(flavor = "multi_thread")]
async fn operators_log_in_at_a_real_keystone_with_a_strange_password_and_say_so_when_they_are_not_let_in() -> Result<()>
{
    const PASSWORD: &str = "a&b+%<c>='#;é%(d)s";
    if Sample::from_environment(0)? != Sample::All {
        return skip::this_test(
            "installs Keystone from PyPI; TF_SAMPLE=all cargo test -p e2e --test inputs keystone runs it",
        );
    }
    let cluster = cluster("in-keystone", &["config-op"]).await?;
    cluster.nodes(1, 0).await?;
    let keystone = Keystone::start(&cluster.lab, PASSWORD).await?;
    secret(&cluster, "mq-login", json!({"username": "sdn", "password": "plain", "vhost": "/"})).await?;
    secret(&cluster, "keystone", json!({"password": "another one"})).await?;
    let parameters = json!({"address": Keystone::ADDRESS, "adminPort": keystone.port()});
    member(&cluster, CONFIG, "api", config_with_keystone(&parameters)).await?;
    let is_refused = |config: &Resource| {
        let told = config.explain("InputsReady");
        told.contains("401 Unauthorized") && told.contains("keystoneSecretName") && !told.contains("another one")
    };
    cluster.until(CONFIG, "api", "told that it is not let in", is_refused).await?;

    secret(&cluster, "keystone", json!({ "password": PASSWORD })).await?;
    let is_let_in = |config: &Resource| config.is_ready() && config.is("Provisioned", "True");
    cluster.until(CONFIG, "api", "let in", is_let_in).await.map(drop)
}

#[tokio::test]
async fn a_keystone_of_version_2_is_asked_as_it_understands_and_one_of_another_authority_is_checked_against_that()
-> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = cluster("in-keystones", &["config-op"]).await?;
    cluster.nodes(1, 0).await?;
    secret(&cluster, "mq-login", json!({"username": "sdn", "password": "plain", "vhost": "/"})).await?;
    let another = Authority::generate("another", Curve::P256, AUTHORITY_LIFETIME, Timestamp::now())?.certificates_pem();
    secret(&cluster, "keystone", json!({"password": "played", "ca.crt": another})).await?;
    // Nobody is there: the lab plays it, with a certificate of the namespace's authority.
    let parameters = json!({"address": "192.0.2.35", "apiVersion": "v2.0"});
    member(&cluster, CONFIG, "api", config_with_keystone(&parameters)).await?;
    let is_doubted = |config: &Resource| {
        let told = config.explain("Provisioned");
        told.contains("POST https://192.0.2.35:35357/v2.0/tokens") && told.contains("certificate")
    };
    cluster.until(CONFIG, "api", "in doubt of the certificate", is_doubted).await?;

    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let kept =
        secrets.get(names::AUTHORITY).await?.data.unwrap_or_default().remove("tls.crt").context("no authority")?;
    let own = String::from_utf8(kept.0)?;
    secret(&cluster, "keystone", json!({"password": "played", "ca.crt": own})).await?;
    let is_let_in = |config: &Resource| config.is_ready() && config.is("Provisioned", "True");
    cluster.until(CONFIG, "api", "let in by version 2.0 of who is checked", is_let_in).await?;

    secret(&cluster, "keystone", json!({"password": "played", "ca.crt": "no certificate"})).await?;
    let is_told = |config: &Resource| {
        config.explain("InputsReady").contains("key ca.crt of Secret in-keystones/keystone holds no certificate")
    };
    cluster.until(CONFIG, "api", "told of nonsense", is_told).await.map(drop)
}

#[tokio::test]
async fn a_recent_keystone_that_is_asked_at_port_35357_is_named_with_the_port_to_set_and_lets_in_after_that()
-> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = cluster("in-keystone-port", &["config-op"]).await?;
    cluster.nodes(1, 0).await?;
    secret(&cluster, "mq-login", json!({"username": "sdn", "password": "plain", "vhost": "/"})).await?;
    secret(&cluster, "keystone", json!({"password": "played"})).await?;
    member(&cluster, CONFIG, "api", config_with_keystone(&json!({"address": RECENT, "adminPort": 35357}))).await?;
    let is_named = |config: &Resource| {
        let message = config.explain("Provisioned");
        message.contains(&format!("POST https://{RECENT}:35357/v3/auth/tokens: "))
            && message.contains("set keystoneAuthParameters.adminPort to 5000")
    };
    let config = cluster.until(CONFIG, "api", "not provisioned for want of a Keystone at that port", is_named).await?;
    ensure!(!config.is("Provisioned", "True"), "{}", config.explain("Provisioned"));

    member(&cluster, CONFIG, "api", config_with_keystone(&json!({"address": RECENT, "adminPort": 5000}))).await?;
    let is_let_in = |config: &Resource| config.is_ready() && config.is("Provisioned", "True");
    cluster.until(CONFIG, "api", "let in at port 5000", is_let_in).await.map(drop)
}
