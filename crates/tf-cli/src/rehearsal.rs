//! Asking an API server what would become of objects, by requests that change nothing (`dryRun=All`): it checks them, fills in
//! what is usual, and answers as if it had stored them.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Client,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::{DynamicObject, TypeMeta},
};
use serde_json::{Value, json};
use tf_api::{kinds, names};
use tf_plan::{
    declaration::Read,
    object::{
        CONFIG_MAP, DAEMON_SET, Kind, NODE, Object, Ownership, PERSISTENT_VOLUME_CLAIM, POD, SECRET, STATEFUL_SET,
    },
};

use crate::{
    cluster::api,
    plan::{self, Change, Given, Operator, Outcome, Preview, Report},
};

/// Requests under way at a time.
const AT_ONCE: usize = 8;

/// What a cluster would make of a manifest.
#[derive(Debug)]
pub struct Rehearsal {
    /// Of every resource that the manifest names, and of all that those make.
    pub reports: Vec<Report>,
    /// What could not be read, for people.
    pub notes: Vec<String>,
}

/// Rehearses a manifest in a cluster.
///
/// # Errors
/// When the API server cannot be asked or refuses a resource of the manifest, in its words.
pub async fn rehearse(
    client: &Client,
    manifest: Vec<DynamicObject>,
    cluster_domain: &str,
    now: Timestamp,
) -> Result<Rehearsal> {
    let mut stage = Stage { client: client.clone(), given: Given::new(cluster_domain), notes: Vec::new() };
    let namespaces: BTreeSet<String> = manifest.iter().filter_map(|object| object.metadata.namespace.clone()).collect();
    stage.read(&namespaces).await?;
    let mut named = BTreeSet::new();
    for object in manifest {
        let taken = match plan::kind_of(&object) {
            Some(kind) => {
                named.insert((kind.kind, object.metadata.namespace.clone(), object.metadata.name.clone()));
                wished(client, Kind::custom(kind), object).await?
            }
            None => object,
        };
        stage.given.take(taken).context("the manifest")?;
    }
    let mut previews =
        plan::all(&mut stage.given, now, async |preview, object| made(client, preview, object).await).await?;
    // What nobody asked about is only what others need.
    previews.retain(|preview| concerns(&named, preview, &stage.given));
    let reports = stream::iter(previews).map(|preview| report(client, preview)).buffered(1).try_collect().await?;
    Ok(Rehearsal { reports, notes: stage.notes })
}

/// Whether a resource is named by the manifest, or made by one that is.
fn concerns(named: &BTreeSet<(&str, Option<String>, Option<String>)>, preview: &Preview, given: &Given) -> bool {
    let is_named = |kind: &str, namespace: &str, name: &str| {
        named.iter().any(|(known, home, own)| {
            *known == kind && home.as_deref() == Some(namespace) && own.as_deref() == Some(name)
        })
    };
    let resource = given.resource(preview.kind, &preview.namespace, &preview.name);
    let owners = resource.into_iter().flat_map(|resource| resource.object.metadata.owner_references.iter().flatten());
    is_named(preview.kind.kind, &preview.namespace, &preview.name)
        || owners.into_iter().any(|owner| is_named(&owner.kind, &preview.namespace, &owner.name))
}

/// What is read of a cluster.
struct Stage {
    client: Client,
    given: Given,
    notes: Vec<String>,
}

impl Stage {
    /// Reads what planners look at.
    async fn read(&mut self, namespaces: &BTreeSet<String>) -> Result<()> {
        self.list(NODE, None).await?;
        for namespace in namespaces {
            for kind in kinds::ALL.map(Kind::custom) {
                self.list(kind, Some(namespace)).await?;
            }
            for kind in [SECRET, CONFIG_MAP, POD, PERSISTENT_VOLUME_CLAIM, STATEFUL_SET, DAEMON_SET] {
                self.list(kind, Some(namespace)).await?;
            }
        }
        let facts: BTreeSet<(&str, &str)> = Operator::ALL
            .iter()
            .flat_map(|operator| (operator.declaration)().reads)
            .filter_map(|read| match read {
                Read::Fact { namespace, name, .. } => Some((namespace, name)),
                _ => None,
            })
            .collect();
        for (namespace, name) in facts {
            let found = api(&self.client, CONFIG_MAP, Some(namespace)).get_opt(name).await;
            let what = format!("ConfigMap {namespace}/{name}");
            if let Some(object) = self.noted(&what, found)?.flatten() {
                self.take(CONFIG_MAP, object)?;
            }
        }
        for (kind, name) in plan::foreign() {
            let found = api(&self.client, kind, None).get_opt(name).await;
            if let Some(object) = self.noted(&format!("{} {name}", kind.kind), found)?.flatten() {
                self.take(kind, object)?;
            }
        }
        Ok(())
    }

    async fn list(&mut self, kind: Kind, namespace: Option<&str>) -> Result<()> {
        let found = api(&self.client, kind, namespace).list(&ListParams::default()).await;
        let what = format!("{} in {}", kind.plural, namespace.unwrap_or("the cluster"));
        for object in self.noted(&what, found)?.into_iter().flat_map(|list| list.items) {
            self.take(kind, object)?;
        }
        Ok(())
    }

    fn take(&mut self, kind: Kind, object: DynamicObject) -> Result<()> {
        let name = object.metadata.name.clone().unwrap_or_default();
        self.given.take(typed(kind, object)).with_context(|| format!("{} {name}", kind.kind))?;
        Ok(())
    }

    /// What was found; what may not be read is noted, and what is not installed is not there.
    fn noted<T>(&mut self, what: &str, found: kube::Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            // Of a group that nothing is installed of the server says so in plain text, without a reason.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(kube::Error::Api(status)) => {
                self.notes.push(format!("{what} could not be read: {}", status.message));
                Ok(None)
            }
            Err(error) => Err(error).context("asking the API server"),
        }
    }
}

/// A resource of the manifest as the API server would store it, with the status that it has.
async fn wished(client: &Client, kind: Kind, object: DynamicObject) -> Result<DynamicObject> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let api = api(client, kind, object.metadata.namespace.as_deref());
    let rehearsal = PostParams { dry_run: true, field_manager: Some("kubectl-tf".into()) };
    let asked = match api.get_opt(&name).await {
        Ok(None) => api.create(&rehearsal, &typed(kind, object)).await,
        Ok(Some(mut live)) => {
            live.data["spec"] = object.data.get("spec").cloned().unwrap_or_else(|| json!({}));
            let metadata = &mut live.metadata;
            metadata.labels.get_or_insert_default().extend(object.metadata.labels.into_iter().flatten());
            metadata.annotations.get_or_insert_default().extend(object.metadata.annotations.into_iter().flatten());
            api.replace(&name, &rehearsal, &typed(kind, live)).await
        }
        Err(error) => Err(error),
    };
    match asked {
        Ok(stored) => Ok(typed(kind, stored)),
        Err(kube::Error::Api(status)) => bail!("the API server refuses {} {name}: {}", kind.kind, status.message),
        Err(error) => Err(error).context("asking the API server"),
    }
}

/// A resource that another one makes. Where that is refused, which the report says, it stays as it is.
async fn made(client: &Client, preview: &Preview, object: &Object) -> Result<DynamicObject> {
    if let Ok((becomes, _)) = rehearsed(client, preview, object).await {
        return Ok(becomes);
    }
    let live = api(client, object.kind, object.namespace.as_deref()).get_opt(&object.name).await;
    match live.with_context(|| format!("reading {}", object.describe()))? {
        Some(live) => Ok(typed(object.kind, live)),
        None => plan::made(object).with_context(|| object.describe()),
    }
}

/// What an object becomes when its operator applies it, and what it was.
async fn rehearsed(
    client: &Client,
    preview: &Preview,
    object: &Object,
) -> Result<(DynamicObject, Option<DynamicObject>)> {
    let api = api(client, object.kind, object.namespace.as_deref());
    let live = api.get_opt(&object.name).await.with_context(|| format!("reading {}", object.describe()))?;
    let operator = Operator::for_kind(preview.kind).map(|it| (it.declaration)().operator).unwrap_or_default();
    let how =
        PatchParams { dry_run: true, force: object.ownership != Ownership::Respect, ..PatchParams::apply(operator) };
    let answer = api.patch(&object.name, &how, &Patch::Apply(&object.body)).await;
    let becomes = answer.with_context(|| object.describe())?;
    Ok((typed(object.kind, becomes), live))
}

/// What becomes of the objects of a resource.
async fn report(client: &Client, preview: Preview) -> Result<Report> {
    let changes = stream::iter(preview.objects()).map(|object| async {
        let change = match rehearsed(client, &preview, object).await {
            Ok((_, None)) => Change::Created,
            Ok((becomes, Some(live))) => {
                Change::between(object.kind, &value(&typed(object.kind, live)), &value(&becomes))
            }
            Err(error) => Change::Unknown(format!("{error:#}")),
        };
        (object.describe(), change)
    });
    let mut objects: Vec<_> = changes.buffered(AT_ONCE).collect().await;
    if matches!(preview.outcome, Outcome::Planned(_)) {
        objects.extend(removed(client, &preview).await?.into_iter().map(|object| (object, Change::Deleted)));
    }
    Ok(Report { preview, objects })
}

/// Objects of a resource that are no longer planned.
async fn removed(client: &Client, preview: &Preview) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for kind in &preview.owned {
        let namespace = kind.namespaced.then_some(preview.namespace.as_str());
        let listed = match api(client, *kind, namespace).list_metadata(&ListParams::default()).await {
            Ok(list) => list.items,
            // What may not be read, or is not installed, was noted or is not there.
            Err(kube::Error::Api(_)) => continue,
            Err(error) => return Err(error).context("asking the API server"),
        };
        for object in listed.into_iter().filter(|object| is_of(&object.metadata, &preview.uid)) {
            let name = object.metadata.name.unwrap_or_default();
            let is_planned = preview.objects().iter().any(|planned| planned.kind == *kind && planned.name == name);
            if !is_planned && object.metadata.deletion_timestamp.is_none() {
                let home = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
                removed.push(format!("{} {home}{name}", kind.kind));
            }
        }
    }
    Ok(removed)
}

/// Whether an object is the resource's. Those outside of namespaces cannot have it as an owner; a label names it.
fn is_of(metadata: &ObjectMeta, uid: &str) -> bool {
    let labels = metadata.labels.as_ref();
    plan::controller(metadata) == Some(uid)
        || labels.and_then(|labels| labels.get(names::LABEL_OWNER_UID)).is_some_and(|owner| owner == uid)
}

/// Items of lists do not say what they are.
fn typed(kind: Kind, mut object: DynamicObject) -> DynamicObject {
    object.types = Some(TypeMeta { api_version: kind.api_version(), kind: kind.kind.into() });
    object
}

fn value(object: &DynamicObject) -> Value {
    // Plain data; serialising it into memory cannot fail.
    serde_json::to_value(object).unwrap_or_default()
}
