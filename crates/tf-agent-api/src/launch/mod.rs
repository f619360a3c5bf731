//! The launch file: everything the node agent has to know about a daemon.
//!
//! It stands among the daemon's files under the name [`file_name`], so a change of it is activated like any other change. It
//! holds no secrets. The agent that reads it may be older than the operator that wrote it: fields it does not know
//! are ignored, so a new field needs a meaning when it is absent.

mod agent;
mod change;
mod check;
mod cni;
mod place;
mod probe;
mod queues;
mod settings;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    num::NonZeroU16,
    path::Path,
};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use tf_api::schema::Port;

pub use self::{
    agent::{Agent, HostFiles, Identity, Relay},
    change::{Level, Lists, OnChange, Signal, Tell},
    check::Unusable,
    cni::Cni,
    place::{Place, When, begun},
    probe::{Connections, PER_WORKER, Probe, Reads, one_worker},
    queues::{PriorityGroup, Queues},
    settings::Settings,
};

/// Name of a daemon's launch file.
pub fn file_name(daemon: &str) -> String {
    format!("{daemon}.launch")
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
    /// Files it reads below [`crate::node::RUN_DIR`], and what has to happen when one changes. All of them exist before it starts.
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
    /// Whether it runs on where other arguments or variables are configured, which count from its next start. Default: it is started anew for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_on: bool,
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
    /// Beginnings of the lines of its files that count when it starts and for nothing later. For files that differ in no other line nothing is
    /// done to it. Default: none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub only_at_start: BTreeSet<String>,
    /// Seconds without any answer to [`Self::alive`], or to [`Self::ready`] without it, after which a daemon that has answered since its start counts as hanging: it is killed
    /// and started anew. One that answers that it does not serve does not hang, nor does one that refuses connections. Default: it
    /// is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
    /// Seconds within which it serves for the first time; one that does not is killed and started anew. Default: it is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting: Option<u32>,
    /// Seconds within which it serves again, once it has; one that does not is killed and started anew, unless it is taken out of service. Default: it is
    /// left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovering: Option<u32>,
    /// How it is taken out of service before it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// Whether its container serves the agent API of the pod. At most one container of a pod does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// The certificate that the agent asks for, in the container that serves its API. Default: none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// A network of which the agent tells what addresses its node has ([`crate::state::Status::network`]), in the container that serves its API.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<IpNet>,
    /// Addresses that the daemons of the pod use besides the pod's own, in a data network. The pod's certificate is for them, too, and a daemon
    /// is not started for the first time with one that is not. Default: none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub addresses: BTreeSet<IpAddr>,
    /// The Redis that the agent makes reachable to daemons of the pod. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<Relay>,
    /// The CNI configuration that the agent puts on the node, in the container that serves its API. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<Cni>,
    /// Absolute path of a file in which the daemon says why it ends, a line, for people. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_words: Option<String>,
    /// Kernel settings that the agent keeps on the node, in the container that serves its API. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
    /// Queues of the vRouter's hardware that the agent keeps, in the container that serves its API. Default: they are left as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Queues>,
    /// Options of `tf-node host apply`, by which the agent sets its node up again where the physical interface was made again or another program gave it
    /// an address, in the container that serves its API. Default: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost0: Option<Vec<String>>,
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

/// A command that takes a daemon out of service. It runs in the daemon's environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Seconds until it is killed, 1 to 86,400.
    pub seconds: u32,
}

/// A port of the spec, as a launch file has it.
///
/// # Errors
/// When it is 0.
pub fn port(field: &'static str, port: Port) -> Result<NonZeroU16, Unusable> {
    NonZeroU16::new(port.get()).ok_or(Unusable::Invalid { field, why: "is 0" })
}

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
            runs_on: false,
            stop: Stop { signal: Signal::Term, seconds: 30 },
            ready: Probe::Process,
            alive: None,
            connections: None,
            kubernetes: None,
            level: None,
            lists: None,
            only_at_start: BTreeSet::new(),
            patience: None,
            starting: None,
            recovering: None,
            drain: None,
            agent: None,
            identity: None,
            network: None,
            addresses: BTreeSet::new(),
            relay: None,
            cni: None,
            last_words: None,
            settings: None,
            queues: None,
            vhost0: None,
        }
    }

    /// The text of the file.
    ///
    /// # Errors
    /// What [`Self::parse`] would refuse.
    pub fn render(&self) -> Result<String, Unusable> {
        self.check()?;
        let text = serde_json::to_string_pretty(self).map_err(|error| check::malformed(&error))?;
        Ok(text + "\n")
    }

    /// Reads a launch file.
    ///
    /// # Errors
    /// When it is not of the format, or asks for what cannot be.
    pub fn parse(text: &[u8]) -> Result<Self, Unusable> {
        let launch: Self = serde_json::from_slice(text).map_err(|error| check::malformed(&error))?;
        launch.check()?;
        Ok(launch)
    }

    /// Names of the files that have to exist before the daemon starts.
    pub fn needed(&self) -> impl Iterator<Item = &str> {
        self.files.keys().chain(self.place.iter().map(|place| &place.file)).map(String::as_str)
    }

    /// Whether the daemon starts with a certificate of the member, which it waits for, and goes by it. One that is told to read it again does so, too.
    pub fn starts_with_certificate(&self) -> bool {
        let is_one = |path: &String| Path::new(path).starts_with(crate::node::CERTIFICATE_DIR);
        let waits = self.identity.as_ref().is_some_and(|identity| identity.required) || self.awaits.iter().any(is_one);
        waits && !self.rereads
    }
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
            alive: Some(Probe::Dns { port }),
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
            network: Some("10.1.0.0/24".parse().unwrap()),
            addresses: BTreeSet::from(["10.1.0.7".parse().unwrap()]),
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
    fn a_port_that_states_no_workers_has_one_and_says_nothing_of_it() {
        let text = r#"{"kind":"Http","port":8082,"path":"/"}"#;
        let one: Probe = serde_json::from_str(text).unwrap();
        assert!(matches!(&one, Probe::Http { workers, .. } if workers.get() == 1));
        assert_eq!(serde_json::to_string(&one).unwrap(), text);
        let two = r#"{"kind":"Http","port":8082,"path":"/","workers":2}"#;
        assert_eq!(serde_json::to_string(&serde_json::from_str::<Probe>(two).unwrap()).unwrap(), two);
        let none = r#"{"kind":"Http","port":8082,"path":"/","workers":0}"#;
        assert!(serde_json::from_str::<Probe>(none).is_err());
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
        let cni = |l: &mut Launch| {
            let port = NonZeroU16::new(9091).unwrap();
            l.cni = Some(Cni { source: "/etc/tf/cni/a.conf".into(), targets: vec!["net.d/a.conf".into()], port });
        };
        assert_eq!(with(cni), "cni.targets: is not an absolute path");
        assert_eq!(with(|l| l.last_words = Some("why".into())), "lastWords: is not an absolute path");
        let settings = |l: &mut Launch| l.settings = Some(Settings { file: "sysctl.conf".into(), stated: true });
        assert_eq!(with(settings), "settings.file: is none of the files");
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
