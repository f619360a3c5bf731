//! Who belongs to the cluster: what takes RabbitMQ's own command line tools, since its management plugin cannot do it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tf_agent_api::rabbitmq::{Membership, few};

use super::{super::Failure, Management, Server, TOOLS_PATIENCE, flags, queues};
use crate::{command::Commands, materialise::RunDir, process, set::Set, state_file};

/// Queues in one pattern: an argument is not longer than 128 KiB, and a name than 255 bytes.
const AT_ONCE: usize = 100;

/// A virtual host as `rabbitmqctl` lists it.
#[derive(Deserialize)]
struct Vhost {
    name: String,
}

/// A queue as `rabbitmqctl` lists it. What a queue has none of is an empty text.
#[derive(Deserialize)]
struct Queue {
    name: String,
    durable: bool,
    exclusive: bool,
    #[serde(default)]
    synchronised_slave_pids: Value,
    #[serde(default)]
    members: Value,
}

impl Queue {
    const COLUMNS: [&str; 5] = ["name", "durable", "exclusive", "synchronised_slave_pids", "members"];

    /// Whether its messages are on one node and nowhere else, and outlive its process.
    fn is_alone(&self) -> bool {
        let count = |list: &Value| list.as_array().map_or(0, Vec::len);
        self.durable && !self.exclusive && count(&self.synchronised_slave_pids) == 0 && count(&self.members) < 2
    }
}

/// Makes a change.
///
/// # Errors
/// When it was not made.
pub async fn change(change: &Membership, server: &Server<'_>, commands: &Commands) -> Result<(), Failure> {
    let set = RunDir::new(server.paths.run_dir()).load(server.daemon)?.context("the server was never started")?;
    let tools = Tools { commands, set: &set };
    match change {
        Membership::Leave => leave(server, &tools).await,
        Membership::Forget { name } => forget(name, server, &tools).await,
        Membership::ImportDefinitions => {
            let file = server.definitions.context("the server has no definitions")?.to_string_lossy();
            Ok(tools.run(&["rabbitmqctl", "import_definitions", &file]).await.map(drop)?)
        }
        Membership::Grow => grow(server, &tools).await,
        Membership::EnableFlags => {
            let release = Management::open(server.target, server.paths).await?.overview().await?.rabbitmq_version;
            if flags::are_enabled(server.data, &release).is_none() {
                return Err(Failure::Refused(format!("flags of {release} are not enabled by itself")));
            }
            tools.run(&["rabbitmqctl", "enable_feature_flag", "all"]).await?;
            Ok(flags::note(server.data, &release)?)
        }
    }
}

struct Tools<'a> {
    commands: &'a Commands,
    set: &'a Set,
}

impl Tools<'_> {
    async fn run(&self, argv: &[&str]) -> Result<String> {
        let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
        self.commands.run(process::command(&argv, self.set), TOOLS_PATIENCE).await
    }

    /// What `rabbitmqctl` lists.
    async fn list<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<Vec<T>> {
        let argv = [&["rabbitmqctl", "--quiet", "--formatter", "json"], arguments].concat();
        serde_json::from_str(&self.run(&argv).await?).with_context(|| argv.join(" "))
    }
}

/// It is marked before anything is done: whatever becomes of the rest, it is known not to serve as the others do, and is asked again or started anew. Each
/// part may be done once more.
async fn leave(server: &Server<'_>, tools: &Tools<'_>) -> Result<(), Failure> {
    has_nothing_alone("--local", tools).await?;
    state_file::mark_draining(server.paths, server.daemon)?;
    if let Some(drain) = &tools.set.launch.drain {
        let patience = Duration::from_secs(drain.seconds.into());
        tools.commands.run(process::command(&drain.argv, tools.set), patience).await?;
    }
    Ok(tools.run(&["rabbitmqctl", "stop_app"]).await.map(drop)?)
}

async fn forget(name: &str, server: &Server<'_>, tools: &Tools<'_>) -> Result<(), Failure> {
    let mut management = Management::open(server.target, server.paths).await?;
    match management.nodes().await?.iter().find(|node| node.name == name) {
        None => return Ok(()),
        Some(node) if node.running => return Err(Failure::Refused(format!("{name} runs"))),
        Some(_) => {}
    }
    has_nothing_alone("--offline", tools).await?;
    // Otherwise it stays a member of quorum queues (docs/upstream/rabbitmq.md#quorum-queues).
    tools.run(&["rabbitmq-queues", "shrink", name]).await?;
    Ok(tools.run(&["rabbitmqctl", "forget_cluster_node", name]).await.map(drop)?)
}

/// Has the server hold the quorum queues that are on too few nodes, which it does not do by itself (RabbitMQ, "Quorum Queues"). Those that it holds
/// stay as they are.
async fn grow(server: &Server<'_>, tools: &Tools<'_>) -> Result<(), Failure> {
    let mut management = Management::open(server.target, server.paths).await?;
    let own = management.overview().await?.node;
    let nodes = management.nodes().await?.len();
    let clients = server.definitions.and_then(|file| queues::clients(file, server.paths));
    let clients = clients.context("the server has no definitions")?;
    let short = queues::short(&mut management, &clients.vhost, &own, nodes).await?;
    let vhost = exactly([clients.vhost]);
    for some in short.chunks(AT_ONCE) {
        let queues = exactly(some);
        let patterns = ["--vhost-pattern", &vhost, "--queue-pattern", &queues];
        tools.run(&[&["rabbitmq-queues", "grow", &own, "all"], &patterns[..]].concat()).await?;
    }
    Ok(())
}

/// A pattern for these names and no other (PCRE).
fn exactly(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let escaped = |character: char| match character {
        _ if character.is_ascii_alphanumeric() || !character.is_ascii() => String::from(character),
        _ => format!("\\x{:02x}", u32::from(character)),
    };
    let names: Vec<String> = names.into_iter().map(|name| name.as_ref().chars().map(escaped).collect()).collect();
    format!("^(?:{})\\z", names.join("|"))
}

/// Fails if queues have their messages on one node alone, of those that are on this node (`--local`) or on nodes that do not run
/// (`--offline`). The management plugin shows queues of virtual hosts to whom they are open; these are all of them.
async fn has_nothing_alone(which: &str, tools: &Tools<'_>) -> Result<(), Failure> {
    let mut alone: Vec<String> = Vec::new();
    for Vhost { name: vhost } in tools.list(&["list_vhosts", "name"]).await? {
        let arguments = [&["--vhost", &vhost, "list_queues", which][..], &Queue::COLUMNS].concat();
        let queues: Vec<Queue> = tools.list(&arguments).await?;
        alone.extend(queues.iter().filter(|queue| queue.is_alone()).map(|queue| format!("{vhost}/{}", queue.name)));
    }
    if alone.is_empty() {
        return Ok(());
    }
    let alone = few(&alone, alone.len());
    Err(Failure::Refused(format!(
        "queues have their messages there alone: {alone}; mirror them by a policy, or delete them"
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pattern_is_for_these_names_and_no_other() {
        assert_eq!(exactly(["a.b", "ä(1)"]), r"^(?:a\x2eb|ä\x281\x29)\z");
    }

    #[test]
    fn a_queue_is_alone_if_its_messages_are_nowhere_else_and_would_outlive_its_node() {
        // As 3.10.8 lists them.
        let classic =
            json!({"name": "q", "durable": true, "exclusive": false, "synchronised_slave_pids": "", "members": ""});
        let cases = [
            (json!({}), true),
            (json!({"synchronised_slave_pids": []}), true),
            (json!({"synchronised_slave_pids": ["#PID<1.2.3>"]}), false),
            (json!({"members": ["rabbit@a"]}), true),
            (json!({"members": ["rabbit@a", "rabbit@b"]}), false),
            (json!({"durable": false}), false),
            (json!({"exclusive": true}), false),
        ];
        for (more, alone) in cases {
            let mut queue = classic.clone();
            queue.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let queue: Queue = serde_json::from_value(queue).unwrap();
            assert_eq!(queue.is_alone(), alone, "{more}");
        }
    }
}
