//! Has a running daemon log more or less than it did, for which it need not be started anew. Its files say the same for its next start.

use std::{net::IpAddr, time::Duration};

use anyhow::{Result, bail, ensure};
use serde_json::json;
use tf_plan::node::launch::{Level, Tell};
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
/// Between two attempts, and how many there are. Whoever waits to be elected has no port open, and loses nothing when it is started anew.
const PERIOD: Duration = Duration::from_secs(1);
const ATTEMPTS: usize = 5;

/// What became of what a daemon was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It goes by it.
    Taken,
    /// It does not listen.
    Unheard,
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
) -> Option<impl Future<Output = Told> + Send + use<>> {
    let (before, level) = (former.launch.level.as_ref()?, set.launch.level.clone()?);
    if is_taken && before.value == level.value {
        return None;
    }
    let (set, paths, commands) = (set.clone(), paths.clone(), commands.clone());
    Some(async move {
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            match once(&level, &set, address, &paths, &commands).await {
                Ok(()) => return Told::Taken,
                Err(error) => why = format!("{error:#}"),
            }
            sleep(PERIOD).await;
        }
        log::warn("the daemon cannot be told its log level", &json!({"level": level.value, "why": why}));
        Told::Unheard
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
