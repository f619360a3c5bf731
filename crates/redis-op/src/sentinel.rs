//! Files of the Sentinel beside each server, of directives that every release from 6.2 on knows; loaded by a real 7.0.15.

use std::{collections::BTreeMap, net::IpAddr};

use tf_agent_api::{
    launch::{Launch, OnChange, Probe, Unusable},
    node::{KEYSTORE_PEM, TRUSTSTORE_PEM},
    redis::{DIRECTORY, PEER, PEER_PASSWORD_FILE, Replication, SENTINEL_FILES},
};
use tf_api::{common::LogLevel, contract::MemberStatus};
use tf_config_files::{RedisConf, Settings as _, Unrepresentable};
use tf_plan::{hash, not_ready::NotReady};

use crate::{config, mode, password::Password, ports::Ports};

/// The daemon.
pub const CONTAINER: &str = "sentinel";
/// Milliseconds of silence after which a Sentinel takes a server for lost, with a server that another one took the place of in mind:
/// one that is cut off stops taking writes a second before ([`config::LONGEST_LAG`]). Below it a busy machine looks like a lost one.
const DOWN_AFTER: u32 = 5_000;
/// Milliseconds for each part of a failover. The next one is tried after twice as long, and members are to agree within 30 s
/// (docs/upstream/redis.md#failover).
const FAILOVER_TIMEOUT: u32 = 6_000;

/// [`SENTINEL_FILES`]'s first, of the member with this address. All others are named, so that none has to be found: a Sentinel that
/// begins anew counts them at once, and votes for nobody by less than half. Its number follows from the member's: a pod that is made anew is
/// no further voter. The server that it begins with is a guess, which any Sentinel that knows of a failover corrects.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn file(
    own: &MemberStatus,
    members: &[MemberStatus],
    uid: &str,
    replication: &Replication,
    ports: Ports,
    level: LogLevel,
) -> Result<String, NotReady> {
    let address = mode::address(own)?;
    let name = replication.master.as_str();
    let (redis, sentinel) = (ports.redis.to_string(), replication.sentinel.to_string());
    let addresses = members.iter().map(mode::address).collect::<Result<Vec<IpAddr>, _>>()?;
    let mut file = RedisConf::new(SENTINEL_FILES[0]);
    config::tls(&mut file, address, &sentinel);
    file.set("tls-replication", "yes")
        .set("dir", DIRECTORY)
        .set("daemonize", "no")
        .set("logfile", "")
        .set("loglevel", config::log_level(level));
    let quorum = replication.majority().to_string();
    file.line("sentinel", ["myid", &number(uid, own)])
        // Addresses are those of nodes. A name that is not resolved at the moment would stop everything.
        .line("sentinel", ["resolve-hostnames", "no"])
        .line("sentinel", ["announce-ip", &address.to_string()])
        .line("sentinel", ["announce-port", &sentinel]);
    if let Some(first) = addresses.first() {
        file.line("sentinel", ["monitor", name, &first.to_string(), &redis, &quorum]);
    }
    file.line("sentinel", ["down-after-milliseconds", name, &DOWN_AFTER.to_string()])
        .line("sentinel", ["failover-timeout", name, &FAILOVER_TIMEOUT.to_string()])
        // One copy at a time is without data, when all of it has to be sent.
        .line("sentinel", ["parallel-syncs", name, "1"]);
    for address in &addresses {
        file.line("sentinel", ["known-replica", name, &address.to_string(), &redis]);
    }
    for (member, address) in members.iter().zip(&addresses).filter(|(member, _)| member.id != own.id) {
        file.line("sentinel", ["known-sentinel", name, &address.to_string(), &sentinel, &number(uid, member)]);
    }
    Ok(file.render()?)
}

/// The number by which Sentinels know each other, 40 hexadecimal digits.
fn number(uid: &str, member: &MemberStatus) -> String {
    let part = |part: &str| hash::of_contents([(part, format!("{uid}/{}", member.id).as_bytes())]);
    let mut number = ["a", "b", "c"].map(part).concat();
    number.truncate(40);
    number
}

/// [`SENTINEL_FILES`]'s second, the same for all members.
///
/// # Errors
/// When a password cannot be expressed in the file.
pub fn auth_file(clients: &Password, peers: &Password, replication: &Replication) -> Result<String, Unrepresentable> {
    let (name, password) = (replication.master.as_str(), peers.expose());
    let mut file = RedisConf::new(SENTINEL_FILES[1]);
    file.set_credential("requirepass", clients.expose());
    config::peer(&mut file, peers);
    file.line("sentinel", ["sentinel-user", PEER])
        .line("sentinel", ["sentinel-pass", password])
        .line("sentinel", ["auth-user", name, PEER])
        .line("sentinel", ["auth-pass", name, password]);
    file.render()
}

/// How the agent runs the Sentinel.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn launch_file(replication: &Replication) -> Result<String, Unusable> {
    let [file, secret] = SENTINEL_FILES;
    Launch {
        files: BTreeMap::from([
            (file.into(), OnChange::Restart),
            (secret.into(), OnChange::Restart),
            // For the agent.
            (PEER_PASSWORD_FILE.into(), OnChange::Nothing),
        ]),
        // The agent in the server's container asks for it.
        awaits: [KEYSTORE_PEM, TRUSTSTORE_PEM].map(str::to_owned).to_vec(),
        ready: Probe::Sentinel { port: replication.sentinel },
        ..Launch::new(vec!["redis-server".into(), format!("{DIRECTORY}/{file}"), "--sentinel".into()])
    }
    .render()
}
