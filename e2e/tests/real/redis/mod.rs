//! Real Redis servers on real nodes: the operator runs as a pod of its chart, the servers as the operator's pods.

mod client;
mod crash;
mod journal;
mod sentinel;
mod stops;
mod visitor;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tf_api::kinds::REDIS;
use tf_pki::authority::{AUTHORITY_LIFETIME, Authority, Curve};
use tf_testing::Lab;
use tf_testing::real::image;
use tf_testing::resources;
use tf_testing::wait::eventually;

use self::client::{Login, answers_without_tls};
use self::visitor::{Summary, Visitor};
use crate::{
    rest, secrets,
    store::{NAMESPACE, Store, authorities, edit_secret, replace_authority},
    tls::Access,
};

const NAME: &str = "redis1";
/// Secrets of the operator: what clients connect with, and the password alone.
const CONNECTION: &str = "redis1-redis-connection";
const PASSWORD: &str = "redis1-redis-password";
const REDIS_PORT: u16 = 6389;
const OPERATOR: &str = "redis-op";
pub const STORE: Store = Store {
    operator: OPERATOR,
    kind: REDIS,
    name: NAME,
    images: &[OPERATOR, "tf-node", image::REDIS_ARCHIVE],
    values: &[image::REDIS],
};
/// For three servers, one after the other.
const ROLL: Duration = Duration::from_mins(5);
/// Until a failure is told.
const TOLD: Duration = Duration::from_secs(10);

/// A password that somebody chooses.
const CHOSEN: &str = "Chosen-by_somebody.1";

/// Tests that take minutes each. A run tries some of them, `cargo xtask soak life` every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long {
    Configuration,
    Restart,
    Killed,
    Password,
    Authority,
    Sizes,
    Rest,
    MasterKilled,
    MasterRolled,
    MasterCutOff,
    AllKilled,
    MasterSizes,
    MasterSecrets,
    MasterRest,
    Ipv6,
    MasterReplaced,
    MasterHangs,
    CopiesHang,
    HandOvers,
    Hibernation,
}

impl Long {
    pub const ALL: usize = Self::Hibernation as usize + 1;

    /// Whether it is tried in this run; else it is counted as skipped.
    fn is_drawn(self) -> Result<bool> {
        STORE.is_drawn(self as usize)
    }
}

/// Three members that have certificates and serve, with nothing left to do.
pub async fn three(lab: &Lab, client: &Client) -> Result<(Login, Vec<IpAddr>)> {
    resources::apply(client, REDIS, NAMESPACE, NAME, json!({})).await?;
    STORE.certified(client).await?;
    through(client, "the bring-up").await?;
    Ok((Login::of(client).await?, lab.real_nodes()?.addresses()?))
}

/// Ready, and no roll-out is under way.
async fn through(client: &Client, what: &str) -> Result<()> {
    STORE.through(client, what).await.map(drop)
}

/// At most one server was away at a time.
fn good(what: &str, summary: &Summary) -> Result<()> {
    println!("{what}: {summary}");
    ensure!(summary.fewest >= 2, "{what}: {summary}");
    Ok(())
}

/// Leaves a word with every server, so that one that was started anew is known by the lack of it.
async fn mark(login: &Login, addresses: &[IpAddr]) -> Result<()> {
    for address in addresses {
        login.connect(*address).await?.ask(&["SET", "word", &address.to_string()]).await?;
    }
    Ok(())
}

/// Chooses another password, which all servers take in the place of the former one. Who logs in with it.
async fn another_password(client: &Client, login: &Login, addresses: &[IpAddr]) -> Result<Login> {
    edit_secret(client, PASSWORD, "password", CHOSEN).await?;
    let new = login.by(Some(CHOSEN));
    for address in addresses {
        let what = format!("{address} to take the new password");
        eventually(&what, ROLL, async || Ok(new.is_served(*address).await.ok())).await?;
        ensure!(login.is_served(*address).await.is_err(), "{address} takes the old one");
    }
    through(client, "the new password").await?;
    Ok(new)
}

/// Whoever begins after another authority took the place of the former one trusts that one alone, and is served. `log_in`: how one begins.
async fn another_authority(
    client: &Client,
    addresses: &[IpAddr],
    log_in: impl AsyncFnOnce() -> Result<Login>,
) -> Result<Login> {
    replace_authority(client).await?;
    STORE.certified(client).await?;
    let newcomer = log_in().await?;
    for address in addresses {
        newcomer.is_served(*address).await.with_context(|| format!("{address}, by the new authority alone"))?;
    }
    Ok(newcomer)
}

/// How many servers have the word that was left with them, and no other server's.
async fn marked(login: &Login, addresses: &[IpAddr]) -> Result<usize> {
    let mut count = 0;
    for address in addresses {
        let word = login.connect(*address).await?.ask(&["GET", "word"]).await?;
        ensure!(word.is_empty() || word == address.to_string(), "{address} has {word}");
        count += usize::from(!word.is_empty());
    }
    Ok(count)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_real_servers_each_on_its_own_let_in_who_speaks_tls_and_knows_the_password() -> Result<()> {
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            for address in &addresses {
                login.is_served(*address).await.with_context(|| format!("{address}"))?;
            }
            strangers(&login, &authorities(client).await?, &addresses).await?;
            mark(&login, &addresses).await?;
            ensure!(marked(&login, &addresses).await? == 3, "each server is on its own");
            nothing_secret_is_told(lab, client).await
        })
        .await
}

/// Who lacks something is not let in. `bundle`: the authorities that clients trust.
async fn strangers(login: &Login, bundle: &str, addresses: &[IpAddr]) -> Result<()> {
    let now = Timestamp::now();
    let other = Authority::generate("somebody-else", Curve::P256, AUTHORITY_LIFETIME, now)?;
    let pair = other.operator("somebody", Duration::from_hours(1), now)?;
    let shown = login.through(Access::showing(bundle, Some((&pair.issued.pem, &pair.key)))?);
    for address in addresses {
        ensure!(!answers_without_tls(*address).await?, "{address} answers without TLS");
        for password in [None, Some("wrong")] {
            let refused = login.by(password).is_served(*address).await.err().context("somebody is let in")?;
            let why = format!("{refused:#}");
            ensure!(why.contains("NOAUTH") || why.contains("WRONGPASS"), "{address}, {password:?}: {why}");
        }
        // Whoever trusts another authority alone does not take it for the server.
        let elsewhere = login.through(Access::showing(&other.certificates_pem(), None)?);
        ensure!(elsewhere.is_served(*address).await.is_err(), "{address}: another authority");
        ensure!(shown.is_served(*address).await.is_err(), "{address}: another authority's certificate");
    }
    Ok(())
}

/// Of a Secret's key and value what is secret.
fn secret(key: &str, text: &str) -> Vec<String> {
    let stated = text.trim().strip_prefix("requirepass ").map(str::to_owned);
    stated.into_iter().chain(key.ends_with("password").then(|| text.to_owned())).collect()
}

/// Nothing secret is where people read.
async fn nothing_secret_is_told(lab: &Lab, client: &Client) -> Result<()> {
    let values = secrets::values(lab, client, secret).await?;
    let of = |part: &str| values.values().filter(|place| place.contains(part)).count();
    // The password, keys of the authority and of three members, and tokens.
    ensure!(of("password") + of("redis-auth") >= 1, "{:?}", values.values());
    ensure!(of("tf-ca") >= 1 && of("pods/") >= 6 && of("token") >= 3, "{:?}", values.values());
    secrets::nothing_leaks(&values, &secrets::pages(&STORE, lab, client).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_log_level_is_told_to_servers_that_run_and_starts_nobody_anew() -> Result<()> {
    if !Long::Configuration.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            mark(&login, &addresses).await?;
            let before = STORE.uids(client).await?;
            let visitor = Visitor::begin(&login, &addresses);
            let changed = json!({"commonConfiguration": {"logLevel": "debug"}});
            resources::apply(client, REDIS, NAMESPACE, NAME, changed).await?;
            through(client, "the change").await?;
            let summary = visitor.end()?;
            println!("another log level: {summary}");
            ensure!(summary.fewest == addresses.len(), "{summary}");
            ensure!(STORE.uids(client).await? == before, "pods are the same");
            ensure!(marked(&login, &addresses).await? == addresses.len(), "a server was started anew");
            for address in &addresses {
                let says = login.connect(*address).await?.ask(&["CONFIG", "GET", "loglevel"]).await?;
                ensure!(says == "loglevel debug", "{address}: {says}");
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_on_demand_replaces_one_pod_after_the_other() -> Result<()> {
    if !Long::Restart.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            let visitor = Visitor::begin(&login, &addresses);
            STORE.restarted(client).await?;
            good("pods replaced", &visitor.end()?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_told_and_back_while_the_others_serve() -> Result<()> {
    if !Long::Killed.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            for node in lab.real_nodes()?.all()? {
                let visitor = Visitor::begin(&login, &addresses);
                node.kill("redis-server")?;
                let what = format!("{} to serve again", node.address());
                eventually(&what, TOLD, async || Ok(login.is_served(node.address()).await.ok())).await?;
                good("killed once", &visitor.end()?)?;

                // It was back before the operator looked, perhaps. One that is killed again and again is not.
                let visitor = Visitor::begin(&login, &addresses);
                let begun = Instant::now();
                eventually("the loss to be told", TOLD, async || {
                    // There may be none at this moment.
                    drop(node.kill("redis-server"));
                    let redis = resources::get(client, REDIS, NAMESPACE, NAME).await?.context("no resource")?;
                    Ok((!redis.is_ready()).then_some(()))
                })
                .await?;
                let told = begun.elapsed();
                through(client, "the server's return").await?;
                login.is_served(node.address()).await?;
                good(&format!("killed again and again, told after {told:.1?}"), &visitor.end()?)?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_somebody_puts_into_the_secret_replaces_the_generated_one_everywhere() -> Result<()> {
    if !Long::Password.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            another_password(client, &login, &addresses).await?;
            let published = Login::of(client).await?;
            for address in &addresses {
                published.is_served(*address).await?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_authority_takes_over_while_the_servers_run_on_and_nobody_is_turned_away() -> Result<()> {
    if !Long::Authority.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            mark(&login, &addresses).await?;
            let newcomer = another_authority(client, &addresses, async || Login::of(client).await).await?;
            ensure!(marked(&newcomer, &addresses).await? == 3, "no server was started anew");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_with_the_number_that_is_asked_for() -> Result<()> {
    if !Long::Sizes.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            for replicas in [1, 3] {
                let spec = json!({"commonConfiguration": {"replicas": replicas}});
                resources::apply(client, REDIS, NAMESPACE, NAME, spec).await?;
                STORE.resized(client, replicas, ROLL).await?;
                let mut serving = 0;
                for address in &addresses {
                    serving += usize::from(login.is_served(*address).await.is_ok());
                }
                ensure!(serving == replicas, "{serving} servers of {replicas}");
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_at_rest_are_left_alone_and_nobody_asked_for_what_is_not_allowed() -> Result<()> {
    if !Long::Rest.is_drawn()? {
        return Ok(());
    }
    STORE.with(3, &[], &[], async |lab, client| rest::is_silent(&STORE, lab, client).await).await
}
