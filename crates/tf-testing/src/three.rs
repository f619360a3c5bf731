//! Three members of a store as its operator observes them: what plans of every store are tried with.

#![expect(clippy::expect_used, clippy::panic, reason = "a plan that asks for something else is a panicking test")]

use std::collections::BTreeMap;

use jiff::Timestamp;
use tf_agent_api::state::{Health, Phase, State, Status};
use tf_api::contract::MemberStatus;
use tf_plan::{
    observed::{Agent, Certificate, Observed, Pod, Source, Workload},
    plan::Plan,
    step::Step,
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

/// The same, as the Go tf-operator made it: nobody can ask its server.
pub fn former(set: &str, index: usize) -> Pod {
    Pod { template: None, certificate: None, ..pod(set, index) }
}

/// Does what plans say until nothing is left to do, beginning with pods of the Go tf-operator and a StatefulSet of ours. Their ordinals in
/// the order in which they were replaced. `says`: what the agent of a new pod says; `looks`: what is to be true of every plan.
///
/// # Panics
/// When a plan asks for anything but that one pod is made anew, or that its agent takes a configuration.
pub fn taken_over<Cr>(
    observed: Observed<Cr>,
    set: &str,
    plan: impl Fn(&Observed<Cr>) -> Plan,
    says: impl Fn(usize) -> Status,
    looks: impl Fn(&Plan),
) -> Vec<usize> {
    let index = |uid: &str| (0..THREE.len()).find(|index| uid == format!("pod-{index}")).expect("a pod");
    let mut pods: Vec<Pod> = (0..THREE.len()).map(|index| former(set, index)).collect();
    let mut observed =
        Observed { agents: BTreeMap::new(), ..of(observed, set, |index| Agent::Says(Box::new(says(index)))) };
    if let Some(workload) = observed.workloads.get_mut(set) {
        workload.current = true;
    }
    let mut order = Vec::new();
    for _ in 0..4 * THREE.len() {
        observed.pods = Source::Known(pods.clone());
        let plan = plan(&observed);
        looks(&plan);
        let (uid, said) = match plan.step.clone() {
            None => break,
            Some(Step::Restart(target)) => {
                let index = index(&target.uid);
                pods[index] = Pod { template: Some(plan.workload().1.to_owned()), ..pod(set, index) };
                order.push(index);
                (target.uid, says(index))
            }
            Some(Step::Activate(target, hash)) => {
                let mut said = says(index(&target.uid));
                said.daemons.values_mut().for_each(|state| state.active = Some(hash.clone()));
                (target.uid, said)
            }
            Some(step) => panic!("{step:?}"),
        };
        observed.agents.insert(uid, Agent::Says(Box::new(said)));
    }
    order
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
        health: Some(Health::new(true, "its port answers")),
        ..Status::default()
    }
}

/// Neither the kubelet nor the agent of a member says that it serves.
pub fn is_down<Cr>(observed: &mut Observed<Cr>, index: usize) {
    if let Source::Known(pods) = &mut observed.pods {
        pods[index].ready = false;
    }
    if let Some(Agent::Says(status)) = observed.agents.get_mut(&format!("pod-{index}")) {
        status.health = Some(Health::new(false, "its port does not answer"));
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
