//! What the daemons of a resource are stated by, and the parts that their files have in common.
//!
//! Files have the names that the daemons and the stock images give them: uWSGI's workers, the job manager and the node manager look for exactly these below
//! [`tf_agent_api::node::RUN_DIR`]. A file that holds a password goes to the Secret, every other file to the ConfigMap. The daemons log to standard error, which
//! is what they do without `log_file`; in the directory of logs they leave tracebacks, and jobs their logs.

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
    daemon::path,
    sandesh,
    services::collectors,
    vnc_api::{self, Library},
};
use tf_plan::{
    build::{configuration::Files, identity::Identity},
    component::Agents,
    external_tls::File,
    images::Chosen,
    keystone::{self, Keystone},
    member_set::sys_log_level,
    not_ready::NotReady,
};

use crate::services::Services;

/// The section of defaults.
pub const DEFAULTS: &str = "DEFAULTS";
/// The introspect server of Python daemons opens an IPv4 socket only (upstream `sandesh_http.py`), so it gets no member's
/// address, which may be an IPv6 one.
const EVERYWHERE: &str = "0.0.0.0";
/// Seconds between heartbeats of the message bus, as the Go tf-operator has them. Without, the API has two minutes, and others none: those
/// of current releases (upstream `vnc_amqp.py`, `_get_heartbeat_seconds`) would not notice a broker that is silent; earlier ones do not read it.
const RABBITMQ_HEARTBEAT: u32 = 10;

/// Everything that the daemons of one resource are stated by.
pub struct Cluster<'a> {
    /// The spec.
    pub spec: &'a ConfigConfiguration,
    /// Level of the logs.
    pub log_level: LogLevel,
    /// What the daemons connect to.
    pub services: &'a Services,
    /// Keystone, if it authenticates users.
    pub keystone: Option<&'a Keystone>,
    /// Names and labels.
    pub identity: &'a Identity,
    /// Containers that members run.
    pub containers: &'a [Chosen],
    /// Members, in the order they joined.
    pub members: &'a [MemberStatus],
    /// How the members' agents are reached.
    pub agents: &'a Agents,
}

impl Cluster<'_> {
    /// Whether members run a container.
    pub fn runs(&self, container: &str) -> bool {
        self.containers.iter().any(|chosen| chosen.name == container)
    }

    /// The files that several daemons read.
    ///
    /// # Errors
    /// When a value cannot be expressed in a file.
    pub fn shared(&self) -> Result<Files, NotReady> {
        let mut files = Files::default();
        let library = self.library()?;
        match self.keystone {
            Some(keystone) => {
                files.shared_secret(keystone::FILE, keystone.file()?);
                files.shared_secret(vnc_api::FILE, library);
            }
            None => files.shared(vnc_api::FILE, library),
        }
        files.external_tls(self.external_tls());
        Ok(files)
    }

    /// Files for TLS to services of other authorities.
    pub fn external_tls(&self) -> Vec<File> {
        self.services.external_tls().into_iter().chain(keystone::files(self.keystone)).collect()
    }

    /// A program with its file, and that of Keystone.
    pub fn command(&self, program: &str, file: &str) -> Vec<String> {
        let files = [Some(file), self.keystone.map(|_| keystone::FILE)];
        let files = files.into_iter().flatten().flat_map(|file| ["--conf_file".to_owned(), path(file)]);
        std::iter::once(program.to_owned()).chain(files).collect()
    }

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
    fn library(&self) -> Result<String, Unrepresentable> {
        let addresses: Vec<String> = self.members.iter().map(|member| member.address.clone()).collect();
        vnc_api::file(&Library {
            servers: &addresses,
            port: self.spec.api_port.get(),
            tls: true,
            external_tls: None,
            keystone: self.keystone,
            as_administrator: true,
        })
    }

    /// What every daemon's section of defaults begins with.
    pub fn common(&self, defaults: &mut Section, introspect: u16) {
        defaults
            .set("http_server_ip", EVERYWHERE)
            .set("http_server_port", introspect)
            .set("log_level", sys_log_level(self.log_level))
            // contrail-api reads a Python literal; to the others every text means yes.
            .set("log_local", 1)
            .list_unless_empty("collectors", Blank, self.collectors());
    }

    /// The stores, but for the login to the database.
    pub fn stores(&self, defaults: &mut Section, member: &MemberStatus) {
        self.services.stores().fill(defaults, member);
        defaults.set("rabbit_health_check_interval", RABBITMQ_HEARTBEAT);
    }

    /// How a worker finds the API.
    pub fn api_client(&self, defaults: &mut Section) {
        defaults
            .list("api_server_ip", Comma, self.members.iter().map(|member| url::host(&member.address)))
            .set("api_server_port", self.spec.api_port)
            .set("api_server_use_ssl", true);
    }

    /// The sections that every daemon with the database has besides its defaults.
    pub fn sections(&self, file: &mut Ini) {
        self.services.stores().fill_login(file.section("CASSANDRA"));
        self.sandesh(file);
    }

    /// TLS of introspection and to the collectors.
    pub fn sandesh(&self, file: &mut Ini) {
        sandesh::fill(file.section(sandesh::SECTION), self.services.analytics.as_ref());
    }

    /// Collectors with port.
    pub fn collectors(&self) -> Vec<String> {
        collectors(self.services.analytics.as_ref())
    }
}
