//! Files of contrail-api: one per worker, and that of uWSGI, which runs the workers where there are several
//! (docs/upstream/config.md#api-workers).

use tf_agent_api::node;
use tf_api::{
    contract::{MemberStatus, Reason},
    ports::CONFIG_API_ADMIN,
};
use tf_config_files::{Ini, Separator::Blank, Settings as _, Unrepresentable, url};
use tf_plan::not_ready::NotReady;

use super::{Cluster, DEFAULTS, LOG_DIR, worker_ports};

/// The configuration of uWSGI.
pub const UWSGI_FILE: &str = "contrail-api-uwsgi.ini";
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

/// Name of a worker's file.
pub fn file_name(worker: usize) -> String {
    format!("contrail-api-{worker}.conf")
}

/// Ports of the workers, one of each per worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerPorts {
    introspect: Vec<u16>,
    admin: Vec<u16>,
}

impl WorkerPorts {
    /// The introspect ports of further workers.
    pub fn further_introspect(&self) -> impl Iterator<Item = u16> {
        self.introspect.iter().copied().skip(1)
    }

    /// Whether a worker listens on a port.
    pub fn has(&self, port: u16) -> bool {
        self.introspect.iter().chain(&self.admin).any(|own| *own == port)
    }
}

impl Cluster<'_> {
    /// The ports of the API's workers.
    ///
    /// # Errors
    /// When there are not enough ports above the first ones.
    pub fn worker_ports(&self) -> Result<WorkerPorts, NotReady> {
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
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn api(&self, ports: &WorkerPorts, member: &MemberStatus) -> Result<Vec<(String, String)>, Unrepresentable> {
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
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn uwsgi(&self, address: &str) -> Result<Option<String>, Unrepresentable> {
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
