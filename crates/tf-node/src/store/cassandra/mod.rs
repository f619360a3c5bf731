//! A Cassandra server by its system tables, which ask for no JVM.

mod backup;
pub mod change;
mod disk;
mod gossip;
mod heartbeats;
mod image;
pub mod login;
mod save;
mod sstables;
mod wire;
mod without;

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use tf_agent_api::{
    cassandra::{AUTH_KEYSPACE, Facts, Peer},
    launch::{Launch, When},
};

pub use self::disk::prepare;
use self::{
    change::Changer,
    login::Login,
    wire::{Connection, Row, texts},
};
use super::{answer, line, owner};
use crate::{paths::Paths, probe::Target};

/// Whether the server answers requests, which it does once it has joined the ring.
pub async fn serves(target: &Target, paths: &Paths) -> Result<String> {
    Connection::open(target, paths).await?;
    Ok(format!("port {} answers requests", target.port))
}

/// A server beside the agent.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where it answers clients.
    pub clients: Target,
    /// Port by which `nodetool` reaches it.
    pub jmx: u16,
    /// Its data directory, as the daemon sees it.
    pub data: String,
    /// Whether its files are those that a ring is founded with.
    pub founds: bool,
}

/// Whether a server's files are those that a ring is founded with: nothing else is in store for one without data.
pub(super) fn founds(launch: &Launch) -> bool {
    !launch.place.iter().any(|place| matches!(place.when, When::New { .. }))
}

/// Everything that can be found out. What cannot stays empty.
pub async fn facts(changer: &Changer) -> Facts {
    let Changer { server, paths, .. } = changer;
    let data = paths.at(&server.data);
    // Half of it could be taken for all of it.
    let unknown = |why| Facts { unknown: Some(why), ..Facts::default() };
    let mut facts = answer("server", ask(changer)).await.unwrap_or_else(unknown);
    line::note(&data, &facts.release);
    if !facts.host_id.is_empty() {
        disk::note_served(&data, paths, || owner::recorded(paths, server.clients.host));
    }
    (facts.repaired, facts.repaired_at) = (disk::repaired(&data), disk::repaired_at(&data));
    (facts.has_served, facts.founds) = (disk::has_served(&data), server.founds);
    (facts.owner, facts.joined) = (owner::of(&data), disk::joined(&data));
    facts.left = facts.host_id.is_empty() && disk::has_left(&data);
    (facts.backups, facts.restored) = (disk::backups(&data), disk::restored(&data));
    facts.has_login = login::is_known(&data, paths);
    changer.tasks.describe(&mut facts);
    facts.older = changer.tasks.sstables.older(&disk::keyspaces(&data), &facts, Instant::now());
    facts
}

async fn ask(changer: &Changer) -> Result<Facts> {
    let Changer { server, paths, tasks, .. } = changer;
    let mut server = session(&server.clients, paths).await?;
    let local = server.query("SELECT host_id, release_version, schema_version FROM system.local").await?;
    let mut facts = read_local(&local)?;
    facts.peers = read_peers(&server.query("SELECT peer, host_id FROM system.peers").await?)?;
    let keyspaces = server.query(KEYSPACES).await?;
    facts.keyspaces = of_clients(read_keyspaces(&keyspaces)?, paths)?;
    facts.placed = read_placed(&keyspaces)?;
    facts.grace = read_grace(&server.query("SELECT keyspace_name, gc_grace_seconds FROM system_schema.tables").await?)?;
    facts.grace.retain(|keyspace, _| facts.keyspaces.contains_key(keyspace));
    if gossip::has_table(&facts.release) {
        tasks.gossip.take(gossip::read_table(&server.query(gossip::TABLE).await?)?, Instant::now());
    } else {
        tasks.gossip.ask(changer, &facts.peers);
    }
    tasks.gossip.describe(&mut facts, Instant::now());
    Ok(facts)
}

/// A release of Cassandra, by which it is known what a server can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Release {
    major: u32,
    minor: u32,
}

impl Release {
    /// Of a version such as `3.11.19` or `6.0-alpha2`; the first of all where it is none.
    fn of(version: &str) -> Self {
        let mut numbers = version.split(|it: char| !it.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
        Self { major: numbers.next().unwrap_or(0), minor: numbers.next().unwrap_or(0) }
    }
}

async fn session(target: &Target, paths: &Paths) -> Result<Connection> {
    let login = Login::read(paths)?;
    let mut server = Connection::open(target, paths).await?;
    let Err(refused) = server.start(login.as_ref()).await else { return Ok(server) };
    let next = Login::mounted(paths).filter(|next| login.as_ref() != Some(next));
    let Some(next) = next else { return Err(refused) };
    let mut server = Connection::open(target, paths).await?;
    server.start(Some(&next)).await?;
    Ok(server)
}

/// Keyspaces of the server itself, 3.11 to 5.0.
const OWN_KEYSPACES: [&str; 7] = [
    "system",
    "system_auth",
    "system_distributed",
    "system_schema",
    "system_traces",
    "system_views",
    "system_virtual_schema",
];

/// Keyspaces of clients, however their rows are placed, each with whether what is written to it goes to the commit log.
async fn all_keyspaces(server: &mut Connection) -> Result<BTreeMap<String, bool>> {
    read_all_keyspaces(&server.query("SELECT keyspace_name, durable_writes FROM system_schema.keyspaces").await?)
}

fn read_all_keyspaces(rows: &[Row]) -> Result<BTreeMap<String, bool>> {
    let mut keyspaces = BTreeMap::new();
    for row in rows {
        let [Some(name), durable] = row.as_slice() else { bail!("keyspaces: another table") };
        let name = text(name);
        if !OWN_KEYSPACES.contains(&name.as_str()) {
            keyspaces.insert(name, durable.as_deref() != Some(&[0]));
        }
    }
    Ok(keyspaces)
}

/// Keyspaces of clients, each with how many members hold a row; where clients log in, that of the users, too. Others of the server itself, and
/// those that somebody placed by data centre, are not among them.
fn of_clients(mut keyspaces: BTreeMap<String, u32>, paths: &Paths) -> Result<BTreeMap<String, u32>> {
    let have_users = Login::read(paths)?.is_some();
    keyspaces.retain(|name, _| !name.starts_with("system") || have_users && name == AUTH_KEYSPACE);
    Ok(keyspaces)
}

async fn simple_keyspaces(server: &mut Connection) -> Result<BTreeMap<String, u32>> {
    read_keyspaces(&server.query(KEYSPACES).await?)
}

/// All keyspaces and how their rows are placed.
const KEYSPACES: &str = "SELECT keyspace_name, replication FROM system_schema.keyspaces";

/// All keyspaces whose rows are on a number of members wherever these are, with that number.
fn read_keyspaces(rows: &[Row]) -> Result<BTreeMap<String, u32>> {
    let factor = |replication: &BTreeMap<String, String>| replication.get("replication_factor")?.parse().ok();
    let simple = replications(rows, "SimpleStrategy")?.into_iter();
    Ok(simple.filter_map(|(name, replication)| Some((name, factor(&replication)?))).collect())
}

/// Keyspaces of clients whose rows are placed by data centre, with the largest number of members of one.
fn read_placed(rows: &[Row]) -> Result<BTreeMap<String, u32>> {
    let most = |replication: BTreeMap<String, String>| replication.values().filter_map(|it| it.parse().ok()).max();
    let placed = replications(rows, "NetworkTopologyStrategy")?.into_iter();
    let placed = placed.filter(|(name, _)| !OWN_KEYSPACES.contains(&name.as_str()));
    Ok(placed.map(|(name, replication)| (name, most(replication).unwrap_or(0))).collect())
}

/// Keyspaces whose rows are placed by this strategy, each with its settings.
fn replications(rows: &[Row], strategy: &str) -> Result<BTreeMap<String, BTreeMap<String, String>>> {
    let mut found = BTreeMap::new();
    for row in rows {
        let [Some(name), Some(replication)] = row.as_slice() else { bail!("keyspaces: another table") };
        let replication = texts(replication)?;
        if replication.get("class").is_some_and(|class| class.ends_with(strategy)) {
            found.insert(text(name), replication);
        }
    }
    Ok(found)
}

/// The shortest time of each keyspace's tables that is not 0.
fn read_grace(rows: &[Row]) -> Result<BTreeMap<String, u32>> {
    let mut shortest = BTreeMap::new();
    for row in rows {
        let [Some(keyspace), Some(seconds)] = row.as_slice() else { bail!("tables: another table") };
        let seconds = u32::try_from(int(Some(seconds))?).unwrap_or_default();
        if seconds == 0 {
            continue;
        }
        let least = shortest.entry(text(keyspace)).or_insert(seconds);
        *least = (*least).min(seconds);
    }
    Ok(shortest)
}

fn read_local(rows: &[Row]) -> Result<Facts> {
    let [row] = rows else { bail!("system.local has {} rows", rows.len()) };
    let [Some(host_id), Some(release), Some(schema)] = row.as_slice() else {
        bail!("system.local is not complete yet")
    };
    Ok(Facts { host_id: uuid(host_id)?, release: text(release), schema: uuid(schema)?, ..Facts::default() })
}

fn read_peers(rows: &[Row]) -> Result<BTreeMap<IpAddr, Peer>> {
    rows.iter()
        .map(|row| {
            let host_id = row.get(1).and_then(Option::as_deref).map(uuid).transpose()?;
            Ok((inet(row.first()).context("system.peers")?, Peer { host_id, ..Peer::default() }))
        })
        .collect()
}

fn inet(value: Option<&Option<Vec<u8>>>) -> Result<IpAddr> {
    let bytes = value.and_then(Option::as_deref).context("no address")?;
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(|bytes| Ipv4Addr::from(bytes).into());
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).into());
    v4().or_else(v6).context("an address that is none")
}

fn int(value: Option<&Vec<u8>>) -> Result<i32> {
    let bytes = value.context("no number")?.as_slice();
    Ok(i32::from_be_bytes(bytes.try_into().context("a number that is none")?))
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(bytes.as_ref()).into_owned()
}

/// In the form that people know.
fn uuid(bytes: &[u8]) -> Result<String> {
    let number = u128::from_be_bytes(bytes.try_into().context("an identifier that is none")?);
    let part = |shift: u32, digits: u32| (number >> shift) & ((1 << (4 * digits)) - 1);
    let [first, second, third, fourth] =
        [(96, 8), (80, 4), (64, 4), (48, 4)].map(|(shift, digits)| part(shift, digits));
    Ok(format!("{first:08x}-{second:04x}-{third:04x}-{fourth:04x}-{:012x}", part(0, 12)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_itself_is_read_and_a_half_known_one_is_not() {
        let id: Vec<u8> = (0..16).collect();
        let row = |release: Option<&[u8]>| vec![Some(id.clone()), release.map(<[u8]>::to_vec), Some(id.clone())];
        let facts = read_local(&[row(Some(b"5.0.9"))]).unwrap();
        assert_eq!((facts.release.as_str(), facts.schema.as_str()), ("5.0.9", "00010203-0405-0607-0809-0a0b0c0d0e0f"));
        assert!(read_local(&[row(None)]).is_err() && read_local(&[]).is_err());
    }

    #[test]
    fn keyspaces_of_clients_are_those_that_are_not_the_servers_own() {
        let row = |name: &str, durable: u8| vec![Some(name.as_bytes().to_vec()), Some(vec![durable])];
        let rows = [row("system_auth", 1), row("systems", 0), row("config_db_uuid", 1)];
        let expected = BTreeMap::from([("config_db_uuid".to_owned(), true), ("systems".to_owned(), false)]);
        assert_eq!(read_all_keyspaces(&rows).unwrap(), expected);
        assert!(read_all_keyspaces(&[vec![None, None]]).is_err());
    }

    #[test]
    fn keyspaces_are_told_apart_by_how_their_rows_are_placed() {
        let map = |pairs: &[(&str, &str)]| {
            let part = |text: &str| [&(text.len() as i32).to_be_bytes()[..], text.as_bytes()].concat();
            let pairs_of = pairs.iter().flat_map(|(key, value)| [part(key), part(value)]).flatten();
            Some((pairs.len() as i32).to_be_bytes().into_iter().chain(pairs_of).collect::<Vec<u8>>())
        };
        let row = |name: &str, replication| vec![Some(name.as_bytes().to_vec()), replication];
        let simple = [("class", "org.apache.cassandra.locator.SimpleStrategy"), ("replication_factor", "3")];
        let placed = [("class", "org.apache.cassandra.locator.NetworkTopologyStrategy"), ("a", "2"), ("b", "3")];
        let rows = [row("tf", map(&simple)), row("theirs", map(&placed)), row("system_auth", map(&placed))];
        assert_eq!(read_keyspaces(&rows).unwrap(), BTreeMap::from([("tf".to_owned(), 3)]));
        assert_eq!(read_placed(&rows).unwrap(), BTreeMap::from([("theirs".to_owned(), 3)]));
    }

    #[test]
    fn deletions_of_a_keyspace_are_remembered_as_long_as_the_shortest_of_its_tables_does_that_remembers_any() {
        let table = |keyspace: &str, seconds: i32| {
            vec![Some(keyspace.as_bytes().to_vec()), Some(seconds.to_be_bytes().to_vec())]
        };
        let tables = [table("a", 864_000), table("a", 3600), table("a", 0), table("b", 0)];
        assert_eq!(read_grace(&tables).unwrap(), BTreeMap::from([("a".to_owned(), 3600)]));
        assert!(read_grace(&[vec![None]]).is_err());
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let v6: IpAddr = "fd00::2".parse().unwrap();
        let IpAddr::V6(bytes) = v6 else { panic!("{v6}") };
        assert_eq!(inet(Some(&Some(bytes.octets().to_vec()))).unwrap(), v6);
        assert!(inet(Some(&None)).is_err() && inet(Some(&Some(vec![1, 2, 3]))).is_err());
    }
}
