//! Single requests go wrong, or many: nothing wrong is done, nobody else is held up, and the process lives on.
//!
//! Each test has a proxy of its own between its operator and the API server, so a fault hits that operator alone.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams},
};
use serde_json::json;
use tf_plan::object::{CONFIG_MAP, Kind, POD, STATEFUL_SET};
use tf_testing::{
    Mark, Proxy, Verb,
    operators::Operator,
    proxy::{Answer, Fault, Match, Outcome, ResetAt, WatchEnd, Which},
    resources::Resource,
    wait::eventually,
};

use crate::support::{
    FLEET, History, PROBE, PROMPT, SOON, Stage, about, is_of, level, lines, settings, through, times,
    writes_of_settings,
};

/// What a busy machine adds to a pause.
const BUSY: Duration = Duration::from_secs(2);

/// The bystander once nothing of it has changed for a while: its controllers write for a moment after it is Ready.
async fn settled(stage: &Stage) -> Result<Vec<String>> {
    let mut last = fingerprint(stage).await?;
    eventually("the bystander to be at rest", SOON, async || {
        tokio::time::sleep(BUSY).await;
        let now = fingerprint(stage).await?;
        let is_at_rest = now == last;
        last.clone_from(&now);
        Ok(is_at_rest.then_some(now))
    })
    .await
}

/// One resource that faults are about, another that they are not about, and the operator of both behind a proxy.
pub struct Scene {
    pub stage: Stage,
    pub proxy: Proxy,
    pub operator: Operator,
    bystander: Vec<String>,
    mark: Mark,
}

impl Scene {
    /// Resource `a`, and resource `bystander` with a pod, both Ready.
    pub async fn set(namespace: &str) -> Result<Self> {
        let stage = Stage::set(FLEET.get().await?, namespace, &[PROBE]).await?;
        stage.nodes(1).await?;
        stage.install_probe(&[namespace]).await?;
        let proxy = stage.lab.proxy().await?;
        let operator = stage.probe(through(&proxy)).await?;
        let mut configuration = stage.placed();
        configuration["replicas"] = json!(1);
        stage.apply(PROBE, "bystander", json!({ "commonConfiguration": configuration })).await?;
        stage.apply(PROBE, "a", level("info")).await?;
        stage.ready(PROBE, "a").await?;
        stage.ready(PROBE, "bystander").await?;
        let bystander = settled(&stage).await?;
        let mark = stage.mark().await?;
        Ok(Self { stage, proxy, operator, bystander, mark })
    }

    /// The process lives, the bystander is as it was to the last byte, its pod is the same, and nothing was written but
    /// objects of the named resources. Deletions are never right here.
    pub async fn nothing_wrong_was_done(&self, touched: &[&str]) -> Result<()> {
        ensure!(self.operator.process.is_running(), "the operator ended:\n{}", self.operator.process.tail(20));
        assert_eq!(fingerprint(&self.stage).await?, self.bystander, "the bystander was touched");
        let writes = self.stage.writes_since(self.mark, &self.operator.user).await?;
        let mut wrong = writes;
        wrong.retain(|write| {
            let deletes = matches!(write.verb, Verb::Delete | Verb::DeleteCollection);
            let expected = write.resource == "events" || touched.iter().any(|name| is_of(name, &write.name));
            deletes || !expected
        });
        assert!(wrong.is_empty(), "{:#?}", lines(&wrong));
        Ok(())
    }

    /// Waits until the operator says that it tries so many resources again later. It counts when a pass is over, which is a
    /// moment after the pass has written the status.
    async fn in_backoff(&self, count: u32) -> Result<()> {
        eventually(&format!("{count} resources in back-off"), PROMPT, async || {
            let counted = self.operator.metric("tf_resources_in_backoff", &[]).await?;
            Ok((counted.to_string() == count.to_string()).then_some(()))
        })
        .await
    }

    /// Seconds between requests that match and were answered with 500, of those after the first `skipped` of all.
    fn pauses(&self, when: &Match, skipped: usize) -> Vec<f64> {
        let mut attempts = self.proxy.seen();
        attempts.drain(..skipped);
        attempts.retain(|seen| seen.outcome == Outcome::Injected(500) && when.matches(&seen.request));
        attempts.windows(2).map(|pair| pair[1].arrived.duration_since(pair[0].arrived).as_secs_f64()).collect()
    }

    async fn failed_passes(&self) -> Result<String> {
        let failed = self.operator.metric("tf_reconcile_total", &[r#"outcome="failed""#]).await?;
        Ok(failed.to_string())
    }
}

/// Everything of the bystander, by version; of its pods only which they are, since kubelets write to them.
async fn fingerprint(stage: &Stage) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for kind in [Kind::custom(PROBE), CONFIG_MAP, STATEFUL_SET, POD] {
        let objects = stage.api(kind).list(&ListParams::default()).await?.items;
        let ours = objects.iter().filter(|object| is_of("bystander", &object.name_any()));
        let version = |object: &DynamicObject| if kind == POD { object.uid() } else { object.resource_version() };
        found.extend(ours.map(|object| format!("{} {} {:?}", kind.kind, object.name_any(), version(object))));
    }
    ensure!(found.len() == 4, "the bystander is not complete: {found:?}");
    Ok(found)
}

fn blames(resource: &Resource, condition: &str, reason: &str, words: &str) -> bool {
    resource.condition(condition).is_some_and(|found| found.reason == reason && found.message.contains(words))
}

#[tokio::test]
async fn a_conflict_on_an_object_or_on_the_status_is_tried_again() -> Result<()> {
    let scene = Scene::set("conflicts").await?;
    let status = Match::when(|request| request.name == "a" && request.subresource == "status");
    scene.proxy.add(writes_of_settings("a"), Which::First(1), Fault::Answer(Answer::conflict()));
    scene.proxy.add(status.clone(), Which::First(1), Fault::Answer(Answer::conflict()));
    scene.stage.apply(PROBE, "a", level("debug")).await?;
    scene.stage.acted("a", "debug", SOON).await?;
    scene.stage.ready(PROBE, "a").await?;
    for refused in [writes_of_settings("a"), status] {
        assert_eq!(times(&scene.proxy, &refused, Outcome::Injected(409)), 1);
    }
    scene.nothing_wrong_was_done(&["a"]).await
}

#[tokio::test]
async fn a_server_that_asks_to_come_back_later_is_asked_again_when_it_said_and_not_before() -> Result<()> {
    let scene = Scene::set("patience").await?;
    let failed = scene.failed_passes().await?;
    let asked = Duration::from_secs(3);
    scene.proxy.add(writes_of_settings("a"), Which::First(1), Fault::Answer(Answer::too_many_requests(asked)));
    let begun = Instant::now();
    scene.stage.apply(PROBE, "a", level("debug")).await?;
    scene.stage.acted("a", "debug", asked + PROMPT).await?;
    assert!(begun.elapsed() >= asked, "asked again after {:?}", begun.elapsed());
    let writes = writes_of_settings("a");
    assert_eq!(times(&scene.proxy, &writes, Outcome::Injected(429)), 1);
    assert_eq!(times(&scene.proxy, &writes, Outcome::Answered(200)), 1, "once more, and no oftener");
    assert_eq!(scene.failed_passes().await?, failed, "to wait as told is no failure");
    scene.stage.ready(PROBE, "a").await?;
    scene.nothing_wrong_was_done(&["a"]).await
}

#[tokio::test]
async fn one_server_error_does_not_show_and_one_that_lasts_is_told_until_it_is_over() -> Result<()> {
    let scene = Scene::set("errors").await?;
    let history = History::of(&scene.stage, PROBE, "a").await?;
    let spoil = async || {
        let edit = json!({ "data": { "level": "spoilt" } });
        scene.stage.edit(CONFIG_MAP, &settings("a"), edit).await
    };
    scene.proxy.add(writes_of_settings("a"), Which::First(1), Fault::Answer(Answer::internal_error()));
    spoil().await?;
    scene.stage.acted("a", "info", SOON).await?;
    assert_eq!(times(&scene.proxy, &writes_of_settings("a"), Outcome::Injected(500)), 1);
    let versions = history.versions()?;
    assert!(versions.is_empty(), "a lost request is no reason to call a resource not Ready: {versions:#?}");

    let about_bystander = Match::when(|request| is_of("bystander", &request.name));
    let asked = scene.proxy.seen().len();
    let lasting = scene.proxy.add(writes_of_settings("a"), Which::Every, Fault::Answer(Answer::internal_error()));
    spoil().await?;
    let told = scene
        .stage
        .until(PROBE, "a", "said to fail", SOON, |a| blames(a, "Ready", "APIError", "injected by the lab's proxy"))
        .await?;
    assert!(told.is("Degraded", "True") && told.is("Available", "True"), "{}", told.explain("Available"));
    assert!(told.condition("Stalled").is_none(), "trying again may help: {}", told.explain("Stalled"));
    scene.in_backoff(1).await?;
    let pauses = eventually("four attempts", SOON, async || {
        let pauses = scene.pauses(&writes_of_settings("a"), asked);
        Ok((pauses.len() >= 3).then_some(pauses))
    })
    .await?;
    for (pause, least) in pauses.iter().zip([1.0, 2.0, 4.0]) {
        let most = least * 1.25 + BUSY.as_secs_f64();
        assert!((least..most).contains(pause), "pauses of {pauses:?} s are not 1 s, 2 s, 4 s and up to a quarter more");
    }
    scene.proxy.remove(lasting);
    scene.stage.acted("a", "info", SOON).await?;
    scene.stage.ready(PROBE, "a").await?;
    scene.in_backoff(0).await?;
    let seen = scene.proxy.seen();
    let disturbed: Vec<_> = seen[asked..].iter().filter(|seen| about_bystander.matches(&seen.request)).collect();
    assert!(disturbed.is_empty(), "{disturbed:#?}");
    scene.nothing_wrong_was_done(&["a"]).await
}

#[tokio::test]
async fn a_request_that_is_never_answered_is_given_up_and_holds_up_no_other_resource() -> Result<()> {
    let scene = Scene::set("hung").await?;
    let hung = scene.proxy.add(writes_of_settings("a"), Which::Every, Fault::Hang);
    let gone = |count| {
        let proxy = &scene.proxy;
        eventually("a request to hang", SOON, async move || {
            Ok((times(proxy, &writes_of_settings("a"), Outcome::Dropped) >= count).then_some(()))
        })
    };
    scene.stage.apply(PROBE, "a", level("debug")).await?;
    gone(1).await?;
    for wanted in ["warning", "error"] {
        scene.stage.apply(PROBE, "other", level(wanted)).await?;
        scene.stage.acted("other", wanted, PROMPT).await?;
    }
    gone(2).await.context("the first request was not given up")?;
    scene.proxy.remove(hung);
    let acted = scene.stage.acted("a", "debug", SOON).await;
    acted.with_context(|| scene.operator.process.tail(20))?;
    scene.stage.ready(PROBE, "a").await?;
    scene.nothing_wrong_was_done(&["a", "other"]).await
}

/// Takes the whole minute that a pass is allowed, and is slow on purpose: each request ends within its own limit.
#[tokio::test]
async fn a_pass_that_does_not_end_within_a_minute_is_given_up_and_said_so() -> Result<()> {
    let scene = Scene::set("overdue").await?;
    let slow = scene.proxy.add(about("slow"), Which::Every, Fault::Delay(Duration::from_secs(12)));
    scene.stage.apply(PROBE, "slow", level("debug")).await?;
    tokio::time::sleep(Duration::from_secs(5)).await; // In the middle of it.
    scene.stage.apply(PROBE, "a", level("warning")).await?;
    scene.stage.acted("a", "warning", PROMPT).await?;
    // What is said takes the same slow way within a quarter of a minute; on a busy machine the next pass says it.
    let limit = Duration::from_secs(180);
    let told = scene
        .stage
        .until(PROBE, "slow", "given up", limit, |slow| blames(slow, "Ready", "APIError", "did not end within 60 s"))
        .await?;
    assert!(told.is("Degraded", "True"), "{}", told.explain("Degraded"));
    scene.proxy.remove(slow);
    scene.stage.acted("slow", "debug", SOON).await?;
    scene.stage.ready(PROBE, "slow").await?;
    scene.nothing_wrong_was_done(&["a", "slow"]).await
}

#[tokio::test]
async fn watches_that_are_dropped_cut_or_expired_miss_nothing() -> Result<()> {
    let scene = Scene::set("dropped").await?;
    let (proxy, stage) = (&scene.proxy, &scene.stage);
    let recovery = Duration::from_secs(5);
    proxy.end_watches(WatchEnd::Closed);
    stage.apply(PROBE, "a", level("debug")).await?;
    stage.acted("a", "debug", recovery).await?;
    proxy.end_watches(WatchEnd::Expired);
    stage.apply(PROBE, "a", level("warning")).await?;
    stage.acted("a", "warning", recovery).await?;

    // Several times in a row: expired as it begins, or cut in the middle of an event. After each cut the pause doubles, and
    // all of them may meet one watch.
    for (fault, times, wanted) in [(Fault::WatchExpired, 16, "error"), (Fault::Reset(ResetAt::Body(20)), 5, "critical")]
    {
        proxy.add(Match::verb(Verb::Watch), Which::First(times), fault);
        proxy.end_watches(WatchEnd::Closed);
        stage.apply(PROBE, "a", level(wanted)).await?;
        stage.acted("a", wanted, SOON).await?;
        stage.apply(PROBE, "a", level("info")).await?;
        stage.acted("a", "info", SOON).await?;
    }
    stage.ready(PROBE, "a").await?;
    scene.nothing_wrong_was_done(&["a"]).await
}

#[tokio::test]
async fn what_was_deleted_while_no_watch_looked_is_made_anew() -> Result<()> {
    let scene = Scene::set("blind").await?;
    let (proxy, stage) = (&scene.proxy, &scene.stage);
    let looks = Match::when(|request| matches!(request.verb, Verb::List | Verb::Watch));
    let blind = Fault::Answer(Answer::internal_error());
    let rule = proxy.add(looks.clone().and(Match::resource("configmaps")), Which::Every, blind);
    proxy.end_watches(WatchEnd::Expired);
    eventually(
        "the watch to fail",
        SOON,
        async || Ok((times(proxy, &looks, Outcome::Injected(500)) > 0).then_some(())),
    )
    .await?;
    let old = stage.api(CONFIG_MAP).get(&settings("a")).await?;
    stage.api(CONFIG_MAP).delete(&settings("a"), &DeleteParams::default()).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(stage.api(CONFIG_MAP).get_opt(&settings("a")).await?.is_none(), "it was not blind");
    proxy.remove(rule);
    let new = stage.acted("a", "info", SOON).await?;
    assert_ne!(new.uid(), old.uid());
    scene.nothing_wrong_was_done(&["a"]).await
}
