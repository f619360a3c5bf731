//! Everything the operator sees: caches by kind, the watches that fill them, and who is woken by what.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, StatefulSet},
    certificates::v1::CertificateSigningRequest,
    core::v1::Pod,
};
use kube::{
    Api, Client,
    core::{DynamicObject, DynamicResourceScope, NamespaceResourceScope, PartialObjectMeta},
};
use tf_api::{Managed, names};
use tf_plan::{
    build::identity::fit,
    component::Component,
    declaration::Declaration,
    object::{CERTIFICATE_SIGNING_REQUEST, CONFIG_MAP, DAEMON_SET, Kind, NODE, POD, SECRET, STATEFUL_SET},
    observed,
};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    identity::{Pending, Requests},
    inputs::{InputSink, Inputs},
    object::{Key, api_resource},
    watch::{
        Board, Cache, Changed, Child, Context, Kept, LeanNode, PeerEntry, PodEntry, Primary, Purpose, Selector, State,
        Subject, Watch, child, decode_peer, node, pod, primary, workload,
    },
};

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
pub struct World<Cr> {
    /// What the component declares.
    pub declaration: Declaration,
    /// Which namespaces are watched.
    pub scope: Scope,
    /// State of the watches that fill the caches.
    pub board: Arc<Board>,
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
    /// Objects that resources refer to by name.
    pub inputs: Arc<Inputs>,
    /// Members' requests for certificates.
    pub requests: Arc<Requests>,
}

impl<Cr: Managed> World<Cr> {
    /// Empty caches for a component; `board` will show the state of their watches.
    pub fn new<C: Component<Cr = Cr>>(scope: Scope, board: Arc<Board>) -> Self {
        let declaration = C::declaration();
        let peers: HashMap<_, _> =
            declaration.peers.iter().map(|peer| (peer.kind, Arc::new(Cache::default()))).collect();
        let children = declaration
            .owned
            .iter()
            .filter(|owned| !peers.contains_key(&owned.kind))
            .map(|owned| (owned.kind, Arc::new(Cache::default())))
            .collect();
        Self {
            declaration,
            scope,
            board,
            primaries: Arc::default(),
            children,
            peers,
            pods: Arc::default(),
            nodes: Arc::default(),
            inputs: Arc::default(),
            requests: Arc::default(),
        }
    }

    /// Starts every watch. They end when the returned set is dropped.
    pub fn watch(&self, client: &Client, context: &Context, triggers: &mpsc::UnboundedSender<Trigger>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for namespace in self.scope.watches() {
            self.watch_primaries(client, context, triggers, namespace.as_deref(), &mut tasks);
            self.watch_children(client, context, triggers, namespace.as_deref(), &mut tasks);
            self.watch_peers(client, context, triggers, namespace.as_deref(), &mut tasks);
            if self.declaration.watches_pods() {
                self.watch_pods(client, context, triggers, namespace.as_deref(), &mut tasks);
            }
            self.watch_inputs(client, context, triggers, namespace.as_deref(), &mut tasks);
        }
        if self.declaration.calls_agents {
            self.watch_requests(client, context, &mut tasks);
        }
        if self.declaration.reads_nodes() {
            self.watch_nodes(client, context, triggers, &mut tasks);
        }
        tasks
    }

    fn watch_primaries(
        &self,
        client: &Client,
        context: &Context,
        triggers: &mpsc::UnboundedSender<Trigger>,
        namespace: Option<&str>,
        tasks: &mut JoinSet<()>,
    ) {
        let triggers = triggers.clone();
        let metrics = context.metrics.clone();
        let kind = self.declaration.primary.kind;
        let changed: Changed<Primary<Cr>> = Arc::new(move |key, before, after| {
            let bad = |primary: Option<&Primary<Cr>>| matches!(primary, Some(Primary::Undecodable { .. }));
            metrics.undecodable.with_label_values(&[kind]).add(i64::from(bad(after)) - i64::from(bad(before)));
            for trigger in triggers_of(key, before, after) {
                let _ = triggers.send(trigger);
            }
        });
        let watch = Watch {
            subject: Subject::work(self.declaration.primary, namespace),
            api: dynamic::<DynamicObject>(client, self.declaration.primary, namespace),
            selector: Selector::All,
            reduce: primary::<Cr>,
            sink: Kept::new(self.primaries.clone(), changed),
        };
        watch.start(context, tasks);
    }

    fn watch_children(
        &self,
        client: &Client,
        context: &Context,
        triggers: &mpsc::UnboundedSender<Trigger>,
        namespace: Option<&str>,
        tasks: &mut JoinSet<()>,
    ) {
        for (kind, cache) in &self.children {
            if !kind.namespaced && namespace != self.scope.watches().first().and_then(|first| first.as_deref()) {
                continue; // One watch is enough for what has no namespace.
            }
            let namespace = namespace.filter(|_| kind.namespaced);
            let subject = Subject::work(*kind, namespace);
            let selector = self.managed();
            let sink = Kept::new(cache.clone(), self.wakes_owner(triggers));
            match *kind {
                STATEFUL_SET => {
                    let api = scoped::<StatefulSet>(client, namespace);
                    let watch = Watch { subject, api, selector, reduce: workload::<StatefulSet>, sink };
                    watch.start(context, tasks);
                }
                DAEMON_SET => {
                    let api = scoped::<DaemonSet>(client, namespace);
                    let watch = Watch { subject, api, selector, reduce: workload::<DaemonSet>, sink };
                    watch.start(context, tasks);
                }
                _ => {
                    let api = dynamic::<PartialObjectMeta<DynamicObject>>(client, *kind, namespace);
                    let watch = Watch { subject, api, selector, reduce: child, sink };
                    watch.start(context, tasks);
                }
            }
        }
    }

    /// Members' requests for certificates, of all operators: they have no namespace. Whose one is, its requester tells.
    fn watch_requests(&self, client: &Client, context: &Context, tasks: &mut JoinSet<()>) {
        let wake = self.requests.clone();
        let watch = Watch {
            subject: Subject::work(CERTIFICATE_SIGNING_REQUEST, None),
            api: Api::<CertificateSigningRequest>::all(client.clone()),
            selector: Selector::Fields(format!("spec.signerName={}", names::MEMBER_SIGNER)),
            reduce: |request| (Key::of(&request.metadata), Pending::of(request)),
            sink: Kept::new(self.requests.pending.clone(), Arc::new(move |_, _, _| wake.changed.notify_one())),
        };
        watch.start(context, tasks);
    }

    fn managed(&self) -> Selector {
        Selector::Labels(format!("{}={}", names::LABEL_MANAGED_BY, self.declaration.operator))
    }

    /// A change of an owned object wakes its owner, and only it.
    fn wakes_owner(&self, triggers: &mpsc::UnboundedSender<Trigger>) -> Changed<Child> {
        let triggers = triggers.clone();
        let primaries = self.primaries.clone();
        Arc::new(move |_, before, after| {
            let owners: BTreeSet<&str> =
                [before, after].into_iter().flatten().filter_map(|c| c.owner.as_deref()).collect();
            for (key, _) in
                primaries.select(|_, primary| primary.metadata().uid.as_deref().is_some_and(|uid| owners.contains(uid)))
            {
                let _ = triggers.send(Trigger::One(key));
            }
        })
    }

    fn watch_peers(
        &self,
        client: &Client,
        context: &Context,
        triggers: &mpsc::UnboundedSender<Trigger>,
        namespace: Option<&str>,
        tasks: &mut JoinSet<()>,
    ) {
        for (kind, cache) in &self.peers {
            let watch = Watch {
                subject: Subject::work(*kind, namespace),
                api: dynamic::<DynamicObject>(client, *kind, namespace),
                selector: Selector::All,
                reduce: decode_peer,
                // A reference may cross namespaces, and there are few resources: all of them look.
                sink: Kept::new(cache.clone(), wakes_all(triggers)),
            };
            watch.start(context, tasks);
        }
    }

    fn watch_pods(
        &self,
        client: &Client,
        context: &Context,
        triggers: &mpsc::UnboundedSender<Trigger>,
        namespace: Option<&str>,
        tasks: &mut JoinSet<()>,
    ) {
        let triggers = triggers.clone();
        let primaries = self.primaries.clone();
        let changed: Changed<PodEntry> = Arc::new(move |key, before, after| {
            let Some(entry) = after.or(before) else { return };
            let owners = primaries.select(|owner, _| owner.namespace == key.namespace && belongs::<Cr>(entry, owner));
            for (owner, _) in owners {
                let _ = triggers.send(Trigger::One(owner));
            }
        });
        let watch = Watch {
            subject: Subject::work(POD, namespace),
            api: scoped::<Pod>(client, namespace),
            selector: self.managed(),
            reduce: pod,
            sink: Kept::new(self.pods.clone(), changed),
        };
        watch.start(context, tasks);
    }

    fn watch_nodes(
        &self,
        client: &Client,
        context: &Context,
        triggers: &mpsc::UnboundedSender<Trigger>,
        tasks: &mut JoinSet<()>,
    ) {
        let watch = Watch {
            subject: Subject::work(NODE, None),
            api: Api::<LeanNode>::all(client.clone()),
            selector: Selector::All,
            reduce: node,
            sink: Kept::new(self.nodes.clone(), wakes_all(triggers)),
        };
        watch.start(context, tasks);
    }

    /// Secrets and ConfigMaps of users: nothing of them is kept, a change only wakes the resources of its namespace, and
    /// only if one of them refers to the name.
    fn watch_inputs(
        &self,
        client: &Client,
        context: &Context,
        triggers: &mpsc::UnboundedSender<Trigger>,
        namespace: Option<&str>,
        tasks: &mut JoinSet<()>,
    ) {
        let mut kinds = Vec::new();
        for read in &self.declaration.reads {
            match read {
                tf_plan::declaration::Read::Secrets { .. } => kinds.push(SECRET),
                tf_plan::declaration::Read::ConfigMaps { .. } => kinds.push(CONFIG_MAP),
                _ => {}
            }
        }
        for kind in kinds {
            let watch = Watch {
                subject: Subject { kind, purpose: Purpose::Input, namespace: namespace.map(str::to_owned) },
                api: dynamic::<PartialObjectMeta<DynamicObject>>(client, kind, namespace),
                selector: Selector::All,
                reduce: |object| (Key::of(&object.metadata), ()),
                sink: Arc::new(InputSink { kind, inputs: self.inputs.clone(), triggers: triggers.clone() }),
            };
            watch.start(context, tasks);
        }
    }

    /// Whether the cache of a kind holds what the API server has in this namespace (empty for cluster-scoped kinds). Before
    /// the first list has come to its end, or while the watch does not work, it may hold a part only: nothing may be
    /// concluded from what is missing in it.
    pub fn is_synced(&self, kind: Kind, namespace: &str) -> bool {
        self.board.covering(kind, namespace) == Some(State::Synced)
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

    /// Pods of a resource, sorted by name.
    pub fn pods_of(&self, owner: &Key) -> Vec<observed::Pod> {
        let pods = self.pods.select(|key, entry| key.namespace == owner.namespace && belongs::<Cr>(entry, owner));
        pods.into_iter().map(|(_, entry)| entry.pod.clone()).collect()
    }
}

/// Whom a change of a resource of our own kind wakes. Our own status writes come back as events; only what others can change
/// is worth a pass.
fn triggers_of<Cr: Managed>(key: &Key, before: Option<&Primary<Cr>>, after: Option<&Primary<Cr>>) -> Vec<Trigger> {
    let uid = |primary: &Primary<Cr>| primary.metadata().uid.clone().unwrap_or_default();
    let mut triggers = Vec::new();
    // A watch that was away for a while may deliver a new resource of the same name in place of the old one.
    if let Some(before) = before.filter(|before| after.is_none_or(|after| uid(after) != uid(before))) {
        triggers.push(Trigger::Gone(key.clone(), uid(before)));
    }
    if after.is_some() && substance(before) != substance(after) {
        // What this one takes no longer, another of its kind may have waited for.
        triggers.push(if before.is_some() { Trigger::All } else { Trigger::One(key.clone()) });
    }
    triggers
}

/// What of a resource is worth a pass when it changes: everything but status and other managers' bookkeeping. Of the status
/// only that the resource was brought up, since plans rest on it: what is planned from then on has to be carried out
/// now and not whenever something else happens.
fn substance<Cr: Managed>(primary: Option<&Primary<Cr>>) -> Option<impl PartialEq + use<Cr>> {
    primary.map(|primary| {
        let metadata = primary.metadata();
        let initialized = match primary {
            Primary::Valid(cr) => cr.contract().and_then(|contract| contract.initialized),
            Primary::Undecodable { .. } => None,
        };
        (
            metadata.uid.clone(),
            metadata.generation,
            metadata.deletion_timestamp.is_some(),
            metadata.finalizers.clone(),
            metadata.annotations.clone(),
            matches!(primary, Primary::Undecodable { .. }),
            initialized,
        )
    })
}

/// Whether a pod carries the label that names this resource.
fn belongs<Cr: Managed>(entry: &PodEntry, owner: &Key) -> bool {
    entry.labels.get(&Cr::type_name()).is_some_and(|value| *value == fit(&owner.name, 63))
}

fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
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

fn wakes_all<T>(triggers: &mpsc::UnboundedSender<Trigger>) -> Changed<T> {
    let triggers = triggers.clone();
    Arc::new(move |_, _, _| {
        let _ = triggers.send(Trigger::All);
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tf_api::Zookeeper;

    use super::*;

    fn primary(status: Value) -> Primary<Zookeeper> {
        let zookeeper = json!({
            "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "metadata": {"name": "a"}, "spec": {}, "status": status,
        });
        Primary::Valid(Arc::new(serde_json::from_value(zookeeper).unwrap()))
    }

    #[test]
    fn of_the_status_only_that_a_resource_was_brought_up_is_worth_a_pass() {
        let wakes = |before, after| substance(Some(&primary(before))) != substance(Some(&primary(after)));
        assert!(wakes(json!({}), json!({"initialized": true})));
        assert!(!wakes(json!({"membersReady": "1/3"}), json!({"membersReady": "2/3"})));
    }
    fn versioned(uid: &str, version: &str) -> Primary<Zookeeper> {
        let Primary::Valid(cr) = primary(json!({})) else { unreachable!() };
        let mut cr = (*cr).clone();
        cr.metadata.uid = Some(uid.into());
        cr.metadata.resource_version = Some(version.into());
        Primary::Valid(Arc::new(cr))
    }

    #[test]
    fn of_a_resource_that_took_the_name_of_another_unseen_both_are_told() {
        let key = Key::new("tf", "a");
        let (old, moved, new) = (versioned("1", "5"), versioned("1", "6"), versioned("2", "7"));
        let gone = Trigger::Gone(key.clone(), "1".into());
        assert_eq!(triggers_of(&key, Some(&old), Some(&new)), [gone.clone(), Trigger::All]);
        assert_eq!(triggers_of(&key, Some(&old), None), [gone]);
        assert_eq!(triggers_of(&key, None, Some(&new)), [Trigger::One(key.clone())]);
        assert_eq!(triggers_of(&key, Some(&old), Some(&moved)), [], "a write of ours");
    }
}
