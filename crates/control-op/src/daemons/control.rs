//! contrail-control (docs/upstream/control.md#contrail-control).

use tf_agent_api::{launch::Identity, node};
use tf_api::{contract::MemberStatus, ports};
use tf_config_files::{Ini, Settings as _, Unrepresentable};
use tf_contrail::daemon::{Daemon, native};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{DaemonContainer, Privileges},
    },
    images::Builtin,
    not_ready::NotReady,
};

use super::launch;
use crate::cluster::{Cluster, DEFAULT};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "control", image: "controller-control-control", default: true };
/// Names of endpoints, and of their ports.
pub const XMPP: &str = "xmpp";
/// As [`XMPP`].
pub const BGP: &str = "bgp";
/// Name of the file.
const FILE: &str = "contrail-control.conf";

/// contrail-control.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let (spec, agents) = (cluster.spec, cluster.agents);
    let container = DaemonContainer {
        ports: vec![
            (XMPP, spec.xmpp_port),
            (BGP, spec.bgp_port),
            ("introspect", ports::CONTROL_INTROSPECT),
            (node::AGENT_PORT, agents.port),
        ],
        speaks_for_pod: true,
        // The port of BGP is one of the system's (docs/upstream/images.md#privileges). What the file of the program may do does not count here,
        // since nothing in a container gets more than it begins with.
        privileges: Privileges::Root(&["NET_BIND_SERVICE"]),
        ..native(container)
    };
    let mut launch = launch("contrail-control", FILE, ports::CONTROL_INTROSPECT, cluster)?;
    launch.agent = agents.api()?;
    launch.network = cluster.network.subnet();
    // It never reads them again (docs/upstream/daemons.md#certificates).
    launch.identity = Some(Identity { at_start: true, ..agents.certificate() });
    let mut files = Files::default();
    for (address, member) in cluster.addressed() {
        files.member_secret(FILE, address, cluster.control(&member)?);
    }
    Ok(cluster.on_members(Daemon::new(container, launch, files)))
}

impl Cluster<'_> {
    /// [`FILE`], which holds passwords.
    fn control(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let mut file = Ini::boost(FILE);
        let defaults = file.section(DEFAULT);
        self.common(defaults, member, ports::CONTROL_INTROSPECT, "contrail-control.log");
        defaults
            .set("bgp_port", self.spec.bgp_port)
            .set("xmpp_server_port", self.spec.xmpp_port)
            .set("xmpp_auth_enable", true);
        Self::xmpp(defaults);
        self.sections(&mut file, member);
        file.render()
    }
}
