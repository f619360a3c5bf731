//! `tf-node drain`: takes a daemon out of service before it is stopped (`preStop`).

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use rustix::process::Pid;
use serde_json::json;
use tokio::time::timeout;

use crate::{log, materialise::RunDir, paths::Paths, process, state_file};

/// From here on the daemon counts as not serving and is not started again in this container, whether its command succeeds or
/// not: the kubelet goes on to stop it. One that is out of service already stays as it is.
pub async fn drain(paths: &Paths, daemon: &str) -> Result<ExitCode> {
    if state_file::is_draining(paths, daemon) {
        return Ok(ExitCode::SUCCESS);
    }
    state_file::mark_draining(paths, daemon)?;
    let set = RunDir::new(paths.run_dir()).load(daemon)?;
    let Some((set, drain)) = set.as_ref().and_then(|set| Some((set, set.launch.drain.as_ref()?))) else {
        return Ok(ExitCode::SUCCESS);
    };
    let program = &drain.argv[0];
    let mut child = tokio::process::Command::from(process::command(&drain.argv, set))
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {program}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let ended = timeout(Duration::from_secs(drain.seconds.into()), child.wait()).await;
    let fields = |result: &str| json!({"daemon": daemon, "program": program, "result": result});
    match ended {
        Ok(status) if status.as_ref().is_ok_and(std::process::ExitStatus::success) => {
            log::info("drained", &fields("success"));
            Ok(ExitCode::SUCCESS)
        }
        Ok(status) => {
            log::warn("not drained", &fields(&status?.to_string()));
            Ok(ExitCode::FAILURE)
        }
        Err(_) => {
            group.inspect(|group| process::kill_group(*group));
            log::warn("not drained", &fields(&format!("not finished within {} s", drain.seconds)));
            Ok(ExitCode::FAILURE)
        }
    }
}
