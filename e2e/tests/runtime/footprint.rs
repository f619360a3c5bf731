//! What is none of an operator's business costs it nothing: no memory, no requests.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use tf_plan::object::{Kind, POD, SECRET};
use tf_testing::{
    Verb, audit,
    operators::{self, Install, Operator, Run},
    wait::eventually,
};

use crate::support::{API, QUIET, SOON, Stage, terminate};

/// Foreign objects of each kind.
const FOREIGN: usize = 10_000;
/// What the allocator may keep of a kind's lists or of events that went by, in KiB. One kept object would be about one KiB.
const KEPT: u64 = 2 * 1024;

/// Memory in KiB.
#[derive(Clone, Copy, Default, PartialEq)]
struct Memory {
    resident: u64,
    /// Without code, of which more becomes resident when more of it runs.
    own: u64,
}

/// Memory when it has stopped moving.
async fn memory(operator: &Operator) -> Result<Memory> {
    let mut last = Memory::default();
    eventually("memory to settle", SOON, async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let usage = operator.process.usage().context("it ended")?;
        let now = Memory { resident: usage.rss_bytes / 1024, own: usage.anonymous_bytes / 1024 };
        let before = std::mem::replace(&mut last, now);
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

/// Memory of an operator that starts now, which ends again.
async fn memory_at_start(stage: &Stage, name: &'static str) -> Result<Memory> {
    let mut operator = start(stage, name).await?;
    let memory = memory(&operator).await?;
    terminate(&mut operator, SOON).await?;
    Ok(memory)
}

/// Foreign objects in the very namespace that is watched. config-op, which has the most watches, two of them of Secrets,
/// sees them come; all operators find them when they start and have to read their names once.
#[tokio::test]
async fn ten_thousand_foreign_secrets_and_as_many_pods_cost_no_memory_and_no_requests() -> Result<()> {
    let stage = Stage::set(API.get().await?, "foreign", &[]).await?;
    let mut empty = BTreeMap::new();
    for name in operators::ALL {
        stage.lab.install(name, "foreign", &Install::default()).await?;
        empty.insert(name, memory_at_start(&stage, name).await?);
    }
    let operator = start(&stage, "config-op").await?;

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
    let mut measured = vec![("config-op, running", empty["config-op"], memory(&operator).await?)];

    let mark = stage.mark().await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let entries = stage.lab.audit().window(mark, stage.mark().await?)?;
    // Watches end after five minutes all at once, as they began, and that may be now.
    let entries = entries.iter().filter(|entry| entry.verb != Verb::Watch);
    let asked = audit::count_by_user(entries).get(&operator.user).copied().unwrap_or_default();
    drop(operator);

    for name in operators::ALL {
        measured.push((name, empty[name], memory_at_start(&stage, name).await?));
    }
    let line = |(name, without, with): &(&str, Memory, Memory)| {
        format!("{name}: {} KiB without, {} KiB with, {} KiB resident", without.own, with.own, with.resident)
    };
    let report = measured.iter().map(line).collect::<Vec<_>>().join("\n");
    println!("{FOREIGN} Secrets and as many Pods:\n{report}\n{} requests in 20 s", asked.total);
    for (name, without, with) in measured {
        let kept = KEPT * operators::kinds_of(name) as u64;
        assert!(with.own.saturating_sub(without.own) <= kept, "{name} keeps what is not its own\n{report}");
        assert!(with.own <= operators::largest_own(name), "{name} is too large\n{report}");
    }
    assert_eq!(asked.writes(), 0);
    assert!(asked.total <= 4, "more than a dozen requests a minute: {asked:?}");
    Ok(())
}
