//! Everything the operator sees: caches by kind, the watches that fill them, and who is woken by what.

mod watches;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex},
};

use kube::{Api, Client, core::DynamicResourceScope};
use serde_json::Value;
use tf_api::Managed;
use tf_plan::{
    build::identity::{fit, is_removal},
    component::Component,
    declaration::Declaration,
    object::{Kind, PERSISTENT_VOLUME_CLAIM},
    observed::{self, Spec},
};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    identity::Requests,
    lock::lock,
    object::{Key, api_resource},
    referenced_objects::Inputs,
    watch::{Cache, Child, Context, PeerEntry, PodEntry, Primary, Refusal, State, WatchStatuses},
};

use watches::Watches;

/// Which namespaces an operator watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them, by watches of the whole cluster.
    All,
    /// These, by a watch each.
    Namespaces(BTreeSet<String>),
}

impl Scope {
    /// The namespaces of the watches: none for one watch of all.
    fn watches(&self) -> Vec<Option<String>> {
        match self {
            Self::All => vec![None],
            Self::Namespaces(namespaces) => namespaces.iter().cloned().map(Some).collect(),
        }
    }

    /// Whether a namespace is watched.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(namespaces) => namespaces.contains(namespace),
        }
    }
}

/// What wakes the operator up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// This resource.
    One(Key),
    /// This resource is gone; the text is its uid.
    Gone(Key, String),
    /// Every resource.
    All,
}

/// All caches of one operator.
pub struct Caches<Cr> {
    /// What the component declares.
    pub declaration: Declaration,
    /// Which namespaces are watched.
    pub scope: Scope,
    /// State of the watches that fill the caches.
    pub watch_statuses: Arc<WatchStatuses>,
    /// Resources of the operator's own kind.
    pub primaries: Arc<Cache<Primary<Cr>>>,
    /// Objects the operator owns, by kind. Kinds that are peers too are in `peers`.
    pub children: HashMap<Kind, Arc<Cache<Child>>>,
    /// Other operators' resources, by kind.
    pub peers: HashMap<Kind, Arc<Cache<PeerEntry>>>,
    /// Pods of the resources.
    pub pods: Arc<Cache<PodEntry>>,
    /// Nodes.
    pub nodes: Arc<Cache<observed::Node>>,
    /// Objects of third-party kinds that describe the cluster, without metadata, by kind.
    pub foreign: HashMap<Kind, Arc<Cache<Value>>>,
    /// Specs of resources that no operator reconciles, by kind.
    pub specs: HashMap<Kind, Arc<Cache<Spec>>>,
    /// Objects that resources refer to by name.
    pub inputs: Arc<Inputs>,
    /// Members' requests for certificates.
    pub requests: Arc<Requests>,
    /// Versions of the Secrets with the authorities that sign them.
    pub authorities: Arc<Cache<String>>,
    /// Pods that the API server refuses.
    pub refusals: Arc<Cache<Refusal>>,
    /// Claims without a volume.
    pub unbound: Arc<Cache<Refusal>>,
    /// Uids of pods that this operator deleted: the cache may not show it yet.
    deleted: Mutex<HashSet<String>>,
}

impl<Cr: Managed> Caches<Cr> {
    /// Empty caches for a component; `watch_statuses` will show the state of their watches.
    pub fn new<C: Component<Cr = Cr>>(scope: Scope, watch_statuses: Arc<WatchStatuses>) -> Self {
        let declaration = C::declaration();
        let peers: HashMap<_, _> =
            declaration.peers.iter().map(|peer| (peer.kind, Arc::new(Cache::default()))).collect();
        let children = declaration
            .owned
            .iter()
            .filter(|owned| !peers.contains_key(&owned.kind))
            .map(|owned| (owned.kind, Arc::new(Cache::default())))
            .collect();
        let foreign = declaration.foreign().map(|(kind, _)| (kind, Arc::default())).collect();
        let specs = declaration.specs().map(|kind| (kind, Arc::default())).collect();
        Self {
            declaration,
            scope,
            watch_statuses,
            primaries: Arc::default(),
            children,
            peers,
            pods: Arc::default(),
            nodes: Arc::default(),
            foreign,
            specs,
            inputs: Arc::default(),
            requests: Arc::default(),
            authorities: Arc::default(),
            refusals: Arc::default(),
            unbound: Arc::default(),
            deleted: Mutex::default(),
        }
    }

    /// Starts every watch. They end when the returned set is dropped.
    pub fn watch(&self, client: &Client, context: &Context, triggers: &mpsc::UnboundedSender<Trigger>) -> JoinSet<()> {
        Watches { caches: self, client, context, triggers, tasks: JoinSet::new() }.start()
    }

    /// Whether the cache of a kind holds what the API server has in this namespace (empty for cluster-scoped kinds). Before
    /// the first list has come to its end, or while the watch does not work, it may hold a part only: nothing may be
    /// concluded from what is missing in it.
    pub fn is_synced(&self, kind: Kind, namespace: &str) -> bool {
        self.watch_statuses.covering(kind, namespace) == Some(State::Synced)
    }

    /// The owned object of this kind and key, as last seen.
    pub fn child(&self, kind: Kind, key: &Key) -> Option<Child> {
        match self.children.get(&kind) {
            Some(cache) => cache.get(key).map(|child| (*child).clone()),
            None => self.peers.get(&kind)?.get(key).map(|entry| entry.child.clone()),
        }
    }

    /// Owned objects of a kind whose owner has this uid.
    pub fn children_of(&self, kind: Kind, uid: &str) -> Vec<(Key, Child)> {
        let owned = |child: &Child| child.owner.as_deref() == Some(uid);
        match (self.children.get(&kind), self.peers.get(&kind)) {
            (Some(cache), _) => {
                cache.select(|_, child| owned(child)).into_iter().map(|(key, child)| (key, (*child).clone())).collect()
            }
            (None, Some(cache)) => cache
                .select(|_, entry| owned(&entry.child))
                .into_iter()
                .map(|(key, entry)| (key, entry.child.clone()))
                .collect(),
            (None, None) => Vec::new(),
        }
    }

    /// Why the API server last refused a pod of the workload with this uid, in its words. Events about it are there for an hour.
    pub fn refusal_of(&self, workload: &str) -> Option<String> {
        last(&self.refusals, workload)
    }

    /// Pods of a resource, sorted by name.
    pub fn pods_of(&self, owner: &Key) -> Vec<observed::Pod> {
        self.pods_where(owner, |labels| !is_removal(labels))
    }

    /// Pods that undo on a node what those of a resource changed there, sorted by name.
    pub fn removals_of(&self, owner: &Key) -> Vec<observed::Pod> {
        self.pods_where(owner, is_removal)
    }

    fn pods_where(&self, owner: &Key, is_one: impl Fn(&BTreeMap<String, String>) -> bool) -> Vec<observed::Pod> {
        let is_its = |key: &Key, entry: &PodEntry| {
            key.namespace == owner.namespace && belongs::<Cr>(&entry.labels, owner) && is_one(&entry.labels)
        };
        let pods = self.pods.select(is_its);
        let deleted = lock(&self.deleted);
        let seen =
            |pod: observed::Pod| observed::Pod { terminating: pod.terminating || deleted.contains(&pod.uid), ..pod };
        pods.into_iter().map(|(_, entry)| seen(entry.pod.clone())).collect()
    }

    /// Notes that a pod was deleted. Until the cache shows it the pod would look like one that serves, and its resource like one that is Ready.
    pub fn was_deleted(&self, uid: &str) {
        lock(&self.deleted).insert(uid.to_owned());
    }

    /// Forgets deleted pods that the cache does not have any more.
    pub fn forget_deleted(&self) {
        let cached: HashSet<String> =
            self.pods.select(|_, _| true).into_iter().map(|(_, entry)| entry.pod.uid.clone()).collect();
        lock(&self.deleted).retain(|uid| cached.contains(uid));
    }

    /// Volume claims of a resource, which they outlive, by name.
    pub fn claims_of(&self, owner: &Key) -> BTreeMap<String, observed::Claim> {
        let Some(claims) = self.children.get(&PERSISTENT_VOLUME_CLAIM) else { return BTreeMap::new() };
        let its = claims.select(|key, child| key.namespace == owner.namespace && belongs::<Cr>(&child.labels, owner));
        let seen = |child: &Child| {
            let claim = child.claim.clone()?;
            let unbound = claim.capacity.is_none().then(|| last(&self.unbound, &child.uid)).flatten();
            Some(observed::Claim { unbound, ..claim })
        };
        its.into_iter().filter_map(|(key, child)| Some((key.name, seen(&child)?))).collect()
    }
}

/// What was said last of the object with this uid.
fn last(said: &Cache<Refusal>, uid: &str) -> Option<String> {
    let said = said.select(|_, refusal| refusal.about == uid && !refusal.words.is_empty());
    said.into_iter().map(|(_, refusal)| refusal).max().map(|refusal| refusal.words.clone())
}

/// Whether a pod or a claim carries the label that names this resource.
fn belongs<Cr: Managed>(labels: &BTreeMap<String, String>, owner: &Key) -> bool {
    labels.get(&Cr::type_name()).is_some_and(|value| *value == fit(&owner.name, 63))
}

/// The dynamic API of a kind, in one namespace or everywhere.
pub fn dynamic<K>(client: &Client, kind: Kind, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<DynamicType = kube::core::ApiResource, Scope = DynamicResourceScope>,
{
    let resource = api_resource(kind);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
