//! For how long none of the processes of a daemon was elected: a standby opens no port.

use futures::future::join_all;
use tf_testing::resources::until;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zookeeper_client::{Acls, Client as Session, CreateMode};

use super::world::World;
use super::*;
use crate::zookeeper::CLIENT_PORT;

/// Within which a leader that was killed is followed by another one.
const FOLLOWED: Duration = Duration::from_secs(40);
/// For how long a daemon may have no leader: a session of ZooKeeper and five seconds more (`HANDOVER` of `tf_plan::election`).
const HANDOVER: Duration = Duration::from_secs(35);
/// Within which of that the resource says so.
const REPORTED: Duration = Duration::from_secs(10);
/// Daemons that are elected, with their containers, which log it.
const CONTAINERS: [(&str, KindInfo, &str); 4] = [
    ("contrail-schema", CONFIG_KIND, "schematransformer"),
    ("contrail-svc-monitor", CONFIG_KIND, "servicemonitor"),
    ("contrail-device-manager", CONFIG_KIND, "devicemanager"),
    ("contrail-kube-manager", KUBEMANAGER, "kubemanager"),
];
/// What they log.
const IS_ELECTED: &str = "is elected";
/// Elections of Config. A znode with this name is ahead of every other, and of no process.
const ELECTIONS: [&str; 3] = ["/schema-transformer", "/svc-monitor", "/device-manager"];
const AHEAD: &str = "0__lock__-000000001";
/// Between two looks.
const PERIOD: Duration = Duration::from_millis(500);
/// For a port to open.
const PATIENCE: Duration = Duration::from_secs(1);

/// Somebody who looks all the time whether one of the members is at work.
pub struct Lookout {
    end: watch::Sender<bool>,
    task: JoinHandle<Duration>,
}

impl Lookout {
    /// Begins. `port`: the one that who is at work opens.
    pub fn begin(addresses: &[IpAddr], port: u16) -> Self {
        let (end, ended) = watch::channel(false);
        Self { end, task: tokio::spawn(look(addresses.to_vec(), port, ended)) }
    }

    /// Ends, with the longest time in which nobody was.
    ///
    /// # Errors
    /// When it could not look.
    pub async fn end(self) -> Result<Duration> {
        self.end.send_replace(true);
        Ok(self.task.await?)
    }
}

/// Kills the leader of each daemon that is elected, one after the other: another process is elected in time, and opens its port as soon as it has started.
pub async fn killed_leaders_are_followed(world: &World<'_>) -> Result<()> {
    let visitor = Visitor::of(world.client, NAMESPACE).await?;
    let nodes = world.lab.real_nodes()?.all()?;
    for (daemon, port) in DAEMONS.into_iter().skip(1) {
        let (_, kind, container) = CONTAINERS.into_iter().find(|it| it.0 == daemon).context("no container")?;
        world.is_functional().await?;
        let statuses = visitor.statuses(&world.addresses).await?;
        let leader = statuses.keys().find(|(name, _)| *name == daemon).map(|(_, address)| *address);
        let node = nodes.iter().find(|node| Some(node.address()) == leader).context("no leader")?;
        let elections =
            async || Ok::<_, anyhow::Error>(logs(world.client, kind, container).await?.matches(IS_ELECTED).count());
        let before = elections().await?;
        let lookout = Lookout::begin(&world.addresses, port);
        node.kill(daemon)?;
        let killed = Instant::now();
        // The device manager's child serves on until the agent has seen that its parent ended.
        let has_ended = async || Ok(TcpStream::connect((node.address(), port)).await.is_err().then_some(()));
        eventually(&format!("{daemon} to have ended"), FOLLOWED, has_ended).await?;
        let is_followed = async || Ok((elections().await? > before).then_some(()));
        eventually(&format!("another {daemon} to be elected"), FOLLOWED.saturating_sub(killed.elapsed()), is_followed)
            .await?;
        let elected = killed.elapsed();
        world.is_functional().await.with_context(|| format!("{daemon} of {} was killed", node.name()))?;
        let longest = lookout.end().await?;
        println!(
            "{daemon}: after a killed leader another one was elected after {elected:.1?}, and served after {longest:.1?}"
        );
        ensure!(longest < FOLLOWED + start(), "{daemon}: none served for {longest:.1?}");
    }
    Ok(())
}

/// How long daemons take to start where this run has slow ones (`TF_SIM_START_SECONDS`, which the images of the laboratory got, too).
fn start() -> Duration {
    let stated = std::env::var("TF_SIM_START_SECONDS").unwrap_or_default();
    Duration::from_secs(stated.rsplit("..").next().and_then(|most| most.parse().ok()).unwrap_or(0))
}

/// Daemons of Config have no leader, since a znode of no process is ahead of all: Config says so in time, and is Ready when the znodes are gone.
pub async fn daemons_without_a_leader_are_reported(world: &World<'_>) -> Result<()> {
    let servers: Vec<String> = world.addresses.iter().map(|address| format!("{address}:{CLIENT_PORT}")).collect();
    let session = Session::connect(&servers.join(",")).await?;
    for election in ELECTIONS {
        let mode = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        session.create(&format!("{election}/{AHEAD}"), b"of no process", &mode).await?;
    }
    for node in world.lab.real_nodes()?.all()? {
        for (daemon, port) in DAEMONS.into_iter().skip(1) {
            if TcpStream::connect((node.address(), port)).await.is_ok() {
                node.kill(daemon)?;
            }
        }
    }
    let killed = Instant::now();
    let is_reported = |config: &Resource| {
        let daemons = config.object.data["status"]["daemons"].as_array().into_iter().flatten();
        let unelected = daemons.filter(|daemon| daemon["unelectedSince"].is_string()).count();
        let says = |kind, reason| config.condition(kind).is_some_and(|it| it.status == "False" && it.reason == reason);
        unelected == ELECTIONS.len() && says("WorkloadReady", "NoLeader") && config.is("Ready", "False")
    };
    let reported =
        until(world.client, CONFIG_KIND, NAMESPACE, CONFIG.name, "without leaders", HANDOVER + REPORTED, is_reported);
    let reported = reported.await?;
    println!("without leaders: reported after {:.1?}: {}", killed.elapsed(), reported.explain("Ready"));
    for election in ELECTIONS {
        session.delete(&format!("{election}/{AHEAD}"), None).await?;
    }
    world.is_functional().await?;
    resources::ready(world.client, CONFIG_KIND, NAMESPACE, CONFIG.name, REPORTED).await.map(drop)
}

async fn look(addresses: Vec<IpAddr>, port: u16, ended: watch::Receiver<bool>) -> Duration {
    let (mut longest, mut seen) = (Duration::ZERO, Instant::now());
    while !*ended.borrow() {
        let asked = addresses.iter().map(|address| timeout(PATIENCE, TcpStream::connect((*address, port))));
        if join_all(asked).await.into_iter().any(|answer| matches!(answer, Ok(Ok(_)))) {
            seen = Instant::now();
        }
        longest = longest.max(seen.elapsed());
        tokio::time::sleep(PERIOD).await;
    }
    longest
}
