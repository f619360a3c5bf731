//! Applying a plan's objects by server-side apply, and pruning what is no longer planned.
//!
//! An object is applied only when it has to be: when the plan changed, or when somebody touched the live object. The first
//! is seen by the hash of what was last applied, the second by its resource version or generation. In doubt the live
//! object is read and compared; a write is the last resort. That is what makes a steady state silent and still repairs
//! foreign edits, deletions included.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy},
    core::DynamicObject,
};
use serde_json::{Value, json};
use tf_api::{contract::Reason, names};
use tf_plan::{
    hash,
    object::{Kind, Object, Ownership},
};
use tokio::time::Instant;

use crate::{
    caches::dynamic,
    covers::{covers, owners_covered},
    error::RequestError,
    field_ownership::{self, undeclared},
    managed::{self, applied_no_more_than, wholes_are_as_planned},
    metrics::Metrics,
    object::{Key, LAG, describe_owner, resource_version},
    watch::Child,
};

/// Fields that were left out are asked for again by the first pass after this time: that somebody gave a field up, or that a
/// definition knows it by now, changes neither a value nor the generation.
const ASK_AGAIN: Duration = Duration::from_mins(1);

/// How often an object is read again because it changed between reading and applying.
const ATTEMPTS: u32 = 5;

/// The live object as it was when it last agreed with what we want.
#[derive(Clone, Debug)]
struct Record {
    owner: String,
    hash: String,
    uid: String,
    version: u64,
    generation: i64,
    omitted: Omitted,
    at: Instant,
}

/// Fields of an object that were not applied, each with why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Omitted {
    /// Others hold them with another value.
    pub held: Vec<String>,
    /// The API server's definition of the kind does not have them.
    pub unknown: Vec<String>,
}

impl Omitted {
    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.unknown.is_empty()
    }
}

/// What became of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// It was already as planned.
    Unchanged,
    /// It was created or changed; this is the answer of the API server.
    Applied(Box<DynamicObject>),
    /// It differs and was left alone because changes are suspended.
    Pending,
    /// It is being deleted; it is made anew when it is gone.
    Terminating,
    /// It is what a deleted resource of the same name left; it is made anew when the garbage collector has removed it.
    Leftover,
    /// It is what another operator made and gives way; it is made anew when the garbage collector has let its pods go.
    GivesWay,
    /// The resource is being deleted and leaves it behind.
    LeftBehind,
    /// It was applied but for these fields.
    Partly(Omitted),
}

/// Why an object was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// An object of that name belongs to somebody else.
    #[error("{object} already exists and belongs to {owner}; rename this resource or remove that object")]
    NotOwned {
        /// The object.
        object: String,
        /// Its owner.
        owner: String,
    },
}

impl ApplyError {
    /// For conditions.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Request(error) => error.reason(),
            Self::NotOwned { .. } => Reason::ObjectNotOwned,
        }
    }
}

/// Whose objects are applied.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Kind of the resource.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

/// Applies objects as one field manager.
pub struct Applier {
    client: Client,
    operator: &'static str,
    metrics: Arc<Metrics>,
    records: Mutex<HashMap<(Kind, Key), Record>>,
}

impl Applier {
    /// An applier with the operator's name as field manager.
    pub fn new(client: Client, operator: &'static str, metrics: Arc<Metrics>) -> Self {
        Self { client, operator, metrics, records: Mutex::default() }
    }

    /// Brings one object to its desired state. `seen` is the object in the cache, `dry` forbids changes.
    pub async fn apply(
        &self,
        object: &Object,
        owner: Owner<'_>,
        seen: Option<&Child>,
        dry: bool,
    ) -> Result<Act, ApplyError> {
        let key = (object.kind, Key::new(object.namespace.clone().unwrap_or_default(), object.name.clone()));
        let hash = hash::of_value(&object.body);
        if seen.is_some_and(|seen| seen.terminating) {
            return Ok(Act::Terminating);
        }
        if let (Some(record), Some(seen)) = (self.record(&key), seen)
            && record.hash == hash
            && untouched(object, owner, &record, seen)
            && (record.omitted.is_empty() || record.at.elapsed() < ASK_AGAIN)
        {
            return Ok(if record.omitted.is_empty() { Act::Unchanged } else { Act::Partly(record.omitted) });
        }
        let mut attempts = 1;
        loop {
            match self.settle(object, &key, &hash, owner, dry).await {
                Err(ApplyError::Request(error)) if error.is_conflict() && attempts < ATTEMPTS => attempts += 1,
                settled => return settled,
            }
        }
    }

    /// Looks at the live object and does what it needs, unless it changes meanwhile (a conflict).
    async fn settle(
        &self,
        object: &Object,
        key: &(Kind, Key),
        hash: &str,
        owner: Owner<'_>,
        dry: bool,
    ) -> Result<Act, ApplyError> {
        let api = dynamic::<DynamicObject>(&self.client, object.kind, object.namespace.as_deref());
        let live = api
            .get_opt(&object.name)
            .await
            .map_err(RequestError::while_doing(format!("reading {}", object.describe())))?;
        if let Some(live) = &live {
            if object.ownership == Ownership::TakeOver && self.is_predecessor(live, owner) {
                return self.dismiss(object.kind, &key.1, &live.metadata, dry).await;
            }
            if live.metadata.deletion_timestamp.is_some() {
                return Ok(Act::Terminating);
            }
            if is_leftover(live, owner) {
                return Ok(Act::Leftover);
            }
            self.check_owner(object, owner, live)?;
            if Child::of(&live.metadata).owner.is_none() && !self.is_wanted(owner).await? {
                return Ok(Act::LeftBehind);
            }
            if self.is_as_planned(live, &object.body) {
                self.remember(key, owner, hash, live, Omitted::default());
                self.count(object.kind, "unchanged");
                return Ok(Act::Unchanged);
            }
        }
        if dry {
            return Ok(Act::Pending);
        }
        let (applied, omitted) = self.patch(&api, object, live.as_ref()).await?;
        self.count(object.kind, if live.is_none() { "created" } else { "changed" });
        tracing::info!(object = object.describe(), created = live.is_none(), "applied");
        self.remember(key, owner, hash, &applied, omitted.clone());
        if omitted.is_empty() { Ok(Act::Applied(Box::new(applied))) } else { Ok(Act::Partly(omitted)) }
    }

    /// Whether the live object carries every field we want, and none that we once wanted.
    fn is_as_planned(&self, live: &DynamicObject, desired: &Value) -> bool {
        let Ok(found) = serde_json::to_value(live) else { return false };
        let mut rest = desired.clone();
        let owners = rest.pointer_mut("/metadata/ownerReferences").map(Value::take).unwrap_or_default();
        applied_no_more_than(&live.metadata, self.operator, desired)
            && owners_covered(&found["metadata"]["ownerReferences"], &owners)
            && covers(&found, &rest)
            && wholes_are_as_planned(&live.metadata, self.operator, &found, desired)
    }

    /// Whether the live object is the resource's and was made by another operator, none of whose fields shall stay.
    fn is_predecessor(&self, live: &DynamicObject, owner: Owner<'_>) -> bool {
        let seen = Child::of(&live.metadata);
        seen.owner.as_deref() == Some(owner.uid) && !self.manages(&seen)
    }

    /// Deletes a workload and leaves its pods to the one that is made in its place.
    async fn dismiss(&self, kind: Kind, key: &Key, live: &ObjectMeta, dry: bool) -> Result<Act, ApplyError> {
        if dry {
            return Ok(Act::Pending);
        }
        if live.deletion_timestamp.is_none() {
            let uid = live.uid.as_deref().unwrap_or_default();
            self.remove(kind, key, uid, PropagationPolicy::Orphan).await?;
            tracing::info!(kind = kind.kind, object = %key, "was the former operator's; its pods stay");
        }
        Ok(Act::GivesWay)
    }

    /// Deletes an object we own; one that was replaced meanwhile is not hit.
    pub async fn delete(&self, kind: Kind, key: &Key, uid: &str) -> Result<(), RequestError> {
        self.remove(kind, key, uid, PropagationPolicy::Background).await
    }

    async fn remove(
        &self,
        kind: Kind,
        key: &Key,
        uid: &str,
        dependents: PropagationPolicy,
    ) -> Result<(), RequestError> {
        let namespace = Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let api = dynamic::<DynamicObject>(&self.client, kind, namespace);
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            propagation_policy: Some(dependents),
            ..DeleteParams::default()
        };
        match api.delete(&key.name, &parameters).await {
            Ok(_) => {
                self.count(kind, "deleted");
                tracing::info!(kind = kind.kind, object = %key, "deleted");
                Ok(())
            }
            // Gone already, or another object by now: both are what was wanted.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(source) => Err(RequestError { doing: format!("deleting {} {key}", kind.kind), source }),
        }
    }

    /// Whether a cached object is older than our own last write of it.
    pub fn is_stale(&self, kind: Kind, key: &Key, seen: &Child) -> bool {
        let record = self.record(&(kind, key.clone()));
        record.is_some_and(|record| record.uid == seen.uid && seen.version < record.version)
    }

    /// Forgets the objects of a resource that is gone.
    pub fn forget(&self, owner: &str) {
        self.lock().retain(|_, record| record.owner != owner);
    }

    /// Whether the resource is still there to stay, as the API server says and not the cache: while it is deleted with
    /// `--cascade=orphan`, the garbage collector takes its objects away from it, and one that were taken back would be
    /// deleted with it.
    async fn is_wanted(&self, owner: Owner<'_>) -> Result<bool, RequestError> {
        let api = dynamic::<DynamicObject>(&self.client, owner.kind, Some(owner.namespace));
        // Operators may list what they reconcile.
        let named = ListParams::default().fields(&format!("metadata.name={}", owner.name));
        let found = api
            .list_metadata(&named)
            .await
            .map_err(RequestError::while_doing(format!("looking for {} {}", owner.kind.kind, owner.name)))?;
        let is_it = |metadata: &ObjectMeta| metadata.uid.as_deref() == Some(owner.uid);
        Ok(found.iter().any(|found| is_it(&found.metadata) && found.metadata.deletion_timestamp.is_none()))
    }

    /// Applies as much of an object as the API server takes. It refuses the whole for one field that the definition does not
    /// have, as a component's older definition does with what a newer Manager passes on. What is there is changed only as it
    /// was read.
    async fn patch(
        &self,
        api: &Api<DynamicObject>,
        object: &Object,
        live: Option<&DynamicObject>,
    ) -> Result<(DynamicObject, Omitted), RequestError> {
        let mut body = object.body.clone();
        if let Some(live) = live {
            body["metadata"]["resourceVersion"] = json!(live.metadata.resource_version);
        }
        let mut unknown: Vec<String> = Vec::new();
        // The API server names one such field of each map at a time.
        let outcome = loop {
            let outcome = self.patch_with(api, object, &body, live).await;
            let Err(kube::Error::Api(status)) = &outcome else { break outcome };
            let found: Vec<_> = undeclared(&status.message).into_iter().filter(|it| !unknown.contains(it)).collect();
            if found.is_empty() {
                break outcome;
            }
            for field in &found {
                field_ownership::remove(&mut body, field);
            }
            unknown.extend(found);
        };
        let (applied, held) = outcome.map_err(RequestError::while_doing(format!("applying {}", object.describe())))?;
        let why = format!("the installed definition of {} does not have this field", object.kind.kind);
        let unknown = unknown.iter().map(|field| format!("{}{field}: {why}", object.describe())).collect();
        Ok((applied, Omitted { held, unknown }))
    }

    /// Applies this body of an object, without the fields that others hold.
    async fn patch_with(
        &self,
        api: &Api<DynamicObject>,
        object: &Object,
        body: &Value,
        live: Option<&DynamicObject>,
    ) -> kube::Result<(DynamicObject, Vec<String>)> {
        let parameters = match object.ownership {
            Ownership::Force | Ownership::TakeOver => PatchParams::apply(self.operator).force(),
            Ownership::Respect => PatchParams::apply(self.operator),
        };
        match api.patch(&object.name, &parameters, &Patch::Apply(body)).await {
            Ok(applied) => Ok((applied, Vec::new())),
            Err(kube::Error::Api(status)) if object.ownership == Ownership::Respect && status.is_conflict() => {
                let conflicts: Vec<(String, String)> = status
                    .details
                    .iter()
                    .flat_map(|details| &details.causes)
                    .map(|cause| (cause.field.clone(), cause.message.clone()))
                    .collect();
                if conflicts.is_empty() {
                    return Err(kube::Error::Api(status));
                }
                let is_older = |live: &DynamicObject, (field, why): &(String, String)| {
                    holder(why).is_some_and(|holder| managed::is_older(&live.metadata, self.operator, holder, field))
                };
                if live.is_some_and(|live| conflicts.iter().all(|conflict| is_older(live, conflict))) {
                    let applied = api.patch(&object.name, &parameters.force(), &Patch::Apply(body)).await?;
                    return Ok((applied, Vec::new()));
                }
                let mut body = body.clone();
                for (field, _) in &conflicts {
                    field_ownership::remove(&mut body, field);
                }
                let applied = api.patch(&object.name, &parameters, &Patch::Apply(&body)).await?;
                let told =
                    conflicts.into_iter().map(|(field, why)| format!("{}{field}: {why}", object.describe())).collect();
                Ok((applied, told))
            }
            Err(kube::Error::Api(status))
                if object.ownership != Ownership::Respect
                    && live.is_some()
                    && status.is_invalid()
                    && self.evict(api, object).await.is_ok() =>
            {
                // It is not as it was read any more, by our own hand.
                let mut body = body.clone();
                field_ownership::remove(&mut body, ".metadata.resourceVersion");
                Ok((api.patch(&object.name, &parameters, &Patch::Apply(&body)).await?, Vec::new()))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes away what others added to our lists. Server-side apply leaves an entry of theirs beside ours, and is refused
    /// when the two contradict each other, like two ports of one name; a merge patch replaces the list.
    async fn evict(&self, api: &Api<DynamicObject>, object: &Object) -> kube::Result<()> {
        let mut body = object.body.clone();
        if let Some(fields) = body.as_object_mut() {
            fields.remove("metadata");
        }
        let parameters = PatchParams { field_manager: Some(self.operator.into()), ..PatchParams::default() };
        let replaced = api.patch(&object.name, &parameters, &Patch::Merge(&body)).await?;
        tracing::info!(object = object.describe(), "replaced lists that others had added to");
        // Nobody may own what the merge patch wrote, or a field would stay when it is planned no more.
        let ours = |entry: &ManagedFieldsEntry| {
            entry.manager.as_deref() == Some(self.operator) && entry.operation.as_deref() == Some("Update")
        };
        let others: Vec<_> = replaced.metadata.managed_fields.into_iter().flatten().filter(|e| !ours(e)).collect();
        let metadata = json!({ "managedFields": others, "resourceVersion": replaced.metadata.resource_version });
        api.patch(&object.name, &parameters, &Patch::Merge(&json!({ "metadata": metadata }))).await?;
        Ok(())
    }

    /// An object of our name may belong to nobody but this resource. One that lost its owner but still carries our label,
    /// as after a restore from a backup, is taken back.
    fn check_owner(&self, object: &Object, owner: Owner<'_>, live: &DynamicObject) -> Result<(), ApplyError> {
        let seen = Child::of(&live.metadata);
        let ours = match &seen.owner {
            Some(uid) => uid == owner.uid,
            None => self.manages(&seen),
        };
        if ours {
            return Ok(());
        }
        Err(ApplyError::NotOwned { object: object.describe(), owner: describe_owner(live) })
    }

    /// Whether an object carries our label.
    fn manages(&self, seen: &Child) -> bool {
        seen.labels.get(names::LABEL_MANAGED_BY).is_some_and(|manager| manager == self.operator)
    }

    fn record(&self, key: &(Kind, Key)) -> Option<Record> {
        self.lock().get(key).cloned()
    }

    fn remember(&self, key: &(Kind, Key), owner: Owner<'_>, hash: &str, live: &DynamicObject, omitted: Omitted) {
        let record = Record {
            owner: owner.uid.to_owned(),
            hash: hash.to_owned(),
            uid: live.metadata.uid.clone().unwrap_or_default(),
            version: resource_version(&live.metadata).unwrap_or_default(),
            generation: live.metadata.generation.unwrap_or_default(),
            omitted,
            at: Instant::now(),
        };
        self.lock().insert(key.clone(), record);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(Kind, Key), Record>> {
        crate::lock::lock(&self.records)
    }

    fn count(&self, kind: Kind, action: &str) {
        self.metrics.objects.with_label_values(&[kind.kind, action]).inc();
    }
}

/// The field manager that a conflict names: `conflict with "velero" using tf.tungsten.io/v1alpha1`.
fn holder(why: &str) -> Option<&str> {
    why.split('"').nth(1)
}

/// Whether nobody has touched the live object since it agreed with us. The cache may lag behind our own write.
fn untouched(object: &Object, owner: Owner<'_>, record: &Record, seen: &Child) -> bool {
    if seen.uid != record.uid {
        return false;
    }
    if seen.version == record.version || seen.version < record.version && record.at.elapsed() < LAG {
        return true;
    }
    // Status moved the resource version; the generation tells about the spec, the rest is in the metadata.
    object.kind.counts_generations && seen.generation == record.generation && metadata_intact(object, owner, seen)
}

fn metadata_intact(object: &Object, owner: Owner<'_>, seen: &Child) -> bool {
    let holds = |field: &str, live: &std::collections::BTreeMap<String, String>| {
        let wanted = object.body["metadata"][field].as_object();
        wanted.into_iter().flatten().all(|(key, value)| live.get(key).map(String::as_str) == value.as_str())
    };
    seen.owner.as_deref() == Some(owner.uid) && holds("labels", &seen.labels) && holds("annotations", &seen.annotations)
}

/// Whether the live object was made for a resource that had the name of this one. Its deletion is under way.
fn is_leftover(live: &DynamicObject, owner: Owner<'_>) -> bool {
    let owners = live.metadata.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    controller.is_some_and(|found| found.kind == owner.kind.kind && found.name == owner.name && found.uid != owner.uid)
}

#[cfg(test)]
mod tests;
