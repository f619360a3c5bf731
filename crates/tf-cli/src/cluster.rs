//! Reading resources of our kinds, once or for as long as somebody looks. Definitions that are not installed, and kinds that may not
//! be read, are noted and keep nothing else from being told.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use anyhow::{Context as _, Result, bail};
use futures::{Stream, StreamExt as _, future, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, DynamicObject},
    runtime::watcher::{self, Event, watcher},
};
use tf_api::{KindInfo, kinds, names};
use tf_plan::object::Kind;

use crate::status::Resource;

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Resources, by kind, namespace and name.
    pub resources: Vec<Resource>,
    /// What could not be read, for people.
    pub notes: Vec<String>,
}

/// Changes that come one right after the other are told together.
const TOGETHER: Duration = Duration::from_millis(200);

/// Reads all resources of a namespace, or of all.
///
/// # Errors
/// When the API server cannot be asked at all.
pub async fn read(client: &Client, namespace: Option<&str>) -> Result<Found> {
    let lists = kinds::ALL.map(|kind| async move {
        (kind, api(client, Kind::custom(kind), namespace).list(&ListParams::default()).await.map(|list| list.items))
    });
    let mut found = Found::default();
    for (kind, list) in future::join_all(lists).await {
        match list {
            Ok(objects) => found.resources.extend(objects.iter().map(|object| Resource::of(kind, object))),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(kube::Error::Api(status)) => found.notes.push(format!("{}: {}", kind.plural, status.message)),
            Err(error) => return Err(error).context("asking the API server"),
        }
    }
    Ok(found)
}

/// Pods of all operators, or of the one with this name, in a namespace or in all.
///
/// # Errors
/// When the API server cannot be asked, or the pods may not be read.
pub async fn pods(client: &Client, namespace: Option<&str>, operator: Option<&str>) -> Result<Vec<Pod>> {
    let mut selector = format!("{}={}", names::LABEL_PART_OF, names::PART_OF);
    if let Some(operator) = operator {
        let _ = write!(selector, ",{}={operator}", names::LABEL_MANAGED_BY);
    }
    let api = namespace.map_or_else(|| Api::all(client.clone()), |it| Api::namespaced(client.clone(), it));
    match api.list(&ListParams::default().labels(&selector)).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) => {
            let place = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
            bail!("pods{place} could not be read: {}", status.message)
        }
        Err(error) => Err(error).context("asking the API server"),
    }
}

/// The resources as they are, and anew after every change. Never ends by itself.
pub fn watch(client: &Client, namespace: Option<&str>) -> impl Stream<Item = Found> {
    let events = kinds::ALL.map(|kind| {
        let watched = watcher(api(client, Kind::custom(kind), namespace), watcher::Config::default());
        let watched = kube::runtime::WatchStreamExt::default_backoff(watched);
        watched.map(move |event| (kind, event)).boxed()
    });
    stream::unfold((stream::select_all(events), Seen::default()), async |(mut events, mut seen)| {
        loop {
            let (kind, event) = events.next().await?;
            seen.take(kind, event);
            seen.take_all(TOGETHER, &mut events).await;
            if seen.knows_all() {
                return Some((seen.found(), (events, seen)));
            }
        }
    })
}

/// What watches have told.
#[derive(Default)]
struct Seen {
    kinds: BTreeMap<&'static str, OfKind>,
}

/// Of one kind.
#[derive(Default)]
struct OfKind {
    objects: BTreeMap<(String, String), Resource>,
    /// A list that has not come to its end.
    coming: BTreeMap<(String, String), Resource>,
    /// Whether there was a whole list, or the reason for which there is none.
    is_known: bool,
    note: Option<String>,
}

impl Seen {
    fn take(&mut self, info: KindInfo, event: watcher::Result<Event<DynamicObject>>) {
        let kind = self.kinds.entry(info.kind).or_default();
        let keyed = |object: &DynamicObject| {
            let resource = Resource::of(info, object);
            ((resource.namespace.clone(), resource.name.clone()), resource)
        };
        match event {
            Ok(Event::Init) => kind.coming.clear(),
            Ok(Event::InitApply(object)) => kind.coming.extend([keyed(&object)]),
            Ok(Event::InitDone) => {
                kind.objects = std::mem::take(&mut kind.coming);
                (kind.is_known, kind.note) = (true, None);
            }
            Ok(Event::Apply(object)) => kind.objects.extend([keyed(&object)]),
            Ok(Event::Delete(object)) => {
                kind.objects.remove(&keyed(&object).0);
            }
            Err(error) => {
                kind.is_known = true;
                kind.note = note(&error).map(|why| format!("{}: {why}", info.plural));
            }
        }
    }

    /// Takes what comes within a moment.
    async fn take_all<S>(&mut self, moment: Duration, events: &mut S)
    where
        S: Stream<Item = (KindInfo, watcher::Result<Event<DynamicObject>>)> + Unpin,
    {
        let mut over = std::pin::pin!(tokio::time::sleep(moment));
        loop {
            tokio::select! {
                () = &mut over => return,
                next = events.next() => match next {
                    Some((kind, event)) => self.take(kind, event),
                    None => return,
                },
            }
        }
    }

    fn knows_all(&self) -> bool {
        self.kinds.len() == kinds::ALL.len() && self.kinds.values().all(|kind| kind.is_known)
    }

    fn found(&self) -> Found {
        let in_order = || kinds::ALL.iter().filter_map(|info| self.kinds.get(info.kind));
        Found {
            resources: in_order().flat_map(|kind| kind.objects.values().cloned()).collect(),
            notes: in_order().filter_map(|kind| kind.note.clone()).collect(),
        }
    }
}

/// Why a watch failed; nothing where the definition is not installed.
fn note(error: &watcher::Error) -> Option<String> {
    use watcher::Error;
    let source = match error {
        Error::InitialListFailed(source) | Error::WatchStartFailed(source) | Error::WatchFailed(source) => source,
        other => return Some(other.to_string()),
    };
    match source {
        kube::Error::Api(status) if status.is_not_found() => None,
        kube::Error::Api(status) => Some(status.message.clone()),
        other => Some(other.to_string()),
    }
}

/// Objects of a kind in one namespace, or everywhere.
pub(crate) fn api(client: &Client, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: kind.group.into(),
        version: kind.version.into(),
        api_version: kind.api_version(),
        kind: kind.kind.into(),
        plural: kind.plural.into(),
    };
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
