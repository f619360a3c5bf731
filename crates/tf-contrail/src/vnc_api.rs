//! `vnc_api_lib.ini`: how everything written in Python finds the config API and logs in (docs/upstream/files.md#client-library).

use tf_agent_api::node;
use tf_config_files::{Ini, Separator::Comma, Settings as _, Unrepresentable, url};
use tf_plan::{external_tls::ExternalTls, keystone::Keystone};

/// Name of the file, which the library looks for in [`node::RUN_DIR`].
pub const FILE: &str = "vnc_api_lib.ini";

/// Seconds that the library gives a server for the TCP connection and then for the TLS handshake (upstream `vnc_api.py`, `ApiServerSession.crud`);
/// the library's own are 5. A connection that is not made in time makes it ask the next server. A handshake that is not done in time ends the
/// daemon: requests raises `ReadTimeout`, which the library does not catch, and a busy contrail-api lets handshakes wait longer than 5 s
/// (docs/upstream/observed.md#handshakes). It is no longer than this since the library takes one server after the other, and each turn of a server
/// that drops packets takes this time, or twice this time where that server is first in the list.
const CONNECTION_TIMEOUT: u32 = 15;

/// What the file says.
#[derive(Clone, Copy, Debug)]
pub struct Library<'a> {
    /// Addresses of the config API; clients take one after the other.
    pub servers: &'a [String],
    /// Port of the config API.
    pub port: u16,
    /// Whether the config API speaks TLS.
    pub tls: bool,
    /// What it has of its own of that, if it is not a resource's own API. The library shows it no certificate.
    pub external_tls: Option<&'a ExternalTls>,
    /// Keystone, if it authenticates users.
    pub keystone: Option<&'a Keystone>,
    /// Whether programs that bring no name and password of their own log in as the administrator. The file is a secret then.
    pub as_administrator: bool,
}

/// The content of [`FILE`].
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn file(library: &Library<'_>) -> Result<String, Unrepresentable> {
    let mut file = Ini::python(FILE);
    let global = file.section("global");
    global
        // The library pastes them into URLs.
        .list("WEB_SERVER", Comma, library.servers.iter().map(|server| url::host(server)))
        .set("WEB_PORT", library.port)
        .set("BASE_URL", "/")
        .set("CONNECTION_TIMEOUT", CONNECTION_TIMEOUT)
        .set("use_ssl", library.tls)
        .set_if_some(
            "cafile",
            library.tls.then(|| library.external_tls.map_or_else(|| node::CA_BUNDLE.to_owned(), ExternalTls::trust)),
        );
    let auth = file.section("auth");
    let Some(keystone) = library.keystone else {
        // Without the key the library looks for a Keystone on 127.0.0.1.
        auth.set("AUTHN_TYPE", "noauth");
        return file.render();
    };
    auth.set("AUTHN_TYPE", "keystone")
        .set("AUTHN_PROTOCOL", keystone.protocol())
        .set("AUTHN_SERVER", url::host(&keystone.address))
        .set("AUTHN_PORT", keystone.port)
        .set("AUTHN_URL", keystone.tokens())
        .set_if_some("AUTHN_DOMAIN", keystone.domain());
    if keystone.tls {
        auth.set("insecure", keystone.insecure).set_if_some("cafile", keystone.trust());
    }
    if library.as_administrator {
        auth.set("AUTHN_TENANT", &keystone.tenant)
            .set("AUTHN_USER", &keystone.username)
            .set("AUTHN_PASSWORD", keystone.password.expose());
    }
    file.render()
}

#[cfg(test)]
mod tests {
    use tf_api::{common::KeystoneVersion, schema::Sensitive};
    use tf_config_files::read;
    use tf_plan::{connection::Connection, external_tls::Service};

    use super::*;

    fn keystone() -> Keystone {
        Keystone {
            version: KeystoneVersion::V3,
            authority: None,
            address: "fd00::5".into(),
            port: 5000,
            public_port: 5000,
            tls: true,
            insecure: false,
            username: "admin".into(),
            password: Sensitive::new("100%"),
            tenant: "admin".into(),
            domain: "Default".into(),
            region: "RegionOne".into(),
        }
    }

    fn library<'a>(servers: &'a [String], keystone: Option<&'a Keystone>) -> Library<'a> {
        Library { servers, port: 8082, tls: true, external_tls: None, keystone, as_administrator: true }
    }

    #[test]
    fn an_open_api_is_said_to_be_open() {
        let servers = ["10.0.0.1".to_owned(), "fd00::2".to_owned()];
        let read = read::python(&file(&library(&servers, None)).unwrap()).unwrap();
        assert_eq!(read["auth"]["authn_type"], "noauth");
        assert_eq!(read["global"]["web_server"], "10.0.0.1,[fd00::2]");
        assert_eq!(read["global"]["connection_timeout"], "15");
        assert_eq!((&*read["global"]["use_ssl"], &*read["global"]["cafile"]), ("true", node::CA_BUNDLE));
    }

    #[test]
    fn an_api_of_another_authority_is_checked_against_that() {
        let credentials = [("ca.crt".to_owned(), "PEM".to_owned())].into_iter().collect();
        let external_tls = ExternalTls::of(Service::Config, &Connection { credentials, ..Connection::default() });
        let servers = ["10.0.0.1".to_owned()];
        let library = Library { external_tls: Some(&external_tls), ..library(&servers, None) };
        let found = read::python(&file(&library).unwrap()).unwrap();
        assert_eq!(found["global"]["cafile"], "/etc/contrail/config-ca.crt");
        let plain = read::python(&file(&Library { tls: false, ..library }).unwrap()).unwrap();
        assert!(!plain["global"].contains_key("cafile"));
    }

    #[test]
    fn the_administrator_s_login_stands_there_only_when_asked_for() {
        let (servers, keystone) = (["10.0.0.1".to_owned()], keystone());
        let with = library(&servers, Some(&keystone));
        let read = |library: &Library<'_>| read::python(&file(library).unwrap()).unwrap();
        assert_eq!(read(&with)["auth"]["authn_password"], "100%");
        assert_eq!(read(&with)["auth"]["authn_server"], "[fd00::5]");
        assert_eq!(read(&with)["auth"]["insecure"], "false");
        let without = Library { as_administrator: false, ..with };
        assert!(!read(&without)["auth"].contains_key("authn_password"));
    }
}
