//! `tf-node copy`: starts a Redis server as what the other members say it is (`tf_agent_api::redis::start`). It is the daemon of its launch
//! file, and becomes the server.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use tf_agent_api::{
    redis::{self, Replication, Start},
    release::Line,
};
use tf_host::atomic;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{Server, sentinel, waits_file};
use crate::{log, materialise::RunDir, paths::Paths, pod::Pod, store::Store};

/// The program, which is a Sentinel as well.
const SERVER: &str = "redis-server";
/// The first line that takes the configuration: earlier ones know no channels in access lists, do not let Sentinels log in as a user, and pause all
/// clients alike (Redis, release notes of 6.2).
const FIRST: Line = Line { major: 6, minor: 2 };
/// For the answer of one Sentinel.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two rounds.
const PACE: Duration = Duration::from_millis(500);

/// Waits until it is known whom the server copies, and becomes it. `config`: its configuration.
///
/// # Errors
/// When it cannot be started.
pub async fn copy(paths: &Paths, daemon: &str, config: &str) -> Result<ExitCode> {
    let pod = Pod::from_environment()?;
    let file = waits_file(paths);
    let mut told = String::new();
    let unfit = version().as_deref().and_then(unfit);
    loop {
        // Members may come while it waits.
        let set = RunDir::new(paths.run_dir()).load(daemon)?.context("the daemon was never started")?;
        let Some(Store::Redis(Server { target, replication: Some(replication) })) = Store::of(&set.launch, pod.address)
        else {
            bail!("the daemon is no Redis server that copies others");
        };
        let start = match &unfit {
            Some(why) => Start::Wait(why.clone()),
            None => redis::start(pod.address, &replication, &ask(&replication, paths).await),
        };
        match start {
            Start::Copy(master) => {
                let _ = fs::remove_file(&file);
                log::info("starts as a copy", &json!({"of": master}));
                let mut server = Command::new(SERVER);
                server.args([config, "--replicaof", &master.to_string(), &target.port.to_string()]);
                bail!("start {SERVER}: {}", server.exec());
            }
            Start::Wait(why) if why != told => {
                log::info("the server is not started yet", &json!({"why": why}));
                atomic::replace(&file, why.as_bytes(), 0o640)?;
                told = why;
            }
            Start::Wait(_) => {}
        }
        sleep(PACE).await;
    }
}

/// What the program says of its release, if it is there.
fn version() -> Option<String> {
    let output = Command::new(SERVER).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Why a server that says this of its release (`Redis server v=7.0.15 sha=00000000:0 ...`) is not started: it would end at once, and the reason would
/// be in its log alone.
fn unfit(said: &str) -> Option<String> {
    let release = said.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    (Line::of(release)? < FIRST).then(|| {
        format!("is not started: mode Sentinel needs Redis {FIRST} or later, and the image has {release}; state another image for container redis")
    })
}

/// What the Sentinels of all members say. Those that do not answer are missing.
async fn ask(replication: &Replication, paths: &Paths) -> BTreeMap<std::net::IpAddr, redis::Sentinel> {
    let mut asked = JoinSet::new();
    for member in replication.members.iter().copied() {
        let (replication, paths) = (replication.clone(), paths.clone());
        asked.spawn(async move {
            let said = timeout(PATIENCE, sentinel::says(member, &replication, &paths)).await;
            Some((member, said.ok()?.ok()?))
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_that_cannot_be_told_to_copy_is_not_started_and_says_which_one_can() {
        let said = |release: &str| format!("Redis server v={release} sha=00000000:0 malloc=jemalloc-5.2.1 bits=64");
        assert_eq!(
            unfit(&said("6.0.19")).as_deref(),
            Some(
                "is not started: mode Sentinel needs Redis 6.2 or later, and the image has 6.0.19; state another image \
                 for container redis"
            )
        );
        for fit in ["6.2.0", "7.0.15", "8.0.2", "255.255.255"] {
            assert_eq!(unfit(&said(fit)), None, "{fit}");
        }
        // The server itself says more then.
        assert_eq!(unfit("sh: something else"), None);
    }
}
