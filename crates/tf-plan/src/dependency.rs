//! Finding the services a resource needs, by the consumer rules of the status contract.
//!
//! Before the first bring-up a dependency must be *usable*: it exists, speaks our contract version, describes its
//! current generation, is Ready and lists the endpoint. Afterwards an unusable dependency only shows in conditions: what
//! it publishes is used as long as it publishes anything, so a flapping dependency never empties a configuration.
//!
//! What cannot be seen is not taken for absent, whatever it is needed for: then there is no plan, and what runs stays as it is.

use std::collections::BTreeMap;

use tf_api::{
    CONTRACT, Managed,
    contract::{ConditionType, Draft, Endpoint, Protocol, Reason},
    dependencies::{DependencySource, ExternalService},
};

use crate::{
    files::url::authority,
    object::Kind,
    observed::{Observed, Peer, Unavailable},
    plan::NotReady,
    secret::SecretData,
};

/// How much a dependency matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The first bring-up waits for it.
    BringUp,
    /// It is used when it is there, so that has to be seen.
    Optional,
    /// The same, by somebody who remembers what it was like and goes by that while it cannot be seen.
    Remembered,
}

/// A service that a resource needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The condition that mirrors it.
    pub condition: ConditionType,
    /// Kind of the resource that provides it.
    pub kind: Kind,
    /// What the spec says about it.
    pub source: Option<DependencySource>,
    /// Name that is taken when the spec says nothing and a resource of it exists: the one the Go tf-operator fixed.
    pub default_name: &'static str,
    /// Name of the endpoint that is needed.
    pub endpoint: &'static str,
    /// How much it matters.
    pub need: Need,
    /// Whether what the service's connection Secret holds is used: a user, or certificates to check its own against. Where
    /// nothing is, the Secret need not exist.
    pub uses_secret: bool,
}

/// What is needed to talk to a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connection {
    /// Endpoints by name.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Credentials; empty if the service needs none.
    pub credentials: SecretData,
    /// Identities of the members by address, where the provider publishes them.
    pub member_nodes: BTreeMap<String, String>,
}

impl Connection {
    /// Member addresses of an endpoint; its Service if it lists no members.
    pub fn hosts(&self, endpoint: &str) -> Vec<String> {
        let Some(endpoint) = self.endpoints.get(endpoint) else { return Vec::new() };
        if endpoint.nodes.is_empty() { endpoint.service.iter().cloned().collect() } else { endpoint.nodes.clone() }
    }

    /// Hosts of an endpoint, each with the port; see [`authority`].
    pub fn authorities(&self, endpoint: &str) -> Vec<String> {
        let port = self.port(endpoint).unwrap_or_default();
        self.hosts(endpoint).iter().map(|host| authority(host, port)).collect()
    }

    /// Port of an endpoint.
    pub fn port(&self, endpoint: &str) -> Option<u16> {
        self.endpoints.get(endpoint).map(|endpoint| endpoint.port)
    }

    /// Whether an endpoint speaks TLS.
    pub fn tls(&self, endpoint: &str) -> bool {
        self.endpoints.get(endpoint).is_some_and(|endpoint| endpoint.tls)
    }
}

/// A dependency as it was found.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    draft: Draft,
    connection: Option<Connection>,
    /// Whether it may be there although there is no connection.
    hidden: bool,
}

impl Found {
    /// One that cannot be used, or is not there, for the reason that the draft has.
    fn without_connection(draft: Draft) -> Self {
        Self { draft, connection: None, hidden: false }
    }
}

/// All dependencies of a resource, resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// Conditions, `DependenciesReady` included when bring-up needs any.
    pub drafts: Vec<Draft>,
    connections: Vec<(ConditionType, Connection)>,
}

impl Resolved {
    /// The connection to a dependency, if there is one.
    pub fn connection(&self, condition: ConditionType) -> Option<&Connection> {
        self.connections.iter().find(|(found, _)| *found == condition).map(|(_, connection)| connection)
    }
}

/// Name under which a Secret or ConfigMap appears in the snapshot: alone in the resource's own namespace.
pub fn snapshot_key(home: &str, namespace: &str, name: &str) -> String {
    if home == namespace { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// What the dependencies of a resource [resolve] to, and what its conditions say of them whatever else is missing.
pub fn resolve_for<Cr: Managed>(
    dependencies: &[Dependency],
    cr: &Cr,
    observed: &Observed<Cr>,
) -> (Result<Resolved, NotReady>, Vec<Draft>) {
    let resolved = resolve(dependencies, cr.home(), cr.is_initialized(), observed);
    let drafts = match &resolved {
        Ok(resolved) => resolved.drafts.clone(),
        Err(waiting) => waiting.drafts.clone(),
    };
    (resolved, drafts)
}

/// Resolves dependencies for a resource in namespace `home`. `initialized` is the latch of the resource's own status.
///
/// # Errors
/// What bring-up waits for, or what the user has to name.
pub fn resolve<Cr>(
    dependencies: &[Dependency],
    home: &str,
    initialized: bool,
    observed: &Observed<Cr>,
) -> Result<Resolved, NotReady> {
    let mut resolved = Resolved::default();
    let mut obstacle: Option<NotReady> = None;
    let mut failing: Vec<&Draft> = Vec::new();
    let found: Vec<Found> = dependencies.iter().map(|dependency| find(dependency, home, observed)).collect();
    for (dependency, Found { draft, connection, hidden }) in dependencies.iter().zip(&found) {
        let is_needed = dependency.need == Need::BringUp;
        let holds_up = match dependency.need {
            Need::BringUp => connection.is_none() || !initialized && !draft.is_true(),
            Need::Optional => *hidden,
            Need::Remembered => false,
        };
        if holds_up && obstacle.is_none() {
            obstacle = Some(NotReady::waiting(draft.reason, draft.message.clone()));
        }
        failing.extend(Some(draft).filter(|_| holds_up || is_needed && !draft.is_true()));
        // An optional dependency is used as soon as it is usable, and afterwards as long as it publishes anything.
        let used = connection.as_ref().filter(|_| draft.is_true() || initialized || is_needed);
        resolved.connections.extend(used.map(|connection| (dependency.condition, connection.clone())));
        resolved.drafts.push(draft.clone());
    }
    if !failing.is_empty() || dependencies.iter().any(|dependency| dependency.need == Need::BringUp) {
        resolved.drafts.push(summary(&failing));
    }
    match obstacle {
        Some(obstacle) => Err(obstacle.with_drafts(resolved.drafts)),
        None => Ok(resolved),
    }
}

/// Settings of `spec.dependencies` that have no effect, with why. The fields are called as the kinds are.
pub fn ignored(dependencies: &[Dependency]) -> Vec<String> {
    let unread = dependencies.iter().filter(|dependency| {
        let external = dependency.source.as_ref().and_then(|source| source.external.as_ref());
        !dependency.uses_secret && external.is_some_and(|external| external.secret_ref.is_some())
    });
    unread
        .map(|dependency| {
            format!(
                "spec.dependencies.{}.external.secretRef: nobody logs in there, and certificates are checked against those of \
                 the cluster",
                dependency.kind.kind.to_lowercase()
            )
        })
        .collect()
}

/// What is said of all that is needed. `failing`: what is said of what is not as it should be.
fn summary(failing: &[&Draft]) -> Draft {
    // What does not serve at all comes before what is not as it should be.
    let lost = failing.iter().find(|draft| draft.reason == Reason::DependencyUnavailable);
    match lost.or(failing.first()) {
        Some(&draft) => Draft { kind: ConditionType::DependenciesReady, ..draft.clone() },
        None => Draft::holds(ConditionType::DependenciesReady, Reason::Succeeded, "all needed services are usable"),
    }
}

fn find<Cr>(dependency: &Dependency, home: &str, observed: &Observed<Cr>) -> Found {
    let absent =
        |reason, message: String| Found::without_connection(Draft::fails(dependency.condition, reason, message));
    let source = dependency.source.clone().unwrap_or_default();
    if let Some(external) = &source.external {
        return found_external(dependency, external, observed);
    }
    if let Some(map) = &source.discovery_config_map {
        return match observed.config_maps.get(&map.name) {
            Some(data) => found_in_map(dependency, &map.name, data),
            None => absent(
                Reason::ConfigMapNotFound,
                format!("ConfigMap {home}/{} does not exist; create it or name another source", map.name),
            ),
        };
    }
    let peers = match observed.peers(dependency.kind.kind) {
        Ok(peers) => peers,
        Err(why) => return out_of_sight(dependency, &source, why),
    };
    let kind = dependency.kind.kind;
    if let Some(reference) = &source.reference {
        let namespace = reference.namespace.as_deref().unwrap_or(home);
        if let Some(why) = observed.unseen.get(kind).and_then(|namespaces| namespaces.get(namespace)) {
            return out_of_sight(dependency, &source, why);
        }
        return match peers.iter().find(|peer| peer.namespace == namespace && peer.name == reference.name) {
            Some(peer) => found_peer(dependency, home, peer, observed),
            None => absent(Reason::DependencyNotFound, format!("{kind} {namespace}/{} does not exist", reference.name)),
        };
    }
    match by_convention(dependency, home, peers) {
        Ok(peer) => found_peer(dependency, home, peer, observed),
        Err((reason, message)) if dependency.need != Need::BringUp => {
            Found::without_connection(Draft::unknown(dependency.condition, reason, message))
        }
        Err((reason, message)) => absent(reason, message),
    }
}

/// What of a dependency is known that cannot be looked for: nothing. But of a kind whose definition is not installed there is none, and one
/// that nobody named and nobody needs is simply not asked for.
fn out_of_sight(dependency: &Dependency, source: &DependencySource, why: &Unavailable) -> Found {
    let is_named = source.reference.is_some();
    if dependency.need != Need::BringUp && !is_named && why.reason == Reason::CrdMissing {
        let draft = Draft::unknown(dependency.condition, Reason::NotRequested, why.message.clone());
        return Found::without_connection(draft);
    }
    Found { hidden: true, ..Found::without_connection(unseen(dependency.condition, why)) }
}

/// What is said of a service of which cannot be seen whether it is there: the cause, and what ends it.
fn unseen(condition: ConditionType, why: &Unavailable) -> Draft {
    let remedy = match why.reason {
        Reason::Forbidden => "give the operator that right, as its chart does",
        Reason::CrdMissing => "install it, or name another source in spec.dependencies",
        Reason::DependencyNotFound => "have the operator watch it, or name another source in spec.dependencies",
        _ => "it is tried again",
    };
    Draft::fails(condition, why.reason, format!("{}; {remedy}", why.message))
}

/// There is no plan as long as cannot be seen whether a service is there.
pub fn wait_to_see(condition: ConditionType, why: &Unavailable) -> NotReady {
    let draft = unseen(condition, why);
    let drafts = [summary(&[&draft]), draft.clone()];
    NotReady::waiting(draft.reason, draft.message).with_drafts(drafts)
}

/// The resource that a spec without a reference means: the one of the conventional name, else the only one.
fn by_convention<'a>(dependency: &Dependency, home: &str, peers: &'a [Peer]) -> Result<&'a Peer, (Reason, String)> {
    let kind = dependency.kind.kind;
    let here: Vec<&Peer> = peers.iter().filter(|peer| peer.namespace == home).collect();
    if let Some(peer) = here.iter().find(|peer| peer.name == dependency.default_name) {
        return Ok(peer);
    }
    match here.as_slice() {
        [] if dependency.need != Need::BringUp => {
            Err((Reason::NotRequested, format!("there is no {kind} in namespace {home}")))
        }
        [] => Err((
            Reason::DependencyNotFound,
            format!("there is no {kind} in namespace {home}; create one or set spec.dependencies"),
        )),
        [only] => Ok(only),
        several => Err((
            Reason::DependencyNotConfigured,
            format!(
                "{} resources of kind {kind} are in namespace {home}; name one in spec.dependencies",
                several.len()
            ),
        )),
    }
}

fn found_peer<Cr>(dependency: &Dependency, home: &str, peer: &Peer, observed: &Observed<Cr>) -> Found {
    let secret = peer.status.connection_secret_ref.as_ref().filter(|_| dependency.uses_secret);
    let credentials = match secret {
        Some(reference) => observed.secrets.get(&snapshot_key(home, &peer.namespace, &reference.name)),
        None => None,
    };
    let secret_missing = secret.is_some() && credentials.is_none();
    let listed = peer.status.endpoint(dependency.endpoint).is_some_and(|e| !e.nodes.is_empty() || e.service.is_some());
    let connection = (listed && !secret_missing).then(|| Connection {
        endpoints: by_name(&peer.status.endpoints),
        credentials: credentials.cloned().unwrap_or_default(),
        member_nodes: peer.status.members.iter().map(|m| (m.address.clone(), m.node.clone())).collect(),
    });
    let label = format!("{} {}/{}", dependency.kind.kind, peer.namespace, peer.name);
    let draft = |reason, message: String| Draft::fails(dependency.condition, reason, message);
    let ready = peer.status.condition(ConditionType::Ready.as_ref());
    let draft = if peer.terminating {
        draft(Reason::Deleting, format!("{label} is being deleted"))
    } else if peer.status.contract.is_none() {
        draft(Reason::NotYetReported, format!("{label} has no status yet; is its operator running?"))
    } else if peer.status.contract.as_deref() != Some(CONTRACT) {
        draft(
            Reason::ContractUnsupported,
            format!("{label} speaks another version of the status contract; upgrade this operator or that one"),
        )
    } else if peer.status.observed_generation != Some(peer.generation) {
        draft(Reason::DependencyStale, format!("{label} has not observed its current generation yet"))
    } else if let Some(ready) = ready.filter(|ready| ready.status != "True") {
        let available = peer.status.condition(ConditionType::Available.as_ref());
        let is_lost = peer.status.initialized && available.is_some_and(|available| available.status == "False");
        let reason = if is_lost { Reason::DependencyUnavailable } else { Reason::DependencyNotReady };
        // In one word: it says itself what it is about, and would be repeated by all who need it, each time that it changes.
        draft(reason, format!("{label} is not Ready: {}", ready.reason))
    } else if ready.is_none() {
        draft(Reason::NotYetReported, format!("{label} has not reported condition Ready"))
    } else if !listed {
        let others: Vec<&str> = peer.status.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        let others = if others.is_empty() { String::new() } else { format!(", only {}", others.join(", ")) };
        draft(Reason::DependencyNotReady, format!("{label} publishes no endpoint {}{others}", dependency.endpoint))
    } else if let (true, Some(reference)) = (secret_missing, secret) {
        draft(Reason::SecretNotFound, format!("Secret {}/{} of {label} cannot be read", peer.namespace, reference.name))
    } else {
        Draft::holds(dependency.condition, Reason::Succeeded, format!("{label} is Ready"))
    };
    // One without its credentials is there.
    Found { draft, connection, hidden: listed && secret_missing }
}

fn found_external<Cr>(dependency: &Dependency, external: &ExternalService, observed: &Observed<Cr>) -> Found {
    let failed =
        |reason, message: String| Found::without_connection(Draft::fails(dependency.condition, reason, message));
    if external.endpoints.iter().all(|endpoint| endpoint.name != dependency.endpoint) {
        return failed(
            Reason::InvalidSpec,
            format!("the external {} needs an endpoint named {}", dependency.kind.kind, dependency.endpoint),
        );
    }
    let credentials = match external.secret_ref.as_ref().filter(|_| dependency.uses_secret) {
        None => SecretData::default(),
        Some(reference) => match observed.secrets.get(&reference.name) {
            Some(data) => data.clone(),
            None => {
                return failed(Reason::SecretNotFound, format!("Secret {} does not exist; create it", reference.name));
            }
        },
    };
    Found {
        draft: Draft::holds(
            dependency.condition,
            Reason::Succeeded,
            format!("the external {} of the spec is used; it is not probed", dependency.kind.kind),
        ),
        connection: Some(Connection {
            endpoints: by_name(&external.endpoints),
            credentials,
            member_nodes: BTreeMap::new(),
        }),
        hidden: false,
    }
}

/// The endpoint of that name in a ConfigMap with `<NAME>_HOSTS`, `<NAME>_PORT` and `<NAME>_TLS`, the keys every operator of
/// ours publishes; none if it lists no host or no port.
pub fn endpoint_of_map(name: &str, data: &BTreeMap<String, String>) -> Option<Endpoint> {
    let prefix = key_prefix(name);
    let hosts: Vec<String> = data
        .get(&format!("{prefix}_HOSTS"))
        .map(|hosts| hosts.split([',', ' ']).filter(|host| !host.is_empty()).map(str::to_owned).collect())
        .unwrap_or_default();
    let port = data.get(&format!("{prefix}_PORT")).and_then(|port| port.trim().parse().ok())?;
    let tls = data.get(&format!("{prefix}_TLS")).is_some_and(|tls| tls.trim().eq_ignore_ascii_case("true"));
    let endpoint = Endpoint { name: name.into(), protocol: Protocol::Tcp, port, tls, service: None, nodes: hosts };
    (!endpoint.nodes.is_empty()).then_some(endpoint)
}

/// What the keys of an endpoint begin with.
pub(crate) fn key_prefix(endpoint: &str) -> String {
    endpoint.to_uppercase().replace('-', "_")
}

fn found_in_map(dependency: &Dependency, map: &str, data: &BTreeMap<String, String>) -> Found {
    let prefix = key_prefix(dependency.endpoint);
    let Some(endpoint) = endpoint_of_map(dependency.endpoint, data) else {
        let message = format!("ConfigMap {map} needs keys {prefix}_HOSTS and {prefix}_PORT");
        return Found::without_connection(Draft::fails(dependency.condition, Reason::InvalidSpec, message));
    };
    Found {
        draft: Draft::holds(
            dependency.condition,
            Reason::Succeeded,
            format!("endpoints come from ConfigMap {map}; they are not probed"),
        ),
        connection: Some(Connection { endpoints: by_name(&[endpoint]), ..Connection::default() }),
        hidden: false,
    }
}

fn by_name(endpoints: &[Endpoint]) -> BTreeMap<String, Endpoint> {
    endpoints.iter().map(|endpoint| (endpoint.name.clone(), endpoint.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tf_api::{dependencies::ResourceReference, kinds::ZOOKEEPER};

    use super::*;
    use crate::{observed::Source, plan::Obstacle};

    fn dependency(reference: Option<ResourceReference>) -> Dependency {
        Dependency {
            condition: ConditionType::ZookeeperReady,
            kind: Kind::custom(ZOOKEEPER),
            source: Some(DependencySource { reference, ..DependencySource::default() }),
            default_name: "zookeeper1",
            endpoint: "client",
            uses_secret: false,
            need: Need::BringUp,
        }
    }

    fn reference(namespace: Option<&str>) -> ResourceReference {
        ResourceReference { name: "zk".into(), namespace: namespace.map(str::to_owned) }
    }

    fn unavailable(reason: Reason) -> Unavailable {
        Unavailable { reason, message: "nobody could look".into() }
    }

    fn draft(drafts: &[Draft], kind: ConditionType) -> Option<&Draft> {
        drafts.iter().find(|draft| draft.kind == kind)
    }

    #[test]
    fn a_namespace_that_is_not_watched_is_not_one_in_which_nothing_exists() {
        let dependency = dependency(Some(reference(Some("c"))));
        let mut observed = Observed::<()>::default();
        let said = |observed: &Observed<()>| find(&dependency, "tf", observed).draft.message;
        assert_eq!(said(&observed), "Zookeeper c/zk does not exist");
        let message = "namespace c is not watched by this operator".to_owned();
        let why = Unavailable { reason: Reason::DependencyNotFound, message: message.clone() };
        observed.unseen.entry("Zookeeper".into()).or_default().insert("c".into(), why);
        let remedy = "have the operator watch it, or name another source in spec.dependencies";
        assert_eq!(said(&observed), format!("{message}; {remedy}"));
    }

    /// Nobody needs a kind that is not installed and was not named. About everything else that cannot be seen nothing is concluded, before
    /// the first bring-up and after it.
    #[test]
    fn what_cannot_be_seen_is_waited_for_unless_somebody_remembers_it() {
        use Reason::{ApiError, CrdMissing, DependencyNotFound, Forbidden};
        let references = [None, Some(reference(None)), Some(reference(Some("c")))];
        for need in [Need::BringUp, Need::Optional, Need::Remembered] {
            for reference in &references {
                for reason in [CrdMissing, Forbidden, ApiError, DependencyNotFound] {
                    let elsewhere = reference.as_ref().and_then(|reference| reference.namespace.clone());
                    let mut observed = Observed::<()>::default();
                    match &elsewhere {
                        Some(namespace) => {
                            let unseen = observed.unseen.entry("Zookeeper".into()).or_default();
                            unseen.insert(namespace.clone(), unavailable(reason));
                        }
                        // That a namespace is not watched is not said of one's own.
                        None if reason == DependencyNotFound => continue,
                        None => {
                            let unseen = Source::Unavailable(unavailable(reason));
                            observed.peers.insert("Zookeeper".into(), unseen);
                        }
                    }
                    let dependency = Dependency { need, ..dependency(reference.clone()) };
                    for initialized in [false, true] {
                        let case = format!("{need:?}, {reference:?}, {reason}, {initialized}");
                        let resolved = resolve(std::slice::from_ref(&dependency), "tf", initialized, &observed);
                        let is_moot = reason == CrdMissing && reference.is_none();
                        match (need, resolved) {
                            (Need::BringUp, Err(waiting)) => is_waiting(&waiting, reason, &case),
                            (Need::Optional, Err(waiting)) if !is_moot => is_waiting(&waiting, reason, &case),
                            (Need::Optional, Ok(resolved)) if is_moot => is_moot_in(&resolved, &case),
                            (Need::Remembered, Ok(resolved)) if is_moot => is_moot_in(&resolved, &case),
                            (Need::Remembered, Ok(resolved)) => {
                                let told = draft(&resolved.drafts, ConditionType::ZookeeperReady).unwrap();
                                assert_eq!((told.reason, told.is_true()), (reason, false), "{case}");
                                assert_eq!(draft(&resolved.drafts, ConditionType::DependenciesReady), None, "{case}");
                            }
                            (_, other) => panic!("{case}: {other:?}"),
                        }
                    }
                }
            }
        }
    }

    fn is_waiting(waiting: &NotReady, reason: Reason, case: &str) {
        assert_eq!((waiting.obstacle, waiting.reason), (Obstacle::Waiting, reason), "{case}");
        assert!(waiting.message.starts_with("nobody could look; "), "{case}: {}", waiting.message);
        for kind in [ConditionType::ZookeeperReady, ConditionType::DependenciesReady] {
            let expected = Draft::fails(kind, reason, waiting.message.clone());
            assert_eq!(draft(&waiting.drafts, kind), Some(&expected), "{case}");
        }
    }

    fn is_moot_in(resolved: &Resolved, case: &str) {
        let expected = Draft::unknown(ConditionType::ZookeeperReady, Reason::NotRequested, "nobody could look");
        assert_eq!(resolved.drafts, [expected], "{case}");
        assert!(resolved.connection(ConditionType::ZookeeperReady).is_none(), "{case}");
    }

    #[test]
    fn one_whose_credentials_are_away_is_there() {
        let peer = json!({
            "namespace": "tf", "name": "zk", "generation": 1,
            "status": {
                "contract": CONTRACT, "observedGeneration": 1, "connectionSecretRef": {"name": "login"},
                "endpoints": [{"name": "client", "protocol": "TCP", "port": 2181, "tls": true, "nodes": ["10.0.0.1"]}],
            },
        });
        let peers = Source::Known(vec![serde_json::from_value::<Peer>(peer).unwrap()]);
        let mut observed = Observed::<()> { peers: [("Zookeeper".into(), peers)].into(), ..Observed::default() };
        let used = Dependency { uses_secret: true, need: Need::Optional, ..dependency(None) };
        let resolved = |observed: &Observed<()>| resolve(std::slice::from_ref(&used), "tf", true, observed);
        assert!(resolved(&observed).is_err());
        observed.secrets.insert("login".into(), SecretData::default());
        assert!(resolved(&observed).unwrap().connection(ConditionType::ZookeeperReady).is_some());
        observed.peers.insert("Zookeeper".into(), Source::Known(Vec::new()));
        assert!(resolved(&observed).unwrap().connection(ConditionType::ZookeeperReady).is_none(), "it is gone");
    }

    #[test]
    fn who_lacks_the_endpoint_is_told_by_those_it_has() {
        let peer = json!({
            "namespace": "tf", "name": "zk", "generation": 1,
            "status": {
                "contract": CONTRACT, "observedGeneration": 1,
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "Succeeded", "message": "",
                    "lastTransitionTime": "2026-11-21T10:00:00Z",
                }],
                "endpoints": [{"name": "client-tls", "protocol": "TCP", "port": 2281, "tls": true, "nodes": ["10.0.0.1"]}],
            },
        });
        let peers = Source::Known(vec![serde_json::from_value::<Peer>(peer).unwrap()]);
        let observed = Observed::<()> { peers: [("Zookeeper".into(), peers)].into(), ..Observed::default() };
        let Found { draft, connection, .. } = find(&dependency(None), "tf", &observed);
        assert_eq!(draft.message, "Zookeeper tf/zk publishes no endpoint client, only client-tls");
        assert!(!draft.is_true() && connection.is_none());
    }
}
