//! The finalizer: only for components that own what no owner reference takes along, and never for ever.
//!
//! Everything in the resource's namespace goes with it by owner reference. A cluster-scoped object cannot have a namespaced
//! owner, and the config API knows no owners, so the finalizer holds the resource until those are deleted. That nothing is left is only
//! believed of a watch that works. If all that does not work out within [`PATIENCE`], the resource is let go and an event names what is left. Nodes have as
//! long from the last one that was done: a large fleet takes longer than any fixed time.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Client,
    api::{Patch, PatchParams},
    core::DynamicObject,
};
use serde_json::json;
use tf_api::Managed;
use tf_plan::{declaration::Declaration, object::Kind};

use crate::{
    apply::Applier,
    caches::{Caches, dynamic},
    error::RequestError,
    object::Key,
};

/// How long deletion is held up by objects that cannot be removed.
pub const PATIENCE: Duration = Duration::from_mins(2);
/// How long by nodes of which none gets done: agents may take 100 s to end, and images are pulled.
pub const NODE_PATIENCE: Duration = Duration::from_mins(3);

/// What a resource that is being deleted still has elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// What, for people, after "removing".
    pub what: String,
    /// On how many nodes; 0 for what is not on nodes.
    pub nodes: usize,
}

/// How many nodes were left, and since when there are not fewer.
type Progress = BTreeMap<Key, (usize, Instant)>;

/// What became of a resource that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// It does not wait for us.
    Nothing,
    /// Everything is gone and the resource was let go.
    Finished,
    /// Objects are on their way.
    Waiting(String),
    /// Objects could not be removed; the resource was let go all the same.
    Abandoned(String),
}

/// Adds and removes the finalizer of one operator.
pub struct Finalizer {
    client: Client,
    name: String,
    primary: Kind,
    cluster_kinds: Vec<Kind>,
    deregisters: bool,
    progress: Mutex<Progress>,
}

impl Finalizer {
    /// The finalizer of a component; without effect if it owns nothing that it has to remove.
    pub fn new(client: Client, declaration: &Declaration) -> Self {
        Self {
            client,
            name: format!("{}/{}", tf_api::GROUP, declaration.operator),
            primary: declaration.primary,
            cluster_kinds: declaration.cluster_kinds(),
            deregisters: declaration.deregisters,
            progress: Mutex::default(),
        }
    }

    /// Adds the finalizer before anything is made that it has to remove. True if it was not there.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn ensure(&self, key: &Key, meta: &ObjectMeta) -> Result<bool, RequestError> {
        if self.cluster_kinds.is_empty() && !self.deregisters || self.is_set(meta) {
            return Ok(false);
        }
        let mut finalizers = meta.finalizers.clone().unwrap_or_default();
        finalizers.push(self.name.clone());
        self.set(key, meta, &finalizers).await.map(|()| true)
    }

    /// Removes what is left, then lets the resource go. `elsewhere`: what is left elsewhere, which pods or the registration remove.
    ///
    /// # Errors
    /// When the resource cannot be let go.
    pub async fn release<Cr: Managed>(
        &self,
        key: &Key,
        meta: &ObjectMeta,
        uid: &str,
        caches: &Caches<Cr>,
        applier: &Applier,
        elsewhere: Option<Left>,
    ) -> Result<Cleanup, RequestError> {
        if !self.is_set(meta) {
            return Ok(Cleanup::Nothing);
        }
        let nodes = elsewhere.as_ref().map_or(0, |left| left.nodes);
        let mut left: Vec<String> = elsewhere.into_iter().map(|left| left.what).collect();
        for kind in &self.cluster_kinds {
            if !caches.is_synced(*kind, "") {
                // What is not in the cache may still be there.
                left.push(format!("{} that cannot be looked for", kind.plural));
            }
            for (object, child) in caches.children_of(*kind, uid) {
                let name = format!("{} {object}", kind.kind);
                match applier.delete(*kind, &object, &child.uid).await {
                    Ok(()) => left.push(name),
                    Err(error) => left.push(format!("{name} ({error})")),
                }
            }
        }
        let is_overdue = if nodes > 0 { self.stands_still(key, nodes) } else { is_overdue(meta) };
        if !left.is_empty() && !is_overdue {
            return Ok(Cleanup::Waiting(format!("removing {}", left.join(", "))));
        }
        let finalizers: Vec<_> = meta.finalizers.iter().flatten().filter(|name| **name != self.name).cloned().collect();
        self.set(key, meta, &finalizers).await?;
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        if left.is_empty() {
            return Ok(Cleanup::Finished);
        }
        Ok(Cleanup::Abandoned(format!("gave up removing {}; delete by hand", left.join(", "))))
    }

    /// Whether the number of nodes has not become smaller for too long, as far as this process has seen.
    fn stands_still(&self, key: &Key, nodes: usize) -> bool {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (fewest, since) = progress.entry(key.clone()).or_insert_with(|| (nodes, Instant::now()));
        if nodes < *fewest {
            (*fewest, *since) = (nodes, Instant::now());
        }
        since.elapsed() > NODE_PATIENCE
    }

    /// Whether a resource waits for us.
    pub fn is_set(&self, meta: &ObjectMeta) -> bool {
        meta.finalizers.iter().flatten().any(|name| *name == self.name)
    }

    /// Replaces the list, unless somebody changed the resource meanwhile.
    async fn set(&self, key: &Key, meta: &ObjectMeta, finalizers: &[String]) -> Result<(), RequestError> {
        let api = dynamic::<DynamicObject>(&self.client, self.primary, Some(&key.namespace));
        let body = json!({ "metadata": { "resourceVersion": meta.resource_version, "finalizers": finalizers } });
        match api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&body)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(source) => {
                Err(RequestError { doing: format!("setting finalizers of {} {key}", self.primary.kind), source })
            }
        }
    }
}

fn is_overdue(meta: &ObjectMeta) -> bool {
    let patience = SignedDuration::try_from(PATIENCE).unwrap_or_default();
    meta.deletion_timestamp.as_ref().is_some_and(|since| Timestamp::now().duration_since(since.0) > patience)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use http::{Request, Response};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube::client::Body;
    use tf_api::{Zookeeper, contract::Reason, kinds::ZOOKEEPER};
    use tf_plan::{
        component::Component,
        declaration::Owned,
        not_ready::NotReady,
        object::CLUSTER_ROLE,
        observed::{Observed, Unavailable},
        plan::Plan,
    };
    use tower::BoxError;

    use super::*;
    use crate::{
        caches::Scope,
        metrics::Metrics,
        watch::{State, Subject, WatchStatuses},
    };

    struct Owning;

    impl Component for Owning {
        type Cr = Zookeeper;

        fn declaration() -> Declaration {
            Declaration {
                operator: "test-op",
                primary: Kind::custom(ZOOKEEPER),
                owned: vec![Owned { kind: CLUSTER_ROLE, reason: "what has no namespace" }],
                peers: Vec::new(),
                reads: Vec::new(),
                restarts_pods: false,
                calls_agents: false,
                grant: None,
                deregisters: false,
                marks_nodes: false,
                further: Vec::new(),
            }
        }

        fn plan(_: &Zookeeper, _: &Observed<Zookeeper>) -> Result<Plan, NotReady> {
            Err(NotReady::waiting(Reason::DependencyNotFound, "not asked for"))
        }
    }

    /// Releases a resource whose deletion began so long ago. Returns the requests, too.
    async fn release(watch: State, since: Duration) -> (Cleanup, usize) {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        let client = Client::new(
            tower::service_fn(move |_: Request<Body>| {
                count.fetch_add(1, Ordering::SeqCst);
                let stored = json!({ "apiVersion": "v1", "kind": "Any", "metadata": { "name": "a" } });
                async move { Ok::<_, BoxError>(Response::new(Body::from(stored.to_string().into_bytes()))) }
            }),
            "tf",
        );
        let watch_statuses = Arc::new(WatchStatuses::default());
        watch_statuses.set(&Subject::work(CLUSTER_ROLE, None), watch);
        let caches = Caches::<Zookeeper>::new::<Owning>(Scope::All, watch_statuses);
        let applier = Applier::new(client.clone(), "test-op", Arc::new(Metrics::new("test-op").unwrap()));
        let finalizer = Finalizer::new(client, &Owning::declaration());
        let meta = ObjectMeta {
            finalizers: Some(vec![finalizer.name.clone()]),
            deletion_timestamp: Some(Time(Timestamp::now() - SignedDuration::try_from(since).unwrap())),
            ..ObjectMeta::default()
        };
        let end = finalizer.release(&Key::new("tf", "a"), &meta, "1", &caches, &applier, None).await.unwrap();
        (end, sent.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn that_nothing_is_left_is_only_believed_of_a_watch_that_works() {
        let denied = || State::Failing(Unavailable { reason: Reason::Forbidden, message: "denied".into() });
        assert_eq!(release(State::Synced, Duration::ZERO).await, (Cleanup::Finished, 1));
        for blind in [State::Pending, denied()] {
            let (Cleanup::Waiting(why), 0) = release(blind, Duration::ZERO).await else { panic!("it was let go") };
            assert_eq!(why, "removing clusterroles that cannot be looked for");
        }
        let (Cleanup::Abandoned(left), 1) = release(denied(), PATIENCE * 2).await else {
            panic!("it is held for ever")
        };
        assert_eq!(left, "gave up removing clusterroles that cannot be looked for; delete by hand");
    }

    #[tokio::test]
    async fn nodes_have_their_time_from_the_last_one_that_was_done() {
        let client = Client::new(
            tower::service_fn(|_: Request<Body>| async { Ok::<_, BoxError>(Response::new(Body::empty())) }),
            "tf",
        );
        let finalizer = Finalizer::new(client, &Owning::declaration());
        let key = Key::new("tf", "a");
        assert!(!finalizer.stands_still(&key, 500), "this process has just seen it");
        let long_ago = Instant::now().checked_sub(NODE_PATIENCE * 2).unwrap();
        finalizer.progress.lock().unwrap().insert(key.clone(), (500, long_ago));
        assert!(!finalizer.stands_still(&key, 499), "one was done");
        finalizer.progress.lock().unwrap().insert(key.clone(), (499, long_ago));
        assert!(finalizer.stands_still(&key, 499) && finalizer.stands_still(&key, 500));
    }
}
