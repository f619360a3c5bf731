//! Users, virtual hosts and policies of a server that runs: it reads its file only when it starts, and what it has read is the whole
//! cluster's. Connections that are open stay open, whatever becomes of the password they were opened with (RabbitMQ, "Schema Definition Export
//! and Import").

use std::{path::PathBuf, time::Duration};

use serde_json::json;
use tokio::time::sleep;

use super::TOOLS_PATIENCE;
use crate::{command::Commands, log, process, set::Set};

/// Between two attempts.
const PERIOD: Duration = Duration::from_secs(1);

/// Ends when the server beside the agent has taken the file.
pub async fn import(file: PathBuf, set: Set, commands: Commands) {
    let argv = ["rabbitmqctl", "import_definitions", &file.to_string_lossy()].map(str::to_owned);
    let mut trouble = None;
    loop {
        let Err(error) = commands.run(process::command(&argv, &set), TOOLS_PATIENCE).await else { return };
        let now = format!("{error:#}");
        if trouble.as_ref() != Some(&now) {
            log::warn("the server has not taken its definitions yet", &json!({"why": now}));
            trouble = Some(now);
        }
        sleep(PERIOD).await;
    }
}
