//! Writing status: only when it says something new, and never anything that breaks the contract.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use kube::{
    Client,
    api::{Patch, PatchParams},
    core::DynamicObject,
};
use serde_json::{Map, Value, json};
use tf_api::contract::{Contract, invariants};
use tf_plan::{
    object::Kind,
    status::{Change, change},
};
use tokio::time::Instant;

use crate::{
    caches::dynamic,
    error::RequestError,
    object::{Key, LAG, resource_version},
};

/// Least time between two writes that only report progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// Least time between two writes that only explain a fault.
const EXPLANATION_INTERVAL: Duration = Duration::from_secs(1);

/// The last status we wrote, which the cache may not have yet.
struct Written {
    uid: String,
    version: u64,
    status: Value,
    at: Instant,
}

impl Written {
    /// Whether it is later than this version of this resource.
    fn is_newer(&self, uid: &str, version: u64) -> bool {
        self.uid == uid && self.version > version && self.at.elapsed() < LAG
    }
}

/// The resource that a status is about.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Where it is.
    pub key: &'a Key,
    /// Its uid.
    pub uid: &'a str,
    /// Version of it that was seen.
    pub version: u64,
    /// Its generation.
    pub generation: i64,
}

/// A status before or after a pass.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The contract part, if a status was ever written.
    pub contract: Option<Contract>,
    /// The whole status as JSON.
    pub value: Value,
}

impl Known {
    /// A stored status.
    pub fn of(value: Value) -> Self {
        // The schema's default is a status nobody wrote.
        let reported = value.get("contract").is_some();
        let contract = reported.then(|| serde_json::from_value(value.clone()).ok()).flatten();
        Self { contract, value }
    }
}

/// Whether a write may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// What is done next rests on it.
    Now,
    /// Mere texts wait for more of them.
    Usual,
}

/// What became of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It said nothing new.
    Unchanged,
    /// It was written.
    Done,
    /// It only changes texts and waits this long.
    Deferred(Duration),
}

/// A status could not be written.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// It breaks the contract: a defect of the operator, caught before anybody believed it.
    #[error("the status would break the contract: {0}")]
    Contract(#[from] invariants::Violation),
    /// The request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Writes the status of one kind.
pub struct StatusWriter {
    client: Client,
    operator: &'static str,
    kind: Kind,
    written: Mutex<HashMap<Key, Written>>,
}

impl StatusWriter {
    /// A writer with the operator's name as field manager.
    pub fn new(client: Client, operator: &'static str, kind: Kind) -> Self {
        Self { client, operator, kind, written: Mutex::default() }
    }

    /// What we wrote since this version of the resource: the cache lags behind our own writes.
    pub fn newer(&self, key: &Key, uid: &str, version: u64) -> Option<Value> {
        self.lock().get(key).filter(|written| written.is_newer(uid, version)).map(|written| written.status.clone())
    }

    /// Writes `contract` and `own` if they differ from `before` in anything but times.
    ///
    /// # Errors
    /// [`StatusError`]
    pub async fn write(
        &self,
        target: Target<'_>,
        before: &Known,
        contract: &Contract,
        own: Option<&Map<String, Value>>,
        urgency: Urgency,
    ) -> Result<Write, StatusError> {
        invariants::check(contract, target.generation)?;
        let mut status = serde_json::to_value(contract).unwrap_or_default();
        let kept = own.cloned().or_else(|| Some(kind_specific(&before.value))).unwrap_or_default();
        if let Some(fields) = status.as_object_mut() {
            fields.extend(kept);
        }
        let interval = match change(&before.value, &status) {
            Change::None => return Ok(Write::Unchanged),
            Change::Minor => Some(PROGRESS_INTERVAL),
            Change::Explanation => Some(EXPLANATION_INTERVAL),
            Change::Major => None,
        };
        let interval = interval.filter(|_| urgency == Urgency::Usual);
        if let Some(wait) = interval.and_then(|interval| self.too_soon(target.key, interval)) {
            return Ok(Write::Deferred(wait));
        }
        self.patch(target, status, &PatchParams::apply(self.operator).force(), Patch::Apply).await?;
        Ok(Write::Done)
    }

    /// Writes `contract` into an object that the API server takes no server-side apply for, since it does not follow the
    /// schema.
    ///
    /// # Errors
    /// [`StatusError`]
    pub async fn write_unchecked(
        &self,
        target: Target<'_>,
        before: &Known,
        contract: &Contract,
    ) -> Result<(), StatusError> {
        invariants::check(contract, target.generation)?;
        let status = serde_json::to_value(contract).unwrap_or_default();
        if change(&before.value, &status) != Change::None {
            let parameters = PatchParams { field_manager: Some(self.operator.into()), ..PatchParams::default() };
            self.patch(target, status, &parameters, Patch::Merge).await?;
        }
        Ok(())
    }

    /// Forgets a resource that is gone.
    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn too_soon(&self, key: &Key, interval: Duration) -> Option<Duration> {
        let elapsed = self.lock().get(key)?.at.elapsed();
        interval.checked_sub(elapsed).filter(|wait| !wait.is_zero())
    }

    async fn patch(
        &self,
        target: Target<'_>,
        status: Value,
        parameters: &PatchParams,
        patch: fn(Value) -> Patch<Value>,
    ) -> Result<(), RequestError> {
        let Target { key, uid, version, .. } = target;
        let newer = |written: &&Written| written.is_newer(uid, version);
        let version = self.lock().get(key).filter(newer).map_or(version, |written| written.version);
        let api = dynamic::<DynamicObject>(&self.client, self.kind, Some(&key.namespace));
        let body = json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.kind,
            // What was found about one version is never written into another, let alone into another resource of the name:
            // the API server does not compare uids where it stores a status.
            "metadata": { "name": key.name, "namespace": key.namespace, "resourceVersion": version.to_string() },
            "status": status,
        });
        let answer = api
            .patch_status(&key.name, parameters, &patch(body))
            .await
            .map_err(RequestError::while_doing(format!("writing status of {} {key}", self.kind.kind)))?;
        let written = Written {
            uid: answer.metadata.uid.clone().unwrap_or_default(),
            version: resource_version(&answer.metadata).unwrap_or_default(),
            status: answer.data.get("status").cloned().unwrap_or(status),
            at: Instant::now(),
        };
        self.lock().insert(key.clone(), written);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Written>> {
        crate::lock::lock(&self.written)
    }
}

/// The fields of a status that are not the contract's: they stay when a pass did not get as far as computing them.
pub fn kind_specific(status: &Value) -> Map<String, Value> {
    let known = serde_json::from_value::<Contract>(status.clone()).unwrap_or_default();
    let contract = serde_json::to_value(known).unwrap_or_default();
    let mut rest = status.as_object().cloned().unwrap_or_default();
    rest.retain(|field, _| contract.get(field).is_none());
    rest
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use http::{Request, Response};
    use kube::client::Body;
    use tf_api::{contract::ConditionType, kinds::ZOOKEEPER};
    use tower::BoxError;

    use super::*;

    /// A writer that counts the requests it sends.
    fn writer() -> (StatusWriter, Arc<AtomicUsize>) {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            let stored = json!({ "apiVersion": "v1", "kind": "Any", "metadata": { "name": "a" } });
            async move { Ok::<_, BoxError>(Response::new(Body::from(stored.to_string().into_bytes()))) }
        });
        (StatusWriter::new(Client::new(service, "tf"), "test-op", Kind::custom(ZOOKEEPER)), sent)
    }

    /// A status that says all is well, and what else is said.
    fn ready_and(more: &[ConditionType]) -> Contract {
        let condition = |kind: &ConditionType| {
            let bad = matches!(kind, ConditionType::Degraded | ConditionType::Progressing);
            json!({
                "type": kind.as_ref(), "status": if bad { "False" } else { "True" }, "reason": "Succeeded", "message": "",
                "lastTransitionTime": "2026-11-21T10:00:00Z", "observedGeneration": 1,
            })
        };
        let mut conditions: Vec<Value> = ConditionType::ALWAYS.iter().chain(more).map(condition).collect();
        conditions.sort_by_key(|condition| condition["type"].to_string());
        serde_json::from_value(json!({ "contract": "v1", "observedGeneration": 1, "conditions": conditions })).unwrap()
    }

    #[tokio::test]
    async fn a_status_that_would_break_the_contract_is_never_sent() {
        let (writer, sent) = writer();
        let target = Target { key: &Key::new("tf", "a"), uid: "1", version: 1, generation: 1 };
        let stalled = ready_and(&[ConditionType::Stalled]);
        let refused = writer.write(target, &Known::default(), &stalled, None, Urgency::Usual).await;
        assert!(matches!(refused, Err(StatusError::Contract(_))), "{refused:?}");
        let refused = writer.write_unchecked(target, &Known::default(), &stalled).await;
        assert!(matches!(refused, Err(StatusError::Contract(_))), "{refused:?}");
        assert_eq!(sent.load(Ordering::SeqCst), 0);

        let written = writer.write(target, &Known::default(), &ready_and(&[]), None, Urgency::Usual).await.unwrap();
        assert_eq!((written, sent.load(Ordering::SeqCst)), (Write::Done, 1), "the same without Stalled is");
    }
}
