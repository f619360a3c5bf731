//! What a server has heard of the others. Releases from 4.1 on have a table of it; others tell `nodetool gossipinfo` alone, which takes a Java
//! machine for each answer (0.7 s of processor time with 3.11.19). So these are asked from time to time, beside the answers that rest on it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use tf_agent_api::cassandra::{Facts, NORMAL, Peer};

use super::{
    Release,
    change::Changer,
    heartbeats::{Count, Heartbeats},
    inet, int, text,
    wire::Row,
};
use crate::log;

/// Releases from this on have [`TABLE`].
const TABLE_SINCE: Release = Release { major: 4, minor: 1 };
/// The question for [`read_table`].
pub(super) const TABLE: &str =
    "SELECT address, generation, heartbeat, status_with_port, status FROM system_views.gossip_info";
/// From one question by `nodetool` to the next, while all members are known to be well.
const CALM: Duration = Duration::from_secs(30);
/// The same at other times.
const WAITING: Duration = Duration::from_secs(8);
/// For one answer of `nodetool`.
const PATIENCE: Duration = Duration::from_secs(60);
/// What was heard before that says nothing about the present.
const STALE: Duration = Duration::from_secs(90);

/// What gossip has of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rumour {
    count: Count,
    /// Empty as long as it is not in the ring.
    state: String,
}

/// What was heard so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Gossip(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    heartbeats: Heartbeats,
    /// Of each server its state, and whether it is heard.
    last: BTreeMap<IpAddr, (String, Option<bool>)>,
    at: Option<Instant>,
    asked: Option<Instant>,
    is_asking: bool,
    /// Why the last question was in vain.
    trouble: Option<String>,
}

/// Whether servers of a release have [`TABLE`].
pub(super) fn has_table(release: &str) -> bool {
    Release::of(release) >= TABLE_SINCE
}

impl Gossip {
    /// This is what gossip has of all servers, also of the one itself and of those that have left the ring.
    pub(super) fn take(&self, rumours: BTreeMap<IpAddr, Rumour>, now: Instant) {
        self.lock().take(rumours, now);
    }

    /// Adds to the members of a ring what was heard of them, or why nothing was.
    pub(super) fn describe(&self, facts: &mut Facts, now: Instant) {
        let heard = self.lock();
        heard.describe(&mut facts.peers, now);
        facts.unheard.clone_from(&heard.trouble);
    }

    /// What was last counted of each of these, by what the ring knows it by.
    pub(super) fn counts(&self, peers: &BTreeMap<IpAddr, Peer>) -> BTreeMap<String, Option<Count>> {
        let heard = self.lock();
        let count = |(address, peer): (&IpAddr, &Peer)| Some((peer.host_id.clone()?, heard.heartbeats.count(address)));
        peers.iter().filter_map(count).collect()
    }

    /// Asks by `nodetool`, if that is due, and does not wait for the answer.
    pub(super) fn ask(&self, changer: &Changer, peers: &BTreeMap<IpAddr, Peer>) {
        if !self.lock().begin(peers, Instant::now()) {
            return;
        }
        let (this, changer) = (self.clone(), changer.clone());
        tokio::spawn(async move {
            let answer = changer.nodetool_says(&["gossipinfo"], PATIENCE).await.and_then(|text| read_tool(&text));
            let mut heard = this.lock();
            heard.is_asking = false;
            let trouble = answer.as_ref().err().map(|error| format!("{error:#}"));
            if let Some(error) = trouble.as_ref().filter(|_| heard.trouble.is_none()) {
                log::warn("gossip is not known", &json!({"error": error}));
            }
            heard.trouble = trouble;
            if let Ok(rumours) = answer {
                heard.take(rumours, Instant::now());
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    fn take(&mut self, rumours: BTreeMap<IpAddr, Rumour>, now: Instant) {
        let counts = rumours.iter().map(|(address, rumour)| (*address, rumour.count)).collect();
        let mut heard = self.heartbeats.look(&counts, now);
        let entry = |(address, rumour): (IpAddr, Rumour)| (address, (rumour.state, heard.remove(&address).flatten()));
        self.last = rumours.into_iter().map(entry).collect();
        self.at = Some(now);
    }

    fn describe(&self, peers: &mut BTreeMap<IpAddr, Peer>, now: Instant) {
        if self.at.is_none_or(|at| now.duration_since(at) >= STALE) {
            return;
        }
        for (address, peer) in peers {
            if let Some((state, heard)) = self.last.get(address) {
                (peer.state, peer.heard) = (Some(state.clone()), *heard);
            }
        }
    }

    /// Whether the next question is due, which is on its way then.
    fn begin(&mut self, peers: &BTreeMap<IpAddr, Peer>, now: Instant) -> bool {
        let is_well = |address| self.last.get(address).is_some_and(|it| it.0 == NORMAL && it.1 == Some(true));
        let pause = if peers.keys().all(is_well) { CALM } else { WAITING };
        let is_due =
            !peers.is_empty() && !self.is_asking && self.asked.is_none_or(|asked| now.duration_since(asked) >= pause);
        if is_due {
            (self.is_asking, self.asked) = (true, Some(now));
        }
        is_due
    }
}

/// The rows of [`TABLE`].
pub(super) fn read_table(rows: &[Row]) -> Result<BTreeMap<IpAddr, Rumour>> {
    rows.iter()
        .map(|row| {
            let [address, generation, heartbeat, status, former] = row.as_slice() else {
                bail!("gossip_info: another table")
            };
            let address = inet(Some(address)).context("gossip_info")?;
            let count = Count { generation: int(generation.as_ref())?, heartbeat: int(heartbeat.as_ref())? };
            // One that has only been heard of has none yet, and one of 3.11 no other than the former.
            let status = status.as_deref().or(former.as_deref()).map(text).unwrap_or_default();
            Ok((address, Rumour { count, state: state(&status) }))
        })
        .collect()
}

/// The answer of `nodetool gossipinfo`: a line `HOST/ADDRESS` for each server, and lines `KEY:VALUE` or `KEY:VERSION:VALUE` after it.
fn read_tool(answer: &str) -> Result<BTreeMap<IpAddr, Rumour>> {
    let mut rumours = BTreeMap::new();
    let mut current = None;
    for line in answer.lines() {
        if let Some((_, address)) = line.split_once('/').filter(|_| !line.starts_with(' ')) {
            let address: IpAddr = address.trim().parse().with_context(|| format!("{line:?} is no address"))?;
            let unknown = Rumour { count: Count { generation: 0, heartbeat: 0 }, state: String::new() };
            current = Some(rumours.entry(address).or_insert(unknown));
            continue;
        }
        let (Some(rumour), Some((key, value))) = (&mut current, line.trim().split_once(':')) else { continue };
        let number = || value.parse().with_context(|| format!("{key}: {value:?} is no number"));
        match key {
            "generation" => rumour.count.generation = number()?,
            "heartbeat" => rumour.count.heartbeat = number()?,
            "STATUS" | "STATUS_WITH_PORT" => {
                rumour.state = state(value.split_once(':').map_or(value, |(_, value)| value));
            }
            _ => {}
        }
    }
    if rumours.is_empty() {
        bail!("gossipinfo names no server");
    }
    Ok(rumours)
}

/// The first word of a status such as `NORMAL,-1074919642879200602`.
fn state(status: &str) -> String {
    status.split(',').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn peers() -> BTreeMap<IpAddr, Peer> {
        BTreeMap::from([(OTHER, Peer::default())])
    }

    fn row(address: [u8; 4], heartbeat: i32, status: Option<&str>) -> Row {
        let number = |number: i32| Some(number.to_be_bytes().to_vec());
        let status = status.map(|status| status.as_bytes().to_vec());
        vec![Some(address.to_vec()), number(7), number(heartbeat), status, None]
    }

    /// As 3.11.19 answers it, of two servers of which one has just been heard of.
    const ANSWER: &str = "\
/10.0.0.1
  generation:1795642170
  heartbeat:62
  STATUS:17:NORMAL,-1074919642879200602
  LOAD:23:72641.0
  SCHEMA:13:e84b6a60-24cf-30ca-9b58-452d92911703
  RELEASE_VERSION:4:3.11.19
  RPC_ADDRESS:3:10.0.0.1
  TOKENS:16:<hidden>
node2/10.0.0.2
  generation:1795642180
  heartbeat:5
  LOAD:23:72641.0
";

    #[test]
    fn the_tools_answer_names_each_server_with_its_count_and_state() {
        let count = |generation, heartbeat| Count { generation, heartbeat };
        let expected = BTreeMap::from([
            ("10.0.0.1".parse().unwrap(), Rumour { count: count(1_795_642_170, 62), state: "NORMAL".into() }),
            (OTHER, Rumour { count: count(1_795_642_180, 5), state: String::new() }),
        ]);
        assert_eq!(read_tool(ANSWER).unwrap(), expected);
        assert!(read_tool("").is_err() && read_tool("/x\n").is_err() && read_tool("/10.0.0.1\n  heartbeat:x").is_err());
        // As releases before 3.11 and from 4.0 on write them.
        for (line, expected) in [("STATUS:LEFT,1,2", "LEFT"), ("STATUS_WITH_PORT:17:shutdown,true", "shutdown")] {
            let said = read_tool(&format!("/fd00::2\n  {line}\n")).unwrap();
            assert_eq!(said[&"fd00::2".parse::<IpAddr>().unwrap()].state, expected);
        }
    }

    #[test]
    fn which_releases_have_a_table_is_known() {
        for (release, has) in
            [("3.11.19", false), ("4.0.19", false), ("4.1.10", true), ("5.0.9", true), ("6.0-alpha2", true)]
        {
            assert_eq!(has_table(release), has, "{release}");
        }
    }

    #[test]
    fn members_of_the_ring_are_described_and_others_do_not_count() {
        let (mut peers, mut heard, begun) = (peers(), Heard::default(), Instant::now());
        for second in 0..7 {
            let rows = [
                row([10, 0, 0, 1], 1, Some("NORMAL,-1")),
                row([10, 0, 0, 2], second, Some("NORMAL,-2348310391384027340")),
                row([10, 0, 0, 3], 1, Some("LEFT,1")),
            ];
            heard.take(read_table(&rows).unwrap(), begun + Duration::from_secs(second.unsigned_abs().into()));
        }
        heard.describe(&mut peers, begun + Duration::from_secs(6) + STALE);
        assert_eq!(peers[&OTHER], Peer::default(), "that was too long ago");
        heard.describe(&mut peers, begun + Duration::from_secs(7));
        let peer = Peer { state: Some("NORMAL".into()), heard: Some(true), host_id: None };
        assert_eq!(peers, BTreeMap::from([(OTHER, peer)]));
    }

    #[test]
    fn a_peer_without_a_state_is_not_taken_for_a_normal_one() {
        let (mut peers, mut heard, now) = (peers(), Heard::default(), Instant::now());
        heard.take(read_table(&[row([10, 0, 0, 2], 1, None)]).unwrap(), now);
        heard.describe(&mut peers, now);
        assert_eq!(peers[&OTHER].state.as_deref(), Some(""));
        let mut of_3_11 = row([10, 0, 0, 2], 2, None);
        of_3_11[4] = Some(b"NORMAL,1".to_vec());
        heard.take(read_table(&[of_3_11]).unwrap(), now);
        heard.describe(&mut peers, now);
        assert_eq!(peers[&OTHER].state.as_deref(), Some("NORMAL"));
    }

    #[test]
    fn the_tool_is_asked_seldom_while_all_are_well() {
        let (peers, mut heard, begun) = (peers(), Heard::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let well = |heartbeat| read_table(&[row([10, 0, 0, 2], heartbeat, Some("NORMAL,1"))]).unwrap();
        assert!(!heard.begin(&BTreeMap::new(), at(0)), "there is nobody to hear");
        assert!(heard.begin(&peers, at(0)));
        assert!(!heard.begin(&peers, at(60)), "an answer is on its way");
        heard.is_asking = false;
        heard.take(well(1), at(60));
        assert!(heard.begin(&peers, at(60)), "nobody was heard for long enough yet");
        heard.is_asking = false;
        heard.take(well(9), at(68));
        assert!(!heard.begin(&peers, at(89)) && heard.begin(&peers, at(90)));
    }
}
