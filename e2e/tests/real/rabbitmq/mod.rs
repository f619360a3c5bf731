//! A real RabbitMQ on real nodes: the operator runs as a pod of its chart, the servers as the operator's pods.

mod adoption;
mod certificates;
mod crash;
mod distribution;
mod faults;
mod sizes;
pub mod traffic;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Patch, PatchParams};
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, Consumer};
use serde_json::json;
use tf_api::kinds::{RABBITMQ, ZOOKEEPER};
use tf_plan::metrics;
use tf_testing::Lab;
use tf_testing::operators::Install;
use tf_testing::real::image;
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use self::traffic::{Access, Summary, Traffic};
use crate::{
    rest, secrets,
    store::{
        BRING_UP, NAMESPACE, ROLL, Server, Store, are_others, edit_secret, followed, members, processes,
        replace_authority, running,
    },
    tls, told,
};

const NAME: &str = "rabbitmq1";
/// Its servers' processes.
pub const SERVER: Server = Server { name: "beam.smp", mark: "start_sasl" };
const AMQP_PORT: u16 = 5673;
/// For a page of metrics.
const PAGE: Duration = Duration::from_secs(10);
/// Where servers tell their metrics.
const METRICS_PORT: u16 = AMQP_PORT + 10_019;
const OPERATOR: &str = "rabbitmq-op";
pub const STORE: Store = Store {
    operator: OPERATOR,
    kind: RABBITMQ,
    name: NAME,
    images: &[OPERATOR, "tf-node", image::RABBITMQ_ARCHIVE],
    values: &[image::RABBITMQ],
};
/// From the start of the last node until all servers serve again.
const UP_AGAIN: Duration = Duration::from_secs(60);
/// Between two messages while servers stop: less than a second on a machine that has nothing else to do, and what a busy one adds.
const HOLE: Duration = Duration::from_secs(10);
/// Until an agent has looked, the operator has acted on it, and its tool, which is an Erlang of its own, is done.
const MENDED: Duration = Duration::from_secs(30);
/// Until every agent has listed queues when nothing has changed.
const LISTED: Duration = Duration::from_secs(35);

/// Tests that take minutes each. A run tries some of them, `cargo xtask soak life` every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long {
    Configuration,
    Passwords,
    Restart,
    Killed,
    Growth,
    Outage,
    Authority,
    Sizes,
    LostData,
    Replacement,
    Rest,
    Partition,
    OwnQueues,
    Hibernation,
    Distribution,
    DistributionChange,
    Adoption,
    Policy,
    Consumers,
    QuorumQueues,
    Ipv6,
    DiskFull,
    Renewal,
    OneEdit,
    CutShort,
    Waiting,
}

impl Long {
    pub const ALL: usize = Self::Waiting as usize + 1;

    /// Whether it is tried in this run; else it is counted as skipped.
    fn is_drawn(self) -> Result<bool> {
        STORE.is_drawn(self as usize)
    }
}

/// Connections that wait to be accepted, as it is usual. A server reads it when it starts.
const BACKLOG: u32 = 128;

/// A setting for which servers are started anew.
fn backlog(more: u32) -> serde_json::Value {
    json!({"tcpListenOptions": {"backlog": BACKLOG + more}})
}

/// Three members that have certificates and serve.
pub async fn three(lab: &Lab, client: &Client) -> Result<(Access, Vec<IpAddr>)> {
    resources::apply(client, RABBITMQ, NAMESPACE, NAME, json!({})).await?;
    STORE.certified(client).await?;
    Ok((Access::of(client).await?, lab.real_nodes()?.addresses()?))
}

/// Nothing was lost, and nobody waited for long.
fn good(what: &str, summary: &Summary) -> Result<()> {
    println!("{what}: {summary}");
    ensure!(summary.lost == 0 && summary.longest_pause <= HOLE, "{what}: {summary}");
    Ok(())
}

/// What each server tells Prometheus, with the headers.
async fn pages(client: &Client, addresses: &[IpAddr]) -> Result<Vec<String>> {
    let access = tls::Access::of(client).await?;
    let mut pages = Vec::new();
    for address in addresses {
        let mut stream = access.stream(*address, METRICS_PORT).await?;
        stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
        let mut page = Vec::new();
        let read = timeout(PAGE, stream.read_to_end(&mut page)).await.context("no end of the page")?;
        // The server closes the connection as it likes; what it said before counts.
        ensure!(read.is_ok() || !page.is_empty(), "{address}: {read:?}");
        pages.push(String::from_utf8_lossy(&page).into_owned());
    }
    Ok(pages)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_real_servers_form_one_cluster_that_lets_in_who_has_certificate_and_password() -> Result<()> {
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            for address in &addresses {
                access.connect(*address).await.with_context(|| format!("{address}"))?;
                ensure!(access.without_certificate().connect(*address).await.is_err(), "{address}: no certificate");
                ensure!(access.with_password("wrong").connect(*address).await.is_err(), "{address}: wrong password");
            }
            let summary = Traffic::begin(&access, &addresses).await?.end().await?;
            good("at rest", &summary)?;
            told::by_servers(&metrics::RABBITMQ, &pages(client, &addresses).await?)?;
            nothing_secret_is_told(lab, client).await
        })
        .await
}

/// Of a Secret's key and value what is secret: passwords, hashes of them, and the cookie.
fn secret(key: &str, text: &str) -> Vec<String> {
    let definitions: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let users = definitions["users"].as_array().into_iter().flatten();
    let hashes = users.filter_map(|user| user["password_hash"].as_str()).map(str::to_owned);
    let is_whole = key.ends_with("password") || key.to_lowercase().ends_with("cookie");
    hashes.chain(is_whole.then(|| text.to_owned())).collect()
}

/// Nothing secret is where people read.
async fn nothing_secret_is_told(lab: &Lab, client: &Client) -> Result<()> {
    let values = secrets::values(lab, client, secret).await?;
    let of = |part: &str| values.values().filter(|place| place.contains(part)).count();
    // Passwords of clients and agents with their hashes, the cookie, keys of the authority and of three members, and tokens.
    ensure!(of("password") >= 4 && of("ookie") >= 1, "{:?}", values.values());
    ensure!(of("tf-ca") >= 1 && of("pods/") >= 6 && of("token") >= 3, "{:?}", values.values());
    secrets::nothing_leaks(&values, &secrets::pages(&STORE, lab, client).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_at_rest_writes_nothing_and_nobody_asked_for_what_is_not_allowed() -> Result<()> {
    if !Long::Rest.is_drawn()? {
        return Ok(());
    }
    STORE.with(3, &[], &[], async |lab, client| rest::is_silent(&STORE, lab, client).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_configuration_restarts_one_server_after_the_other_and_no_pod_and_loses_no_message() -> Result<()> {
    if !Long::Configuration.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let (before, servers) = (STORE.uids(client).await?, processes(lab, SERVER)?);
            let traffic = Traffic::begin(&access, &addresses).await?;
            let changed = json!({"serviceConfiguration": backlog(1)});
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, changed).await?;
            STORE.through(client, "the change").await?;
            ensure!(STORE.uids(client).await? == before, "pods are the same");
            are_others(lab, SERVER, &servers)?;
            good("a changed configuration", &traffic.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_gone_is_made_anew_and_one_that_hides_it_keeps_servers_from_being_stopped() -> Result<()> {
    if !Long::Policy.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            STORE.through(client, "the bring-up").await?;
            let pod = STORE.pods(client).await?.into_keys().next().context("no pod")?;
            let ask =
                |argv: &[&str]| STORE.exec(lab, &pod, &[&["rabbitmqctl", "--vhost", access.vhost()], argv].concat());
            // Queues are there from now on.
            let traffic = Traffic::begin(&access, &addresses).await?;
            traffic.goes_on().await?;
            let begun = Instant::now();
            ask(&["clear_policy", "ha"])?;
            let is_back = async || Ok(ask(&["list_policies"])?.contains("ha-mode").then_some(()));
            eventually("the policy to be back", MENDED, is_back).await?;
            println!("the policy is back after {:.1?}", begun.elapsed());
            STORE.through(client, "the policy").await?;

            ask(&["set_policy", "--priority", "7", "mine", ".*", r#"{"max-length":1000000}"#])?;
            let is_told = |it: &Resource| it.explain("WorkloadReady").contains("policy mine goes before");
            STORE.until(client, "known to have queues without mirrors", MENDED, is_told).await?;
            let servers = processes(lab, SERVER)?;
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, json!({"serviceConfiguration": backlog(1)})).await?;
            let is_held = |it: &Resource| {
                it.is("Progressing", "True") && it.explain("WorkloadReady").contains("none is touched now: queues of")
            };
            let held = STORE.until(client, "held", MENDED, is_held).await?;
            println!("held: {}", held.explain("WorkloadReady"));
            tokio::time::sleep(MENDED).await;
            ensure!(processes(lab, SERVER)? == servers, "a server was stopped while queues had no mirror");
            ask(&["clear_policy", "mine"])?;
            STORE.through(client, "the change").await?;
            are_others(lab, SERVER, &servers)?;
            good("a policy that was gone, one that hid it, and a change", &traffic.end().await?)
        })
        .await
}

/// A consumer of this queue that is connected to one server.
async fn consumer(access: &Access, address: IpAddr, queue: &str) -> Result<(Connection, Consumer)> {
    let connection = access.connect(address).await?;
    let channel = connection.create_channel().await?;
    channel.queue_declare(queue.into(), QueueDeclareOptions::default(), FieldTable::default()).await?;
    let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
    let consumer = channel.basic_consume(queue.into(), "".into(), options, arguments).await?;
    Ok((connection, consumer))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_stopped_when_consumers_of_the_one_before_are_back_and_not_later_than_they_are_waited_for()
-> Result<()> {
    const SLOW: &str = "vnc_config.slow";
    if !Long::Consumers.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            STORE.through(client, "the bring-up").await?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            // On the highest ordinal, which goes first, and does not look for another server.
            let pods = STORE.pods(client).await?;
            let last = pods.last_key_value().and_then(|(_, pod)| pod.status.as_ref()?.pod_ip.clone());
            let last: IpAddr = last.context("no address")?.parse()?;
            let slow = consumer(&access, last, SLOW).await?;
            // Agents list queues every 30 s.
            tokio::time::sleep(LISTED).await;
            let servers = processes(lab, SERVER)?;
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, json!({"serviceConfiguration": backlog(1)})).await?;
            let is_held = |it: &Resource| {
                let why = it.explain("WorkloadReady");
                why.contains("not back since a server came or went") && why.contains(SLOW)
            };
            let held = STORE.until(client, "held", UP_AGAIN, is_held).await?;
            println!("held: {}", held.explain("WorkloadReady"));
            tokio::time::sleep(MENDED).await;
            let now = processes(lab, SERVER)?.concat();
            let stopped = servers.concat().iter().filter(|server| !now.contains(server)).count();
            ensure!(stopped == 1, "{stopped} servers were stopped while a consumer was not back");
            drop(slow);

            // The operator goes on when it is back, and the one that was there then is waited for, but not for ever.
            let begun = Instant::now();
            let back = consumer(&access, addresses[0], SLOW).await?;
            STORE.until(client, "going on", MENDED, |it| !is_held(it)).await?;
            println!("it goes on {:.1?} after the consumer is back", begun.elapsed());
            drop(back);
            let begun = Instant::now();
            STORE.through(client, "the change").await?;
            println!("done {:.1?} after it is away for good", begun.elapsed());
            are_others(lab, SERVER, &servers)?;
            good("a consumer that was slow and then away", &traffic.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn other_passwords_of_clients_and_agents_count_at_once_and_restart_nobody() -> Result<()> {
    if !Long::Passwords.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let before = processes(lab, SERVER)?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            let other = access.with_password("another0password");
            for (key, password) in [("password", "another0password"), ("agent_password", "another0password0of0agents")]
            {
                let (begun, former) = (Instant::now(), running(client, RABBITMQ).await?);
                edit_secret(client, &format!("{NAME}-secret"), key, password).await?;
                eventually("clients with the other password to be let in", ROLL, async || {
                    Ok(other.connect(addresses[0]).await.ok().map(drop))
                })
                .await?;
                let heard = begun.elapsed();
                followed(client, RABBITMQ, &former, ROLL).await?;
                STORE.through(client, key).await?;
                println!("{key}: {heard:.1?}, all members after {:.1?}", begun.elapsed());
            }
            for address in &addresses {
                other.connect(*address).await.with_context(|| format!("{address}"))?;
                ensure!(access.connect(*address).await.is_err(), "{address}: the former password");
            }
            let summary = traffic.end().await?;
            ensure!(summary.refused == 0 && processes(lab, SERVER)? == before, "a server was restarted: {summary}");
            good("other passwords", &summary)?;
            nothing_secret_is_told(lab, client).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_on_demand_replaces_one_pod_after_the_other_and_loses_no_message() -> Result<()> {
    if !Long::Restart.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            STORE.restarted(client).await?;
            good("pods replaced", &traffic.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_hibernated_has_what_was_durable() -> Result<()> {
    const MESSAGES: u32 = 100;
    if !Long::Hibernation.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let connection = access.connect(addresses[0]).await?;
            let channel = connection.create_channel().await?;
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            channel.queue_declare("ledger".into(), durable, FieldTable::default()).await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            for number in 0..MESSAGES {
                let (options, persistent) =
                    (BasicPublishOptions::default(), BasicProperties::default().with_delivery_mode(2));
                let message = number.to_be_bytes();
                let sent = channel.basic_publish("".into(), "ledger".into(), options, &message, persistent).await?;
                ensure!(sent.await?.is_ack(), "message {number} is not confirmed");
            }
            STORE.sleeps_and_wakes(client).await?;
            let connection = access.connect(addresses[0]).await?;
            let channel = connection.create_channel().await?;
            let passive = QueueDeclareOptions { passive: true, ..durable };
            let queue = channel.queue_declare("ledger".into(), passive, FieldTable::default()).await?;
            ensure!(queue.message_count() == MESSAGES, "{} of {MESSAGES} messages are there", queue.message_count());
            good("afterwards", &Traffic::begin(&access, &addresses).await?.end().await?)
        })
        .await
}
