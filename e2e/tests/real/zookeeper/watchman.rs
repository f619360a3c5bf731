//! Looks all the time whether what the status says is true and whether the list of members is sound (docs/testing.md#long-runs).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::join_all;
use kube::Client;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::store::HONEST_WITHIN;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(500);
/// For the answer of a server.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is watched besides the truth of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Members fail, or come and go.
    Any,
    /// Nobody but the operator stops servers: at most one of them is down at a time.
    OneAtATime,
}

/// Somebody who looks.
pub struct Watchman {
    report: Arc<Mutex<Report>>,
    task: JoinHandle<()>,
}

/// What was seen.
#[derive(Debug, Default)]
struct Report {
    wrong: BTreeSet<String>,
    looked: Option<Instant>,
}

impl Drop for Watchman {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watchman {
    /// Begins to compare the status with what its members' servers say.
    pub fn begin(client: &Client, watch: Watch) -> Self {
        let report = Arc::<Mutex<Report>>::default();
        let task = tokio::spawn(look_on(client.clone(), watch, Arc::clone(&report)));
        Self { report, task }
    }

    /// An error when something was wrong, or nobody looked.
    pub fn end(self) -> Result<()> {
        let report = self.report.lock().unwrap();
        ensure!(report.wrong.is_empty(), "{}", report.wrong.iter().cloned().collect::<Vec<_>>().join("\n"));
        let looks = report.looked.is_some_and(|looked| looked.elapsed() < HONEST_WITHIN);
        ensure!(looks && !self.task.is_finished(), "the watchman sleeps");
        Ok(())
    }
}

async fn look_on(client: Client, watch: Watch, report: Arc<Mutex<Report>>) {
    let mut eyes = Eyes::default();
    loop {
        if let Some(sight) = Sight::look(&client).await {
            let wrong = eyes.judge(&sight, watch);
            let mut report = report.lock().unwrap();
            report.wrong.extend(wrong);
            report.looked = Some(Instant::now());
        }
        sleep(INTERVAL).await;
    }
}

/// The ensemble at one moment.
struct Sight {
    zookeeper: Resource,
    members: Vec<MemberStatus>,
    /// Whether a majority of those with a vote serves, as each of them says itself.
    quorum: bool,
    /// Who has a vote, in the words of a server that serves.
    voters: Option<BTreeSet<u32>>,
    /// Members whose servers do not run: nobody listens. One that is slow to answer on a busy machine is not among them.
    down: BTreeSet<u32>,
}

impl Sight {
    /// None where the API server cannot be asked, or there are no members yet.
    async fn look(client: &Client) -> Option<Self> {
        let zookeeper = resources::get(client, ZOOKEEPER, NAMESPACE, NAME).await.ok()??;
        let members = members(&zookeeper);
        let servers: Vec<(u32, IpAddr)> =
            members.iter().filter_map(|member| Some((member.id, member.address.parse().ok()?))).collect();
        let answers = |word| join_all(servers.iter().map(move |(_, server)| answer(*server, word)));
        let (modes, runs) = tokio::join!(answers("srvr"), answers("ruok"));
        let who = |answers: &[Answer], is: fn(&Answer) -> bool| -> Vec<(u32, IpAddr)> {
            servers.iter().zip(answers).filter(|(_, answer)| is(answer)).map(|(server, _)| *server).collect()
        };
        let serving = who(&modes, |answer| matches!(answer, Answer::Said(text) if text.contains("Mode: ")));
        let down = who(&runs, |answer| matches!(answer, Answer::Refused)).into_iter().map(|(id, _)| id).collect();
        let voters = match serving.first() {
            Some((_, server)) => timeout(PATIENCE, membership::list(*server)).await.ok().and_then(Result::ok),
            None => None,
        };
        let voters = voters.map(|(_, voters)| voters);
        let is_served =
            |voters: &BTreeSet<u32>| 2 * serving.iter().filter(|(id, _)| voters.contains(id)).count() > voters.len();
        let quorum = voters.as_ref().is_some_and(is_served);
        (!members.is_empty()).then_some(Self { zookeeper, members, quorum, voters, down })
    }
}

/// What became of a question to a server.
enum Answer {
    Said(String),
    /// Nobody listens, or hangs up.
    Refused,
    /// Nothing was said in time.
    Silence,
}

async fn answer(server: IpAddr, word: &str) -> Answer {
    match timeout(PATIENCE, ask(server, word)).await {
        Ok(Ok(text)) => Answer::Said(text),
        Ok(Err(_)) => Answer::Refused,
        Err(_) => Answer::Silence,
    }
}

/// What was seen before, as far as it matters.
#[derive(Default)]
struct Eyes {
    uid: Option<String>,
    without_quorum: Doubt,
    of_another_generation: Doubt,
    of_other_members: Doubt,
    /// The node of every member there ever was.
    known: BTreeMap<u32, String>,
    gone: BTreeSet<u32>,
}

impl Eyes {
    fn judge(&mut self, sight: &Sight, watch: Watch) -> Vec<String> {
        let mut wrong = Vec::new();
        let zookeeper = &sight.zookeeper;
        let (ready, available) = (zookeeper.is("Ready", "True"), zookeeper.is("Available", "True"));
        let told = format!("{}; {}", zookeeper.explain("Ready"), zookeeper.explain("Available"));
        if let Some(lasts) = self.without_quorum.lasts(!sight.quorum)
            && (ready || available)
        {
            wrong.push(format!("{lasts:?} after the quorum was lost: {told}"));
        }
        let generation = zookeeper.object.metadata.generation;
        let observed = zookeeper.object.data["status"]["observedGeneration"].as_i64();
        if let Some(lasts) = self.of_another_generation.lasts(ready && observed != generation) {
            wrong.push(format!("Ready for {lasts:?} with generation {observed:?} of {generation:?}"));
        }
        let members = &sight.members;
        let ids: BTreeSet<u32> = members.iter().map(|member| member.id).collect();
        let differ = sight.voters.as_ref().is_some_and(|voters| *voters != ids);
        if let Some(lasts) = self.of_other_members.lasts(ready && differ) {
            wrong.push(format!("Ready for {lasts:?} with members {ids:?} and voters {:?}", sight.voters));
        }
        if watch == Watch::OneAtATime && sight.down.len() > 1 {
            wrong.push(format!("members {:?} are down at the same time: {told}", sight.down));
        }
        wrong.extend(self.membership(zookeeper.object.uid(), members, &ids));
        wrong
    }

    /// An identity is never given twice, and no two members share anything.
    fn membership(&mut self, uid: Option<String>, members: &[MemberStatus], ids: &BTreeSet<u32>) -> Vec<String> {
        if self.uid != uid {
            (self.known, self.gone, self.uid) = (BTreeMap::new(), BTreeSet::new(), uid);
        }
        let mut wrong = Vec::new();
        let nodes: BTreeSet<&str> = members.iter().map(|member| member.node.as_str()).collect();
        let addresses: BTreeSet<&str> = members.iter().map(|member| member.address.as_str()).collect();
        if [ids.len(), nodes.len(), addresses.len()] != [members.len(); 3] {
            wrong.push(format!("members share something: {members:?}"));
        }
        for member in members {
            let node = self.known.entry(member.id).or_insert_with(|| member.node.clone());
            if *node != member.node || self.gone.contains(&member.id) {
                wrong.push(format!("identity {} of node {node} was given again: {members:?}", member.id));
            }
        }
        self.gone.extend(self.known.keys().filter(|id| !ids.contains(id)));
        wrong
    }
}

/// Something that may be so for a while.
#[derive(Default)]
struct Doubt(Option<Instant>);

impl Doubt {
    /// For how long it has been so, where that is longer than it may be.
    fn lasts(&mut self, is_so: bool) -> Option<Duration> {
        if !is_so {
            self.0 = None;
        }
        let since = is_so.then(|| self.0.get_or_insert_with(Instant::now).elapsed());
        since.filter(|lasts| *lasts > HONEST_WITHIN)
    }
}
