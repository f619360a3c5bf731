//! contrail-device-manager, which is two processes (upstream `dm_server.py`). The one that is started stands in line, opens no port, and has a child: on a
//! standby one that runs in part, with its message bus and database, and where it is elected one that runs in full, whose introspect port is the
//! daemon's. Who is elected kills every other process of that name beside it, whatever that does just then. Neither process ends at SIGTERM, so its place in
//! line stays for the rest of its session.

use std::{
    env, fs,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::{
    process::{Child, Command},
    sync::mpsc,
    time::sleep,
};

use crate::{
    client::ApiClient,
    elected,
    exit::{Exit, exception},
    introspect,
    library::Library,
    log,
    options::{Daemon, Options},
    status::Status,
    stores::{cassandra::Database, rabbitmq::Bus, zookeeper},
    tables, unkind,
};

/// How often a child that runs in part is looked at before its parent stands in line, and what passes between two looks.
const LOOKS: u32 = 3;
const PERIOD: Duration = Duration::from_secs(5);
/// Between two looks at a child that runs in full.
const FULL_PERIOD: Duration = Duration::from_secs(10);
/// Exit code of a parent whose child has ended.
const ORPHANED: u8 = 2;

/// How a child runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Without what the elected one does.
    Partial,
    /// With everything.
    #[default]
    Full,
}

impl Mode {
    /// The option that says it.
    pub const OPTION: &str = "--dm_run_mode";

    /// The mode of this name. Every other text means none.
    pub fn read(text: &str) -> Option<Self> {
        [Self::Partial, Self::Full].into_iter().find(|mode| mode.name() == text)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Partial => "Partial",
            Self::Full => "Full",
        }
    }
}

/// Plays the process that stands in line, until it ends by itself.
///
/// # Errors
/// What ends it.
pub async fn stand(
    options: &Options,
    status: &Arc<Status>,
    arguments: &[String],
    exit: &mpsc::Sender<Exit>,
) -> Result<(), Exit> {
    let failed = |error: anyhow::Error| exception(format!("{error:#}"));
    let client = zookeeper::connect(options.zookeeper.as_deref(), options.session, status).await;
    let servers = options.zookeeper.clone().unwrap_or_default();
    let line = zookeeper::Line::standing();
    tokio::spawn(zookeeper::watch(client.clone(), servers, Arc::clone(status), exit.clone(), line.clone()));
    let mut arguments = arguments.to_vec();
    // A namesake is taken for one that is elected.
    if namesakes().is_empty() {
        let mut child = start(&mut arguments, Mode::Partial)?;
        for _ in 0..LOOKS {
            sleep(unkind::own().pause(PERIOD)).await;
            alive(&mut child)?;
        }
    }
    log::say("waits to be elected");
    let process = getpid().as_raw_nonzero().to_string();
    zookeeper::lead(&client, options.daemon.election(), &process).await.map_err(failed)?;
    line.leave();
    log::say("is elected");
    for namesake in namesakes() {
        let _ = kill_process(namesake, Signal::KILL);
    }
    let mut child = start(&mut arguments, Mode::Full)?;
    loop {
        sleep(FULL_PERIOD).await;
        alive(&mut child)?;
    }
}

/// Starts a child, by an argument more than there were so far: they become more each time.
fn start(arguments: &mut Vec<String>, mode: Mode) -> Result<Child, Exit> {
    arguments.push(format!("{} {}", Mode::OPTION, mode.name()));
    let own = env::current_exe().map_err(|error| exception(error.to_string()))?;
    let mut command = Command::new(own);
    command.arg0(Daemon::DeviceManager.name()).args(arguments).stdin(Stdio::null());
    command.spawn().map_err(|error| exception(format!("OSError: {error}")))
}

/// Whether a child is still there.
fn alive(child: &mut Child) -> Result<(), Exit> {
    let ended = child.try_wait().map_err(|error| exception(error.to_string()))?;
    ended.map_or(Ok(()), |status| Err(orphaned(status)))
}

fn orphaned(status: ExitStatus) -> Exit {
    Exit { code: ORPHANED, why: format!("its child has ended: {status}") }
}

/// Other processes in whose command line the daemon's name is, as far as this one sees any.
fn namesakes() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let processes = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    let others = processes.filter(|process| *process != getpid());
    let line = |process: &Pid| fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).unwrap_or_default();
    others.filter(|process| is_namesake(&line(process))).collect()
}

fn is_namesake(line: &[u8]) -> bool {
    let name = Daemon::DeviceManager.name().as_bytes();
    line.windows(name.len()).any(|part| part == name)
}

/// Plays a child until it ends by itself.
///
/// # Errors
/// What ends it.
pub async fn work(
    options: &Options,
    status: &Arc<Status>,
    node: &str,
    mode: Mode,
    exit: &mpsc::Sender<Exit>,
) -> Result<(), Exit> {
    let bus = Bus::new(&options.rabbitmq, format!("device-manager.{node}"), status);
    tokio::spawn(bus.run(exit.clone()));
    let client = zookeeper::connect(options.zookeeper.as_deref(), options.session, status).await;
    let (servers, line) = (options.zookeeper.clone().unwrap_or_default(), zookeeper::Line::default());
    tokio::spawn(zookeeper::watch(client.clone(), servers, Arc::clone(status), exit.clone(), line));
    let database = Database::connect(&options.cassandra, status).await?;
    tables::make(options.daemon, &database, &client, node).await?;
    elected::watch(options.daemon, database);
    log::say(&format!("runs: {}", mode.name()));
    if mode == Mode::Partial {
        return Ok(());
    }
    let api = ApiClient::new(options.api.clone(), &Library::read()?, &options.login)?;
    introspect::open(options, status).await?;
    elected::begin(api, status).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_names_and_other_names_mean_none() {
        for mode in [Mode::Partial, Mode::Full] {
            assert_eq!(Mode::read(mode.name()), Some(mode));
        }
        assert_eq!((Mode::read("full"), Mode::read("")), (None, None));
    }

    #[test]
    fn who_has_the_name_in_its_command_line_is_a_namesake() {
        assert!(is_namesake(b"contrail-device-manager\0--conf_file\0/a\0"));
        assert!(is_namesake(b"python3\0/usr/bin/contrail-device-manager\0"));
        assert!(!is_namesake(b"contrail-schema\0") && !is_namesake(b"tf-node\0run\0devicemanager\0"));
    }
}
