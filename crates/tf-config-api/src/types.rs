//! Types of the config API's schema that operators register, and the names of what is there from the beginning (docs/upstream/config-api.md#types).

use super::record::{FqName, Type};

/// Settings of everything.
pub const GLOBAL_SYSTEM_CONFIG: Type = Type { name: "global-system-config", parent: None };
/// Settings of all vRouters.
pub const GLOBAL_VROUTER_CONFIG: Type = Type { name: "global-vrouter-config", parent: Some(GLOBAL_SYSTEM_CONFIG.name) };
/// A part of the cluster with control nodes of its own.
pub const SUB_CLUSTER: Type = Type { name: "sub-cluster", parent: None };
/// A control node or another speaker of BGP.
pub const BGP_ROUTER: Type = Type { name: "bgp-router", parent: Some("routing-instance") };
/// A node of Config.
pub const CONFIG_NODE: Type = Type { name: "config-node", parent: Some(GLOBAL_SYSTEM_CONFIG.name) };
/// A node of Config's database.
pub const CONFIG_DATABASE_NODE: Type = Type { name: "config-database-node", parent: Some(GLOBAL_SYSTEM_CONFIG.name) };
/// A node of Analytics.
pub const ANALYTICS_NODE: Type = Type { name: "analytics-node", parent: Some(GLOBAL_SYSTEM_CONFIG.name) };
/// A node of the database of analytics.
pub const DATABASE_NODE: Type = Type { name: "database-node", parent: Some(GLOBAL_SYSTEM_CONFIG.name) };
/// A node of AnalyticsAlarm.
pub const ANALYTICS_ALARM_NODE: Type = Type { name: "analytics-alarm-node", parent: Some(GLOBAL_SYSTEM_CONFIG.name) };
/// A node of AnalyticsSnmp.
pub const ANALYTICS_SNMP_NODE: Type = Type { name: "analytics-snmp-node", parent: Some(GLOBAL_SYSTEM_CONFIG.name) };
/// A vRouter.
pub const VIRTUAL_ROUTER: Type = Type { name: "virtual-router", parent: Some(GLOBAL_SYSTEM_CONFIG.name) };
/// An interface, of a vRouter's host itself among others.
pub const VIRTUAL_MACHINE_INTERFACE: Type =
    Type { name: "virtual-machine-interface", parent: Some(VIRTUAL_ROUTER.name) };
/// A network.
pub const VIRTUAL_NETWORK: Type = Type { name: "virtual-network", parent: Some("project") };

/// The name of what everything of the system is in.
pub fn system() -> FqName {
    vec!["default-global-system-config".into()]
}

/// The name of something in [`system`].
pub fn in_system(name: &str) -> FqName {
    [system(), vec![name.to_owned()]].concat()
}

/// The network between the nodes.
pub fn fabric() -> FqName {
    ["default-domain", "default-project", "ip-fabric"].map(str::to_owned).to_vec()
}

/// The instance in which control nodes and routers are.
pub fn fabric_instance() -> FqName {
    [fabric(), vec!["__default__".to_owned()]].concat()
}

/// The name of a control node, which is that of its node.
pub fn bgp_router(node: &str) -> FqName {
    [fabric_instance(), vec![node.to_owned()]].concat()
}
