//! Where Keystone knows users: daemons and operators log in with what files and a Secret have of a strange password, the API lets in nobody else, and a
//! wrong password is told and comes to nobody.

use tf_api::kinds::{ANALYTICS, ANALYTICS_SNMP};
use tf_testing::real::keystone::{KEY, Keystone, SECRET};

use super::picture::are_well;
use super::*;
use crate::store::edit_secret;

/// Those whose pods log in.
const CLIENTS: [(KindInfo, &str); 6] = [
    (CONFIG_KIND, CONFIG.name),
    (KUBEMANAGER, LINK),
    (ANALYTICS, "analytics1"),
    (ANALYTICS_ALARM, "analyticsalarm1"),
    (ANALYTICS_SNMP, "analyticssnmp1"),
    (WEBUI, WEB),
];
/// So long nobody may change after a wrong password was told.
const STILL: Duration = Duration::from_secs(60);

/// One on the first node.
pub async fn keystone(lab: &Lab) -> Result<Keystone> {
    let node = lab.real_nodes()?.all()?.into_iter().next().context("no node")?;
    Keystone::start(lab, NAMESPACE, &node).await
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_log_in_at_a_keystone_with_a_strange_password_and_a_wrong_one_is_told() -> Result<()> {
    Long::Users.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    are_well(client).await?;
    let nodes = lab.real_nodes()?.all()?;
    let keystone = Keystone::on(nodes.first().context("no node")?);
    let addresses = lab.real_nodes()?.addresses()?;
    let stranger = Visitor::of(client, NAMESPACE).await?;
    functional(&stranger, &addresses).await?;
    let refused = stranger.create(addresses[0], "of nobody").await.err().map(|error| format!("{error:#}"));
    ensure!(refused.as_ref().is_some_and(|why| why.contains("status 401")), "{refused:?}");

    let visitor = Visitor::of(client, NAMESPACE).await?.with(keystone.token().await?);
    one_writes_and_all_read(&visitor, &addresses, "of the administrator").await?;
    let routers = visitor.routers(addresses[0]).await?;
    ensure!(routers.len() == addresses.len(), "{routers:#?}");
    // Users of the web UI are Keystone's.
    secret::nothing_is_told_without(lab, client, &["webui1-webui-login"]).await?;

    let password = secret::text(client, SECRET, KEY).await?;
    let before = Daemons::of(lab, client).await?;
    let begun = Instant::now();
    edit_secret(client, SECRET, KEY, "wrong0password").await?;
    for (kind, name) in CLIENTS {
        let is_told = |it: &Resource| {
            let told = it.explain("InputsReady");
            !it.is_ready() && told.contains("401 Unauthorized") && !told.contains("wrong0password")
        };
        let told = resources::until(client, kind, NAMESPACE, name, "told", RECOVERY, is_told).await?;
        println!("a wrong password: told after {:.1?}: {name}: {}", begun.elapsed(), told.explain("InputsReady"));
    }
    tokio::time::sleep(STILL).await;
    for (kind, name) in CLIENTS {
        let has_stayed = |it: &Resource| it.is("Available", "True") && it.is("WorkloadReady", "True");
        resources::until(client, kind, NAMESPACE, name, "as it was", RECOVERY, has_stayed).await?;
    }
    // Of Control the operator alone logs in.
    let is_told = |it: &Resource| it.is("Available", "True") && it.explain("Provisioned").contains("401");
    resources::until(client, CONTROL, NAMESPACE, CONTROL_NODES, "not let in", RECOVERY, is_told).await?;
    one_writes_and_all_read(&visitor, &addresses, "beside a wrong password").await?;
    before.have_stayed_but(|_| false, &[])?;

    let begun = Instant::now();
    edit_secret(client, SECRET, KEY, &password).await?;
    let is_let_in = |it: &Resource| it.is_ready() && it.is("Progressing", "False");
    for (kind, name) in CLIENTS {
        resources::until(client, kind, NAMESPACE, name, "let in again", RECOVERY, is_let_in).await?;
    }
    let is_let_in = |it: &Resource| it.is_ready() && it.is("Provisioned", "True");
    resources::until(client, CONTROL, NAMESPACE, CONTROL_NODES, "let in again", RECOVERY, is_let_in).await?;
    resources::ready(client, MANAGER, NAMESPACE, "sdn", BRING_UP).await?;
    are_well(client).await?;
    functional(&stranger, &addresses).await?;
    println!("the right one again: all is well after {:.0?}", begun.elapsed());
    before.have_stayed_but(|_| false, &[])?;
    one_writes_and_all_read(&visitor, &addresses, "afterwards").await
}
