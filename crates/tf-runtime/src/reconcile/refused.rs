//! Pods that the API server refuses: their controller waits longer after each refusal, up to a quarter of an hour, and does not learn that a namespace got
//! another label or a quota was raised. A change of the workload makes it try at once.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::{DynamicObject, PartialObjectMeta},
};
use serde_json::json;
use tf_api::names;
use tf_plan::{object::Kind, observed::Workload};

use crate::{caches::dynamic, error::RequestError, lock::lock, object::Key};

/// Time between two attempts.
pub const PAUSE: Duration = Duration::from_secs(30);

/// Has controllers try again.
pub struct Refused {
    client: Client,
    operator: &'static str,
    /// When each workload was first seen refused, or tried again last.
    since: Mutex<HashMap<Key, Instant>>,
}

impl Refused {
    /// Nothing is refused yet.
    pub fn new(client: Client, operator: &'static str) -> Self {
        Self { client, operator, since: Mutex::default() }
    }

    /// Has the controller of each refused workload try again, if it last did so [`PAUSE`] ago. Whether there are such workloads.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn try_again<'a>(
        &self,
        kind: Kind,
        namespace: &str,
        workloads: impl Iterator<Item = &'a Workload>,
    ) -> Result<bool, RequestError> {
        let mut any = false;
        for workload in workloads {
            let key = Key::new(namespace, &workload.name);
            if workload.refusal.is_none() {
                lock(&self.since).remove(&key);
                continue;
            }
            any = true;
            if self.is_due(&key) {
                self.touch(kind, &key).await?;
            }
        }
        Ok(any)
    }

    fn is_due(&self, key: &Key) -> bool {
        let now = Instant::now();
        let mut since = lock(&self.since);
        let last = since.entry(key.clone()).or_insert(now);
        let due = now.duration_since(*last) >= PAUSE;
        if due {
            *last = now;
        }
        due
    }

    async fn touch(&self, kind: Kind, key: &Key) -> Result<(), RequestError> {
        let api: Api<PartialObjectMeta<DynamicObject>> = dynamic(&self.client, kind, Some(&key.namespace));
        let body = json!({"metadata": {"annotations": {names::ANNOTATION_RETRIED: Timestamp::now().to_string()}}});
        // Not the manager of planned fields, which would take it away with its next apply.
        let parameters =
            PatchParams { field_manager: Some(format!("{}-retry", self.operator)), ..PatchParams::default() };
        match api.patch_metadata(&key.name, &parameters, &Patch::Merge(&body)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(source) => Err(RequestError { doing: format!("annotating {} {key}", kind.kind), source }),
        }
    }
}
