//! contrail-kube-manager without what it makes of the cluster's objects in the config API: one of all members is elected and at work, the
//! others open no port (docs/upstream/kube-manager.md#election). It asks the Kubernetes API for everything that the daemon follows, with the daemon's
//! token, and makes the definition of further networks where there is none, so that a right it lacks shows.

pub mod options;

use std::{env, fs, sync::Arc, time::Duration};

use hyper::{Method, StatusCode};
use serde_json::json;
use tokio::{sync::mpsc, time::sleep};

use crate::{
    client::ApiClient,
    collector,
    elected::Mandate,
    exit::{Exit, exception, usage},
    hangup,
    http::{self, Call},
    introspect,
    library::Library,
    log,
    status::{Peer, Status},
    stores::{cassandra::Database, rabbitmq::Bus, zookeeper},
    unkind,
};
use options::Options;

/// Name of the program, and of the module in NodeStatus.
pub const NAME: &str = "contrail-kube-manager";

/// Before the Kubernetes API is asked again.
const RETRY: Duration = Duration::from_secs(3);
/// Where the API describes itself.
const DESCRIPTION: &str = "/openapi/v2";
/// Where definitions are.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// That of further networks.
const NETWORKS: &str = "network-attachment-definitions.k8s.cni.cncf.io";
/// What is followed.
const FOLLOWED: [&str; 7] = [
    "/api/v1/namespaces",
    "/api/v1/pods",
    "/api/v1/services",
    "/api/v1/endpoints",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/networking.k8s.io/v1/ingresses",
    "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
];

/// Plays it until it ends by itself.
///
/// # Errors
/// What ends it.
pub async fn run(arguments: &[String], mandate: &Mandate, exit: &mpsc::Sender<Exit>) -> Result<(), Exit> {
    let [option, file] = arguments else { return Err(usage("unrecognized arguments")) };
    if !matches!(option.as_str(), "-c" | "--config-file") {
        return Err(usage("unrecognized arguments"));
    }
    // A file that is not there is passed over, as by Python's parser.
    let options = Options::read(&fs::read_to_string(file).unwrap_or_default())?;
    let library = Library::read()?;
    let mut api = options.api.clone();
    api.tls = library.authorities().is_some();
    let api = ApiClient::new(api, &library, &options.login)?;
    let node = env::var("NODE_NAME").unwrap_or_else(|_| "localhost".into());
    let mut peers = vec![Peer::ApiServer, Peer::Cassandra, Peer::RabbitMq];
    peers.extend(options.election.as_ref().map(|_| Peer::Zookeeper));
    peers.extend((!options.collectors.is_empty()).then_some(Peer::Collector));
    let status = Arc::new(Status::new(NAME, "0", &node, &peers).in_table("ObjectKubernetesManagerNode"));
    if let Some(path) = &options.election {
        elect(&options, path, &node, &status, mandate, exit).await?;
    }
    let (address, pair, page) = (options.introspect, options.introspect_pair.clone(), Arc::clone(&status));
    introspect::serve(address, pair, introspect::PYTHON, move || page.page()).await?;
    let collectors = hangup::fixed(options.collectors.clone());
    tokio::spawn(collector::report(collectors, options.collector_tls.clone(), Arc::clone(&status)));
    reach(&options).await;
    sleep(unkind::own().loading()).await;
    api.connect(&status).await?;
    let (watching, asking) = (api.clone(), Arc::clone(&status));
    tokio::spawn(async move { watching.watch(&asking).await });
    let database = Database::connect(&options.cassandra, &status).await?;
    tokio::spawn(async move { database.watch(crate::api::KEYSPACE).await });
    tokio::spawn(
        Bus::new(&options.rabbitmq, format!("{}-kube_manager.{node}", options.cluster), &status).run(exit.clone()),
    );
    // It reads its domain, and does not catch that it is not let in (upstream `_wait_for_configured_domain`).
    let token = api.begin().await?;
    tokio::spawn(async move { api.go_on(token).await });
    tokio::spawn(async move { follow(&options).await });
    Ok(())
}

/// Stands in line, and returns when it is this one's turn.
async fn elect(
    options: &Options,
    path: &str,
    node: &str,
    status: &Arc<Status>,
    mandate: &Mandate,
    exit: &mpsc::Sender<Exit>,
) -> Result<(), Exit> {
    let client = zookeeper::connect(options.zookeeper.as_deref(), zookeeper::SESSION, status).await;
    let servers = options.zookeeper.clone().unwrap_or_default();
    let line = zookeeper::Line::standing();
    tokio::spawn(zookeeper::watch(client.clone(), servers, Arc::clone(status), exit.clone(), line.clone()));
    log::say("waits to be elected");
    let own = zookeeper::lead(&client, path, node).await.map_err(|error| exception(format!("{error:#}")))?;
    line.leave();
    mandate.accept(client, own);
    log::say("is elected");
    Ok(())
}

/// Asks the Kubernetes API what it is, again and again until it tells.
async fn reach(options: &Options) {
    let mut last = String::new();
    loop {
        let told = match call(options, Method::GET, DESCRIPTION, String::new()).await {
            Ok(status) if status.is_success() => {
                let (host, port) = &options.kubernetes;
                log::say(&format!("Kubernetes API at {host}:{port}: it tells what it is"));
                return;
            }
            Ok(status) => format!("HTTPError: {DESCRIPTION}: status {status}"),
            Err(error) => format!("ConnectionError: {DESCRIPTION}: {error:#}"),
        };
        if told != last {
            log::say(&told);
            last = told;
        }
        sleep(RETRY).await;
    }
}

/// Lists what the daemon follows until nothing is refused any more, then looks again whether the token still counts. What is refused is said.
async fn follow(options: &Options) {
    let mut last = None;
    loop {
        define(options).await;
        let mut refused = Vec::new();
        for path in FOLLOWED {
            match call(options, Method::GET, &format!("{path}?limit=1"), String::new()).await {
                Ok(status) if status.is_success() => {}
                Ok(status) => refused.push(format!("{path}: status {}", status.as_u16())),
                Err(error) => refused.push(format!("{path}: {error:#}")),
            }
        }
        if last.as_ref() != Some(&refused) {
            log::say(&match refused.as_slice() {
                [] => "Kubernetes API: everything is followed".to_owned(),
                refused => format!("Kubernetes API: HTTPError: {}", refused.join(", ")),
            });
            last = Some(refused);
        }
        sleep(RETRY).await;
    }
}

/// Makes the definition of further networks where there is none (upstream `network_monitor.py`, `_create_crds`).
async fn define(options: &Options) {
    let there = call(options, Method::GET, &format!("{DEFINITIONS}/{NETWORKS}"), String::new()).await;
    if !matches!(there, Ok(StatusCode::NOT_FOUND)) {
        return;
    }
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"config": {"type": "string"}}}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NETWORKS},
        "spec": {
            "group": "k8s.cni.cncf.io",
            "scope": "Namespaced",
            "names": {
                "plural": "network-attachment-definitions",
                "singular": "network-attachment-definition",
                "kind": "NetworkAttachmentDefinition",
                "shortNames": ["net-attach-def"],
            },
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    match call(options, Method::POST, DEFINITIONS, definition.to_string()).await {
        Ok(status) => log::say(&format!("{NETWORKS}: made, status {}", status.as_u16())),
        Err(error) => log::say(&format!("{NETWORKS}: {error:#}")),
    }
}

async fn call(options: &Options, method: Method, path: &str, body: String) -> anyhow::Result<StatusCode> {
    let (host, port) = &options.kubernetes;
    http::call(host, *port, &Call { method, path, token: options.token.as_deref(), body }).await
}
