//! What is done with an object that changes while it is looked at, against an API server that says what it is told to.

use std::collections::VecDeque;

use http::{Request, Response};
use k8s_openapi::api::core::v1::Secret;
use kube::client::Body;
use tf_api::kinds::ZOOKEEPER;
use tf_plan::object::SECRET;
use tower::BoxError;

use super::*;

const OWNER: Owner<'_> = Owner { kind: Kind::custom(ZOOKEEPER), namespace: "tf", name: "a", uid: "1" };

/// The object as it is planned.
fn planned() -> Object {
    let metadata = ObjectMeta { namespace: Some("tf".into()), name: Some("token".into()), ..ObjectMeta::default() };
    Object::new(SECRET, &Secret { metadata, ..Secret::default() })
}

/// The object as it is there, with our label and perhaps with its owner.
fn token(version: &str, is_owned: bool) -> Value {
    let owner = json!([{"apiVersion": "v1", "kind": "Zookeeper", "name": "a", "uid": "1", "controller": true}]);
    let mut token = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": {
        "namespace": "tf", "name": "token", "uid": "2", "resourceVersion": version,
        "labels": { names::LABEL_MANAGED_BY: "test-op" },
    } });
    if is_owned {
        token["metadata"]["ownerReferences"] = owner;
    }
    token
}

/// The resource as lists have it.
fn resources(uid: &str, is_deleted: bool) -> Value {
    let mut metadata = json!({ "namespace": "tf", "name": "a", "uid": uid });
    if is_deleted {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let item = json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata });
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": [item] })
}

fn conflict() -> Value {
    json!({ "kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409, "message": "it was modified" })
}

/// Applies against these answers, in their order. Says what came of it, and the bodies of the patches.
async fn apply(answers: impl IntoIterator<Item = Value>) -> (Act, Vec<Value>) {
    let answers = Arc::new(Mutex::new(VecDeque::from_iter(answers)));
    let patches = Arc::new(Mutex::new(Vec::new()));
    let (left, seen) = (Arc::clone(&answers), Arc::clone(&patches));
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = left.lock().unwrap().pop_front().unwrap();
        let seen = Arc::clone(&seen);
        async move {
            if request.method() == "PATCH" {
                let body = request.into_body().collect_bytes().await?;
                seen.lock().unwrap().push(serde_json::from_slice(&body)?);
            }
            let code = answer["code"].as_u64().unwrap_or(200).try_into()?;
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, BoxError>(Response::builder().status::<u16>(code).body(answer)?)
        }
    });
    let metrics = Arc::new(Metrics::new("test-op").unwrap());
    let applier = Applier::new(Client::new(service, "tf"), "test-op", metrics);
    let act = applier.apply(&planned(), OWNER, None, false).await.unwrap();
    assert!(answers.lock().unwrap().is_empty(), "not all was asked for");
    let patches = std::mem::take(&mut *patches.lock().unwrap());
    (act, patches)
}

#[tokio::test]
async fn what_lost_its_owner_is_taken_back_while_the_resource_stays() {
    let (act, patches) = apply([token("5", false), resources("1", false), token("6", true)]).await;
    assert!(matches!(act, Act::Applied(_)), "{act:?}");
    assert_eq!(patches.len(), 1);
}

#[tokio::test]
async fn what_a_deleted_resource_leaves_behind_is_not_taken_back() {
    for found in [resources("1", true), resources("another", false)] {
        let (act, patches) = apply([token("5", false), found]).await;
        assert_eq!((act, patches), (Act::LeftBehind, Vec::new()));
    }
}

#[tokio::test]
async fn what_changes_between_reading_and_applying_is_read_again() {
    // The garbage collector takes the owner away in between.
    let answers = [token("5", true), conflict(), token("6", false), resources("1", true)];
    let (act, patches) = apply(answers).await;
    assert_eq!(act, Act::LeftBehind);
    assert_eq!(patches[0]["metadata"]["resourceVersion"], "5");
    // Somebody else changes it.
    let (act, patches) = apply([token("5", true), conflict(), token("6", true), token("7", true)]).await;
    assert!(matches!(act, Act::Applied(_)), "{act:?}");
    assert_eq!(patches[1]["metadata"]["resourceVersion"], "6");
}
