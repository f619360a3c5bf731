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
/// For the longest attempt. Each has twice as long as the one before it: on a node whose processors are busy a tool that is always ended after the same time may
/// never end by itself, while clients with the former password keep the processors busy.
const LONGEST: Duration = Duration::from_mins(5);

/// Ends when the server beside the agent has taken the file.
pub async fn import(file: PathBuf, set: Set, commands: Commands) {
    let argv = ["rabbitmqctl", "import_definitions", &file.to_string_lossy()].map(str::to_owned);
    let (mut trouble, mut patience) = (None, TOOLS_PATIENCE);
    loop {
        let Err(error) = commands.run_urgently(process::command(&argv, &set), patience).await else { return };
        patience = LONGEST.min(2 * patience);
        let now = format!("{error:#}");
        if trouble.as_ref() != Some(&now) {
            log::warn("the server has not taken its definitions yet", &json!({"why": now}));
            trouble = Some(now);
        }
        sleep(PERIOD).await;
    }
}
