//! What the daemons of a resource are stated by, and the parts that their files have in common.
//!
//! contrail-control and contrail-dns end at an option that they do not know and at one that stands there twice, so what is written is
//! what their `options.cc` and `dns_options.cc` declare (docs/upstream/control.md#daemons-of-control). Both files hold the password of RabbitMQ and go
//! to the Secret.

use tf_agent_api::{launch::Launch, node};
use tf_api::{ControlConfiguration, common::LogLevel, contract::MemberStatus, schema::Port};
use tf_config_files::{Ini, Section, Separator::Blank, Settings as _};
use tf_contrail::{
    daemon::{Daemon, LOG_DIR},
    sandesh,
    services::{collectors, configdb},
};
use tf_plan::{build::configuration::Files, component::Agents, member_set::sys_log_level};

use crate::{key::Key, network::Network, services::Services};

/// The section of defaults.
pub const DEFAULT: &str = "DEFAULT";
/// Probes and people ask for introspection at any address of the node.
const EVERYWHERE: &str = "0.0.0.0";

/// Everything that the daemons of one resource are stated by.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    /// The spec.
    pub spec: &'a ControlConfiguration,
    /// Level of the logs.
    pub log_level: LogLevel,
    /// What the daemons connect to.
    pub services: &'a Services,
    /// The key of the name server, where one runs.
    pub key: Option<&'a Key>,
    /// Addresses of the members.
    pub network: &'a Network,
    /// Members, in the order they joined.
    pub members: &'a [MemberStatus],
    /// How the members' agents are reached.
    pub agents: &'a Agents,
}

impl Cluster<'_> {
    /// The files that several daemons read. There is a Secret although no file of it may be there yet: members without an address have none.
    pub fn shared(&self) -> Files {
        let mut files = Files::default();
        files.external_tls(self.services.external_tls());
        files.expect_secrets();
        files
    }

    /// Members with the addresses that their daemons use, and the address of their node. Without an address there is nothing to start a daemon with.
    pub fn addressed(&self) -> impl Iterator<Item = (&str, MemberStatus)> {
        self.members.iter().filter_map(|member| {
            let used = self.network.address(member)?.to_owned();
            Some((member.address.as_str(), MemberStatus { address: used, ..member.clone() }))
        })
    }

    /// A daemon that uses another address than that of its node on some members.
    pub fn on_members(&self, daemon: Daemon) -> Daemon {
        let of = |member: &MemberStatus| {
            let addresses = [self.network.beside(member)?].into();
            Some((member.address.clone(), Launch { addresses, ..daemon.launch.clone()? }))
        };
        Daemon { launch_of: self.members.iter().filter_map(of).collect(), ..daemon }
    }

    /// What both daemons' section of defaults begins with.
    pub fn common(&self, defaults: &mut Section, member: &MemberStatus, introspect: Port, log: &str) {
        defaults
            .set("hostip", &member.address)
            // The name of the node's bgp-router in the config API (docs/upstream/daemons.md#names).
            .set("hostname", &member.node)
            .set("http_server_ip", EVERYWHERE)
            .set("http_server_port", introspect)
            // Without the option no daemon waits for a collector (upstream `options.cc`, `collectors_configured_`).
            .list_unless_empty("collectors", Blank, collectors(self.services.analytics.as_ref()))
            .set("log_file", format!("{LOG_DIR}/{log}"))
            .set("log_level", sys_log_level(self.log_level))
            .set("log_local", true);
    }

    /// What agents of vRouters are shown, and what they have to show.
    pub fn xmpp(defaults: &mut Section) {
        defaults
            .set("xmpp_server_cert", node::CERTIFICATE)
            .set("xmpp_server_key", node::CERTIFICATE_KEY)
            .set("xmpp_ca_cert", node::CA_BUNDLE);
    }

    /// Database and message bus, and what every daemon says of introspection and collectors.
    pub fn sections(&self, file: &mut Ini, member: &MemberStatus) {
        let Services { cassandra, rabbitmq, analytics, .. } = self.services;
        configdb::fill(file.section(configdb::SECTION), cassandra, rabbitmq, member);
        sandesh::fill(file.section(sandesh::SECTION), analytics.as_ref());
    }
}
