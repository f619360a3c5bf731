//! Files of the daemons, under the names that the daemons and the stock images give them. The key of a file is its name and the address
//! of its member.
//!
//! contrail-control and contrail-dns end at an option that they do not know and at one that stands there twice, so what is written is
//! what their `options.cc` and `dns_options.cc` declare (docs/upstream/control.md#daemons-of-control). Both hold the password of RabbitMQ and go
//! to the Secret.

pub mod control;
pub mod dns;

use tf_agent_api::node;
use tf_api::{ControlConfiguration, common::LogLevel, contract::MemberStatus, schema::Port};
use tf_config_files::{Ini, Section, Separator::Blank, Settings as _};
use tf_contrail::{
    sandesh,
    services::{collectors, configdb},
};
use tf_plan::ensemble::sys_log_level;

use crate::{key::Key, network::Network, services::Services};

/// Directory of logs.
pub const LOG_DIR: &str = "/var/log/contrail";

const DEFAULT: &str = "DEFAULT";
/// Probes and people ask for introspection at any address of the node.
const EVERYWHERE: &str = "0.0.0.0";

/// Everything the files of one resource depend on.
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
}

impl Cluster<'_> {
    /// What both daemons' section of defaults begins with.
    fn common(&self, defaults: &mut Section, member: &MemberStatus, introspect: Port, log: &str) {
        defaults
            .set("hostip", &member.address)
            // The name of the node's bgp-router in the config API (docs/upstream/daemons.md#names).
            .set("hostname", &member.node)
            .set("http_server_ip", EVERYWHERE)
            .set("http_server_port", introspect)
            // Without the option nobody waits for a collector (upstream `options.cc`, `collectors_configured_`).
            .list_unless_empty("collectors", Blank, collectors(self.services.analytics.as_ref()))
            .set("log_file", format!("{LOG_DIR}/{log}"))
            .set("log_level", sys_log_level(self.log_level))
            .set("log_local", true);
    }

    /// What agents of vRouters are shown, and what they have to show.
    fn xmpp(defaults: &mut Section) {
        defaults
            .set("xmpp_server_cert", node::CERTIFICATE)
            .set("xmpp_server_key", node::CERTIFICATE_KEY)
            .set("xmpp_ca_cert", node::CA_BUNDLE);
    }

    /// Database and message bus, and what every daemon says of introspection and collectors.
    fn sections(&self, file: &mut Ini, member: &MemberStatus) {
        let Services { cassandra, rabbitmq, analytics, .. } = self.services;
        configdb::fill(file.section(configdb::SECTION), cassandra, rabbitmq, member);
        sandesh::fill(file.section(sandesh::SECTION), analytics.as_ref());
    }
}
