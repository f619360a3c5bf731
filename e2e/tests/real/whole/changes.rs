//! Everything is changed, one change after the other, while a client of the config API is served.

use std::time::Instant;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::traffic::Traffic;
use super::*;
use crate::store::replace_authority;

/// For all members of everything to change, one after the other.
const CHANGE: Duration = Duration::from_mins(10);
/// The daemons of Config by the names of their containers.
const CONFIG_CONTAINERS: [&str; 5] = ["api", "devicemanager", "dnsmasq", "schematransformer", "servicemonitor"];
/// The image that plays them, and the same by another name.
const IMAGE: &str = concat!("docker.io/tungstenfabric/tf-sim:", env!("CARGO_PKG_VERSION"));
const NEXT_IMAGE: &str = "docker.io/tungstenfabric/tf-sim:next";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_api_is_served_through_changes_of_configuration_image_passwords_and_authority() -> Result<()> {
    let Some((lab, client)) = Long::Changes.ready().await? else { return Ok(()) };
    match story(&lab, &client).await {
        Ok(()) => Ok(()),
        Err(error) => Err(CONFIG.with_testimony(error, &client).await),
    }
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let addresses = lab.real_nodes()?.addresses()?;
    functional(&Visitor::of(client, NAMESPACE).await?, &addresses).await?;
    let traffic = Traffic::begin(client, &addresses);

    let begun = Instant::now();
    let debug = whole::manifest()?.replace("logLevel: info", "logLevel: debug");
    lab.apply(&debug).await?;
    changed("every configuration", client, &addresses, begun, &traffic).await?;

    let begun = Instant::now();
    for node in lab.real_nodes()?.all()? {
        node.run("ctr", &["--namespace", "k8s.io", "images", "tag", IMAGE, NEXT_IMAGE]).await?;
    }
    let before = CONFIG.uids(client).await?;
    let mut next: Value = serde_saphyr::from_str(&debug)?;
    let containers = CONFIG_CONTAINERS.map(|name| json!({"name": name, "image": NEXT_IMAGE}));
    next["spec"]["services"]["config"]["spec"] = json!({"serviceConfiguration": {"containers": containers}});
    lab.apply(&serde_saphyr::to_string(&next)?).await?;
    eventually("other pods of Config", CHANGE, async || {
        let now = CONFIG.uids(client).await?;
        Ok((now.len() == 3 && now.iter().all(|(name, uid)| before.get(name) != Some(uid))).then_some(()))
    })
    .await?;
    changed("another image of Config", client, &addresses, begun, &traffic).await?;

    for (what, secret) in
        [("the password of RabbitMQ", "rabbitmq1-secret"), ("the password of Redis", "redis1-redis-password")]
    {
        let begun = Instant::now();
        let wish = json!({"stringData": {"password": "Another-one_1.x"}});
        let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
        secrets.patch(secret, &PatchParams::default(), &Patch::Merge(wish)).await?;
        changed(what, client, &addresses, begun, &traffic).await?;
    }

    let begun = Instant::now();
    replace_authority(client).await?;
    changed("the authority", client, &addresses, begun, &traffic).await?;

    let visitor = Visitor::of(client, NAMESPACE).await?;
    traffic.end(&visitor, &addresses).await?;
    one_writes_and_all_read(&visitor, &addresses, "last").await
}

/// Waits until a change has reached everybody.
async fn changed(what: &str, client: &Client, addresses: &[Ipv4Addr], begun: Instant, traffic: &Traffic) -> Result<()> {
    // Time for the first operator to see it.
    tokio::time::sleep(SETTLED).await;
    let mut waiting = Vec::new();
    eventually(what, CHANGE, async || {
        let found = resources::all(client, NAMESPACE).await?;
        let is_through =
            |it: &&Resource| it.is_ready() && it.condition("Progressing").is_none_or(|it| it.status == "False");
        waiting = found.iter().filter(|it| !is_through(it)).map(|it| it.explain("Progressing")).collect();
        Ok(waiting.is_empty().then_some(()))
    })
    .await
    .with_context(|| format!("{waiting:#?}"))?;
    functional(&Visitor::of(client, NAMESPACE).await?, addresses).await?;
    println!("{what}: everybody has it after {:.0?}; {}", begun.elapsed(), traffic.summary());
    Ok(())
}
