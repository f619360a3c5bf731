//! Where Keystone knows users: daemons and operators log in with what files and a Secret have of a strange password, the API lets in nobody else, and a
//! wrong password is told.

use tf_testing::real::keystone::{KEY, Keystone, SECRET};

use super::picture::are_well;
use super::*;
use crate::store::edit_secret;

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
    let begun = Instant::now();
    edit_secret(client, SECRET, KEY, "wrong0password").await?;
    // Who waits to be elected does not log in, so that nothing keeps the next member from taking it: it is those who are elected that end.
    let is_told = |it: &Resource| !it.is_ready() && it.explain("WorkloadReady").contains("ended with exit code 1");
    let told = resources::until(client, CONFIG_KIND, NAMESPACE, CONFIG.name, "told", RECOVERY, is_told).await?;
    println!("a wrong password: told after {:.1?}: {}", begun.elapsed(), told.explain("WorkloadReady"));

    let begun = Instant::now();
    edit_secret(client, SECRET, KEY, &password).await?;
    let is_let_in = |it: &Resource| it.is_ready() && it.is("Provisioned", "True") && it.is("Progressing", "False");
    resources::until(client, CONFIG_KIND, NAMESPACE, CONFIG.name, "let in again", BRING_UP, is_let_in).await?;
    resources::ready(client, MANAGER, NAMESPACE, "sdn", BRING_UP).await?;
    are_well(client).await?;
    functional(&stranger, &addresses).await?;
    println!("the right one again: all is well after {:.0?}", begun.elapsed());
    one_writes_and_all_read(&visitor, &addresses, "afterwards").await
}
