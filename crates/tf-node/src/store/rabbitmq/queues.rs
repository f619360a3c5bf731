//! Queues of clients: whether they have mirrors, whether consumers that lost their server are back, and whether quorum queues are on as many nodes
//! as they should be.
//!
//! They are listed when the server is first asked, when a node came or went, when policies are others, while something is missing, and else now and
//! then: a look at all of them is dear where there are many. What had a consumer is remembered by the agents that stay while a member is
//! away.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use http::StatusCode;
use hyper::body::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;
use tf_agent_api::rabbitmq::{self, Facts, Unmirrored};
use tokio::sync::Mutex;

use super::{
    Management,
    mirrors::{self, Policy},
};
use crate::paths::Paths;

/// Between two listings where nothing has changed.
const PERIOD: Duration = Duration::from_secs(30);
/// What was not looked at for so long may have changed and changed back: a server is away for longer when it is started anew
/// (docs/upstream/rabbitmq.md#restarts).
const GAP: Duration = Duration::from_secs(5);
/// After a node came or went consumers are waited for so long. Tungsten Fabric's clients try all servers and wait for 5 s then
/// (docs/upstream/rabbitmq.md#clients); a daemon that starts anew because of it needs a minute. Whoever is not back by then is taken for gone.
const PATIENCE: Duration = Duration::from_mins(2);
/// Nodes of a quorum queue whose client says nothing about it (`quorum_cluster_size`).
const GROUP: usize = 3;
/// Argument of a queue with the same.
const GROUP_SIZE: &str = "x-quorum-initial-group-size";

/// Whose queues are looked at.
pub(super) struct Clients {
    /// Their virtual host.
    pub(super) vhost: String,
    /// Whether their queues are to have mirrors.
    mirrored: bool,
}

#[derive(Deserialize)]
struct Definitions {
    #[serde(default)]
    vhosts: Vec<Vhost>,
    #[serde(default)]
    policies: Vec<Policy>,
}

#[derive(Deserialize)]
struct Vhost {
    name: String,
}

/// The clients by these definitions. `definitions`: as the daemon sees them.
pub(super) fn clients(definitions: &Path, paths: &Paths) -> Option<Clients> {
    let file = fs::read(paths.at(definitions)).ok()?;
    let definitions: Definitions = serde_json::from_slice(&file).ok()?;
    let Vhost { name: vhost } = definitions.vhosts.into_iter().next()?;
    Some(Clients { vhost, mirrored: definitions.policies.iter().any(Policy::mirrors) })
}

/// A queue in the plugin's words.
#[derive(Deserialize)]
pub(super) struct Queue {
    pub(super) name: String,
    #[serde(default)]
    exclusive: bool,
    #[serde(default)]
    auto_delete: bool,
    #[serde(default, rename = "type")]
    kind: String,
    /// An empty list is what a queue has without one.
    #[serde(default)]
    policy: Value,
    /// Nodes of a quorum queue.
    #[serde(default)]
    members: Vec<String>,
    #[serde(default)]
    arguments: Value,
}

impl Queue {
    /// What of it is asked for.
    const COLUMNS: &str = "name,exclusive,auto_delete,type,policy,members,arguments";

    pub(super) fn policy(&self) -> Option<&str> {
        self.policy.as_str().filter(|name| !name.is_empty())
    }

    /// Whether it belongs to one connection or to the server.
    fn is_private(&self) -> bool {
        self.exclusive || self.name.starts_with("amq.")
    }

    /// Whether a policy of mirrors is about it: not if it is private, or has copies of another kind.
    pub(super) fn is_mirrorable(&self) -> bool {
        !self.is_private() && matches!(self.kind.as_str(), "" | "classic")
    }

    /// Whether its consumer is waited for: messages wait for it. One that ends with its last consumer has none any more.
    fn is_kept(&self) -> bool {
        !self.is_private() && !self.auto_delete
    }

    /// Whether it is a quorum queue on too few nodes, of so many of the cluster, and not on this one. It should be on as many as if it were declared
    /// now.
    fn lacks(&self, own: &str, nodes: usize) -> bool {
        let wanted = self.arguments[GROUP_SIZE].as_u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(GROUP);
        self.kind == "quorum" && self.members.len() < wanted.min(nodes) && self.members.iter().all(|name| name != own)
    }
}

/// A consumer in the plugin's words. This list is brought up to date at once, what a queue says of its consumers after seconds (tried with 3.10.8).
#[derive(Deserialize)]
struct Consumer {
    queue: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// What is remembered from one look to the next.
#[derive(Clone, Debug, Default)]
pub struct Queues(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    nodes: BTreeMap<String, bool>,
    policies: Option<(StatusCode, Bytes)>,
    looked: Option<Instant>,
    /// Since when nodes are as they are.
    changed: Option<Instant>,
    listed: Option<Instant>,
    /// Queues that have a consumer, or had one when nodes changed.
    consumed: BTreeSet<String>,
    found: Found,
}

/// What queues lack.
#[derive(Clone, Debug, Default)]
struct Found {
    unmirrored: Option<Unmirrored>,
    deserted: Option<rabbitmq::Queues>,
    short: Option<rabbitmq::Queues>,
}

impl Queues {
    /// Adds what the queues of these clients lack to the facts, in which the cluster is known.
    pub(super) async fn look(&self, management: &mut Management, clients: &Clients, facts: &mut Facts) -> Result<()> {
        let mut memory = self.0.lock().await;
        let vhost = encoded(&clients.vhost);
        let mut policies = None;
        if clients.mirrored {
            policies = Some(management.get(&format!("/api/policies/{vhost}")).await?);
        }
        let now = Instant::now();
        if memory.is_due(&facts.nodes, policies.as_ref(), now) {
            // What is broken off is to be done again.
            memory.listed = None;
            let Some(queues) = list(management, &clients.vhost).await? else { return Ok(()) };
            let consumers: Vec<Consumer> =
                management.read(&format!("/api/consumers/{vhost}?columns=queue.name")).await.context("consumers")?;
            let unmirrored = policies.as_ref().map(|(_, body)| mirrors::without(&queues, body, &clients.vhost));
            let has_consumer: BTreeSet<String> = consumers.into_iter().map(|consumer| consumer.queue.name).collect();
            let consumed = queues.iter().filter(|queue| queue.is_kept() && has_consumer.contains(&queue.name));
            let missed = memory.missed(consumed.map(|queue| queue.name.clone()).collect(), now);
            let short = queues.iter().filter(|queue| queue.lacks(&facts.name, facts.nodes.len()));
            memory.found = Found {
                unmirrored: unmirrored.transpose()?.flatten(),
                deserted: rabbitmq::Queues::of(&clients.vhost, missed.iter()),
                short: rabbitmq::Queues::of(&clients.vhost, short.map(|queue| &queue.name)),
            };
            (memory.listed, memory.policies) = (Some(now), policies);
        }
        let Found { unmirrored, deserted, short } = memory.found.clone();
        (facts.unmirrored, facts.deserted, facts.short) = (unmirrored, deserted, short);
        Ok(())
    }
}

impl Memory {
    /// Whether queues are to be listed, where nodes and policies are these.
    fn is_due(&mut self, nodes: &BTreeMap<String, bool>, policies: Option<&(StatusCode, Bytes)>, now: Instant) -> bool {
        let is_before = |at: Option<Instant>, span| at.is_none_or(|at| now.duration_since(at) > span);
        let is_other = self.nodes != *nodes || is_before(self.looked, GAP);
        if is_other {
            self.nodes.clone_from(nodes);
            self.changed = Some(now);
        }
        self.looked = Some(now);
        let Found { unmirrored, deserted, short } = &self.found;
        let lacks = unmirrored.is_some() || deserted.is_some() || short.is_some();
        is_other || lacks || is_before(self.listed, PERIOD) || self.policies.as_ref() != policies
    }

    /// Queues that had a consumer before nodes changed, and are waited for. `consumed`: those that have one.
    fn missed(&mut self, consumed: BTreeSet<String>, now: Instant) -> BTreeSet<String> {
        if self.changed.is_none_or(|changed| now.duration_since(changed) > PATIENCE) {
            self.consumed = consumed;
            return BTreeSet::new();
        }
        let missed = self.consumed.difference(&consumed).cloned().collect();
        self.consumed.extend(consumed);
        missed
    }
}

/// Names of quorum queues that are on too few of so many nodes, and not on this one.
pub(super) async fn short(management: &mut Management, vhost: &str, own: &str, nodes: usize) -> Result<Vec<String>> {
    let queues = list(management, vhost).await?.unwrap_or_default();
    Ok(queues.into_iter().filter(|queue| queue.lacks(own, nodes)).map(|queue| queue.name).collect())
}

/// Queues of a virtual host, without their statistics, which are dear. None where it is not there, or not open to the agent: it is, once the server
/// has taken its definitions.
async fn list(management: &mut Management, vhost: &str) -> Result<Option<Vec<Queue>>> {
    let all = format!("/api/queues/{}?disable_stats=true&columns={}", encoded(vhost), Queue::COLUMNS);
    let (status, body) = management.get(&all).await?;
    match status {
        StatusCode::OK => Ok(Some(serde_json::from_slice(&body).context("queues")?)),
        StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Ok(None),
        other => bail!("queues: status {}", other.as_u16()),
    }
}

fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        net::{Ipv4Addr, TcpListener, TcpStream},
        sync::{Mutex, PoisonError},
        thread,
    };

    use serde_json::json;
    use tf_agent_api::rabbitmq::PASSWORD_FILE;

    use super::*;
    use crate::probe::Target;

    const DEFINITIONS: &str = "/etc/definitions.json";

    /// A management plugin of a cluster as it stands. Others than this server are as its list says.
    #[derive(Clone)]
    struct Played {
        cluster: Arc<Mutex<Cluster>>,
        target: Target,
    }

    #[derive(Default)]
    struct Cluster {
        down: Vec<&'static str>,
        consumers: Vec<&'static str>,
        policies: Value,
        quorum: Vec<&'static str>,
        listings: usize,
    }

    impl Cluster {
        fn answer(&mut self, path: &str) -> (u16, Value) {
            let path = path.split('?').next().unwrap_or_default();
            let queue = |name: &str| json!({"name": name, "policy": "ha", "type": "classic"});
            let answer = match path {
                "/api/overview" => json!({"node": "rabbit@a", "rabbitmq_version": "3.10.8"}),
                "/api/nodes" => {
                    let runs = |name: &str| json!({"name": name, "running": !self.down.contains(&name)});
                    json!([runs("rabbit@a"), runs("rabbit@b"), runs("rabbit@c")])
                }
                "/api/policies/tf" => self.policies.clone(),
                "/api/queues/tf" => {
                    self.listings += 1;
                    let (mut own, mut end) = (queue("own"), queue("end"));
                    (own["exclusive"], end["auto_delete"]) = (json!(true), json!(true));
                    let ledger = json!({"name": "ledger", "type": "quorum", "members": self.quorum, "arguments": {}});
                    json!([queue("vnc_config.a"), queue("vnc_config.b"), own, end, ledger])
                }
                "/api/consumers/tf" => self.consumers.iter().map(|name| json!({"queue": {"name": name}})).collect(),
                _ => return (404, json!({})),
            };
            (200, answer)
        }
    }

    impl Played {
        fn new() -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let consumers = vec!["vnc_config.a", "vnc_config.b", "own", "end"];
            let policies = json!([{"name": "ha", "definition": {"ha-mode": "all"}}]);
            let quorum = vec!["rabbit@a", "rabbit@b", "rabbit@c"];
            let cluster = Cluster { consumers, policies, quorum, ..Cluster::default() };
            let cluster = Arc::new(Mutex::new(cluster));
            let served = Arc::clone(&cluster);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    serve(&stream.unwrap(), &served);
                }
            });
            let target = Target { host: Ipv4Addr::LOCALHOST.into(), port, tls: false };
            Self { cluster, target }
        }

        fn now(&self, change: impl FnOnce(&mut Cluster)) {
            change(&mut self.cluster.lock().unwrap());
        }

        fn listings(&self) -> usize {
            std::mem::take(&mut self.cluster.lock().unwrap().listings)
        }
    }

    fn serve(stream: &TcpStream, cluster: &Mutex<Cluster>) {
        let mut reader = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).unwrap_or_default() == 0 {
                    return;
                }
            }
            let path = head.split(' ').nth(1).unwrap();
            let (status, body) = cluster.lock().unwrap_or_else(PoisonError::into_inner).answer(path);
            let body = body.to_string();
            let mut stream = stream;
            write!(stream, "HTTP/1.1 {status} OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    }

    /// An agent beside that plugin.
    struct Agent {
        played: Played,
        queues: Queues,
        paths: Paths,
        _root: tempfile::TempDir,
    }

    impl Agent {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let paths = Paths::below(root.path());
            fs::create_dir_all(paths.run_dir()).unwrap();
            fs::write(paths.run_dir().join(PASSWORD_FILE), "secret").unwrap();
            let file = paths.at(Path::new(DEFINITIONS));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            let policy = json!({"vhost": "tf", "name": "ha", "definition": {"ha-mode": "all"}});
            fs::write(file, json!({"vhosts": [{"name": "tf"}], "policies": [policy]}).to_string()).unwrap();
            Self { played: Played::new(), queues: Queues::default(), paths, _root: root }
        }

        async fn looks(&self) -> Facts {
            let definitions = Some(Path::new(DEFINITIONS));
            // However long a machine that is busy takes.
            super::super::ask(&self.played.target, Path::new("/"), definitions, &self.queues, &self.paths)
                .await
                .unwrap()
        }

        /// So much time passes, in which others look all the time.
        async fn waits(&self, span: Duration) {
            let mut memory = self.queues.0.lock().await;
            let earlier = |at: Option<Instant>| at.and_then(|at| at.checked_sub(span));
            (memory.changed, memory.listed) = (earlier(memory.changed), earlier(memory.listed));
        }
    }

    fn deserted(facts: &Facts) -> Option<String> {
        facts.deserted.as_ref().map(|queues| format!("{}: {queues}", queues.vhost))
    }

    #[tokio::test]
    async fn queues_are_listed_now_and_then_and_at_once_when_nodes_or_policies_are_others_or_something_is_missing() {
        let agent = Agent::new();
        let played = &agent.played;
        for expected in [1, 0, 0] {
            assert_eq!(agent.looks().await.unmirrored, None);
            assert_eq!(played.listings(), expected);
        }
        agent.waits(PERIOD).await;
        agent.looks().await;
        assert_eq!(played.listings(), 1);
        played.now(|cluster| cluster.down = vec!["rabbit@b"]);
        agent.looks().await;
        played.now(|cluster| cluster.down.clear());
        agent.looks().await;
        assert_eq!(played.listings(), 2);
        played.now(|cluster| cluster.policies = json!([{"name": "ha", "definition": {"max-length": 1}}]));
        for _ in 0..2 {
            let bare = agent.looks().await.unmirrored.unwrap();
            assert_eq!(
                (bare.are.to_string().as_str(), bare.policy.as_deref()),
                ("end, vnc_config.a, vnc_config.b", Some("ha"))
            );
        }
        assert_eq!(played.listings(), 2);
    }

    #[tokio::test]
    async fn consumers_that_were_there_when_a_server_came_or_went_are_missed_until_they_are_back() {
        let agent = Agent::new();
        let played = &agent.played;
        agent.looks().await;
        agent.waits(PATIENCE + Duration::from_secs(1)).await;
        // The agent is asked again before long, and clients that end by themselves are nobody's business.
        agent.looks().await;
        played.now(|cluster| cluster.consumers = vec!["vnc_config.a", "own", "end"]);
        agent.waits(PERIOD + Duration::from_secs(1)).await;
        assert_eq!(agent.looks().await.deserted, None);
        played.now(|cluster| cluster.consumers.push("vnc_config.b"));
        agent.waits(PERIOD + Duration::from_secs(1)).await;
        agent.looks().await;

        played.now(|cluster| (cluster.down, cluster.consumers) = (vec!["rabbit@c"], vec![]));
        assert_eq!(deserted(&agent.looks().await).as_deref(), Some("tf: vnc_config.a, vnc_config.b"));
        played.now(|cluster| (cluster.down, cluster.consumers) = (vec![], vec!["vnc_config.b"]));
        assert_eq!(deserted(&agent.looks().await).as_deref(), Some("tf: vnc_config.a"));
        played.now(|cluster| cluster.consumers.push("vnc_config.a"));
        assert_eq!(agent.looks().await.deserted, None);
    }

    #[tokio::test]
    async fn a_consumer_that_is_away_for_good_is_waited_for_once_and_not_for_ever() {
        let agent = Agent::new();
        let played = &agent.played;
        agent.looks().await;
        played.now(|cluster| (cluster.down, cluster.consumers) = (vec!["rabbit@c"], vec!["vnc_config.b"]));
        agent.looks().await;
        agent.waits(PATIENCE.saturating_sub(Duration::from_secs(10))).await;
        // It is the server's return that counts.
        played.now(|cluster| cluster.down.clear());
        agent.looks().await;
        agent.waits(PATIENCE.saturating_sub(Duration::from_secs(10))).await;
        assert_eq!(deserted(&agent.looks().await).as_deref(), Some("tf: vnc_config.a"));
        agent.waits(Duration::from_secs(20)).await;
        assert_eq!(agent.looks().await.deserted, None);
        played.now(|cluster| cluster.down = vec!["rabbit@c"]);
        assert_eq!(agent.looks().await.deserted, None, "it is not missed at the next server");
    }

    #[tokio::test]
    async fn an_agent_that_nobody_asked_for_a_while_takes_it_that_a_server_came_and_went() {
        let agent = Agent::new();
        agent.looks().await;
        agent.waits(PATIENCE + PERIOD).await;
        agent.looks().await;
        agent.played.now(|cluster| cluster.consumers = vec!["vnc_config.a"]);
        let mut memory = agent.queues.0.lock().await;
        memory.looked = memory.looked.and_then(|at| at.checked_sub(GAP * 2));
        drop(memory);
        assert_eq!(deserted(&agent.looks().await).as_deref(), Some("tf: vnc_config.b"));
    }

    #[tokio::test]
    async fn a_quorum_queue_is_short_where_this_server_would_be_one_of_its_nodes_if_it_were_declared_now() {
        for (on, is_short) in [
            (vec!["rabbit@b"], true),
            (vec!["rabbit@b", "rabbit@c"], true),
            (vec!["rabbit@a"], false),
            (vec!["rabbit@b", "rabbit@c", "rabbit@d"], false),
        ] {
            let agent = Agent::new();
            agent.played.now(|cluster| cluster.quorum.clone_from(&on));
            let short = agent.looks().await.short;
            assert_eq!(short.map(|queues| queues.to_string()), is_short.then(|| "ledger".to_owned()), "{on:?}");
        }
        let queue = |size: u64| -> Queue {
            serde_json::from_value(
                json!({"name": "q", "type": "quorum", "members": ["a", "b", "c"], "arguments": {GROUP_SIZE: size}}),
            )
            .unwrap()
        };
        let lacks = |size, nodes| queue(size).lacks("e", nodes);
        assert_eq!([lacks(5, 5), lacks(5, 3), lacks(3, 5), lacks(1, 5)], [true, false, false, false]);
    }
}
