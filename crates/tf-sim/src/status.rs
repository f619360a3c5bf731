//! What a daemon says of its connections: NodeStatus (docs/upstream/daemons.md#nodestatus).

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::log;

/// Between two looks at a connection that is waited for.
const PERIOD: Duration = Duration::from_millis(100);

/// What a daemon connects to, as NodeStatus names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// The API.
    ApiServer,
    /// The database.
    Cassandra,
    /// Collectors.
    Collector,
    /// The database of analytics.
    Database,
    /// What alarms are made of.
    Kafka,
    /// The shares of the current state.
    Partitions,
    /// Who knows the users.
    Keystone,
    /// The message bus.
    RabbitMq,
    /// The current state.
    Redis,
    /// Elections.
    Zookeeper,
}

impl Peer {
    fn kind_and_name(self) -> (&'static str, &'static str) {
        match self {
            Self::ApiServer => ("ApiServer", "ApiServer"),
            Self::Cassandra => ("Database", "Cassandra"),
            Self::Collector => ("Collector", "Collector"),
            Self::Database => ("Database", "Global"),
            Self::Kafka => ("KafkaPub", "KafkaTopic"),
            Self::Partitions => ("UvePartitions", "UVE-Aggregation"),
            Self::Keystone => ("Generic Connection", "Keystone"),
            Self::RabbitMq => ("Database", "RabbitMQ"),
            Self::Redis => ("Redis-UVE", "Redis"),
            Self::Zookeeper => ("Zookeeper", "Zookeeper"),
        }
    }
}

/// How a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not tried yet.
    Initializing,
    /// Not there, with why.
    Down(String),
    /// There, with whom.
    Up(String),
}

/// All connections of a daemon.
#[derive(Debug)]
pub struct Status {
    module: &'static str,
    instance: String,
    node: String,
    table: &'static str,
    peers: Mutex<BTreeMap<Peer, State>>,
    lack: Mutex<Option<&'static str>>,
    zookeepers: &'static [&'static str],
    quiet: Option<Peer>,
}

impl Status {
    /// That of a daemon with connections to these.
    pub fn new(module: &'static str, instance: &str, node: &str, peers: &[Peer]) -> Self {
        let peers = peers.iter().map(|peer| (*peer, State::Initializing)).collect();
        Self {
            module,
            instance: instance.to_owned(),
            node: node.to_owned(),
            table: "ObjectConfigNode",
            peers: Mutex::new(peers),
            lack: Mutex::default(),
            zookeepers: &["Zookeeper"],
            quiet: None,
        }
    }

    /// That of a daemon that has connections with these names to ZooKeeper.
    #[must_use]
    pub fn with_zookeepers(self, zookeepers: &'static [&'static str]) -> Self {
        Self { zookeepers, ..self }
    }

    /// That of a daemon that says nothing of a connection to this one unless it is down.
    #[must_use]
    pub fn quiet_about(self, peer: Option<Peer>) -> Self {
        Self { quiet: peer, ..self }
    }

    /// That of a daemon whose node is in another table than Config's.
    #[must_use]
    pub fn in_table(self, table: &'static str) -> Self {
        Self { table, ..self }
    }

    /// What the daemon lacks besides connections, if it lacks anything.
    pub fn lacks(&self, what: Option<&'static str>) {
        *self.lack.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// What [`Self::lacks`] was last told.
    pub fn lack(&self) -> Option<&'static str> {
        *self.lack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection is like this now. What is new is said.
    pub fn set(&self, peer: Peer, state: State) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let before = peers.insert(peer, state.clone());
        let (_, name) = peer.kind_and_name();
        match (&before, &state) {
            (Some(before), now) if before == now => {}
            (Some(State::Down(_)), State::Down(_)) | (_, State::Initializing) => {}
            (_, State::Up(server)) => log::say(&format!("{name}: connection up, {server}")),
            (_, State::Down(why)) => log::say(&format!("{name}: connection down, {why}")),
        }
    }

    /// Whether a connection is there.
    pub fn is_up(&self, peer: Peer) -> bool {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).is_some_and(|state| matches!(state, State::Up(_)))
    }

    /// Returns when a connection is there.
    pub async fn wait_for(&self, peer: Peer) {
        while !self.is_up(peer) {
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// The page.
    pub fn page(&self) -> String {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_shown = |peer: &Peer, state: &State| Some(*peer) != self.quiet || matches!(state, State::Down(_));
        let mut connections = Vec::new();
        for (peer, state) in peers.iter().filter(|(peer, state)| is_shown(peer, state)) {
            let (kind, name) = peer.kind_and_name();
            let names = if *peer == Peer::Zookeeper { self.zookeepers } else { &[name] };
            connections.extend(names.iter().map(|&name| Connection {
                kind,
                name: name.to_owned(),
                state: state.clone(),
            }));
        }
        let reasons: Vec<String> = down(&connections).into_iter().chain(self.lack().map(str::to_owned)).collect();
        let description = (!reasons.is_empty()).then(|| reasons.join(", "));
        let process = Process { table: self.table, module: self.module, instance: &self.instance };
        page(&process, &self.node, &connections, description.as_deref())
    }
}

/// Who a page is about.
pub struct Process<'a> {
    /// The table of its node.
    pub table: &'a str,
    /// The module.
    pub module: &'a str,
    /// Number of the instance.
    pub instance: &'a str,
}

/// A connection on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The kind.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// How it is.
    pub state: State,
}

/// That connections are not up, as the daemons put it; nothing if all are.
pub fn down(connections: &[Connection]) -> Option<String> {
    let told = |connection: &Connection| {
        let Connection { kind, name, state } = connection;
        match state {
            State::Up(_) => None,
            State::Initializing => Some(format!("{kind}:{name}[]")),
            State::Down(why) => Some(format!("{kind}:{name}[{why}]")),
        }
    };
    let down: Vec<String> = connections.iter().filter_map(told).collect();
    (!down.is_empty()).then(|| format!("{} connection down", down.join(", ")))
}

/// The page of a daemon that is functional, or is not for the given reason.
pub fn page(process: &Process<'_>, node: &str, connections: &[Connection], description: Option<&str>) -> String {
    let mut infos = String::new();
    for Connection { kind, name, state } in connections {
        let (status, server, description) = match state {
            State::Initializing => ("Initializing", "", ""),
            State::Down(why) => ("Down", "", why.as_str()),
            State::Up(server) => ("Up", server.as_str(), ""),
        };
        let _ = write!(
            infos,
            "<ConnectionInfo><type type=\"string\" identifier=\"1\">{kind}</type><name type=\"string\" identifier=\"2\">{name}</name>\
             <server_addrs type=\"list\" identifier=\"3\"><list type=\"string\" size=\"1\"><element>{}</element></list></server_addrs>\
             <status type=\"string\" identifier=\"4\">{status}</status><description type=\"string\" identifier=\"5\">{}</description></ConnectionInfo>",
            escaped(server),
            escaped(description),
        );
    }
    let state = if description.is_none() { "Functional" } else { "Non-Functional" };
    let Process { table, module, instance } = process;
    format!(
        "<?xml-stylesheet type=\"text/xsl\" href=\"/universal_parse.xsl\"?><__NodeStatusUVE_list type=\"slist\"><NodeStatusUVE type=\"sandesh\">\
         <data type=\"struct\" identifier=\"1\"><NodeStatus><name type=\"string\" identifier=\"1\" key=\"{table}\">{}</name>\
         <process_status type=\"list\" identifier=\"4\"><list type=\"struct\" size=\"1\"><ProcessStatus>\
         <module_id type=\"string\" identifier=\"1\">{module}</module_id><instance_id type=\"string\" identifier=\"2\">{}</instance_id>\
         <state type=\"string\" identifier=\"3\">{state}</state><connection_infos type=\"list\" identifier=\"4\">\
         <list type=\"struct\" size=\"{}\">{infos}</list></connection_infos>\
         <description type=\"string\" identifier=\"5\">{}</description></ProcessStatus></list></process_status></NodeStatus></data>\
         </NodeStatusUVE><SandeshUVECacheResp type=\"sandesh\"><returned type=\"u32\" identifier=\"1\">1</returned>\
         </SandeshUVECacheResp></__NodeStatusUVE_list>",
        escaped(node),
        escaped(instance),
        connections.len(),
        escaped(description.unwrap_or_default()),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_to_zookeeper_may_have_two_names_and_one_may_show_only_when_it_is_down() {
        let status = Status::new("contrail-alarm-gen", "0", "n", &[Peer::Redis, Peer::Zookeeper]);
        let status = status.with_zookeepers(&["AlarmGenerator", "Zookeeper"]).quiet_about(Some(Peer::Redis));
        status.set(Peer::Zookeeper, State::Up("10.0.0.1:2181".into()));
        let page = status.page();
        assert!(
            page.contains(">AlarmGenerator<") && page.contains(">Functional<") && !page.contains("Redis"),
            "{page}"
        );
        status.set(Peer::Redis, State::Down("refused".into()));
        assert!(status.page().contains("Redis-UVE:Redis[refused] connection down"));
    }

    #[test]
    fn a_daemon_is_functional_only_when_every_connection_is_up() {
        let status = Status::new("contrail-schema", "0", "node-1", &[Peer::Cassandra, Peer::Zookeeper]);
        assert!(status.page().contains(">Non-Functional<") && status.page().contains(">Initializing<"));
        status.set(Peer::Cassandra, State::Up("10.0.0.1:9041".into()));
        assert!(status.page().contains("Zookeeper:Zookeeper[] connection down"));
        status.set(Peer::Zookeeper, State::Up("10.0.0.1:2181".into()));
        assert!(status.page().contains(">Functional<"));
        status.set(Peer::Cassandra, State::Down("<refused>".into()));
        let page = status.page();
        assert!(page.contains("Database:Cassandra[&lt;refused&gt;] connection down"), "{page}");
    }
}
