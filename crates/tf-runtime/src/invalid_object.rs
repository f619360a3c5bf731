//! Stored objects that do not parse, for example because they were stored under another definition.
//!
//! Nothing is done about them but telling. How much can be told depends on what is wrong: the API server refuses server-side
//! apply, also of the status, for every object that does not follow its schema, and a merge patch for one on which a rule of
//! the schema cannot be evaluated. An event is always possible.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use tf_api::contract::Reason;
use tf_plan::{
    assess::{Inputs, Outcome, assess},
    component::Component,
    not_ready::NotReady,
};

use crate::{
    object::{Key, resource_version},
    reconcile::{Next, Reconciler},
    status::{Known, Target},
};

impl<C: Component> Reconciler<C> {
    /// The resource as events name it.
    pub(crate) fn reference(&self, key: &Key, metadata: &ObjectMeta) -> ObjectReference {
        let primary = self.caches.declaration.primary;
        ObjectReference {
            api_version: Some(primary.api_version()),
            kind: Some(primary.kind.to_owned()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }

    /// Says that the object does not parse.
    pub(crate) async fn undecodable(&self, key: &Key, metadata: &ObjectMeta, error: &str) -> Next {
        let generation = metadata.generation.unwrap_or_default();
        let uid = metadata.uid.clone().unwrap_or_default();
        let message = format!("the stored resource does not parse ({error}); correct it with kubectl edit");
        self.events.undecodable(&self.reference(key, metadata), &message).await;

        let before = Known::of(self.statuses.newer(key, &uid, 0).unwrap_or_default());
        let not_ready = NotReady::invalid(Reason::InvalidSpec, message);
        let assessment = assess(&Inputs {
            generation,
            paused: false,
            previous: before.contract.as_ref(),
            availability: C::AVAILABILITY,
            workloads: &BTreeMap::new(),
            pods: &[],
            told: None,
            operator: &self.observer.operator.version,
            now: jiff::Timestamp::now(),
            outcome: Outcome::NotReady(&not_ready),
        });
        let version = resource_version(metadata).unwrap_or_default();
        let target = Target { key, uid: &uid, version, generation };
        match self.statuses.write_unchecked(target, &before, &assessment.contract).await {
            Ok(()) => Next::Rest,
            Err(error) => {
                tracing::warn!(resource = %key, %error, "an undecodable resource could be told so by an event only");
                Next::Retry
            }
        }
    }
}
