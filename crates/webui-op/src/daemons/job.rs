//! The server that does what takes longer. It opens the port of its jobs when it has found Redis.

use std::net::{IpAddr, Ipv4Addr};

use tf_agent_api::launch::{Launch, Probe, Unusable, one_worker, port};
use tf_api::ports;
use tf_contrail::daemon::{Daemon, native};
use tf_plan::{
    build::{configuration::Files, pod::DaemonContainer},
    images::Builtin,
    not_ready::NotReady,
};

use crate::cluster::Cluster;

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "webuijob", image: "controller-webui-job", default: true };
/// Name of the port of its jobs' pages, on the loopback address.
const KUE: &str = "kue";

/// The job server.
///
/// # Errors
/// When a value cannot be expressed in the launch file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let container = DaemonContainer { ports: vec![(KUE, ports::WEBUI_KUE)], ..native(container) };
    let daemon = Daemon::by_member(container, cluster.members, |_| launch(cluster), Files::default())?;
    Ok(Daemon { loopback: &[KUE], ..daemon })
}

fn launch(cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let mut launch = super::launch("jobServerStart.js", cluster);
    let host = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    // A file that the page of jobs consists of, for which Redis is not asked (npm package kue, 0.3 to 0.11).
    launch.ready = Probe::Http {
        port: port("ready.port", ports::WEBUI_KUE)?,
        path: "/javascripts/main.js".into(),
        host,
        tls: false,
        contains: None,
        workers: one_worker(),
    };
    Ok(launch)
}
