//! What changes while the ensemble runs reaches one member after the other.

use std::collections::BTreeMap;

use tf_api::names::ANNOTATION_ACTIVE_CONFIG;

use super::journal::Journal;
use super::*;

/// For three servers in Java, one after the other, each with the election that follows when the leader goes.
const ROLL: Duration = Duration::from_mins(4);

/// The pods of the ensemble, by name.
async fn pods(client: &Client) -> Result<BTreeMap<String, Pod>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let list = pods.list(&ListParams::default().labels("tf_manager=zookeeper")).await?;
    Ok(list.into_iter().map(|pod| (pod.metadata.name.clone().unwrap_or_default(), pod)).collect())
}

/// The election that the ensemble lives by: the upper half of the last transaction's number. Every one of them counts it up.
async fn epoch(address: Ipv4Addr) -> Result<u64> {
    let answer = ask(address, "srvr").await?;
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    Ok(u64::from_str_radix(zxid.with_context(|| format!("{address} answered {answer:?}"))?, 16)? >> 32)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_configuration_restarts_each_server_and_no_pod_and_moves_the_leader_once() -> Result<()> {
    let Some(lab) = lab(3).await? else { return Ok(()) };
    let client = lab.client().await?;
    resources::apply(&client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
    resources::ready(&client, ZOOKEEPER, NAMESPACE, NAME, BRING_UP).await?;
    let addresses: Vec<Ipv4Addr> = lab.real_nodes()?.all()?.iter().map(tf_testing::RealNode::address).collect();
    let certified = |zookeeper: &Resource| zookeeper.is("CertificatesReady", "True") && zookeeper.is_ready();
    resources::until(&client, ZOOKEEPER, NAMESPACE, NAME, "certificates", BRING_UP, certified).await?;

    let journal = Journal::begin(&addresses).await?;
    let (before, epoch_before) = (pods(&client).await?, epoch(addresses[0]).await?);
    let spec = json!({"commonConfiguration": {"logLevel": "debug"}});
    resources::apply(&client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
    resources::ready(&client, ZOOKEEPER, NAMESPACE, NAME, ROLL).await?;

    let after = pods(&client).await?;
    for (name, pod) in &after {
        assert_eq!(pod.metadata.uid, before[name].metadata.uid, "{name} is the same pod");
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        let former = before[name].metadata.annotations.clone().unwrap_or_default();
        let (former, now) = (former.get(ANNOTATION_ACTIVE_CONFIG), annotations.get(ANNOTATION_ACTIVE_CONFIG));
        assert!(now.is_some() && now != former, "{name} was told to change over: {former:?}, {now:?}");
    }
    // The number of a new leader is seen with the first write after its election.
    let written = journal.written();
    let limit = Duration::from_secs(30);
    eventually("writes to go on", limit, async || Ok((journal.written() > written + 1).then_some(()))).await?;
    assert_eq!(epoch(addresses[0]).await?, epoch_before + 1, "the leader was restarted once, and last");
    assert_eq!(modes(&addresses).await?, ["follower", "follower", "leader"]);
    let account = journal.end(&addresses).await?;
    assert_eq!(account.lost_sessions, 0, "{:?}", account.longest_pause);
    println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);
    Ok(())
}
