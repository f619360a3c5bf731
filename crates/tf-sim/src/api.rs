//! contrail-api: it serves once all stores are there, says 503 until its database is in order, and 200 from then on.
//!
//! A bgp-router that is made with `POST /bgp-routers` is in the database by its name, where the control node of that name looks for it.
//! Otherwise it knows of virtual networks alone: one that is created with `POST /virtual-networks` is in the database with a quorum, told to
//! every member over the message bus, and read from any of them with `GET /virtual-network/ID`.

use std::{
    fs::File,
    io::Read as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};
use zookeeper_client::Client;

use crate::{
    control,
    exit::{Exit, exception},
    http::{self, Answer, Question},
    introspect, log,
    options::Options,
    status::{Peer, Status},
    stores::{cassandra::Database, rabbitmq::Bus, zookeeper},
};

/// Where objects are.
pub const KEYSPACE: &str = "config_db_uuid";
const NAMES: &str = "/fq-name-to-uuid";
const JSON: &str = "application/json; charset=UTF-8";
const RETRY: Duration = Duration::from_secs(1);

struct Api {
    database: Arc<Database>,
    bus: Arc<Bus>,
    zookeeper: Client,
    status: Arc<Status>,
    is_in_order: AtomicBool,
}

/// Plays it until it ends by itself. The session with ZooKeeper ends with the caller's `zookeeper`.
///
/// # Errors
/// What ends it.
pub async fn run(options: &Options, status: &Arc<Status>, node: &str, exit: &mpsc::Sender<Exit>) -> Result<(), Exit> {
    introspect::open(options, status).await?;
    let client = zookeeper::connect(options.zookeeper.as_deref(), status).await;
    let servers = options.zookeeper.clone().unwrap_or_default();
    tokio::spawn(zookeeper::watch(client.clone(), servers, Arc::clone(status), exit.clone()));
    let database = Database::connect(&options.cassandra, status).await?;
    let bus = Bus::new(&options.rabbitmq, format!("vnc_config.{node}-{}", options.listen.1), status);
    tokio::spawn(Arc::clone(&bus).run(exit.clone()));
    status.wait_for(Peer::RabbitMq).await;

    let listener = http::listen(options.listen).await?;
    let api = Arc::new(Api {
        database: Arc::clone(&database),
        bus,
        zookeeper: client.clone(),
        status: Arc::clone(status),
        is_in_order: AtomicBool::new(false),
    });
    let answering = Arc::clone(&api);
    let answer = move |question: Question| {
        let api = Arc::clone(&answering);
        async move { api.answer(&question).await }
    };
    tokio::spawn(http::serve(listener, options.rest.clone(), answer));
    log::say(&format!("listens on port {}", options.listen.1));
    resync(options, &client, &database, node).await.map_err(|error| exception(format!("{error:#}")))?;
    tokio::spawn(async move { database.watch(KEYSPACE).await });
    api.is_in_order.store(true, Ordering::Release);
    log::say("serves");
    Ok(())
}

/// Puts the database in order, one member after the other.
async fn resync(options: &Options, client: &Client, database: &Database, node: &str) -> Result<()> {
    let own = zookeeper::lead(client, options.daemon.election(), node).await?;
    for keyspace in options.daemon.keyspaces() {
        database.make(keyspace).await?;
    }
    zookeeper::make(client, NAMES).await?;
    client.delete(&own, None).await.context("leaving the election")
}

impl Api {
    async fn answer(&self, question: &Question) -> Answer {
        if !self.is_in_order.load(Ordering::Acquire) {
            let why = "Api server is Initializing:DB Resync in progress";
            return (StatusCode::SERVICE_UNAVAILABLE, "text/plain", why.into());
        }
        match (question.method.as_str(), question.path.as_str()) {
            ("GET", "/") => (StatusCode::OK, JSON, json!({"href": "/", "links": []}).to_string()),
            ("POST", "/virtual-networks") => match self.create(&question.body).await {
                Ok(answer) => answer,
                Err(error) => failed(&error),
            },
            ("POST", "/bgp-routers") => self.register(&question.body).await.unwrap_or_else(|error| failed(&error)),
            ("GET", path) => match path.strip_prefix("/virtual-network/").filter(|id| is_identifier(id)) {
                Some(id) => self.read(id).await.unwrap_or_else(|error| failed(&error)),
                None => (StatusCode::NOT_FOUND, "text/plain", "Unknown object".into()),
            },
            _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", String::new()),
        }
    }

    async fn create(&self, body: &[u8]) -> Result<Answer> {
        let Ok(Value::Object(mut object)) = serde_json::from_slice::<Value>(body) else {
            return Ok((StatusCode::BAD_REQUEST, "text/plain", "no JSON object".into()));
        };
        if !self.status.is_up(Peer::Zookeeper) {
            return Ok((StatusCode::SERVICE_UNAVAILABLE, "text/plain", "No connection to zookeeper".into()));
        }
        let id = identifier()?;
        zookeeper::make(&self.zookeeper, &format!("{NAMES}/virtual_network:{id}")).await?;
        object.insert("uuid".into(), json!(id));
        let text = Value::Object(object).to_string();
        self.database.put(KEYSPACE, &id, &text).await?;
        // Those who are not told read it from the database the next time they start.
        while let Err(error) = self.bus.tell(&id).await {
            log::say(&format!("RabbitMQ: {error:#}"));
            sleep(RETRY).await;
        }
        Ok((StatusCode::OK, JSON, text))
    }

    /// Keeps a bgp-router by the last part of its name, which is its node's.
    async fn register(&self, body: &[u8]) -> Result<Answer> {
        let object: Value = serde_json::from_slice(body).unwrap_or_default();
        let name = object["bgp-router"]["fq_name"].as_array().and_then(|name| name.last()?.as_str());
        let Some(key) = name.and_then(control::key) else {
            return Ok((StatusCode::BAD_REQUEST, "text/plain", "no bgp-router with a name".into()));
        };
        self.database.put(KEYSPACE, &key, &object.to_string()).await?;
        Ok((StatusCode::OK, JSON, object.to_string()))
    }

    /// The object, and whether this member was told of it.
    async fn read(&self, id: &str) -> Result<Answer> {
        let Some(text) = self.database.get(KEYSPACE, id).await? else {
            return Ok((StatusCode::NOT_FOUND, "text/plain", "No virtual-network object found".into()));
        };
        let object: Value = serde_json::from_str(&text)?;
        Ok((StatusCode::OK, JSON, json!({"virtual-network": object, "told": self.bus.was_told(id)}).to_string()))
    }
}

fn failed(error: &anyhow::Error) -> Answer {
    (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", format!("{error:#}"))
}

fn is_identifier(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A new one, of random digits.
fn identifier() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("/dev/urandom")?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_new_and_known_as_such() {
        let (one, two) = (identifier().unwrap(), identifier().unwrap());
        assert!(one != two && is_identifier(&one) && is_identifier(&two));
        assert!(!is_identifier("' OR 'a' = 'a") && !is_identifier(""));
    }
}
