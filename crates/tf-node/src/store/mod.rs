//! What the agent can tell about a store beyond "it serves": one module per store.
//!
//! The verbs that a store's procedures need are here too, beside the facts they change.

pub mod cassandra;
mod line;
mod owner;
pub mod rabbitmq;
pub mod redis;
pub mod zookeeper;

use std::{net::IpAddr, path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use tf_agent_api::{
    cassandra::LOGIN_FILE,
    launch::{Launch, Probe},
    state::Status,
};
use tokio::time::timeout;

use self::cassandra::{
    change::{Changer, Tasks},
    login::Login,
};
use crate::{command::Commands, paths::Paths, probe::Target, set::Set};

/// Why a change was not made.
#[derive(Debug)]
pub enum Failure {
    /// It would do harm, or is pointless.
    Refused(String),
    /// It could not be tried, or failed.
    NotDone(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::NotDone(error)
    }
}

/// For all questions together that a status rests on. The operator waits for 1.5 s.
const PATIENCE: Duration = Duration::from_millis(1200);

/// What somebody answers; else why nothing is known, for people.
async fn answer<T>(who: &str, answer: impl Future<Output = Result<T>>) -> Result<T, String> {
    match timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("the {who} does not answer within {} ms", PATIENCE.as_millis())),
    }
}

/// What an agent remembers of the store beside it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What Cassandra does beside the answer.
    pub tasks: Tasks,
    /// Queues of RabbitMQ.
    pub queues: rabbitmq::queues::Queues,
}

/// A store beside the agent.
#[derive(Clone, Debug)]
pub enum Store {
    /// A ZooKeeper server.
    ZooKeeper(Target),
    /// A RabbitMQ server, by its management plugin.
    RabbitMq {
        /// Its management plugin.
        management: Target,
        /// Its data directory, as the daemon sees it.
        data: String,
        /// Its definitions, as the daemon sees them.
        definitions: Option<PathBuf>,
    },
    /// A Cassandra server.
    Cassandra(cassandra::Server),
    /// A Redis server.
    Redis(redis::Server),
}

impl Store {
    /// The store that a launch file runs: its probe says which.
    pub fn of(launch: &Launch, address: IpAddr) -> Option<Self> {
        match &launch.ready {
            Probe::ZooKeeper { port, host, tls } => {
                Some(Self::ZooKeeper(Target { host: host.unwrap_or(address), port: port.get(), tls: *tls }))
            }
            Probe::RabbitMq { management, definitions, .. } => Some(Self::RabbitMq {
                management: Target { host: address, port: management.get(), tls: true },
                data: launch.working_directory.clone().unwrap_or_default(),
                definitions: definitions.as_ref().and_then(|file| placed(launch, file)),
            }),
            Probe::Cassandra { port, jmx, data, .. } => {
                let clients = Target { host: address, port: port.get(), tls: true };
                let (jmx, data, founds) = (jmx.get(), data.clone(), cassandra::founds(launch));
                Some(Self::Cassandra(cassandra::Server { clients, jmx, data, founds }))
            }
            Probe::Redis { port, replication } => {
                let target = Target { host: address, port: port.get(), tls: true };
                Some(Self::Redis(redis::Server { target, replication: replication.clone() }))
            }
            Probe::Dns { .. }
            | Probe::Kafka { .. }
            | Probe::Http { .. }
            | Probe::NodeStatus { .. }
            | Probe::Sentinel { .. }
            | Probe::Process => None,
        }
    }

    /// Adds the store's facts to the status.
    pub async fn describe(
        &self,
        paths: &Paths,
        daemon: &str,
        memory: &Memory,
        commands: &Commands,
        status: &mut Status,
    ) {
        match self {
            Self::ZooKeeper(target) => status.zookeeper = Some(zookeeper::facts(target, paths).await),
            Self::RabbitMq { management, data, definitions } => {
                let (data, definitions) = (paths.at(data), definitions.as_deref());
                status.rabbitmq = Some(rabbitmq::facts(management, &data, definitions, &memory.queues, paths).await);
            }
            Self::Cassandra(server) => {
                let (server, daemon) = (server.clone(), daemon.to_owned());
                let (paths, tasks, commands) = (paths.clone(), memory.tasks.clone(), commands.clone());
                status.cassandra = Some(cassandra::facts(&Changer { server, daemon, paths, tasks, commands }).await);
            }
            Self::Redis(server) => status.redis = Some(redis::facts(server, paths).await),
        }
    }

    /// Has the server read what it shows and trusts anew.
    ///
    /// # Errors
    /// When it does not say that it did, or the store cannot be asked to.
    pub async fn reload(&self, paths: &Paths) -> Result<()> {
        match self {
            Self::Redis(server) => redis::reload(server, paths).await,
            Self::ZooKeeper(_) | Self::RabbitMq { .. } | Self::Cassandra(_) => bail!("cannot be asked to"),
        }
    }
}

/// First number of the release of the daemon that a set is for, where its files depend on that.
pub fn major(set: &Set) -> Option<u32> {
    matches!(set.launch.ready, Probe::RabbitMq { .. }).then(rabbitmq::release::major).flatten()
}

/// Whether a daemon is to be started so that nobody but the agent reaches it.
pub fn is_private(set: &Set, paths: &Paths) -> bool {
    let Probe::Cassandra { login: Some(login), data, .. } = &set.launch.ready else { return false };
    login.asked && !cassandra::login::is_known(&paths.at(data), paths)
}

/// What there is to do beside a daemon that runs, until its server knows what clients log in with. `formers`: sets by which it may go so far.
pub fn introduce(
    launch: &Launch,
    formers: &[&Set],
    address: IpAddr,
    paths: &Paths,
    is_private: bool,
) -> Option<impl Future<Output = ()> + Send + use<>> {
    let Probe::Cassandra { login: Some(login), .. } = &launch.ready else { return None };
    let Some(Store::Cassandra(server)) = Store::of(launch, address) else { return None };
    let login_of = |set: &&Set| {
        let file = set.files.get(LOGIN_FILE)?;
        Login::parse(std::str::from_utf8(&file.bytes).ok()?).ok()
    };
    let formers = formers.iter().filter_map(login_of).collect();
    Some(cassandra::login::introduce(server, *login, paths.clone(), is_private, formers))
}

/// Whether clients of a store that runs log in with something else by its set than by a former one.
pub fn has_other_login(former: &Set, set: &Set) -> bool {
    former.files.get(LOGIN_FILE).is_some_and(|file| set.files.get(LOGIN_FILE) != Some(file))
}

/// What there is to do beside a daemon that runs, until its server has taken what it reads only when it starts; none if nothing of that
/// is other than in the former set, which the server has taken if `is_taken`.
pub fn tell(
    former: &Set,
    is_taken: bool,
    set: &Set,
    paths: &Paths,
    commands: &Commands,
) -> Option<impl Future<Output = ()> + Send + use<>> {
    let Probe::RabbitMq { definitions: Some(file), .. } = &set.launch.ready else { return None };
    let is_told = is_taken && former.files.get(file) == set.files.get(file);
    let file = placed(&set.launch, file).unwrap_or_else(|| paths.run_dir().join(file));
    (!is_told).then(|| rabbitmq::definitions::import(file, set.clone(), commands.clone()))
}

/// Where a file is placed, as the daemon sees it. What is there is what this release takes.
fn placed(launch: &Launch, file: &str) -> Option<PathBuf> {
    launch.place.iter().find(|place| place.file == file).map(|place| PathBuf::from(&place.to))
}

/// What has to happen beside a store before its daemon is started.
///
/// # Errors
/// When that fails.
pub fn prepare(set: &Set, paths: &Paths) -> Result<()> {
    match (&set.launch.ready, &set.launch.working_directory) {
        (Probe::RabbitMq { .. }, Some(data)) => rabbitmq::prepare(&paths.at(data), set),
        (Probe::Sentinel { .. }, _) => redis::sentinel::prepare(set, paths),
        (Probe::Cassandra { data, .. }, _) => cassandra::prepare(&paths.at(data), set, paths),
        _ => Ok(()),
    }
}
