//! What members are in the config API: each an object of its kind by the name of its node (docs/upstream/config-api.md#node-objects; upstream
//! `provision_analytics_node.py` and its like).

use std::collections::BTreeMap;

use tf_api::Managed;
use tf_config_api::{
    decide::{Scope, Wanted, Within},
    record::{Ownership, Property, Record, Setting, Type},
    types,
};
use tf_plan::{
    connection::Connection,
    observed::Observed,
    plan::Plan,
    registration::{self, client::Client},
};

use crate::services::API;

/// Nodes of one type.
pub struct Nodes {
    /// The type.
    pub kind: Type,
    /// Its property with the address.
    pub property: &'static str,
    /// Names and addresses.
    pub all: Vec<(String, String)>,
}

impl Nodes {
    /// The members of a plan.
    pub fn members(plan: &Plan, kind: Type, property: &'static str) -> Self {
        let all = plan.members.iter().map(|member| (member.node.clone(), member.address.clone())).collect();
        Self { kind, property, all }
    }
}

/// Adds to a plan what shall be in the API.
pub fn complete<Cr: Managed>(plan: &mut Plan, cr: &Cr, observed: &Observed<Cr>, config: &Connection, nodes: &[Nodes]) {
    let record = |of: &Nodes, (name, address): &(String, String)| Record {
        kind: of.kind,
        name: types::in_system(name),
        ownership: Ownership::Ours,
        properties: BTreeMap::from([(of.property, Property::Whole(Setting::stated(address.as_str())))]),
        references: Vec::new(),
    };
    let scope = |of: &Nodes| Scope {
        kind: of.kind,
        within: Within::Object(types::system()),
        refers: Vec::new(),
        may_stay: false,
    };
    let wanted = Wanted {
        owner: registration::owner(cr),
        scopes: nodes.iter().map(scope).collect(),
        records: nodes.iter().flat_map(|of| of.all.iter().map(move |node| record(of, node))).collect(),
        kept: registration::serving_leavers(observed, &plan.members).map(|node| types::in_system(&node)).collect(),
    };
    // The web UI alone goes by these objects (docs/upstream/config-api.md#node-objects).
    plan.serves_unregistered = true;
    Client { connection: config, endpoint: API }.register(plan, cr, observed, wanted);
}
