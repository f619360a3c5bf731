//! The `[SANDESH]` section: TLS of the introspect port and of the connection to the collectors, the same for every daemon
//! (tf-components 1.5).

use crate::{
    files::{Section, Settings as _},
    node,
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
