//! A fleet of vRouters on simulated nodes: bring-up, a change of all, all pods deleted at once, a restarted operator; with the latency that another client
//! sees meanwhile. Pods of simulated nodes have no agent that could be asked, so the operator goes by the kubelets' word.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{ConfigMap, Namespace, Pod, Secret},
};
use kube::{
    Client, ResourceExt as _,
    api::{Api, DeleteParams, ListParams},
};
use serde_json::{Value, json};
use tf_api::kinds::VROUTER;
use tf_testing::{
    Entry, Lab, Options,
    operators::{Install, Operator, Run},
    request::Verb,
    resources::{self, Resource},
    work,
};
use tokio::{sync::watch, task::JoinHandle};

use super::{bringup::NAMESPACE, report::mib};
use crate::build::Built;

const OPERATOR: &str = "vrouter-op";
const NAME: &str = "vrouter1";
/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_mins(40);
/// What the operator still does belongs to what came before: it has this long.
const SETTLE: Duration = Duration::from_secs(10);
/// Between two requests of the other client.
const PAUSE: Duration = Duration::from_millis(100);
/// Requests of a client that deletes all pods.
const AT_A_TIME: usize = 50;
/// Between two looks at how many pods are away.
const LOOK: Duration = Duration::from_millis(200);
/// Deletions that are no further apart are of one pass of the operator.
const APART: Duration = Duration::from_millis(100);

/// What was measured in one phase.
pub struct Figure {
    what: &'static str,
    seconds: f64,
    requests: u64,
    writes: u64,
    cpu: f64,
    memory: u64,
    /// Latency of the other client's requests in milliseconds: median, and the one that 99 of 100 stay below.
    latency: (f64, f64),
    note: String,
}

/// Measures so many nodes, of which a share changes at a time.
pub async fn measure(nodes: u32, share: &str, binaries: &Built) -> Result<Vec<Figure>> {
    let lab = Lab::start(Options { node_lease_seconds: 200, ..Options::fleet(0, nodes) }).await?;
    let client = lab.client().await?;
    lab.install(OPERATOR, NAMESPACE, &Install::default()).await?;
    let how = Run { binaries: Some(binaries.folder().to_owned()), ..Run::default() };
    let operator = lab.operate(OPERATOR, NAMESPACE, &how).await?;
    operator.ready().await?;
    let mut bench = Bench { lab, client, operator, nodes, figures: Vec::new() };

    bench.phase("silence without a Vrouter", async |_| Ok(())).await?;
    bench.phase("apply to Ready", async |bench| bench.apply(&spec(30, share)).await).await?;
    let bytes = bench.bytes().await?;
    bench.note(format!("{bytes} bytes in ConfigMaps and Secrets"));
    bench.phase("silence", async |_| Ok(())).await?;
    let began = Timestamp::now();
    let mark = bench.lab.audit_mark().await?;
    let mut away = 0;
    bench
        .phase("another pod template", async |bench| {
            let before = bench.uids().await?;
            let wish = spec(31, share);
            resources::apply(&bench.client, VROUTER, NAMESPACE, NAME, wish).await?;
            away = bench.others(&before).await?;
            Ok(())
        })
        .await?;
    let entries = bench.lab.audit().window(mark, bench.lab.audit_mark().await?)?;
    bench.note(format!("{}; at most {away} pods away", passes(&entries, &bench.operator.user, began)));
    bench
        .phase("all pods deleted at once", async |bench| {
            let before = bench.uids().await?;
            let pods: Api<Pod> = Api::namespaced(bench.client.clone(), NAMESPACE);
            let names = pods.list_metadata(&ListParams::default()).await?.into_iter().map(|pod| pod.name_any());
            // One request for all of them would take the API server longer than a request may.
            let deletions = names.map(|name| {
                let pods = pods.clone();
                async move { pods.delete(&name, &DeleteParams::default()).await.map(drop) }
            });
            stream::iter(deletions).buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
            bench.others(&before).await.map(drop)
        })
        .await?;
    bench.operator.process.kill()?;
    bench.operator = bench.lab.operate(OPERATOR, NAMESPACE, &how).await?;
    bench.phase("the operator starts again", async |bench| bench.operator.ready().await).await?;
    Ok(bench.figures)
}

/// The figures as text.
pub fn table(figures: &[Figure]) -> String {
    let head = ["seconds", "requests", "writes", "CPU s", "MiB", "p50 ms", "p99 ms"];
    let mut text = format!("{:<28}", "");
    for column in head {
        let _ = write!(text, "{column:>10}");
    }
    text.push('\n');
    for Figure { what, seconds, requests, writes, cpu, memory, latency: (half, most), note } in figures {
        let mib = mib(*memory);
        let _ = writeln!(
            text,
            "{what:<28}{seconds:>10.1}{requests:>10}{writes:>10}{cpu:>10.2}{mib:>10}{half:>10.1}{most:>10.1}  {note}"
        );
    }
    text + "Requests, writes and CPU of vrouter-op; memory: its resident set at the end. Latency: a GET of a Namespace by another client, ten times a second.\n"
}

/// `grace`: any number, so that the template is another one.
fn spec(grace: u32, share: &str) -> Value {
    let share = share.parse().map_or_else(|_| json!(share), |number: u32| json!(number));
    json!({
        "commonConfiguration": {"podOverrides": {"spec": {"terminationGracePeriodSeconds": grace}}},
        "upgradeStrategy": {"maxUnavailable": share},
        "serviceConfiguration": {"envVariablesConfig": {"CONTROL_NODES": "192.0.2.1"}},
    })
}

/// In how many passes the operator deleted pods, and how many in one at most.
fn passes(entries: &[Entry], user: &str, began: Timestamp) -> String {
    let is_deletion = |entry: &&Entry| {
        entry.user == user
            && entry.verb == Verb::Delete
            && entry.resource == "pods"
            && entry.counts()
            && entry.code < 300
    };
    let mut passes: Vec<(Timestamp, usize)> = Vec::new();
    for entry in entries.iter().filter(is_deletion) {
        match passes.last_mut() {
            Some((last, count)) if entry.at.duration_since(*last).unsigned_abs() < APART => {
                (*last, *count) = (entry.at, *count + 1);
            }
            _ => passes.push((entry.at, 1)),
        }
    }
    let most = passes.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let last = passes.last().map_or(0.0, |(at, _)| at.duration_since(began).as_secs_f64());
    format!("{} passes delete pods, at most {most}, the last one after {last:.1} s", passes.len())
}

struct Bench {
    lab: Lab,
    client: Client,
    operator: Operator,
    nodes: u32,
    figures: Vec<Figure>,
}

impl Bench {
    async fn phase(&mut self, what: &'static str, deed: impl AsyncFnOnce(&Self) -> Result<()>) -> Result<()> {
        println!("{what} ...");
        let other = Other::begin(&self.client);
        let (mark, begun) = (self.lab.audit_mark().await?, Instant::now());
        let usage = || self.operator.process.usage().context("the operator has ended");
        let before = usage()?.cpu;
        deed(self).await.context(what)?;
        let seconds = begun.elapsed().as_secs_f64();
        tokio::time::sleep(SETTLE).await;
        let entries = self.lab.audit().window(mark, self.lab.audit_mark().await?)?;
        let used = work::of(&entries, &self.operator.user);
        let after = usage()?;
        let (cpu, memory) = (after.cpu.saturating_sub(before).as_secs_f64(), after.rss_bytes);
        let (latency, note) = (other.end().await?, String::new());
        let (requests, writes) = (used.requests, used.writes);
        println!("{what}: {seconds:.1} s, {requests} requests");
        self.figures.push(Figure { what, seconds, requests, writes, cpu, memory, latency, note });
        Ok(())
    }

    fn note(&mut self, note: String) {
        if let Some(last) = self.figures.last_mut() {
            last.note = note;
        }
    }

    async fn apply(&self, spec: &Value) -> Result<()> {
        resources::apply(&self.client, VROUTER, NAMESPACE, NAME, spec.clone()).await?;
        self.ready().await
    }

    async fn ready(&self) -> Result<()> {
        let nodes = usize::try_from(self.nodes)?;
        let is_done = |it: &Resource| it.is_ready_on(nodes);
        resources::until(&self.client, VROUTER, NAMESPACE, NAME, "Ready on all nodes", LIMIT, is_done).await.map(drop)
    }

    /// Metadata of pods is enough, and a tenth of them.
    async fn uids(&self) -> Result<BTreeSet<String>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        Ok(pods.list_metadata(&ListParams::default()).await?.into_iter().filter_map(|pod| pod.uid()).collect())
    }

    /// Waits until none of these pods is left and the Vrouter is Ready. Out: how many pods were away at the same time at most, as the DaemonSet reports it.
    async fn others(&self, before: &BTreeSet<String>) -> Result<i32> {
        let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), NAMESPACE);
        let (begun, mut most) = (Instant::now(), 0);
        let mut looked = begun;
        loop {
            let sets = sets.list(&ListParams::default()).await?.into_iter();
            let away: i32 = sets.filter_map(|set| set.status?.number_unavailable).sum();
            most = most.max(away);
            if looked.elapsed() > 10 * LOOK {
                if self.uids().await?.is_disjoint(before) {
                    break;
                }
                looked = Instant::now();
            }
            ensure!(begun.elapsed() < LIMIT, "pods of before are still there");
            tokio::time::sleep(LOOK).await;
        }
        self.ready().await?;
        Ok(most)
    }

    /// Of all files that nodes get.
    async fn bytes(&self) -> Result<usize> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        let parameters = ListParams::default().labels("tf_manager=vrouter");
        let maps = maps.list(&parameters).await?.into_iter().flat_map(|map| map.data.unwrap_or_default());
        let secrets = secrets.list(&parameters).await?.into_iter().flat_map(|secret| secret.data.unwrap_or_default());
        Ok(maps.map(|(_, text)| text.len()).sum::<usize>() + secrets.map(|(_, text)| text.0.len()).sum::<usize>())
    }
}

/// A client that asks the API server for the same small object all the time.
struct Other {
    end: watch::Sender<bool>,
    task: JoinHandle<Result<Vec<f64>>>,
}

impl Other {
    fn begin(client: &Client) -> Self {
        let (end, ended) = watch::channel(false);
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let task = tokio::spawn(async move {
            let mut taken = Vec::new();
            while !*ended.borrow() {
                let begun = Instant::now();
                namespaces.get(NAMESPACE).await?;
                taken.push(begun.elapsed().as_secs_f64() * 1000.0);
                tokio::time::sleep(PAUSE).await;
            }
            Ok(taken)
        });
        Self { end, task }
    }

    async fn end(self) -> Result<(f64, f64)> {
        self.end.send_replace(true);
        let mut taken = self.task.await??;
        taken.sort_by(f64::total_cmp);
        let at = |hundredth: usize| taken.get(taken.len() * hundredth / 100).copied().unwrap_or_default();
        Ok((at(50), at(99)))
    }
}
