//! The part of the schema that is played: types, what they are in, and what is there from the beginning.

use std::net::Ipv4Addr;

use serde_json::{Map, Value};

/// A type of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name, with dashes.
    pub name: &'static str,
    /// Types that it may be in, the usual one first.
    pub parents: &'static [&'static str],
}

const SYSTEM: &[&str] = &["global-system-config"];

/// All of them.
pub const ALL: [Kind; 17] = [
    Kind { name: "global-system-config", parents: &[] },
    Kind { name: "global-vrouter-config", parents: SYSTEM },
    Kind { name: "sub-cluster", parents: &[] },
    Kind { name: "config-node", parents: SYSTEM },
    Kind { name: "config-database-node", parents: SYSTEM },
    Kind { name: "analytics-node", parents: SYSTEM },
    Kind { name: "database-node", parents: SYSTEM },
    Kind { name: "analytics-snmp-node", parents: SYSTEM },
    Kind { name: "analytics-alarm-node", parents: SYSTEM },
    Kind { name: "virtual-router", parents: SYSTEM },
    Kind { name: "virtual-machine", parents: &[] },
    Kind { name: "virtual-machine-interface", parents: &["virtual-router", "project"] },
    Kind { name: "domain", parents: &[] },
    Kind { name: "project", parents: &["domain"] },
    Kind { name: "virtual-network", parents: &["project"] },
    Kind { name: "routing-instance", parents: &["virtual-network"] },
    Kind { name: "bgp-router", parents: &["routing-instance"] },
];

/// What contrail-api makes when it starts.
pub const DEFAULTS: [(&str, &[&str]); 6] = [
    ("global-system-config", &["default-global-system-config"]),
    ("global-vrouter-config", &["default-global-system-config", "default-global-vrouter-config"]),
    ("domain", &["default-domain"]),
    ("project", &["default-domain", "default-project"]),
    ("virtual-network", &["default-domain", "default-project", "ip-fabric"]),
    ("routing-instance", &["default-domain", "default-project", "ip-fabric", "__default__"]),
];

/// The type of this name.
pub fn kind(name: &str) -> Option<Kind> {
    ALL.into_iter().find(|kind| kind.name == name)
}

/// Whether values are such as the real one takes: types of the few properties that operators set.
pub fn check(kind: Kind, object: &Map<String, Value>) -> Result<(), String> {
    let address = |field: &str| {
        let value = object.get(field).filter(|value| !value.is_null());
        match value.map(|value| value.as_str().is_some_and(|text| text.parse::<std::net::IpAddr>().is_ok())) {
            Some(false) => Err(format!("Invalid {field}")),
            _ => Ok(()),
        }
    };
    match kind.name {
        "bgp-router" => match object.get("bgp_router_parameters") {
            Some(Value::Object(parameters)) => router(parameters),
            _ => Err("bgp_router_parameters are missing".into()),
        },
        "config-node" => address("config_node_ip_address"),
        "config-database-node" => address("config_database_node_ip_address"),
        "analytics-node" => address("analytics_node_ip_address"),
        "database-node" => address("database_node_ip_address"),
        "analytics-snmp-node" => address("analytics_snmp_node_ip_address"),
        "analytics-alarm-node" => address("analytics_alarm_node_ip_address"),
        "virtual-router" => address("virtual_router_ip_address"),
        // Upstream `vnc_virtual_machine_interface`, `pre_dbe_create`.
        "virtual-machine-interface" if !object.contains_key("virtual_network_refs") => {
            Err("virtual_network_refs are missing".into())
        }
        _ => Ok(()),
    }
}

fn router(parameters: &Map<String, Value>) -> Result<(), String> {
    for field in ["address", "identifier"] {
        let is_one = parameters.get(field).and_then(Value::as_str).is_some_and(|text| text.parse::<Ipv4Addr>().is_ok());
        if !is_one {
            return Err(format!("Invalid {field} of a bgp-router"));
        }
    }
    let asn = parameters.get("autonomous_system").and_then(Value::as_u64);
    if !asn.is_some_and(|asn| (1..=u64::from(u32::MAX)).contains(&asn)) {
        return Err("Invalid autonomous_system".into());
    }
    Ok(())
}
