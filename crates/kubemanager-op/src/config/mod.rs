//! `contrail-kubernetes.conf` (docs/upstream/kube-manager.md#options), under the name that the stock image gives it. The key of the file is its name
//! and the address of its member. It holds the token, and goes to the Secret.
//!
//! What is written is what upstream `common/args.py` declares. Sections are one space to the parser, so no option stands in two.

use tf_api::{KubemanagerConfiguration, common::LogLevel, contract::MemberStatus, ports};
use tf_config_files::{
    Ini,
    Separator::{Blank, Comma},
    Settings as _, Unrepresentable, url,
};
use tf_contrail::{
    sandesh,
    services::collectors,
    vnc_api::{self, Library},
};
use tf_plan::{ensemble::sys_log_level, keystone::Keystone};

use crate::{kubernetes::Kubernetes, objects::Objects, services::Services};

/// Name of the file.
pub const FILE: &str = "contrail-kubernetes.conf";
/// Directory of logs.
pub const LOG_DIR: &str = "/var/log/contrail";

/// The introspect server of Python daemons opens an IPv4 socket only (upstream `sandesh_http.py`), so it gets no member's address, which
/// may be an IPv6 one.
const EVERYWHERE: &str = "0.0.0.0";

/// Platforms that the daemon was made for, the usual one first. Those of releases that are known read the option and do the same for every text
/// (upstream `kube_monitor.py`).
pub const ORCHESTRATORS: [&str; 2] = ["kubernetes", "openshift"];

/// The platform of the spec, if it is one that there is.
pub fn orchestrator(spec: &KubemanagerConfiguration) -> Option<&str> {
    Some(spec.cloud_orchestrator.as_str()).filter(|name| ORCHESTRATORS.contains(name))
}

/// Everything the files of one resource depend on. It has no `Debug`, for the token.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    /// The spec.
    pub spec: &'a KubemanagerConfiguration,
    /// Level of the logs.
    pub log_level: LogLevel,
    /// What the daemon connects to.
    pub services: &'a Services,
    /// What it is told of the cluster.
    pub kubernetes: &'a Kubernetes,
    /// What it is told of objects in the config API.
    pub objects: &'a Objects,
    /// Keystone, if it authenticates users.
    pub keystone: Option<&'a Keystone>,
    /// The daemon's token for the Kubernetes API.
    pub token: &'a str,
}

impl Cluster<'_> {
    /// [`FILE`].
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn file(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let mut file = Ini::python(FILE);
        self.defaults(&mut file, &member.address);
        self.kubernetes(&mut file);
        self.vnc(&mut file, member);
        self.auth(&mut file);
        sandesh::fill(file.section(sandesh::SECTION), self.services.analytics.as_ref());
        file.render()
    }

    /// How the library finds the config API. The daemon brings name and password of its own.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn library(&self) -> Result<String, Unrepresentable> {
        let api = &self.services.api;
        vnc_api::file(&Library {
            servers: &api.servers,
            port: api.port,
            tls: api.tls,
            foreign: Some(&api.foreign),
            keystone: self.keystone,
            as_administrator: false,
        })
    }

    fn defaults(&self, file: &mut Ini, address: &str) {
        file.section("DEFAULTS")
            .set("host_ip", address)
            .set("orchestrator", orchestrator(self.spec).unwrap_or(ORCHESTRATORS[0]))
            // The token itself. With it the daemon speaks TLS and does not check who answers (docs/upstream/kube-manager.md#token).
            .set("token", self.token)
            // Compared as a text.
            .set("nested_mode", u8::from(self.spec.nested_mode))
            .set("http_server_ip", EVERYWHERE)
            .set("http_server_port", ports::KUBE_MANAGER_INTROSPECT)
            .set("log_file", format!("{LOG_DIR}/contrail-kube-manager.log"))
            .set("log_level", sys_log_level(self.log_level))
            // Every text means yes.
            .set("log_local", 1)
            .list_unless_empty("collectors", Blank, collectors(self.services.analytics.as_ref()));
    }

    fn kubernetes(&self, file: &mut Ini) {
        let Self { spec, kubernetes, objects, .. } = self;
        file.section("KUBERNETES")
            .set("kubernetes_api_server", &kubernetes.server)
            .set("kubernetes_api_secure_port", kubernetes.port)
            .set("cluster_name", &kubernetes.name)
            .list("pod_subnets", Blank, &kubernetes.pods)
            .list("service_subnets", Blank, &kubernetes.services)
            .list("ip_fabric_subnets", Blank, &kubernetes.fabric)
            .set("ip_fabric_forwarding", spec.ip_fabric_forwarding)
            .set("ip_fabric_snat", spec.ip_fabric_snat)
            .set("host_network_service", spec.host_network_service)
            .set_if_some("cluster_project", objects.project.as_ref())
            .set_if_some("cluster_network", objects.network.as_ref())
            .set_if_some("cluster_pod_network", objects.pod_network.as_ref())
            .set_if_some("cluster_service_network", objects.service_network.as_ref());
    }

    fn vnc(&self, file: &mut Ini, member: &MemberStatus) {
        let services = self.services;
        let section = file.section("VNC");
        section
            .list("vnc_endpoint_ip", Comma, &services.api.servers)
            .set("vnc_endpoint_port", services.api.port)
            .set("public_fip_pool", &self.objects.public_pool);
        services.stores().fill(section, member);
        // In nested mode it is told to the flows of the machine, too.
        section.set("rabbit_port", services.rabbitmq_port);
        services.stores().fill_login(section);
    }

    /// The daemon logs in with these, whatever the library's file says.
    fn auth(&self, file: &mut Ini) {
        let Some(keystone) = self.keystone else { return };
        let server = url::authority(&keystone.address, keystone.port);
        file.section("AUTH")
            .set("auth_user", &keystone.username)
            .set("auth_password", keystone.password.expose())
            .set("auth_tenant", &keystone.tenant)
            .set("auth_token_url", format!("{}://{server}{}", keystone.protocol(), keystone.tokens()));
    }
}
