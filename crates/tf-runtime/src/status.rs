//! Writing status: only when it says something new, and never anything that breaks the contract.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

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

use crate::{error::RequestError, object::Key, object::resource_version, world::dynamic};

/// Least time between two writes that only report progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// The last status we wrote, which the cache may not have yet.
struct Written {
    uid: String,
    version: u64,
    status: Value,
    at: Instant,
}

/// A status before or after a pass.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The contract part, if a status was ever written.
    pub contract: Option<Contract>,
    /// The whole status as JSON.
    pub value: Value,
}

/// What became of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It said nothing new.
    Unchanged,
    /// It was written.
    Done,
    /// It only reports progress and waits this long.
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

    /// The status as it is: what the cache has, or what we wrote since.
    pub fn known(&self, key: &Key, uid: &str, version: u64, cached: Value) -> Known {
        let written = self.lock();
        let value = match written.get(key) {
            Some(written) if written.uid == uid && written.version > version => written.status.clone(),
            _ => cached,
        };
        // The schema's default is a status nobody wrote.
        let reported = value.get("contract").is_some();
        let contract = reported.then(|| serde_json::from_value(value.clone()).ok()).flatten();
        Known { contract, value }
    }

    /// Writes `contract` and `own` if they differ from `before` in anything but times.
    ///
    /// # Errors
    /// [`StatusError`]
    pub async fn write(
        &self,
        key: &Key,
        generation: i64,
        before: &Known,
        contract: &Contract,
        own: Option<&Map<String, Value>>,
    ) -> Result<Write, StatusError> {
        invariants::check(contract, generation)?;
        let mut status = serde_json::to_value(contract).unwrap_or_default();
        let kept = own.cloned().or_else(|| Some(kind_specific(&before.value))).unwrap_or_default();
        if let Some(fields) = status.as_object_mut() {
            fields.extend(kept);
        }
        match change(&before.value, &status) {
            Change::None => return Ok(Write::Unchanged),
            Change::Minor => {
                if let Some(wait) = self.too_soon(key) {
                    return Ok(Write::Deferred(wait));
                }
            }
            Change::Major => {}
        }
        self.patch(key, status, &PatchParams::apply(self.operator).force(), Patch::Apply).await?;
        Ok(Write::Done)
    }

    /// Writes `contract` into an object that the API server takes no server-side apply for, since it does not follow the
    /// schema.
    ///
    /// # Errors
    /// [`StatusError`]
    pub async fn write_unchecked(
        &self,
        key: &Key,
        generation: i64,
        before: &Known,
        contract: &Contract,
    ) -> Result<(), StatusError> {
        invariants::check(contract, generation)?;
        let status = serde_json::to_value(contract).unwrap_or_default();
        if change(&before.value, &status) != Change::None {
            let parameters = PatchParams { field_manager: Some(self.operator.into()), ..PatchParams::default() };
            self.patch(key, status, &parameters, Patch::Merge).await?;
        }
        Ok(())
    }

    /// Forgets a resource that is gone.
    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn too_soon(&self, key: &Key) -> Option<Duration> {
        let elapsed = self.lock().get(key)?.at.elapsed();
        PROGRESS_INTERVAL.checked_sub(elapsed).filter(|wait| !wait.is_zero())
    }

    async fn patch(
        &self,
        key: &Key,
        status: Value,
        parameters: &PatchParams,
        patch: fn(Value) -> Patch<Value>,
    ) -> Result<(), RequestError> {
        let api = dynamic::<DynamicObject>(&self.client, self.kind, Some(&key.namespace));
        let body = json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.kind,
            "metadata": { "name": key.name, "namespace": key.namespace },
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
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fields of a status that are not the contract's: they stay when a pass did not get as far as computing them.
fn kind_specific(status: &Value) -> Map<String, Value> {
    let known = serde_json::from_value::<Contract>(status.clone()).unwrap_or_default();
    let contract = serde_json::to_value(known).unwrap_or_default();
    let mut rest = status.as_object().cloned().unwrap_or_default();
    rest.retain(|field, _| contract.get(field).is_none());
    rest
}
