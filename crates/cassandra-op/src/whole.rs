//! A whole ring of three members, for tests of what is decided about one.

use tf_agent_api::{
    cassandra::{Facts, Peer},
    state::Status,
};
use tf_api::{Cassandra, contract::MemberStatus};
use tf_plan::{
    observed::{Agent, Observed},
    step::{Request, Step},
};
use tf_testing::three::{self, THREE};

use crate::config::jvm::DAEMON;

const SET: &str = "configdb1-cassandra-statefulset";

/// Its members.
pub fn members() -> Vec<MemberStatus> {
    three::recorded()
}

/// What is observed when each server says what it would of a ring that lacks nothing, and this.
pub fn observed(says: impl Fn(usize, &mut Facts)) -> Observed<Cassandra> {
    let agent = |index: usize| {
        let peers = THREE.iter().filter(|(node, _)| *node != THREE[index].0);
        let heard = Peer { state: Some("NORMAL".into()), heard: Some(true), host_id: None };
        let mut facts = Facts {
            host_id: format!("host-{index}"),
            release: "5.0.9".into(),
            schema: "schema".into(),
            peers: peers.filter_map(|(_, address)| Some((address.parse().ok()?, heard.clone()))).collect(),
            ..Facts::default()
        };
        says(index, &mut facts);
        Agent::Says(Box::new(Status { cassandra: Some(facts), ..three::status(SET, DAEMON, index) }))
    };
    three::of(Observed { now: "2026-11-21T10:00:00Z".parse().unwrap_or_default(), ..Observed::default() }, SET, agent)
}

/// Who is asked for what.
pub fn asked(step: &Step) -> (usize, tf_agent_api::cassandra::Change) {
    let Step::Ask(target, Request::Ring(change)) = step else { panic!("{step:?}") };
    let index = target.pod.rsplit_once('-').and_then(|(_, index)| index.parse().ok());
    (index.unwrap_or_else(|| panic!("{}", target.pod)), change.clone())
}
