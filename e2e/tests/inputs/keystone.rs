//! A real Keystone says who operators are.

use anyhow::Result;
use serde_json::json;
use tf_api::kinds::CONFIG;
use tf_testing::{keystone::Keystone, resources::Resource, sample::Sample, skip};

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
        let told = config.explain("Provisioned");
        told.contains("401 Unauthorized") && told.contains("keystoneSecretName") && !told.contains("another one")
    };
    cluster.until(CONFIG, "api", "told that it is not let in", is_refused).await?;

    secret(&cluster, "keystone", json!({ "password": PASSWORD })).await?;
    let is_let_in = |config: &Resource| config.is_ready() && config.is("Provisioned", "True");
    cluster.until(CONFIG, "api", "let in", is_let_in).await.map(drop)
}
