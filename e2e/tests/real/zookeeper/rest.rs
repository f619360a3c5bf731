//! What an ensemble does when nobody does anything, what it does for those who have no rights, and ports.

use anyhow::ensure;
use tf_api::kinds::SESSION_TIMEOUT_DEFAULT;
use zookeeper_client::{Client as Session, EnsembleUpdate, Error};

use super::journal::{Journal, Writers};
use super::watchman::{Watch, Watchman};
use super::*;
use crate::rest;

/// What sessions may last at most, unless the spec says otherwise.
const LONGEST_SESSION: Duration = SESSION_TIMEOUT_DEFAULT;

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_at_rest_writes_nothing_and_nobody_asked_for_what_is_not_allowed() -> Result<()> {
    if !Long::Rest.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| rest::is_silent(&STORE, lab, client).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_that_hibernated_has_what_was_written() -> Result<()> {
    if !Long::Hibernation.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;
        let journal = Journal::begin(&addresses).await?;
        eventually("20 writes", Duration::from_secs(30), async || Ok((journal.written() >= 20).then_some(()))).await?;
        let account = journal.stop();
        let list = membership::list(addresses[0]).await?;
        STORE.sleeps_and_wakes(client).await?;
        ensure!(membership::list(addresses[0]).await? == list, "the list of members is another one");
        account.is_kept_by(&addresses).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_change_no_members_and_hear_few_words_and_sessions_have_limits() -> Result<()> {
    if !Long::Strangers.is_drawn()? {
        return Ok(());
    }
    with_lab(1, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        certified(client).await?;
        let address = lab.real_nodes()?.addresses()?[0];
        for word in ["dump", "envi", "cons", "wchs", "crst", "gtmk"] {
            let answer = ask(address, word).await?;
            ensure!(answer.contains("not in the whitelist"), "{word} is answered with {answer:?}");
        }
        let asked = 2 * LONGEST_SESSION;
        let cluster = SocketAddr::new(address, CLIENT_PORT).to_string();
        let session = Session::connector().with_session_timeout(asked).connect(&cluster).await?;
        ensure!(session.session_timeout() == LONGEST_SESSION, "{:?}", session.session_timeout());

        let (version, voters) = membership::list(address).await?;
        // The server looks at rights last: this change would be carried out for who has them.
        for password in [None, Some(&b"super:guess"[..])] {
            if let Some(password) = password {
                session.auth("digest", password).await?;
            }
            let joinings = ["server.9=10.9.9.9:2888:3888:observer;2181"].iter().copied();
            let update = EnsembleUpdate::Incremental { joinings, leavings: [].iter().copied() };
            let refused = session.update_ensemble(update, None).await;
            ensure!(matches!(refused, Err(Error::NoAuth)), "{refused:?}");
        }
        ensure!(membership::list(address).await? == (version, voters), "the list is another one");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_move_to_another_port_and_a_change_of_the_servers_ports_is_refused() -> Result<()> {
    if !Long::Ports.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;
        let (writers, watchman) = (Writers::begin(&addresses).await?, Watchman::begin(client, Watch::OneAtATime));
        let before = tls::uids(client).await?;
        let spec = json!({"serviceConfiguration": {"agentPort": 2190}});
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, BRING_UP).await?;
        let after = tls::uids(client).await?;
        ensure!(after.iter().all(|(name, uid)| before[name] != *uid), "pods are the same");

        let spec = json!({"serviceConfiguration": {"agentPort": 2190, "clientPort": 2191}});
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
        let refused = |zookeeper: &Resource| zookeeper.explain("Stalled").contains("clientPort back to 2181");
        resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "refused", BRING_UP, refused).await?;
        let spec = json!({"serviceConfiguration": {"agentPort": 2190}});
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, BRING_UP).await?;
        ensure!(tls::uids(client).await? == after, "pods were replaced for what was refused");
        watchman.end()?;
        writers.end(&addresses).await?;
        Ok(())
    })
    .await
}
