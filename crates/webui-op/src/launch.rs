//! How the node agent runs the daemons of a member: command lines (docs/upstream/web-ui.md#servers), the files that they read, when they serve.
//!
//! The web server opens its port when it has found Redis and agreed on the secret of its sessions there, and goes on without it: then nobody can
//! log in, so the agent asks Redis, too. The job server opens that of its jobs when it has found Redis. Neither reads anything again that
//! matters, and none takes a signal for it (docs/upstream/daemons.md#sighup), so they are started anew for whatever changes.

use std::net::{IpAddr, Ipv4Addr};

use tf_agent_api::{
    launch::{Identity, Launch, OnChange, PATIENCE, Probe, Relay, Unusable, one_worker, port},
    node,
};
use tf_api::ports;
use tf_plan::{component::Agents, keystone};

use crate::{config, containers::WEB, login::Login, services::Services};

/// Where the images have the program (docs/upstream/images.md#programs).
const PROGRAM: &str = "/usr/src/contrail/contrail-web-core";
/// File with the password of Redis.
pub const REDIS_PASSWORD: &str = "redis-password";

/// What every daemon of Tungsten Fabric needs before it can connect to anything. The container of the web server gets it.
const CERTIFICATES: [&str; 3] = [node::CERTIFICATE, node::CERTIFICATE_KEY, node::CA_BUNDLE];

/// The launch file of a container's daemon, for the member with this address.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn file(
    daemon: &str,
    address: &str,
    services: &Services,
    login: &Login,
    agents: &Agents,
) -> Result<String, Unusable> {
    let mut launch = if daemon == WEB { web(address, services, agents)? } else { job(services)? };
    // They read it when they start.
    launch.files.extend(keystone::files(login.keystone()).map(|file| (file.name, OnChange::Restart)));
    launch.render()
}

fn web(address: &str, services: &Services, agents: &Agents) -> Result<Launch, Unusable> {
    let mut launch = server("webServerStart.js", services);
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
    let authorities = redis.servers.foreign.ca_file();
    let password = redis.password.as_ref().map(|_| REDIS_PASSWORD.to_owned());
    // The agent reads them for each connection.
    launch.files.extend([&authorities, &password].into_iter().flatten().map(|file| (file.clone(), OnChange::Nothing)));
    launch.relay = Some(Relay {
        port: port("relay.port", ports::WEBUI_REDIS)?,
        host: redis.server(address).to_owned(),
        server: port("relay.server", tf_api::schema::Port(redis.servers.port))?,
        tls: redis.servers.tls,
        authorities,
        password,
    });
    Ok(launch)
}

fn job(services: &Services) -> Result<Launch, Unusable> {
    let mut launch = server("jobServerStart.js", services);
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

fn server(program: &str, services: &Services) -> Launch {
    let argv =
        ["node", program, "--conf_file", &format!("{}/{}", node::RUN_DIR, config::FILE)].map(str::to_owned).to_vec();
    let foreign = services.foreign().into_iter().map(|file| file.name);
    let files = [config::FILE, config::USER_FILE].map(str::to_owned).into_iter().chain(foreign);
    Launch {
        working_directory: Some(PROGRAM.into()),
        files: files.map(|file| (file, OnChange::Restart)).collect(),
        awaits: CERTIFICATES.map(str::to_owned).to_vec(),
        ..Launch::new(argv)
    }
}
