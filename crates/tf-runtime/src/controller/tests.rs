//! The loop with a component that plans nothing, against an API server that takes every status.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use http::{Request, Response};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Client, client::Body};
use serde_json::{Map, Value, json};
use tf_api::{
    Zookeeper,
    contract::{ConditionType, Draft, Reason},
    dependencies::{DependencySource, ResourceReference},
    kinds::ZOOKEEPER,
};
use tf_plan::{
    declaration::Declaration,
    dependency::{Dependency, Need, SecretUse},
    not_ready::NotReady,
    object::{Kind, Object, SECRET},
    observed::{Observed, Operator, Pod, Unavailable},
    plan::Plan,
};
use tower::BoxError;

use super::*;
use crate::{
    apply::Applier,
    caches::{Caches, Scope},
    drainer::Drainer,
    events::Events,
    finalizer::Finalizer,
    identity::Authorities,
    keystone::Logins,
    marker::Marker,
    metrics::{Metrics, Snapshot},
    observe::Observer,
    registration::Registrar,
    status::StatusWriter,
    step::Stepper,
    watch::{PodEntry, Primary, State, Subject},
};

static BROKEN: AtomicBool = AtomicBool::new(false);

/// Waits for something, for ever. With `FRAGILE` a plan panics while [`BROKEN`] says so.
struct Idle<const FRAGILE: bool>;

impl<const FRAGILE: bool> Component for Idle<FRAGILE> {
    type Cr = Zookeeper;

    fn declaration() -> Declaration {
        Declaration {
            operator: "test-op",
            primary: Kind::custom(ZOOKEEPER),
            owned: Vec::new(),
            peers: Vec::new(),
            reads: Vec::new(),
            restarts_pods: false,
            calls_agents: false,
            grant: None,
            deregisters: false,
            marks_nodes: false,
            further: Vec::new(),
        }
    }

    fn dependencies(_: &Zookeeper) -> Vec<Dependency> {
        let elsewhere = ResourceReference { name: "b".into(), namespace: Some("elsewhere".into()) };
        vec![Dependency {
            condition: ConditionType::ZookeeperReady,
            kind: Kind::custom(ZOOKEEPER),
            source: Some(DependencySource { reference: Some(elsewhere), ..DependencySource::default() }),
            default_name: "a",
            endpoint: "client",
            need: Need::BringUp,
            secret: SecretUse::Nothing,
            logs_in: false,
        }]
    }

    fn plan(_: &Zookeeper, _: &Observed<Zookeeper>) -> Result<Plan, NotReady> {
        assert!(!FRAGILE || !BROKEN.load(Ordering::SeqCst), "a defect of the component");
        Err(NotReady::waiting(Reason::DependencyNotFound, "nothing to do"))
    }
}

/// Gives one identity more in each plan, up to the third. Nothing that happens wakes it on the way.
struct Climber;

impl Component for Climber {
    type Cr = Zookeeper;

    fn declaration() -> Declaration {
        Idle::<false>::declaration()
    }

    fn dependencies(_: &Zookeeper) -> Vec<Dependency> {
        Vec::new()
    }

    fn plan(cr: &Zookeeper, _: &Observed<Zookeeper>) -> Result<Plan, NotReady> {
        let highest = cr.status.as_ref().and_then(|status| status.own.highest_id).unwrap_or_default();
        Ok(Plan {
            drafts: vec![Draft::holds(ConditionType::Available, Reason::Succeeded, "")],
            own_status: Map::from_iter([("highestId".to_owned(), json!((highest + 1).min(3)))]),
            record: &["highestId"],
            ..Plan::default()
        })
    }
}

/// Waits for what somebody makes of a Secret of its own.
struct Preparer;

impl Component for Preparer {
    type Cr = Zookeeper;

    fn declaration() -> Declaration {
        Idle::<false>::declaration()
    }

    fn dependencies(_: &Zookeeper) -> Vec<Dependency> {
        Vec::new()
    }

    fn plan(_: &Zookeeper, _: &Observed<Zookeeper>) -> Result<Plan, NotReady> {
        let metadata = ObjectMeta { namespace: Some("tf".into()), name: Some("token".into()), ..ObjectMeta::default() };
        let secret = Object::new(SECRET, &Secret { metadata, ..Secret::default() });
        let mut waiting = NotReady::waiting(Reason::SecretNotFound, "no token yet");
        waiting.prepared.push(secret);
        Err(waiting)
    }
}

fn key() -> Key {
    Key::new("tf", "a")
}

fn resource(uid: &str) -> Primary<Zookeeper> {
    let zookeeper = json!({
        "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "spec": {},
        "metadata": { "namespace": "tf", "name": "a", "uid": uid, "generation": 1, "resourceVersion": "1" },
    });
    Primary::Valid(Arc::new(serde_json::from_value(zookeeper).unwrap()))
}

/// An API server that takes everything, and answers with this status if it does not keep what it was given.
fn server(kept: Option<Value>) -> Client {
    let metadata = json!({ "name": "a", "uid": "1", "resourceVersion": "2" });
    let mut stored = json!({ "apiVersion": "v1", "kind": "Any", "metadata": metadata });
    if let Some(kept) = kept {
        stored["status"] = kept;
    }
    let answer = stored.to_string().into_bytes();
    let service = tower::service_fn(move |_: Request<Body>| {
        let answer = answer.clone();
        async move { Ok::<_, BoxError>(Response::new(Body::from(answer))) }
    });
    Client::new(service, "tf")
}

fn controller<C: Component<Cr = Zookeeper>>(permit: Permit) -> (Controller<C>, mpsc::UnboundedSender<Trigger>) {
    controller_of(server(None), permit)
}

fn controller_of<C: Component<Cr = Zookeeper>>(
    client: Client,
    permit: Permit,
) -> (Controller<C>, mpsc::UnboundedSender<Trigger>) {
    let watch_statuses = Arc::new(WatchStatuses::default());
    let metrics = Arc::new(Metrics::new("test-op").unwrap());
    let declaration = C::declaration();
    let caches = Arc::new(Caches::<C::Cr>::new::<C>(Scope::All, watch_statuses.clone()));
    let applier = Arc::new(Applier::new(client.clone(), "test-op", metrics.clone()));
    let events = Arc::new(Events::new(client.clone(), "test-op", "test"));
    let versions = caches.authorities.clone();
    let authorities = Arc::new(Authorities::new(client.clone(), "test-op", versions, events.clone()));
    let triggers = mpsc::unbounded_channel().0;
    let logins = Arc::new(Logins::new(authorities.clone(), triggers.clone(), None));
    let registrar = Registrar::new(authorities.clone(), permit.clone(), triggers, metrics.clone(), None);
    let reconciler = Arc::new(Reconciler::<C> {
        registrar: Arc::new(registrar),
        observer: Observer {
            agents: Arc::default(),
            authorities: authorities.clone(),
            logins,
            caches: caches.clone(),
            watch_statuses: watch_statuses.clone(),
            applier: applier.clone(),
            client: client.clone(),
            operator: Operator::default(),
        },
        applier,
        statuses: StatusWriter::new(client.clone(), "test-op", declaration.primary),
        refused: crate::reconcile::refused::Refused::new(client.clone(), "test-op"),
        stepper: Stepper { client: client.clone(), agents: Arc::default(), metrics: metrics.clone() },
        marker: Marker::new(client.clone()),
        drainer: Drainer::new(client.clone()),
        authorities,
        finalizer: Finalizer::new(client, &declaration),
        events,
        metrics,
        caches,
    });
    let health = Arc::new(Health::new(watch_statuses.clone(), declaration.primary));
    let (sender, triggers) = mpsc::unbounded_channel();
    (Controller { reconciler, triggers, permit, watch_statuses, health }, sender)
}

/// The metric of a controller with the only resources.
fn in_backoff<C: Component>(controller: &Controller<C>) -> String {
    let page = String::from_utf8(controller.reconciler.metrics.page(&[Snapshot::default()]).unwrap()).unwrap();
    let line = page.lines().find(|line| line.starts_with("tf_resources_in_backoff{")).unwrap();
    line.rsplit(' ').next().unwrap().to_owned()
}

impl<C: Component<Cr = Zookeeper>> Controller<C> {
    fn put(&self, uid: &str) {
        self.reconciler.caches.primaries.put(key(), resource(uid));
    }

    fn gone(&self, uid: &str, work: &mut Work) {
        self.reconciler.caches.primaries.remove(&key());
        self.take(Trigger::Gone(key(), uid.into()), work);
    }

    async fn begin(&self, work: &mut Work) {
        work.queue.add(key());
        let key = work.queue.next().await;
        self.start(key, work);
    }

    async fn await_end(&self, work: &mut Work) {
        let ended = work.tasks.join_next_with_id().await.unwrap();
        self.end(ended, work);
    }
}

#[test]
fn a_pod_that_the_operator_deleted_terminates_before_the_cache_shows_it_and_the_next_one_does_not() {
    let caches = Caches::<Zookeeper>::new::<Idle<false>>(Scope::All, Arc::new(WatchStatuses::default()));
    let put = |uid: &str| {
        let labels = [("zookeeper".to_owned(), "a".to_owned())].into();
        let pod = Pod { name: "a-0".into(), uid: uid.into(), ready: true, ..Pod::default() };
        caches.pods.put(Key::new("tf", "a-0"), PodEntry { labels, pod });
    };
    let terminates = || caches.pods_of(&key()).iter().map(|pod| pod.terminating).collect::<Vec<_>>();
    put("1");
    assert_eq!(terminates(), [false]);
    caches.was_deleted("1");
    assert_eq!(terminates(), [true]);
    put("2");
    assert_eq!(terminates(), [false]);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_deleted_during_its_pass_leaves_nothing_behind() {
    let (controller, _triggers) = controller::<Idle<false>>(Permit::forever());
    let mut work = Work::default();
    controller.put("1");
    controller.begin(&mut work).await;
    work.queue.add(key());
    controller.gone("1", &mut work);
    controller.await_end(&mut work).await;
    assert!(work.queue.is_empty(), "{:?}", work.queue);
    assert!(controller.reconciler.caches.inputs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_took_the_name_of_another_is_looked_at_after_the_pass_over_that() {
    let (controller, _triggers) = controller::<Idle<false>>(Permit::forever());
    let mut work = Work::default();
    controller.put("1");
    controller.begin(&mut work).await;
    controller.put("2");
    controller.take(Trigger::Gone(key(), "1".into()), &mut work);
    controller.await_end(&mut work).await;
    assert_eq!(tokio::time::timeout(Duration::from_secs(1), work.queue.next()).await, Ok(key()));
}

#[tokio::test(start_paused = true)]
async fn failures_are_no_longer_counted_when_the_last_resource_is_gone() {
    let (controller, _triggers) = controller::<Idle<false>>(Permit::forever());
    let mut work = Work::default();
    controller.put("1");
    controller.begin(&mut work).await;
    controller.await_end(&mut work).await;
    work.backoff.failed(&key());
    controller.measure(&work);
    assert_eq!(in_backoff(&controller), "1");
    controller.gone("1", &mut work);
    assert_eq!(in_backoff(&controller), "0");
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_panics_is_tried_again() {
    let (controller, _triggers) = controller::<Idle<true>>(Permit::forever());
    let mut work = Work::default();
    controller.put("1");
    BROKEN.store(true, Ordering::SeqCst);
    controller.begin(&mut work).await;
    controller.await_end(&mut work).await;
    assert_eq!((work.backoff.failures(&key()), work.passes.len()), (1, 0));
    BROKEN.store(false, Ordering::SeqCst);
    let due = tokio::time::timeout(Duration::from_secs(2), work.queue.next()).await.unwrap();
    controller.start(due, &mut work);
    controller.await_end(&mut work).await;
    assert_eq!(work.backoff.failures(&key()), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_pass_recorded_is_planned_with_at_once_although_nothing_happens() {
    let (controller, _triggers) = controller::<Climber>(Permit::forever());
    let mut work = Work::default();
    controller.put("1");
    controller.begin(&mut work).await;
    controller.await_end(&mut work).await;
    for _ in 1..3 {
        let due = tokio::time::timeout(Duration::from_secs(1), work.queue.next()).await.unwrap();
        controller.start(due, &mut work);
        controller.await_end(&mut work).await;
    }
    let status = controller.reconciler.statuses.newer(&key(), "1", 1).unwrap();
    assert_eq!(status["highestId"], 3);
    // One more is due for the third, and then it rests.
    let due = tokio::time::timeout(Duration::from_secs(1), work.queue.next()).await.unwrap();
    controller.start(due, &mut work);
    controller.await_end(&mut work).await;
    let rests = tokio::time::timeout(Duration::from_mins(1), work.queue.next()).await;
    assert!(rests.is_err(), "{rests:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_where_the_definition_does_not_keep_what_plans_rest_on() {
    let (controller, _triggers) = controller_of::<Climber>(server(Some(json!({}))), Permit::forever());
    let mut work = Work::default();
    controller.put("1");
    controller.begin(&mut work).await;
    controller.await_end(&mut work).await;
    assert_eq!(work.backoff.failures(&key()), 1, "it is tried again, ever more rarely");
    assert_eq!(controller.reconciler.metrics.reconciles.with_label_values(&["failed"]).get(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_is_made_possible_and_nothing_is_removed_meanwhile() {
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        seen.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
        let (code, answer) = match request.method().as_str() {
            "GET" => (404, json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})),
            _ => (
                200,
                json!({"apiVersion": "v1", "kind": "Any", "metadata": {"name": "token", "uid": "2", "resourceVersion": "2"}}),
            ),
        };
        let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
        async move { Ok::<_, BoxError>(answer.unwrap()) }
    });
    let (controller, _triggers) = controller_of::<Preparer>(Client::new(service, "tf"), Permit::forever());
    let mut work = Work::default();
    controller.put("1");
    controller.begin(&mut work).await;
    controller.await_end(&mut work).await;
    assert_eq!(controller.reconciler.metrics.reconciles.with_label_values(&["waiting"]).get(), 1);
    let requests = requests.lock().unwrap();
    let made = "PATCH /api/v1/namespaces/tf/secrets/token";
    assert_eq!(requests.iter().filter(|request| *request == made).count(), 1, "{requests:?}");
    assert!(requests.iter().all(|request| !request.starts_with("DELETE")), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn without_election_the_loop_runs_until_it_is_told_to_stop() {
    let (controller, _triggers) = controller::<Idle<false>>(Permit::forever());
    controller.put("1");
    controller.watch_statuses.set(&Subject::work(Kind::custom(ZOOKEEPER), None), State::Synced);
    let (health, metrics, stop) =
        (controller.health.clone(), controller.reconciler.metrics.clone(), CancellationToken::new());
    let running = tokio::spawn(controller.run(stop.clone()));
    tokio::time::sleep(RESYNC * 3).await;
    assert!(!running.is_finished() && health.is_alive());
    assert!(metrics.reconciles.with_label_values(&["waiting"]).get() >= 3, "first pass and two of the resync");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_waits_for_the_first_lists_is_alive() {
    let (controller, _triggers) = controller::<Idle<false>>(Permit::forever());
    controller.watch_statuses.set(&Subject::work(Kind::custom(ZOOKEEPER), None), State::Pending);
    let (health, stop) = (controller.health.clone(), CancellationToken::new());
    let running = tokio::spawn(controller.run(stop.clone()));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(health.is_alive());
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_resource_refers_to_where_nobody_looks_is_not_said_to_be_missing() {
    let (controller, _triggers) = controller::<Idle<false>>(Permit::forever());
    let subject = |namespace| Subject::work(Kind::custom(ZOOKEEPER), namespace);
    let why = async || {
        let Primary::Valid(cr) = resource("1") else { unreachable!() };
        let mut observed = controller.reconciler.observer.observe(&key(), &cr).await.unwrap();
        observed.unseen.remove("Zookeeper").and_then(|mut namespaces| namespaces.remove("elsewhere"))
    };
    controller.watch_statuses.set(&subject(Some("tf")), State::Synced);
    assert_eq!(why().await.unwrap().message, "namespace elsewhere is not watched by this operator");
    let denied = Unavailable { reason: Reason::Forbidden, message: "denied".into() };
    controller.watch_statuses.set(&subject(Some("elsewhere")), State::Failing(denied.clone()));
    assert_eq!(why().await, Some(denied));
    controller.watch_statuses.set(&subject(Some("elsewhere")), State::Synced);
    assert_eq!(why().await, None);
}

impl<C: Component<Cr = Zookeeper>> Controller<C> {
    /// How long after a pass that ended like this the resource is looked at again; none if it is not within a day.
    async fn pause_after(&self, next: Next) -> Option<Duration> {
        let mut work = Work::default();
        work.queue.add(key());
        let key = work.queue.next().await;
        let task = work.tasks.spawn(async move { next });
        work.passes.insert(task.id(), Pass { key, uid: "1".into() });
        self.await_end(&mut work).await;
        let ended = Instant::now();
        tokio::time::timeout(Duration::from_hours(24), work.queue.next()).await.ok().map(|_| ended.elapsed())
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_looked_at_again_after_ten_minutes_and_up_to_a_quarter_more() {
    let (controller, _triggers) = controller::<Idle<false>>(Permit::forever());
    controller.put("1");
    let mut pauses = Vec::new();
    for _ in 0..50 {
        pauses.push(controller.pause_after(Next::Resync).await.unwrap().as_secs_f64() / 60.0);
    }
    assert!(pauses.iter().all(|minutes| (10.0..=12.501).contains(minutes)), "{pauses:?}");
    let least = pauses.iter().copied().fold(f64::MAX, f64::min);
    let most = pauses.iter().copied().fold(0.0, f64::max);
    assert!(most - least > 0.5, "resources that were looked at together stay together: {least} to {most} minutes");
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_names_a_time_is_followed_then_but_not_later_than_any_other() {
    let (controller, _triggers) = controller::<Idle<false>>(Permit::forever());
    controller.put("1");
    let seconds = async |next| controller.pause_after(next).await.map(|pause| pause.as_secs());
    assert_eq!(seconds(Next::Within(Duration::from_secs(3))).await, Some(3));
    assert_eq!(seconds(Next::Within(Duration::from_hours(5))).await, Some(600));
    assert_eq!(seconds(Next::Rest).await, None);
}
