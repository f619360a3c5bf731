//! What the node agent of a Redis member knows of the others, decides when a server starts, and reports, in the words of `INFO` and
//! `SENTINEL MASTER`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    num::NonZeroU16,
};

use serde::{Deserialize, Serialize};

/// File of the launch file's set with the password by which the agent asks the server, from the Secret. It is the clients'.
pub const PASSWORD_FILE: &str = "agent-password";
/// File of the launch file's set with the password by which servers, Sentinels and agents of the members speak with each other, from
/// the Secret. The user is called [`PEER`].
pub const PEER_PASSWORD_FILE: &str = "peer-password";
/// The user as whom servers, Sentinels and agents of the members speak with each other.
pub const PEER: &str = "peer";
/// Directory in memory where servers and Sentinels write their configuration anew.
pub const DIRECTORY: &str = "/var/lib/redis";
/// Files of a Sentinel's set: the rendered one, and the part of it that is secret. It reads both, and what it noted itself, from a file
/// called like the first one in [`DIRECTORY`].
pub const SENTINEL_FILES: [&str; 2] = ["sentinel.conf", "sentinel-auth.conf"];

/// How a server that is copied, or copies another one, finds out which of the two it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replication {
    /// What the Sentinels call the server that takes writes.
    pub master: String,
    /// Port of a member's Sentinel, over TLS.
    pub sentinel: NonZeroU16,
    /// Addresses of all members.
    pub members: BTreeSet<IpAddr>,
}

impl Replication {
    /// How many of the members are more than half of them.
    pub fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }
}

/// What a Sentinel has as the server that takes writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sentinel {
    /// Address of that server.
    pub master: IpAddr,
    /// Number of the failover by which it became that (`config-epoch`); 0 before the first one.
    pub epoch: u64,
    /// How many other Sentinels it counts (`num-other-sentinels`): whoever made itself known since it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<usize>,
    /// Why the Sentinels cannot have another server take writes, in the words of `SENTINEL CKQUORUM`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuses: Option<String>,
}

/// What several Sentinels have as the server that takes writes: that of the last failover.
pub fn truth<'a>(sentinels: impl IntoIterator<Item = &'a Sentinel>) -> Option<IpAddr> {
    sentinels.into_iter().max_by_key(|sentinel| (sentinel.epoch, sentinel.master)).map(|sentinel| sentinel.master)
}

/// How a server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// As a copy of the server at this address.
    Copy(IpAddr),
    /// Not yet, for this reason.
    Wait(String),
}

/// How the server at `own` starts, when these Sentinels answered. It keeps nothing while it does not run, so it never starts as the one
/// that others copy: that is made by the Sentinels alone, of the servers that run. The first one of all is made so, too.
pub fn start(own: IpAddr, replication: &Replication, answers: &BTreeMap<IpAddr, Sentinel>) -> Start {
    let (all, majority) = (replication.members.len(), replication.majority());
    let heard = || answers.iter().filter(|(address, _)| replication.members.contains(address)).map(|(_, it)| it);
    let count = heard().count();
    // Fewer may be those that the others went on without.
    if count < majority {
        return Start::Wait(format!("waits for the Sentinels: {count} of {all} answer, {majority} are needed"));
    }
    match truth(heard()) {
        Some(master) if master != own => Start::Copy(master),
        _ => Start::Wait(
            "waits until the Sentinels have another server take writes: the others would copy its emptiness".to_owned(),
        ),
    }
}

/// What an agent is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum Change {
    /// Have another server take writes in the place of the one beside it, without the loss of any.
    StepDown,
    /// Have the Sentinel beside the server forget whom it was not told of.
    Recount,
}

/// Facts about one server. What could not be found out is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    /// Its release.
    pub release: String,
    /// Whether it is reading its data, and answers no request meanwhile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loading: bool,
    /// The server that it copies, `<host>:<port>`, if somebody told it to: it takes no writes then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<String>,
    /// Why nothing could be found out, for people. Everything above is empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// How far it is, where members copy one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copying: Option<Copying>,
    /// The Sentinel beside it, where members copy one of them and it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<Sentinel>,
    /// Why the Sentinel could not be asked, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentinel_unknown: Option<String>,
}

/// How far a server is in what is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Copying {
    /// Bytes of the stream of changes that it has, or has sent.
    pub offset: u64,
    /// Whether it is in touch with the server that it copies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub linked: bool,
    /// Of servers that copy it and get what changes, how far they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub copies: BTreeMap<IpAddr, u64>,
    /// How many copies it lacks to take writes, if it copies no other one: those that are in touch with it have to be one less than more than half
    /// of the members.
    pub lacks: usize,
}

/// Bytes by which a copy may be behind: what is written in a moment.
const SMALL_LAG: u64 = 1 << 20;

impl Copying {
    /// Whether a server lacks something of what this one has sent.
    pub fn is_ahead_of(&self, copy: IpAddr) -> bool {
        self.copies.get(&copy).is_none_or(|has| has.saturating_add(SMALL_LAG) < self.offset)
    }

    /// The same without what grows all the time, at rest, too: of each copy whether it lacks something.
    #[must_use]
    pub fn at_rest(&self) -> Self {
        let copies = self.copies.keys().map(|copy| (*copy, u64::from(self.is_ahead_of(*copy)))).collect();
        Self { offset: 0, copies, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(index: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, index])
    }

    fn replication(size: u8) -> Replication {
        let sentinel = NonZeroU16::MAX;
        Replication { master: "redis1".into(), sentinel, members: (0..size).map(address).collect() }
    }

    fn answers(said: &[(u8, u8, u64)]) -> BTreeMap<IpAddr, Sentinel> {
        let sentinel = |(who, master, epoch): &(u8, u8, u64)| {
            (address(*who), Sentinel { master: address(*master), epoch: *epoch, others: None, refuses: None })
        };
        said.iter().map(sentinel).collect()
    }

    fn waits(start: &Start) -> bool {
        matches!(start, Start::Wait(_))
    }

    #[test]
    fn at_first_one_waits_and_the_others_copy_it_until_the_sentinels_make_another_one() {
        let said = answers(&[(0, 0, 0), (1, 0, 0), (2, 0, 0)]);
        assert!(waits(&start(address(0), &replication(3), &said)));
        assert_eq!(start(address(1), &replication(3), &said), Start::Copy(address(0)));
        let said = answers(&[(0, 0, 0), (1, 2, 1), (2, 2, 1)]);
        assert_eq!(start(address(0), &replication(3), &said), Start::Copy(address(2)));
    }

    #[test]
    fn a_minority_may_be_those_that_the_others_went_on_without() {
        assert!(waits(&start(address(1), &replication(3), &answers(&[(1, 0, 4)]))));
        assert!(waits(&start(address(1), &replication(5), &answers(&[(1, 0, 4), (0, 0, 4)]))));
        // Who is no member does not count.
        assert!(waits(&start(address(1), &replication(3), &answers(&[(1, 0, 4), (7, 0, 4), (8, 0, 4)]))));
    }

    #[test]
    fn the_last_failover_counts_however_few_know_of_it_yet() {
        let said = answers(&[(0, 0, 4), (1, 0, 4), (2, 1, 5)]);
        assert_eq!(start(address(0), &replication(3), &said), Start::Copy(address(1)));
        assert!(waits(&start(address(1), &replication(3), &said)));
    }

    proptest! {
        /// Servers that crash, and Sentinels that fail over, forget and learn, in any order: nobody ever starts as the one that others copy,
        /// or copies itself; and where a majority answers, whoever it does not name starts.
        #[test]
        fn who_was_copied_never_starts_before_another_one_is(
            size in prop::sample::select(vec![3_u8, 5]),
            steps in prop::collection::vec((0_u8..5, 0_u8..5, 0_u8..4, any::<u8>()), 1..60),
        ) {
            let replication = replication(size);
            let mut sentinels: Vec<Sentinel> =
                (0..size).map(|_| Sentinel { master: address(0), epoch: 0, others: None, refuses: None }).collect();
            let (mut master, mut epoch) = (0, 0);
            let mut runs = vec![false; usize::from(size)];
            for (one, other, what, reach) in steps {
                let (one, other) = (one % size, other % size);
                match what {
                    // A failover to a server that runs, which those Sentinels learn of that are in reach: a majority with the leader.
                    0 if runs[usize::from(one)] && !runs[usize::from(master)] => {
                        epoch += 1;
                        master = one;
                        let learn = (0..size).filter(|index| reach >> index & 1 == 1).chain([one]);
                        for index in learn {
                            sentinels[usize::from(index)] = Sentinel { master: address(one), epoch, others: None, refuses: None };
                        }
                    }
                    0 | 1 => runs[usize::from(one)] = false,
                    // What one Sentinel says reaches another one.
                    2 => {
                        if sentinels[usize::from(one)].epoch > sentinels[usize::from(other)].epoch {
                            sentinels[usize::from(other)] = sentinels[usize::from(one)].clone();
                        }
                    }
                    _ => {
                        let said: BTreeMap<IpAddr, Sentinel> = (0..size)
                            .filter(|index| reach >> index & 1 == 1)
                            .map(|index| (address(index), sentinels[usize::from(index)].clone()))
                            .collect();
                        let start = start(address(one), &replication, &said);
                        let named = truth(said.values());
                        if said.len() < replication.majority() || named == Some(address(one)) {
                            prop_assert!(waits(&start));
                        } else {
                            prop_assert_eq!(Some(start), named.map(Start::Copy));
                            runs[usize::from(one)] = true;
                        }
                    }
                }
            }
        }
    }
}
