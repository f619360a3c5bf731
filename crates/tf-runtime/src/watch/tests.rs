//! Watches against an API server that answers as the test says, on a clock that only moves when everybody waits.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::body::Body;
use futures::stream;
use http::{Request, Response};
use kube::{
    Client,
    core::{DynamicObject, PartialObjectMeta},
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tf_plan::{cluster::NETWORK, object::CONFIG_MAP};
use tower::BoxError;

use super::*;
use crate::caches::dynamic;

const LONG: Duration = Duration::from_mins(10);
/// Attempts in ten minutes with pauses that double up to the longest.
const FEW: usize = 30;

/// What a request is for.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    List,
    Page,
    Watch,
}

/// The requests so far.
#[derive(Default)]
struct Seen {
    lists: AtomicUsize,
    watches: AtomicUsize,
    queries: Mutex<Vec<String>>,
}

struct Scene {
    watch_statuses: Arc<WatchStatuses>,
    metrics: Arc<Metrics>,
    cache: Arc<Cache<()>>,
    seen: Arc<Seen>,
    /// Every state that was shown.
    states: Arc<Mutex<Vec<State>>>,
    _tasks: JoinSet<()>,
}

fn subject() -> Subject {
    Subject::work(CONFIG_MAP, Some("tf"))
}

fn json_answer(code: u16, body: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body.to_string())).unwrap()
}

fn refusal(code: u16) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("no: {code}"), "reason": "Test", "code": code,
    });
    json_answer(code, &status)
}

fn silence() -> Response<Body> {
    Response::new(Body::from_stream(stream::pending::<Result<Vec<u8>, BoxError>>()))
}

fn page(names: &[&str], more: &str) -> Response<Body> {
    let item = |name: &&str| json!({ "metadata": { "namespace": "tf", "name": name, "resourceVersion": "3" } });
    let metadata = json!({ "resourceVersion": "5", "continue": more });
    let items: Vec<Value> = names.iter().map(item).collect();
    json_answer(
        200,
        &json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items }),
    )
}

/// Starts a watch; `answer` is told what was asked and how many requests of a watch came before.
async fn scene(answer: impl Fn(Asked, usize) -> Response<Body> + Send + Sync + 'static) -> Scene {
    let seen = Arc::new(Seen::default());
    let counted = seen.clone();
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let asked = match &query {
            query if query.contains("watch=true") => Asked::Watch,
            query if query.contains("continue=") => Asked::Page,
            _ => Asked::List,
        };
        let watches = &counted.watches;
        let before = if asked == Asked::Watch {
            watches.fetch_add(1, Ordering::SeqCst)
        } else {
            counted.lists.fetch_add(1, Ordering::SeqCst);
            watches.load(Ordering::SeqCst)
        };
        counted.queries.lock().unwrap().push(query);
        let answer = answer.clone();
        async move { Ok::<_, BoxError>(answer(asked, before)) }
    });
    let client = Client::new(service, "tf");
    let watch_statuses = Arc::new(WatchStatuses::default());
    let metrics = Arc::new(Metrics::new("test").unwrap());
    let discovery = Discovery::start(client.clone(), Vec::new()).await;
    let all_statuses = Arc::new(vec![watch_statuses.clone()]);
    let context = Context { watch_statuses: watch_statuses.clone(), all_statuses, discovery, metrics: metrics.clone() };
    let mut tasks = JoinSet::new();
    let (mut changes, states) = (watch_statuses.changes(), Arc::new(Mutex::default()));
    let (log, watched): (Arc<Mutex<Vec<State>>>, _) = (states.clone(), watch_statuses.clone());
    tasks.spawn(async move {
        while changes.changed().await.is_ok() {
            log.lock().unwrap().push(watched.get(&subject()));
        }
    });
    let cache = Arc::new(Cache::default());
    let watch = Watch {
        subject: subject(),
        api: dynamic::<PartialObjectMeta<DynamicObject>>(&client, CONFIG_MAP, Some("tf")),
        selector: Selector::All,
        reduce: |object| (Key::of(&object.metadata), ()),
        sink: Kept::new(cache.clone(), Arc::new(|_, _, _| {})),
    };
    watch.start(&context, &mut tasks);
    Scene { watch_statuses, metrics, cache, seen, states, _tasks: tasks }
}

impl Scene {
    fn state(&self) -> State {
        self.watch_statuses.get(&subject())
    }

    fn failing_for(&self) -> Option<Reason> {
        match self.state() {
            State::Failing(why) => Some(why.reason),
            _ => None,
        }
    }

    fn lists(&self) -> usize {
        self.seen.lists.load(Ordering::SeqCst)
    }

    fn watches(&self) -> usize {
        self.seen.watches.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_denied_while_lists_are_not_is_tried_ever_more_rarely_and_never_shown_as_working_again() {
    let scene = scene(|asked, _| if asked == Asked::Watch { refusal(403) } else { page(&["a"], "") }).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(scene.lists(), 1, "what was listed can be gone on from");
    assert!((10..FEW).contains(&scene.watches()), "{}", scene.watches());
    assert_eq!(scene.failing_for(), Some(Reason::Forbidden));
    let states = scene.states.lock().unwrap();
    assert_eq!(states.len(), 3, "pending, listed, denied; every turn wakes every resource: {states:?}");
    assert_eq!(scene.metrics.watch_synced.with_label_values(&["ConfigMap"]).get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_denied_watch_counts_as_working_again_when_it_lasts() {
    let scene = scene(|asked, before| match asked {
        Asked::Watch if before < 3 => refusal(403),
        Asked::Watch => silence(),
        _ => page(&["a"], ""),
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(scene.failing_for(), Some(Reason::Forbidden));
    tokio::time::sleep(Duration::from_secs(3) + PROOF).await;
    assert_eq!(scene.state(), State::Synced);
    assert_eq!((scene.lists(), scene.watches()), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn a_watch_refused_for_a_moment_goes_on_where_it_was_and_stays_synchronised() {
    let scene = scene(|asked, before| match asked {
        Asked::Watch if before < 5 => refusal(503),
        Asked::Watch => silence(),
        _ => page(&["a"], ""),
    })
    .await;
    tokio::time::sleep(LONG).await;
    assert_eq!((scene.lists(), scene.watches()), (1, 6), "{:?}", scene.seen.queries.lock().unwrap());
    assert!(scene.seen.queries.lock().unwrap().iter().skip(1).all(|query| query.contains("resourceVersion=5")));
    assert_eq!(*scene.states.lock().unwrap(), [State::Pending, State::Synced]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_version_is_gone_begins_with_a_new_list() {
    let scene = scene(|asked, before| match asked {
        Asked::Watch if before == 0 => refusal(410),
        Asked::Watch => silence(),
        _ => page(&["a"], ""),
    })
    .await;
    tokio::time::sleep(LONG).await;
    assert_eq!((scene.lists(), scene.watches()), (2, 2));
    assert_eq!(scene.state(), State::Synced);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_after_its_first_page_is_no_knowledge_and_is_not_repeated_without_pause() {
    let scene = scene(|asked, _| if asked == Asked::Page { refusal(500) } else { page(&["a"], "more") }).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(scene.cache.keys(), [Key::new("tf", "a")], "a part of what there is");
    assert_eq!(scene.failing_for(), Some(Reason::ApiError));
    assert!(!scene.states.lock().unwrap().contains(&State::Synced));
    assert!((20..2 * FEW).contains(&scene.lists()), "two requests an attempt: {}", scene.lists());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_begins_and_never_ends_has_had_its_say_within_a_minute() {
    let scene = scene(|_, _| silence()).await;
    tokio::time::timeout(PAGE_LIMIT + PROOF, scene.watch_statuses.tried()).await.unwrap();
    assert_eq!(scene.failing_for(), Some(Reason::ApiError));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_once_at_the_start_is_told_to_nobody_and_one_that_goes_on_failing_is() {
    let tries = AtomicUsize::new(0);
    let once = scene(move |asked, _| match asked {
        Asked::Watch => silence(),
        _ if tries.fetch_add(1, Ordering::SeqCst) == 0 => refusal(500),
        _ => page(&["a"], ""),
    })
    .await;
    tokio::time::timeout(PATIENCE, once.watch_statuses.tried()).await.unwrap();
    tokio::time::sleep(PROOF * 2).await;
    assert_eq!(*once.states.lock().unwrap(), [State::Pending, State::Synced]);

    let always = scene(|_, _| refusal(500)).await;
    assert!(tokio::time::timeout(PATIENCE / 2, always.watch_statuses.tried()).await.is_err());
    tokio::time::timeout(PATIENCE * 2, always.watch_statuses.tried()).await.unwrap();
    assert_eq!(always.failing_for(), Some(Reason::ApiError));

    // That it is denied is no passing failure.
    let denied = scene(|_, _| refusal(403)).await;
    tokio::time::timeout(FIRST_PAUSE, denied.watch_statuses.tried()).await.unwrap();
    assert_eq!(denied.failing_for(), Some(Reason::Forbidden));
}

#[tokio::test(start_paused = true)]
async fn the_metric_of_a_kind_holds_only_if_every_watch_of_it_works() {
    let works = |asked, _| if asked == Asked::Watch { silence() } else { page(&["a"], "") };
    for (other, metric) in [(State::Synced, 1), (State::Pending, 0)] {
        let scene = scene(works).await;
        scene.watch_statuses.set(&Subject { purpose: Purpose::Input, ..subject() }, other);
        tokio::time::sleep(PROOF * 2).await;
        assert_eq!(scene.state(), State::Synced);
        assert_eq!(scene.metrics.watch_synced.with_label_values(&["ConfigMap"]).get(), metric);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_between_two_looks_is_not_missed() {
    let watch_statuses = WatchStatuses::default();
    let mut changes = watch_statuses.changes();
    watch_statuses.set(&subject(), State::Synced);
    tokio::time::timeout(Duration::ZERO, changes.changed()).await.unwrap().unwrap();
    watch_statuses.set(&subject(), State::Synced);
    assert!(!changes.has_changed().unwrap(), "the same again is no change");
}

proptest! {
    #[test]
    fn a_jittered_pause_is_up_to_a_quarter_longer_and_varies(milliseconds in 1_u64..86_400_000) {
        let pause = Duration::from_millis(milliseconds);
        let pauses: Vec<_> = (0..20).map(|_| jittered(pause)).collect();
        prop_assert!(pauses.iter().all(|jittered| (pause..=pause.mul_f64(1.25)).contains(jittered)), "{:?}", pauses);
        prop_assert!(pauses.iter().any(|jittered| *jittered != pauses[0]), "{:?}", pauses);
    }
}

/// Definitions go and come back: the list after that is proof enough, and readiness waits for it.
#[tokio::test(start_paused = true)]
async fn a_watch_of_what_was_gone_and_is_back_counts_as_working_when_it_is_listed() {
    let scene = scene(|asked, before| match asked {
        Asked::Watch if before == 0 => refusal(404),
        Asked::Watch => silence(),
        _ => page(&["a"], ""),
    })
    .await;
    tokio::time::sleep(FIRST_PAUSE / 2).await;
    assert_eq!(scene.failing_for(), Some(Reason::CrdMissing));
    tokio::time::sleep(FIRST_PAUSE).await;
    assert_eq!(scene.state(), State::Synced);
}

/// A kind of somebody else's whose group is answered for like this, one answer after the other, the last one for ever.
async fn foreign(answers: &'static [fn() -> Response<Body>]) -> (Arc<WatchStatuses>, Arc<AtomicUsize>, JoinSet<()>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let answer = if request.uri().path() == "/apis/config.openshift.io/v1" {
            answers[count.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1)]()
        } else if request.uri().query().unwrap_or_default().contains("watch=true") {
            silence()
        } else {
            page(&[], "")
        };
        async move { Ok::<_, BoxError>(answer) }
    });
    let client = Client::new(service, "tf");
    let (watch_statuses, metrics) = (Arc::new(WatchStatuses::default()), Arc::new(Metrics::new("test").unwrap()));
    let discovery = Discovery::start(client.clone(), vec![NETWORK]).await;
    let context = Context {
        watch_statuses: watch_statuses.clone(),
        all_statuses: Arc::new(vec![watch_statuses.clone()]),
        discovery,
        metrics,
    };
    let mut tasks = JoinSet::new();
    let watch = Watch {
        subject: Subject::work(NETWORK, None),
        api: dynamic::<PartialObjectMeta<DynamicObject>>(&client, NETWORK, None),
        selector: Selector::Fields("metadata.name=cluster".into()),
        reduce: |object| (Key::of(&object.metadata), ()),
        sink: Kept::new(Arc::new(Cache::default()), Arc::new(|_, _, _| {})),
    };
    watch.start(&context, &mut tasks);
    tokio::time::sleep(Duration::from_millis(1)).await;
    (watch_statuses, asked, tasks)
}

fn missing() -> Response<Body> {
    refusal(404)
}

fn failing() -> Response<Body> {
    refusal(500)
}

fn served() -> Response<Body> {
    let resource = json!({"name": "networks", "singularName": "network", "namespaced": false, "kind": "Network", "verbs": ["list"]});
    json_answer(
        200,
        &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "config.openshift.io/v1", "resources": [resource]}),
    )
}

#[tokio::test(start_paused = true)]
async fn a_kind_of_somebody_elses_that_stays_missing_is_looked_for_ever_more_rarely() {
    let (watch_statuses, asked, _tasks) = foreign(&[missing]).await;
    let state = || watch_statuses.get(&Subject::work(NETWORK, None));
    assert!(matches!(state(), State::Failing(why) if why.reason == Reason::CrdMissing), "{:?}", state());
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!((15..25).contains(&asked.load(Ordering::SeqCst)), "{asked:?}");
    assert!(matches!(state(), State::Failing(why) if why.reason == Reason::CrdMissing), "{:?}", state());
}

/// That it is not there must not be concluded from an API server that does not answer: what is planned then would be taken back.
#[tokio::test(start_paused = true)]
async fn as_long_as_nobody_could_be_asked_a_kind_is_not_taken_for_missing() {
    let (watch_statuses, _, _tasks) = foreign(&[failing, missing, served]).await;
    let state = || watch_statuses.get(&Subject::work(NETWORK, None));
    assert_eq!(state(), State::Pending);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(matches!(state(), State::Failing(why) if why.reason == Reason::CrdMissing), "{:?}", state());
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(state(), State::Synced);
}

#[tokio::test(start_paused = true)]
async fn a_kind_about_which_nobody_can_be_asked_has_had_its_say_after_a_while() {
    let (watch_statuses, _, _tasks) = foreign(&[failing]).await;
    tokio::time::timeout(PATIENCE, watch_statuses.tried()).await.unwrap();
    let state = watch_statuses.get(&Subject::work(NETWORK, None));
    assert!(matches!(&state, State::Failing(why) if why.reason == Reason::ApiError), "{state:?}");
}

/// One answer "not found" is not taken for a definition that is gone, or everybody would forget what it was used for.
#[tokio::test(start_paused = true)]
async fn a_kind_is_gone_when_those_say_so_who_answer_for_all_kinds() {
    let (lists, is_gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(false)));
    let (counted, gone) = (lists.clone(), is_gone.clone());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let is_gone = *gone.lock().unwrap();
        let answer = if request.uri().path() == "/apis/config.openshift.io/v1" {
            if is_gone { missing() } else { served() }
        } else if request.uri().query().unwrap_or_default().contains("watch=true") {
            refusal(410)
        } else if is_gone || counted.fetch_add(1, Ordering::SeqCst) == 1 {
            missing()
        } else {
            page(&["cluster"], "")
        };
        async move { Ok::<_, BoxError>(answer) }
    });
    let client = Client::new(service, "tf");
    let (watch_statuses, metrics) = (Arc::new(WatchStatuses::default()), Arc::new(Metrics::new("test").unwrap()));
    let discovery = Discovery::start(client.clone(), vec![NETWORK]).await;
    let context = Context {
        watch_statuses: watch_statuses.clone(),
        all_statuses: Arc::new(vec![watch_statuses.clone()]),
        discovery,
        metrics,
    };
    let (cache, mut tasks) = (Arc::new(Cache::default()), JoinSet::new());
    let watch = Watch {
        subject: Subject::work(NETWORK, None),
        api: dynamic::<PartialObjectMeta<DynamicObject>>(&client, NETWORK, None),
        selector: Selector::All,
        reduce: |object| (Key::of(&object.metadata), ()),
        sink: Kept::new(cache.clone(), Arc::new(|_, _, _| {})),
    };
    watch.start(&context, &mut tasks);
    let state = || watch_statuses.get(&Subject::work(NETWORK, None));
    watch_statuses.tried().await;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!((state(), cache.keys().len()), (State::Synced, 1));
    }
    assert!(lists.load(Ordering::SeqCst) > 2, "it is asked again");
    *is_gone.lock().unwrap() = true;
    tokio::time::sleep(LONGEST_PAUSE * 2).await;
    assert!(matches!(state(), State::Failing(why) if why.reason == Reason::CrdMissing), "{:?}", state());
    assert!(cache.keys().is_empty());
}
