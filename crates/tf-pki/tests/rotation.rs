//! An authority is replaced while members run, come, go, lag behind and return: a random walk over a small world.
//!
//! The world keeps the truth, the state machine sees reports of it that may be old in the ways its contract allows. After
//! every single move, every member trusts the issuer of every certificate another one holds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;
use tf_pki::{
    fingerprint::Fingerprint,
    lifetime::Validity,
    rotation::{Cause, Participant, Source, Stage, State, Step, Waiting, Wish},
};

const LEAF: SignedDuration = SignedDuration::from_hours(90 * 24);
const AUTHORITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

fn authority(number: u64) -> Fingerprint {
    Fingerprint::of(&number.to_be_bytes())
}

fn start() -> Timestamp {
    "2027-01-01T00:00:00Z".parse().unwrap()
}

#[derive(Clone, Debug)]
struct Leaf {
    issuer: Fingerprint,
    end: Timestamp,
}

#[derive(Clone, Debug, Default)]
struct Node {
    running: bool,
    /// Revision of the bundle it has loaded.
    loaded: u64,
    /// What was last reported of `loaded`.
    reported: u64,
    in_use: Option<Leaf>,
    issued: Option<Leaf>,
    /// Issuers that the operator believes it may hold.
    ledger: Vec<Leaf>,
}

#[derive(Clone, Debug)]
enum Move {
    Join,
    Leave(usize),
    Stop(usize),
    Start(usize),
    Load(usize, u64),
    Report(usize),
    Request(usize),
    PickUp(usize),
    Confirm(usize),
    Rotate,
    Supply(u64),
    Generate,
    Days(i64),
    Operator,
}

/// A move out of a number. Decoded here, because a strategy for each of a million moves is slow.
fn decoded(number: u32) -> Move {
    let [choice, node, detail, _] = number.to_le_bytes();
    let node = usize::from(node);
    match choice % 41 {
        0..=1 => Move::Join,
        2 => Move::Leave(node),
        3 => Move::Stop(node),
        4 => Move::Start(node),
        5..=9 => Move::Load(node, u64::from(detail % 3)),
        10..=13 => Move::Report(node),
        14..=18 => Move::Request(node),
        19..=22 => Move::PickUp(node),
        23..=26 => Move::Confirm(node),
        27..=28 => Move::Rotate,
        29 => Move::Supply(1_000_000 + u64::from(detail % 4)),
        30 => Move::Generate,
        31 => Move::Days(i64::from(detail % 200)),
        _ => Move::Operator,
    }
}

fn walks() -> impl Strategy<Value = Vec<Move>> {
    prop::collection::vec(any::<u32>(), 1..150).prop_map(|numbers| numbers.into_iter().map(decoded).collect())
}

struct World {
    now: Timestamp,
    state: State,
    /// What was published, by revision.
    bundles: BTreeMap<u64, BTreeSet<Fingerprint>>,
    nodes: Vec<Node>,
    wish: Wish,
    generated: u64,
    rotations: usize,
}

impl World {
    fn new() -> Self {
        let validity = Validity { not_before: start(), not_after: start() + AUTHORITY };
        let mut world = Self {
            now: start(),
            state: State::founded(authority(0), None),
            bundles: BTreeMap::new(),
            nodes: Vec::new(),
            wish: Wish { source: Source::Generated(validity), request: None },
            generated: 0,
            rotations: 0,
        };
        world.publish();
        world
    }

    fn publish(&mut self) {
        let bundle: BTreeSet<_> = self.state.trusted().into_iter().collect();
        let published = self.bundles.entry(self.state.revision).or_insert_with(|| bundle.clone());
        assert_eq!(*published, bundle, "a revision is one set of authorities");
    }

    fn facts(&self) -> Vec<Participant> {
        let participant = |(number, node): (usize, &Node)| {
            let mut leaves = BTreeMap::new();
            for leaf in &node.ledger {
                let end = leaves.entry(leaf.issuer).or_insert(leaf.end);
                *end = leaf.end.max(*end);
            }
            Participant { name: format!("member-{number}"), running: node.running, loaded: node.reported, leaves }
        };
        self.nodes.iter().enumerate().map(participant).collect()
    }

    fn operate(&mut self) -> Step {
        let step = self.state.next(&self.facts(), &self.wish, self.now);
        let request = self.wish.request.clone();
        self.state = match step {
            Step::TrustBoth(_) => {
                let next = match &mut self.wish.source {
                    Source::Supplied(authority) => *authority,
                    Source::Generated(validity) => {
                        *validity = Validity { not_before: self.now, not_after: self.now + AUTHORITY };
                        self.generated += 1;
                        authority(self.generated)
                    }
                };
                self.state.trust_both(next, request)
            }
            Step::Abandon => self.state.abandon(),
            Step::IssueFromNew => self.state.issue_from_new(),
            Step::DropOld => {
                self.rotations += 1;
                self.state.drop_old()
            }
            Step::Rest(_) | Step::Wait(_) => self.state.clone(),
        };
        self.publish();
        step
    }

    fn apply(&mut self, action: &Move) {
        let (now, newest) = (self.now, self.state.revision);
        let count = self.nodes.len();
        let index = |number: &usize| number % count.max(1);
        match action {
            Move::Join if count < 6 => self.nodes.push(Node { running: true, ..Node::default() }),
            Move::Rotate => self.wish.request = Some(format!("{now} {}", self.rotations)),
            Move::Supply(number) => self.wish.source = Source::Supplied(authority(*number)),
            Move::Generate => {
                let validity = Validity { not_before: now, not_after: now + AUTHORITY };
                self.wish.source = Source::Generated(validity);
            }
            Move::Days(days) => self.now += (days * 24).hours(),
            Move::Operator => _ = self.operate(),
            _ if count == 0 => {}
            Move::Leave(number) => _ = self.nodes.swap_remove(index(number)),
            Move::Stop(number) => self.nodes[index(number)].running = false,
            // A member that returns after its certificates have expired is looked at before it counts on anybody.
            Move::Start(number) => self.nodes[index(number)].running = true,
            Move::Load(number, lag) => {
                let node = &mut self.nodes[index(number)];
                if node.running {
                    node.loaded = node.loaded.max(newest.saturating_sub(*lag));
                }
            }
            Move::Report(number) => {
                let node = &mut self.nodes[index(number)];
                node.reported = node.loaded;
            }
            Move::Request(number) => {
                let node = &mut self.nodes[index(number)];
                // A pod says in its request what it has loaded.
                if node.running
                    && let Ok(issuer) = self.state.issuer_for(node.loaded)
                {
                    let leaf = Leaf { issuer, end: now + LEAF };
                    node.ledger.push(leaf.clone());
                    node.issued = Some(leaf);
                }
            }
            Move::PickUp(number) => {
                let node = &mut self.nodes[index(number)];
                if node.running
                    && let Some(leaf) = node.issued.take()
                {
                    node.in_use = Some(leaf);
                }
            }
            Move::Confirm(number) => {
                let node = &mut self.nodes[index(number)];
                let held = [&node.in_use, &node.issued];
                let ends: Vec<(Fingerprint, Timestamp)> =
                    held.into_iter().flatten().map(|leaf| (leaf.issuer, leaf.end)).collect();
                node.ledger.retain(|leaf| ends.contains(&(leaf.issuer, leaf.end)));
            }
            Move::Join => {}
        }
    }

    /// Who can be met with a certificate that is good.
    fn holders(&self) -> impl Iterator<Item = (&Node, &Leaf)> {
        self.nodes.iter().filter_map(|node| Some((node, node.in_use.as_ref().filter(|leaf| leaf.end >= self.now)?)))
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (node, _) in self.holders() {
            let trusted = self.bundles.get(&node.loaded);
            for (_, leaf) in self.holders() {
                let trusts = trusted.is_some_and(|bundle| bundle.contains(&leaf.issuer));
                prop_assert!(trusts, "{node:?} does not trust {leaf:?} in {:?}", self.state);
            }
        }
        prop_assert!(self.state.trusted().len() <= 2);
        prop_assert_eq!(self.state.trusted()[0], self.state.current.authority);
        Ok(())
    }

    /// Everybody who runs does its part until nothing is left to do.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..20 {
            for number in 0..self.nodes.len() {
                let behind = self.nodes[number].ledger.iter().any(|leaf| leaf.issuer != self.state.current.authority);
                self.apply(&Move::Load(number, 0));
                self.apply(&Move::Report(number));
                if behind {
                    self.apply(&Move::Request(number));
                }
                self.apply(&Move::PickUp(number));
                self.apply(&Move::Confirm(number));
                self.check()?;
            }
            if matches!(self.operate(), Step::Rest(_)) {
                return Ok(());
            }
            self.check()?;
        }
        Err(TestCaseError::fail(format!("stuck at {:?} with {:?}", self.state, self.facts())))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12_000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn every_member_trusts_every_other_at_every_moment_and_no_rotation_is_stuck(walk in walks()) {
        let mut world = World::new();
        for action in &walk {
            world.apply(action);
            world.check()?;
        }
        // Members that are gone are in the way until their certificates have expired, and not longer.
        world.now += LEAF + SignedDuration::from_secs(1);
        for node in &mut world.nodes {
            node.in_use = node.in_use.take().filter(|leaf| leaf.end >= world.now);
        }
        world.settle()?;
        prop_assert_eq!(world.state.stage, Stage::Settled);
        match world.wish.source {
            Source::Supplied(authority) => prop_assert_eq!(world.state.current.authority, authority),
            Source::Generated(_) => prop_assert_eq!(&world.state.handled, &world.wish.request),
        }
    }
}

fn wish(request: Option<&str>) -> Wish {
    let validity = Validity { not_before: start(), not_after: start() + AUTHORITY };
    Wish { source: Source::Generated(validity), request: request.map(Into::into) }
}

fn holder(name: &str, loaded: u64, issuer: Fingerprint) -> Participant {
    Participant { name: name.into(), running: true, loaded, leaves: [(issuer, start() + LEAF)].into() }
}

#[test]
fn a_rotation_takes_three_steps_and_names_whom_it_waits_for() {
    let (old, new) = (authority(0), authority(1));
    let wish = wish(Some("now"));
    let state = State::founded(old, None);
    let mut members = [holder("b", 1, old), holder("a", 1, old)];

    assert_eq!(state.next(&members, &wish, start()), Step::TrustBoth(Cause::Requested));
    let state = state.trust_both(new, wish.request.clone());
    assert_eq!(state.trusted(), [old, new]);
    assert_eq!(state.next(&members, &wish, start()), Step::Wait(Waiting::ToTrust(vec!["a".into(), "b".into()])));

    members[0].loaded = 2;
    assert_eq!(state.next(&members, &wish, start()), Step::Wait(Waiting::ToTrust(vec!["a".into()])));
    members[1].loaded = 2;
    assert_eq!(state.next(&members, &wish, start()), Step::IssueFromNew);
    let state = state.issue_from_new();
    assert_eq!((state.trusted(), state.revision), (vec![new, old], 2));
    assert_eq!(
        state.issuer_for(1).unwrap_err().to_string(),
        "bundle 1 is loaded; bundle 2 is needed to trust the others"
    );
    assert_eq!(state.issuer_for(2), Ok(new));

    assert_eq!(state.next(&members, &wish, start()), Step::Wait(Waiting::ToRenew(vec!["a".into(), "b".into()])));
    let members = [holder("b", 2, new), holder("a", 2, new)];
    assert_eq!(state.next(&members, &wish, start()), Step::DropOld);
    let state = state.drop_old();
    assert_eq!((state.trusted(), state.revision), (vec![new], 3));
    assert!(matches!(state.next(&members, &wish, start()), Step::Rest(_)));
}

#[test]
fn an_authority_is_replaced_by_age_at_two_thirds_and_not_by_a_clock_before_its_beginning() {
    let state = State::founded(authority(0), None);
    let next = |days: i64| state.next(&[], &wish(None), start() + (days * 24).hours());
    assert!(matches!(next(2400), Step::Rest(_)));
    assert_eq!(next(2434), Step::TrustBoth(Cause::Age));
    assert!(matches!(next(-5000), Step::Rest(_)));
}

#[test]
fn a_running_member_counts_even_if_the_clock_says_its_certificate_is_over() {
    let (old, new) = (authority(0), authority(1));
    let state = State::founded(old, None).trust_both(new, None);
    let jumped = start() + AUTHORITY;
    let mut member = holder("a", 1, old);
    assert_eq!(state.next(&[member.clone()], &wish(None), jumped), Step::Wait(Waiting::ToTrust(vec!["a".into()])));
    member.running = false;
    assert_eq!(state.next(&[member.clone()], &wish(None), jumped), Step::IssueFromNew);
    assert!(matches!(state.next(&[member], &wish(None), start()), Step::Wait(_)));
}

#[test]
fn a_supplied_authority_that_is_taken_back_in_time_is_never_used() {
    let (old, new) = (authority(0), authority(1));
    let supplied = |authority| Wish { source: Source::Supplied(authority), request: None };
    let state = State::founded(old, None);
    assert_eq!(state.next(&[], &supplied(new), start()), Step::TrustBoth(Cause::Supplied));
    let state = state.trust_both(new, None);
    assert_eq!(state.next(&[holder("a", 2, old)], &supplied(old), start()), Step::Abandon);
    assert_eq!(state.abandon().trusted(), [old]);
    assert_eq!(state.abandon().revision, 3);
}

#[test]
fn steps_out_of_turn_change_nothing() {
    let state = State::founded(authority(0), None);
    for same in [state.abandon(), state.issue_from_new(), state.drop_old(), state.trust_both(authority(0), None)] {
        assert_eq!(same, state);
    }
    let both = state.trust_both(authority(1), None);
    assert_eq!(both.trust_both(authority(2), None), both);
    assert_eq!(both.drop_old(), both);
}

#[test]
fn the_state_is_kept_as_json() {
    let state = State::founded(authority(0), Some("2027".into())).trust_both(authority(1), Some("2028".into()));
    let json = serde_json::to_string(&state).unwrap();
    assert!(json.contains(r#""stage":{"trustBoth":{"next":{"authority":""#), "{json}");
    assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
    assert!(serde_json::from_str::<State>(&json.replace(&authority(1).to_string(), "ABC")).is_err());
}
