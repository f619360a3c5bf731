//! The server that browsers talk to.
//!
//! It opens its port when it has found Redis and agreed on the secret of its sessions there, and goes on without it: then no user can
//! log in, so the agent asks Redis, too.

use tf_agent_api::{
    launch::{Identity, Launch, OnChange, PATIENCE, Probe, Relay, Unusable, one_worker, port},
    node,
};
use tf_api::{contract::MemberStatus, ports, schema::Port};
use tf_contrail::daemon::{Daemon, native};
use tf_plan::{
    build::{configuration::Files, pod::DaemonContainer},
    images::Builtin,
    not_ready::NotReady,
};

use crate::cluster::{Cluster, REDIS_PASSWORD};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "webuiweb", image: "controller-webui-web", default: true };
/// Name of the endpoint, and of its port.
pub const HTTPS: &str = "https";
/// Name of the port that redirects there.
pub const HTTP: &str = "http";
/// Names of ports on the loopback address.
const JOBS: &str = "jobs";
const REDIS: &str = "redis";

/// The web server.
///
/// # Errors
/// When a value cannot be expressed in the launch file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let container = DaemonContainer {
        ports: vec![
            (HTTPS, ports::WEBUI_HTTPS),
            (HTTP, ports::WEBUI_HTTP),
            (JOBS, ports::WEBUI_JOBS),
            (REDIS, ports::WEBUI_REDIS),
            (node::AGENT_PORT, cluster.agents.port),
        ],
        speaks_for_pod: true,
        ..native(container)
    };
    let launch = |member: &MemberStatus| launch(&member.address, cluster);
    let daemon = Daemon::by_member(container, cluster.members, launch, Files::default())?;
    Ok(Daemon { loopback: &[JOBS, REDIS], ..daemon })
}

fn launch(address: &str, cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let (services, agents) = (cluster.services, cluster.agents);
    let mut launch = super::launch("webServerStart.js", cluster);
    launch.ready = Probe::Http {
        port: port("ready.port", ports::WEBUI_HTTPS)?,
        path: "/".into(),
        host: None,
        tls: true,
        contains: None,
        workers: one_worker(),
    };
    launch.patience = Some(PATIENCE);
    launch.agent = agents.api()?;
    // It reads it when it starts.
    launch.identity = Some(Identity { at_start: true, ..agents.certificate() });
    let redis = &services.redis;
    let authorities = redis.servers.external_tls.ca_file();
    let password = redis.password.as_ref().map(|_| REDIS_PASSWORD.to_owned());
    // The agent reads them for each connection.
    launch.files.extend([&authorities, &password].into_iter().flatten().map(|file| (file.clone(), OnChange::Nothing)));
    launch.relay = Some(Relay {
        port: port("relay.port", ports::WEBUI_REDIS)?,
        host: redis.server(address).to_owned(),
        server: port("relay.server", Port(redis.servers.port))?,
        tls: redis.servers.tls,
        authorities,
        password,
    });
    Ok(launch)
}
