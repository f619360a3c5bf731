//! A real Cassandra on real nodes: the operator runs as a pod of its chart, the servers as the operator's pods.

mod adoption;
mod auth;
mod backup;
mod cql;
mod crash;
mod faults;
mod lost;
mod releases;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tf_api::kinds::CASSANDRA;
use tf_pki::authority::Authority;
use tf_testing::identity::Identity;
use tf_testing::real::{image, whole::SMALL_HEAP};
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;
use tf_testing::{Lab, RealNode};

use self::cql::answers_without_tls;
use self::writer::{Summary, Writer};
use crate::{
    store::{NAMESPACE, Server, Store, are_others, authorities, authority, processes, replace_authority},
    tls::Access,
};

const NAME: &str = "configdb1";
const CQL_PORT: u16 = 9041;
const INTERNODE_PORT: u16 = 7013;
const JMX_PORT: &str = "7201";
/// Its servers' processes.
const SERVER: Server = Server { name: "java", mark: "CassandraDaemon" };
/// Compactions at once, as it is usual.
const COMPACTORS: u32 = 1;
const OPERATOR: &str = "cassandra-op";
pub const STORE: Store = Store {
    operator: OPERATOR,
    kind: CASSANDRA,
    name: NAME,
    images: &[OPERATOR, "tf-node", image::CASSANDRA_ARCHIVE],
    values: &[image::CASSANDRA],
};
/// For members that come and go, each with the repair of what they hold.
const RESIZED: Duration = Duration::from_mins(12);
/// For all servers to know of a table.
const AGREED: Duration = Duration::from_secs(30);
/// For what is repaired for the first time: a tool in Java runs on one member after the other, on a machine that others use, too.
const FIRST_REPAIR: Duration = Duration::from_mins(3);
/// Where the agent notes what a server has repaired.
const REPAIRED: &str = "/var/lib/cassandra/.tf-repaired";
/// For what was written while a server was away to be handed to it.
const HANDED_OVER: Duration = Duration::from_secs(60);
/// Between two writes while servers stop. A client waits for 5 s for a server that does not answer before it takes the next one.
const HOLE: Duration = Duration::from_secs(15);

/// Tests that take minutes each. A run tries some of them, `cargo xtask soak life` every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long {
    Configuration,
    Restart,
    Killed,
    Authority,
    Sizes,
    Replacement,
    LostData,
    HalfKnown,
    NodeOff,
    DiskFull,
    CutOff,
    Hibernation,
    Backup,
    Founded,
    Asked,
    OtherPassword,
    Rest,
    Ipv6,
}

impl Long {
    pub const ALL: usize = Self::Ipv6 as usize + 1;

    /// Whether it is tried in this run; else it is counted as skipped.
    fn is_drawn(self) -> Result<bool> {
        STORE.is_drawn(self as usize)
    }
}

/// A spec with what a small machine has for three servers.
fn on_a_small_machine(mut spec: Value) -> Value {
    spec["serviceConfiguration"] = json!(BTreeMap::from(SMALL_HEAP));
    spec
}

fn spec() -> Value {
    on_a_small_machine(json!({}))
}

/// The same with so many more compactions at once, which a server reads when it starts.
fn with_compactors(mut spec: Value, more: u32) -> Value {
    spec["serviceConfiguration"]["cassandraParameters"] = json!({"concurrentCompactors": COMPACTORS + more});
    spec
}

/// The same with a number of members.
fn sized(replicas: u32) -> Value {
    let mut spec = spec();
    spec["commonConfiguration"]["replicas"] = json!(replicas);
    spec
}

/// Three members that have certificates and serve.
pub async fn three(lab: &Lab, client: &Client) -> Result<(Access, Vec<IpAddr>)> {
    three_of(lab, client, spec()).await
}

/// The same with another spec.
async fn three_of(lab: &Lab, client: &Client, spec: Value) -> Result<(Access, Vec<IpAddr>)> {
    resources::apply(client, CASSANDRA, NAMESPACE, NAME, spec).await?;
    STORE.certified(client).await?;
    Ok((Access::of(client).await?, lab.real_nodes()?.addresses()?))
}

/// Three members in a ring in which nothing is left to do, with a table.
async fn whole(lab: &Lab, client: &Client) -> Result<(Access, Vec<IpAddr>)> {
    whole_of(lab, client, spec()).await
}

/// The same with another spec.
async fn whole_of(lab: &Lab, client: &Client, spec: Value) -> Result<(Access, Vec<IpAddr>)> {
    let (access, addresses) = three_of(lab, client, spec).await?;
    STORE.through(client, "the bring-up").await?;
    table(&access, &addresses).await?;
    Ok((access, addresses))
}

/// A table with a copy of each row on each server, of which all servers know.
pub async fn table(access: &Access, addresses: &[IpAddr]) -> Result<()> {
    let mut session = access.connect(addresses[0]).await?;
    // As clients of Tungsten Fabric do: as many copies as they know servers.
    let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {}}}", addresses.len());
    session.define(&format!("CREATE KEYSPACE IF NOT EXISTS lab WITH replication = {replication}")).await?;
    session.define("CREATE TABLE IF NOT EXISTS lab.journal (number bigint PRIMARY KEY)").await?;
    let schema = session.schema().await?;
    for address in addresses {
        let mut session = access.connect(*address).await?;
        let is_known = async || Ok((session.schema().await? == schema).then_some(()));
        eventually(&format!("{address} to know of the table"), AGREED, is_known).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn three_real_servers_form_one_ring_that_lets_in_who_speaks_tls_and_members_alone() -> Result<()> {
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            for pod in STORE.pods(client).await?.keys() {
                let status = STORE.exec(lab, pod, &["nodetool", "-p", JMX_PORT, "status"])?;
                let up = status.lines().filter(|line| line.starts_with("UN ")).count();
                ensure!(up == 3 && status.contains("datacenter1"), "{pod}:\n{status}");
            }
            table(&access, &addresses).await?;
            access.connect(addresses[0]).await?.execute("INSERT INTO lab.journal (number) VALUES (1)").await?;
            for address in &addresses {
                let read = access.connect(*address).await?.count("lab.journal").await?;
                ensure!(read == 1, "{address}: {read} rows");
                ensure!(!answers_without_tls(*address).await?, "{address} answers without TLS");
            }
            members_alone(client, &addresses).await?;
            repaired(client, &access, &addresses).await?;
            good("at rest", &Writer::begin(&access, &addresses).end().await?)
        })
        .await
}

/// A keyspace that nobody has repaired yet is, and Cassandra itself says so of a table.
async fn repaired(client: &Client, access: &Access, addresses: &[IpAddr]) -> Result<()> {
    let is_repaired = |cassandra: &Resource| cassandra.object.data["status"]["repairedSince"].is_string();
    let after = resources::until(client, CASSANDRA, NAMESPACE, NAME, "repaired", FIRST_REPAIR, is_repaired).await?;
    ensure!(after.is_ready() && after.is("Progressing", "False"), "a repair is no roll-out: {after:?}");
    let history = "system_distributed.repair_history WHERE keyspace_name = 'lab' AND columnfamily_name = 'journal'";
    let ranges = access.connect(addresses[0]).await?.count(history).await?;
    ensure!(ranges > 0, "no range of lab.journal was repaired");
    Ok(())
}

/// Between members a certificate of the namespace's authority is asked for.
async fn members_alone(client: &Client, addresses: &[IpAddr]) -> Result<()> {
    let (authority, bundle) = (authority(client).await?, authorities(client).await?);
    let now = Timestamp::now();
    let member = authority.operator("some-member", Duration::from_hours(1), now)?;
    let lifetime = tf_pki::authority::AUTHORITY_LIFETIME;
    let other = Authority::generate("somebody-else", tf_pki::authority::Curve::P256, lifetime, now)?;
    let stranger = other.operator("some-member", Duration::from_hours(1), now)?;
    let showing = |pair| Access::showing(&bundle, pair);
    for address in addresses {
        ensure!(
            showing(Some((&member.issued.pem, &member.key)))?.is_let_in(*address, INTERNODE_PORT).await,
            "{address}: member"
        );
        ensure!(!showing(None)?.is_let_in(*address, INTERNODE_PORT).await, "{address}: no certificate");
        let stranger = showing(Some((&stranger.issued.pem, &stranger.key)))?;
        ensure!(!stranger.is_let_in(*address, INTERNODE_PORT).await, "{address}: another authority's certificate");
    }
    Ok(())
}

/// Nothing was lost, and nobody waited for long.
fn good(what: &str, summary: &Summary) -> Result<()> {
    println!("{what}: {summary}");
    ensure!(summary.lost == 0 && summary.longest_pause <= HOLE, "{what}: {summary}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_configuration_restarts_one_server_after_the_other_and_no_pod_and_loses_no_row() -> Result<()> {
    if !Long::Configuration.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = whole(lab, client).await?;
            let (before, servers) = (STORE.uids(client).await?, processes(lab, SERVER)?);
            let writer = Writer::begin(&access, &addresses);
            resources::apply(client, CASSANDRA, NAMESPACE, NAME, with_compactors(spec(), 1)).await?;
            STORE.through(client, "the change").await?;
            ensure!(STORE.uids(client).await? == before, "pods are the same");
            are_others(lab, SERVER, &servers)?;
            good("a changed configuration", &writer.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_on_demand_replaces_one_pod_after_the_other_and_loses_no_row() -> Result<()> {
    if !Long::Restart.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = whole(lab, client).await?;
            let writer = Writer::begin(&access, &addresses);
            STORE.restarted(client).await?;
            good("pods replaced", &writer.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_that_hibernated_has_every_row() -> Result<()> {
    if !Long::Hibernation.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = whole(lab, client).await?;
            let writer = Writer::begin(&access, &addresses);
            STORE.sleeps_and_wakes(client).await?;
            let summary = writer.end().await?;
            println!("hibernated: {summary}");
            ensure!(summary.lost == 0, "{summary}");
            ring(lab, client, 3).await.map(drop)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_told_and_loses_no_row() -> Result<()> {
    if !Long::Killed.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = whole(lab, client).await?;
            for node in lab.real_nodes()?.all()? {
                let writer = Writer::begin(&access, &addresses);
                let begun = Instant::now();
                node.kill("java")?;
                STORE.told(client).await?;
                let told = begun.elapsed();
                STORE.through(client, "the server's return").await?;
                good(&format!("killed, told after {told:.1?}"), &writer.end().await?)?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_authority_takes_over_while_the_ring_serves_and_nobody_is_turned_away() -> Result<()> {
    if !Long::Authority.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (_, addresses) = whole(lab, client).await?;
            let before = STORE.uids(client).await?;
            // Servers of 3.11 start anew for it, and nobody's session outlives that.
            let writer = Writer::following(client, &addresses).await?;
            replace_authority(client).await?;
            STORE.certified(client).await?;
            ensure!(STORE.uids(client).await? == before, "pods are the same");

            // Who begins now trusts the new one alone: clients, and servers of each other.
            let newcomer = Access::of(client).await?;
            good("another authority", &writer.read_by(&newcomer).end().await?)?;
            for address in &addresses {
                newcomer.connect(*address).await.with_context(|| format!("{address}, by the new authority alone"))?;
            }
            members_alone(client, &addresses).await?;
            let writer = Writer::begin(&newcomer, &addresses);
            lab.real_nodes()?.all()?.first().context("no node")?.kill("java")?;
            STORE.told(client).await?;
            STORE.through(client, "a server that begins with the new authority").await?;
            good("killed afterwards", &writer.end().await?)
        })
        .await
}

/// Of these servers so many have ended; all others run since.
fn stay(lab: &Lab, before: &[Identity], ended: usize) -> Result<()> {
    let now = SERVER.processes(lab)?.concat();
    let gone = before.iter().filter(|server| !now.contains(server)).count();
    ensure!(gone == ended, "{gone} of {} servers have ended, and not {ended}", before.len());
    Ok(())
}

/// Addresses of the members, when there are so many, each row is on each of them, and nothing is left to do.
async fn grown(lab: &Lab, client: &Client, size: usize) -> Result<Vec<IpAddr>> {
    STORE.resized(client, size, RESIZED).await?;
    ring(lab, client, size).await
}

/// Addresses of the members, if they are so many in the words of each of them, and each row is on all of them.
async fn ring(lab: &Lab, client: &Client, size: usize) -> Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    for (pod, it) in STORE.pods(client).await? {
        let status = STORE.exec(lab, &pod, &["nodetool", "-p", JMX_PORT, "status"])?;
        let up = status.lines().filter(|line| line.starts_with("UN ")).count();
        let all = status.lines().filter(|line| line.contains("rack1")).count();
        ensure!(up == size && all == size, "{pod}:\n{status}");
        addresses.push(it.status.and_then(|status| status.host_ip).context("no address")?.parse()?);
    }
    let factor = Access::of(client).await?.connect(addresses[0]).await?.factor("lab").await?;
    ensure!(factor == size.to_string(), "each row is on {factor} of {size} members");
    Ok(addresses)
}

/// On how many members each row was to be when each member repaired the keyspace; none where it never did.
async fn repairs(lab: &Lab, client: &Client) -> Result<Vec<Option<usize>>> {
    let mut repairs = Vec::new();
    for pod in STORE.pods(client).await?.keys() {
        let noted = STORE.exec(lab, pod, &["cat", REPAIRED]).unwrap_or_else(|_| "{}".to_owned());
        repairs.push(serde_json::from_str::<BTreeMap<String, usize>>(&noted)?.get("lab").copied());
    }
    Ok(repairs)
}

/// Looks for every row that was acknowledged by now in the words of one server, by way of each of them: one that joined without data lacks what it should
/// have. To be done before anybody reads with a quorum, which repairs what is read. Each member has repaired.
async fn everywhere(lab: &Lab, client: &Client, writer: &Writer, members: &[IpAddr]) -> Result<()> {
    let repaired = repairs(lab, client).await?;
    ensure!(repaired == vec![Some(members.len()); members.len()], "{} members, repaired: {repaired:?}", members.len());
    let (access, rows) = (Access::of(client).await?, writer.acknowledged());
    for member in members {
        let mut session = access.connect(*member).await?;
        for number in &rows {
            let which = format!("lab.journal WHERE number = {number}");
            // What was written a moment ago may be on its way.
            let deadline = Instant::now() + HANDED_OVER;
            while session.count_at_one(&which).await? != 1 {
                ensure!(Instant::now() < deadline, "{member}: row {number} of {} is hidden at ONE", rows.len());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_member_becomes_three_then_two_then_three_and_each_row_is_on_all_of_them() -> Result<()> {
    if !Long::Sizes.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            resources::apply(client, CASSANDRA, NAMESPACE, NAME, sized(1)).await?;
            STORE.certified(client).await?;
            STORE.through(client, "the bring-up").await?;
            let access = Access::of(client).await?;
            let pods = STORE.pods(client).await?;
            let first =
                pods.values().next().and_then(|pod| pod.status.as_ref()?.host_ip.clone()).context("no address")?;
            table(&access, &[first.parse()?]).await?;
            let all = lab.real_nodes()?.addresses()?;
            // How many servers end is how many members leave.
            for (size, ended) in [(3, 0), (2, 1), (3, 0)] {
                let before = SERVER.processes(lab)?.concat();
                let writer = Writer::begin(&access, &all);
                let begun = Instant::now();
                resources::apply(client, CASSANDRA, NAMESPACE, NAME, sized(size)).await?;
                let members = grown(lab, client, size as usize).await?;
                stay(lab, &before, ended)?;
                everywhere(lab, client, &writer, &members).await?;
                let summary = writer.among(&members).end().await?;
                println!("{size} members after {:.0?}: {summary}", begun.elapsed());
                ensure!(summary.lost == 0, "{summary}");
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_gone_is_replaced_and_no_row_is_lost() -> Result<()> {
    if !Long::Replacement.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = whole(lab, client).await?;
            let writer = Writer::begin(&access, &addresses);
            let before = SERVER.processes(lab)?.concat();
            let lost = STORE.node_without_operator(lab, client).await?;
            let begun = Instant::now();
            STORE.replace_node(lab, client, &lost).await?;
            STORE.told(client).await?;
            let members = grown(lab, client, 3).await?;
            stay(lab, &before, 1)?;
            let summary = writer.among(&members).end().await?;
            println!("replaced after {:.0?}: {summary}", begun.elapsed());
            ensure!(summary.lost == 0, "{summary}");
            Ok(())
        })
        .await
}

/// Empties the data directory of the server on a node, and kills it.
async fn lose_data(client: &Client, node: &RealNode) -> Result<()> {
    let directory = STORE.directory(client).await?.context("no directory")?;
    // At once, piece by piece: what is taken away file by file a server that runs makes anew, or takes away itself.
    let lost = "/var/lib/contrail/lost";
    node.run("mkdir", &[lost]).await?;
    node.run("find", &[&directory, "-mindepth", "1", "-maxdepth", "1", "-exec", "mv", "-t", lost, "{}", "+"]).await?;
    node.kill("java")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_an_empty_disk_begins_anew_and_no_row_is_lost() -> Result<()> {
    if !Long::LostData.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = whole(lab, client).await?;
            let node = lab.real_nodes()?.all()?.into_iter().next().context("no node")?;
            let writer = Writer::begin(&access, &addresses);
            let begun = Instant::now();
            lose_data(client, &node).await?;
            STORE.told(client).await?;
            let members = grown(lab, client, 3).await?;
            everywhere(lab, client, &writer, &members).await?;
            let summary = writer.among(&members).end().await?;
            println!("an empty disk, whole again after {:.0?}: {summary}", begun.elapsed());
            ensure!(summary.lost == 0, "{summary}");
            Ok(())
        })
        .await
}
