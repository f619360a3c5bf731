//! contrail-api: its file per worker, and that of uWSGI, which runs the workers where there are several (docs/upstream/config.md#api-workers).

use std::num::{NonZeroU16, NonZeroU32};

use tf_agent_api::{
    launch::{Connections, Identity, Launch, Lists, OnChange, Probe, Unusable, one_worker, port},
    node,
};
use tf_api::{
    contract::{MemberStatus, Reason},
    ports::CONFIG_API_ADMIN,
    schema::Port,
};
use tf_config_files::{Ini, Separator::Blank, Settings as _, Unrepresentable, url};
use tf_contrail::{
    daemon::{Daemon, LOG_DIR, path, python},
    sandesh,
};
use tf_plan::{
    build::{configuration::Files, pod::DaemonContainer},
    images::Builtin,
    not_ready::NotReady,
};

use crate::cluster::{Cluster, DEFAULTS};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "api", image: "controller-config-api", default: true };
/// Name of its endpoint, and of its port.
pub const ENDPOINT: &str = "api";
/// Name of the port of its administration, which is on the loopback address.
const ADMIN: &str = "admin";

/// The configuration of uWSGI.
const UWSGI_FILE: &str = "contrail-api-uwsgi.ini";
/// How far the introspect ports of further workers are above the first one's.
const INTROSPECT_OFFSET: u16 = 10_000;
/// How far the administration ports of further workers are above the first one's.
const ADMIN_OFFSET: u16 = 20_000;
/// Requests that one worker serves at a time.
const MAX_REQUESTS: u32 = 1024;
/// Connections that may wait for a worker to take them; uWSGI's default of 100 is too few for hundreds of vRouters that come back at once. It ends at its start
/// where `net.core.somaxconn` of the node is lower (4096 since Linux 5.4, 128 before).
const LISTEN: u32 = 1024;
/// Largest request in bytes: identifiers of 16 bytes for the most objects a list may have.
const BUFFER_SIZE: u32 = 16 * 1024 * 1000;

/// The API. Further workers have introspect and administration ports of their own, which are not named here: two members on one node would already differ
/// about the first ones.
///
/// # Errors
/// When there are not enough ports for the workers, or a value cannot be expressed in a file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let (spec, agent) = (cluster.spec, cluster.agents.port);
    let ports = cluster.worker_ports()?;
    if ports.has(agent.get()) {
        let why = format!(
            "the port {agent} of node agents would be that of an API worker; choose a lower serviceConfiguration.apiIntrospectPort or fewer workers"
        );
        return Err(NotReady::invalid(Reason::InvalidSpec, why));
    }
    let mut container = DaemonContainer { speaks_for_pod: true, ..python(container) };
    container.ports =
        vec![(ENDPOINT, spec.api_port), ("introspect", spec.api_introspect_port), (node::AGENT_PORT, agent)];
    container.ports.extend(cluster.admin_port().map(|port| (ADMIN, port)));
    if spec.api_worker_count > 1 {
        container.env.push(("CONFIG_API_WORKER_COUNT".into(), spec.api_worker_count.to_string()));
    }
    let mut files = Files::default();
    for member in cluster.members {
        for (name, content) in cluster.api(&ports, member)? {
            files.member_secret(&name, &member.address, content);
        }
        if let Some(content) = cluster.uwsgi(&member.address)? {
            files.member(UWSGI_FILE, &member.address, content);
        }
    }
    Ok(Daemon { loopback: &[ADMIN], ..Daemon::new(container, launch(cluster, &ports)?, files) })
}

/// The API, whose container gets the certificate of the member. Only an answer over its own scheme shows that it serves: the port is
/// open before, and without certificates too (docs/upstream/observed.md#readiness-of-contrail-api).
fn launch(cluster: &Cluster<'_>, ports: &WorkerPorts) -> Result<Launch, Unusable> {
    let spec = cluster.spec;
    let workers = (0..spec.api_worker_count.max(1) as usize).map(file_name);
    let argv = if spec.api_worker_count > 1 {
        vec!["uwsgi".into(), path(UWSGI_FILE)]
    } else {
        let mut argv = cluster.command("contrail-api", &file_name(0));
        argv.extend(["--worker_id".into(), "0".into()]);
        argv
    };
    let mut launch = super::launch(argv, cluster);
    launch.files.extend(workers.map(|file| (file, OnChange::Restart)));
    if spec.api_worker_count > 1 {
        launch.files.insert(UWSGI_FILE.into(), OnChange::Restart);
    } else {
        // With several workers each would have to get it.
        launch.level = Some(sandesh::level(cluster.log_level, spec.api_introspect_port)?);
        // Of those that are elected SIGHUP ends those that wait (docs/upstream/daemons.md#sighup), and uWSGI takes it for itself.
        launch.lists = Some(Lists::of(&["collectors"]));
    }
    launch.ready = Probe::Http {
        port: port("ready.port", spec.api_port)?,
        path: "/".into(),
        host: None,
        tls: true,
        contains: None,
        // Any of them may take the next connection, and each becomes ready by itself.
        workers: NonZeroU32::new(spec.api_worker_count).unwrap_or(one_worker()),
    };
    // Whether it serves does not follow from that: it answers without RabbitMQ, and is to go on with it (docs/upstream/observed.md#stores).
    let workers = ports.further_introspect().filter_map(NonZeroU16::new).collect();
    launch.connections = Some(Connections { workers, ..sandesh::connections(spec.api_introspect_port)? });
    launch.agent = cluster.agents.api()?;
    // contrail-api reads it for each connection (docs/upstream/observed.md#certificates), uWSGI once. The other daemons are clients of the API, which
    // copy the authorities when they begin and go by the copy (`vnc_api.py`, `getCertKeyCaBundle`).
    launch.rereads = spec.api_worker_count <= 1;
    launch.identity = Some(Identity { at_start: true, ..cluster.agents.certificate() });
    Ok(launch)
}

/// Name of a worker's file.
fn file_name(worker: usize) -> String {
    format!("contrail-api-{worker}.conf")
}

/// Ports of the workers, one of each per worker.
struct WorkerPorts {
    introspect: Vec<u16>,
    admin: Vec<u16>,
}

impl WorkerPorts {
    /// The introspect ports of further workers.
    fn further_introspect(&self) -> impl Iterator<Item = u16> {
        self.introspect.iter().copied().skip(1)
    }

    /// Whether a worker listens on a port.
    fn has(&self, port: u16) -> bool {
        self.introspect.iter().chain(&self.admin).any(|own| *own == port)
    }
}

impl Cluster<'_> {
    /// The ports of the API's workers.
    fn worker_ports(&self) -> Result<WorkerPorts, NotReady> {
        let (spec, workers) = (self.spec, self.spec.api_worker_count);
        let none = |field: &str, offset: u16| {
            NotReady::invalid(
                Reason::InvalidSpec,
                format!(
                    "with {workers} workers serviceConfiguration.{field} + {offset} + {workers} must be at most 65535; \
                     choose a lower port or fewer workers"
                ),
            )
        };
        let ports = |first, offset, field| worker_ports(first, offset, workers).ok_or_else(|| none(field, offset));
        // The API counts them, opened or not.
        let admin = self.admin_port().unwrap_or(CONFIG_API_ADMIN);
        Ok(WorkerPorts {
            introspect: ports(spec.api_introspect_port, INTROSPECT_OFFSET, "apiIntrospectPort")?,
            admin: ports(admin, ADMIN_OFFSET, "apiAdminPort")?,
        })
    }

    /// The file of every worker of a member, with its name. They hold passwords.
    fn api(&self, ports: &WorkerPorts, member: &MemberStatus) -> Result<Vec<(String, String)>, Unrepresentable> {
        let workers = ports.introspect.iter().zip(&ports.admin).enumerate();
        workers
            .map(|(worker, (introspect, admin))| {
                let mut file = Ini::python(file_name(worker));
                let defaults = file.section(DEFAULTS);
                defaults
                    .set("listen_ip_addr", &member.address)
                    .set("listen_port", self.spec.api_port)
                    .set("worker_id", worker)
                    .list("worker_introspect_ports", Blank, &ports.introspect)
                    .list("worker_admin_ports", Blank, &ports.admin)
                    .set("admin_port", admin)
                    .set("auth", if self.keystone.is_some() { "keystone" } else { "noauth" })
                    // Without the key the API assumes cloud-admin.
                    .set("aaa_mode", self.aaa_mode().as_str())
                    .set("cloud_admin_role", "admin")
                    .set("config_api_ssl_enable", true)
                    .set("config_api_ssl_certfile", node::CERTIFICATE)
                    .set("config_api_ssl_keyfile", node::CERTIFICATE_KEY)
                    .set("config_api_ssl_ca_cert", node::CA_BUNDLE)
                    .set("trace_file", format!("{LOG_DIR}/vnc_openstack-{worker}.err"));
                self.common(defaults, *introspect);
                self.stores(defaults, member);
                if !self.collectors().is_empty() {
                    // Any text switches this on, `False` too (upstream `vnc_api_stats.py`), as it does
                    // `enable_latency_stats_log`, which is therefore never written.
                    defaults.set("enable_api_stats_log", true);
                }
                // `contrail_version` is left out on purpose, as by the Go tf-operator: an API whose version is the one
                // that ZooKeeper remembers skips the update of the database, and a tag such as latest never changes.
                self.sections(&mut file);
                Ok((file_name(worker), file.render()?))
            })
            .collect()
    }

    /// The file of uWSGI, if there are several workers.
    fn uwsgi(&self, address: &str) -> Result<Option<String>, Unrepresentable> {
        if self.spec.api_worker_count < 2 {
            return Ok(None);
        }
        let mut file = Ini::python(UWSGI_FILE);
        let authority = url::authority(address, self.spec.api_port.get());
        file.section("uwsgi")
            .set("strict", true)
            .set("master", true)
            .set("single-interpreter", true)
            .set("vacuum", true)
            .set("need-app", true)
            // Without it SIGTERM reloads everything instead of ending it (measured with uWSGI 2.0.21).
            .set("die-on-term", true)
            // The names in current and in older images; uWSGI goes on without those it does not find (measured as above).
            .set("plugins", "python36,python36_gevent,python,gevent")
            .set("workers", self.spec.api_worker_count)
            .set("gevent", MAX_REQUESTS)
            .set("buffer-size", BUFFER_SIZE)
            .set("listen", LISTEN)
            .set("lazy-apps", true)
            .set("https-socket", format!("{authority},{},{}", node::CERTIFICATE, node::CERTIFICATE_KEY))
            .set("module", "vnc_cfg_api_server.uwsgi_api_server:get_apiserver()")
            .set("so-keepalive", true)
            .set("reuse-port", true);
        file.render().map(Some)
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
