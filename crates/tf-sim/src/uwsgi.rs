//! uWSGI as it runs several workers of contrail-api (upstream `uwsgi_api_server.py`): `uwsgi FILE`. They share its port, and each reads a file
//! of its own. Certificates are read once. Where one of them ends, so does everything here, where the real one starts it again.

use std::{
    collections::BTreeMap,
    fs,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hyper::StatusCode;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_rustls::TlsAcceptor;

use crate::{
    api::Api,
    cli::Started,
    exit::{Exit, exception, usage},
    http::{self, Question, Server},
    log,
    options::Pair,
    tls, unkind,
};

/// Name of the program.
pub const NAME: &str = "uwsgi";

/// Where upstream's program looks for the files of workers.
const FOLDER: &str = "/etc/contrail";
/// What it runs, and how that is called there.
const MODULE: &str = "vnc_cfg_api_server.uwsgi_api_server:get_apiserver()";
/// Options that it knows, of those that configure workers of the API. With `strict` another one ends it.
const KNOWN: [&str; 16] = [
    "buffer-size",
    "die-on-term",
    "gevent",
    "https-socket",
    "lazy-apps",
    "listen",
    "master",
    "module",
    "need-app",
    "plugins",
    "reuse-port",
    "single-interpreter",
    "so-keepalive",
    "strict",
    "vacuum",
    "workers",
];

/// How many connections may wait where the file does not say.
const QUEUE: u32 = 100;
/// How many the kernel has wait at most.
const LONGEST_QUEUE: &str = "/proc/sys/net/core/somaxconn";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where it listens.
    pub listen: (IpAddr, u16),
    /// What it shows there.
    pub pair: Pair,
    /// How many workers there are.
    pub workers: usize,
    /// How many connections may wait for a worker.
    pub queue: u32,
}

impl Options {
    /// Reads the text of the file. Names have case, nothing but whole lines is a comment, and an option without a value is on.
    ///
    /// # Errors
    /// What ends it.
    pub fn read(text: &str) -> Result<Self, Exit> {
        let mut options = BTreeMap::new();
        let mut is_own = false;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
            if let Some(section) = line.strip_prefix('[') {
                is_own = section == "uwsgi]";
            } else if is_own {
                let (name, value) = line.split_once('=').unwrap_or((line, "true"));
                options.insert(name.trim(), value.trim());
            }
        }
        if let Some(name) = options.keys().find(|name| !KNOWN.contains(name)) {
            return Err(exception(format!("[strict-mode] unknown config directive: {name}")));
        }
        // A percent sign stands for something else there.
        if let Some((name, _)) = options.iter().find(|(_, value)| value.contains('%')) {
            return Err(exception(format!("tf-sim does not play the placeholder in {name}")));
        }
        // Without them it runs one worker, loads the API in the master, or starts anew when it is to end.
        for name in ["master", "need-app", "lazy-apps", "die-on-term"] {
            if options.get(name).copied() != Some("true") {
                return Err(exception(format!("tf-sim does not play it without {name}")));
            }
        }
        if options.get("module").copied() != Some(MODULE) {
            return Err(Exit { code: 22, why: "*** no app loaded. GAME OVER ***".into() });
        }
        let invalid = |name: &str| exception(format!("ValueError: {name}"));
        let socket: Vec<&str> = options.get("https-socket").copied().unwrap_or_default().split(',').collect();
        let [listen, certificate, key] = socket[..] else { return Err(invalid("https-socket")) };
        let (host, port) = listen.rsplit_once(':').ok_or_else(|| invalid("https-socket"))?;
        let host = host.trim_matches(['[', ']']).parse().map_err(|_| invalid("https-socket"))?;
        let workers = options.get("workers").and_then(|count| count.parse().ok()).filter(|count| *count > 0);
        Ok(Self {
            listen: (host, port.parse().map_err(|_| invalid("https-socket"))?),
            pair: Pair { certificate: certificate.into(), key: key.into() },
            workers: workers.ok_or_else(|| invalid("workers"))?,
            queue: options.get("listen").map_or(Ok(QUEUE), |count| count.parse()).map_err(|_| invalid("listen"))?,
        })
    }
}

/// Workers whose API has been loaded, which share the port: they are asked in turn, also those that have not put their database in order yet.
struct Workers<A> {
    loaded: Mutex<Vec<Arc<A>>>,
    turn: AtomicUsize,
}

impl<A> Default for Workers<A> {
    fn default() -> Self {
        Self { loaded: Mutex::default(), turn: AtomicUsize::default() }
    }
}

impl<A> Workers<A> {
    fn add(&self, api: Arc<A>) {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).push(api);
    }

    fn next(&self) -> Option<Arc<A>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        loaded.get(turn.checked_rem(loaded.len())?).cloned()
    }
}

/// Plays it until it ends by itself.
///
/// # Errors
/// What ends it.
pub async fn run(arguments: &[String], exit: &mpsc::Sender<Exit>) -> Result<(), Exit> {
    let [file] = arguments else { return Err(usage("uwsgi FILE")) };
    let text = fs::read_to_string(file).map_err(|error| exception(format!("{file}: {error}")))?;
    let options = Options::read(&text)?;
    let longest = fs::read_to_string(LONGEST_QUEUE).ok().and_then(|text| text.trim().parse().ok());
    if let Some(longest) = longest.filter(|longest| options.queue > *longest) {
        let why = format!("Listen queue size is greater than the system max net.core.somaxconn ({longest}).");
        return Err(Exit { code: 1, why });
    }
    let shown =
        tls::server(&options.pair).map_err(|error| exception(format!("unable to load certificate: {error:#}")))?;
    let listener = http::listen(options.listen).await?;
    let workers = Arc::new(Workers::default());
    for worker in 0..options.workers {
        let (workers, exit) = (Arc::clone(&workers), exit.clone());
        tokio::spawn(async move {
            if let Err(why) = work(worker, &workers, &exit).await {
                let _ = exit.send(why).await;
            }
        });
    }
    tokio::spawn(serve(listener, TlsAcceptor::from(shown), workers));
    log::say(&format!("spawned {} workers on port {}", options.workers, options.listen.1));
    Ok(())
}

/// Loads the API of a worker, which is asked from then on, and puts its database in order. Each takes its time, and each waits for those before it, so
/// they are ready some seconds apart (seen of a real one).
async fn work(worker: usize, workers: &Workers<Api>, exit: &mpsc::Sender<Exit>) -> Result<(), Exit> {
    tokio::time::sleep(unkind::own().imports()).await;
    let files = [format!("{FOLDER}/contrail-api-{worker}.conf"), format!("{FOLDER}/contrail-keystone-auth.conf")];
    let started = Started::worker(&files)?;
    let api = started.load(exit).await?;
    workers.add(Arc::clone(&api));
    started.serve(&api).await
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, workers: Arc<Workers<Api>>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (acceptor, workers) = (acceptor.clone(), Arc::clone(&workers));
        tokio::spawn(async move {
            let answer = move |question: Question| {
                let api = workers.next();
                async move {
                    match api {
                        Some(api) => api.answer(&question).await,
                        // The real one keeps them waiting.
                        None => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", "no worker".to_owned()),
                    }
                }
            };
            http::secure(Server::Rest, &acceptor, peer, stream, answer).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[uwsgi]\nstrict = true\nmaster\nneed-app = true\nlazy-apps = true\ndie-on-term = true\nworkers = 3\n\
                        https-socket = [fd00::1]:8082,/cert,/key\nmodule = vnc_cfg_api_server.uwsgi_api_server:get_apiserver()\n";

    #[test]
    fn a_socket_has_an_address_a_port_and_a_pair() {
        let options = Options::read(FILE).unwrap();
        assert_eq!((options.listen, options.workers), (("fd00::1".parse().unwrap(), 8082), 3));
        assert_eq!((options.queue, Options::read(&format!("{FILE}listen = 1024\n")).unwrap().queue), (100, 1024));
        assert_eq!(options.pair, Pair { certificate: "/cert".into(), key: "/key".into() });
        for socket in ["[fd00::1]:8082", "8082,/cert,/key", "host:8082,/cert,/key"] {
            let file = FILE.replace("[fd00::1]:8082,/cert,/key", socket);
            assert_eq!(Options::read(&file).unwrap_err().why, "ValueError: https-socket", "{socket}");
        }
    }

    #[test]
    fn workers_are_asked_in_turn_whether_they_are_ready_or_not() {
        let workers = Workers::default();
        let asked = |count| (0..count).map(|_| workers.next().map(|code| *code)).collect::<Vec<_>>();
        assert_eq!(asked(2), [None, None]);
        workers.add(Arc::new(StatusCode::OK));
        assert_eq!(asked(2), [Some(StatusCode::OK); 2]);
        workers.add(Arc::new(StatusCode::SERVICE_UNAVAILABLE));
        let codes = asked(6);
        assert!(codes.windows(2).all(|pair| pair[0] != pair[1]), "{codes:?}");
    }

    #[test]
    fn what_it_does_not_know_ends_it_and_so_does_another_module() {
        let why = |file: String| Options::read(&file).unwrap_err();
        assert!(why(format!("{FILE}Workers = 2\n")).why.contains("unknown config directive: Workers"));
        assert_eq!(why(FILE.replace("get_apiserver()", "app")).code, 22);
        assert!(why(FILE.replace("die-on-term = true\n", "")).why.contains("die-on-term"));
        assert_eq!(why(FILE.replace("workers = 3", "workers = 0")).why, "ValueError: workers");
    }
}
