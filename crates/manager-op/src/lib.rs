//! Manager: one manifest that lists components. The operator makes a resource of each entry ([`children`]) and says how
//! they are ([`aggregate`]). It never runs a workload and never touches what somebody else set on a component.

pub mod aggregate;
pub mod children;
pub mod inherit;

use serde_json::{Map, Value, json};
use tf_api::{
    Manager, SERVICES, ServiceInfo,
    common::{AuthMode, AuthParameters},
    contract::Reason,
    kinds,
};
use tf_plan::{
    component,
    declaration::{Declaration, Owned, PeerKind},
    hibernation, images, keystone,
    not_ready::NotReady,
    object::{Kind, Object, SECRET},
    observed::Observed,
    plan::Plan,
};

/// Name of the operator.
pub const OPERATOR: &str = "manager-op";

/// The Manager component.
pub struct Component;

impl component::Component for Component {
    type Cr = Manager;

    fn declaration() -> Declaration {
        let resource = |info| Owned { kind: Kind::custom(info), reason: "components that the Manager lists" };
        let secret =
            Owned { kind: SECRET, reason: "passwords that a Manager states, so that no component's spec repeats them" };
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(kinds::MANAGER),
            owned: std::iter::once(secret).chain(services().map(|service| resource(service.kind))).collect(),
            peers: services()
                .map(|service| PeerKind {
                    kind: Kind::custom(service.kind),
                    condition: service.kind.shown_as,
                    reason: "state of the components",
                })
                .collect(),
            reads: Vec::new(),
            restarts_pods: false,
            calls_agents: false,
            grant: None,
            deregisters: false,
            marks_nodes: false,
            further: Vec::new(),
        }
    }

    fn plan(cr: &Manager, observed: &Observed<Manager>) -> Result<Plan, NotReady> {
        plan(cr, observed)
    }
}

/// One key of `spec.services` for each kind.
fn services() -> impl Iterator<Item = &'static ServiceInfo> {
    SERVICES.iter().filter(|service| !service.former)
}

/// Plans the resources of the components.
///
/// # Errors
/// When two entries of one kind would be the same resource.
pub fn plan(cr: &Manager, observed: &Observed<Manager>) -> Result<Plan, NotReady> {
    let children = children::children(cr)?;
    let aggregate = aggregate::aggregate(&children, observed);
    let mut objects: Vec<Object> = children.iter().filter_map(|child| child.secret.clone()).collect();
    objects.sort_by(|a, b| a.name.cmp(&b.name));
    objects.dedup_by(|a, b| a.name == b.name);
    // What is not installed cannot be made, and says so in its condition. That a kind cannot be seen for the moment says
    // nothing about it: what is not planned is removed.
    let missing = |kind| observed.peers(kind).is_err_and(|why| why.reason == Reason::CrdMissing);
    let installed = children.iter().filter(|child| !missing(child.service.kind.kind));
    objects.extend(installed.map(|child| child.object.clone()));
    Ok(Plan {
        objects,
        version: images::release(cr.spec.version.as_deref())?.name,
        drafts: aggregate.drafts,
        ignored: ignored(cr, &children),
        held: children
            .is_empty()
            .then(|| (Reason::InvalidSpec, "spec.services lists no component; add at least one".to_owned())),
        own_status: aggregate.own_status,
        ..Plan::default()
    })
}

fn ignored(cr: &Manager, children: &[children::Child]) -> Vec<String> {
    let settings = &cr.spec.common_configuration;
    let fields = [
        (settings.cert_key_length.is_some(), "certKeyLength", "keys are of elliptic curves"),
        (settings.cert_signer.is_some(), "certSigner", "spec.commonConfiguration.certificates says who signs"),
    ];
    fields
        .into_iter()
        .filter(|(set, ..)| *set)
        .map(|(_, field, why)| format!("spec.commonConfiguration.{field}: {why}"))
        .chain(inherit::unused(cr))
        .chain(without_keystone(settings.common.auth_parameters.as_ref()))
        .chain(children.iter().flat_map(|child| child.ignored.iter().cloned()))
        .chain(hibernation::ignored(cr, "it has no servers of its own; annotate the resources that have"))
        .collect()
}

/// What of `authParameters` is not passed on.
fn without_keystone(auth: Option<&AuthParameters>) -> Vec<String> {
    let auth = auth.filter(|auth| auth.auth_mode != Some(AuthMode::Keystone));
    keystone::ignored(auth)
}

/// State of one component as the Go tf-operator published it.
fn service_status(name: &str, active: bool, created: bool) -> Value {
    json!({ "name": name, "active": active, "created": created })
}

/// Puts the states of components where the Go tf-operator had them: by key, in lists where the spec has lists.
fn own_status(states: Vec<(&children::Child, Value)>) -> Map<String, Value> {
    let mut fields = Map::new();
    // No staged upgrade is under way.
    fields.insert("ziuState".into(), json!(-1));
    for (child, state) in states {
        if child.service.list {
            let list = fields.entry(child.service.key).or_insert_with(|| json!([]));
            list.as_array_mut().into_iter().for_each(|list| list.push(state.clone()));
        } else {
            fields.insert(child.service.key.into(), state);
        }
    }
    fields
}
