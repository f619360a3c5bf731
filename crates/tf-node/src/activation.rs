//! Which content a daemon runs with: a pure decision over what the annotation wants, what is mounted and what it has.
//!
//! The operator changes members one at a time, so nothing that is merely mounted may reach a daemon that has run
//! before; and a member that runs goes on with what it has, whatever is missing or broken.

use tf_agent_api::content::ContentHash;

use crate::{annotations::Wanted, set::Effect};

/// What the volumes hold for the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mounted {
    /// A complete set.
    Usable(ContentHash),
    /// Content that the daemon cannot run with, for this reason.
    Unusable(ContentHash, String),
    /// It could not be read, for this reason.
    Unreadable(String),
}

/// What is the case.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// What the pod's annotation says.
    pub wanted: &'a Wanted,
    /// What the volumes hold.
    pub mounted: &'a Mounted,
    /// The set that the daemon has.
    pub materialised: Option<&'a ContentHash>,
    /// Whether the daemon has been started since the agent started.
    pub started: bool,
    /// Whether its process runs at this moment.
    pub running: bool,
    /// What going from the set it has to the mounted one asks for.
    pub effect: Effect,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// There is nothing to run with yet.
    Wait,
    /// Start the daemon with the set it has.
    StartMaterialised,
    /// Take the mounted set and start the daemon.
    StartMounted,
    /// Go on.
    Keep,
    /// Take the mounted set and restart the daemon.
    Restart,
    /// Take the mounted set and send these signals, possibly none.
    Signal(Vec<tf_agent_api::launch::Signal>),
}

/// The decision, and what is waited for.
pub fn decide(situation: &Situation<'_>) -> (Decision, Option<String>) {
    let (take, message) = choose(situation);
    let decision = match (take, situation.started, situation.materialised) {
        (false, false, None) => Decision::Wait,
        (false, false, Some(_)) => Decision::StartMaterialised,
        (false, true, _) => Decision::Keep,
        // A daemon that waits for its next start has nothing to be signalled.
        (true, started, _) if !started || !situation.running => Decision::StartMounted,
        (true, ..) => match &situation.effect {
            Effect::Restart => Decision::Restart,
            Effect::Signals(signals) => Decision::Signal(signals.clone()),
        },
    };
    (decision, message)
}

/// Whether to take the mounted set, and what is waited for otherwise.
fn choose(situation: &Situation<'_>) -> (bool, Option<String>) {
    let Situation { wanted, mounted, materialised, .. } = situation;
    match wanted {
        Wanted::Content(wanted) if Some(wanted) == *materialised => (false, None),
        Wanted::Content(wanted) => match mounted {
            Mounted::Usable(hash) if hash == wanted => (true, None),
            Mounted::Unusable(hash, why) if hash == wanted => {
                (false, Some(format!("the configuration {wanted} cannot be used: {why}")))
            }
            Mounted::Usable(hash) | Mounted::Unusable(hash, _) => {
                (false, Some(format!("waits for the kubelet to mount the configuration {wanted}; {hash} is mounted")))
            }
            Mounted::Unreadable(why) => (false, Some(format!("waits for the configuration {wanted}: {why}"))),
        },
        Wanted::Unset if materialised.is_some() => (false, None),
        Wanted::Unset => match mounted {
            Mounted::Usable(_) => (true, None),
            Mounted::Unusable(_, why) | Mounted::Unreadable(why) => {
                (false, Some(format!("waits for its configuration: {why}")))
            }
        },
        Wanted::Unknown(why) => (false, Some(why.clone())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tf_agent_api::launch::Signal;

    use super::*;

    fn hash(digit: char) -> ContentHash {
        digit.to_string().repeat(32).parse().unwrap()
    }

    fn hashes() -> impl Strategy<Value = ContentHash> {
        prop::sample::select(vec!['a', 'b', 'c']).prop_map(hash)
    }

    prop_compose! {
        fn situations()(
            wanted in prop_oneof![
                Just(Wanted::Unset),
                hashes().prop_map(Wanted::Content),
                Just(Wanted::Unknown("unknown".into())),
            ],
            mounted in prop_oneof![
                hashes().prop_map(Mounted::Usable),
                hashes().prop_map(|hash| Mounted::Unusable(hash, "broken".into())),
                Just(Mounted::Unreadable("gone".into())),
            ],
            materialised in prop::option::of(hashes()),
            (started, running) in prop_oneof![Just((false, false)), Just((true, false)), Just((true, true))],
            effect in prop_oneof![Just(Effect::Restart), Just(Effect::Signals(vec![Signal::Hup]))],
        ) -> (Wanted, Mounted, Option<ContentHash>, bool, bool, Effect) {
            // A daemon starts with a set and keeps one.
            let started = started && materialised.is_some();
            (wanted, mounted, materialised, started, running && started, effect)
        }
    }

    #[test]
    fn the_first_start_takes_what_is_mounted_and_later_ones_what_was_there() {
        let mounted = Mounted::Usable(hash('b'));
        let decision = |wanted: &Wanted, materialised: Option<&ContentHash>| {
            let effect = Effect::Restart;
            decide(&Situation { wanted, mounted: &mounted, materialised, started: false, running: false, effect })
        };
        assert_eq!(decision(&Wanted::Unset, None), (Decision::StartMounted, None));
        assert_eq!(decision(&Wanted::Unset, Some(&hash('a'))), (Decision::StartMaterialised, None));
        assert_eq!(decision(&Wanted::Content(hash('b')), Some(&hash('a'))), (Decision::StartMounted, None));
        let (late, message) = decision(&Wanted::Content(hash('c')), Some(&hash('a')));
        assert_eq!(late, Decision::StartMaterialised);
        let expected =
            format!("waits for the kubelet to mount the configuration {}; {} is mounted", hash('c'), hash('b'));
        assert_eq!(message, Some(expected));
        assert_eq!(decision(&Wanted::Content(hash('c')), None).0, Decision::Wait);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn decisions_keep_the_rules((wanted, mounted, materialised, started, running, effect) in situations()) {
            let situation = Situation {
                wanted: &wanted, mounted: &mounted, materialised: materialised.as_ref(), started, running, effect,
            };
            let (decision, message) = decide(&situation);
            let takes = matches!(decision, Decision::StartMounted | Decision::Restart | Decision::Signal(_));

            // Only a complete set is taken, and only the one that is wanted or the first one.
            if takes {
                let Mounted::Usable(hash) = &mounted else { panic!("took a broken set") };
                prop_assert!(wanted == Wanted::Content(hash.clone()) || (wanted == Wanted::Unset && materialised.is_none()));
                prop_assert_ne!(Some(hash), materialised.as_ref());
            }
            // What is wanted and usable is taken.
            if let (Wanted::Content(wanted), Mounted::Usable(mounted)) = (&wanted, &mounted)
                && wanted == mounted && Some(wanted) != materialised.as_ref()
            {
                prop_assert!(takes);
            }
            // A daemon with a set runs, whatever happens.
            prop_assert_eq!(decision == Decision::Wait, !started && materialised.is_none() && !takes);
            // Starting is for what does not run, changing for what does.
            prop_assert!(decision != Decision::StartMaterialised || !started);
            prop_assert!(decision != Decision::StartMounted || !running);
            prop_assert!(!matches!(decision, Decision::Restart | Decision::Signal(_)) || running);
            prop_assert!(decision != Decision::Keep || started);
            // Whoever waits says for what; whoever has what is wanted says nothing.
            let has_wanted = matches!(&wanted, Wanted::Content(wanted) if Some(wanted) == materialised.as_ref());
            prop_assert_eq!(
                message.is_some(),
                !(takes || has_wanted || wanted == Wanted::Unset && materialised.is_some())
            );
        }

        /// Nothing happens twice.
        #[test]
        fn after_a_decision_there_is_none_left((wanted, mounted, materialised, started, running, effect) in situations()) {
            let situation = Situation {
                wanted: &wanted, mounted: &mounted, materialised: materialised.as_ref(), started, running, effect,
            };
            let has = match (decide(&situation).0, &mounted) {
                (Decision::Wait, _) => return Ok(()),
                (Decision::Keep | Decision::StartMaterialised, _) => materialised.clone(),
                (_, Mounted::Usable(hash)) => Some(hash.clone()),
                _ => panic!("took a broken set"),
            };
            let after = Situation { materialised: has.as_ref(), started: true, running: true, ..situation };
            prop_assert_eq!(decide(&after).0, Decision::Keep);
        }
    }
}
