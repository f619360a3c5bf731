//! The daemons of analytics without what they are for: they connect to every service that their files name, open their ports, and say by
//! introspection how that went. Nothing is stored, asked or told but that, who told to Kafka, and whether the API lets topology in.

mod administration;
mod kafka;
pub mod options;
mod redis;

use std::{env, fs, sync::Arc, time::Duration};

use anyhow::Context as _;
use hyper::StatusCode;
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, TlsConnector, rustls::pki_types::ServerName};

use self::{
    kafka::Kafka,
    options::{Daemon, Options},
};
use crate::{
    client::ApiClient,
    collector,
    exit::{Exit, exception, usage},
    hangup,
    http::{self, Question},
    introspect,
    library::Library,
    log,
    notice::Stumbling,
    options::{Cassandra, Tls},
    status::{Peer, State, Status},
    stores::{cassandra::Database, rabbitmq::Bus, zookeeper},
    tls, unkind,
};

/// For a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks.
const PERIOD: Duration = Duration::from_secs(2);

/// Plays one until somebody ends it.
///
/// # Errors
/// What ends it.
pub async fn run(daemon: Daemon, arguments: &[String], exit: &mpsc::Sender<Exit>) -> Result<(), Exit> {
    let options = Options::read(daemon, &texts(daemon, arguments)?)?;
    let node = env::var("NODE_NAME").unwrap_or_else(|_| "localhost".into());
    let status = Status::new(daemon.name(), "0", &node, &peers(&options)).in_table("ObjectCollectorInfo");
    // Neither shows Redis while all is well, nor does the API show the config API (seen).
    let status = match daemon {
        Daemon::Api => status.with_zookeepers(&["OpServer"]).quiet_about(Some(Peer::Redis)),
        Daemon::AlarmGenerator => {
            status.with_zookeepers(&["AlarmGenerator", "Zookeeper"]).quiet_about(Some(Peer::Redis))
        }
        _ => status,
    };
    let status = Arc::new(status);
    let page = Arc::clone(&status);
    let (address, pair) = options.introspect.clone();
    let kind = if daemon.is_native() { introspect::NATIVE } else { introspect::PYTHON };
    introspect::serve(address, pair, kind, move || page.page()).await?;
    if let Some((address, tls)) = &options.listen {
        sleep(unkind::own().loading()).await;
        let listener = http::listen(*address).await?;
        if daemon == Daemon::Api {
            let pair = tls.clone().map(|(pair, _)| pair);
            tokio::spawn(http::serve(listener, pair, http::Server::Rest, |_: Question| async {
                (StatusCode::OK, "application/json", r#"{"links": []}"#.to_owned())
            }));
        } else {
            tokio::spawn(receive(listener, tls.clone()));
        }
        log::say(&format!("listens on port {}", address.1));
    }
    match (daemon, options.administration.clone()) {
        (Daemon::Api, Some(own)) => administration::open(own).await,
        (_, Some(asked)) => drop(tokio::spawn(administration::ask(asked, Arc::clone(&status)))),
        (_, None) => {}
    }
    let collectors = options.collectors.clone();
    let collectors = match daemon {
        Daemon::QueryEngine => {
            let arguments = arguments.to_vec();
            hangup::followed(collectors, move || Ok(Options::read(daemon, &texts(daemon, &arguments)?)?.collectors))?
        }
        _ => hangup::fixed(collectors),
    };
    tokio::spawn(collector::report(collectors, options.collector_tls.clone(), Arc::clone(&status)));
    connect(options, &status, exit)
}

/// The texts of the files that the command line names.
fn texts(daemon: Daemon, arguments: &[String]) -> Result<Vec<String>, Exit> {
    let mut texts = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().ok_or_else(|| usage(format!("argument {argument}: expected one argument")))?;
        match (argument.as_str(), daemon.is_native()) {
            ("--conf_file", true) => {
                texts.push(fs::read_to_string(value).map_err(|error| exception(format!("{value}: {error}")))?);
            }
            // A file that is not there is passed over, as by Python's parser.
            ("--conf_file" | "-c", false) => texts.extend(fs::read_to_string(value).ok()),
            ("--device-config-file", false) if daemon == Daemon::SnmpCollector => {
                fs::read_to_string(value).map_err(|error| exception(format!("{value}: {error}")))?;
            }
            _ => return Err(usage(format!("unrecognised option {argument}"))),
        }
    }
    Ok(texts)
}

/// What it waits for.
fn peers(options: &Options) -> Vec<Peer> {
    let peers = [
        (!options.collectors.is_empty(), Peer::Collector),
        (options.cassandra.is_some(), Peer::Cassandra),
        (options.database.is_some(), Peer::Database),
        (options.rabbitmq.is_some(), Peer::RabbitMq),
        (options.zookeeper.is_some() && options.daemon != Daemon::Collector, Peer::Zookeeper),
        (options.daemon == Daemon::Api, Peer::Partitions),
        (options.redis.is_some(), Peer::Redis),
        (options.kafka.is_some(), Peer::Kafka),
    ];
    peers.into_iter().filter(|(is_used, _)| *is_used).map(|(_, peer)| peer).collect()
}

/// Connects to everything.
fn connect(options: Options, status: &Arc<Status>, exit: &mpsc::Sender<Exit>) -> Result<(), Exit> {
    if let Some(cassandra) = &options.cassandra {
        let database = Database::new(cassandra, status);
        tokio::spawn(async move { database.watch(crate::api::KEYSPACE).await });
    }
    if let Some(database) = options.database.clone() {
        tokio::spawn(stored(database, Arc::clone(status)));
    }
    if let Some(rabbitmq) = &options.rabbitmq {
        let queue = format!("{}.{}", options.daemon.name(), options.address);
        let stumbling = options.daemon.known().map(Stumbling::over_all_but);
        let bus = Bus::stumbling(rabbitmq, queue, status, stumbling);
        tokio::spawn(async move {
            loop {
                let (refused, _) = mpsc::channel(1);
                Arc::clone(&bus).run(refused).await;
                sleep(PERIOD).await;
            }
        });
    }
    if let Some(servers) = options.zookeeper.clone() {
        let (status, exit) = (Arc::clone(status), exit.clone());
        let (is_api, address) = (options.daemon == Daemon::Api, options.address.to_string());
        tokio::spawn(async move {
            let client = zookeeper::connect(servers.as_deref(), zookeeper::SESSION, &status).await;
            if is_api {
                status.set(Peer::Partitions, State::Up(address));
            }
            let line = zookeeper::Line::default();
            zookeeper::watch(client, servers.unwrap_or_default(), status, exit, line).await;
        });
    }
    if let Some((server, brought)) = options.api.clone() {
        let api = ApiClient::new(server, &Library::read()?, &brought)?;
        tokio::spawn(async move { api.lookup().await });
    }
    if let Some(redis) = options.redis.clone() {
        tokio::spawn(redis::ask(redis, options.queries, Arc::clone(status)));
    }
    if let Some((brokers, tls)) = options.kafka {
        let address = options.address.to_string();
        let kafka = Kafka { daemon: options.daemon, address, brokers, tls, status: Arc::clone(status) };
        tokio::spawn(kafka.run());
    }
    Ok(())
}

/// Lets in who connects with a certificate, and keeps them as long as they like.
async fn receive(listener: TcpListener, tls: Tls) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            sleep(PERIOD).await;
            continue;
        };
        let tls = tls.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            match tls {
                None => while matches!(stream.read(&mut buffer).await, Ok(1..)) {},
                Some((pair, authorities)) => {
                    let Ok(config) = tls::mutual(&pair, &authorities) else { return };
                    let accepted = timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await;
                    let Ok(Ok(mut stream)) = accepted else { return };
                    while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
                }
            }
        });
    }
}

/// Looks whether a server of the database of analytics lets it in; what is in there nobody looks at.
async fn stored(database: Cassandra, status: Arc<Status>) {
    let attempt = async || {
        let mut last = anyhow::anyhow!("no server is named");
        for host in &database.hosts {
            let opened = timeout(PATIENCE, open(host, database.port, &database)).await.context("no answer").flatten();
            match opened {
                Ok(()) => return Ok(format!("{host}:{}", database.port)),
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    loop {
        tell(&status, Peer::Database, attempt().await);
        sleep(PERIOD).await;
    }
}

async fn open(host: &str, port: u16, database: &Cassandra) -> anyhow::Result<()> {
    let stream = TcpStream::connect((host, port)).await?;
    if database.tls {
        let authorities = database.authorities.as_ref().context("no authority is named")?;
        let name = ServerName::try_from(host.to_owned())?;
        TlsConnector::from(tls::client(authorities, None)?).connect(name, stream).await?;
    }
    Ok(())
}

fn tell(status: &Status, peer: Peer, result: anyhow::Result<String>) {
    status.set(
        peer,
        match result {
            Ok(server) => State::Up(server),
            Err(error) => State::Down(format!("{error:#}")),
        },
    );
}
