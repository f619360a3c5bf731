//! What people and monitors see of an operator: health, metrics, events, and that it stops when it is asked to.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, events::v1::Event};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};
use tf_api::{
    contract::{Contract, invariants},
    kinds::ZOOKEEPER,
};
use tf_plan::{
    metrics::{self, Told, Type},
    object::Kind,
};
use tf_testing::{
    operators::Run,
    proxy::{Answer, Fault, Match, Outcome, WatchEnd, Which},
    wait::eventually,
};

use crate::support::{
    FLEET, History, PROBE, PROMPT, SOON, Stage, about, level, terminate, through, times, writes_of_settings,
};

/// Series of the table that a probe tells, with their labels: it has no members with agents, and registers nothing.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let told = metrics::OPERATOR.into_iter().chain(metrics::PROCESS);
    let told = told.filter(|metric| !matches!(metric.told, Told::OfMembers | Told::OfRegistered | Told::OfRings));
    let told = told.filter(|metric| metric.name != metrics::REGISTRATION_CALLS.name);
    let series = told.flat_map(|metric| {
        let suffixes: &[(&str, &[&str])] = match metric.kind {
            Type::Histogram => &[("_bucket", &["le"]), ("_sum", &[]), ("_count", &[])],
            Type::Counter | Type::Gauge => &[("", &[])],
        };
        suffixes.iter().map(move |(suffix, more)| {
            let labels = metric.labels.iter().chain(*more).map(|label| (*label).to_owned());
            (format!("{}{suffix}", metric.name), labels.collect())
        })
    });
    series.collect()
}

/// Labels that name a resource, and a moment, hence have values of their own.
const OPEN: [&str; 3] = ["resource_namespace", "resource_name", "le"];

/// Every value that a label may have here, numbers of buckets apart.
const VALUES: [&str; 38] = [
    "Available",
    "CertificatesReady",
    "ClusterRole",
    "ConfigMap",
    "Degraded",
    "DependenciesReady",
    "Event",
    "False",
    "Hibernated",
    "Paused",
    "Pod",
    "Progressing",
    "Ready",
    "Redis",
    "Secret",
    "Stalled",
    "StatefulSet",
    "True",
    "Unknown",
    "Zookeeper",
    "changed",
    "create",
    "created",
    "delete",
    "deleted",
    "deleting",
    "failed",
    "false",
    "get",
    "invalid",
    "patch",
    "planned",
    "true",
    "unchanged",
    "unknown",
    "update",
    "waiting",
    "watch",
];

type Labels = BTreeMap<String, String>;

fn parse(text: &str) -> Result<Vec<(String, Labels)>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parse = |line: &str| {
        let (series, _) = line.rsplit_once(' ').with_context(|| line.to_owned())?;
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let pairs = labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('='));
        let labels = pairs.map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned())).collect();
        anyhow::Ok((name.to_owned(), labels))
    };
    lines.map(parse).collect()
}

#[tokio::test]
async fn names_and_labels_of_metrics_are_those_of_the_table_and_nothing_is_left_of_a_resource_that_is_gone()
-> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "metrics", &[PROBE, ZOOKEEPER]).await?;
    stage.install_probe(&["metrics"]).await?;
    let proxy = stage.lab.proxy().await?;
    let operator = stage.probe(through(&proxy)).await?;
    for name in ["a", "with-a-name-of-its-own"] {
        stage.apply(PROBE, name, level("info")).await?;
        stage.ready(PROBE, name).await?;
    }
    proxy.add(writes_of_settings("a"), Which::First(1), Fault::Answer(Answer::internal_error()));
    proxy.end_watches(WatchEnd::Expired);
    stage.apply(PROBE, "a", level("debug")).await?;
    stage.acted("a", "debug", SOON).await?;

    // One with pods, which nobody runs here.
    stage.apply(PROBE, "with-members", json!({ "commonConfiguration": { "replicas": 1 } })).await?;
    eventually("members to be counted", SOON, async || {
        Ok((operator.metric("tf_members_wanted", &["with-members"]).await? > 0.0).then_some(()))
    })
    .await?;

    let (_, text) = operator.get("/metrics").await?;
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, mut labels) in parse(&text)? {
        assert_eq!(labels.remove("operator").as_deref(), Some("probe-op"), "{name}");
        let keys = labels.keys().cloned().collect::<BTreeSet<_>>();
        for (key, value) in labels {
            assert!(OPEN.contains(&key.as_str()) || VALUES.contains(&value.as_str()), "{name}: {key}={value}");
        }
        assert_eq!(found.entry(name.clone()).or_insert_with(|| keys.clone()), &keys, "{name}");
    }
    assert_eq!(found, documented());

    stage.api(Kind::custom(PROBE)).delete("a", &DeleteParams::default()).await?;
    eventually("nothing of the resource that is gone", SOON, async || {
        let (_, text) = operator.get("/metrics").await?;
        let others = text.contains("resource_name=\"with-a-name-of-its-own\"");
        ensure!(others, "the other one is told no more: {text}");
        Ok((!text.contains("resource_name=\"a\"")).then_some(()))
    })
    .await?;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(operator.get(path).await?, (200, "ok\n".to_owned()), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn each_line_of_the_log_is_an_object_with_time_level_and_message() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "logged", &[PROBE]).await?;
    stage.install_probe(&["logged"]).await?;
    let proxy = stage.lab.proxy().await?;
    let mut operator = stage.probe(through(&proxy)).await?;
    proxy.add(writes_of_settings("a"), Which::First(1), Fault::Answer(Answer::internal_error()));
    stage.apply(PROBE, "a", level("info")).await?;
    stage.ready(PROBE, "a").await?;
    terminate(&mut operator, SOON).await?;

    let mut levels = BTreeSet::new();
    for line in fs::read_to_string(operator.process.log())?.lines() {
        let told: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let text = |field: &str| told[field].as_str().with_context(|| format!("no {field}: {line}"));
        text("timestamp")?.parse::<Timestamp>().with_context(|| line.to_owned())?;
        ensure!(!text("message")?.is_empty(), "{line}");
        levels.insert(text("level")?.to_owned());
    }
    assert_eq!(levels, ["INFO", "WARN"].map(str::to_owned).into(), "the failed write is a warning");
    Ok(())
}

/// Reasons of the events about a resource and how often each was told.
async fn told(stage: &Stage, name: &str) -> Result<BTreeMap<String, i32>> {
    let events: Api<Event> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let mut told = BTreeMap::new();
    for event in events.list(&ListParams::default()).await? {
        let about = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
        if about == Some(name) && event.reporting_controller.as_deref() == Some("probe-op") {
            let times = event.series.as_ref().map_or(1, |series| series.count);
            *told.entry(event.reason.unwrap_or_default()).or_insert(0) += times;
        }
    }
    Ok(told)
}

#[tokio::test]
async fn a_transition_is_told_once_and_every_status_on_the_way_keeps_the_contract() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "events", &[PROBE]).await?;
    stage.install_probe(&["events"]).await?;
    let mut operator = stage.probe(Run::default()).await?;
    let history = History::of(&stage, PROBE, "a").await?;
    let is_told = async |expected: &[(&str, i32)]| {
        let expected: BTreeMap<String, i32> = expected.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        eventually(&format!("exactly these events: {expected:?}"), SOON, async || {
            let told = told(&stage, "a").await?;
            ensure!(told.iter().all(|(reason, times)| expected.get(reason) >= Some(times)), "{told:?}");
            Ok((told == expected).then_some(()))
        })
        .await
    };
    stage.apply(PROBE, "a", level("info")).await?;
    stage.ready(PROBE, "a").await?;
    is_told(&[("Ready", 1)]).await?;

    // Neither another process nor another pass is news.
    terminate(&mut operator, SOON).await?;
    let operator = stage.probe(Run::default()).await?;
    eventually("a pass", SOON, async || {
        Ok((operator.metric("tf_reconcile_total", &[r#"outcome="planned""#]).await? > 0.0).then_some(()))
    })
    .await?;
    is_told(&[("Ready", 1)]).await?;

    stage.apply(PROBE, "a", json!({ "version": "0.0" })).await?;
    let invalid = stage.until(PROBE, "a", "stalled", SOON, |a| a.is("Stalled", "True")).await?;
    let reason = invalid.condition("Stalled").context("no reason")?.reason.clone();
    is_told(&[("Ready", 1), (&reason, 1)]).await?;
    stage.apply(PROBE, "a", level("debug")).await?;
    stage.ready(PROBE, "a").await?;
    is_told(&[("Ready", 2), (&reason, 1)]).await?;

    let versions = history.versions()?;
    let mut statuses = 0;
    for version in &versions {
        let status = version.data.get("status").cloned().unwrap_or_default();
        if status.get("contract").is_some() {
            let contract: Contract = serde_json::from_value(status)?;
            // The spec may have moved on before the status that describes its predecessor arrived.
            ensure!(Some(contract.observed_generation) <= version.metadata.generation);
            invariants::check(&contract, contract.observed_generation)?;
            statuses += 1;
        }
    }
    ensure!(statuses >= 5, "only {statuses} of {} versions had a status", versions.len());
    Ok(())
}

#[tokio::test]
async fn a_request_to_stop_lets_the_pass_under_way_finish_and_frees_the_lease() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "stopped", &[PROBE]).await?;
    stage.install_probe(&["stopped"]).await?;
    let proxy = stage.lab.proxy().await?;
    let mut operator = stage.probe(through(&proxy)).await?;
    let slow = about("a").and(Match::writes());
    proxy.add(slow.clone(), Which::Every, Fault::Delay(Duration::from_millis(700)));
    stage.apply(PROBE, "a", level("info")).await?;
    let roles = Match::resource("clusterroles").and(Match::writes());
    eventually("the pass to be half done", SOON, async || {
        Ok((times(&proxy, &roles, Outcome::Answered(201)) > 0).then_some(()))
    })
    .await?;
    let took = terminate(&mut operator, SOON).await?;
    assert!(took < Duration::from_secs(5), "it took {took:?} to end");
    stage.acted("a", "info", PROMPT).await?;
    let a = stage.get(PROBE, "a").await?;
    assert!(a.is_ready(), "{}", a.explain("Ready"));
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), "stopped");
    let lease = leases.get("probe-op").await?.spec.context("an empty lease")?;
    assert_eq!(lease.holder_identity, None);
    Ok(())
}

#[tokio::test]
async fn a_request_that_is_never_answered_does_not_keep_the_process_from_stopping() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "stopping", &[PROBE]).await?;
    stage.install_probe(&["stopping"]).await?;
    let proxy = stage.lab.proxy().await?;
    let mut operator = stage.probe(through(&proxy)).await?;
    proxy.add(writes_of_settings("a"), Which::Every, Fault::Hang);
    stage.apply(PROBE, "a", level("info")).await?;
    eventually("a request to hang", SOON, async || {
        Ok((times(&proxy, &writes_of_settings("a"), Outcome::Dropped) > 0).then_some(()))
    })
    .await?;
    // A kubelet kills after 30 s.
    let took = terminate(&mut operator, SOON).await?;
    assert!(took < Duration::from_secs(15), "it took {took:?} to end");
    Ok(())
}

#[tokio::test]
async fn without_election_a_process_works_and_goes_on_working_and_asks_for_no_lease() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "alone", &[PROBE]).await?;
    stage.install_probe(&["alone"]).await?;
    let alone = Run { env: vec![("LEADER_ELECTION".into(), "false".into())], ..Run::default() };
    let operator = stage.probe(alone).await?;
    for wanted in ["info", "debug"] {
        stage.apply(PROBE, "a", level(wanted)).await?;
        stage.acted("a", wanted, SOON).await?;
    }
    stage.ready(PROBE, "a").await?;
    assert!(operator.process.is_running());
    assert!(operator.metric("tf_leader", &[]).await? > 0.0);
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), "alone");
    assert!(leases.get_opt("probe-op").await?.is_none(), "somebody campaigned");
    Ok(())
}
