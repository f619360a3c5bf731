//! Taking the snapshot that a pass plans from.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use serde_json::Value;
use tf_api::{Resource, contract::Reason};
use tf_plan::{
    component::Component,
    declaration::{Read, foreign_key},
    dependency::snapshot_key,
    members::family,
    object::{CONFIG_MAP, Kind, NODE, POD, SECRET},
    observed::{Observed, Operator, Source, Spec, Specs, Unavailable, Unseen, Workload},
    secret::SecretData,
};

use crate::{
    agents::Agents,
    apply::Applier,
    caches::Caches,
    credentials,
    error::RequestError,
    identity::Authorities,
    keystone::Logins,
    object::Key,
    watch::{Cache, Primary, State, WatchStatuses},
};

/// Reads what the caches do not hold, and puts everything together.
pub struct Observer<C: Component> {
    /// Caches.
    pub caches: Arc<Caches<C::Cr>>,
    /// State of the watches.
    pub watch_statuses: Arc<WatchStatuses>,
    /// What was applied, which the caches may not show yet.
    pub applier: Arc<Applier>,
    /// For reading single objects.
    pub client: Client,
    /// What pods' agents say.
    pub agents: Arc<Agents>,
    /// What the replacement of an authority waits for.
    pub authorities: Arc<Authorities>,
    /// What Keystone says of logins.
    pub logins: Arc<Logins>,
    /// The operator itself.
    pub operator: Operator,
}

impl<C: Component> Observer<C> {
    /// The snapshot for one resource.
    ///
    /// # Errors
    /// When an object that the resource refers to cannot be read.
    pub async fn observe(&self, key: &Key, cr: &C::Cr) -> Result<Observed<C::Cr>, RequestError> {
        let mut observed = self.cached(key, cr.meta().uid.as_deref().unwrap_or_default());
        observed.unseen = self.unseen(&key.namespace, cr);
        if let Source::Known(nodes) = &mut observed.nodes {
            *nodes = family::nodes_of(&self.caches.declaration, cr, std::mem::take(nodes));
        }
        let mut observed = observed.with_addresses_in_use();
        self.read_references(key, cr, &mut observed).await?;
        self.read_credentials(key, cr, &mut observed).await?;
        self.read_facts(&mut observed).await?;
        observed.refused_login = self.logins.refusal(key, C::login(cr, &observed)).await;
        Ok(observed)
    }

    /// The part of the snapshot that is at hand without asking anybody.
    pub fn cached(&self, key: &Key, uid: &str) -> Observed<C::Cr> {
        let mut observed = Observed {
            operator: self.operator.clone(),
            now: jiff::Timestamp::now(),
            nodes: self.nodes(),
            pods: self.source(POD, &key.namespace, || self.caches.pods_of(key)),
            removals: self.caches.removals_of(key),
            foreign: self.foreign(),
            claims: self.caches.claims_of(key),
            specs: self.specs(&key.namespace),
            siblings: self.siblings(key),
            ..Observed::default()
        };
        if self.caches.declaration.calls_agents {
            let pods = observed.pods.known().map(Vec::as_slice).unwrap_or_default();
            observed.agents =
                pods.iter().filter_map(|pod| Some((pod.uid.clone(), self.agents.heard(&pod.uid)?))).collect();
            observed.rotation = self.authorities.waits(&key.namespace);
            observed.issuer = self.authorities.lacks(uid);
        }
        for kind in self.caches.declaration.workload_kinds() {
            for (child_key, child) in self.caches.children_of(kind, uid) {
                let stale = self.applier.is_stale(kind, &child_key, &child);
                let workload = child.workload.map(|seen| Workload {
                    current: seen.current && !stale,
                    refusal: (seen.existing < seen.wanted).then(|| self.caches.refusal_of(&child.uid)).flatten(),
                    ..seen
                });
                observed.workloads.extend(workload.map(|workload| (workload.name.clone(), workload)));
            }
        }
        for peer in &self.caches.declaration.peers {
            let all = || {
                let cache = self.caches.peers.get(&peer.kind);
                cache.map(|cache| cache.select(|_, _| true)).unwrap_or_default()
            };
            let peers = self
                .source(peer.kind, &key.namespace, || all().into_iter().map(|(_, entry)| entry.peer.clone()).collect());
            observed.peers.insert(peer.kind.kind.to_owned(), peers);
        }
        observed
    }

    fn nodes(&self) -> Source<Vec<tf_plan::observed::Node>> {
        if !self.caches.declaration.reads_nodes() {
            return Source::default();
        }
        self.source(NODE, "", || {
            self.caches.nodes.select(|_, _| true).into_iter().map(|(_, node)| (*node).clone()).collect()
        })
    }

    /// What describes the cluster, as far as it is there. That its definition is not installed is no failure.
    fn foreign(&self) -> BTreeMap<String, Source<Value>> {
        let seen = |(kind, name): (Kind, &str)| {
            let object = match self.watch_statuses.covering(kind, "") {
                Some(State::Failing(why)) if why.reason == Reason::CrdMissing => return None,
                Some(State::Failing(why)) => Source::Unavailable(why),
                _ => Source::Known((*self.caches.foreign.get(&kind)?.get(&Key::new("", name))?).clone()),
            };
            Some((foreign_key(kind, name), object))
        };
        self.caches.declaration.foreign().filter_map(seen).collect()
    }

    /// Specs of resources that others name, in a namespace.
    fn specs(&self, namespace: &str) -> BTreeMap<String, Source<Specs>> {
        let seen = |(kind, cache): (&Kind, &Arc<Cache<Spec>>)| {
            let all = || {
                let here = cache.select(|key, _| key.namespace == namespace);
                here.into_iter().map(|(key, spec)| (key.name, (*spec).clone())).collect()
            };
            (kind.kind.to_owned(), self.source(*kind, namespace, all))
        };
        self.caches.specs.iter().map(seen).collect()
    }

    /// What the cache holds, unless its watch is known not to work.
    fn source<T>(&self, kind: Kind, namespace: &str, cached: impl FnOnce() -> T) -> Source<T> {
        match self.watch_statuses.covering(kind, namespace) {
            Some(State::Failing(why)) => Source::Unavailable(why),
            _ => Source::Known(cached()),
        }
    }

    /// Namespaces the resource refers to that cannot be looked into: what is there must not look like what does not exist.
    fn unseen(&self, home: &str, cr: &C::Cr) -> Unseen {
        let mut unseen = Unseen::default();
        for dependency in C::dependencies(cr) {
            let reference = dependency.source.and_then(|source| source.reference);
            let Some(namespace) = reference.and_then(|reference| reference.namespace).filter(|name| name != home)
            else {
                continue;
            };
            let why = match self.watch_statuses.covering(dependency.kind, &namespace) {
                Some(State::Synced | State::Pending) => continue,
                Some(State::Failing(why)) => why,
                None => Unavailable {
                    reason: Reason::DependencyNotFound,
                    message: format!("namespace {namespace} is not watched by this operator"),
                },
            };
            unseen.entry(dependency.kind.kind.to_owned()).or_default().insert(namespace, why);
        }
        unseen
    }

    fn siblings(&self, key: &Key) -> Vec<C::Cr> {
        let others = self.caches.primaries.select(|other, _| other != key);
        others
            .into_iter()
            .filter_map(|(_, primary)| match &*primary {
                Primary::Valid(cr) => Some((**cr).clone()),
                Primary::Undecodable { .. } => None,
            })
            .collect()
    }

    async fn read_references(&self, key: &Key, cr: &C::Cr, observed: &mut Observed<C::Cr>) -> Result<(), RequestError> {
        let home = &key.namespace;
        let references = C::references(cr);
        let mut secrets: HashSet<Key> = references.secrets.iter().map(|name| Key::new(home, name)).collect();
        let mut maps: HashSet<Key> = references.config_maps.iter().map(|name| Key::new(home, name)).collect();
        let mut provide_secrets = HashSet::new();
        for dependency in C::dependencies(cr) {
            secrets.extend(dependency.used_secret().map(|name| Key::new(home, name)));
            if dependency.logs_in {
                provide_secrets.insert(dependency.kind.kind);
            }
            let source = dependency.source.unwrap_or_default();
            maps.extend(source.discovery_config_map.map(|reference| Key::new(home, reference.name)));
        }
        let mut referred: HashSet<(Kind, Key)> = secrets.iter().map(|key| (SECRET, key.clone())).collect();
        referred.extend(maps.iter().map(|key| (CONFIG_MAP, key.clone())));
        // A provider's Secret changes together with the hash in its status, which wakes us.
        secrets.extend(self.connection_secrets(home, observed, &provide_secrets));
        self.caches.inputs.refer(key, referred);
        for secret in secrets {
            if let Some(data) = self.secret(&secret).await? {
                observed.secrets.insert(snapshot_key(home, &secret.namespace, &secret.name), data);
            }
        }
        for map in maps {
            if let Some(data) = self.config_map(&map).await? {
                observed.config_maps.insert(map.name, data);
            }
        }
        Ok(())
    }

    /// Connection Secrets of peers of these kinds, as far as they are in namespaces this operator works in.
    fn connection_secrets(&self, home: &str, observed: &Observed<C::Cr>, kinds: &HashSet<&str>) -> Vec<Key> {
        let wanted = |namespace: &str| namespace == home || self.caches.scope.contains(namespace);
        let of_kinds = observed.peers.iter().filter(|(kind, _)| kinds.contains(kind.as_str()));
        let peers = of_kinds.filter_map(|(_, peers)| peers.known().ok()).flatten();
        peers
            .filter(|peer| wanted(&peer.namespace))
            .filter_map(|peer| Some(Key::new(&peer.namespace, &peer.status.connection_secret_ref.as_ref()?.name)))
            .collect()
    }

    /// Existing credentials, completed in memory. The plan stores them with everything else.
    async fn read_credentials(
        &self,
        key: &Key,
        cr: &C::Cr,
        observed: &mut Observed<C::Cr>,
    ) -> Result<(), RequestError> {
        let wanted = C::credentials(cr);
        let names: HashSet<&String> = wanted.iter().map(|credential| &credential.secret).collect();
        for name in names {
            // Always from the API server: a cache that lags behind must not make a new password.
            let mut data = self.secret(&Key::new(&key.namespace, name)).await?.unwrap_or_default();
            let here: Vec<_> = wanted.iter().filter(|credential| credential.secret == *name).collect();
            credentials::complete(&mut data, &here);
            observed.secrets.insert(name.clone(), data);
        }
        Ok(())
    }

    async fn read_facts(&self, observed: &mut Observed<C::Cr>) -> Result<(), RequestError> {
        for read in &self.caches.declaration.reads {
            let Read::Fact { namespace, name, .. } = read else { continue };
            match self.config_map(&Key::new(*namespace, *name)).await {
                Ok(Some(data)) => {
                    observed.facts.insert(format!("{namespace}/{name}"), data);
                }
                Ok(None) => {}
                // Not everybody may read cluster facts; then the spec has to say what they would have said.
                Err(error) if error.reason() == Reason::Forbidden => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn secret(&self, key: &Key) -> Result<Option<SecretData>, RequestError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let secret =
            api.get_opt(&key.name).await.map_err(RequestError::while_doing(format!("reading Secret {key}")))?;
        // Binary values are not text for a configuration file; a planner sees them as missing.
        let text = |secret: Secret| {
            let data = secret.data.unwrap_or_default();
            data.into_iter().filter_map(|(key, value)| Some((key, String::from_utf8(value.0).ok()?))).collect()
        };
        Ok(secret.map(text))
    }

    async fn config_map(&self, key: &Key) -> Result<Option<BTreeMap<String, String>>, RequestError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.namespace);
        let map =
            api.get_opt(&key.name).await.map_err(RequestError::while_doing(format!("reading ConfigMap {key}")))?;
        Ok(map.map(|map| map.data.unwrap_or_default()))
    }
}
