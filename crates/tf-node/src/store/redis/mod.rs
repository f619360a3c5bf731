//! A Redis server, asked in its own protocol with the clients' password.

pub mod copy;
pub mod relay;
pub mod sentinel;
pub mod step_down;
mod wire;

use std::{collections::BTreeMap, fs, net::IpAddr, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use tf_agent_api::{
    node::KEYSTORE_PEM,
    redis::{Copying, DIRECTORY, Facts, PASSWORD_FILE, PEER, PEER_PASSWORD_FILE, Replication},
};
use tokio::join;

use self::wire::{Connection, Reply};
use super::answer;
use crate::{paths::Paths, probe::Target};

/// A server beside the agent.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where it listens.
    pub target: Target,
    /// The other members, where they copy one of them.
    pub replication: Option<Replication>,
}

/// Whether the server answers requests.
pub async fn serves(target: &Target, paths: &Paths) -> Result<String> {
    match open(target, paths).await?.ask(&["PING"]).await? {
        Reply::Word(word) if word == "PONG" => Ok(format!("port {} answers requests", target.port)),
        // While it loads data, among others.
        Reply::Refusal(why) => bail!("the server does not answer requests: {why}"),
        other => bail!("the server answers PING with {other}"),
    }
}

/// Everything that can be found out. What cannot stays empty.
pub async fn facts(server: &Server, paths: &Paths) -> Facts {
    let own = async { answer("server", ask(server, paths)).await.unwrap_or_else(unknown) };
    let Some(replication) = &server.replication else { return own.await };
    let (mut facts, beside) = join!(own, answer("Sentinel", sentinel::says(server.target.host, replication, paths)));
    match beside {
        Ok(sentinel) => facts.sentinel = Some(sentinel),
        Err(why) => facts.sentinel_unknown = Some(why),
    }
    facts
}

fn unknown(why: String) -> Facts {
    Facts { unknown: Some(why), ..Facts::default() }
}

/// Has the server read its certificate, its key and whom it trusts anew: it does so for all of them when it is told one, even if that is
/// what it has (`tls-cert-file` is `VOLATILE_CONFIG` in `config.c`). The Sentinel beside it cannot be told, and is started anew.
pub async fn reload(server: &Server, paths: &Paths) -> Result<()> {
    let request = ["CONFIG", "SET", "tls-cert-file", KEYSTORE_PEM];
    open(&server.target, paths).await?.is_done("CONFIG SET", &request).await?;
    recount(server, paths).await
}

/// Has the server log so much.
pub async fn log(server: &Server, level: &str, paths: &Paths) -> Result<()> {
    open(&server.target, paths).await?.is_done("CONFIG SET", &["CONFIG", "SET", "loglevel", level]).await
}

/// Has the Sentinel beside the server, if there is one, start anew.
pub async fn recount(server: &Server, paths: &Paths) -> Result<()> {
    match &server.replication {
        Some(Replication { sentinel: port, .. }) => {
            sentinel::restart(&Target { port: port.get(), ..server.target }, paths).await
        }
        None => Ok(()),
    }
}

/// File with what the server waits for before it is started ([`copy`]).
fn waits_file(paths: &Paths) -> PathBuf {
    paths.at(DIRECTORY).join("waits")
}

/// Connects to the server beside the agent, as a client.
async fn open(target: &Target, paths: &Paths) -> Result<Connection> {
    // What it waits for is more than that it does not listen.
    if let Ok(waits) = fs::read_to_string(waits_file(paths)) {
        bail!("the server {waits}");
    }
    Connection::open(target, paths, &[&password(PASSWORD_FILE, paths)?]).await
}

/// Connects to a server or Sentinel, as those of the members do.
async fn open_as_peer(target: &Target, paths: &Paths) -> Result<Connection> {
    Connection::open(target, paths, &[PEER, &password(PEER_PASSWORD_FILE, paths)?]).await
}

fn password(file: &str, paths: &Paths) -> Result<String> {
    let file = paths.run_dir().join(file);
    fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))
}

async fn ask(server: &Server, paths: &Paths) -> Result<Facts> {
    info(&mut open(&server.target, paths).await?, server.replication.as_ref()).await
}

/// What a server says of itself; how far it is in what is copied, where that matters.
async fn info(server: &mut Connection, replication: Option<&Replication>) -> Result<Facts> {
    match server.ask(&["INFO"]).await? {
        Reply::Text(text) => read(&text, replication),
        other => bail!("the server answers INFO with {other}"),
    }
}

/// `name:value` a line, with titles between.
fn read(info: &str, replication: Option<&Replication>) -> Result<Facts> {
    let values: BTreeMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
    let value = |name: &str| values.get(name).copied().with_context(|| format!("INFO does not have {name}"));
    let copies = match value("role")? {
        "master" => None,
        _ => Some(format!("{}:{}", value("master_host")?, value("master_port")?)),
    };
    let copying = |replication: &Replication| -> Result<Copying> {
        let name = if copies.is_some() { "slave_repl_offset" } else { "master_repl_offset" };
        // It does not tell where somebody had it take writes without any.
        let good = values.get("min_slaves_good_slaves").filter(|_| copies.is_none());
        let good: Option<usize> = good.and_then(|good| good.parse().ok());
        Ok(Copying {
            offset: value(name)?.parse().with_context(|| format!("{name} is no number of bytes"))?,
            linked: copies.is_some() && value("master_link_status")? == "up",
            copies: values.iter().filter_map(|(name, value)| copy_of(name, value)).collect(),
            lacks: good.map_or(0, |good| (replication.majority() - 1).saturating_sub(good)),
        })
    };
    let copying = replication.map(copying).transpose()?;
    let release = value("redis_version")?.to_owned();
    Ok(Facts { release, loading: value("loading")? != "0", copies, copying, ..Facts::default() })
}

/// A server that copies this one and gets what changes, with how far it is: `slave0:ip=192.0.2.1,port=6389,state=online,offset=1,lag=0`.
fn copy_of(name: &str, value: &str) -> Option<(IpAddr, u64)> {
    name.strip_prefix("slave")?.parse::<u32>().ok()?;
    let fields: BTreeMap<&str, &str> = value.split(',').filter_map(|field| field.split_once('=')).collect();
    let is_online = fields.get("state") == Some(&"online");
    is_online.then(|| Some((fields.get("ip")?.parse().ok()?, fields.get("offset")?.parse().ok()?))).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Redis 7.0.15 answers, in part.
    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\r\n# Persistence\r\nloading:0\r\n\r\n\
                        # Replication\r\nrole:master\r\nconnected_slaves:0\r\n";

    fn three() -> Replication {
        let members = [2, 3, 4].map(|last| IpAddr::from([10, 0, 0, last]));
        Replication { master: "r".into(), sentinel: std::num::NonZeroU16::MAX, members: members.into() }
    }

    #[test]
    fn a_server_on_its_own_is_read() {
        assert_eq!(read(INFO, None).unwrap(), Facts { release: "7.0.15".into(), ..Facts::default() });
    }

    #[test]
    fn a_server_that_loads_and_one_that_copies_another_say_so() {
        assert!(read(&INFO.replace("loading:0", "loading:1"), None).unwrap().loading);
        let copy = INFO.replace("role:master", "role:slave\r\nmaster_host:fd00::9\r\nmaster_port:6379");
        assert_eq!(read(&copy, None).unwrap().copies.as_deref(), Some("fd00::9:6379"));
    }

    #[test]
    fn a_server_that_is_copied_tells_how_far_the_others_are() {
        let master = INFO.replace(
            "connected_slaves:0",
            "connected_slaves:3\r\nslave0:ip=10.0.0.2,port=6389,state=online,offset=41,lag=1\r\n\
             slave1:ip=fd00::3,port=6389,state=online,offset=42,lag=0\r\n\
             slave2:ip=10.0.0.4,port=6389,state=wait_bgsave,offset=0,lag=0\r\nmaster_repl_offset:42",
        );
        let copying = read(&master, Some(&three())).unwrap().copying.unwrap();
        let copies = [("10.0.0.2", 41), ("fd00::3", 42)].map(|(address, offset)| (address.parse().unwrap(), offset));
        assert_eq!(copying, Copying { offset: 42, copies: copies.into(), ..Copying::default() });
        assert!(read(INFO, Some(&three())).is_err());
        let copy = INFO.replace(
            "role:master",
            "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6389\r\nmaster_link_status:up\r\nslave_repl_offset:7",
        );
        assert_eq!(
            read(&copy, Some(&three())).unwrap().copying.unwrap(),
            Copying { offset: 7, linked: true, ..Copying::default() }
        );
        let cut_off = read(&copy.replace("status:up", "status:down"), Some(&three())).unwrap();
        assert!(!cut_off.copying.unwrap().linked);
    }

    #[test]
    fn a_server_with_too_few_copies_to_take_writes_tells_how_many_it_lacks() {
        let lacks = |role: &str, good: &str| {
            let info = INFO.replace("role:master", role).replace("connected_slaves:0", good);
            read(&info, Some(&three())).unwrap().copying.unwrap().lacks
        };
        let master = "role:master\r\nmaster_repl_offset:42";
        assert_eq!(lacks(master, "min_slaves_good_slaves:0"), 1);
        assert_eq!(lacks(master, "min_slaves_good_slaves:1"), 0);
        assert_eq!(lacks(master, ""), 0);
        let copy =
            "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:1\r\nmaster_link_status:up\r\nslave_repl_offset:7";
        assert_eq!(lacks(copy, "min_slaves_good_slaves:0"), 0);
    }

    #[test]
    fn half_of_it_is_not_taken_for_all_of_it() {
        for name in ["redis_version", "loading", "role"] {
            assert!(read(&INFO.replace(name, "other"), None).unwrap_err().to_string().contains(name));
        }
        assert!(read(&INFO.replace("role:master", "role:slave"), None).is_err());
    }

    proptest! {
        #[test]
        fn whatever_it_says_is_facts_or_an_error(info in "\\PC*") {
            let _ = (read(&info, None), read(&info, Some(&three())));
        }
    }
}
