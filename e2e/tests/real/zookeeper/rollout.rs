//! What changes while the ensemble runs reaches one member after the other.

use anyhow::ensure;
use tf_api::names::ANNOTATION_ACTIVE_CONFIG;

use super::journal::Journal;
use super::*;

/// The release of ZooKeeper before the one of the lab's chart, as its archive and its image are called.
const FORMER: (&str, &str) = ("zookeeper-3.9.3", "tungstenfabric/lab-zookeeper:3.9.3");
/// Writers who together write more than a hundred times in a second, and the time that each lets pass between two writes.
const WRITERS: usize = 4;
const BUSY: Duration = Duration::from_millis(20);
/// For three servers in Java, one after the other, each with the election that follows when the leader goes.
const ROLL: Duration = Duration::from_mins(4);

/// The election that the ensemble lives by: the upper half of the last transaction's number. Every one of them counts it up.
async fn epoch(address: Ipv4Addr) -> Result<u64> {
    let answer = ask(address, "srvr").await?;
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    Ok(u64::from_str_radix(zxid.with_context(|| format!("{address} answered {answer:?}"))?, 16)? >> 32)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_configuration_restarts_each_server_and_no_pod_and_moves_the_leader_once() -> Result<()> {
    with_lab(3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;

        let journal = Journal::begin(&addresses).await?;
        let (before, epoch_before) = (pods(client).await?, epoch(addresses[0]).await?);
        let spec = json!({"commonConfiguration": {"logLevel": "debug"}});
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, ROLL).await?;

        let after = pods(client).await?;
        for (name, pod) in &after {
            assert_eq!(pod.metadata.uid, before[name].metadata.uid, "{name} is the same pod");
            let annotations = pod.metadata.annotations.clone().unwrap_or_default();
            let former = before[name].metadata.annotations.clone().unwrap_or_default();
            let (former, now) = (former.get(ANNOTATION_ACTIVE_CONFIG), annotations.get(ANNOTATION_ACTIVE_CONFIG));
            assert!(now.is_some() && now != former, "{name} was told to change over: {former:?}, {now:?}");
        }
        // The number of a new leader is seen with the first write after its election.
        journal.goes_on().await?;
        assert_eq!(epoch(addresses[0]).await?, epoch_before + 1, "the leader was restarted once, and last");
        assert_eq!(modes(&addresses).await?, ["follower", "follower", "leader"]);
        let account = journal.end(&addresses).await?;
        assert_eq!(account.lost_sessions, 0, "{:?}", account.longest_pause);
        let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
        let told = events.list(&ListParams::default()).await?.items;
        for name in after.keys() {
            let is_told = |event: &Event| {
                event.reason.as_deref() == Some("DisruptionAllowed")
                    && event.note.as_ref().is_some_and(|note| note.contains(name.as_str()))
            };
            assert!(told.iter().any(is_told), "no event tells of the step for {name}");
        }
        println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_release_of_zookeeper_replaces_each_pod_once_with_the_leader_last_under_busy_writers() -> Result<()> {
    if !Long::Release.is_drawn()? {
        return Ok(());
    }
    with(3, &[], &[FORMER.0], async |lab, client| {
        let former = json!({"serviceConfiguration": {"containers": [{"name": "zookeeper", "image": FORMER.1}]}});
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, former).await?;
        certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;

        let mut journals = Vec::new();
        for _ in 0..WRITERS {
            journals.push(Journal::begin_at(BUSY, &addresses).await?);
        }
        let (before, epoch_before) = (pods(client).await?, epoch(addresses[0]).await?);
        let begun = std::time::Instant::now();
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, 2 * ROLL).await?;
        let took = begun.elapsed();
        let writes: usize = journals.iter().map(Journal::written).sum();

        let after = pods(client).await?;
        ensure!(after.len() == 3, "{:?}", after.keys());
        for (name, pod) in &after {
            ensure!(pod.metadata.uid != before[name].metadata.uid, "{name} is the former pod");
        }
        for address in &addresses {
            let answer = ask(*address, "srvr").await?;
            ensure!(answer.contains("version: 3.9.4"), "{address} answered {answer:?}");
        }
        for journal in &journals {
            journal.goes_on().await?;
        }
        let epochs = epoch(addresses[0]).await? - epoch_before;
        ensure!(epochs == 1, "the leader was replaced once, and last: {epochs} elections");
        for journal in journals {
            let account = journal.end(&addresses).await?;
            ensure!(account.lost_sessions == 0, "{:?}", account.longest_pause);
            println!("longest pause of a writer {:?}", account.longest_pause);
        }
        let rate = writes as u64 * 1000 / took.as_millis() as u64;
        println!("pods were replaced in {took:?} under {rate} writes a second");
        Ok(())
    })
    .await
}
