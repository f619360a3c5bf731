//! What control nodes are in the config API: each a bgp-router by the name of its node, to which everybody's settings refer, and of a
//! subcluster one of its own with them (docs/upstream/config-api.md#bgp-router; upstream `provision_control.py`).

use std::{collections::BTreeMap, net::Ipv4Addr};

use serde_json::json;
use tf_api::{Control, ControlConfiguration, contract::MemberStatus};
use tf_config_api::{
    decide::{Scope, Wanted, Within},
    record::{Ownership, Property, Record, Reference, Setting},
    types::{self, BGP_ROUTER, GLOBAL_SYSTEM_CONFIG, SUB_CLUSTER},
};
use tf_plan::{
    observed::Observed,
    plan::Plan,
    registration::{
        self,
        client::{self, Client},
    },
};

use crate::{network::Network, services::Services};

/// What routers of one kind exchange (docs/upstream/config-api.md#bgp-router).
const FAMILIES: [&str; 5] = ["route-target", "inet-vpn", "e-vpn", "erm-vpn", "inet6-vpn"];

/// Adds to a plan what its members are in the config API.
pub fn complete(plan: &mut Plan, cr: &Control, observed: &Observed<Control>, services: &Services, network: &Network) {
    let client = Client { connection: &services.config, endpoint: crate::services::API };
    // What routers are known by is an IPv4 address (docs/upstream/config-api.md#bgp-router).
    let addressed = plan.members.iter().filter_map(|member| Some((member, network.address(member)?)));
    let addressed: Vec<(&MemberStatus, &str)> = addressed.collect();
    let unfit = addressed.iter().find(|(_, address)| address.parse::<Ipv4Addr>().is_err());
    if let Some((member, address)) = unfit {
        let why = format!(
            "the config API knows control nodes by IPv4 addresses, and node {} has {address}; have the kubelet know the node by one \
             (--node-ip), or state a network of such (dataSubnet)",
            member.node
        );
        return client::impossible(plan, why);
    }
    let wanted = wanted(cr, observed, &plan.members, &addressed);
    client.register(plan, cr, observed, wanted);
}

/// `addressed`: the members whose addresses are known, with these.
fn wanted(
    cr: &Control,
    observed: &Observed<Control>,
    members: &[MemberStatus],
    addressed: &[(&MemberStatus, &str)],
) -> Wanted {
    let spec = &cr.spec.service_configuration;
    let subcluster = spec.subcluster.as_deref().filter(|name| !name.is_empty());
    let asn = || Setting::unless_default(spec.asn_number, &ControlConfiguration::default().asn_number);
    let cluster = subcluster.map(|name| Record {
        kind: SUB_CLUSTER,
        name: vec![name.to_owned()],
        ownership: Ownership::Ours,
        properties: BTreeMap::from([("sub_cluster_asn", Property::Whole(asn()))]),
        references: Vec::new(),
    });
    let peers: Vec<&MemberStatus> = addressed.iter().map(|(member, _)| *member).collect();
    let unknown = members.iter().filter(|member| !peers.contains(member)).map(|member| member.node.clone());
    let routers = addressed.iter().map(|(member, address)| Record {
        kind: BGP_ROUTER,
        name: types::bgp_router(&member.node),
        ownership: Ownership::Ours,
        properties: BTreeMap::from([(
            "bgp_router_parameters",
            Property::Fields(BTreeMap::from([
                ("router_type", Setting::stated(router_type(subcluster))),
                ("vendor", Setting::usual("contrail")),
                ("autonomous_system", asn()),
                ("identifier", Setting::stated(*address)),
                ("address", Setting::stated(*address)),
                ("port", Setting::stated(spec.bgp_port.get())),
                ("address_families", Setting::usual(json!({"family": FAMILIES}))),
            ])),
        )]),
        references: subcluster.map(|name| within(name, member, &peers)).unwrap_or_default(),
    });
    let system = Record {
        kind: GLOBAL_SYSTEM_CONFIG,
        name: types::system(),
        ownership: Ownership::Shared,
        properties: BTreeMap::new(),
        references: peers.iter().copied().map(to_router).collect(),
    };
    let scope = |kind, within, refers: &[_], may_stay| Scope { kind, within, refers: refers.to_vec(), may_stay };
    Wanted {
        owner: registration::owner(cr),
        scopes: vec![
            // Other control nodes and vRouters may be of it.
            scope(SUB_CLUSTER, Within::Anything, &[], true),
            scope(BGP_ROUTER, Within::Object(types::fabric_instance()), &[SUB_CLUSTER, BGP_ROUTER], false),
            scope(GLOBAL_SYSTEM_CONFIG, Within::Anything, &[BGP_ROUTER], false),
        ],
        records: cluster.into_iter().chain(routers).chain([system]).collect(),
        kept: registration::serving_leavers(observed, members)
            .chain(unknown)
            .map(|node| types::bgp_router(&node))
            .collect(),
    }
}

fn router_type(subcluster: Option<&str>) -> &'static str {
    if subcluster.is_some() { "external-control-node" } else { "control-node" }
}

/// What a control node of a subcluster refers to. Its peers are named one by one: nobody makes that mesh.
fn within(subcluster: &str, member: &MemberStatus, members: &[&MemberStatus]) -> Vec<Reference> {
    let cluster = Reference { kind: SUB_CLUSTER, to: vec![subcluster.to_owned()], relaxed: false };
    let peers = members.iter().copied().filter(|other| other.node != member.node).map(to_router);
    [cluster].into_iter().chain(peers).collect()
}

fn to_router(member: &MemberStatus) -> Reference {
    Reference { kind: BGP_ROUTER, to: types::bgp_router(&member.node), relaxed: true }
}
