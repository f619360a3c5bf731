//! The command line: the name it is called by is the daemon's, and so are the arguments.

use std::future::pending;
use std::{env, ffi::OsString, fs, path::Path, process::ExitCode, sync::Arc};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    time::sleep,
};

use crate::{
    analytics,
    api::{self, Api},
    collector, control,
    device_manager::{self, Mode},
    dnsmasq,
    elected::{self, Mandate},
    exit::{Exit, exception, usage},
    hangup, keystone, kubernetes, log,
    module::{loader, vif},
    options::{Daemon, Options},
    status::{Peer, Status},
    unkind::{self, Unkind},
    uwsgi, vrouter, webui,
};

/// Exit code of what is not played.
const UNKNOWN: u8 = 127;
const DNSMASQ: &str = "dnsmasq";

/// Plays the daemon until it ends by itself or is asked to.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = env::args_os().map(OsString::into_string).filter_map(Result::ok).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(play(&arguments)),
        Err(error) => Err(exception(error.to_string())),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            log::say(&exit.why);
            ExitCode::from(exit.code)
        }
    }
}

async fn play(arguments: &[String]) -> Result<(), Exit> {
    let name = |path: &String| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let mut arguments = arguments.iter().peekable();
    arguments.next_if(|first| name(first).as_deref() == Some(env!("CARGO_PKG_NAME")));
    let called = arguments.next().and_then(name).unwrap_or_default();
    let arguments: Vec<String> = arguments.cloned().collect();
    let mut ended = signal(SignalKind::terminate()).map_err(|error| exception(error.to_string()))?;
    if is_python(&called) {
        Unkind::of_environment().map_err(|error| usage(error.to_string()))?.begin();
    }
    let (exit, mut exits) = mpsc::channel(1);
    let mandate = Mandate::default();
    let played = async {
        // Workers are slow, each by itself, and what runs them is not.
        if called != uwsgi::NAME {
            sleep(unkind::own().imports()).await;
        }
        if called == vif::NAME {
            let printed = vif::run(&arguments).map_err(|error| exception(error.to_string()))?;
            print!("{printed}");
            return Ok(());
        }
        if loader::NAMES.contains(&called.as_str()) {
            return loader::run(&called, &arguments).map_err(|error| exception(error.to_string()));
        }
        if called == vrouter::cni::NAME {
            let (printed, is_done) = vrouter::cni::run().await;
            print!("{printed}");
            return if is_done { Ok(()) } else { Err(exception("the pod is not connected")) };
        }
        if called == DNSMASQ {
            dnsmasq::run(&arguments).await?;
        } else if called == vrouter::NAME {
            vrouter::run(&arguments).await?;
        } else if called == keystone::NAME {
            keystone::run(&arguments).await?;
        } else if called == uwsgi::NAME {
            uwsgi::run(&arguments, &exit).await?;
        } else if called == webui::NAME {
            webui::run(&arguments).await?;
        } else if called == control::named::NAME {
            control::named::run(&arguments).await?;
        } else if called == kubernetes::NAME {
            kubernetes::run(&arguments, &mandate, &exit).await?;
        } else if let Some(daemon) = control::options::Daemon::ALL.into_iter().find(|daemon| daemon.name() == called) {
            control::run(daemon, &arguments).await?;
        } else if let Some(daemon) = analytics::options::Daemon::ALL.into_iter().find(|daemon| daemon.name() == called)
        {
            analytics::run(daemon, &arguments, &exit).await?;
        } else if let Some(daemon) = Daemon::ALL.into_iter().find(|daemon| daemon.name() == called) {
            start(daemon, &arguments, &mandate, &exit).await?;
        } else {
            return Err(Exit { code: UNKNOWN, why: format!("tf-sim does not play {called:?}") });
        }
        pending().await
    };
    let result = tokio::select! {
        result = played => result,
        // It may go wrong before everything has begun, too.
        Some(exit) = exits.recv() => Err(exit),
        () = asked_to_end(&mut ended, &called) => Ok(()),
    };
    mandate.resign().await;
    result
}

/// Whether a daemon is one in Python, which takes its time.
fn is_python(called: &str) -> bool {
    let is_of_analytics =
        analytics::options::Daemon::ALL.into_iter().any(|daemon| daemon.name() == called && !daemon.is_native());
    is_of_analytics
        || [uwsgi::NAME, kubernetes::NAME].contains(&called)
        || Daemon::ALL.into_iter().any(|daemon| daemon.name() == called)
}

/// Returns at SIGTERM. The handlers of contrail-device-manager stop its parts alone, and none of its processes ends (seen).
async fn asked_to_end(ended: &mut Signal, called: &str) {
    while ended.recv().await.is_some() && called == Daemon::DeviceManager.name() {
        log::say("SIGTERM: its parts are stopped");
    }
}

/// A file that is not there is passed over, as by Python's parser.
fn texts(files: &[String]) -> Vec<String> {
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
}

async fn start(daemon: Daemon, arguments: &[String], mandate: &Mandate, exit: &mpsc::Sender<Exit>) -> Result<(), Exit> {
    let Called { files, worker, mode } = Called::read(daemon, arguments)?;
    let Started { options, status, node } = Started::read(daemon, &files, worker)?;
    if daemon == Daemon::DeviceManager && mode.is_none() {
        // It has no port that could say anything.
        return device_manager::stand(&options, &status, arguments, exit).await;
    }
    let collectors = options.collectors.clone();
    let collectors = match daemon {
        Daemon::Api => hangup::followed(collectors, move || Ok(Options::read(daemon, &texts(&files))?.collectors))?,
        // Some read them again once they are elected; it would end the others.
        _ => hangup::fixed(collectors),
    };
    tokio::spawn(collector::report(collectors, options.collector_tls.clone(), Arc::clone(&status)));
    match daemon {
        Daemon::Api => api::run(&options, &status, &node, exit).await,
        Daemon::DeviceManager => device_manager::work(&options, &status, &node, mode.unwrap_or_default(), exit).await,
        Daemon::Schema | Daemon::SvcMonitor => elected::run(&options, &status, &node, mandate, exit).await,
    }
}

/// What a command line says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Called {
    files: Vec<String>,
    worker: Option<String>,
    mode: Option<Mode>,
}

impl Called {
    /// Arguments are put into one text and parted at blanks before they are read (upstream `main`), and of an option that is there twice the last counts.
    fn read(daemon: Daemon, arguments: &[String]) -> Result<Self, Exit> {
        let mut called = Self::default();
        let text = arguments.join(" ");
        let mut rest = text.split_whitespace();
        while let Some(argument) = rest.next() {
            let value = rest.next().ok_or_else(|| usage(format!("argument {argument}: expected one argument")))?;
            match argument {
                "--conf_file" | "-c" => called.files.push(value.to_owned()),
                "--worker_id" if daemon == Daemon::Api => called.worker = Some(value.to_owned()),
                Mode::OPTION if daemon == Daemon::DeviceManager => called.mode = Mode::read(value),
                _ => return Err(usage(format!("unrecognized arguments: {argument}"))),
            }
        }
        Ok(called)
    }
}

/// A daemon that has read its files.
pub(crate) struct Started {
    options: Options,
    status: Arc<Status>,
    node: String,
}

impl Started {
    /// One with these files. `worker`: its number, if the command line says that.
    fn read(daemon: Daemon, files: &[String], worker: Option<String>) -> Result<Self, Exit> {
        let options = Options::read(daemon, &texts(files))?;
        // Members of the API come to the database one after the other, and say nothing of it before (seen).
        let mut peers = vec![Peer::Zookeeper];
        peers.extend([Peer::Cassandra, Peer::RabbitMq].into_iter().filter(|_| daemon != Daemon::Api));
        // Without collectors nobody waits for one (docs/upstream/daemons.md#without-collectors).
        peers.extend((!options.collectors.is_empty()).then_some(Peer::Collector));
        peers.extend((daemon != Daemon::Api).then_some(Peer::ApiServer));
        peers.extend(options.guard.as_ref().map(|_| Peer::Keystone));
        let node = env::var("NODE_NAME").unwrap_or_else(|_| "localhost".into());
        let worker = worker.unwrap_or_else(|| options.worker.clone());
        let status = Arc::new(Status::new(daemon.name(), &worker, &node, &peers));
        Ok(Self { options, status, node })
    }

    /// A worker of the API, which reports to collectors. SIGHUP is uWSGI's own.
    pub(crate) fn worker(files: &[String]) -> Result<Self, Exit> {
        let started = Self::read(Daemon::Api, files, None)?;
        let Self { options, status, .. } = &started;
        let collectors = hangup::fixed(options.collectors.clone());
        tokio::spawn(collector::report(collectors, options.collector_tls.clone(), Arc::clone(status)));
        Ok(started)
    }

    /// Connects it to its stores.
    pub(crate) async fn load(&self, exit: &mpsc::Sender<Exit>) -> Result<Arc<Api>, Exit> {
        api::load(&self.options, &self.status, &self.node, exit).await
    }

    /// Puts its database in order.
    pub(crate) async fn serve(&self, api: &Api) -> Result<(), Exit> {
        api::serve(&self.options, api, &self.node).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(daemon: Daemon, arguments: &[&str]) -> Result<Called, Exit> {
        Called::read(daemon, &arguments.iter().map(|&it| it.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_mode_of_a_device_manager_comes_in_one_argument_and_the_last_one_counts() {
        let of = |arguments: &[&str]| called(Daemon::DeviceManager, arguments).unwrap();
        let file = ["--conf_file", "/a.conf"];
        assert_eq!(of(&file), Called { files: vec!["/a.conf".into()], ..Called::default() });
        let partial = [&file[..], &["--dm_run_mode Partial"]].concat();
        assert_eq!(of(&partial).mode, Some(Mode::Partial));
        assert_eq!(of(&[&partial[..], &["--dm_run_mode Full"]].concat()).mode, Some(Mode::Full));
        assert_eq!(called(Daemon::Schema, &["--dm_run_mode Full"]).unwrap_err().code, 2);
        assert_eq!(called(Daemon::Schema, &["--conf_file"]).unwrap_err().code, 2);
    }

    #[test]
    fn daemons_in_python_take_their_time() {
        for python in ["contrail-api", "uwsgi", "contrail-kube-manager", "tf-topology", "contrail-analytics-api"] {
            assert!(is_python(python), "{python}");
        }
        for other in ["contrail-control", "contrail-collector", "contrail-query-engine", "dnsmasq", "node", "keystone"]
        {
            assert!(!is_python(other), "{other}");
        }
    }
}
