//! What is none of an operator's business costs it nothing: no memory, no requests.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use tf_plan::object::{Kind, POD, SECRET};
use tf_testing::{
    audit,
    operators::{Install, Operator, Run},
    wait::eventually,
};

use crate::support::{API, QUIET, SOON, Stage};

/// Foreign objects of each kind.
const FOREIGN: usize = 10_000;
/// What the allocator may keep of a list or of events that went by, in KiB. One kept object would be about one KiB.
const KEPT: u64 = 2 * 1024;

/// Resident memory in KiB, when it has stopped moving.
async fn resident(operator: &Operator) -> Result<u64> {
    let now = || Some(operator.process.usage()?.rss_bytes / 1024);
    let mut last = 0;
    eventually("memory to settle", SOON, async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = std::mem::replace(&mut last, now().context("it ended")?);
        Ok((before == last).then_some(last))
    })
    .await
}

async fn create(stage: &Stage, kind: Kind, object: impl Fn(usize) -> Value) -> Result<()> {
    let api = stage.api(kind);
    stream::iter((0..FOREIGN).map(object))
        .map(|object| {
            let api = api.clone();
            async move {
                let object: DynamicObject = serde_json::from_value(object)?;
                api.create(&PostParams::default(), &object).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(6)
        .try_collect()
        .await
}

async fn start(stage: &Stage, name: &'static str) -> Result<Operator> {
    let operator = stage.lab.operate(name, &stage.namespace, &Run::default()).await?;
    operator.ready().await?;
    Ok(operator)
}

/// Foreign objects in the very namespace that is watched. config-op has the most watches, two of them of Secrets.
#[tokio::test]
async fn ten_thousand_foreign_secrets_and_as_many_pods_cost_no_memory_and_no_requests() -> Result<()> {
    let stage = Stage::set(API.get().await?, "foreign", &[]).await?;
    stage.lab.install("config-op", "foreign", &Install::default()).await?;
    let operator = start(&stage, "config-op").await?;
    let empty = resident(&operator).await?;

    let secret = |number| {
        let text = format!("{number:0>256}");
        json!({ "metadata": { "name": format!("foreign-{number}") }, "stringData": { "a": text } })
    };
    let pod = |number| {
        json!({
            "metadata": { "name": format!("foreign-{number}"), "labels": { "app": "foreign" } },
            "spec": { "containers": [{ "name": "a", "image": "none" }] },
        })
    };
    {
        let _busy = QUIET.write().await;
        tokio::try_join!(create(&stage, SECRET, secret), create(&stage, POD, pod))?;
    }
    let after = resident(&operator).await?;

    let mark = stage.mark().await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let entries = stage.lab.audit().window(mark, stage.mark().await?)?;
    let asked = audit::count_by_user(&entries).get(&operator.user).copied().unwrap_or_default();
    drop(operator);

    // One that finds them when it starts has to read their names once.
    let begun = resident(&start(&stage, "config-op").await?).await?;
    let grown = |to: u64| to.saturating_sub(empty);
    let report = format!("{empty} KiB without, {after} KiB with, {begun} KiB started with {FOREIGN} Secrets and Pods");
    println!("{report}; {} requests in 20 s", asked.total);
    assert!(grown(after) <= KEPT && grown(begun) <= KEPT, "{report}");
    assert_eq!(asked.writes(), 0);
    assert!(asked.total <= 4, "more than ten requests a minute: {asked:?}");
    Ok(())
}
