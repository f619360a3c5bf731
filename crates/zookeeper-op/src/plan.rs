//! Desired state of an ensemble.

use serde_json::{Map, json};
use tf_api::{
    Zookeeper, ZookeeperConfiguration,
    contract::{Protocol, Reason},
};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{Daemon, mount},
        storage,
    },
    ensemble::{Ensemble, Parts, Traits},
    images::Builtin,
    members::{Joining, Leaving, SizeRule},
    node::launch,
    nodemanager::NodeType,
    observed::Observed,
    plan::{NotReady, Plan},
};

use crate::{OPERATOR, config};

/// Larger ensembles write more slowly and tolerate no loss that matters here (tf-components 1.11).
const LARGEST: i32 = 5;
const CONTAINERS: [Builtin; 1] = [Builtin { name: "zookeeper", image: "external-zookeeper", default: true }];

/// Plans an ensemble.
///
/// # Errors
/// When there are no members to plan for, or the spec asks for what cannot be.
pub fn plan(cr: &Zookeeper, observed: &Observed<Zookeeper>) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    let ensemble = Ensemble::prepare(
        cr,
        observed,
        &Traits {
            operator: OPERATOR,
            builtins: &CONTAINERS,
            containers: &spec.containers,
            obsolete: &[],
            rule: SizeRule::OddUpTo(LARGEST),
            joining: Joining::AtFoundation,
            leaving: Leaving::Kept,
            has_data: true,
            uses_auth: false,
        },
    )?;
    let mut files = Files::default();
    files.shared(config::STATIC_FILE, config::static_file(spec, ensemble.members())?);
    files.shared(config::LOG_FILE, config::log_file(cr.spec.common_configuration.log_level.unwrap_or_default())?);
    let launch = config::launch_file(spec).map_err(|why| NotReady::invalid(Reason::InvalidSpec, why.to_string()))?;
    files.shared(&launch::file_name(CONTAINERS[0].name), launch);
    let members = config::dynamic_file(spec, ensemble.members());
    for member in ensemble.members() {
        files.member(config::DYNAMIC_FILE, &member.address, members.clone());
        files.member(config::ID_FILE, &member.address, member.id.to_string());
    }

    let identity = &ensemble.identity;
    let directory = storage::node_directory("/var/lib/contrail", "zookeeper", &["zookeeper1"], identity);
    let data = storage::data(identity, cr.spec.common_configuration.storage.as_ref(), &directory);
    let ports = vec![("client", spec.client_port), ("quorum", spec.election_port), ("election", spec.server_port)];
    // Reachable on the loopback address only, but that is the node's, where no two may use one port.
    let admin = spec.admin_enabled.then_some(("admin", spec.admin_port));
    let mounts = vec![mount(storage::DATA, config::DATA_DIR)];
    let daemons = ensemble
        .containers
        .iter()
        .map(|container| Daemon {
            ports: ports.iter().copied().chain(admin).collect(),
            env: vec![("NODE_TYPE".into(), NodeType::ConfigDatabase.name().into())],
            mounts: mounts.clone(),
            ..Daemon::new(container.name, container.image.clone(), container.command.clone())
        })
        .collect();
    let endpoints = vec![ensemble.endpoint("client", Protocol::Tcp, spec.client_port, false)];
    let own_status = Map::from_iter([("ports".to_owned(), json!({ "clientPort": spec.client_port.to_string() }))]);
    ensemble.plan(Parts {
        files,
        daemons,
        data: Some(data),
        owned_mounts: mounts,
        ports,
        endpoints,
        grace_seconds: 120,
        ignored: ignored(spec),
        own_status,
        ..Parts::default()
    })
}

/// Fields of the spec that are set and have no effect.
fn ignored(spec: &ZookeeperConfiguration) -> Vec<String> {
    let port = !spec.admin_enabled && spec.admin_port != ZookeeperConfiguration::default().admin_port;
    port.then(|| "spec.serviceConfiguration.adminPort: adminEnabled is false".to_owned()).into_iter().collect()
}
