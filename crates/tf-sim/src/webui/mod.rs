//! The two servers of the web UI, without pages (docs/upstream/web-ui.md#servers): `node webServerStart.js` and `node jobServerStart.js`. They find
//! Redis before they open anything, speak to it without TLS and without a password, and look for the config API and the database that their file
//! names.

pub mod module;
pub mod options;

use std::{fs, net::IpAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use hyper::{Request, StatusCode, body::Bytes};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    exit::{Exit, exception},
    http,
    keystone::TOKEN,
    log,
    options::Pair,
    status::{Peer, Status},
    stores::cassandra::Database,
    tls,
};
use options::Options;

/// Name of the program that runs both.
pub const NAME: &str = "node";

const WEB: &str = "webServerStart.js";
const JOB: &str = "jobServerStart.js";
/// Where the second file is, beside the first one.
const USER: &str = "contrail-webui-userauth.js";
const KEYSPACE: &str = "config_db_uuid";
/// Between two looks at a service.
const PERIOD: Duration = Duration::from_secs(2);
/// For an answer of Redis.
const PATIENCE: Duration = Duration::from_secs(5);

/// Plays one until it ends by itself.
///
/// # Errors
/// What ends it.
pub async fn run(arguments: &[String]) -> Result<(), Exit> {
    let [program, option, file] = arguments else { return Err(exception("AssertionError: no configuration file")) };
    if !matches!(option.as_str(), "--c" | "--conf_file") {
        return Err(exception("AssertionError: no configuration file"));
    }
    let read =
        |path: &Path| fs::read_to_string(path).map_err(|_| exception(format!("Error: {} not found", path.display())));
    let file = Path::new(file);
    let options = Options::read(&read(file)?, &read(&file.with_file_name(USER))?)?;
    let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.as_str() {
        WEB => web(options).await,
        JOB => job(options).await,
        _ => Err(exception(format!("Error: Cannot find module {name}"))),
    }
}

async fn web(options: Options) -> Result<(), Exit> {
    for file in [&options.pair.certificate, &options.pair.key] {
        // Upstream falls back to a pair that the image has none of.
        if !file.exists() {
            return Err(exception(format!("Error: ENOENT: {}", file.display())));
        }
    }
    found(&options.redis).await;
    let (host, port) = &options.jobs;
    let jobs = http::listen((address(host)?, *port)).await?;
    tokio::spawn(async move { while jobs.accept().await.is_ok() {} });
    for host in &options.listen {
        let host = address(host)?;
        serve((host, options.https), Some(options.pair.clone()), StatusCode::OK).await?;
        serve((host, options.http), None, StatusCode::FOUND).await?;
    }
    log::say("serves");
    let status = Arc::new(Status::new("webui", "0", "webui", &[Peer::Cassandra]));
    let database = Database::new(&options.cassandra, &status);
    tokio::spawn(async move { database.watch(KEYSPACE).await });
    let redis = options.redis.clone();
    tokio::spawn(async move { watch(&redis).await });
    tokio::spawn(async move { ask(&options).await });
    Ok(())
}

async fn job(options: Options) -> Result<(), Exit> {
    found(&options.redis).await;
    serve((IpAddr::from([127, 0, 0, 1]), options.kue), None, StatusCode::OK).await?;
    log::say("serves");
    tokio::spawn(async move { watch(&options.redis).await });
    // Again and again, as the web server comes and goes.
    tokio::spawn(async move {
        loop {
            let (host, port) = &options.jobs;
            if let Ok(stream) = TcpStream::connect((host.as_str(), *port)).await {
                log::say("jobs: connected");
                let _ = BufReader::new(stream).read_line(&mut String::new()).await;
            }
            sleep(PERIOD).await;
        }
    });
    Ok(())
}

fn address(host: &str) -> Result<IpAddr, Exit> {
    host.parse().map_err(|_| exception("Error: ENOTFOUND"))
}

async fn serve(address: (IpAddr, u16), pair: Option<Pair>, status: StatusCode) -> Result<(), Exit> {
    let listener = http::listen(address).await?;
    let answer = move |_| async move { (status, "text/html", String::new()) };
    tokio::spawn(http::serve(listener, pair, http::Server::Native, answer));
    Ok(())
}

/// Waits until Redis takes a request: neither server goes on before.
async fn found(redis: &(String, u16)) {
    let mut last = String::new();
    while let Err(error) = session(redis).await {
        let why = format!("Redis: error {error:#}");
        if why != last {
            log::say(&why);
            last = why;
        }
        sleep(PERIOD).await;
    }
    log::say("Redis: ready");
}

/// Says how Redis is, when that changes.
async fn watch(redis: &(String, u16)) {
    let mut last = true;
    loop {
        let is_there = session(redis).await.is_ok();
        if is_there != last {
            log::say(if is_there { "Redis: ready" } else { "Redis: end" });
        }
        last = is_there;
        sleep(PERIOD).await;
    }
}

/// What the servers agree on in Redis: the secret of their sessions.
async fn session(redis: &(String, u16)) -> Result<()> {
    let asked = async {
        let mut stream = BufReader::new(TcpStream::connect((redis.0.as_str(), redis.1)).await?);
        for (request, good) in [("SELECT 3", "+OK"), ("SETNX sessionSecret sim", ":"), ("PING", "+PONG")] {
            stream.write_all(format!("{request}\r\n").as_bytes()).await?;
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            ensure!(line.starts_with(good), "{}", line.trim_end());
        }
        Ok(())
    };
    timeout(PATIENCE, asked).await.context("no answer")?
}

/// Asks the config API whether it is there, with Keystone as the administrator that jobs log in as, and says so when that changes.
async fn ask(options: &Options) {
    let Options { api, keystone, .. } = options;
    let mut last = None;
    loop {
        let mut answer = String::from("no server");
        let token = match keystone {
            Some(keystone) => keystone.login().token().await.map(|token| Some(token.id)),
            None => Ok(None),
        };
        for host in &api.server.hosts {
            let authorities = api.authorities.as_deref().filter(|_| api.server.tls);
            let asked = async {
                let tls = authorities.map(|authorities| tls::client(authorities, None)).transpose()?;
                let token = token.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
                let mut request = Request::get(&api.page);
                if let Some(token) = token {
                    request = request.header(TOKEN, token);
                }
                let request = request.body(Bytes::new().into())?;
                Ok::<_, anyhow::Error>(http::ask(host, api.server.port, tls.as_ref(), request).await?.status)
            };
            answer = match asked.await {
                Ok(status) => format!("status {}", status.as_u16()),
                Err(error) => format!("{error:#}"),
            };
            if answer.starts_with("status") {
                break;
            }
        }
        if last.as_ref() != Some(&answer) {
            log::say(&format!("config API: {answer}"));
            last = Some(answer);
        }
        sleep(PERIOD).await;
    }
}
