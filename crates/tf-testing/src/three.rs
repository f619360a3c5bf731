//! Three members of a store as its operator observes them: what plans of every store are tried with.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tf_api::contract::MemberStatus;
use tf_plan::{
    node::state::{Health, Phase, State, Status},
    observed::{Agent, Certificate, Observed, Pod, Source, Workload},
};

/// Their nodes, each with its address.
pub const THREE: [(&str, &str); 3] = [("cp1", "10.0.0.1"), ("cp2", "10.0.0.2"), ("cp3", "10.0.0.3")];
/// When their certificates end: 2027-02-19T10:00:00Z.
const CERTIFIED_UNTIL: Timestamp = Timestamp::constant(1_803_031_200, 0);

/// The members, as a status records them.
pub fn recorded() -> Vec<MemberStatus> {
    let member =
        |(id, (node, address)): (u32, (&str, &str))| MemberStatus { id, node: node.into(), address: address.into() };
    (1..).zip(THREE).map(member).collect()
}

/// The pod of a member, which is ready and of an unknown template.
pub fn pod(set: &str, index: usize) -> Pod {
    let (node, address) = THREE[index];
    Pod {
        name: format!("{set}-{index}"),
        uid: format!("pod-{index}"),
        node: Some(node.into()),
        address: Some(address.into()),
        ready: true,
        template: Some("unknown".into()),
        certificate: Some(Certificate { not_after: CERTIFIED_UNTIL, issuer: "00ff".into() }),
        ..Pod::default()
    }
}

/// What the agent of a member says whose daemon serves with an old configuration. Facts about the store are for its tests to add.
pub fn status(set: &str, daemon: &str, index: usize) -> Status {
    let (node, address) = THREE[index];
    let state = State { phase: Phase::Running, active: "1".repeat(32).parse().ok(), ..State::default() };
    Status {
        pod: format!("{set}-{index}"),
        node: node.into(),
        address: address.into(),
        daemons: BTreeMap::from([(daemon.to_owned(), state)]),
        health: Some(Health { serves: true, message: "its port answers".into() }),
        ..Status::default()
    }
}

/// What is observed of all of them, beside what was observed of everything else. `says`: what the agent of a member says.
pub fn of<Cr>(observed: Observed<Cr>, set: &str, says: impl Fn(usize) -> Agent) -> Observed<Cr> {
    let workload =
        Workload { name: set.into(), current: false, wanted: 3, existing: 3, ready: 3, ..Workload::default() };
    let members = 0..THREE.len();
    Observed {
        pods: Source::Known(members.clone().map(|index| pod(set, index)).collect()),
        agents: members.map(|index| (format!("pod-{index}"), says(index))).collect(),
        workloads: BTreeMap::from([(set.to_owned(), workload)]),
        ..observed
    }
}
