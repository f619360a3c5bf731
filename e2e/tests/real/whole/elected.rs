//! For how long none of the processes of a daemon was elected: a standby opens no port.

use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::world::World;
use super::*;

/// Within which a leader that was killed is followed by another one.
const FOLLOWED: Duration = Duration::from_secs(40);
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

/// Kills the leader of each daemon that is elected, one after the other: another process leads in time.
pub async fn killed_leaders_are_followed(world: &World<'_>) -> Result<()> {
    let visitor = Visitor::of(world.client, NAMESPACE).await?;
    let nodes = world.lab.real_nodes()?.all()?;
    for (daemon, port) in DAEMONS.into_iter().skip(1) {
        world.is_functional().await?;
        let statuses = visitor.statuses(&world.addresses).await?;
        let leader = statuses.keys().find(|(name, _)| *name == daemon).map(|(_, address)| *address);
        let node = nodes.iter().find(|node| Some(node.address()) == leader).context("no leader")?;
        let lookout = Lookout::begin(&world.addresses, port);
        node.kill(daemon)?;
        // The device manager's child serves on until the agent has seen that its parent ended.
        let has_ended = async || Ok(TcpStream::connect((node.address(), port)).await.is_err().then_some(()));
        eventually(&format!("{daemon} to have ended"), FOLLOWED, has_ended).await?;
        world.is_functional().await.with_context(|| format!("{daemon} of {} was killed", node.name()))?;
        let longest = lookout.end().await?;
        println!("{daemon}: a killed leader was followed after {longest:.1?}");
        ensure!(longest < FOLLOWED, "{daemon}: no process was elected for {longest:.1?}");
    }
    Ok(())
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
