//! A model of a new ring of three that takes in a backup, and the decision walking through it.
//!
//! The model plays the servers, the node agents, whose work ends in the middle or fails, and the world: members do not answer, folders come to
//! their volumes and go, time passes. After each step the promises are checked; at the end the world rests, and all of the backup is taken in.

use proptest::prelude::*;
use tf_agent_api::cassandra::Failed;
use tf_testing::model_runs;

use super::*;
use crate::whole::{asked, members, observed};

const DISTURBANCES: usize = 40;
/// Between two looks of the operator.
const PACE: SignedDuration = SignedDuration::from_secs(10);
/// Steps after which a backup that lacks nothing is taken in.
const PATIENCE: usize = 120;
/// About 50,000 states.
const WALKS: u32 = 800;
const KEYSPACES: [&str; 2] = ["config_db_uuid", "to_bgp_keyspace"];
/// Numbers of the backup's folders.
const FOLDERS: [u32; 4] = [1, 2, 3, 4];

#[derive(Clone, Debug, Default)]
struct Member {
    /// Folders on its volume.
    volume: BTreeSet<u32>,
    found: Option<Found>,
    restored: Option<Restored>,
    repaired: BTreeMap<String, Timestamp>,
    doing: Option<(Change, usize, Timestamp)>,
    failed: Option<Failed>,
    /// Steps for which it does not answer.
    away: usize,
}

#[derive(Clone, Debug)]
enum Event {
    AgentEnds(usize),
    Fails(usize),
    Away(usize, usize),
    Brings(usize, u32),
    Takes(usize, u32),
    Minutes(i64),
    Nothing,
}

#[derive(Debug)]
struct World {
    members: Vec<Member>,
    has_keyspaces: bool,
    now: Timestamp,
}

fn backup() -> Backup {
    Backup { namespace: "tf".into(), ring: "configdb1".into(), name: "first".into() }
}

impl World {
    fn happens(&mut self, event: &Event) {
        match *event {
            Event::AgentEnds(at) => {
                let member = &mut self.members[at];
                (member.doing, member.found, member.failed) = (None, None, None);
            }
            Event::Fails(at) => {
                if let Some((of, ..)) = self.members[at].doing.take() {
                    self.members[at].failed = Some(Failed { of, why: "no room".into(), at: self.now });
                }
            }
            Event::Away(at, steps) => self.members[at].away = steps,
            Event::Brings(at, folder) => {
                self.members[at].volume.insert(folder);
            }
            Event::Takes(at, folder) => {
                self.members[at].volume.remove(&folder);
            }
            Event::Minutes(minutes) => self.now += SignedDuration::from_mins(minutes),
            Event::Nothing => {}
        }
    }

    fn goes_on(&mut self) {
        self.now += PACE;
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            member.away = member.away.saturating_sub(1);
            match member.doing.take() {
                Some((change, 0, begun)) => self.ends(at, change, begun),
                Some((change, steps, begun)) => member.doing = Some((change, steps - 1, begun)),
                None => {}
            }
        }
    }

    fn ends(&mut self, at: usize, change: Change, begun: Timestamp) {
        let is_whole = self.members.iter().all(|member| member.away == 0);
        let member = &mut self.members[at];
        let mut fail = |of: Change, why: &str| member.failed = Some(Failed { of, why: why.to_owned(), at: self.now });
        match &change {
            Change::Repair { .. } | Change::RestoreSchema { .. } if !is_whole => fail(change, "others do not answer"),
            Change::RestoreRows { folders, .. } if !folders.is_subset(&member.volume) => fail(change, "it is gone"),
            Change::Repair { keyspace, .. } => {
                member.repaired.insert(keyspace.clone(), begun);
            }
            Change::RestoreSchema { .. } => self.notes(at, |restored| restored.schema = true),
            Change::RestoreRows { folders, .. } => self.notes(at, |restored| restored.folders.extend(folders)),
            _ => {}
        }
    }

    fn notes(&mut self, at: usize, what: impl FnOnce(&mut Restored)) {
        let new = Restored { of: backup(), schema: false, folders: BTreeSet::new(), at: self.now };
        let restored = self.members[at].restored.get_or_insert(new);
        restored.at = self.now;
        what(restored);
    }

    fn carry_out(&mut self, at: usize, change: Change) {
        let members: BTreeMap<u32, String> = FOLDERS.iter().map(|id| (*id, format!("former{id}"))).collect();
        let folder = |id: &u32| (*id, Folder { resource: "u".into(), members: members.clone() });
        if let Change::Look { of } = change {
            let folders = self.members[at].volume.iter().map(folder).collect();
            self.members[at].found = Some(Found { of, at: self.now, folders, trouble: None });
            return;
        }
        if matches!(change, Change::RestoreSchema { .. }) {
            // What it begins it notes, and some of it is there at once.
            self.notes(at, |_| {});
            self.has_keyspaces = true;
        }
        (self.members[at].doing, self.members[at].failed) = (Some((change, 2, self.now)), None);
    }

    fn taken_in(&self) -> BTreeSet<u32> {
        self.members.iter().filter_map(|member| member.restored.as_ref()).flat_map(|it| it.folders.clone()).collect()
    }

    /// One pass of the operator. Whether all of it was taken in.
    fn decides(&mut self) -> Result<bool, TestCaseError> {
        let observed = observed(|index, facts| {
            let Member { found, restored, repaired, doing, failed, away, .. } = self.members[index].clone();
            let keyspaces = KEYSPACES.iter().filter(|_| self.has_keyspaces).map(|name| ((*name).to_owned(), 3));
            (facts.found, facts.restored, facts.repaired_at, facts.failed) = (found, restored, repaired, failed);
            facts.keyspaces = keyspaces.collect();
            facts.doing = doing.map(|(change, ..)| change);
            if away > 0 {
                facts.host_id.clear();
            }
        });
        match look(&backup(), &members(), &Reports::of_observed(&observed), self.now) {
            Progress::Done => {
                prop_assert!(self.taken_in() == FOLDERS.into(), "rows are missing: {self:#?}");
                let begun = self.members.iter().filter_map(|member| Some(member.restored.as_ref()?.at)).max();
                let is_alike = |name: &&str| self.members.iter().any(|it| it.repaired.get(*name).copied() >= begun);
                prop_assert!(KEYSPACES.iter().all(is_alike), "rows are not on every member: {self:#?}");
                prop_assert!(self.members.iter().all(|member| member.doing.is_none()));
                return Ok(true);
            }
            Progress::Next(step) | Progress::Refused(_, Some(step)) => {
                let (at, change) = asked(&step);
                self.keeps_promises(at, &change)?;
                self.carry_out(at, change);
            }
            Progress::Waits(why) | Progress::Refused(why, None) => prop_assert!(!why.is_empty(), "it says nothing"),
        }
        Ok(false)
    }

    fn keeps_promises(&self, at: usize, change: &Change) -> Result<(), TestCaseError> {
        let is_look = matches!(change, Change::Look { .. });
        prop_assert!(is_look || self.members[at].doing.is_none(), "two things at once on a member: {self:#?}");
        prop_assert!(self.members.iter().all(|member| member.away == 0), "not all would hear of it");
        let others: Vec<&Change> =
            self.members.iter().filter_map(|it| it.doing.as_ref()).map(|(change, ..)| change).collect();
        match change {
            Change::RestoreRows { folders, .. } => {
                let is_beside = |other: &&Change| match other {
                    Change::RestoreRows { folders: others, .. } => others.is_disjoint(folders),
                    _ => false,
                };
                prop_assert!(others.iter().all(is_beside), "rows are taken in twice: {self:#?}");
                prop_assert!(self.taken_in().is_disjoint(folders), "rows are taken in again: {self:#?}");
                let has_schema = |it: &Member| it.restored.as_ref().is_some_and(|restored| restored.schema);
                prop_assert!(self.members.iter().any(has_schema), "there are no tables yet");
            }
            Change::RestoreSchema { folder, .. } => {
                prop_assert!(others.is_empty() && self.taken_in().is_empty());
                let found = self.members[at].found.as_ref();
                prop_assert!(found.is_some_and(|found| found.folders.contains_key(folder)));
            }
            Change::Repair { .. } => {
                prop_assert!(others.is_empty() && self.taken_in() == FOLDERS.into(), "a repair before the last rows");
            }
            _ => prop_assert!(is_look, "nobody wants that: {change:?}"),
        }
        Ok(())
    }
}

fn event() -> impl Strategy<Value = Event> {
    let (at, folder) = (|| 0_usize..3, || prop::sample::select(FOLDERS.to_vec()));
    prop_oneof![
        2 => at().prop_map(Event::AgentEnds),
        2 => at().prop_map(Event::Fails),
        1 => (at(), 1_usize..4).prop_map(|(at, steps)| Event::Away(at, steps)),
        2 => (at(), folder()).prop_map(|(at, folder)| Event::Brings(at, folder)),
        1 => (at(), folder()).prop_map(|(at, folder)| Event::Takes(at, folder)),
        1 => (1_i64..9).prop_map(Event::Minutes),
        12 => Just(Event::Nothing),
    ]
}

proptest! {
    #![proptest_config(model_runs::random(WALKS))]

    #[test]
    fn whatever_happens_every_folder_is_taken_in_once_and_then_each_row_is_on_all_members(
        places in prop::collection::vec(0_usize..3, FOLDERS.len()), events in prop::collection::vec(event(), DISTURBANCES),
    ) {
        let members = vec![Member::default(); 3];
        let mut world = World { members, has_keyspaces: false, now: "2026-11-21T10:00:00Z".parse().unwrap() };
        for (folder, at) in FOLDERS.iter().zip(&places) {
            world.members[*at].volume.insert(*folder);
        }
        for event in &events {
            world.happens(event);
            world.goes_on();
            if world.decides()? {
                return Ok(());
            }
        }
        for (folder, at) in FOLDERS.iter().zip(&places) {
            world.members[*at].volume.insert(*folder);
        }
        for _ in 0..PATIENCE {
            world.goes_on();
            if world.decides()? {
                return Ok(());
            }
        }
        prop_assert!(false, "it is not taken in: {world:#?}");
    }
}
