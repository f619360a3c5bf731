//! contrail-schema, contrail-svc-monitor and contrail-device-manager: one of all members is elected in ZooKeeper and works, the others
//! wait and open no port (tf-components 3.2).

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{sync::mpsc, time::sleep};
use zookeeper_client::Client;

use crate::{
    exit::{Exit, exception},
    http, introspect, library, log,
    options::{ApiServer, Options},
    status::{Peer, State, Status},
    stores::{cassandra::Database, rabbitmq::Bus, zookeeper},
    tls,
};

/// Between two questions to the API.
const PERIOD: Duration = Duration::from_secs(2);
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
    let authorities = library::authorities()?;
    let client = zookeeper::connect(options.zookeeper.as_deref(), status).await;
    let servers = options.zookeeper.clone().unwrap_or_default();
    tokio::spawn(zookeeper::watch(client.clone(), servers, Arc::clone(status), exit.clone()));
    log::say("waits to be elected");
    let lead = zookeeper::lead(&client, options.daemon.election(), node).await;
    let own = lead.map_err(|error| exception(format!("{error:#}")))?;
    mandate.accept(client, own);
    log::say("is elected");
    introspect::open(options, status).await?;
    let api = options.api.clone();
    let asking = Arc::clone(status);
    tokio::spawn(async move { ask(&api, authorities.as_deref(), &asking).await });
    status.wait_for(Peer::ApiServer).await;
    let database = Database::connect(&options.cassandra, status).await?;
    for keyspace in options.daemon.keyspaces() {
        database.make(keyspace).await.map_err(|error| exception(format!("{error:#}")))?;
    }
    let keyspace = options.daemon.keyspaces().first().copied().unwrap_or_default();
    tokio::spawn(async move { database.watch(keyspace).await });
    let module = options.daemon.name().trim_start_matches("contrail-");
    tokio::spawn(Bus::new(&options.rabbitmq, format!("{module}.{node}"), status).run(exit.clone()));
    Ok(())
}

/// Looks every now and then whether one of the APIs answers. Its library copies the authorities when it begins and goes by the copy from then on
/// (`vnc_api.py`, `getCertKeyCaBundle`).
pub async fn ask(api: &ApiServer, authorities: Option<&Path>, status: &Status) {
    let copied = authorities.filter(|_| api.tls).map(|authorities| tls::client(authorities, None));
    loop {
        let mut state = State::Down("no server is named".into());
        for host in &api.hosts {
            let answer = match &copied {
                None if api.tls => Err(anyhow::anyhow!("ConnectionError: vnc_api_lib.ini names no authority")),
                Some(Err(error)) => Err(anyhow::anyhow!("ConnectionError: {error:#}")),
                Some(Ok(tls)) => http::get(host, api.port, Some(tls), "/").await,
                None => http::get(host, api.port, None, "/").await,
            };
            match answer {
                Ok(code) if code.is_success() => {
                    state = State::Up(format!("{host}:{}", api.port));
                    break;
                }
                Ok(code) => state = State::Down(format!("{host}: status {code}")),
                Err(error) => state = State::Down(format!("{host}: {error:#}")),
            }
        }
        status.set(Peer::ApiServer, state);
        sleep(PERIOD).await;
    }
}
