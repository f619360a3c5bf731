//! How an ensemble that serves changes over from one mode to another.
//!
//! Servers of neighbouring modes understand each other and others do not: one that begins with TLS, for example, is refused by one
//! that knows none. So the ensemble goes from mode to mode, and each of these moves is an ordinary change of configuration,
//! activated member by member. Two modes are recorded, the one that members are configured for and the one that some may
//! still run in; no server runs in a third. Where the wish is taken back before everybody is there, the two change places.

use std::fmt::Display;

use tf_api::kinds::{CertificatesMode, Modes, QuorumTlsMode};

/// Modes of servers, of which neighbours understand each other.
pub trait Mode: Copy + Default + Ord + Display + 'static {
    /// From the one at rest to the one that is furthest from it.
    const ORDER: &'static [Self];
}

impl Mode for QuorumTlsMode {
    const ORDER: &'static [Self] = &[Self::Plain, Self::Accepted, Self::Preferred, Self::Required];
}

impl Mode for CertificatesMode {
    const ORDER: &'static [Self] = &[Self::Issued, Self::HostTrusted, Self::Host];
}

/// What is seen of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Each of them runs with what it is configured for, in the words of its agent.
    pub current: bool,
    /// The quorum lacks nobody.
    pub whole: bool,
}

/// The modes to record before members are configured for the first of them.
pub fn next<M: Mode>(recorded: Modes<M>, wanted: M, seen: Observation) -> Modes<M> {
    let Modes { mode, from } = recorded;
    // Nobody runs in the former one any more.
    let from = from.filter(|_| !seen.current);
    let target = neighbour(mode, wanted);
    // Where a mode does not work, more of it does not help; less of it may.
    let may_go = seen.current && (target < mode || seen.whole);
    if target != mode && (from == Some(target) || may_go) {
        Modes { mode: target, from: Some(mode) }
    } else {
        Modes { mode, from }
    }
}

/// What is not as wanted yet, for people. `what` is in a mode, and `when` is what the next move waits for.
pub fn explain<M: Mode>(what: &str, modes: Modes<M>, wanted: M, when: &str) -> Option<String> {
    let Modes { mode, from } = modes;
    match from {
        Some(from) => Some(format!("{what} goes from {from} to {mode}, on the way to {wanted}")),
        None if mode != wanted => Some(format!("{what} is {mode} and goes on to {wanted} when {when}")),
        None => None,
    }
}

/// The next mode on the way.
fn neighbour<M: Mode>(mode: M, wanted: M) -> M {
    let further = M::ORDER.iter().find(|other| mode < **other && **other <= wanted);
    let back = || M::ORDER.iter().rfind(|other| wanted <= **other && **other < mode);
    further.or_else(back).copied().unwrap_or(mode)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use QuorumTlsMode::{Accepted, Plain, Preferred, Required};

    use super::*;

    const CONTENT: Observation = Observation { current: true, whole: true };

    /// Modes that three members run in, and what the operator recorded.
    #[derive(Clone, Debug)]
    struct Ensemble {
        members: [QuorumTlsMode; 3],
        modes: Modes<QuorumTlsMode>,
    }

    impl Ensemble {
        fn founded(mode: QuorumTlsMode) -> Self {
            Self { members: [mode; 3], modes: Modes { mode, from: None } }
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
            let mut modes = Modes { mode: begin, from: None };
            let mut seen = vec![modes.mode];
            while next(modes, wanted, CONTENT) != modes {
                modes = next(modes, wanted, CONTENT);
                seen.push(modes.mode);
            }
            assert_eq!((explain("TLS", modes, wanted, "all serve"), modes.from), (None, None));
            seen.dedup();
            seen
        };
        assert_eq!(walk(Plain, Required), [Plain, Accepted, Preferred, Required]);
        assert_eq!(walk(Required, Plain), [Required, Preferred, Accepted, Plain]);
        assert_eq!(walk(Plain, Plain), [Plain]);
    }

    #[test]
    fn a_wish_that_is_taken_back_halfway_leads_back_from_there() {
        let modes = Modes { mode: Preferred, from: Some(Accepted) };
        let lagging = Observation { current: false, whole: false };
        assert_eq!(next(modes, Required, lagging), modes);
        let back = Modes { mode: Accepted, from: Some(Preferred) };
        assert_eq!(next(modes, Plain, lagging), back);
        assert_eq!(next(back, Plain, lagging), back, "not to Plain while somebody may prefer TLS");
        assert_eq!(next(back, Required, lagging), modes);
    }

    #[test]
    fn what_is_broken_gets_no_more_tls_and_may_get_less() {
        let [modes, broken] = [Modes { mode: Preferred, from: None }, Modes { mode: Accepted, from: Some(Preferred) }];
        let seen = Observation { current: true, whole: false };
        assert_eq!(next(modes, Required, seen), modes);
        assert_eq!(next(modes, Plain, seen), broken);
        let nobody_knows = Observation { current: false, whole: true };
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
                let seen = Observation { current: answers && ensemble.runs(), whole };
                ensemble.modes = next(ensemble.modes, wanted, seen);
                let Modes { mode, from } = ensemble.modes;
                prop_assert!(from.is_none_or(|from| from != mode && neighbour(from, mode) == mode));
                prop_assert!(ensemble.members.iter().all(|member| *member == mode || Some(*member) == from), "{:?}", ensemble);
                prop_assert!(ensemble.is_understood(), "{:?}", ensemble);
            }
            for _ in 0..8 {
                ensemble.members = [ensemble.modes.mode; 3];
                ensemble.modes = next(ensemble.modes, wanted, CONTENT);
            }
            prop_assert_eq!(ensemble.modes, Modes { mode: wanted, from: None });
        }
    }
}
