//! How an ensemble that serves changes over to TLS between its servers, and back.
//!
//! Servers of neighbouring modes understand each other and others do not: one that begins with TLS is refused by one that knows
//! none. So the ensemble goes from mode to mode, and each of these moves is an ordinary change of configuration, activated
//! member by member. Two modes are recorded, the one that members are configured for and the one that some may still run in;
//! no server runs in a third. Where the wish is taken back before everybody is there, the two change places.

use tf_api::{
    Zookeeper, ZookeeperConfiguration,
    kinds::{
        QuorumTls,
        QuorumTlsMode::{self, Accepted, Plain, Preferred, Required},
    },
};

/// What is seen of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Each of them runs with what it is configured for, in the words of its agent.
    pub current: bool,
    /// The quorum lacks nobody.
    pub whole: bool,
}

/// The mode that the spec asks for.
pub fn wanted(spec: &ZookeeperConfiguration) -> QuorumTlsMode {
    if spec.tls.as_ref().is_some_and(|tls| tls.quorum) { Required } else { Plain }
}

/// The modes of an ensemble that was founded.
pub fn recorded(cr: &Zookeeper) -> QuorumTls {
    cr.status.as_ref().and_then(|status| status.own.quorum_tls).unwrap_or_default()
}

/// The modes to record before members are configured for the first of them.
pub fn next(recorded: QuorumTls, wanted: QuorumTlsMode, seen: Seen) -> QuorumTls {
    let QuorumTls { mode, from } = recorded;
    // Nobody runs in the former one any more.
    let from = from.filter(|_| !seen.current);
    let target = neighbour(mode, wanted);
    // Where TLS does not work, more of it does not help; less of it may.
    let may_go = seen.current && (target < mode || seen.whole);
    if target != mode && (from == Some(target) || may_go) {
        QuorumTls { mode: target, from: Some(mode) }
    } else {
        QuorumTls { mode, from }
    }
}

/// What is not as wanted yet, for people.
pub fn explain(modes: QuorumTls, wanted: QuorumTlsMode) -> Option<String> {
    let QuorumTls { mode, from } = modes;
    match from {
        Some(from) => Some(format!("TLS between the servers goes from {from} to {mode}, on the way to {wanted}")),
        None if mode != wanted => Some(format!(
            "TLS between the servers is {mode} and goes on to {wanted} when every member answers and serves"
        )),
        None => None,
    }
}

/// The next mode on the way.
fn neighbour(mode: QuorumTlsMode, wanted: QuorumTlsMode) -> QuorumTlsMode {
    match (mode, wanted > mode) {
        _ if mode == wanted => mode,
        (Plain, true) | (Preferred, false) => Accepted,
        (Accepted, true) | (Required, false) => Preferred,
        (Preferred | Required, true) => Required,
        (Plain | Accepted, false) => Plain,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONTENT: Seen = Seen { current: true, whole: true };

    /// Modes that three members run in, and what the operator recorded.
    #[derive(Clone, Debug)]
    struct Ensemble {
        members: [QuorumTlsMode; 3],
        modes: QuorumTls,
    }

    impl Ensemble {
        fn founded(mode: QuorumTlsMode) -> Self {
            Self { members: [mode; 3], modes: QuorumTls { mode, from: None } }
        }

        fn runs(&self) -> bool {
            self.members.iter().all(|member| *member == self.modes.mode)
        }

        fn is_understood(&self) -> bool {
            let [least, most] = [self.members.iter().min(), self.members.iter().max()].map(Option::unwrap);
            least == most || neighbour(*least, *most) == *most
        }
    }

    #[test]
    fn an_ensemble_goes_through_every_mode_and_back() {
        let walk = |begin, wanted| {
            let mut modes = QuorumTls { mode: begin, from: None };
            let mut seen = vec![modes.mode];
            while next(modes, wanted, CONTENT) != modes {
                modes = next(modes, wanted, CONTENT);
                seen.push(modes.mode);
            }
            assert_eq!((explain(modes, wanted), modes.from), (None, None));
            seen.dedup();
            seen
        };
        assert_eq!(walk(Plain, Required), [Plain, Accepted, Preferred, Required]);
        assert_eq!(walk(Required, Plain), [Required, Preferred, Accepted, Plain]);
        assert_eq!(walk(Plain, Plain), [Plain]);
    }

    #[test]
    fn a_wish_that_is_taken_back_halfway_leads_back_from_there() {
        let modes = QuorumTls { mode: Preferred, from: Some(Accepted) };
        let lagging = Seen { current: false, whole: false };
        assert_eq!(next(modes, Required, lagging), modes);
        let back = QuorumTls { mode: Accepted, from: Some(Preferred) };
        assert_eq!(next(modes, Plain, lagging), back);
        assert_eq!(next(back, Plain, lagging), back, "not to Plain while somebody may prefer TLS");
        assert_eq!(next(back, Required, lagging), modes);
    }

    #[test]
    fn what_is_broken_gets_no_more_tls_and_may_get_less() {
        let [modes, broken] =
            [QuorumTls { mode: Preferred, from: None }, QuorumTls { mode: Accepted, from: Some(Preferred) }];
        let seen = Seen { current: true, whole: false };
        assert_eq!(next(modes, Required, seen), modes);
        assert_eq!(next(modes, Plain, seen), broken);
        let nobody_knows = Seen { current: false, whole: true };
        assert_eq!(next(modes, Plain, nobody_knows), modes);
    }

    proptest! {
        /// People change their minds, members lag behind, are made anew and fall silent. Whoever runs always understands everybody
        /// else, and when the world rests the wish comes true.
        #[test]
        fn members_understand_each_other_whatever_happens(
            founded in prop::sample::select(vec![Plain, Required]),
            events in prop::collection::vec((any::<bool>(), 0_usize..3, any::<[bool; 4]>()), 0..60),
        ) {
            let mut ensemble = Ensemble::founded(founded);
            let mut wanted = founded;
            for (wish, member, [flips, moves, answers, whole]) in events {
                if flips {
                    wanted = if wish { Required } else { Plain };
                }
                if moves {
                    // It was told to, or its pod was made anew.
                    ensemble.members[member] = ensemble.modes.mode;
                }
                let seen = Seen { current: answers && ensemble.runs(), whole };
                ensemble.modes = next(ensemble.modes, wanted, seen);
                let QuorumTls { mode, from } = ensemble.modes;
                prop_assert!(from.is_none_or(|from| from != mode && neighbour(from, mode) == mode));
                prop_assert!(ensemble.members.iter().all(|member| *member == mode || Some(*member) == from), "{:?}", ensemble);
                prop_assert!(ensemble.is_understood(), "{:?}", ensemble);
            }
            for _ in 0..8 {
                ensemble.members = [ensemble.modes.mode; 3];
                ensemble.modes = next(ensemble.modes, wanted, CONTENT);
            }
            prop_assert_eq!(ensemble.modes, QuorumTls { mode: wanted, from: None });
        }
    }
}
