//! contrail-schema and contrail-svc-monitor: one of all members is elected in ZooKeeper and works, the others wait and open no port
//! (docs/upstream/daemons.md#standbys).

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{sync::mpsc, time::sleep};
use zookeeper_client::Client;

use crate::{
    client::ApiClient,
    exit::{Exit, exception},
    introspect,
    library::Library,
    log,
    options::{Daemon, Options},
    status::{Peer, Status},
    stores::{cassandra::Database, rabbitmq::Bus, zookeeper},
    tables, unkind,
};

/// For ZooKeeper to take the mandate back.
const PATIENCE: Duration = Duration::from_secs(2);

/// The session of who is elected, and its node in line.
#[derive(Default)]
pub struct Mandate(OnceLock<(Client, String)>);

impl Mandate {
    /// Notes it.
    pub fn accept(&self, client: Client, node: String) {
        let _ = self.0.set((client, node));
    }

    /// Gives it back, so that the next one need not wait until the session is over.
    pub async fn resign(&self) {
        if let Some((client, node)) = self.0.get() {
            let _ = tokio::time::timeout(PATIENCE, client.delete(node, None)).await;
        }
    }
}

/// Plays one until it ends by itself.
///
/// # Errors
/// What ends it.
pub async fn run(
    options: &Options,
    status: &Arc<Status>,
    node: &str,
    mandate: &Mandate,
    exit: &mpsc::Sender<Exit>,
) -> Result<(), Exit> {
    let api = ApiClient::new(options.api.clone(), &Library::read()?, &options.login)?;
    let client = zookeeper::connect(options.zookeeper.as_deref(), options.session, status).await;
    let servers = options.zookeeper.clone().unwrap_or_default();
    let line = zookeeper::Line::standing();
    tokio::spawn(zookeeper::watch(client.clone(), servers, Arc::clone(status), exit.clone(), line.clone()));
    log::say("waits to be elected");
    let lead = zookeeper::lead(&client, options.daemon.election(), node).await;
    let own = lead.map_err(|error| exception(format!("{error:#}")))?;
    line.leave();
    mandate.accept(client.clone(), own);
    log::say("is elected");
    introspect::open(options, status).await?;
    api.connect(status).await?;
    let database = Database::connect(&options.cassandra, status).await?;
    tables::make(options.daemon, &database, &client, node).await?;
    watch(options.daemon, database);
    let module = options.daemon.name().trim_start_matches("contrail-");
    tokio::spawn(Bus::new(&options.rabbitmq, format!("{module}.{node}"), status).run(exit.clone()));
    begin(api, status).await
}

/// Looks every now and then whether the database is there.
pub fn watch(daemon: Daemon, database: Arc<Database>) {
    let keyspace = daemon.keyspaces().first().copied().unwrap_or_default();
    tokio::spawn(async move { database.watch(keyspace).await });
}

/// Connects to the API, unless it is, and does what follows. All three change something, whose refusal they do not catch (upstream
/// `ServiceChain.init`, `_create_default_template`, `FabricManager`).
///
/// # Errors
/// What ends the daemon.
pub async fn begin(api: ApiClient, status: &Arc<Status>) -> Result<(), Exit> {
    if !status.is_up(Peer::ApiServer) {
        api.connect(status).await?;
    }
    let (watching, asking) = (api.clone(), Arc::clone(status));
    tokio::spawn(async move { watching.watch(&asking).await });
    sleep(unkind::own().loading()).await;
    let token = api.begin().await?;
    tokio::spawn(async move { api.go_on(token).await });
    Ok(())
}
