//! `tf-node copy`: starts a Redis server as what the other members say it is (`tf_plan::node::redis::start`). It is the daemon of its launch
//! file, and becomes the server.

use std::{collections::BTreeMap, fs, os::unix::process::CommandExt as _, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use tf_plan::node::redis::{self, Replication, Start};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{Server, sentinel, waits_file};
use crate::{atomic, log, materialise::RunDir, paths::Paths, pod::Pod, store::Store};

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
    loop {
        // Members may come while it waits.
        let set = RunDir::new(paths.run_dir()).load(daemon)?.context("the daemon was never started")?;
        let Some(Store::Redis(Server { target, replication: Some(replication) })) = Store::of(&set.launch, pod.address)
        else {
            bail!("the daemon is no Redis server that copies others");
        };
        match redis::start(pod.address, &replication, &ask(&replication, paths).await) {
            Start::Copy(master) => {
                let _ = fs::remove_file(&file);
                log::info("starts as a copy", &json!({"of": master}));
                let mut server = std::process::Command::new("redis-server");
                server.args([config, "--replicaof", &master.to_string(), &target.port.to_string()]);
                bail!("start redis-server: {}", server.exec());
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
