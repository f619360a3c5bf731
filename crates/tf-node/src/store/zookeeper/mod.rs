//! A ZooKeeper server by its four-letter words.
//!
//! A word is sent as exactly four bytes: a line break after it loses 4 to 8 % of the answers to a reset connection
//! (docs/upstream/zookeeper.md#four-letter-words).

pub mod newest;
pub mod reconfig;
mod wire;

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use tf_agent_api::zookeeper::{Facts, Role};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use crate::{
    paths::Paths,
    probe::{self, Stream, Target},
};

/// No answer of an ensemble of the largest size comes near it.
const LARGEST_ANSWER: u64 = 64 * 1024;
/// For one word.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the server answers requests as a voting member of a quorum; what it said otherwise.
pub async fn serves(target: &Target, paths: &Paths) -> Result<String> {
    let answer = ask(target, paths, *b"isro").await?;
    if answer.trim() != "rw" {
        bail!("the server is not part of a quorum that writes: isro says {:?}", abridged(&answer));
    }
    let mut facts = Facts::default();
    read_conf(&ask(target, paths, *b"conf").await?, &mut facts);
    let Some(servers) = &facts.servers else { bail!("the server does not say which ensemble it is part of") };
    if !servers.voters().any(|voter| voter == facts.id) {
        bail!("server {} follows the quorum and has no vote in it", facts.id);
    }
    Ok(format!("server {} is a voting member of a quorum", facts.id))
}

/// Everything that can be found out. What cannot stays absent.
pub async fn facts(target: &Target, paths: &Paths) -> Facts {
    let mut facts = Facts::default();
    if let Ok(answer) = ask(target, paths, *b"isro").await {
        facts.serving = answer.trim() == "rw";
    }
    if let Ok(answer) = ask(target, paths, *b"srvr").await {
        read_srvr(&answer, &mut facts);
    }
    if let Ok(answer) = ask(target, paths, *b"conf").await {
        read_conf(&answer, &mut facts);
    }
    if facts.role == Role::Leader
        && let Ok(answer) = ask(target, paths, *b"mntr").await
    {
        facts.synced_followers = read_mntr(&answer);
    }
    facts
}

fn read_srvr(answer: &str, facts: &mut Facts) {
    for line in answer.lines() {
        match line.split_once(": ") {
            Some(("Zxid", zxid)) => {
                let digits = zxid.trim().trim_start_matches("0x");
                facts.zxid = u64::from_str_radix(digits, 16).unwrap_or_default();
            }
            Some(("Mode", mode)) => {
                facts.role = match mode.trim() {
                    "leader" => Role::Leader,
                    "follower" => Role::Follower,
                    "observer" => Role::Observer,
                    _ => Role::None,
                }
            }
            _ => {}
        }
    }
}

/// `conf` ends with the list of members that the server goes by (`QuorumZooKeeperServer.dumpConf`).
fn read_conf(answer: &str, facts: &mut Facts) {
    let (head, membership) = answer.split_once("membership:").unwrap_or((answer, ""));
    let id = head.lines().find_map(|line| line.strip_prefix("serverId=")?.trim().parse().ok());
    facts.id = id.unwrap_or_default();
    facts.servers = membership.parse().ok().filter(|_| !membership.trim().is_empty());
}

fn read_mntr(answer: &str) -> Option<u32> {
    let value = answer.lines().find_map(|line| line.strip_prefix("zk_synced_followers"))?.trim();
    // 3.6 and 3.7 print a floating-point number.
    value.split('.').next()?.parse().ok()
}

/// Connects to the server. Its plain port is on the member's address, or on the loopback address alone where other nodes are to
/// use TLS; the list of members moves it from one to the other while the server runs.
async fn connect(target: &Target, paths: &Paths) -> Result<Box<dyn Stream>> {
    let error = match probe::connect(target, paths).await {
        Err(error) if !target.tls && !target.host.is_loopback() => error,
        result => return result,
    };
    let host = if target.host.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    let on_the_node = probe::connect(&Target { host, ..*target }, paths).await;
    on_the_node.map_err(|other| anyhow!("{error:#}; {other:#}"))
}

async fn ask(target: &Target, paths: &Paths, word: [u8; 4]) -> Result<String> {
    let name = String::from_utf8_lossy(&word).into_owned();
    let exchange = async {
        let mut stream = connect(target, paths).await?;
        stream.write_all(&word).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        // Over TLS a server may close without saying so.
        let end = stream.take(LARGEST_ANSWER).read_to_end(&mut answer).await;
        if answer.is_empty() {
            end?;
            bail!("the connection was closed without an answer");
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    timeout(PATIENCE, exchange).await.with_context(|| format!("{name}: no answer in time"))?.context(name)
}

fn abridged(answer: &str) -> String {
    answer.trim().chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As ZooKeeper 3.9.4 answers.
    const CONF: &str = "clientPort=2181\nsecureClientPort=-1\ndataDir=/var/lib/zookeeper/version-2\ndataDirSize=67108880\n\
        dataLogDir=/var/lib/zookeeper/version-2\ndataLogSize=67108880\ntickTime=2000\nmaxClientCnxns=60\n\
        minSessionTimeout=4000\nmaxSessionTimeout=120000\nclientPortListenBacklog=-1\nserverId=2\ninitLimit=5\n\
        syncLimit=2\nelectionAlg=3\nelectionPort=3888\nquorumPort=2888\npeerType=0\nmembership: \n\
        server.1=10.0.0.1:2888:3888:participant;10.0.0.1:2181\nserver.2=10.0.0.2:2888:3888:observer;10.0.0.2:2181\n\
        version=100000003";
    const SRVR: &str = "Zookeeper version: 3.9.4-abc, built on 2025\nLatency min/avg/max: 0/0.0/0\nReceived: 3\nSent: 2\n\
        Connections: 1\nOutstanding: 0\nZxid: 0x100000004\nMode: leader\nNode count: 5\n\
        Proposal sizes last/min/max: -1/-1/-1\n";

    #[test]
    fn answers_of_a_server_are_read() {
        let mut facts = Facts::default();
        read_conf(CONF, &mut facts);
        read_srvr(SRVR, &mut facts);
        assert_eq!((facts.id, facts.zxid, facts.role), (2, 0x1_0000_0004, Role::Leader));
        let servers = facts.servers.unwrap();
        assert_eq!((servers.version, servers.voters().collect::<Vec<_>>()), (0x1_0000_0003, vec![1]));
        assert_eq!(read_mntr("zk_version\t3\nzk_synced_followers\t2\nzk_synced_observers\t0\n"), Some(2));
        assert_eq!(read_mntr("zk_synced_followers\t2.0\n"), Some(2));
    }

    #[test]
    fn a_server_without_quorum_leaves_everything_open() {
        let mut facts = Facts::default();
        let answer = "This ZooKeeper instance is not currently serving requests\n";
        read_conf(answer, &mut facts);
        read_srvr(answer, &mut facts);
        assert_eq!(facts, Facts::default());
    }

    proptest! {
        #[test]
        fn garbage_is_no_fact(answer in "\\PC*") {
            let mut facts = Facts::default();
            read_srvr(&answer, &mut facts);
            read_conf(&answer, &mut facts);
            prop_assert!(read_mntr(&answer).is_none() && facts.role == Role::None);
        }
    }
}
