//! What `config.global.js` and `contrail-webui-userauth.js` say, as far as it is played (docs/upstream/web-ui.md#files). What is missing is as in
//! upstream's `default.config.global.js`.

use std::path::PathBuf;

use serde_json::Value;

use super::module;
use crate::{
    exit::{Exit, exception},
    keystone::{Identity, Login, Trust, Url, Version},
    options::{ApiServer, Cassandra, Pair},
};

/// What the servers go by.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses that the web server listens on.
    pub listen: Vec<String>,
    /// Port with TLS.
    pub https: u16,
    /// Port that redirects there.
    pub http: u16,
    /// What is shown there.
    pub pair: Pair,
    /// Where Redis is. Nobody logs in, and no TLS is spoken.
    pub redis: (String, u16),
    /// Where the web server leaves jobs.
    pub jobs: (String, u16),
    /// Port of the jobs for people, on the loopback address.
    pub kue: u16,
    /// The config API.
    pub api: Api,
    /// The API of Analytics, if anything is said of it.
    pub analytics: Option<Api>,
    /// Where DNS daemons tell of themselves, if anything is said of them.
    pub dns: Option<ApiServer>,
    /// The database.
    pub cassandra: Cassandra,
    /// Name, password and role of the users, where nobody else knows them.
    pub users: Vec<[String; 3]>,
    /// Keystone, where it is asked.
    pub keystone: Option<Keystone>,
    /// What introspection is shown, and who it is judged by.
    pub introspect: Option<(Pair, PathBuf)>,
    /// Level of the logs.
    pub level: String,
}

/// An API and how its certificate is judged.
#[derive(Clone, Debug)]
pub struct Api {
    /// Where it is.
    pub server: ApiServer,
    /// Whether its certificate has to be good.
    pub is_strict: bool,
    /// Authorities.
    pub authorities: Option<PathBuf>,
    /// Page that tells whether it is there.
    pub page: String,
}

/// Keystone, and the administrator that jobs log in as.
#[derive(Clone, Debug)]
pub struct Keystone {
    /// Where it is.
    pub server: Api,
    /// Version of its API.
    pub version: String,
    /// URL by region.
    pub regions: Value,
    /// Name, password, project, domain of the project, domain of the user.
    pub login: [String; 5],
}

impl Keystone {
    /// How jobs log in (upstream `keystone.api.js`, `formatV2AuthTokenData`, `formatV3AuthTokenData`): one domain counts for project and user.
    pub fn login(&self) -> Login {
        let [user, password, project, domain, _] = self.login.clone();
        let Api { server, is_strict, authorities, .. } = &self.server;
        let (version, path) = match self.version.as_str() {
            "v2.0" => (Version::V2, "/v2.0/tokens"),
            _ => (Version::V3, "/v3/auth/tokens"),
        };
        let url = Url { tls: server.tls, host: server.hosts.concat(), port: server.port, path: path.to_owned() };
        let authorities = authorities.as_ref().map(|file| file.display().to_string());
        let identity = Identity { user, password, project, user_domain: domain.clone(), project_domain: domain };
        let question = identity.question(version).to_string().into_bytes();
        Login { url, trust: Trust::of(!is_strict, authorities), version, question }
    }
}

impl Options {
    /// Reads both files.
    ///
    /// # Errors
    /// What ends the program.
    pub fn read(settings: &str, user: &str) -> Result<Self, Exit> {
        let (settings, user) = (Settings(module::read(settings)?), Settings(module::read(user)?));
        let pair = |key: &str, certificate: &str| -> Result<Pair, Exit> {
            Ok(Pair { certificate: settings.text(certificate)?.into(), key: settings.text(key)?.into() })
        };
        let manager = settings.text("orchestration.Manager")?;
        let is_tls = settings.is_on("cassandra.use_ssl")?;
        let hosts = settings.texts("cassandra.server_ips")?;
        let login = [settings.at("cassandra.username"), settings.at("cassandra.password")];
        let introspect = if settings.is_on("introspect.ssl.enabled")? {
            let pair = pair("introspect.ssl.key", "introspect.ssl.cert")?;
            Some((pair, settings.text("introspect.ssl.ca")?.into()))
        } else {
            None
        };
        if settings.is_on("insecure_access")? {
            return Err(exception("tf-sim does not play insecure_access"));
        }
        Ok(Self {
            listen: settings.texts("webui_addresses")?,
            https: settings.port("https_port")?,
            http: settings.port("http_port")?,
            pair: pair("server_options.key_file", "server_options.cert_file")?,
            redis: (settings.text("redis_server_ip")?, settings.port("redis_server_port")?),
            jobs: (settings.text("jobServer.server_ip")?, settings.port("jobServer.server_port")?),
            kue: settings.port("kue.ui_port")?,
            api: settings.api("cnfg", "server_ip", "server_port")?,
            analytics: settings.if_there("analytics", || settings.api("analytics", "server_ip", "server_port"))?,
            dns: settings.if_there("dns", || {
                let (hosts, port) = (settings.texts("dns.server_ip")?, settings.port("dns.server_port")?);
                Ok(ApiServer { hosts, port, tls: introspect.is_some() })
            })?,
            cassandra: Cassandra {
                listed: hosts.len(),
                hosts,
                port: settings.port("cassandra.server_port")?,
                tls: is_tls,
                authorities: if is_tls { Some(settings.text("cassandra.ca_certs")?.into()) } else { None },
                login: match login {
                    [Some(Value::String(user)), Some(Value::String(password))] => {
                        Some((user.clone(), password.clone()))
                    }
                    _ => None,
                },
            },
            users: if manager == "none" { settings.users()? } else { Vec::new() },
            keystone: if manager == "openstack" { Some(keystone(&settings, &user)?) } else { None },
            introspect,
            level: settings.text("logs.level")?,
        })
    }
}

fn keystone(settings: &Settings, user: &Settings) -> Result<Keystone, Exit> {
    let login = ["admin_user", "admin_password", "admin_tenant_name", "project_domain_name", "user_domain_name"];
    let mut texts = Vec::new();
    for name in login {
        texts.push(user.text(name)?);
    }
    Ok(Keystone {
        server: settings.api("identityManager", "ip", "port")?,
        version: settings.texts("identityManager.apiVersion")?.concat(),
        regions: settings.at("regions").cloned().unwrap_or_default(),
        login: texts.try_into().map_err(|_| exception("TypeError: auth"))?,
    })
}

/// What a module exports.
struct Settings(Value);

impl Settings {
    fn at(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(&self.0, |place, name| place.get(name))
    }

    fn if_there<T>(&self, path: &str, read: impl Fn() -> Result<T, Exit>) -> Result<Option<T>, Exit> {
        self.at(path).map(|_| read()).transpose()
    }

    fn of<'a, T>(&'a self, path: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<T, Exit> {
        self.at(path).and_then(read).ok_or_else(|| exception(format!("TypeError: {path}")))
    }

    fn text(&self, path: &str) -> Result<String, Exit> {
        self.of(path, |value| value.as_str().map(str::to_owned))
    }

    fn texts(&self, path: &str) -> Result<Vec<String>, Exit> {
        self.of(path, |value| value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect())
    }

    fn is_on(&self, path: &str) -> Result<bool, Exit> {
        self.of(path, Value::as_bool)
    }

    /// A text: the redirection replaces one port by the other in a text.
    fn port(&self, path: &str) -> Result<u16, Exit> {
        self.of(path, |value| value.as_str()?.parse().ok().filter(|port| *port > 0))
    }

    fn api(&self, name: &str, hosts: &str, port: &str) -> Result<Api, Exit> {
        let at = |key: &str| format!("{name}.{key}");
        let tls = match self.text(&at("authProtocol"))?.as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(exception(format!("TypeError: {name}.authProtocol"))),
        };
        let hosts = self.texts(&at(hosts)).or_else(|_| self.text(&at(hosts)).map(|host| vec![host]))?;
        let authorities = Some(self.text(&at("ca"))?).filter(|file| !file.is_empty()).map(PathBuf::from);
        Ok(Api {
            server: ApiServer { hosts, port: self.port(&at(port))?, tls },
            is_strict: self.is_on(&at("strictSSL"))?,
            authorities,
            page: self.text(&at("statusURL")).unwrap_or_else(|_| "/".into()),
        })
    }

    fn users(&self) -> Result<Vec<[String; 3]>, Exit> {
        let user = |user: &Value| {
            let text = |name: &str| user.get(name)?.as_str().map(str::to_owned);
            Some([text("username")?, text("password")?, user.get("roles")?.get(0)?.as_str()?.to_owned()])
        };
        self.of("staticAuth", |users| users.as_array()?.iter().map(user).collect())
    }
}
