//! A repair by those that are there, before members that cannot come back are taken out of the ring. It counts for as long as nothing is heard of these: what they
//! acknowledge afterwards is not in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use anyhow::{Context as _, Result, ensure};
use tf_agent_api::cassandra::{Change, Peer};

use super::{
    super::Failure,
    change::{Changer, in_time},
    disk,
    heartbeats::Count,
    inet, session,
};

/// What was last heard of members, by what the ring knows them by.
pub(super) type Silences = BTreeMap<String, Option<Count>>;

/// Of each keyspace that was repaired like that, what was last heard of those that took no part when it began.
#[derive(Debug, Default)]
pub(super) struct RepairedWithout(BTreeMap<String, Silences>);

impl RepairedWithout {
    /// A keyspace was repaired without these.
    pub(super) fn note(&mut self, keyspace: String, silences: Silences) {
        self.0.insert(keyspace, silences);
    }

    /// Of each keyspace, those who took no part, are in the ring still, and have not been heard since.
    pub(super) fn of_present(&self, present: &Silences) -> BTreeMap<String, BTreeSet<String>> {
        let is_silent = |(host_id, count): &(&String, &Option<Count>)| present.get(*host_id) == Some(count);
        let silent =
            |silences: &Silences| silences.iter().filter(is_silent).map(|(host_id, _)| host_id.clone()).collect();
        let all = self.0.iter().map(|(keyspace, silences)| (keyspace.clone(), silent(silences)));
        all.filter(|(_, silent): &(_, BTreeSet<String>)| !silent.is_empty()).collect()
    }
}

/// Begins to repair a keyspace with all but these.
pub(super) async fn repair(
    changer: &Changer,
    change: &Change,
    keyspace: &str,
    absent: &BTreeSet<String>,
) -> Result<(), Failure> {
    let facts = in_time(super::ask(changer)).await?;
    let own = in_time(own_address(changer)).await?;
    let arguments = arguments(keyspace, own, &facts.peers, absent).map_err(Failure::Refused)?;
    let mut silences = changer.tasks.gossip.counts(&facts.peers);
    silences.retain(|host_id, _| absent.contains(host_id));
    let (this, keyspace) = (changer.clone(), keyspace.to_owned());
    changer.tasks.begin(change, async move {
        this.nodetool(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        ensure!(disk::has_served(&this.paths.at(&this.server.data)), "its data directory was emptied meanwhile");
        this.tasks.has_repaired_without(keyspace, silences);
        Ok(())
    })
}

/// Where the others have this server.
async fn own_address(changer: &Changer) -> Result<IpAddr> {
    let mut server = session(&changer.server.clients, &changer.paths).await?;
    let rows = server.query("SELECT broadcast_address FROM system.local").await?;
    inet(rows.first().and_then(|row| row.first())).context("system.local")
}

/// The arguments of `nodetool`, which repairs with none but those it is given (`-hosts`, 3.11 to 5.0), itself among them.
///
/// # Errors
/// Why there is nothing to be done.
fn arguments(
    keyspace: &str,
    own: IpAddr,
    peers: &BTreeMap<IpAddr, Peer>,
    absent: &BTreeSet<String>,
) -> Result<Vec<String>, String> {
    let is_absent = |peer: &Peer| peer.host_id.as_ref().is_some_and(|host_id| absent.contains(host_id));
    if let Some((address, _)) = peers.iter().find(|(_, peer)| is_absent(peer) && peer.heard != Some(false)) {
        return Err(format!("{address} is to be left out of the repair of {keyspace}, and may be there"));
    }
    let others: Vec<IpAddr> = peers.iter().filter(|(_, peer)| !is_absent(peer)).map(|(address, _)| *address).collect();
    if others.is_empty() {
        return Err(format!("there is no other replica to repair {keyspace} with"));
    }
    let hosts = [own].into_iter().chain(others).flat_map(|host| ["-hosts".to_owned(), host.to_string()]);
    Ok(["repair", "-full"].map(str::to_owned).into_iter().chain(hosts).chain([keyspace.to_owned()]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    fn ring(peers: &[(&str, &str, Option<bool>)]) -> BTreeMap<IpAddr, Peer> {
        let peer = |(address, host_id, heard): &(&str, &str, Option<bool>)| {
            let peer = Peer { host_id: Some((*host_id).to_owned()), heard: *heard, ..Peer::default() };
            (address.parse().unwrap(), peer)
        };
        peers.iter().map(peer).collect()
    }

    #[test]
    fn a_repair_names_all_that_are_there_and_none_of_the_others() {
        let asked = |peers: &[_]| arguments("tf", "10.0.0.1".parse().unwrap(), &ring(peers), &ids(&["b"]));
        let three = asked(&[("10.0.0.2", "b", Some(false)), ("10.0.0.3", "c", Some(true))]).unwrap();
        assert_eq!(three.join(" "), "repair -full -hosts 10.0.0.1 -hosts 10.0.0.3 tf");
        let why = asked(&[("10.0.0.2", "b", Some(true)), ("10.0.0.3", "c", Some(true))]).unwrap_err();
        assert!(why.contains("10.0.0.2") && why.contains("may be there"), "{why}");
        assert!(asked(&[("10.0.0.2", "b", None), ("10.0.0.3", "c", Some(true))]).is_err(), "nobody knows");
        assert!(asked(&[("10.0.0.2", "b", Some(false))]).is_err(), "there is nobody else");
    }

    #[test]
    fn a_repair_counts_until_something_is_heard_of_who_took_no_part() {
        let count = |heartbeat| Some(Count { generation: 1, heartbeat });
        let mut repaired = RepairedWithout::default();
        repaired.note("tf".into(), [("b".into(), count(7)), ("c".into(), None)].into());
        let now = |b, c| repaired.of_present(&[("b".into(), b), ("c".into(), c), ("a".into(), count(9))].into());
        assert_eq!(now(count(7), None), [("tf".to_owned(), ids(&["b", "c"]))].into());
        assert_eq!(now(count(8), None), [("tf".to_owned(), ids(&["c"]))].into());
        assert_eq!(now(count(8), count(1)), BTreeMap::new());
        assert_eq!(repaired.of_present(&BTreeMap::new()), BTreeMap::new(), "they are out of the ring");
    }
}
