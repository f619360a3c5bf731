//! The pure halves of all operators, called alike.

use jiff::Timestamp;
use kube::core::DynamicObject;
use tf_api::{KindInfo, Managed, Resource as _};
use tf_plan::{
    component::Component,
    credentials::{Credential, Generator, rabbitmq_hash},
    declaration::Declaration,
    dependency::snapshot_key,
    images::ImageOverrides,
    members::family,
    observed::{self, Observed, Source},
    secret::SecretData,
};

use super::{Given, Outcome};

/// An operator's pure half.
#[derive(Clone, Copy)]
pub struct Operator {
    /// The kind it looks at.
    pub kind: KindInfo,
    /// What it owns and reads.
    pub declaration: fn() -> Declaration,
    pub(super) plan: fn(&Given, &DynamicObject, Timestamp) -> Outcome,
}

impl Operator {
    /// Every operator of this release.
    pub const ALL: [Self; 14] = [
        Self::of::<manager_op::Component>(),
        Self::of::<cassandra_op::Component>(),
        Self::of::<zookeeper_op::Component>(),
        Self::of::<rabbitmq_op::Component>(),
        Self::of::<redis_op::Component>(),
        Self::of::<config_op::Component>(),
        Self::of::<control_op::Component>(),
        Self::of::<analytics_op::Analytics>(),
        Self::of::<analytics_op::AnalyticsAlarm>(),
        Self::of::<analytics_op::AnalyticsSnmp>(),
        Self::of::<analytics_op::QueryEngine>(),
        Self::of::<kubemanager_op::Component>(),
        Self::of::<webui_op::Component>(),
        Self::of::<vrouter_op::Component>(),
    ];

    const fn of<C: Component>() -> Self {
        Self { kind: C::Cr::INFO, declaration: C::declaration, plan: plan::<C> }
    }

    /// The one that looks at a kind.
    pub fn for_kind(kind: KindInfo) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.kind == kind)
    }
}

fn plan<C: Component>(given: &Given, resource: &DynamicObject, now: Timestamp) -> Outcome {
    let cr: C::Cr = match decode(resource) {
        Ok(cr) => cr,
        Err(error) => return Outcome::Undecodable(error),
    };
    match C::plan(&cr, &observed::<C>(given, &cr, now)) {
        Ok(plan) => Outcome::Planned(Box::new(plan)),
        Err(not_ready) => Outcome::NotReady(not_ready),
    }
}

/// A resource of its kind, or the path to its first fault.
fn decode<Cr: Managed>(resource: &DynamicObject) -> Result<Cr, String> {
    let value = serde_json::to_value(resource).map_err(|error| error.to_string())?;
    serde_path_to_error::deserialize(value).map_err(|error| error.to_string())
}

/// What the operator would see.
fn observed<C: Component>(given: &Given, cr: &C::Cr, now: Timestamp) -> Observed<C::Cr> {
    let (home, name) = (cr.home(), cr.meta().name.as_deref().unwrap_or_default());
    let itself = (home.to_owned(), name.to_owned());
    let declaration = C::declaration();
    let mut secrets = given.secrets(|namespace, name| snapshot_key(home, namespace, name));
    for credential in C::credentials(cr) {
        stand_in(secrets.entry(credential.secret.clone()).or_default(), &credential);
    }
    let others = given.resources().filter(|other| other.kind == C::Cr::INFO && other.key().1 != itself);
    Observed {
        operator: observed::Operator {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster_domain: given.cluster_domain.clone(),
            images: ImageOverrides::default(),
        },
        now,
        nodes: Source::Known(family::nodes_of(&declaration, cr, given.nodes.clone())),
        pods: Source::Known(given.pods_of(home, &C::Cr::type_name(), name)),
        claims: given.claims_of(home, &C::Cr::type_name(), name),
        workloads: given.workloads_of(cr.meta().uid.as_deref().unwrap_or_default()),
        peers: declaration
            .peers
            .iter()
            .map(|peer| (peer.kind.kind.to_owned(), Source::Known(given.peers(peer.kind.kind))))
            .collect(),
        secrets,
        config_maps: given.config_maps(home),
        facts: given.facts(),
        foreign: given.foreign(),
        specs: declaration
            .specs()
            .map(|kind| (kind.kind.to_owned(), Source::Known(given.specs(kind.kind, home))))
            .collect(),
        siblings: others.filter_map(|other| decode(&other.object).ok()).collect(),
        ..Observed::default()
    }
}

/// What stands for a credential that is generated when the resource is there.
fn stand_in(data: &mut SecretData, credential: &Credential) {
    if data.get(credential.key).is_none_or(str::is_empty) {
        let value = match credential.generator {
            Generator::Alphanumeric { length } => "x".repeat(length),
            Generator::UpperCase { length } => "X".repeat(length),
            Generator::RabbitmqHash { of } => rabbitmq_hash(data.get(of).unwrap_or_default(), [0; 4]),
        };
        data.insert(credential.key, value);
    }
}

#[cfg(test)]
mod tests {
    use tf_api::kinds::{self, MANAGER};

    use super::Operator;

    #[test]
    fn each_kind_that_makes_something_is_planned() {
        for kind in kinds::ALL.into_iter().filter(|kind| kind.has_pods || *kind == MANAGER) {
            assert!(Operator::for_kind(kind).is_some(), "{} is not in Operator::ALL", kind.kind);
        }
    }
}
