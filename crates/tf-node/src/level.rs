//! Has a running daemon log more or less than it did, for which it need not be started anew. Its files say the same for its next start.

use std::{io, net::IpAddr, time::Duration};

use anyhow::{Result, bail, ensure};
use serde_json::json;
use tf_agent_api::launch::{Launch, Level, Probe, Tell};
use tokio::time::{sleep, timeout};

use crate::{
    command::Commands,
    log,
    paths::Paths,
    probe::{Target, http::Connection},
    process,
    set::Set,
    store::{Store, redis},
};

/// For an answer, and for a command: tools in Java and Erlang take their time.
const PATIENCE: Duration = Duration::from_secs(5);
const TOOLS_PATIENCE: Duration = Duration::from_mins(1);
/// Between two attempts, and how many there are.
const PERIOD: Duration = Duration::from_secs(1);
const ATTEMPTS: usize = 5;
/// Between two attempts at a daemon that opens its port when it is elected.
const STANDBY_PERIOD: Duration = Duration::from_secs(5);

/// What became of what a daemon was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelChange {
    /// It goes by it.
    Taken,
    /// It does not listen.
    Unanswered,
    /// It opens its port when it is elected. A restart would put the election znode of its new process behind that of the former one, which lasts
    /// for a session of ZooKeeper (ADR 0067).
    Standby,
}

/// Whether the daemon has no port to be asked at until it is elected.
pub fn waits_for_election(launch: &Launch) -> bool {
    let elected = |probe: &Probe| matches!(probe, Probe::NodeStatus { elected: true, .. });
    let asked = launch.level.as_ref().is_some_and(|level| matches!(level.tell, Tell::Introspection { .. }));
    asked && (elected(&launch.ready) || launch.alive.as_ref().is_some_and(elected))
}

/// Sets the level of a standby as soon as it has a port.
pub fn once_elected(
    set: &Set,
    address: IpAddr,
    paths: &Paths,
    commands: &Commands,
) -> Option<impl Future<Output = ()> + Send + use<>> {
    let level = set.launch.level.clone()?;
    let (set, paths, commands) = (set.clone(), paths.clone(), commands.clone());
    Some(async move {
        while let Err(_closed) = once(&level, &set, address, &paths, &commands).await {
            sleep(STANDBY_PERIOD).await;
        }
        log::info("the daemon has its log level", &json!({"level": level.value}));
    })
}

fn is_refused(error: &anyhow::Error) -> bool {
    let refused = |cause: &io::Error| cause.kind() == io::ErrorKind::ConnectionRefused;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(refused)
}

/// What there is to do beside a daemon that runs, until it has the level of its set; none if that is the former one's, by which it goes if
/// `is_taken`.
pub fn tell(
    former: &Set,
    is_taken: bool,
    set: &Set,
    address: IpAddr,
    paths: &Paths,
    commands: &Commands,
) -> Option<impl Future<Output = LevelChange> + Send + use<>> {
    let (before, level) = (former.launch.level.as_ref()?, set.launch.level.clone()?);
    if is_taken && before.value == level.value {
        return None;
    }
    let (set, paths, commands) = (set.clone(), paths.clone(), commands.clone());
    Some(async move {
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            match once(&level, &set, address, &paths, &commands).await {
                Ok(()) => return LevelChange::Taken,
                Err(error) if is_refused(&error) && waits_for_election(&set.launch) => return LevelChange::Standby,
                Err(error) => why = format!("{error:#}"),
            }
            sleep(PERIOD).await;
        }
        log::warn("the log level of the daemon cannot be changed", &json!({"level": level.value, "why": why}));
        LevelChange::Unanswered
    })
}

async fn once(level: &Level, set: &Set, address: IpAddr, paths: &Paths, commands: &Commands) -> Result<()> {
    let value = &level.value;
    match &level.tell {
        Tell::Introspection { port, tls } => {
            let target = Target { host: address, port: port.get(), tls: *tls };
            let path = format!(
                "/Snh_SandeshLoggingParamsSet?enable=&category=&log_level={value}&trace_print=&enable_flow_log="
            );
            let asked = async { Connection::open(&target, paths).await?.get(&path, None).await };
            let (status, _) = timeout(PATIENCE, asked).await??;
            ensure!(status.is_success(), "SandeshLoggingParamsSet: status {}", status.as_u16());
            Ok(())
        }
        Tell::Command { argv } => {
            commands.run(process::command(argv, set), TOOLS_PATIENCE).await?;
            Ok(())
        }
        Tell::Redis => {
            let Some(Store::Redis(server)) = Store::of(&set.launch, address) else { bail!("the daemon is no Redis") };
            timeout(PATIENCE, redis::log(&server, value, paths)).await?
        }
    }
}
