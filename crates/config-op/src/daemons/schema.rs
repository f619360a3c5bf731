//! The schema transformer: a client of the API and of the stores, of which one member's is at work and the others wait (docs/upstream/config.md#elected-daemons).
//!
//! `[SECURITY]` is left out: it does not use what that says (docs/upstream/observed.md#options-that-are-not-read).

use tf_api::{contract::MemberStatus, kinds::SESSION_TIMEOUT_DEFAULT};
use tf_config_files::{Ini, Settings as _, Unrepresentable};
use tf_contrail::daemon::{Daemon, python};
use tf_plan::{
    build::{configuration::Files, pod::DaemonContainer},
    images::Builtin,
    not_ready::NotReady,
};

use super::client;
use crate::cluster::{Cluster, DEFAULTS};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "schematransformer", image: "controller-config-schema", default: true };
/// The configuration.
const FILE: &str = "contrail-schema.conf";

/// The schema transformer.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let introspect = cluster.spec.schema_introspect_port;
    let container = DaemonContainer { ports: vec![("schema", introspect)], ..python(container) };
    let files = Files::secret_of_each(FILE, cluster.members, |member| cluster.schema(member))?;
    Ok(Daemon::new(container, client("contrail-schema", FILE, introspect, cluster)?, files))
}

impl Cluster<'_> {
    /// [`FILE`], which holds passwords.
    fn schema(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let mut file = Ini::python(FILE);
        let defaults = file.section(DEFAULTS);
        defaults
            .set("host_ip", &member.address)
            // Seconds of its session, 120 by itself, and how often it lets its client of ZooKeeper work (upstream `to_bgp.py`).
            .set("zk_timeout", SESSION_TIMEOUT_DEFAULT.as_secs());
        self.common(defaults, self.spec.schema_introspect_port.get());
        self.api_client(defaults);
        self.stores(defaults, member);
        self.sections(&mut file);
        file.render()
    }
}
