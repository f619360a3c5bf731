//! Finding the services a resource needs, by the consumer rules of the status contract.
//!
//! Before the first bring-up a dependency must be *usable*: it exists, speaks our contract version, describes its
//! current generation, is Ready and lists the endpoint. Afterwards an unusable dependency only shows in conditions: what
//! it publishes is used as long as it publishes anything, so a flapping dependency never empties a configuration.
//!
//! What cannot be seen is not taken for absent, whatever it is needed for, nor is what the spec names and is not there: then there is no plan, and
//! what runs stays as it is.

use std::collections::BTreeMap;

use tf_api::{
    CONTRACT, Managed,
    contract::{ConditionType, Draft, Endpoint, Protocol, Reason},
    dependencies::{DependencySource, ExternalService},
};

use crate::{
    connection::Connection,
    external_tls,
    not_ready::NotReady,
    object::Kind,
    observed::{Observed, Peer, Unavailable},
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

/// What is used of the connection Secret of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretUse {
    /// Nothing. The Secret need not exist.
    Nothing,
    /// A user, and certificates to check the service's own against: daemons show it none.
    ShowsNothing,
    /// These, and a certificate that the service is shown.
    Everything,
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
    /// What is used of the connection Secret of a service that no operator of ours runs.
    pub secret: SecretUse,
    /// Whether somebody logs in with what the connection Secret of a service of ours has.
    pub logs_in: bool,
}

impl Dependency {
    /// The Secret that the spec names for a service that no operator of ours runs, if anything of it is used.
    pub fn used_secret(&self) -> Option<&str> {
        self.external_secret().filter(|_| self.secret != SecretUse::Nothing)
    }

    fn external_secret(&self) -> Option<&str> {
        Some(&self.source.as_ref()?.external.as_ref()?.secret_ref.as_ref()?.name)
    }
}

/// A dependency as it was found.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    draft: Draft,
    connection: Result<Connection, Lack>,
}

/// What there is no connection for want of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// A service, as far as can be seen, or its endpoint.
    Service,
    /// What the spec says or names of it is of no use, or is not there.
    Input,
    /// A look at it: it may be there.
    Sight,
}

impl Lack {
    /// Whether nothing is planned without a service that no bring-up waits for. By what was rendered with an input somebody goes: without it
    /// what runs stays as it is.
    fn holds_up(self, need: Need) -> bool {
        match self {
            Self::Service => false,
            Self::Input => true,
            Self::Sight => need != Need::Remembered,
        }
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
    for (dependency, Found { draft, connection }) in dependencies.iter().zip(&found) {
        let is_needed = dependency.need == Need::BringUp;
        let holds_up = match connection {
            Ok(_) => is_needed && !initialized && !draft.is_true(),
            Err(lack) => is_needed || lack.holds_up(dependency.need),
        };
        if holds_up && obstacle.is_none() {
            obstacle = Some(NotReady::waiting(draft.reason, draft.message.clone()));
        }
        failing.extend(Some(draft).filter(|_| holds_up || is_needed && !draft.is_true()));
        // An optional dependency is used as soon as it is usable, and afterwards as long as it publishes anything.
        let used = connection.as_ref().ok().filter(|_| draft.is_true() || initialized || is_needed);
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
pub fn ignored<Cr>(dependencies: &[Dependency], observed: &Observed<Cr>) -> Vec<String> {
    let unread = dependencies.iter().filter_map(|dependency| {
        let secret = dependency.external_secret()?;
        let has = |key| observed.secrets.get(secret).is_some_and(|data| data.text(key).is_some());
        let why = match dependency.secret {
            SecretUse::Nothing => "no client logs in there, and certificates are checked against those of the cluster",
            SecretUse::ShowsNothing if has(external_tls::CERTIFICATE) || has(external_tls::KEY) => {
                "of its keys tls.crt and tls.key have no effect, the service is shown no certificate of them"
            }
            SecretUse::ShowsNothing | SecretUse::Everything => return None,
        };
        Some(format!("spec.dependencies.{}.external.secretRef: {why}", dependency.kind.kind.to_lowercase()))
    });
    unread.collect()
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
    let without = |lack, reason, message: String| Found {
        draft: Draft::fails(dependency.condition, reason, message),
        connection: Err(lack),
    };
    let source = dependency.source.clone().unwrap_or_default();
    if let Some(external) = &source.external {
        return found_external(dependency, external, observed);
    }
    if let Some(map) = &source.discovery_config_map {
        return match observed.config_maps.get(&map.name) {
            Some(data) => found_in_map(dependency, &map.name, data),
            None => without(
                Lack::Input,
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
            None => without(
                Lack::Service,
                Reason::DependencyNotFound,
                format!("{kind} {namespace}/{} does not exist", reference.name),
            ),
        };
    }
    match by_convention(dependency, home, peers) {
        Ok(peer) => found_peer(dependency, home, peer, observed),
        Err((reason, message)) if dependency.need != Need::BringUp => {
            Found { draft: Draft::unknown(dependency.condition, reason, message), connection: Err(Lack::Service) }
        }
        Err((reason, message)) => without(Lack::Service, reason, message),
    }
}

/// What of a dependency is known that cannot be looked for: nothing. But of a kind whose definition is not installed there is none, and one
/// that nobody named and nobody needs is simply not asked for.
fn out_of_sight(dependency: &Dependency, source: &DependencySource, why: &Unavailable) -> Found {
    let is_named = source.reference.is_some();
    if dependency.need != Need::BringUp && !is_named && why.reason == Reason::CrdMissing {
        let draft = Draft::unknown(dependency.condition, Reason::NotRequested, why.message.clone());
        return Found { draft, connection: Err(Lack::Service) };
    }
    Found { draft: unseen(dependency.condition, why), connection: Err(Lack::Sight) }
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
    let secret = peer.status.connection_secret_ref.as_ref().filter(|_| dependency.logs_in);
    let credentials = match secret {
        Some(reference) => observed.secrets.get(&snapshot_key(home, &peer.namespace, &reference.name)),
        None => None,
    };
    let secret_missing = secret.is_some() && credentials.is_none();
    let listed = peer.status.endpoint(dependency.endpoint).is_some_and(|e| !e.nodes.is_empty() || e.service.is_some());
    let connection = match (listed, secret_missing) {
        (false, _) => Err(Lack::Service),
        // One without its credentials is there.
        (true, true) => Err(Lack::Sight),
        (true, false) => Ok(Connection {
            endpoints: by_name(&peer.status.endpoints),
            credentials: credentials.cloned().unwrap_or_default(),
            member_nodes: peer.status.members.iter().map(|m| (m.address.clone(), m.node.clone())).collect(),
        }),
    };
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
    Found { draft, connection }
}

fn found_external<Cr>(dependency: &Dependency, external: &ExternalService, observed: &Observed<Cr>) -> Found {
    let failed = |reason, message: String| Found {
        draft: Draft::fails(dependency.condition, reason, message),
        connection: Err(Lack::Input),
    };
    if external.endpoints.iter().all(|endpoint| endpoint.name != dependency.endpoint) {
        return failed(
            Reason::InvalidSpec,
            format!("the external {} needs an endpoint named {}", dependency.kind.kind, dependency.endpoint),
        );
    }
    let credentials = match dependency.used_secret() {
        None => SecretData::default(),
        Some(name) => match observed.secrets.get(name) {
            Some(data) => external_tls::used(data, dependency.secret == SecretUse::Everything),
            None => return failed(Reason::SecretNotFound, format!("Secret {name} does not exist; create it")),
        },
    };
    if let (Err(why), Some(name)) = (external_tls::check(&credentials), dependency.external_secret()) {
        return failed(Reason::SecretInvalid, format!("Secret {name} of the external {}: {why}", dependency.kind.kind));
    }
    Found {
        draft: Draft::holds(
            dependency.condition,
            Reason::Succeeded,
            format!("the external {} of the spec is used; it is not probed", dependency.kind.kind),
        ),
        connection: Ok(Connection {
            endpoints: by_name(&external.endpoints),
            credentials,
            member_nodes: BTreeMap::new(),
        }),
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
        let draft = Draft::fails(dependency.condition, Reason::InvalidSpec, message);
        return Found { draft, connection: Err(Lack::Input) };
    };
    Found {
        draft: Draft::holds(
            dependency.condition,
            Reason::Succeeded,
            format!("endpoints come from ConfigMap {map}; they are not probed"),
        ),
        connection: Ok(Connection { endpoints: by_name(&[endpoint]), ..Connection::default() }),
    }
}

fn by_name(endpoints: &[Endpoint]) -> BTreeMap<String, Endpoint> {
    endpoints.iter().map(|endpoint| (endpoint.name.clone(), endpoint.clone())).collect()
}

#[cfg(test)]
mod tests;
