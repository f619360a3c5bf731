//! The `[SANDESH]` section: TLS of the introspect port and of the connection to the collectors, the same for every daemon
//! (tf-components 1.5).

use std::collections::BTreeSet;

use tf_api::{common::LogLevel, schema::Port};

use crate::{
    ensemble::sys_log_level,
    files::{Section, Settings as _},
    node::{
        self,
        launch::{Connections, Level, Tell, Unusable, port},
    },
};

/// Name of the section.
pub const SECTION: &str = "SANDESH";

/// Fills the section. `collector_tls` has to be what the collectors speak. Introspect asks for no client certificate, as
/// with the Go tf-operator: probes and people have none.
pub fn fill(section: &mut Section, collector_tls: bool) {
    section
        .set("introspect_ssl_enable", true)
        .set("introspect_ssl_insecure", true)
        .set("sandesh_ssl_enable", collector_tls)
        .set("sandesh_keyfile", node::CERTIFICATE_KEY)
        .set("sandesh_certfile", node::CERTIFICATE)
        .set("sandesh_server_keyfile", node::CERTIFICATE_KEY)
        .set("sandesh_server_certfile", node::CERTIFICATE)
        .set("sandesh_ca_cert", node::CA_BUNDLE);
}

/// The connections that a daemon tells of at its introspect port. Without collectors nothing is lacking but what is told to them
/// (config-daemons-observed).
///
/// # Errors
/// When the port is 0.
pub fn connections(introspect: Port) -> Result<Connections, Unusable> {
    let port = port("connections.port", introspect)?;
    Ok(Connections { port, tls: true, optional: optional(), workers: Vec::new() })
}

/// Types of connections that daemons do their work without: collectors, to which they report (tf-components 1.9).
pub fn optional() -> BTreeSet<String> {
    ["Collector".to_owned()].into()
}

/// How a daemon that starts with the level of its file is told another one at its introspect port.
///
/// # Errors
/// When the port is 0.
pub fn level(level: LogLevel, introspect: Port) -> Result<Level, Unusable> {
    level_of(sys_log_level(level), introspect, true)
}

/// The same for a level as the daemons name it. `tls`: whether the port speaks TLS.
///
/// # Errors
/// When the port is 0.
pub fn level_of(level: &str, introspect: Port, tls: bool) -> Result<Level, Unusable> {
    Ok(Level {
        value: level.to_owned(),
        lines: ["log_level = ".to_owned()].into(),
        tell: Tell::Introspection { port: port("level.port", introspect)?, tls },
    })
}
