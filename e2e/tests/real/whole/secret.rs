//! Nothing secret is where people read: not a generated credential, nor a private key or a token.

use k8s_openapi::api::core::v1::Secret;
use tf_api::names::ANALYTICSDB;
use tf_testing::operators;

use super::*;

/// Credentials that are generated for the resources of the manifest, by Secret and key.
const GENERATED: [(&str, &str); 14] = [
    ("rabbitmq1-secret", "password"),
    ("rabbitmq1-secret", "salted_password"),
    ("rabbitmq1-secret", "agent_password"),
    ("rabbitmq1-secret", "agent_salted_password"),
    ("rabbitmq1-secret", "erlang_cookie"),
    ("redis1-redis-password", "password"),
    ("configdb1-cassandra-passwords", "keystorePassword"),
    ("configdb1-cassandra-passwords", "truststorePassword"),
    ("analyticsdb1-cassandra-passwords", "keystorePassword"),
    ("analyticsdb1-cassandra-passwords", "truststorePassword"),
    ("zookeeper1-zookeeper-super", "password"),
    ("control1-control-rndc", "rndckey"),
    ("webui1-webui-login", "password"),
    ("kubemanager1-kubemanager-token", "token"),
];

/// Looks at everything that people read, metrics of all operators among it.
pub async fn nothing_is_told(lab: &Lab, client: &Client) -> Result<()> {
    let rings = resources::all(client, NAMESPACE).await?;
    let is_alone = !rings.iter().any(|it| it.kind == CASSANDRA && it.name == ANALYTICSDB);
    let absent: &[&str] = if is_alone { &["analyticsdb1-cassandra-passwords"] } else { &[] };
    nothing_is_told_without(lab, client, absent).await
}

/// The same where nothing is generated for these Secrets.
pub async fn nothing_is_told_without(lab: &Lab, client: &Client, absent: &[&str]) -> Result<()> {
    let is_secret = |key: &str| key.ends_with("password") || GENERATED.iter().any(|(_, generated)| *generated == key);
    let secret = |key: &str, text: &str| {
        let line = |line: &str| line.split_once("password = ").map(|(_, password)| password.to_owned());
        let stated = text.lines().filter_map(line);
        stated.chain(is_secret(key).then(|| text.to_owned())).collect()
    };
    let values = secrets::values(lab, client, secret).await?;
    for (name, key) in GENERATED.into_iter().filter(|(name, _)| !absent.contains(name)) {
        ensure!(values.contains_key(&text(client, name, key).await?), "{key} of Secret {name} is not looked for");
    }
    let mut pages = secrets::pages(&CONFIG, lab, client).await?;
    for operator in operators::ALL {
        let metrics = secrets::metrics_of_operator(&Store { operator, ..CONFIG }, lab, client).await?;
        pages.insert(format!("metrics of {operator}"), metrics);
    }
    secrets::nothing_leaks(&values, &pages)
}

/// What a Secret has under a key.
pub async fn text(client: &Client, name: &str, key: &str) -> Result<String> {
    let mut found = Api::<Secret>::namespaced(client.clone(), NAMESPACE).get(name).await?.data.unwrap_or_default();
    let value = found.remove(key).with_context(|| format!("Secret {name} has no {key}"))?;
    Ok(String::from_utf8(value.0)?)
}
