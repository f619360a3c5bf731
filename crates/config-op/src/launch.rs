//! How the node agent runs the daemons of a member: command lines (docs/upstream/config.md#command-lines), the files that they read, when they serve.

use std::{
    collections::BTreeSet,
    num::{NonZeroU16, NonZeroU32},
};

use tf_agent_api::{
    launch::{
        Connections, Identity, Launch, Lists, OnChange, PATIENCE, Place, Probe, Unusable, When, one_worker, port,
    },
    node,
};
use tf_api::schema::Port;
use tf_contrail::{
    nodemanager::{self, NodeType},
    sandesh, vnc_api,
};
use tf_plan::{component::Agents, keystone};

use crate::{
    config::{Cluster, api, api::WorkerPorts, device_manager, dnsmasq, workers},
    containers::{API, DEVICE_MANAGER, DNSMASQ, SCHEMA},
};

/// What every daemon of Tungsten Fabric needs before it can connect to anything. The container of the API gets it.
const CERTIFICATES: [&str; 3] = [node::CERTIFICATE, node::CERTIFICATE_KEY, node::CA_BUNDLE];

/// The launch file of a container's daemon.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn file(daemon: &str, cluster: &Cluster<'_>, ports: &WorkerPorts, agents: &Agents) -> Result<String, Unusable> {
    let spec = cluster.spec;
    match daemon {
        API => api(cluster, ports, agents)?,
        DNSMASQ => dnsmasq(),
        SCHEMA => client("contrail-schema", workers::SCHEMA_FILE, spec.schema_introspect_port, cluster)?,
        DEVICE_MANAGER => {
            let introspect = spec.device_manager_introspect_port;
            let mut launch = client("contrail-device-manager", device_manager::FILE, introspect, cluster)?;
            // Each job reads it when it begins.
            launch.files.insert(device_manager::ANSIBLE_FILE.into(), OnChange::Nothing);
            // SIGTERM ends none of its processes: its handlers only stop their parts (docs/upstream/observed.md#device-manager).
            launch.stop.seconds = 3;
            launch
        }
        name if name == nodemanager::CONTAINER.name => node_manager(cluster),
        _ => client("contrail-svc-monitor", workers::SVC_MONITOR_FILE, spec.svc_monitor_introspect_port, cluster)?,
    }
    .render()
}

/// The API, whose container gets the certificate of the member. Only an answer over its own scheme tells that it serves: the port is
/// open before, and without certificates too (docs/upstream/observed.md#readiness-of-contrail-api).
fn api(cluster: &Cluster<'_>, ports: &WorkerPorts, agents: &Agents) -> Result<Launch, Unusable> {
    let spec = cluster.spec;
    let workers = (0..spec.api_worker_count.max(1) as usize).map(api::file_name);
    let argv = if spec.api_worker_count > 1 {
        vec!["uwsgi".into(), path(api::UWSGI_FILE)]
    } else {
        let mut argv = command("contrail-api", &api::file_name(0), cluster);
        argv.extend(["--worker_id".into(), "0".into()]);
        argv
    };
    let mut launch = daemon(argv, cluster);
    launch.files.extend(workers.map(|file| (file, OnChange::Restart)));
    if spec.api_worker_count > 1 {
        launch.files.insert(api::UWSGI_FILE.into(), OnChange::Restart);
    } else {
        // Each worker would have to be told.
        launch.level = Some(sandesh::level(cluster.log_level, spec.api_introspect_port)?);
        // Of those that are elected SIGHUP ends whoever waits (docs/upstream/daemons.md#sighup), and uWSGI takes it for itself.
        launch.lists = Some(Lists::of(&["collectors"]));
    }
    launch.ready = Probe::Http {
        port: port("ready.port", spec.api_port)?,
        path: "/".into(),
        host: None,
        tls: true,
        contains: None,
        // Any of them may take the next connection, and each becomes ready by itself.
        workers: NonZeroU32::new(spec.api_worker_count).unwrap_or(one_worker()),
    };
    // Whether it serves does not follow from that: it answers without RabbitMQ, and is to go on with it (docs/upstream/observed.md#stores).
    let workers = ports.further_introspect().filter_map(NonZeroU16::new).collect();
    launch.connections = Some(Connections { workers, ..sandesh::connections(spec.api_introspect_port)? });
    launch.agent = agents.api()?;
    // contrail-api reads it for each connection (docs/upstream/observed.md#certificates), uWSGI once. The other daemons are clients of the API, which
    // copy the authorities when they begin and go by the copy (`vnc_api.py`, `getCertKeyCaBundle`).
    launch.rereads = spec.api_worker_count <= 1;
    launch.identity = Some(Identity { at_start: true, ..agents.certificate() });
    Ok(launch)
}

/// A client of the API. Of those that are elected one is at work, and the others open no port or answer at none, so all there is to say of them is
/// that they run (docs/upstream/daemons.md#standbys), and of one that has answered that it hangs.
fn client(program: &str, file: &str, introspect: Port, cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let mut launch = daemon(command(program, file, cluster), cluster);
    launch.files.insert(file.into(), OnChange::Restart);
    let port = port("alive.port", introspect)?;
    launch.alive =
        Some(Probe::NodeStatus { port, tls: true, functional: false, optional: BTreeSet::new(), elected: true });
    launch.connections = Some(sandesh::connections_of_client(introspect, &cluster.services.rabbitmq)?);
    launch.level = Some(sandesh::level(cluster.log_level, introspect)?);
    Ok(launch)
}

/// dnsmasq, for DHCP and TFTP only: without a port for DNS, and in the foreground.
fn dnsmasq() -> Launch {
    let mut launch =
        Launch::new(vec!["dnsmasq".into(), "-k".into(), "-p0".into(), format!("--conf-file={}", path(dnsmasq::FILE))]);
    launch.files.insert(dnsmasq::FILE.into(), OnChange::Restart);
    // It reads its directory at its start alone.
    launch.files.insert(dnsmasq::BASE_FILE.into(), OnChange::Restart);
    launch.place.push(Place {
        file: dnsmasq::BASE_FILE.into(),
        to: format!("{}/{}", dnsmasq::DIR, dnsmasq::BASE_FILE),
        when: When::Always,
        private: false,
    });
    launch
}

fn node_manager(cluster: &Cluster<'_>) -> Launch {
    let argv = vec!["contrail-nodemgr".into(), format!("--nodetype=contrail-{}", NodeType::Config.name())];
    let files = nodemanager::files(NodeType::Config, cluster.services.analytics.as_ref());
    Launch { awaits: certificates(), files, ..Launch::new(argv) }
}

fn daemon(argv: Vec<String>, cluster: &Cluster<'_>) -> Launch {
    let files =
        [Some(vnc_api::FILE), cluster.keystone.map(|_| keystone::FILE)].into_iter().flatten().map(str::to_owned);
    let foreign = cluster.services.foreign().into_iter().chain(keystone::files(cluster.keystone)).map(|file| file.name);
    let files = files.chain(foreign).map(|file| (file, OnChange::Restart)).collect();
    Launch { files, awaits: certificates(), patience: Some(PATIENCE), ..Launch::new(argv) }
}

fn certificates() -> Vec<String> {
    CERTIFICATES.map(str::to_owned).to_vec()
}

/// A program with its file, and that of Keystone.
fn command(program: &str, file: &str, cluster: &Cluster<'_>) -> Vec<String> {
    let files = [Some(file), cluster.keystone.map(|_| keystone::FILE)];
    let files = files.into_iter().flatten().flat_map(|file| ["--conf_file".to_owned(), path(file)]);
    std::iter::once(program.to_owned()).chain(files).collect()
}

fn path(file: &str) -> String {
    format!("{}/{file}", node::RUN_DIR)
}
