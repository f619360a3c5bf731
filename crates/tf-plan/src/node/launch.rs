//! The launch file: everything the node agent has to know about a daemon.
//!
//! It stands among the daemon's files under the name [`file_name`], so a change of it is activated like any other change. It
//! holds no secrets. The agent that reads it may be older than the operator that wrote it: fields it does not know
//! are ignored, so a new field needs a meaning when it is absent.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    num::NonZeroU16,
    path::Path,
};

use serde::{Deserialize, Serialize};
use tf_api::schema::Port;
use tf_pki::member::SHORTEST_LIFETIME;

use super::{cassandra, redis};

/// Name of a daemon's launch file.
pub fn file_name(daemon: &str) -> String {
    format!("{daemon}.launch")
}

/// The file that tells that data was begun by a daemon that was told what new ones have to be told ([`When::New`]).
pub fn begun(served: &str) -> String {
    format!("{served}.begun")
}

/// [`Launch::patience`] of daemons that keep nothing which a kill could harm: nobody's session waits as long for one that hangs, and a busy
/// one answers sooner.
pub const PATIENCE: u32 = 180;

/// How a daemon is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// Program and arguments. A program without a slash is looked for in `PATH`.
    pub argv: Vec<String>,
    /// Directory it starts in. Default: the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Variables. Those of the environment file win over them, and those of the container over both.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Files it reads below [`super::RUN_DIR`], and what has to happen when one changes. All of them exist before it starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, OnChange>,
    /// Copies of files that are made before each start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub place: Vec<Place>,
    /// Absolute paths of files that the agent does not write for this daemon and that exist before it starts: certificates that
    /// another container of the pod gets, say. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaits: Vec<String>,
    /// Whether it reads certificate and authorities for each connection, so that it is not started anew for others with the daemons beside it
    /// ([`Identity::at_start`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rereads: bool,
    /// How it is stopped.
    pub stop: Stop,
    /// When it serves.
    pub ready: Probe,
    /// When it lives. Default: as long as its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alive: Option<Probe>,
    /// Where it says what it is connected to, for a daemon that serves without. Default: nobody asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// What it reads of the Kubernetes API, for a daemon that does not say whether it may. Default: nobody asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Reads>,
    /// How it is told another log level while it runs. Default: it is started anew for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Lists of servers that it reads again while it runs. Default: it is started anew for another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<Lists>,
    /// Seconds without any answer to [`Self::alive`], or to [`Self::ready`] without it, after which a daemon that has answered since its start counts as hanging: it is killed
    /// and started anew. One that answers that it does not serve does not hang, nor does one that refuses connections. Default: it
    /// is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
    /// Seconds within which it serves for the first time; one that does not is killed and started anew. Default: it is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting: Option<u32>,
    /// How it is taken out of service before it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// Whether its container serves the agent API of the pod. At most one container of a pod does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// The certificate that the agent asks for, in the container that serves its API. Default: none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The Redis that the agent makes reachable to daemons of the pod. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<Relay>,
}

/// What a running daemon needs when a file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnChange {
    /// A restart.
    Restart,
    /// A signal, after which it reads the file again.
    Signal(Signal),
    /// Nothing: it looks for itself, or the change counts from the next start.
    Nothing,
}

/// Signals that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names of signal(7)")]
pub enum Signal {
    Hup,
    Int,
    Quit,
    Usr1,
    Usr2,
    Term,
}

/// A copy of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Name of the file.
    pub file: String,
    /// Absolute path of the copy. Its directory exists.
    pub to: String,
    /// When.
    pub when: When,
    /// Whether nobody but the daemon's user may read it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
}

/// When a copy is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// Before each start.
    Always,
    /// Before a start where there is no such file: for files that the daemon goes on to write itself.
    Absent,
    /// Before the starts of a daemon that has not served yet with the data it has, over the copy that stands before this one in
    /// the list: for what a member with a new disk has to be told.
    New {
        /// Absolute path of a file among that data. The agent writes it when the daemon serves for the first time, and one beside it
        /// ([`begun`]) when it starts as a new one.
        served: String,
    },
    /// Before the starts of a server that clients log in to and that does not know yet with what, over the copies that stand before this one in
    /// the list: for a configuration by which nobody but the agent reaches it. The agent tells it, and starts it anew. Only with
    /// [`Probe::Cassandra`].
    Private {
        /// Absolute path of the file of [`Self::New`], where it is for servers that have not served yet with the data they have. Default:
        /// for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        served: Option<String>,
    },
    /// Before the starts of a server of this release or a later one, over the copies that stand before this one in the list: for files that
    /// former releases do not take, or that ones from then on do not. Only with [`Probe::RabbitMq`]; where the release cannot be told it is a
    /// former one.
    Since {
        /// First number of the release.
        major: u32,
    },
    /// For ZooKeeper's list of members: before each start, unless the server has noted a list beside it that is not older
    /// (`<to>.<version>`). A copy that lags behind the ensemble would let a server of a large one go on as that of a small one.
    NewestList {
        /// The file among those placed with the server's identity.
        id: String,
        /// The file among those placed whose `dynamicConfigFile` is the list to go by.
        config: String,
        /// What tells the ensemble from others. Lists that the server noted in another one do not count: the resource was deleted
        /// and made anew, the data was kept, and its members have other identities. Default: nothing is known of others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ensemble: Option<String>,
    },
}

/// How a daemon is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// Signal that asks it to.
    pub signal: Signal,
    /// Seconds until it is killed, 1 to 86,400.
    pub seconds: u32,
}

/// How it is found out that a daemon serves. Addresses default to the member's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Probe {
    /// A connection is accepted.
    Tcp {
        /// Port.
        port: NonZeroU16,
        /// Address other than the member's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<std::net::IpAddr>,
    },
    /// A name server answers questions, if only to refuse them.
    Dns {
        /// Port for TCP on the member's address.
        port: NonZeroU16,
    },
    /// `GET` is answered with a status of 200 to 399.
    Http {
        /// Port.
        port: NonZeroU16,
        /// Path, with a slash at its beginning.
        path: String,
        /// Address other than the member's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<std::net::IpAddr>,
        /// Whether the daemon speaks TLS. Then its certificate has to be good for the address, and the member's own
        /// certificate is shown to it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tls: bool,
        /// Text that the answer's body has to contain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        contains: Option<String>,
    },
    /// The server answers requests as a voting member of a quorum (stateful-services 2.2).
    ZooKeeper {
        /// Port for clients.
        port: NonZeroU16,
        /// Address other than the member's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<std::net::IpAddr>,
        /// Whether the port speaks TLS.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tls: bool,
    },
    /// The server accepts AMQP connections. In a minority that pauses, and while it is drained, it does not
    /// (stateful-services 1.2.4).
    RabbitMq {
        /// Port for AMQP.
        port: NonZeroU16,
        /// Port of the management plugin, which speaks TLS.
        management: NonZeroU16,
        /// The file with users, virtual hosts and policies, which the server reads when it starts. A server that runs is told when
        /// it changes, and has a configuration when it was. Default: it is not told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        definitions: Option<String>,
    },
    /// The server answers requests in the native protocol, which it does once it has joined the ring (stateful-services 1.3.5).
    Cassandra {
        /// Port for clients, which speaks TLS.
        port: NonZeroU16,
        /// Port of JMX on the loopback address, by which `nodetool` reaches the server.
        jmx: NonZeroU16,
        /// Its data directory, as the daemon sees it.
        data: String,
        /// How clients log in. Default: they are given nothing to log in with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<cassandra::Login>,
    },
    /// The server answers requests, which it does not while it loads data.
    Redis {
        /// Port for clients, which speaks TLS.
        port: NonZeroU16,
        /// The other members, where they copy one of them. Default: it is on its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replication: Option<redis::Replication>,
    },
    /// The broker is one of its cluster and has every record that it should have a copy of.
    Kafka {
        /// Port for clients, which speaks TLS.
        port: NonZeroU16,
    },
    /// The Sentinel beside a Redis server answers requests.
    Sentinel {
        /// Port, which speaks TLS.
        port: NonZeroU16,
    },
    /// The daemon says by introspection what it is connected to, and whether that is enough (NodeStatus, tf-components 1.9). An open port
    /// tells neither.
    NodeStatus {
        /// Port of introspection on the member's address.
        port: NonZeroU16,
        /// Whether the port speaks TLS.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tls: bool,
        /// Whether it has to be `Functional`. Otherwise it serves as soon as it says anything: its configuration does not name what it
        /// would have to be connected to.
        functional: bool,
        /// Types of connections that it serves without, although it calls itself `Non-Functional` for want of them.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        optional: BTreeSet<String>,
        /// Whether one of all members is elected, and the others wait for their turn with no port open (tf-components 1.9, `backup`).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        elected: bool,
    },
    /// The process runs.
    Process,
}

/// What a daemon says by introspection of its connections (NodeStatus, tf-components 1.9). Where it opens no port, since another member is elected,
/// there is nothing to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connections {
    /// Port of introspection on the member's address.
    pub port: NonZeroU16,
    /// Whether the port speaks TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Types of connections that it does without.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub optional: BTreeSet<String>,
    /// Ports of introspection of its further workers, each of which has connections of its own and speaks as the first one does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<NonZeroU16>,
}

/// What a daemon reads of the Kubernetes API, with a token of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reads {
    /// The file with the token.
    pub token: String,
    /// Paths of the lists.
    pub lists: BTreeSet<String>,
    /// Where the daemon connects to, if that is an address. A name is looked up by the daemon alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<SocketAddr>,
}

/// The log level of a daemon that can be told another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Level {
    /// The level, in its words.
    pub value: String,
    /// Beginnings of the lines of its files that state with which level it starts. For files that differ in no other line it is not started
    /// anew.
    pub lines: BTreeSet<String>,
    /// How it is told.
    pub tell: Tell,
}

/// Lists that a running daemon reads again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lists {
    /// Beginnings of the lines of its files that hold them. For files that differ in no other line, and have each of these lines, it gets the
    /// signal and is not started anew.
    pub lines: BTreeSet<String>,
    /// After which it reads them.
    pub signal: Signal,
}

impl Lists {
    /// Those that daemons of Tungsten Fabric read again after a SIGHUP (tf-components 1.10).
    pub fn of(keys: &[&str]) -> Self {
        Self { lines: keys.iter().map(|key| format!("{key} = ")).collect(), signal: Signal::Hup }
    }
}

/// How a running daemon is told its log level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Tell {
    /// By introspection (`SandeshLoggingParamsSet`), as people do with OpenSDN's `introspect`.
    Introspection {
        /// Port of introspection on the member's address.
        port: NonZeroU16,
        /// Whether the port speaks TLS.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tls: bool,
    },
    /// By a command, which runs in the daemon's environment.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// By `CONFIG SET`, a server of [`Probe::Redis`].
    Redis,
}

/// A command that takes a daemon out of service. It runs in the daemon's environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Seconds until it is killed, 1 to 86,400.
    pub seconds: u32,
}

/// The agent API of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Port on the member's address.
    pub port: NonZeroU16,
    /// DNS name that a client's certificate has to carry: the operator's.
    pub client: String,
}

/// The certificate of a member, besides what its pod says of itself: name, node and address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Names of the services that the member is part of, in every form that clients use.
    #[serde(default)]
    pub services: BTreeSet<String>,
    /// Seconds a certificate is good for, 600 at least.
    pub lifetime_seconds: u32,
    /// Whether the daemon is started only once there is a certificate to show ([`super::KEYSTORE_PEM`]) and somebody to trust
    /// ([`super::TRUSTSTORE_PEM`]). By default it does not wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// What the daemon does with the node's files ([`super::HOST_FILES_DIR`]). Default: nothing. The agent's own certificate,
    /// with which it serves its API, is asked for all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_files: Option<HostFiles>,
    /// Command that has the daemon read what it shows and trusts anew. Default: it looks itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<Vec<String>>,
    /// Whether the daemons of the pod that wait for a certificate read it when they start and never again, or do not, where `reload` is told in
    /// vain. Then what changes counts when they are started anew, which their operator asks for
    /// ([`tf_api::names::ANNOTATION_ACTIVE_CERTIFICATE`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_start: bool,
}

/// A Redis that daemons find on the loopback address, which neither speak TLS nor log in (ADR 0041): the agent does both for them.
/// Their container serves only while that Redis answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relay {
    /// Port on the loopback address.
    pub port: NonZeroU16,
    /// Address or name of the server.
    pub host: String,
    /// Port of the server.
    pub server: NonZeroU16,
    /// Whether the server speaks TLS. Then its certificate has to be good for `host`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// File among the daemon's with the authorities that the server's certificate is checked against. Default: those that the member trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// File among the daemon's with the password. Default: nobody logs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// How far a daemon uses the node's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostFiles {
    /// It trusts their authorities, besides the operators'.
    Trusted,
    /// It shows their certificate, too.
    Shown,
}

/// A launch file that cannot be used. It shows no content of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Not of the format.
    #[error("line {line}, column {column}: not a launch file: {why}")]
    Malformed {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// Of the format, and asks for what cannot be.
    #[error("{field}: {why}")]
    Invalid {
        /// Path of the field.
        field: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// A port of the spec, as a launch file has it.
///
/// # Errors
/// When it is 0.
pub fn port(field: &'static str, port: Port) -> Result<NonZeroU16, Unusable> {
    NonZeroU16::new(port.get()).ok_or(Unusable::Invalid { field, why: "is 0" })
}

const LONGEST_WAIT: u32 = 86_400;

impl Launch {
    /// A daemon without files that serves when its process runs and stops within 30 s of SIGTERM.
    pub fn new(argv: Vec<String>) -> Self {
        Self {
            argv,
            working_directory: None,
            environment: BTreeMap::new(),
            files: BTreeMap::new(),
            place: Vec::new(),
            awaits: Vec::new(),
            rereads: false,
            stop: Stop { signal: Signal::Term, seconds: 30 },
            ready: Probe::Process,
            alive: None,
            connections: None,
            kubernetes: None,
            level: None,
            lists: None,
            patience: None,
            starting: None,
            drain: None,
            agent: None,
            identity: None,
            relay: None,
        }
    }

    /// The text of the file.
    ///
    /// # Errors
    /// What [`Self::parse`] would refuse.
    pub fn render(&self) -> Result<String, Unusable> {
        self.check()?;
        let text = serde_json::to_string_pretty(self).map_err(|error| malformed(&error))?;
        Ok(text + "\n")
    }

    /// Reads a launch file.
    ///
    /// # Errors
    /// When it is not of the format, or asks for what cannot be.
    pub fn parse(text: &[u8]) -> Result<Self, Unusable> {
        let launch: Self = serde_json::from_slice(text).map_err(|error| malformed(&error))?;
        launch.check()?;
        Ok(launch)
    }

    /// Names of the files that have to exist before the daemon starts.
    pub fn needed(&self) -> impl Iterator<Item = &str> {
        self.files.keys().chain(self.place.iter().map(|place| &place.file)).map(String::as_str)
    }

    /// Whether the daemon starts with a certificate of the member, which it waits for, and goes by it. One that is told to read it again does so, too.
    pub fn starts_with_certificate(&self) -> bool {
        let is_one = |path: &String| Path::new(path).starts_with(super::CERTIFICATE_DIR);
        let waits = self.identity.as_ref().is_some_and(|identity| identity.required) || self.awaits.iter().any(is_one);
        waits && !self.rereads
    }

    fn check(&self) -> Result<(), Unusable> {
        command("argv", &self.argv)?;
        self.working_directory.as_deref().map_or(Ok(()), |path| absolute("workingDirectory", path))?;
        for (name, value) in &self.environment {
            ensure("environment", "has a name that no variable can have", is_variable(name))?;
            ensure("environment", "has a value with a NUL character", !value.contains('\0'))?;
        }
        for file in self.files.keys() {
            ensure("files", "has a name that no file can have", is_file_name(file))?;
        }
        for place in &self.place {
            ensure("place.file", "is not the name of a file", is_file_name(&place.file))?;
            absolute("place.to", &place.to)?;
            match &place.when {
                When::NewestList { id, config, .. } => {
                    let is_placed = |file: &String| self.place.iter().any(|place| place.file == *file);
                    ensure("place.when", "goes by a file that is not placed", is_placed(id) && is_placed(config))?;
                }
                When::New { served } | When::Private { served: Some(served) } => absolute("place.when.served", served)?,
                When::Always | When::Absent | When::Private { served: None } | When::Since { .. } => {}
            }
        }
        self.awaits.iter().try_for_each(|path| absolute("awaits", path))?;
        wait("stop.seconds", self.stop.seconds)?;
        probe("ready", &self.ready)?;
        self.alive.as_ref().map_or(Ok(()), |alive| probe("alive", alive))?;
        self.patience.map_or(Ok(()), |seconds| wait("patience", seconds))?;
        self.starting.map_or(Ok(()), |seconds| wait("starting", seconds))?;
        if let Some(Reads { token, lists, .. }) = &self.kubernetes {
            ensure("kubernetes.token", "is none of the files", self.files.contains_key(token))?;
            ensure(
                "kubernetes.lists",
                "has a path that no request can ask for",
                lists.iter().all(|list| is_path(list)),
            )?;
        }
        if let Probe::RabbitMq { definitions: Some(file), .. } = &self.ready {
            ensure("ready.definitions", "is none of the files", self.files.contains_key(file))?;
        }
        if let Some(Level { value, lines, tell }) = &self.level {
            ensure("level.value", "is not a word", is_word(value))?;
            ensure("level.lines", "are none, or one is empty", !lines.is_empty() && !lines.contains(""))?;
            match tell {
                Tell::Introspection { .. } => {}
                Tell::Command { argv } => command("level.tell.argv", argv)?,
                Tell::Redis => {
                    ensure("level.tell", "is for Redis", matches!(self.ready, Probe::Redis { .. }))?;
                }
            }
        }
        if let Some(Lists { lines, .. }) = &self.lists {
            ensure("lists.lines", "are none, or one is empty", !lines.is_empty() && !lines.contains(""))?;
        }
        if let Some(drain) = &self.drain {
            command("drain.argv", &drain.argv)?;
            wait("drain.seconds", drain.seconds)?;
        }
        if let Some(Agent { client, .. }) = &self.agent {
            ensure("agent.client", "is empty", !client.is_empty())?;
        }
        if let Some(Identity { lifetime_seconds, reload, at_start, host_files, .. }) = &self.identity {
            // One writer of the pod's certificate.
            ensure("identity", "is only for the container that serves the agent API", self.agent.is_some())?;
            ensure(
                "identity.lifetimeSeconds",
                "is less than 600",
                u64::from(*lifetime_seconds) >= SHORTEST_LIFETIME.as_secs(),
            )?;
            reload.as_ref().map_or(Ok(()), |argv| command("identity.reload", argv))?;
            ensure("identity.atStart", "is not for files of the node", !at_start || host_files.is_none())?;
        }
        if let Some(Relay { host, authorities, password, .. }) = &self.relay {
            ensure("relay.host", "is empty", !host.is_empty())?;
            let is_given = |file: &String| self.files.contains_key(file);
            ensure("relay.authorities", "is none of the files", authorities.as_ref().is_none_or(is_given))?;
            ensure("relay.password", "is none of the files", password.as_ref().is_none_or(is_given))?;
        }
        Ok(())
    }
}

/// Line and column only: the messages of the parser quote what they found.
fn malformed(error: &serde_json::Error) -> Unusable {
    let why = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Syntax => "no JSON",
        serde_json::error::Category::Data => "a field is missing, unknown to this version or of another type",
        serde_json::error::Category::Io => "it cannot be read",
    };
    Unusable::Malformed { line: error.line(), column: error.column(), why }
}

fn ensure(field: &'static str, why: &'static str, holds: bool) -> Result<(), Unusable> {
    if holds { Ok(()) } else { Err(Unusable::Invalid { field, why }) }
}

fn command(field: &'static str, argv: &[String]) -> Result<(), Unusable> {
    ensure(field, "names no program", argv.first().is_some_and(|program| !program.is_empty()))?;
    ensure(field, "has a NUL character", !argv.iter().any(|argument| argument.contains('\0')))
}

fn absolute(field: &'static str, path: &str) -> Result<(), Unusable> {
    let is_plain = path.starts_with('/') && !path.contains('\0') && path.split('/').all(|part| part != "..");
    ensure(field, "is not an absolute path", is_plain)
}

fn wait(field: &'static str, seconds: u32) -> Result<(), Unusable> {
    ensure(field, "is not between 1 and 86,400", (1..=LONGEST_WAIT).contains(&seconds))
}

fn probe(field: &'static str, probe: &Probe) -> Result<(), Unusable> {
    let Probe::Http { path, .. } = probe else { return Ok(()) };
    ensure(field, "has a path that no request can ask for", is_path(path))
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What can stand in a query.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// The keys that a ConfigMap can have, less those the agent keeps for itself.
fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
        && !name.starts_with("..")
        && name != "."
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(file: &str, when: When) -> Place {
        Place { file: file.into(), to: format!("/var/lib/zookeeper/{file}"), when, private: false }
    }

    fn zookeeper() -> Launch {
        let port = NonZeroU16::new(2181).unwrap();
        Launch {
            working_directory: Some("/var/lib/zookeeper".into()),
            environment: BTreeMap::from([("JVMFLAGS".into(), "-Xmx1g".into())]),
            files: BTreeMap::from([
                ("log4j.properties".into(), OnChange::Restart),
                ("users".into(), OnChange::Signal(Signal::Hup)),
                ("zoo.cfg".into(), OnChange::Nothing),
            ]),
            place: vec![
                place("zoo.cfg", When::Always),
                place(
                    "zoo.cfg.dynamic",
                    When::NewestList { id: "myid".into(), config: "zoo.cfg".into(), ensemble: Some("uid".into()) },
                ),
                place("myid", When::Absent),
            ],
            awaits: vec!["/etc/certificates/tls.crt".into()],
            ready: Probe::ZooKeeper { port, host: None, tls: false },
            alive: Some(Probe::Tcp { port, host: None }),
            drain: Some(Drain { argv: vec!["true".into()], seconds: 5 }),
            agent: Some(Agent { port, client: "zookeeper-op".into() }),
            identity: Some(Identity {
                services: BTreeSet::from(["zk.tf.svc".into()]),
                lifetime_seconds: 7_776_000,
                required: true,
                host_files: Some(HostFiles::Trusted),
                reload: None,
                at_start: false,
            }),
            ..Launch::new(vec!["java".into(), "-cp".into(), "/opt/*".into()])
        }
    }

    #[test]
    fn the_file_looks_like_this_and_reads_back() {
        let text = zookeeper().render().unwrap();
        assert_eq!(Launch::parse(text.as_bytes()), Ok(zookeeper()));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn fields_of_a_newer_operator_are_ignored() {
        let text = r#"{"argv": ["a"], "stop": {"signal": "TERM", "seconds": 1, "new": 1}, "ready": {"kind": "Process"}, "new": {}}"#;
        assert_eq!(Launch::parse(text.as_bytes()).unwrap().argv, ["a"]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_reader_and_writer() {
        let with = |change: fn(&mut Launch)| {
            let mut launch = zookeeper();
            change(&mut launch);
            let text = serde_json::to_vec(&launch).unwrap();
            assert_eq!(launch.render().unwrap_err(), Launch::parse(&text).unwrap_err());
            launch.render().unwrap_err().to_string()
        };
        assert_eq!(with(|l| l.argv.clear()), "argv: names no program");
        assert_eq!(with(|l| l.argv[1] = "a\0".into()), "argv: has a NUL character");
        assert_eq!(with(|l| l.working_directory = Some("a".into())), "workingDirectory: is not an absolute path");
        assert_eq!(with(|l| l.place[0].to = "/a/../etc".into()), "place.to: is not an absolute path");
        assert_eq!(with(|l| l.place[0].file = "../a".into()), "place.file: is not the name of a file");
        assert_eq!(with(|l| l.awaits[0] = "tls.crt".into()), "awaits: is not an absolute path");
        assert_eq!(with(|l| drop(l.place.pop())), "place.when: goes by a file that is not placed");
        assert_eq!(with(|l| l.stop.seconds = 0), "stop.seconds: is not between 1 and 86,400");
        assert_eq!(with(|l| l.agent = None), "identity: is only for the container that serves the agent API");
        let short = |l: &mut Launch| l.identity.as_mut().unwrap().lifetime_seconds = 599;
        assert_eq!(with(short), "identity.lifetimeSeconds: is less than 600");
        let relay = |l: &mut Launch| {
            let port = NonZeroU16::new(16389).unwrap();
            let password = Some("password".into());
            l.relay = Some(Relay { port, host: "a".into(), server: port, tls: true, authorities: None, password });
        };
        assert_eq!(with(relay), "relay.password: is none of the files");
        let reads = |token: &str, list: &str| {
            Some(Reads { token: token.into(), lists: [list.to_owned()].into(), server: None })
        };
        let mut launch = zookeeper();
        launch.kubernetes = reads("token", "/api/v1/pods");
        assert_eq!(launch.render().unwrap_err().to_string(), "kubernetes.token: is none of the files");
        launch.kubernetes = reads("users", "api");
        let why = "kubernetes.lists: has a path that no request can ask for";
        assert_eq!(launch.render().unwrap_err().to_string(), why);
        let environment = |l: &mut Launch| drop(l.environment.insert("A=B".into(), String::new()));
        assert_eq!(with(environment), "environment: has a name that no variable can have");
        for name in ["", ".", "..", "..data", "a/b"] {
            let mut launch = zookeeper();
            launch.files.insert(name.into(), OnChange::Nothing);
            assert!(launch.render().is_err(), "{name:?}");
        }
    }

    #[test]
    fn messages_quote_nothing_of_the_file() {
        for text in [r#"{"argv": "hunter2"}"#, r#"{"ready": {"kind": "hunter2"}}"#, "hunter2", r#"["hunter2"#] {
            let message = Launch::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_an_error(text: Vec<u8>) {
            prop_assert!(Launch::parse(&text).is_err());
        }
    }
}
