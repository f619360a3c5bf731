//! Files of the daemons, under the names that the daemons and the stock images give them: uWSGI's workers, the job manager
//! and the node manager look for exactly these below [`node::RUN_DIR`]. The key of a file is its name and the address of its
//! member.
//!
//! Whatever holds a password goes to the Secret, the rest to the ConfigMap. The daemons log to standard error, which is what
//! they do without `log_file`; in [`LOG_DIR`] they leave tracebacks, and jobs their logs.

pub mod api;
pub mod device_manager;
pub mod dnsmasq;
pub mod workers;

use tf_api::{
    ConfigConfiguration,
    common::{AaaMode, LogLevel},
    contract::MemberStatus,
    schema::Port,
};
use tf_config_files::{
    Ini, Section,
    Separator::{Blank, Comma},
    Settings as _, Unrepresentable, url,
};
use tf_contrail::{
    sandesh,
    services::collectors,
    vnc_api::{self, Library},
};
use tf_plan::{ensemble::sys_log_level, keystone::Keystone};

use crate::services::Services;

/// Directory of logs.
pub const LOG_DIR: &str = "/var/log/contrail";

const DEFAULTS: &str = "DEFAULTS";
/// The introspect server of Python daemons opens an IPv4 socket only (upstream `sandesh_http.py`), so it gets no member's
/// address, which may be an IPv6 one.
const EVERYWHERE: &str = "0.0.0.0";
/// Seconds between heartbeats of the message bus, as the Go tf-operator has them. Without, the API has two minutes, and others none: those
/// of current releases (upstream `vnc_amqp.py`, `_get_heartbeat_seconds`) would not notice a broker that is silent; earlier ones do not read it.
const RABBITMQ_HEARTBEAT: u32 = 10;

/// Everything the files of one resource depend on.
#[derive(Clone, Debug)]
pub struct Cluster<'a> {
    /// The spec.
    pub spec: &'a ConfigConfiguration,
    /// Level of the logs.
    pub log_level: LogLevel,
    /// What the daemons connect to.
    pub services: &'a Services,
    /// Keystone, if it authenticates users.
    pub keystone: Option<&'a Keystone>,
    /// Addresses of the members, in the order they joined.
    pub addresses: &'a [String],
}

impl Cluster<'_> {
    /// Who may do what. Without Keystone that is everybody everything in every mode, but for what is kept from those who do not call
    /// themselves administrators, which needs no proof (upstream `api_server.py`, `is_auth_disabled` and `is_admin_request`).
    pub fn aaa_mode(&self) -> AaaMode {
        match self.keystone {
            Some(_) => self.spec.aaa_mode.unwrap_or(AaaMode::Rbac),
            None => AaaMode::NoAuth,
        }
    }

    /// Port on the loopback address where the API does what the administrator asks for. It opens it where users have to log in (upstream
    /// `vnc_auth_keystone.py`, `get_middleware_app`).
    pub fn admin_port(&self) -> Option<Port> {
        (!self.aaa_mode().is_open()).then_some(self.spec.api_admin_port)
    }

    /// How programs find the API. A secret with Keystone: leases that dnsmasq gives are stored by a script that brings no
    /// login of its own.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn library(&self) -> Result<String, Unrepresentable> {
        vnc_api::file(&Library {
            servers: self.addresses,
            port: self.spec.api_port.get(),
            tls: true,
            foreign: None,
            keystone: self.keystone,
            as_administrator: true,
        })
    }

    /// What every daemon's section of defaults begins with.
    fn common(&self, defaults: &mut Section, introspect: u16) {
        defaults
            .set("http_server_ip", EVERYWHERE)
            .set("http_server_port", introspect)
            .set("log_level", sys_log_level(self.log_level))
            // contrail-api reads a Python literal; to the others every text means yes.
            .set("log_local", 1)
            .list_unless_empty("collectors", Blank, self.collectors());
    }

    /// The stores, but for the login to the database.
    fn stores(&self, defaults: &mut Section, member: &MemberStatus) {
        self.services.stores().fill(defaults, member);
        defaults.set("rabbit_health_check_interval", RABBITMQ_HEARTBEAT);
    }

    /// How a worker finds the API.
    fn api_client(&self, defaults: &mut Section) {
        defaults
            .list("api_server_ip", Comma, self.addresses.iter().map(|address| url::host(address)))
            .set("api_server_port", self.spec.api_port)
            .set("api_server_use_ssl", true);
    }

    /// The sections that every daemon with the database has besides its defaults.
    fn sections(&self, file: &mut Ini) {
        self.services.stores().fill_login(file.section("CASSANDRA"));
        self.sandesh(file);
    }

    fn sandesh(&self, file: &mut Ini) {
        sandesh::fill(file.section(sandesh::SECTION), self.services.analytics.as_ref());
    }

    fn collectors(&self) -> Vec<String> {
        collectors(self.services.analytics.as_ref())
    }
}

/// The port of the first API worker, and those of the others: `offset` above and counted on (docs/upstream/config.md#api-workers). None if
/// they do not fit.
fn worker_ports(first: Port, offset: u16, workers: u32) -> Option<Vec<u16>> {
    let first = first.get();
    let others = 1..u16::try_from(workers).ok()?.max(1);
    let other = |worker| first.checked_add(offset)?.checked_add(worker - 1);
    std::iter::once(Some(first)).chain(others.map(other)).collect()
}
