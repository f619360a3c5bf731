//! Clients that log in: a ring that asks for a password from its beginning, and one that begins to ask, and ceases, while it serves.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};
use tf_api::kinds::CASSANDRA;
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::writer::Writer;
use super::{Long, NAME, RESIZED, SERVER, STORE, good, on_a_small_machine, table};
use crate::{
    rest, secrets,
    store::{NAMESPACE, edit_secret, followed, processes, running},
    tls::Access,
};

/// Between two visits.
const PACE: Duration = Duration::from_millis(100);

fn spec(replicas: u32, authentication: &str) -> Value {
    let mut spec = on_a_small_machine(json!({"commonConfiguration": {"replicas": replicas}}));
    spec["serviceConfiguration"]["authentication"] = json!(authentication);
    spec
}

/// What a client logs in with, as the operator tells clients.
async fn login(client: &Client) -> Result<Access> {
    let resource = resources::get(client, CASSANDRA, NAMESPACE, NAME).await?.context("it is gone")?;
    let name = resource.object.data["status"]["connectionSecretRef"]["name"].as_str().context("no Secret")?.to_owned();
    let secret = Api::<Secret>::namespaced(client.clone(), NAMESPACE).get(&name).await?.data.unwrap_or_default();
    let text = |key: &str| Ok::<_, anyhow::Error>(String::from_utf8(secret.get(key).context("no key")?.0.clone())?);
    Ok(Access::of(client).await?.logging_in(&text("username")?, &text("password")?))
}

/// Somebody who tries without a password, with the one that every server makes for itself, and with a wrong one of the right user.
fn strangers(access: &Access) -> [Access; 3] {
    [access.clone(), access.logging_in("cassandra", "cassandra"), access.logging_in("tf", "cassandra")]
}

/// Strangers who knock at every door all the time.
struct Visitor {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    let_in: Vec<String>,
    turned_away: BTreeMap<IpAddr, usize>,
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Visitor {
    fn begin(client: &Client, addresses: Vec<IpAddr>) -> Self {
        let seen = Arc::default();
        let task = tokio::spawn(visit(client.clone(), addresses, Arc::clone(&seen)));
        Self { seen, task }
    }

    /// Nobody was let in, and each of these turned somebody away.
    fn end(self, addresses: &[IpAddr]) -> Result<()> {
        let seen = self.seen.lock().unwrap();
        println!("strangers turned away: {:?}", seen.turned_away);
        ensure!(seen.let_in.is_empty(), "{seen:?}");
        ensure!(addresses.iter().all(|address| seen.turned_away.contains_key(address)), "{seen:?}");
        Ok(())
    }
}

async fn visit(client: Client, addresses: Vec<IpAddr>, seen: Arc<Mutex<Seen>>) {
    loop {
        // There is no authority at first, and no server without one.
        let Ok(access) = Access::of(&client).await else {
            sleep(PACE).await;
            continue;
        };
        for address in &addresses {
            for (who, stranger) in strangers(&access).iter().enumerate() {
                match stranger.connect(*address).await {
                    Ok(_) => seen.lock().unwrap().let_in.push(format!("stranger {who} by {address}")),
                    Err(error) if is_refusal(&error) => {
                        *seen.lock().unwrap().turned_away.entry(*address).or_default() += 1;
                    }
                    // Nobody listens.
                    Err(_) => break,
                }
            }
        }
        sleep(PACE).await;
    }
}

/// Whether a server said that it does not like who comes.
fn is_refusal(error: &anyhow::Error) -> bool {
    let text = format!("{error:#}");
    ["password is asked for", "are incorrect", "not permitted to log in"].iter().any(|words| text.contains(words))
}

/// Whether each server asks for a password.
async fn asks(client: &Client, addresses: &[IpAddr], does: bool) -> Result<()> {
    for address in addresses {
        for (who, stranger) in strangers(&Access::of(client).await?).iter().enumerate() {
            let came = stranger.connect(*address).await;
            ensure!(came.is_err() == does, "stranger {who} by {address}: {:?}", came.err());
        }
    }
    Ok(())
}

/// Founds a ring of so many members that asks for a password from the beginning.
async fn founded(client: &Client, members: u32) -> Result<()> {
    let begun = Instant::now();
    resources::apply(client, CASSANDRA, NAMESPACE, NAME, spec(members, "Password")).await?;
    STORE.certified(client).await?;
    STORE.through(client, "the bring-up").await?;
    println!("founded after {:.0?}", begun.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_that_is_founded_with_a_password_lets_in_no_stranger_at_any_moment_nor_does_who_joins() -> Result<()> {
    if !Long::Founded.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(2, &[], &[], async |lab, client| {
            let all = lab.real_nodes()?.addresses()?;
            let visitor = Visitor::begin(client, all.clone());
            founded(client, 1).await?;
            let access = login(client).await?;
            let first = all.iter().find(|address| visitor.seen.lock().unwrap().turned_away.contains_key(address));
            table(&access, &[*first.context("nobody was turned away")?]).await?;
            let begun = Instant::now();
            resources::apply(client, CASSANDRA, NAMESPACE, NAME, spec(2, "Password")).await?;
            let writer = Writer::begin(&access, &all);
            STORE.resized(client, 2, RESIZED).await?;
            let summary = writer.end().await?;
            println!("two members after {:.0?}: {summary}", begun.elapsed());
            ensure!(summary.lost == 0, "{summary}");
            let factor = access.connect(all[0]).await?.factor("system_auth").await?;
            ensure!(factor == "2", "users are on {factor} of 2 members");
            visitor.end(&all)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_begin_and_cease_to_ask_for_a_password_while_clients_go_on() -> Result<()> {
    if !Long::Asked.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let all = lab.real_nodes()?.addresses()?;
            let visitor = Visitor::begin(client, all.clone());
            founded(client, 3).await?;
            visitor.end(&all)?;
            let access = login(client).await?;
            let factor = access.connect(all[0]).await?.factor("system_auth").await?;
            ensure!(factor == "3", "users are on {factor} of 3 members");
            table(&access, &all).await?;
            for (authentication, does) in [("None", false), ("Password", true)] {
                let writer = Writer::begin(&access, &all);
                let begun = Instant::now();
                resources::apply(client, CASSANDRA, NAMESPACE, NAME, spec(3, authentication)).await?;
                let is_recorded = |it: &Resource| it.object.data["status"]["authentication"] == json!(authentication);
                STORE.until(client, "recorded", RESIZED, is_recorded).await?;
                STORE.through(client, "the change").await?;
                println!("{authentication} after {:.0?}", begun.elapsed());
                asks(client, &all, does).await?;
                good(authentication, &writer.end().await?)?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_password_counts_for_who_comes_anew_and_neither_a_server_nor_a_client_is_disturbed() -> Result<()> {
    if !Long::OtherPassword.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let all = lab.real_nodes()?.addresses()?;
            founded(client, 3).await?;
            let access = login(client).await?;
            table(&access, &all).await?;
            let (before, former) = (processes(lab, SERVER)?, running(client, CASSANDRA).await?);
            let writer = Writer::begin(&access, &all);
            writer.goes_on(10).await?;
            let begun = Instant::now();
            edit_secret(client, &format!("{NAME}-cassandra-passwords"), "password", "another0password").await?;
            let other = access.logging_in("tf", "another0password");
            eventually("clients with the other password to be let in", RESIZED, async || {
                Ok(other.connect(all[0]).await.ok().map(drop))
            })
            .await?;
            let heard = begun.elapsed();
            followed(client, CASSANDRA, &former, RESIZED).await?;
            STORE.through(client, "the change").await?;
            println!("another password: {heard:.1?}, all members after {:.1?}", begun.elapsed());
            for address in &all {
                other.connect(*address).await.with_context(|| format!("{address}"))?;
                let refusal = access.connect(*address).await.err();
                ensure!(refusal.as_ref().is_some_and(is_refusal), "{address}: the former password: {refusal:?}");
            }
            let told = login(client).await?;
            told.connect(all[0]).await.context("what clients are told")?;
            ensure!(processes(lab, SERVER)? == before, "servers were started anew: {before:?}");
            let summary = writer.read_by(&other).end().await?;
            ensure!(summary.refused == 0, "the client had to connect anew: {summary}");
            good("another password", &summary)
        })
        .await
}

/// Of a Secret's key and value what is secret.
fn secret(key: &str, text: &str) -> Vec<String> {
    let key = key.to_lowercase();
    let stated = text
        .lines()
        .filter_map(|line| line.split_once("PASSWORD="))
        .map(|(_, value)| value.trim_matches('\'').to_owned());
    stated.chain(key.ends_with("password").then(|| text.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_at_rest_writes_nothing_and_tells_no_password() -> Result<()> {
    if !Long::Rest.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            // Users are in a keyspace, which is repaired like any other.
            let is_repaired = |it: &Resource| it.is_ready() && it.object.data["status"]["repairedSince"].is_string();
            rest::is_silent_once(&STORE, spec(3, "Password"), rest::REQUESTS, is_repaired, lab, client).await?;
            let values = secrets::values(lab, client, secret).await?;
            let of = |part: &str| values.values().filter(|place| place.to_lowercase().contains(part)).count();
            // Of key store, trust store and clients, keys of the authority and of three members, and tokens.
            ensure!(of("stores.env") >= 2 && of("login.env") >= 1, "{:?}", values.values());
            ensure!(of("tf-ca") >= 1 && of("tls.key on") >= 2 && of("token") >= 3, "{:?}", values.values());
            secrets::nothing_leaks(&values, &secrets::pages(&STORE, lab, client).await?)
        })
        .await
}
