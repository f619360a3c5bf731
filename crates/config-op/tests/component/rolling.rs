//! In which order members take a change, and what that waits for.

mod model;

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tf_agent_api::state::{Phase, State};
use tf_api::Config;
use tf_plan::{
    observed::{Agent, Observed, Source},
    plan::Plan,
};
use tf_testing::{model_runs, three};

use self::model::{Draw, SESSION, walk};
use crate::support::{World, config, with_status};

const SET: &str = "config1-config-statefulset";
/// For the election and the next looks of agent and operator, in seconds.
const HANDOVER: i64 = 5;

/// Everything is prompt and nothing fails.
const KIND: Draw = Draw { start: (1, 2), lag: 1, ends: 0, crashes: 0, again: 0, new_agents: true, seed: 7 };

#[test]
fn members_take_turns_and_each_daemon_keeps_a_leader() {
    let outcome = walk(KIND);
    assert_eq!(outcome.steps, 3);
    // The znode of a device manager outlives it; those of the others are removed at once.
    assert!(outcome.leaderless <= SESSION + 1, "{outcome:?}");
    assert!(outcome.took <= 3 * SESSION + 30, "{outcome:?}");
}

/// All schema transformers are standby, on three members that are well.
fn leaderless() -> Observed<Config> {
    let says = |index| {
        let mut status = three::status(SET, "api", index);
        let standby = State { phase: Phase::Running, standby: true, ..State::default() };
        status.daemons.insert("schematransformer".into(), standby);
        Agent::Says(Box::new(status))
    };
    let mut observed = three::of(World::default().observed(), SET, says);
    if let Source::Known(pods) = &mut observed.pods {
        for pod in pods {
            pod.images = ["api", "schematransformer"].map(|name| (name.to_owned(), "image:R1".to_owned())).into();
        }
    }
    observed
}

/// The plan where this was noted of daemons before.
#[expect(clippy::unwrap_used, reason = "a situation that cannot be planned is a failing test")]
fn planned(noted: &Value, observed: &Observed<Config>) -> Plan {
    let status = json!({"contract": "v1", "initialized": true, "members": three::recorded(), "daemons": noted});
    config_op::plan::plan(&with_status(&config(json!({})), status), observed).unwrap()
}

#[test]
fn a_daemon_without_a_leader_is_reported_when_a_handover_should_have_ended() {
    let mut observed = leaderless();
    let began = observed.now;
    let since = |plan: &Plan| {
        let schema = plan.daemons.iter().flatten().find(|daemon| daemon.name == "schematransformer");
        schema.and_then(|schema| schema.unelected_since.as_ref()).map(|since| since.0)
    };
    let first = planned(&json!([]), &observed);
    assert_eq!((since(&first), &first.unelected), (Some(began), &None), "a handover takes a while");
    let noted = json!([{"name": "schematransformer", "unelectedSince": began.to_string()}]);
    let ends = Duration::from_secs((SESSION + HANDOVER) as u64);
    observed.now = began + ends.saturating_sub(Duration::from_secs(1));
    let plan = planned(&noted, &observed);
    assert_eq!((plan.unelected, plan.again), (None, Some(Duration::from_secs(1))));
    observed.now = began + ends;
    let plan = planned(&noted, &observed);
    assert_eq!(since(&plan), Some(began));
    let why = plan.unelected.unwrap_or_default();
    assert!(
        why.starts_with("no schematransformer is elected since 2026-11-21T10:00:00Z: all 3 that run are standby"),
        "{why}"
    );

    // An agent that does not answer may have the leader; a lost node has not.
    observed.agents.insert("pod-0".into(), Agent::Silent("no route".into()));
    let plan = planned(&noted, &observed);
    assert_eq!((since(&plan), plan.unelected), (None, None));
    if let Source::Known(nodes) = &mut observed.nodes {
        nodes[0].unreachable = true;
    }
    assert!(planned(&noted, &observed).unelected.is_some_and(|why| why.contains("all 2 that run")));

    // One that answers leads.
    let mut led = leaderless();
    led.now = began + ends;
    if let Some(Agent::Says(status)) = led.agents.get_mut("pod-1") {
        let connections = [("Zookeeper:Zookeeper".to_owned(), true)].into();
        let state = State { phase: Phase::Running, connections, ..State::default() };
        status.daemons.insert("schematransformer".into(), state);
    }
    let plan = planned(&noted, &led);
    assert_eq!((since(&plan), plan.unelected), (None, None));
}

proptest! {
    #![proptest_config(model_runs::random(24))]

    #[test]
    fn no_two_members_are_away_by_the_operator_and_every_change_arrives(
        start in (2_i64..20, 0_i64..60),
        lag in 0_i64..16,
        ends in 0_u64..80,
        crashes in prop_oneof![Just(0_u64), 0_u64..40],
        again in prop_oneof![Just(0_i64), 20_i64..300],
        new_agents: bool,
        seed: u64,
    ) {
        let draw = Draw { start: (start.0, start.0 + start.1), lag, ends, crashes, again, new_agents, seed };
        let outcome = walk(draw);
        prop_assert!(outcome.steps >= 3);
        if ends == 0 && crashes == 0 {
            prop_assert!(outcome.leaderless <= 2 * SESSION, "{outcome:?}");
        }
    }
}
