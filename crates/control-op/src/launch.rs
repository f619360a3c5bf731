//! How the node agent runs the daemons of a member: command lines (docs/upstream/control.md#command-lines), the files that they read,
//! when they serve.
//!
//! contrail-control and contrail-dns serve when NodeStatus says `Functional`: an open port tells nothing. Without a bgp-router of the
//! node's name in the config API contrail-control closes every connection of an agent (upstream `bgp_xmpp_channel.cc`) and says `No BGP
//! configuration for self`, and without database or message bus what it tells agents becomes old.
//!
//! Of a SIGHUP they take the list of collectors and go on, and lists and passwords of database and message bus, for which they begin to read their
//! configuration anew (upstream `options.cc`, `ParseReConfig`); for those, as for everything else, they are started anew.

use std::net::IpAddr;

use tf_agent_api::{
    launch::{Identity, Launch, Lists, OnChange, PATIENCE, Probe, Unusable, port},
    node,
};
use tf_api::{ports, schema::Port};
use tf_contrail::{
    nodemanager::{self, NodeType},
    sandesh,
};
use tf_plan::component::Agents;

use crate::{
    config::{Cluster, control, dns},
    containers::{CONTROL, DNS},
};

/// What every daemon of Tungsten Fabric needs before it can connect to anything. The container of contrail-control gets it.
const CERTIFICATES: [&str; 3] = [node::CERTIFICATE, node::CERTIFICATE_KEY, node::CA_BUNDLE];

/// The launch file of a container's daemon. `beside`: the address that daemons of the pod use instead of its own.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn file(name: &str, cluster: &Cluster<'_>, agents: &Agents, beside: Option<IpAddr>) -> Result<String, Unusable> {
    let mut launch = match name {
        CONTROL => {
            let mut launch = daemon("contrail-control", control::FILE, ports::CONTROL_INTROSPECT, cluster)?;
            launch.agent = agents.api()?;
            launch.network = cluster.network.subnet();
            // It never reads them again (docs/upstream/daemons.md#certificates).
            launch.identity = Some(Identity { at_start: true, ..agents.certificate() });
            launch
        }
        DNS => daemon("contrail-dns", dns::FILE, cluster.spec.dns_introspect_port, cluster)?,
        name if name == nodemanager::CONTAINER.name => node_manager(cluster),
        _ => named(cluster)?,
    };
    launch.addresses = beside.into_iter().collect();
    launch.render()
}

fn daemon(program: &str, file: &str, introspect: Port, cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let argv = vec![program.into(), "--conf_file".into(), format!("{}/{file}", node::RUN_DIR)];
    let foreign = cluster.services.foreign().into_iter().map(|file| file.name);
    let files = [file.to_owned()].into_iter().chain(foreign).map(|file| (file, OnChange::Restart)).collect();
    let ready = Probe::NodeStatus {
        port: port("ready.port", introspect)?,
        tls: true,
        functional: true,
        optional: sandesh::optional(),
        elected: false,
    };
    let level = Some(sandesh::level(cluster.log_level, introspect)?);
    let lists = Some(Lists::of(&["collectors"]));
    Ok(Launch { files, awaits: certificates(), ready, level, lists, patience: Some(PATIENCE), ..Launch::new(argv) })
}

/// The name server, in the foreground. It waits for what contrail-dns writes for it.
fn named(cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let file = cluster.key.map(|key| format!("{}/{}", dns::DIR, cluster.named_file(key)));
    let file = file.ok_or(Unusable::Invalid { field: "argv", why: "names no file" })?;
    let argv = ["contrail-named", "-f", "-u", "contrail", "-c", &file].map(str::to_owned).to_vec();
    let ready = Probe::Dns { port: port("ready.port", cluster.spec.dns_port)? };
    Ok(Launch { awaits: vec![file], ready, patience: Some(PATIENCE), ..Launch::new(argv) })
}

fn node_manager(cluster: &Cluster<'_>) -> Launch {
    let argv = vec!["contrail-nodemgr".into(), format!("--nodetype=contrail-{}", NodeType::Control.name())];
    let files = nodemanager::files(NodeType::Control, cluster.services.analytics.as_ref());
    Launch { awaits: certificates(), files, ..Launch::new(argv) }
}

fn certificates() -> Vec<String> {
    CERTIFICATES.map(str::to_owned).to_vec()
}
