//! What changes while the ensemble runs reaches one member after the other.

use anyhow::ensure;
use jiff::{SignedDuration, Timestamp};
use tf_api::names::ANNOTATION_ACTIVE_CONFIG;
use tf_testing::RealNode;

use super::journal::Writers;
use super::watchman::{Watch, Watchman};
use super::*;

/// The release of ZooKeeper before the one of the lab's chart, as its archive and its image are called.
pub const FORMER: (&str, &str) = ("zookeeper-3.9.3", "tungstenfabric/lab-zookeeper:3.9.3");
/// For three servers in Java, one after the other, each with the election that follows when the leader goes.
const ROLL: Duration = Duration::from_mins(4);
/// From a member's turn to its server being started with the change.
const TURN: SignedDuration = SignedDuration::from_secs(5);

/// The election that the ensemble lives by: the upper half of the last transaction's number. Every one of them counts it up.
async fn epoch(address: IpAddr) -> Result<u64> {
    let answer = ask(address, "srvr").await?;
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    Ok(u64::from_str_radix(zxid.with_context(|| format!("{address} answered {answer:?}"))?, 16)? >> 32)
}

/// When each pod was last told to change.
async fn turns(client: &Client) -> Result<BTreeMap<String, Timestamp>> {
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let events = events.list(&ListParams::default()).await?.items;
    let turn = |pod: &str| {
        let tells = |event: &&Event| {
            event.reason.as_deref() == Some("DisruptionAllowed")
                && event.note.as_ref().is_some_and(|note| note.contains(pod))
        };
        let last = |event: &Event| {
            let repeated = event.series.as_ref().map(|series| series.last_observed_time.0);
            event.event_time.as_ref().map(|time| time.0).max(repeated)
        };
        events.iter().filter(tells).filter_map(last).max()
    };
    Ok(pods(client).await?.into_keys().filter_map(|pod| Some((pod.clone(), turn(&pod)?))).collect())
}

/// When the server on a node was started. Its own word on that is younger: it counts from the last election.
fn started(node: &RealNode) -> Result<Timestamp> {
    let servers = node.processes("java")?;
    ensure!(servers.len() == 1, "{servers:?} on {}", node.name());
    let age = servers[0].age().context("it has ended")?;
    Ok(Timestamp::now() - SignedDuration::try_from(age)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_configuration_restarts_each_server_and_no_pod_and_moves_the_leader_once() -> Result<()> {
    with_lab(3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;

        let (writers, watchman) = (Writers::begin(&addresses).await?, Watchman::begin(client, Watch::OneAtATime));
        let (before, epoch_before) = (pods(client).await?, epoch(addresses[0]).await?);
        // Servers read their log level again while they run.
        let processes =
            || lab.real_nodes()?.all()?.iter().map(|node| node.processes("java")).collect::<Result<Vec<_>>>();
        let running = processes()?;
        let level = json!({"logLevel": "debug"});
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({"commonConfiguration": level})).await?;
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, ROLL).await?;
        assert_eq!(processes()?, running, "no server was restarted for another log level");

        let limit = json!({"maxClientCnxns": 61});
        let spec = json!({"commonConfiguration": level, "serviceConfiguration": limit});
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, ROLL).await?;
        watchman.end()?;

        let after = pods(client).await?;
        for (name, pod) in &after {
            assert_eq!(pod.metadata.uid, before[name].metadata.uid, "{name} is the same pod");
            let annotations = pod.metadata.annotations.clone().unwrap_or_default();
            let former = before[name].metadata.annotations.clone().unwrap_or_default();
            let (former, now) = (former.get(ANNOTATION_ACTIVE_CONFIG), annotations.get(ANNOTATION_ACTIVE_CONFIG));
            assert!(now.is_some() && now != former, "{name} was told to change over: {former:?}, {now:?}");
        }
        // The number of a new leader is seen with the first write after its election.
        writers.go_on().await?;
        assert_eq!(epoch(addresses[0]).await?, epoch_before + 1, "the leader was restarted once, and last");
        assert_eq!(modes(&addresses).await?, ["follower", "follower", "leader"]);
        let (turns, mut waits) = (turns(client).await?, Vec::new());
        for (name, pod) in &after {
            let turn = *turns.get(name).with_context(|| format!("no event tells of the turn of {name}"))?;
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).context("no node")?;
            waits.push(started(&lab.real_nodes()?.node(node)?)?.duration_since(turn));
        }
        println!("servers were started {waits:.1?} after their turns");
        assert!(waits.len() == 3 && waits.iter().all(|wait| *wait < TURN), "{waits:?}");
        writers.end(&addresses).await?;
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

        let (writers, watchman) = (Writers::begin(&addresses).await?, Watchman::begin(client, Watch::OneAtATime));
        let (before, epoch_before) = (pods(client).await?, epoch(addresses[0]).await?);
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, 2 * ROLL).await?;
        watchman.end()?;

        let after = pods(client).await?;
        ensure!(after.len() == 3, "{:?}", after.keys());
        for (name, pod) in &after {
            ensure!(pod.metadata.uid != before[name].metadata.uid, "{name} is the former pod");
        }
        for address in &addresses {
            let answer = ask(*address, "srvr").await?;
            ensure!(answer.contains("version: 3.9.4"), "{address} answered {answer:?}");
        }
        writers.go_on().await?;
        let epochs = epoch(addresses[0]).await? - epoch_before;
        ensure!(epochs == 1, "the leader was replaced once, and last: {epochs} elections");
        writers.end(&addresses).await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_cannot_work_stops_at_the_first_member_and_is_told_and_its_correction_proceeds() -> Result<()> {
    if !Long::Mistake.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        let nowhere = json!({"name": "zookeeper", "image": "localhost/nowhere:1"});
        let flags = json!({"name": "zookeeper", "env": [{"name": "JVMFLAGS", "value": "-XX:NoSuchFlag"}]});
        // With what the status says of the member.
        let mistakes = [
            (json!({"serviceConfiguration": {"containers": [nowhere]}}), "localhost/nowhere:1"),
            (json!({"commonConfiguration": {"podOverrides": {"spec": {"containers": [flags]}}}}), "exit code 1"),
        ];
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;
        let (writers, watchman) = (Writers::begin(&addresses).await?, Watchman::begin(client, Watch::OneAtATime));
        for (spec, told) in mistakes {
            let before = tls::uids(client).await?;
            resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
            let tells = |zookeeper: &Resource| {
                let message = zookeeper.explain("Ready");
                !zookeeper.is_ready() && message.contains("pod zookeeper1-") && message.contains(told)
            };
            resources::until(client, ZOOKEEPER, NAMESPACE, NAME, told, ROLL, tells).await?;
            // Far longer than the next one would have to wait if it were its turn.
            tokio::time::sleep(Duration::from_secs(20)).await;
            let after = tls::uids(client).await?;
            let replaced = after.iter().filter(|(name, uid)| before[*name] != **uid).count();
            ensure!(replaced == 1, "{replaced} pods were replaced for {told}");
            resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
            resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, ROLL).await?;
        }
        watchman.end()?;
        writers.go_on().await?;
        writers.end(&addresses).await?;
        Ok(())
    })
    .await
}
