//! A RabbitMQ server by its management plugin (RabbitMQ, "Management HTTP API" and "Health Checks"), and by what it has on its disk.

mod data;
pub mod definitions;
mod flags;
pub mod membership;
mod mirrors;
pub mod queues;
pub mod release;

use std::{fs, path::Path, time::Duration};

use super::{answer, line, owner};
use crate::{
    disk_space::DiskSpace,
    paths::Paths,
    probe::{Target, http::Connection},
    set::Set,
};
use anyhow::{Context as _, Result, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderValue, StatusCode};
use hyper::body::Bytes;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tf_agent_api::{
    rabbitmq::{Facts, PASSWORD_FILE, USER, few},
    release::RABBITMQ,
};

use self::queues::Queues;

/// Queues with a majority that would be lost, and messages that no mirror has. Releases without mirrors do not know the latter
/// (docs/upstream/rabbitmq.md#health-checks).
const CHECKS: [&str; 2] =
    ["/api/health/checks/node-is-quorum-critical", "/api/health/checks/node-is-mirror-sync-critical"];
/// Answers whoever may log in.
const WHO_AM_I: &str = "/api/whoami";
/// What a server that raised its alarm about it runs short of.
const DISK: &str = "disk";
/// For one command of RabbitMQ's own tools. Each starts an Erlang of its own.
const TOOLS_PATIENCE: Duration = Duration::from_secs(30);

/// The server beside the agent.
#[derive(Clone, Debug)]
pub struct Server<'a> {
    /// Its management plugin.
    pub target: &'a Target,
    /// What the agent sees of the pod.
    pub paths: &'a Paths,
    /// Name of the daemon.
    pub daemon: &'a str,
    /// Its data directory, as the agent sees it.
    pub data: &'a Path,
    /// Its definitions, as the daemon sees them.
    pub definitions: Option<&'a Path>,
}

/// A node in the plugin's words. What it does not tell about one that is down is false.
#[derive(Deserialize)]
struct Node {
    name: String,
    #[serde(default)]
    running: bool,
    #[serde(default)]
    partitions: Vec<String>,
    #[serde(default)]
    mem_alarm: bool,
    #[serde(default)]
    disk_free_alarm: bool,
}

#[derive(Deserialize)]
struct Overview {
    node: String,
    rabbitmq_version: String,
}

/// The management plugin, over one connection.
struct Management {
    server: Connection,
    authorization: HeaderValue,
}

impl Management {
    /// The password of the whole cluster changes when the first member takes its configuration: the agents of the others have it from
    /// what is mounted.
    async fn open(target: &Target, paths: &Paths) -> Result<Self> {
        let authorization = authorization(&paths.run_dir())?;
        let mut management = Self { server: Connection::open(target, paths).await?, authorization };
        if let Ok(next) = self::authorization(&paths.secret_dir())
            && next != management.authorization
            && management.get(WHO_AM_I).await?.0 == StatusCode::UNAUTHORIZED
        {
            management = Self { server: Connection::open(target, paths).await?, authorization: next };
        }
        Ok(management)
    }

    async fn get(&mut self, path: &str) -> Result<(StatusCode, Bytes)> {
        self.server.get(path, Some(&self.authorization)).await
    }

    async fn read<T: DeserializeOwned>(&mut self, path: &str) -> Result<T> {
        let (status, body) = self.get(path).await?;
        if status != StatusCode::OK {
            bail!("status {}", status.as_u16());
        }
        Ok(serde_json::from_slice(&body)?)
    }

    /// The node that answers.
    async fn overview(&mut self) -> Result<Overview> {
        self.read("/api/overview?columns=node,rabbitmq_version").await
    }

    /// The nodes of its cluster.
    async fn nodes(&mut self) -> Result<Vec<Node>> {
        self.read("/api/nodes?columns=name,running,partitions,mem_alarm,disk_free_alarm").await
    }
}

/// Everything that can be found out. What cannot stays empty.
pub async fn facts(target: &Target, data: &Path, definitions: Option<&Path>, queues: &Queues, paths: &Paths) -> Facts {
    // Half of it could be taken for all of it.
    let facts = match answer("management plugin", ask(target, data, definitions, queues, paths)).await {
        Ok(facts) => facts,
        Err(why) => Facts { unknown: Some(why), remembers: data::remembered(data, paths), ..Facts::default() },
    };
    Facts { owner: owner::of(data), ..facts }
}

async fn ask(
    target: &Target,
    data: &Path,
    definitions: Option<&Path>,
    queues: &Queues,
    paths: &Paths,
) -> Result<Facts> {
    let mut management = Management::open(target, paths).await?;
    let own = management.overview().await?;
    let mut facts = Facts { release: own.rabbitmq_version, ..Facts::default() };
    read_nodes(&own.node, management.nodes().await?, &mut facts);
    // The server looks every ten seconds where there was much room, and tells it with its next statistics.
    if DiskSpace::of(data).is_ok_and(|space| space.is_full()) {
        facts.alarms.insert(DISK.to_owned());
    }
    // What is on one alone has no mirror, and nobody is stopped after it.
    if let Some(clients) = definitions.filter(|_| facts.nodes.len() > 1).and_then(|file| queues::clients(file, paths)) {
        queues.look(&mut management, &clients, &mut facts).await?;
    }
    for check in CHECKS {
        let (status, body) = management.get(check).await?;
        facts.critical = facts.critical.take().or(read_check(status, &body)?);
    }
    line::note(&data::databases(data), &facts.release);
    facts.flags = flags::are_enabled(data, &facts.release);
    Ok(facts)
}

/// What has to happen before the server is started.
///
/// # Errors
/// When a file cannot be moved, or the server must not have the data.
pub fn prepare(data: &Path, set: &Set) -> Result<()> {
    data::claim(set, data)?;
    line::may_start(&RABBITMQ, &data::databases(data), release::version().as_deref())
}

fn authorization(directory: &Path) -> Result<HeaderValue> {
    let file = directory.join(PASSWORD_FILE);
    let password = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let mut value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{password}"))))?;
    value.set_sensitive(true);
    Ok(value)
}

fn read_nodes(own: &str, nodes: Vec<Node>, facts: &mut Facts) {
    own.clone_into(&mut facts.name);
    for node in nodes {
        if node.name == own {
            facts.partitions.extend(node.partitions);
            let alarms = [(node.mem_alarm, "memory"), (node.disk_free_alarm, DISK)];
            facts.alarms.extend(alarms.into_iter().filter(|(is_on, _)| *is_on).map(|(_, what)| what.to_owned()));
        }
        facts.nodes.insert(node.name, node.running);
    }
}

/// Why a node may not be stopped, by a health check: 503 with the queues, 200, or 404 where a release has none of the kind.
fn read_check(status: StatusCode, body: &[u8]) -> Result<Option<String>> {
    match status {
        StatusCode::OK | StatusCode::NOT_FOUND => Ok(None),
        StatusCode::SERVICE_UNAVAILABLE => {
            let answer: Value = serde_json::from_slice(body)?;
            let reason = answer["reason"].as_str().unwrap_or("it holds what no other node has");
            let names = answer["queues"].as_array().into_iter().flatten();
            let names: Vec<&str> = names.filter_map(|queue| queue["readable_name"].as_str()).collect();
            Ok(Some(format!("{reason}: {}", few(&names, names.len()))))
        }
        other => bail!("status {}", other.as_u16()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// As RabbitMQ 3.10.8 answers, of a cluster whose third node is down.
    const NODES: &str = r#"[
        {"name":"rabbit@a","running":true,"partitions":["rabbit@b"],"mem_alarm":true,"disk_free_alarm":false},
        {"name":"rabbit@b","running":true,"partitions":["rabbit@c"],"mem_alarm":false,"disk_free_alarm":true},
        {"name":"rabbit@c","running":false}
    ]"#;

    #[test]
    fn the_cluster_is_read_as_this_node_sees_it() {
        let mut facts = Facts::default();
        read_nodes("rabbit@a", serde_json::from_str(NODES).unwrap(), &mut facts);
        let nodes = [("rabbit@a", true), ("rabbit@b", true), ("rabbit@c", false)];
        assert_eq!(facts.nodes, BTreeMap::from(nodes.map(|(name, runs)| (name.to_owned(), runs))));
        assert_eq!(facts.partitions, BTreeSet::from(["rabbit@b".to_owned()]));
        assert_eq!(facts.alarms, BTreeSet::from(["memory".to_owned()]));
    }

    #[test]
    fn a_check_that_fails_names_queues_and_one_that_is_not_there_says_nothing() {
        let queue = |index: usize| serde_json::json!({"readable_name": format!("queue 'q{index}' in vhost '/'")});
        let queues: Vec<Value> = (0..7).map(queue).collect();
        let body = serde_json::json!({"status": "failed", "reason": "mirrors are out of sync", "queues": queues});
        let read = |status| read_check(status, body.to_string().as_bytes());
        let told = read(StatusCode::SERVICE_UNAVAILABLE).unwrap().unwrap();
        assert!(told.starts_with("mirrors are out of sync: queue 'q0' in vhost '/', "), "{told}");
        assert!(told.ends_with("'q4' in vhost '/' and 2 more"), "{told}");
        assert_eq!(read(StatusCode::OK).unwrap(), None);
        assert_eq!(read(StatusCode::NOT_FOUND).unwrap(), None);
        assert!(read(StatusCode::UNAUTHORIZED).is_err());
    }
}
