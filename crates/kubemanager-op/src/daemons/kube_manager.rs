//! contrail-kube-manager (docs/upstream/kube-manager.md#options).
//!
//! One member is elected and at work, and serves when NodeStatus says `Functional`. The others wait for their turn and open no port. The
//! daemon has no handler for SIGHUP, which would kill it (docs/upstream/daemons.md#sighup), so every change restarts it.
//!
//! `contrail-kubernetes.conf` has the name that the stock image gives it. It holds the token, and goes to the Secret. What is written is what upstream
//! `common/args.py` declares. Sections are one space to the parser, so no option stands in two.

use tf_agent_api::{
    launch::{Identity, Launch, OnChange, Probe, Reads, Unusable, port},
    node,
};
use tf_api::{KubemanagerConfiguration, contract::MemberStatus, ports};
use tf_config_files::{
    Ini,
    Separator::{Blank, Comma},
    Settings as _, Unrepresentable, url,
};
use tf_contrail::{
    daemon::{self, Daemon, LOG_DIR, path, python},
    sandesh,
    services::collectors,
    vnc_api::{self, Library},
};
use tf_plan::{
    build::{configuration::Files, pod::DaemonContainer},
    images::Builtin,
    keystone,
    member_set::sys_log_level,
    not_ready::NotReady,
};

use crate::{cluster::Cluster, token};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "kubemanager", image: "kubernetes-kube-manager", default: true };
/// Name of the file.
const FILE: &str = "contrail-kubernetes.conf";

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

/// kube-manager.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let container = DaemonContainer {
        ports: vec![("introspect", ports::KUBE_MANAGER_INTROSPECT), (node::AGENT_PORT, cluster.agents.port)],
        speaks_for_pod: true,
        ..python(container)
    };
    let mut files = Files::secret_of_each(FILE, cluster.members, |member| cluster.file(member))?;
    files.shared(vnc_api::FILE, cluster.library()?);
    files.shared_secret(token::FILE, cluster.token);
    files.external_tls(cluster.services.external_tls().into_iter().chain(keystone::files(cluster.keystone)));
    Ok(Daemon::new(container, launch(cluster)?, files))
}

fn launch(cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let argv = vec!["contrail-kube-manager".into(), "-c".into(), path(FILE)];
    let external_tls = cluster.services.external_tls().into_iter().chain(keystone::files(cluster.keystone)).collect();
    let mut launch = daemon::launch(argv, [FILE, vnc_api::FILE], external_tls);
    // The agent reads it.
    launch.files.insert(token::FILE.into(), OnChange::Nothing);
    let introspect = ports::KUBE_MANAGER_INTROSPECT;
    launch.ready = Probe::NodeStatus {
        port: port("ready.port", introspect)?,
        tls: true,
        functional: true,
        optional: sandesh::optional(),
        // In nested mode there is no election (upstream `kube_manager.py`, `main`).
        elected: !cluster.spec.nested_mode,
    };
    launch.connections = Some(sandesh::connections_of_client(introspect, &cluster.services.rabbitmq)?);
    // It says nothing of that itself (ADR 0055).
    let server = cluster.kubernetes.address();
    launch.kubernetes = Some(Reads { token: token::FILE.into(), lists: token::lists(), server });
    launch.level = Some(sandesh::level(cluster.log_level, introspect)?);
    launch.agent = cluster.agents.api()?;
    // It never reads them again (docs/upstream/daemons.md#certificates).
    launch.identity = Some(Identity { at_start: true, ..cluster.agents.certificate() });
    Ok(launch)
}

impl Cluster<'_> {
    /// [`FILE`].
    fn file(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let mut file = Ini::python(FILE);
        self.defaults(&mut file, &member.address);
        self.kubernetes(&mut file);
        self.vnc(&mut file, member);
        self.auth(&mut file);
        sandesh::fill(file.section(sandesh::SECTION), self.services.analytics.as_ref());
        file.render()
    }

    /// How the library finds the config API. The daemon brings name and password of its own.
    fn library(&self) -> Result<String, Unrepresentable> {
        let api = &self.services.api;
        vnc_api::file(&Library {
            servers: &api.servers,
            port: api.port,
            tls: api.tls,
            external_tls: Some(&api.external_tls),
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
        // In nested mode it goes into the flows of the machine, too.
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
