//! The election against an API server with one lease.

use std::sync::{Mutex, PoisonError};

use http::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::BoxError;

use super::*;

/// The lease as the API server has it; none when it does not answer.
type Stored = Arc<Mutex<Option<Value>>>;

fn stored(version: u64, holder: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": "tf", "name": "test-op", "resourceVersion": version.to_string() },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 30 },
    })
}

fn answer(lease: &mut Value, method: &Method, sent: &Value) -> (u16, Value) {
    if *method == Method::GET {
        return (200, lease.clone());
    }
    if sent["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"] {
        let conflict =
            json!({ "kind": "Status", "status": "Failure", "reason": "Conflict", "message": "", "code": 409 });
        return (409, conflict);
    }
    let version: u64 = lease["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    *lease = sent.clone();
    lease["metadata"]["resourceVersion"] = (version + 1).to_string().into();
    (200, lease.clone())
}

fn election(lease: &Stored) -> (Election, Permit) {
    let lease = lease.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let lease = lease.clone();
        async move {
            let method = request.method().clone();
            let sent = serde_json::from_slice(&request.into_body().collect_bytes().await?).unwrap_or_default();
            let answer = match lease.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                Some(lease) => answer(lease, &method, &sent),
                None => return Err::<Response<Body>, BoxError>("no route to the API server".into()),
            };
            Ok(Response::builder().status(answer.0).body(Body::from(answer.1.to_string().into_bytes()))?)
        }
    });
    let (sender, receiver) = watch::channel(None);
    let candidate =
        Candidate { namespace: "tf".into(), name: "test-op".into(), identity: "us".into(), timing: Timing::DEFAULT };
    let election = Election {
        api: Api::namespaced(Client::new(service, "tf"), "tf"),
        candidate,
        permit: sender,
        metrics: Arc::new(Metrics::new("test-op").unwrap()),
        leads: false,
        lease: Sight::Unknown,
        last_change: Instant::now(),
        renewed: None,
    };
    (election, Permit(Source::Lease(receiver)))
}

impl Election {
    /// Looks and acts, as the loop does when something arrives.
    async fn turn(&mut self, lease: Value) {
        self.see(Some(serde_json::from_value(lease).unwrap()));
        self.act().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_went_back_in_time_with_the_whole_cluster_is_renewed_all_the_same() {
    let lease = Stored::new(Mutex::new(Some(stored(700, ""))));
    let (mut election, permit) = election(&lease);
    election.turn(stored(700, "")).await;
    assert!(permit.until().is_some());
    *lease.lock().unwrap() = Some(stored(300, "us"));
    tokio::time::sleep(Timing::DEFAULT.renew).await;
    election.act().await; // Refused, since the version is another.
    election.act().await;
    assert_eq!(lease.lock().unwrap().as_ref().unwrap()["metadata"]["resourceVersion"], "301");
    assert!(permit.until().is_some_and(|until| until - Instant::now() == Timing::DEFAULT.deadline));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_runs_out_is_told_like_one_that_is_taken() {
    let lease = Stored::new(Mutex::new(Some(stored(1, ""))));
    let (mut election, mut permit) = election(&lease);
    election.turn(stored(1, "")).await;
    assert!(permit.changed().await && permit.until().is_some());
    *lease.lock().unwrap() = None;
    tokio::time::sleep(Timing::DEFAULT.deadline).await;
    assert!(permit.until().is_none(), "whatever the election does");
    election.act().await;
    timeout(Duration::ZERO, permit.changed()).await.unwrap();
    assert_eq!(election.metrics.leader.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn renewals_wake_nobody() {
    let lease = Stored::new(Mutex::new(Some(stored(1, ""))));
    let (mut election, mut permit) = election(&lease);
    election.turn(stored(1, "")).await;
    assert!(permit.changed().await);
    tokio::time::sleep(Timing::DEFAULT.renew).await;
    election.act().await;
    assert!(timeout(Duration::ZERO, permit.changed()).await.is_err());
    assert!(permit.until().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_permit_for_ever_neither_ends_nor_changes() {
    let mut permit = Permit::forever();
    assert!(timeout(Duration::from_hours(24 * 365), permit.changed()).await.is_err());
    assert!(permit.until().is_some());
}
