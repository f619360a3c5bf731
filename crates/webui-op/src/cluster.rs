//! What the daemons of a resource are stated by, and the files that both of them read: `config.global.js` and `contrail-webui-userauth.js`
//! (docs/upstream/web-ui.md#files), under the names that the stock image gives them. Both hold passwords and go to the Secret.
//!
//! What is not written is what upstream's `default.config.global.js` has: the programs fill in what they miss. So without Analytics nothing is
//! said of it, and its pages find nothing on the loopback address.

use serde_json::json;
use tf_agent_api::node;
use tf_api::{common::LogLevel, contract::MemberStatus, ports};
use tf_config_files::{Js, Unrepresentable, url};
use tf_plan::{build::configuration::Files, component::Agents, keystone, not_ready::NotReady};

use crate::{
    login::Login,
    services::{Servers, Services},
};

/// Name of the file with the settings.
pub const FILE: &str = "config.global.js";
/// Name of the file with Keystone's administrator.
pub const USER_FILE: &str = "contrail-webui-userauth.js";
/// File with the password of Redis.
pub const REDIS_PASSWORD: &str = "redis-password";

/// The modules of the user interface, as the images have them.
const CORE: &str = "/usr/src/contrail/contrail-web-core";
const CONTROLLER: &str = "/usr/src/contrail/contrail-web-controller";
/// Ciphers of TLS 1.2 that are offered: those with forward secrecy of which one can be used with every kind of key.
const CIPHERS: &str = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:\
                       ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256";
/// Where the parts of a member find each other.
const LOOPBACK: &str = "127.0.0.1";

/// Everything that the daemons of one resource are stated by.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    /// Level of the logs.
    pub log_level: LogLevel,
    /// What the daemons connect to.
    pub services: &'a Services,
    /// Who may log in.
    pub login: &'a Login,
    /// Members, in the order they joined.
    pub members: &'a [MemberStatus],
    /// How the members' agents are reached.
    pub agents: &'a Agents,
}

impl Cluster<'_> {
    /// The files that several daemons read.
    ///
    /// # Errors
    /// When a value cannot be expressed in a file.
    pub fn shared(&self) -> Result<Files, NotReady> {
        let services = self.services;
        let mut files = Files::default();
        files.external_tls(services.external_tls());
        files.external_tls(services.redis.servers.external_tls.files());
        files.external_tls(keystone::files(self.login.keystone()));
        if let Some(password) = &services.redis.password {
            files.shared_secret(REDIS_PASSWORD, password.clone());
        }
        files.shared_secret(USER_FILE, self.user()?);
        for MemberStatus { address, .. } in self.members {
            files.member_secret(FILE, address, self.settings(address)?);
        }
        Ok(files)
    }

    /// [`FILE`].
    fn settings(&self, address: &str) -> Result<String, Unrepresentable> {
        let mut file = Js::new(FILE, "config");
        self.login(&mut file);
        self.apis(&mut file);
        self.stores(&mut file);
        self.introspection(&mut file);
        file.set("webui_addresses", vec![address])
            .set("insecure_access", false)
            .set("http_port", text(ports::WEBUI_HTTP.get()))
            .set("https_port", text(ports::WEBUI_HTTPS.get()))
            .set("server_options.key_file", node::CERTIFICATE_KEY)
            .set("server_options.cert_file", node::CERTIFICATE)
            .set("server_options.ciphers", CIPHERS)
            .set("require_auth", false)
            .set("node_worker_count", 1)
            .set("maxActiveJobs", 10)
            .set("files.download_path", "/tmp")
            .set("logo_file", format!("{CORE}/webroot/img/tf-logo.png"))
            .set("favicon_file", format!("{CORE}/webroot/img/tf-favicon.ico"))
            .set("featurePkg.webController.path", CONTROLLER)
            .set("featurePkg.webController.enable", true)
            .set("qe.enable_stat_queries", false)
            .set("logs.level", level(self.log_level))
            .set("getDomainProjectsFromApiServer", false)
            .set("getDomainsFromApiServer", false)
            .set("jsonSchemaPath", format!("{CORE}/src/serverroot/configJsonSchemas"));
        file.render()
    }

    /// [`USER_FILE`].
    fn user(&self) -> Result<String, Unrepresentable> {
        let mut file = Js::new(USER_FILE, "auth");
        if let Login::Keystone(keystone) = self.login {
            file.set("admin_user", keystone.username.as_str())
                .set("admin_password", keystone.password.expose())
                .set("admin_token", "")
                .set("admin_tenant_name", keystone.tenant.as_str())
                .set("project_domain_name", keystone.domain().unwrap_or("Default"))
                .set("user_domain_name", keystone.domain().unwrap_or("Default"));
        }
        file.render()
    }

    fn login(&self, file: &mut Js) {
        file.set("orchestrationModuleEndPointFromConfig", false)
            .set("contrailEndPointFromConfig", true)
            .set("regionsFromConfig", false)
            .set("serviceEndPointTakePublicURL", true)
            .set("endpoints.apiServiceType", "ApiServer")
            .set("endpoints.opServiceType", "OpServer");
        match self.login {
            Login::Keystone(keystone) => {
                let server = url::authority(&keystone.address, keystone.public_port);
                let api = format!("{}://{server}{}", keystone.protocol(), keystone.base());
                file.set("orchestration.Manager", "openstack")
                    .set("regions", json!({(keystone.region.as_str()): api}))
                    .set("identityManager.ip", url::host(&keystone.address))
                    .set("identityManager.port", text(keystone.public_port))
                    .set("identityManager.authProtocol", keystone.protocol())
                    .set("identityManager.apiVersion", vec![keystone.base().trim_start_matches('/')])
                    .set("identityManager.strictSSL", keystone.trust().is_some())
                    .set("identityManager.ca", keystone.trust().unwrap_or_default())
                    .set("identityManager.defaultDomain", keystone.domain().unwrap_or("Default"));
            }
            Login::Static { user, password, .. } => {
                let user = json!([{"username": user, "password": password.expose(), "roles": ["cloudAdmin"]}]);
                file.set("orchestration.Manager", "none").set("staticAuth", user);
            }
        }
    }

    fn apis(&self, file: &mut Js) {
        api(file, "cnfg", &self.services.api, "/global-system-configs");
        if let Some(analytics) = &self.services.analytics {
            api(file, "analytics", analytics, "/analytics/uves/bgp-peers");
        }
        if let Some(dns) = &self.services.dns {
            file.set("dns.server_ip", dns.hosts.clone())
                .set("dns.server_port", text(dns.port))
                .set("dns.statusURL", "/Snh_PageReq?x=AllEntries%20VdnsServersReq");
        }
    }

    /// There is one switch for all daemons. Those of the operators speak TLS and ask for a certificate.
    fn introspection(&self, file: &mut Js) {
        file.set("introspect.ssl.enabled", self.services.dns.as_ref().is_none_or(|dns| dns.tls))
            .set("introspect.ssl.key", node::CERTIFICATE_KEY)
            .set("introspect.ssl.cert", node::CERTIFICATE)
            .set("introspect.ssl.ca", node::CA_BUNDLE)
            .set("introspect.ssl.strictSSL", true);
    }

    fn stores(&self, file: &mut Js) {
        let cassandra = &self.services.cassandra;
        file.set("cassandra.server_ips", cassandra.servers.clone())
            .set("cassandra.server_port", text(self.services.cassandra_port))
            .set("cassandra.enable_edit", false)
            .set("cassandra.use_ssl", cassandra.tls);
        if cassandra.tls {
            file.set("cassandra.ca_certs", cassandra.external_tls.trust());
        }
        if let Some(login) = &cassandra.login {
            file.set("cassandra.username", login.user.as_str()).set("cassandra.password", login.password.as_str());
        }
        // The agent's, which logs in: no program of upstream reads `redis_password`.
        file.set("redis_server_ip", LOOPBACK)
            .set("redis_server_port", text(ports::WEBUI_REDIS.get()))
            .set("redisDBIndex", 3)
            .set("jobServer.server_ip", LOOPBACK)
            .set("jobServer.server_port", text(ports::WEBUI_JOBS.get()))
            .set("kue.ui_port", text(ports::WEBUI_KUE.get()));
    }
}

/// An API that is asked over HTTP.
fn api(file: &mut Js, name: &str, servers: &Servers, page: &str) {
    let mut set = |key: &str, value: serde_json::Value| {
        file.set(&format!("{name}.{key}"), value);
    };
    set("server_ip", json!(servers.hosts));
    set("server_port", json!(text(servers.port)));
    set("authProtocol", json!(if servers.tls { "https" } else { "http" }));
    set("strictSSL", json!(servers.tls));
    set("ca", json!(if servers.tls { servers.external_tls.trust() } else { String::new() }));
    set("statusURL", json!(page));
}

/// Ports are texts in upstream's files, and compared and replaced as such.
fn text(port: u16) -> String {
    port.to_string()
}

/// Levels as the programs' library calls them (upstream `log.utils.js`).
fn level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Warning => "warning",
        LogLevel::Error => "error",
        LogLevel::Critical => "crit",
        LogLevel::None => "emerg",
    }
}
