//! The proxy makes chosen requests go wrong, and only those.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use tf_testing::proxy::{Answer, Fault, Match, Outcome, Point, Proxy, ResetAt, WatchEnd, Which};
use tf_testing::{Lab, Verb, lab};

use crate::{API, SOON, config_map, impatient, writer};

struct Proxied {
    proxy: Proxy,
    client: Client,
    maps: Api<ConfigMap>,
    /// Kept alive for as long as the test runs.
    _lab: Arc<Lab>,
}

async fn proxied(namespace: &str) -> Result<Proxied> {
    let lab = API.get().await?;
    let proxy = lab.proxy().await?;
    let kubeconfig = proxy.kubeconfig(&writer(&lab, namespace).await?)?;
    assert_eq!(fs::metadata(&kubeconfig)?.permissions().mode() & 0o777, 0o600);
    let client = impatient(&kubeconfig).await?;
    Ok(Proxied { proxy, maps: Api::default_namespaced(client.clone()), client, _lab: lab })
}

fn status(outcome: kube::Result<ConfigMap>) -> Option<(u16, String)> {
    match outcome {
        Err(kube::Error::Api(status)) => Some((status.code, status.reason)),
        _ => None,
    }
}

/// True for what a client sees of a broken connection: an error that is not an answer.
fn broken<T>(outcome: &kube::Result<T>) -> bool {
    matches!(outcome, Err(kube::Error::HyperError(_) | kube::Error::Service(_)))
}

#[tokio::test]
async fn the_proxy_passes_the_identity_on_and_answers_in_its_stead_when_told() -> Result<()> {
    use Outcome::{Answered, Injected};

    let api = proxied("injected").await?;
    let (proxy, maps) = (&api.proxy, &api.maps);
    maps.create(&PostParams::default(), &config_map("a")).await?;
    let denied = Api::<Pod>::default_namespaced(api.client.clone()).list(&ListParams::default()).await;
    assert!(matches!(denied, Err(kube::Error::Api(status)) if status.is_forbidden()));

    let gets = || Match::verb(Verb::Get).and(Match::resource("configmaps"));
    proxy.add(gets(), Which::Nth(2), Fault::Answer(Answer::conflict()));
    proxy.add(gets(), Which::Nth(3), Fault::Answer(Answer::too_many_requests(Duration::from_secs(1))));
    let internal = proxy.add(Match::path("/configmaps/b$")?, Which::Every, Fault::Answer(Answer::internal_error()));
    maps.get("a").await?;
    assert_eq!(status(maps.get("a").await), Some((409, "Conflict".into())));
    assert_eq!(status(maps.get("a").await), Some((429, "TooManyRequests".into())));
    maps.get("a").await?;
    assert_eq!(status(maps.get("b").await), Some((500, "InternalError".into())));
    proxy.remove(internal);
    assert_eq!(status(maps.get("b").await), Some((404, "NotFound".into())));

    let outcomes: Vec<Outcome> =
        proxy.seen().iter().filter(|seen| seen.request.verb == Verb::Get).map(|seen| seen.outcome).collect();
    assert_eq!(outcomes, [Answered(200), Injected(409), Injected(429), Answered(200), Injected(500), Answered(404)]);
    Ok(())
}

#[tokio::test]
async fn a_retrying_client_waits_as_long_as_retry_after_says() -> Result<()> {
    let lab = API.get().await?;
    let proxy = lab.proxy().await?;
    let patient = lab::client(&proxy.kubeconfig(&writer(&lab, "patient").await?)?).await?;
    proxy.add(Match::all(), Which::First(1), Fault::Answer(Answer::too_many_requests(Duration::from_secs(1))));
    let begun = Instant::now();
    Api::<ConfigMap>::default_namespaced(patient).create(&PostParams::default(), &config_map("a")).await?;
    assert!(begun.elapsed() >= Duration::from_secs(1));
    Ok(())
}

#[tokio::test]
async fn the_proxy_delays_hangs_and_resets() -> Result<()> {
    let api = proxied("broken").await?;
    let (proxy, maps) = (&api.proxy, &api.maps);
    let create = async |name: &str| maps.create(&PostParams::default(), &config_map(name)).await;
    let stored = async |name: &str| anyhow::Ok(maps.get_opt(name).await?.is_some());

    proxy.add(Match::all(), Which::First(1), Fault::Delay(Duration::from_millis(400)));
    let begun = Instant::now();
    create("delayed").await?;
    assert!(begun.elapsed() >= Duration::from_millis(400));

    proxy.add(Match::writes(), Which::First(1), Fault::Hang);
    assert!(tokio::time::timeout(Duration::from_millis(400), create("hung")).await.is_err());
    assert!(!stored("hung").await?);

    proxy.add(Match::writes(), Which::First(1), Fault::Reset(ResetAt::Request));
    assert!(broken(&create("unsent").await));
    assert!(!stored("unsent").await?);

    proxy.add(Match::writes(), Which::First(1), Fault::Reset(ResetAt::Answer));
    assert!(broken(&create("lost").await));
    assert!(stored("lost").await?, "the API server has acted and the client does not know");

    proxy.add(Match::writes(), Which::First(1), Fault::Reset(ResetAt::Body(10)));
    assert!(broken(&create("cut").await));
    assert!(stored("cut").await?);
    Ok(())
}

#[tokio::test]
async fn watches_stream_through_the_proxy_and_end_as_a_test_asks() -> Result<()> {
    let api = proxied("watched").await?;
    let (proxy, maps) = (&api.proxy, &api.maps);
    let version = maps.list(&ListParams::default()).await?.metadata.resource_version.context("version")?;
    let watch = async || anyhow::Ok(maps.watch(&WatchParams::default().timeout(60), &version).await?.boxed());

    let mut events = watch().await?;
    maps.create(&PostParams::default(), &config_map("seen")).await?;
    let event = tokio::time::timeout(Duration::from_secs(2), events.try_next()).await.context("buffered")??;
    assert!(matches!(event, Some(WatchEvent::Added(map)) if map.name_any() == "seen"));

    proxy.end_watches(WatchEnd::Closed);
    assert!(events.try_next().await?.is_none());

    let mut events = watch().await?;
    assert!(matches!(events.try_next().await?, Some(WatchEvent::Added(_))));
    proxy.end_watches(WatchEnd::Expired);
    assert!(matches!(events.try_next().await?, Some(WatchEvent::Error(status)) if status.code == 410));
    assert!(events.try_next().await?.is_none());

    proxy.add(Match::verb(Verb::Watch), Which::First(1), Fault::WatchExpired);
    assert!(matches!(watch().await?.try_next().await?, Some(WatchEvent::Error(status)) if status.code == 410));

    proxy.add(Match::verb(Verb::Watch), Which::First(1), Fault::Reset(ResetAt::Body(20)));
    assert!(watch().await?.try_next().await.is_err(), "cut in the middle of the first event");
    Ok(())
}

#[tokio::test]
async fn an_unreachable_api_breaks_what_is_under_way_and_refuses_what_comes() -> Result<()> {
    let api = proxied("unreachable").await?;
    let (proxy, maps) = (&api.proxy, &api.maps);
    let mut events = maps.watch(&WatchParams::default().timeout(60), "0").await?.boxed();
    proxy.set_reachable(false);
    let ended = async { while let Ok(Some(_)) = events.try_next().await {} };
    tokio::time::timeout(SOON, ended).await.context("the watch goes on")?;
    assert!(broken(&maps.get("a").await));
    proxy.set_reachable(true);
    assert!(maps.get_opt("a").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_crash_point_lies_between_the_write_and_the_news_of_it() -> Result<()> {
    let api = proxied("crashing").await?;
    let (proxy, maps) = (&api.proxy, &api.maps);
    let (reached, mut point) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    proxy.after_nth(Match::writes(), 2, Point::BeforeDelivery, move |answered| async move {
        let _ = reached.send(answered);
        let _ = released.await;
    });
    maps.create(&PostParams::default(), &config_map("one")).await?;

    let writer = tokio::spawn({
        let maps = maps.clone();
        async move { maps.create(&PostParams::default(), &config_map("two")).await }
    });
    let answered = point.recv().await.context("the point")?;
    assert_eq!((answered.request.verb, answered.code), (Verb::Create, 201));
    assert!(maps.get_opt("two").await?.is_some(), "the API server has it");
    assert!(!writer.is_finished(), "the client does not know");
    release.send(()).map_err(|()| anyhow::anyhow!("the hook is gone"))?;
    writer.await??;

    let (reached, mut point) = tokio::sync::mpsc::unbounded_channel();
    proxy.after_nth(Match::writes(), 1, Point::AfterDelivery, move |answered| async move {
        let _ = reached.send(answered.code);
    });
    maps.create(&PostParams::default(), &config_map("three")).await?;
    assert_eq!(point.recv().await, Some(201));
    Ok(())
}
