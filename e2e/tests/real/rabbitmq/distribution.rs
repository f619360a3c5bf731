//! How the members of a cluster speak with each other: over TLS, with nobody else, and over TCP alone where that is asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tf_api::kinds::RABBITMQ;
use tf_api::names::ANNOTATION_HIBERNATE;
use tf_testing::Lab;
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;

use super::sizes::resize;
use super::traffic::{Access, Traffic};
use super::{AMQP_PORT, Long, NAME, STORE, good, three};
use crate::{
    store::{HONEST_WITHIN, NAMESPACE, authorities, authority, replace_authority},
    tls,
};

const PORT: u16 = AMQP_PORT + 20_000;
/// Between two servers that are killed while the authority is replaced: some in each step, which takes a minute.
const TURN: Duration = Duration::from_secs(40);
/// For a server's own tool.
const PATIENCE: Duration = Duration::from_mins(1);
/// By which an Erlang speaks as the members do.
const AS_MEMBERS: [&str; 4] = ["-proto_dist", "inet_tls", "-ssl_dist_optfile", "/etc/contrail/inter_node_tls.config"];
/// By which it speaks TLS without a certificate, and takes any.
const WITHOUT_CERTIFICATE: [&str; 5] = ["-proto_dist", "inet_tls", "-ssl_dist_opt", "client_verify", "verify_none"];

/// How many members answer an Erlang that has their cookie, beside the first of them, with these arguments.
async fn answers(lab: &Lab, client: &Client, arguments: &[&str]) -> Result<usize> {
    let pods = STORE.pods(client).await?;
    let mut names = Vec::new();
    for pod in pods.keys() {
        // Its tool speaks TLS, too, and gives up early on a busy machine.
        let name = eventually("the name of a server", PATIENCE, async || {
            Ok(STORE.exec(lab, pod, &["rabbitmqctl", "eval", "node()."]).ok())
        });
        names.push(name.await?.trim().to_owned());
    }
    let host = names[0].trim_matches('\'').split_once('@').context("no host")?.1;
    let ask = format!("[io:format(\"~p~n\", [net_adm:ping(Name)]) || Name <- [{}]], halt().", names.join(","));
    let (first, name) = (pods.keys().next().context("no pod")?, format!("stranger@{host}"));
    let erl = ["env", "ERL_EPMD_PORT=4371", "erl", "-noinput", "-hidden", "-name", &name];
    let said = STORE.exec(lab, first, &[&erl, arguments, &["-eval", &ask]].concat())?;
    let lines = |word: &str| said.lines().filter(|line| *line == word).count();
    ensure!(lines("pong") + lines("pang") == names.len(), "{said}");
    Ok(lines("pong"))
}

/// Asks for members that speak TLS, or that do not, and know each other by this cookie.
async fn wish(client: &Client, tls: bool, cookie: &str) -> Result<()> {
    let spec = json!({"serviceConfiguration": {"tls": {"distribution": tls}, "erlangCookie": cookie}});
    resources::apply(client, RABBITMQ, NAMESPACE, NAME, spec).await.map(drop)
}

/// The cookies that members know each other by.
async fn cookies(lab: &Lab, client: &Client) -> Result<BTreeSet<String>> {
    let read = |pod: &String| STORE.exec(lab, pod, &["cat", "/var/lib/rabbitmq/.erlang.cookie"]);
    STORE.pods(client).await?.keys().map(read).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn members_speak_tls_with_each_other_and_with_nobody_else_whatever_becomes_of_them_and_of_the_authority()
-> Result<()> {
    if !Long::Distribution.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            ensure!(answers(lab, client, &AS_MEMBERS).await? == 3, "who is as members are is not answered");
            ensure!(answers(lab, client, &[]).await? == 0, "who speaks no TLS is answered");
            ensure!(answers(lab, client, &WITHOUT_CERTIFICATE).await? == 0, "who shows no certificate is answered");
            // By the authority of the namespace, and of no member of this cluster.
            let pair = authority(client).await?.operator("some-client", Duration::from_hours(1), Timestamp::now())?;
            let stranger = tls::Access::showing(&authorities(client).await?, Some((&pair.issued.pem, &pair.key)))?;
            for address in &addresses {
                ensure!(stranger.is_let_in(*address, AMQP_PORT).await, "{address}: its certificate is no good");
                ensure!(!stranger.is_let_in(*address, PORT).await, "{address} lets in who is no member");
            }

            let traffic = Traffic::begin(&access, &addresses).await?;
            for replicas in [2, 3] {
                resize(client, replicas).await?;
                traffic.goes_on().await?;
            }
            good("three, two and three members", &traffic.end().await?)?;

            // Clients that trust the former authority alone are not let in again by a server that was killed.
            let nodes = lab.real_nodes()?.all()?;
            let replaced = replace_authority(client);
            tokio::pin!(replaced);
            let mut killed = 0;
            // Each has to be let in again, with whatever all of them show and trust by then.
            let outcome = loop {
                tokio::select! {
                    outcome = &mut replaced => break outcome,
                    () = tokio::time::sleep(TURN) => {}
                }
                nodes[killed % nodes.len()].kill("beam.smp")?;
                STORE.told(client).await?;
                STORE.through(client, "the server's return").await?;
                killed += 1;
            };
            outcome?;
            for node in &nodes {
                node.kill("beam.smp")?;
                STORE.told(client).await?;
                STORE.through(client, "the server's return, by the new authority alone").await?;
            }
            ensure!(answers(lab, client, &AS_MEMBERS).await? == 3, "who is as members are is not answered");
            let newcomer = Access::of(client).await?;
            for address in &addresses {
                newcomer.connect(*address).await.with_context(|| format!("{address}"))?;
            }
            let traffic = Traffic::begin(&newcomer, &addresses).await?;
            traffic.goes_on().await?;
            good(&format!("another authority, {killed} servers killed meanwhile"), &traffic.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn how_members_speak_stays_while_they_run_and_changes_while_the_cluster_hibernates() -> Result<()> {
    if !Long::DistributionChange.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            for tls in [false, true] {
                let before = (STORE.uids(client).await?, cookies(lab, client).await?);
                ensure!(before.1.len() == 1, "members know different cookies");
                let cookie = format!("another-cookie-{tls}");
                wish(client, tls, &cookie).await?;
                let is_told = |rabbitmq: &Resource| {
                    let why = rabbitmq.explain("Ready");
                    ["tls.distribution", "erlangCookie", ANNOTATION_HIBERNATE].iter().all(|word| why.contains(word))
                };
                STORE.until(client, "told what to do", HONEST_WITHIN, is_told).await?;
                let now = (STORE.uids(client).await?, cookies(lab, client).await?);
                ensure!(now == before, "pods or cookies are others");
                ensure!(answers(lab, client, &[]).await? == if tls { 3 } else { 0 }, "it changed while it served");

                STORE.sleeps_and_wakes(client).await?;
                ensure!(cookies(lab, client).await? == BTreeSet::from([cookie]), "the cookie is not the one asked for");
                let (they, others): (&[&str], &[&str]) =
                    if tls { (&AS_MEMBERS, &[]) } else { (&[], &WITHOUT_CERTIFICATE) };
                ensure!(answers(lab, client, they).await? == 3, "tls: {tls}: who is as members are is not answered");
                ensure!(answers(lab, client, others).await? == 0, "tls: {tls}: who is not is answered");
                good(&format!("awake, tls: {tls}"), &Traffic::begin(&access, &addresses).await?.end().await?)?;
            }
            Ok(())
        })
        .await
}
