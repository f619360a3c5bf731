//! What Config is in its own API: its nodes and those of its database, and the settings of everything that the spec has
//! (docs/upstream/config-api.md#node-objects, docs/upstream/config-api.md#global-settings; upstream `provision_config_node.py`,
//! `provision_control.py`, `provision_encap.py`, `provision_linklocal.py`).

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::{Value, json};
use tf_api::{
    Config, ConfigConfiguration,
    contract::Protocol,
    kinds::{EcmpHashingIncludeFields, GracefulRestartParameters, LinklocalService, LinklocalServiceConfig},
    schema::Port,
};
use tf_config_api::{
    decide::{Scope, Wanted, Within},
    record::{Ownership, Property, Record, Setting},
    types::{self, CONFIG_DATABASE_NODE, CONFIG_NODE, GLOBAL_SYSTEM_CONFIG, GLOBAL_VROUTER_CONFIG},
};
use tf_contrail::services::CQL;
use tf_plan::{
    connection::Connection,
    observed::Observed,
    plan::Plan,
    registration::{self, client::Client, serving_leavers},
};

use crate::daemons::api::ENDPOINT;

/// What vRouters use, the first that both have (docs/upstream/config-api.md#global-settings).
const ENCAPSULATIONS: [&str; 3] = ["MPLSoUDP", "MPLSoGRE", "VXLAN"];
/// Seconds of each time of graceful restart where nothing is set (upstream `vnc_cfg.xsd`).
const RESTART_TIME: u16 = 300;

/// Adds to a plan what shall be in the API. `database`: the Cassandra in use.
pub fn complete(plan: &mut Plan, cr: &Config, observed: &Observed<Config>, database: &Connection) {
    let connection = serving(plan, observed);
    let wanted = wanted(plan, cr, observed, database);
    // Others wait for the API, not for what it says of its nodes; a Keystone that is away must not keep them.
    plan.serves_unregistered = true;
    Client { connection: &connection, endpoint: ENDPOINT }.register(plan, cr, observed, wanted);
}

/// The members that serve: before there is one, nobody is asked.
fn serving(plan: &Plan, observed: &Observed<Config>) -> Connection {
    let pods = observed.pods.known().map(Vec::as_slice).unwrap_or_default();
    let serves = |address: &String| pods.iter().any(|pod| pod.ready && pod.address.as_ref() == Some(address));
    let mut connection = Connection::default();
    for mut endpoint in
        plan.endpoints.iter().filter(|it| it.name == ENDPOINT && it.protocol == Protocol::Https).cloned()
    {
        endpoint.nodes.retain(serves);
        endpoint.service = None;
        connection.endpoints.insert(endpoint.name.clone(), endpoint);
    }
    connection
}

fn wanted(plan: &Plan, cr: &Config, observed: &Observed<Config>, database: &Connection) -> Wanted {
    let spec = &cr.spec.service_configuration;
    let node = |kind, property, name: &str, address: &str| Record {
        kind,
        name: types::in_system(name),
        ownership: Ownership::Ours,
        properties: BTreeMap::from([(property, Property::Whole(Setting::stated(address)))]),
        references: Vec::new(),
    };
    let nodes = plan.members.iter().map(|it| node(CONFIG_NODE, "config_node_ip_address", &it.node, &it.address));
    let databases = database.hosts(CQL).into_iter().filter_map(|host| {
        let name = database.member_nodes.get(&host)?;
        Some(node(CONFIG_DATABASE_NODE, "config_database_node_ip_address", name, &host))
    });
    let scope = |kind, within| Scope { kind, within, refers: Vec::new(), may_stay: false };
    Wanted {
        owner: registration::owner(cr),
        scopes: vec![
            scope(GLOBAL_SYSTEM_CONFIG, Within::Anything),
            scope(GLOBAL_VROUTER_CONFIG, Within::Object(types::system())),
            scope(CONFIG_NODE, Within::Object(types::system())),
            scope(CONFIG_DATABASE_NODE, Within::Object(types::system())),
        ],
        records: [system(spec), vrouters(spec)].into_iter().chain(nodes).chain(databases).collect(),
        kept: serving_leavers(observed, &plan.members).map(|node| types::in_system(&node)).collect(),
    }
}

fn system(spec: &ConfigConfiguration) -> Record {
    let usual = ConfigConfiguration::default();
    let whole = |setting| Property::Whole(setting);
    Record {
        kind: GLOBAL_SYSTEM_CONFIG,
        name: types::system(),
        ownership: Ownership::Shared,
        properties: BTreeMap::from([
            ("autonomous_system", whole(Setting::unless_default(spec.global_asn_number, &usual.global_asn_number))),
            ("ibgp_auto_mesh", whole(Setting::unless_default(spec.bgp_auto_mesh, &usual.bgp_auto_mesh))),
            ("enable_4byte_as", whole(Setting::unless_default(spec.bgp_enable_4_byte, &usual.bgp_enable_4_byte))),
        ])
        .into_iter()
        .chain(spec.graceful_restart_parameters.iter().map(graceful_restart))
        .collect(),
        references: Vec::new(),
    }
}

fn graceful_restart(of: &GracefulRestartParameters) -> (&'static str, Property) {
    let fields = BTreeMap::from([
        ("enable", Setting::stated(of.enable)),
        ("restart_time", or_usual(of.restart_time, RESTART_TIME)),
        ("long_lived_restart_time", or_usual(of.long_lived_restart_time, RESTART_TIME)),
        ("end_of_rib_timeout", or_usual(of.end_of_rib_timeout, RESTART_TIME)),
        ("bgp_helper_enable", or_usual(of.bgp_helper_enable, false)),
        ("xmpp_helper_enable", or_usual(of.xmpp_helper_enable, false)),
    ]);
    ("graceful_restart_parameters", Property::Fields(fields))
}

fn hashing(of: &EcmpHashingIncludeFields) -> (&'static str, Property) {
    let fields = BTreeMap::from([
        ("hashing_configured", Setting::stated(of.hashing_configured)),
        ("source_ip", or_usual(of.source_ip, true)),
        ("destination_ip", or_usual(of.destination_ip, true)),
        ("ip_protocol", or_usual(of.ip_protocol, true)),
        ("source_port", or_usual(of.source_port, true)),
        ("destination_port", or_usual(of.destination_port, true)),
    ]);
    ("ecmp_hashing_include_fields", Property::Fields(fields))
}

/// What the spec states, or else what upstream's schema has where nothing is set: who reads an object does not fill it in.
fn or_usual<T: Into<Value>>(stated: Option<T>, usual: impl Into<Value>) -> Setting {
    stated.map_or_else(|| Setting::usual(usual), Setting::stated)
}

fn vrouters(spec: &ConfigConfiguration) -> Record {
    let services = spec.linklocal_service_config.iter();
    let services = services.filter_map(|service| Some((service.name.clone(), linklocal(service, host(service)?))));
    let further = spec.linklocal_services.iter().map(|service| (service.name.clone(), further_linklocal(service)));
    let encapsulations = Some(&spec.encapsulation_priorities).filter(|stated| !stated.is_empty());
    let encapsulations = or_usual(encapsulations.map(|stated| json!(stated)), json!(ENCAPSULATIONS));
    let mode = or_usual(spec.vxlan_network_identifier_mode.map(|mode| json!(mode)), "automatic");
    Record {
        kind: GLOBAL_VROUTER_CONFIG,
        name: types::in_system("default-global-vrouter-config"),
        ownership: Ownership::Shared,
        properties: BTreeMap::from([
            ("encapsulation_priorities", Property::Fields(BTreeMap::from([("encapsulation", encapsulations)]))),
            ("vxlan_network_identifier_mode", Property::Whole(mode)),
            (
                "linklocal_services",
                Property::Entries {
                    list: "linklocal_service_entry",
                    key: "linklocal_service_name",
                    entries: services.chain(further).collect(),
                },
            ),
        ])
        .into_iter()
        .chain(spec.ecmp_hashing_include_fields.iter().map(hashing))
        .collect(),
        references: Vec::new(),
    }
}

/// The host that provides a service. Without one there is none to register.
pub fn host(service: &LinklocalServiceConfig) -> Option<&str> {
    service.ip_fabric_service_host.as_deref().filter(|host| !host.is_empty())
}

/// A service by the address of its host, or by its name, which the agents resolve.
fn linklocal(service: &LinklocalServiceConfig, host: &str) -> Value {
    entry(&service.name, &service.ip, service.port, &[host.to_owned()], service.ip_fabric_service_port)
}

fn further_linklocal(service: &LinklocalService) -> Value {
    let hosts = service.ip_fabric_service_hosts.as_slice();
    entry(&service.name, &service.ip, service.port, hosts, service.ip_fabric_service_port)
}

fn entry(name: &str, ip: &str, port: Port, hosts: &[String], host_port: Port) -> Value {
    let mut entry = json!({
        "linklocal_service_name": name,
        "linklocal_service_ip": ip,
        "linklocal_service_port": port,
        "ip_fabric_service_port": host_port,
    });
    match hosts {
        [name] if name.parse::<IpAddr>().is_err() => entry["ip_fabric_DNS_service_name"] = json!(name),
        addresses => entry["ip_fabric_service_ip"] = json!(addresses),
    }
    entry
}
