//! Watches are independent: one that is dead or forbidden holds up nothing else and is named. And they look where they
//! were told to look, and nowhere else.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds::ZOOKEEPER};
use tf_plan::object::{CONFIG_MAP, Kind};
use tf_testing::{
    Entry, Verb,
    operators::Run,
    proxy::{Answer, Fault, Match, WatchEnd, Which},
    resources::{self, Resource},
    wait::eventually,
};

use crate::support::{API, FLEET, PROBE, PROMPT, SOON, Stage, level, settings, through};

/// Longest pause of a watch between two attempts, with its jitter, and a little for the attempt itself.
const RETURN: Duration = Duration::from_secs(45);

const ROLE: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    version: "v1",
    kind: "Role",
    plural: "roles",
    namespaced: true,
    counts_generations: false,
};

fn zookeeper_is(resource: &Resource, reason: &str) -> bool {
    resource.condition("ZookeeperReady").is_some_and(|condition| condition.reason == reason)
}

async fn set_rules(stage: &Stage, rules: Value) -> Result<DynamicObject> {
    stage.edit(ROLE, "probe-op", json!({ "rules": rules })).await
}

/// What cannot be seen is not taken for absent: nothing is changed while nobody knows whether there is a ZooKeeper.
#[tokio::test]
async fn a_right_that_is_taken_away_is_named_changes_nothing_and_heals_when_it_is_given_back() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "denied", &[PROBE, ZOOKEEPER]).await?;
    stage.install_probe(&["denied"]).await?;
    let proxy = stage.lab.proxy().await?;
    let operator = stage.probe(through(&proxy)).await?;
    stage.apply(PROBE, "a", level("info")).await?;
    let before = stage.ready(PROBE, "a").await?;
    assert!(zookeeper_is(&before, "NotRequested"), "{}", before.explain("ZookeeperReady"));

    let rules = stage.api(ROLE).get("probe-op").await?.data["rules"].clone();
    let mut fewer = rules.clone();
    let all = fewer.as_array_mut().context("a role without rules")?;
    let count = all.len();
    all.retain(|rule| rule["resources"] != json!([ZOOKEEPER.plural]));
    ensure!(all.len() + 1 == count, "{rules}");
    set_rules(&stage, fewer).await?;
    // A watch under way is not ended by the API server when a right is taken away.
    let told = eventually("the missing right to be named", SOON, async || {
        proxy.end_watches(WatchEnd::Closed);
        let a = stage.get(PROBE, "a").await?;
        Ok(zookeeper_is(&a, "Forbidden").then_some(a))
    })
    .await?;
    let message = told.explain("ZookeeperReady");
    for word in ["system:serviceaccount:denied:probe-op", "zookeepers", "tf.tungsten.io", "denied", "give the operator"]
    {
        assert!(message.contains(word), "{word} is missing in: {message}");
    }
    assert!(!message.contains("Status {"), "a message for people: {message}");
    for condition in ["Ready", "DependenciesReady"] {
        assert!(told.condition(condition).is_some_and(|it| it.reason == "Forbidden"), "{}", told.explain(condition));
    }
    assert!(told.condition("Available").is_some_and(|it| it.status == "True"), "{}", told.explain("Available"));
    stage.apply(PROBE, "a", level("debug")).await?;
    is_waiting(&stage, "Forbidden").await?;
    stage.acted("a", "info", PROMPT).await?;

    set_rules(&stage, rules).await?;
    stage.until(PROBE, "a", "healed", RETURN, |a| zookeeper_is(a, "NotRequested")).await?;
    stage.acted("a", "debug", PROMPT).await?;
    assert!(operator.process.is_running());
    Ok(())
}

/// Resource `a` has been looked at as it is now, and waits for what cannot be seen.
async fn is_waiting(stage: &Stage, reason: &str) -> Result<Resource> {
    let waits = |a: &Resource| {
        let is_seen = a.status.observed_generation == Some(a.generation);
        is_seen && zookeeper_is(a, reason) && a.condition("Ready").is_some_and(|ready| ready.reason == reason)
    };
    stage.until(PROBE, "a", "waiting", SOON, waits).await
}

/// Every list succeeds and every watch after it is refused: whoever believed the list would change its mind, and wake every
/// resource, twice a second.
#[tokio::test]
async fn a_right_to_list_without_the_right_to_watch_is_named_and_not_tried_in_a_hurry() -> Result<()> {
    const WINDOW: Duration = Duration::from_secs(10);
    let stage = Stage::set(FLEET.get().await?, "listed", &[PROBE, ZOOKEEPER]).await?;
    stage.install_probe(&["listed"]).await?;
    let mut rules = stage.api(ROLE).get("probe-op").await?.data["rules"].clone();
    let theirs = |rule: &&mut Value| rule["resources"] == json!([ZOOKEEPER.plural]);
    let rule = rules.as_array_mut().into_iter().flatten().find(theirs).context("no rule for zookeepers")?;
    rule["verbs"] = json!(["get", "list"]);
    set_rules(&stage, rules).await?;
    let operator = stage.probe(Run::default()).await?;
    stage.apply(PROBE, "a", level("info")).await?;
    is_waiting(&stage, "Forbidden").await?;

    let mark = stage.mark().await?;
    tokio::time::sleep(WINDOW).await;
    let entries = stage.lab.audit().window(mark, stage.mark().await?)?;
    let tried: Vec<Entry> =
        entries.into_iter().filter(|entry| entry.user == operator.user && entry.resource == ZOOKEEPER.plural).collect();
    // A refused watch is in the log twice. Half a second, one, two, four, eight.
    let requests: BTreeSet<&str> = tried.iter().map(|entry| entry.id.as_str()).collect();
    assert!(requests.len() <= 5, "{:?}", crate::support::lines(&tried));
    let writes = stage.writes_since(mark, &operator.user).await?;
    assert!(writes.is_empty(), "{:?}", crate::support::lines(&writes));
    Ok(())
}

/// Every list of anything but the resources themselves, what they may depend on, and the lease fails from the very start.
#[tokio::test]
async fn an_operator_whose_other_watches_are_all_dead_still_does_its_work() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "dead", &[PROBE, ZOOKEEPER]).await?;
    stage.install_probe(&["dead"]).await?;
    let proxy = stage.lab.proxy().await?;
    let others = Match::when(|request| {
        let needed = [PROBE.plural, ZOOKEEPER.plural, "leases"];
        let needed = request.resource.is_empty() || needed.contains(&request.resource.as_str());
        matches!(request.verb, Verb::List | Verb::Watch) && !needed
    });
    proxy.add(others, Which::Every, Fault::Answer(Answer::internal_error()));
    let operator = stage.probe(through(&proxy)).await?;
    stage.apply(PROBE, "a", level("info")).await?;
    stage.ready(PROBE, "a").await?;
    for wanted in ["debug", "warning"] {
        stage.apply(PROBE, "a", level(wanted)).await?;
        stage.acted("a", wanted, PROMPT).await?;
    }

    proxy.clear();
    eventually("every watch to be synchronised", RETURN, async || {
        let (_, text) = operator.get("/metrics").await?;
        let mut watches = text.lines().filter(|line| line.starts_with("tf_watch_synced{"));
        Ok(watches.all(|line| line.ends_with(" 1")).then_some(()))
    })
    .await?;
    assert!(operator.process.is_running());
    Ok(())
}

/// The first pass waits until every watch has had its say, since what is not known must not look like what is not there.
/// A list without an answer has had its say when its request is given up, after 15 s; then it is named, and what may depend on it waits.
#[tokio::test]
async fn a_list_that_never_answers_is_named_after_one_request_and_waited_for() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "mute", &[PROBE, ZOOKEEPER]).await?;
    stage.install_probe(&["mute"]).await?;
    let proxy = stage.lab.proxy().await?;
    proxy.add(Match::resource("zookeepers"), Which::Every, Fault::Hang);
    stage.apply(PROBE, "a", level("info")).await?;
    let begun = Instant::now();
    let operator = stage.probe(through(&proxy)).await?;
    is_waiting(&stage, "APIError").await?;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(stage.api(CONFIG_MAP).get_opt(&settings("a")).await?.is_none());

    proxy.clear();
    stage.acted("a", "info", RETURN).await?;
    stage.ready(PROBE, "a").await?;
    assert!(operator.process.is_running());
    Ok(())
}

async fn namespaces(stage: &Stage, names: &[&str]) -> Result<()> {
    for name in names {
        stage.lab.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}")).await?;
        resources::apply(&stage.client, PROBE, name, "a", level("info")).await?;
    }
    Ok(())
}

async fn is_handled(stage: &Stage, namespace: &str) -> Result<()> {
    resources::ready(&stage.client, PROBE, namespace, "a", SOON).await?;
    stage.api_in(CONFIG_MAP, namespace).get(&settings("a")).await?;
    Ok(())
}

/// Nobody has looked at the resource of this namespace, let alone made anything for it.
async fn is_untouched(stage: &Stage, namespace: &str) -> Result<()> {
    let a = resources::get(&stage.client, PROBE, namespace, "a").await?.context("no resource")?;
    assert!(a.status.conditions.is_empty() && a.object.metadata.finalizers.is_none(), "{:?}", a.object);
    assert!(stage.api_in(CONFIG_MAP, namespace).get_opt(&settings("a")).await?.is_none());
    Ok(())
}

/// Requests of an operator with named namespaces that reach beyond them.
fn beyond<'a>(entries: &'a [Entry], user: &'a str, named: &'a [&'a str]) -> Vec<Entry> {
    let cluster_wide = |entry: &Entry| entry.namespace.is_empty() && entry.resource != "clusterroles";
    entries
        .iter()
        .filter(|entry| entry.user == user && !entry.resource.is_empty())
        .filter(|entry| cluster_wide(entry) || !entry.namespace.is_empty() && !named.contains(&&*entry.namespace))
        .cloned()
        .collect()
}

#[tokio::test]
async fn an_operator_works_in_the_one_or_the_several_namespaces_it_was_given() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "scope-one", &[PROBE, ZOOKEEPER]).await?;
    namespaces(&stage, &["scope-one", "scope-two", "scope-none"]).await?;
    let several = ["scope-one", "scope-two"];
    for named in [&several[..1], &several[..]] {
        let mark = stage.mark().await?;
        stage.install_probe(named).await?;
        let operator = stage.probe(Run::default()).await?;
        for namespace in named {
            is_handled(&stage, namespace).await?;
        }
        for namespace in ["scope-two", "scope-none"] {
            if !named.contains(&namespace) {
                is_untouched(&stage, namespace).await?;
            }
        }
        let entries = stage.lab.audit().window(mark, stage.mark().await?)?;
        let beyond = beyond(&entries, &operator.user, named);
        assert!(beyond.is_empty(), "{:?}", crate::support::lines(&beyond));
        // Ended by request when it is dropped, so the next one finds the lease free.
    }
    Ok(())
}

#[tokio::test]
async fn an_operator_without_named_namespaces_works_in_all_also_in_those_that_come_later() -> Result<()> {
    let kinds: [KindInfo; 2] = [PROBE, ZOOKEEPER];
    let stage = Stage::set(API.get().await?, "scope-all", &kinds).await?;
    namespaces(&stage, &["scope-all", "scope-other"]).await?;
    stage.install_probe(&[]).await?;
    let mark = stage.mark().await?;
    let operator = stage.probe(Run::default()).await?;
    is_handled(&stage, "scope-all").await?;
    is_handled(&stage, "scope-other").await?;
    namespaces(&stage, &["scope-later"]).await?;
    is_handled(&stage, "scope-later").await?;
    // One watch of each kind serves every namespace.
    let entries = stage.lab.audit().window(mark, stage.mark().await?)?;
    let narrow = |entry: &&Entry| {
        entry.user == operator.user && entry.verb == Verb::Watch && !entry.namespace.is_empty() && !entry.is_lease()
    };
    let narrow: Vec<Entry> = entries.iter().filter(narrow).cloned().collect();
    assert!(narrow.is_empty(), "{:?}", crate::support::lines(&narrow));
    Ok(())
}
