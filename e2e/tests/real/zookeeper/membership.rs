//! Members come and go, and nothing that was acknowledged is lost.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde_json::Value;

use super::journal::Journal;
use super::watchman::{Watch, Watchman};
use super::*;

/// From a wish to the ensemble as wished, for one member more or less. A server in Java has to start.
const ONE_MOVE: Duration = Duration::from_mins(3);

/// The list of members as a server has it: its version, and who has a vote.
pub async fn list(address: IpAddr) -> Result<(u64, BTreeSet<u32>)> {
    let answer = ask(address, "conf").await?;
    let (_, list) = answer.split_once("membership:").with_context(|| format!("{address} answered {answer:?}"))?;
    let servers: tf_agent_api::zookeeper::Servers = list.parse()?;
    Ok((servers.version, servers.voters().collect()))
}

/// Asks for a number of members and waits until that many serve. What [`voting`] says of them.
pub async fn resize(client: &Client, replicas: usize, limit: Duration) -> Result<(Vec<IpAddr>, u64)> {
    place(client, json!({"replicas": replicas}), replicas, limit).await
}

/// Asks for members with a configuration that pods have in common and waits until so many serve.
pub async fn place(client: &Client, common: Value, replicas: usize, limit: Duration) -> Result<(Vec<IpAddr>, u64)> {
    let spec = json!({"commonConfiguration": common});
    resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
    let as_wished = |zookeeper: &Resource| zookeeper.is_ready_with(replicas);
    let what = format!("{replicas} members");
    let zookeeper = resources::until(client, ZOOKEEPER, NAMESPACE, NAME, &what, limit, as_wished).await?;
    voting(&members(&zookeeper)).await
}

/// The address of each of these members, and the version of the list by which each of them has a vote, and nobody else.
pub async fn voting(members: &[MemberStatus]) -> Result<(Vec<IpAddr>, u64)> {
    let ids: BTreeSet<u32> = members.iter().map(|member| member.id).collect();
    let addresses: Vec<IpAddr> = members.iter().filter_map(|member| member.address.parse().ok()).collect();
    let mut version = 0;
    for address in &addresses {
        let (its_version, voters) = list(*address).await?;
        ensure!(voters == ids, "{address} has {voters:?}, the status {ids:?}");
        version = version.max(its_version);
    }
    Ok((addresses, version))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_grows_and_shrinks_under_a_writer_that_loses_nothing() -> Result<()> {
    if !Long::Growth.is_drawn()? {
        return Ok(());
    }
    with_lab(5, async |lab, client| {
        let (one, mut version) = resize(client, 1, 2 * ONE_MOVE).await?;
        assert_eq!(one.len(), 1);
        let addresses = lab.real_nodes()?.addresses()?;
        let (journal, watchman) = (Journal::begin(&addresses).await?, Watchman::begin(client, Watch::Any));
        let mut serving = one;
        // The second time with the data of former members in the directories.
        for replicas in [3, 5, 3, 1, 3] {
            let before = version;
            (serving, version) = resize(client, replicas, 2 * ONE_MOVE).await?;
            assert!(version > before, "the version of the list rises: {before:x}, {version:x}");
            journal.goes_on().await?;
        }
        watchman.end()?;
        let account = journal.end(&serving).await?;
        assert_eq!(account.lost_sessions, 0, "{:?}", account.longest_pause);
        assert!(account.acknowledged.len() > 100, "{}", account.acknowledged.len());
        println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_node_is_gone_for_good_is_replaced_on_a_new_node_with_another_address() -> Result<()> {
    if !Long::Replacement.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        let (before, version) = resize(client, 3, 2 * ONE_MOVE).await?;
        certified(client).await?;
        let (journal, watchman) = (Journal::begin(&before).await?, Watchman::begin(client, Watch::Any));
        let lost = STORE.node_without_operator(lab, client).await?;

        let new = STORE.replace_node(lab, client, &lost).await?;
        let address = new.address().to_string();
        let replaced = |zookeeper: &Resource| {
            zookeeper.is_ready_with(3) && members(zookeeper).iter().any(|member| member.address == address)
        };
        let zookeeper =
            resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "replaced", 2 * BRING_UP, replaced).await?;
        let (serving, after) = voting(&members(&zookeeper)).await?;
        ensure!(!serving.contains(&lost.address()) && after > version, "{serving:?}, {version:x}, {after:x}");
        watchman.end()?;
        let account = journal.end(&serving).await?;
        ensure!(account.lost_sessions == 0, "{:?}", account.longest_pause);
        println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_that_is_deleted_and_made_anew_has_its_data_under_other_identities_and_in_another_size()
-> Result<()> {
    if !Long::Recreation.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        // Directories know lists of members that nobody will be any more: 1, 2 and 3, then 1, 4 and 5.
        for replicas in [3, 1, 3] {
            resize(client, replicas, 2 * ONE_MOVE).await?;
        }
        let journal = Journal::begin(&lab.real_nodes()?.addresses()?).await?;
        eventually("100 writes", ONE_MOVE, async || Ok((journal.written() >= 100).then_some(()))).await?;
        let account = journal.stop();
        for replicas in [3, 1] {
            deleted(client).await?;
            let (serving, _) = resize(client, replicas, 2 * ONE_MOVE).await?;
            account.is_kept_by(&serving).await.with_context(|| format!("made anew with {replicas} members"))?;
        }
        let (serving, _) = resize(client, 3, 2 * ONE_MOVE).await?;
        account.is_kept_by(&serving).await?;
        let journal = Journal::begin(&serving).await?;
        journal.goes_on().await?;
        journal.end(&serving).await?;
        Ok(())
    })
    .await
}
