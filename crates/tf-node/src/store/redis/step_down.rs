//! Another Redis server takes writes in the place of one that is to be stopped.
//!
//! `SENTINEL FAILOVER` alone loses what the server acknowledges meanwhile: it goes on to take writes until it is told, and those of its copies
//! that are told later go on to acknowledge them. So nothing is written from before until after: clients that write wait (`CLIENT
//! PAUSE`), and then learn that the server is a copy.

use std::{collections::BTreeSet, fs::File, net::IpAddr, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use tf_agent_api::redis::{Copying, DIRECTORY, Facts, Replication};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    super::Failure,
    Server, info, open, open_as_peer, sentinel,
    wire::{Connection, Reply},
};
use crate::{log, materialise::RunDir, paths::Paths, pod::Pod, probe::Target, store::Store};

/// Until all others have what was written. They tell how far they are once a second.
const CATCH_UP: Duration = Duration::from_secs(5);
/// Until another server takes writes: 1.2 s where nothing else happens (docs/upstream/redis.md#failover).
const TAKE_OVER: Duration = Duration::from_secs(12);
/// For one question to another member.
const PATIENCE: Duration = Duration::from_secs(1);
/// Milliseconds that clients wait if this is interrupted: longer than both.
const PAUSE: &str = "20000";
/// Between two looks.
const PACE: Duration = Duration::from_millis(100);
/// Who has locked this file in [`DIRECTORY`] does it.
const LOCK: &str = "step-down.lock";
/// How a Sentinel's refusal begins that has begun a failover already (`sentinelCommand` in `sentinel.c`).
const IN_PROGRESS: &str = "INPROG";

/// `tf-node step-down`: before the pod is stopped.
///
/// # Errors
/// When no other server took over.
pub async fn command(paths: &Paths, daemon: &str) -> Result<ExitCode> {
    let set = RunDir::new(paths.run_dir()).load(daemon)?.context("the daemon was never started")?;
    let Some(Store::Redis(server)) = Store::of(&set.launch, Pod::from_environment()?.address) else {
        return Err(anyhow!("the daemon is no Redis server"));
    };
    match step_down(&server, paths).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Failure::Refused(why)) => Err(anyhow!(why)),
        Err(Failure::NotDone(error)) => Err(error),
    }
}

/// Has another server take writes, if this one does.
///
/// # Errors
/// When no other one took over. Then this one goes on to take them.
pub async fn step_down(server: &Server, paths: &Paths) -> Result<(), Failure> {
    let Some(replication) = &server.replication else {
        return Err(Failure::Refused("no other server copies it".to_owned()));
    };
    let _lock = lock(paths).await?;
    let mut own = open(&server.target, paths).await?;
    if info(&mut own, Some(replication)).await?.copies.is_some() {
        return Ok(());
    }
    catch_up(&mut own, &server.target, replication, paths, false).await?;
    own.is_done("CLIENT PAUSE", &["CLIENT", "PAUSE", PAUSE, "WRITE"]).await?;
    let result = timeout(CATCH_UP + TAKE_OVER, hand_over(&mut own, &server.target, replication, paths)).await;
    let result = result.unwrap_or_else(|_| Err(Failure::NotDone(anyhow!("the others do not answer"))));
    // Another server may be about to take writes still: what this one took meanwhile would be lost, so the pause runs out by itself.
    if let Err(failure @ Failure::NotDone(_)) = result {
        return Err(failure);
    }
    // Those that waited write, or learn that it is a copy.
    let resumed = own.is_done("CLIENT UNPAUSE", &["CLIENT", "UNPAUSE"]).await;
    let master = result?;
    resumed?;
    log::info("another server takes writes", &json!({"server": master}));
    Ok(())
}

/// Waits until no other process does it, and keeps others from it: the agent, which the operator asks to, and the command that is run before the pod
/// is stopped would each end the pause of the other one.
async fn lock(paths: &Paths) -> Result<File, Failure> {
    let path = paths.at(DIRECTORY).join(LOCK);
    let lock = File::create(&path).with_context(|| format!("open {}", path.display()))?;
    let until = Instant::now() + CATCH_UP + TAKE_OVER;
    while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > until {
            return Err(Failure::Refused("another process hands over at this moment".to_owned()));
        }
        sleep(PACE).await;
    }
    Ok(lock)
}

/// Refused where certainly no Sentinel has begun.
async fn hand_over(
    own: &mut Connection,
    target: &Target,
    replication: &Replication,
    paths: &Paths,
) -> Result<IpAddr, Failure> {
    catch_up(own, target, replication, paths, true).await?;
    let leader = begin(target.host, replication, paths).await?;
    let until = Instant::now() + TAKE_OVER;
    let master = loop {
        // It may be away for a moment.
        let said = timeout(PATIENCE, sentinel::says(leader, replication, paths)).await;
        if let Ok(Ok(said)) = said
            && said.master != target.host
            && takes_writes(said.master, target, paths).await
        {
            break said.master;
        }
        if Instant::now() > until {
            return Err(Failure::NotDone(anyhow!("no other server takes writes after {} s", TAKE_OVER.as_secs())));
        }
        sleep(PACE).await;
    };
    // The Sentinels tell it, too, within some seconds, and until then it would take writes that nobody copies.
    let (host, port) = (master.to_string(), target.port.to_string());
    own.is_done("REPLICAOF", &["REPLICAOF", &host, &port]).await?;
    Ok(master)
}

/// Waits until the others have what this server has. `is_paused`: whether nothing is written any more.
async fn catch_up(
    own: &mut Connection,
    target: &Target,
    replication: &Replication,
    paths: &Paths,
    is_paused: bool,
) -> Result<(), Failure> {
    let until = Instant::now() + CATCH_UP;
    while let Some(why) = lacking(own, target, replication, paths, is_paused).await? {
        if Instant::now() > until {
            return Err(Failure::Refused(why));
        }
        sleep(PACE).await;
    }
    Ok(())
}

/// Why another server could take writes without what this one has. One that has just started copies nobody yet, and Sentinels go by what they saw of
/// it some seconds ago. One that does not answer is not chosen, and not waited for.
async fn lacking(
    own: &mut Connection,
    target: &Target,
    replication: &Replication,
    paths: &Paths,
    is_paused: bool,
) -> Result<Option<String>> {
    let Copying { offset, copies, .. } = info(own, Some(replication)).await?.copying.unwrap_or_default();
    if copies.is_empty() {
        return Ok(Some("no other server copies it at this moment".to_owned()));
    }
    let behind = copies.iter().find(|(_, has)| is_paused && **has < offset);
    if let Some((copy, has)) = behind {
        return Ok(Some(format!("the server at {copy}, which copies it, lacks {} bytes", offset - has)));
    }
    let mut asked = JoinSet::new();
    for host in replication.members.iter().copied().filter(|it| *it != target.host && !copies.contains_key(it)) {
        let (target, paths) = (Target { host, ..*target }, paths.clone());
        asked.spawn(async move { ask(&target, &paths).await.map(|_| host) });
    }
    let answers = asked.join_all().await.into_iter().flatten().min();
    Ok(answers.map(|host| format!("the server at {host} answers and does not copy it yet")))
}

/// Members whose Sentinels are asked to begin: the one beside the server may be about to be stopped, too, and is the last. It is the only one left
/// where all others that its configuration names were replaced meanwhile.
fn asked(own: IpAddr, members: &BTreeSet<IpAddr>) -> impl Iterator<Item = IpAddr> {
    members.iter().copied().filter(move |member| *member != own).chain([own])
}

/// Has a Sentinel begin, and says whose.
async fn begin(own: IpAddr, replication: &Replication, paths: &Paths) -> Result<IpAddr, Failure> {
    let mut why = String::new();
    for member in asked(own, &replication.members) {
        match begin_by(member, own, replication, paths).await {
            Ok(()) => return Ok(member),
            Err(error) => why = format!("the Sentinel at {member}: {error:#}"),
        }
    }
    Err(Failure::Refused(why))
}

/// Has the Sentinel of a member begin; an error if it certainly did not. Where it may have no other one is asked to: two failovers at once can have one
/// number, and make two servers the one that takes writes.
async fn begin_by(member: IpAddr, own: IpAddr, replication: &Replication, paths: &Paths) -> Result<()> {
    let look = async {
        let mut sentinel = sentinel::open(member, replication, paths).await?;
        let said = sentinel::said(&mut sentinel, replication).await?;
        anyhow::Ok((sentinel, said))
    };
    let (mut sentinel, said) = timeout(PATIENCE, look).await.context("it does not answer")??;
    if said.master != own {
        return Ok(());
    }
    match timeout(PATIENCE, sentinel.ask(&["SENTINEL", "FAILOVER", &replication.master])).await {
        Ok(Ok(Reply::Refusal(why))) if !why.starts_with(IN_PROGRESS) => {
            bail!("it answers SENTINEL FAILOVER with {why}")
        }
        _ => Ok(()),
    }
}

async fn takes_writes(host: IpAddr, target: &Target, paths: &Paths) -> bool {
    ask(&Target { host, ..*target }, paths).await.is_some_and(|facts| facts.copies.is_none())
}

/// What the server of a member says of itself, if it answers.
async fn ask(target: &Target, paths: &Paths) -> Option<Facts> {
    let asked = async { info(&mut open_as_peer(target, paths).await?, None).await };
    timeout(PATIENCE, asked).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentinel_beside_the_server_is_asked_when_no_other_one_begins() {
        let member = |index: u8| IpAddr::from([10, 0, 0, index]);
        let members = [1, 2, 3].map(member).into();
        assert!(asked(member(2), &members).eq([1, 3, 2].map(member)));
    }
}
