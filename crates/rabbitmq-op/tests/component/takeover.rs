//! A cluster of the Go tf-operator, from its last pod of that operator's to its last pod of ours.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot read its input fails")]

use std::{cell::RefCell, collections::BTreeMap};

use proptest::prelude::*;
use rabbitmq_op::plan::plan;
use serde_json::{Value, json};
use tf_agent_api::{
    rabbitmq::Facts,
    state::{Health, Status},
};
use tf_api::{Rabbitmq, names::ANNOTATION_FORMER_RELEASE};
use tf_plan::{
    observed::{Agent, Observed, Pod, Source},
    plan::Plan,
    step::Step,
    takeover::is_legacy,
};
use tf_testing::{
    model_runs,
    three::{self, THREE},
};

use crate::support::{self, observed, resource};

const SET: &str = "rabbitmq1-rabbitmq-statefulset";

/// An authority that signs and that the former servers' clients trust.
fn authority() -> String {
    let now = "2026-11-21T10:00:00Z".parse().unwrap();
    let lifetime = std::time::Duration::from_hours(1);
    let authority = tf_pki::authority::Authority::generate("theirs", tf_pki::authority::Curve::P256, lifetime, now);
    authority.unwrap().certificates_pem()
}

/// What is called after its domain, which is another one than ours.
fn name(index: usize) -> String {
    format!("rabbit@{}.theirs.example", THREE[index].0)
}

/// What the other operator left besides its pods.
fn left() -> Observed<Rabbitmq> {
    let now = "2026-11-21T10:00:00Z".parse().unwrap();
    let mut observed = Observed { now, ..observed("rabbitmq1", &THREE) };
    let env = |index: usize| {
        (format!("rabbitmq-env.conf.{}", THREE[index].1), format!("RABBITMQ_NODENAME={}\n", name(index)))
    };
    let mut files: BTreeMap<String, String> = (0..THREE.len()).map(env).collect();
    files.insert(
        "rabbitmq-common.env".into(),
        "export RABBITMQ_ERLANG_COOKIE=THEIRS\nexport ERL_EPMD_PORT=4371\n".into(),
    );
    observed.config_maps.insert("rabbitmq1-rabbitmq-configmap".into(), files);
    let pem = authority();
    observed.config_maps.insert("csr-signer-ca".into(), BTreeMap::from([("ca-bundle.crt".into(), pem.clone())]));
    observed.secrets.insert("tf-ca".into(), [("tls.crt".to_owned(), pem)].into_iter().collect());
    observed
}

fn stated() -> Rabbitmq {
    let mut resource = resource("rabbitmq1", &json!({"commonConfiguration": {"replicas": 5}}), &json!({}));
    let annotation = (ANNOTATION_FORMER_RELEASE.to_owned(), "3.10".to_owned());
    resource.metadata.annotations.get_or_insert_default().extend([annotation]);
    resource
}

/// The plan, whose record is in the status afterwards.
fn planned(resource: &RefCell<Rabbitmq>, observed: &Observed<Rabbitmq>) -> Plan {
    let plan = plan(&resource.borrow(), observed).unwrap();
    let mut resource = resource.borrow_mut();
    let status = resource.status.get_or_insert_default();
    status.contract.members.clone_from(&plan.members);
    status.own = serde_json::from_value(Value::Object(plan.own_status.clone())).unwrap();
    plan
}

fn looks(plan: &Plan) {
    assert_eq!(plan.members, three::recorded());
    assert_eq!(plan.own_status.get("distribution"), Some(&json!({"tls": false, "delegates": 16})));
    assert_eq!(plan.own_status.get("leaving"), None);
    assert!(plan.record.contains(&"distribution"));
}

fn facts(index: usize, nodes: BTreeMap<String, bool>) -> Facts {
    Facts { name: name(index), nodes, ..Facts::default() }
}

#[test]
fn pods_are_replaced_one_at_a_time_and_no_member_comes_or_goes_before() {
    let resource = RefCell::new(stated());
    let all = || (0..THREE.len()).map(|index| (name(index), true)).collect();
    let says = |index| Status { rabbitmq: Some(facts(index, all())), ..three::status(SET, "rabbitmq", index) };
    let plan = |observed: &Observed<Rabbitmq>| planned(&resource, observed);
    assert_eq!(three::taken_over(left(), SET, plan, says, looks), [2, 1, 0]);
}

#[test]
fn a_cluster_that_is_taken_over_goes_on_without_the_files_and_the_annotation_of_before() {
    let resource = RefCell::new(stated());
    let mut world = World::new();
    world.carry_out(&planned(&resource, &world.seen()));
    resource.borrow_mut().metadata.annotations = None;
    let files = support::files(&planned(&resource, &world.seen()));
    world.observed.config_maps.remove("rabbitmq1-rabbitmq-configmap");
    world.observed.config_maps.insert("rabbitmq1-rabbitmq-files".into(), files);
    let cookie = (".erlang.cookie".to_owned(), "THEIRS".to_owned());
    world.observed.secrets.insert("rabbitmq1-rabbitmq-secret-files".into(), [cookie].into_iter().collect());
    for _ in 0..12 {
        world.carry_out(&planned(&resource, &world.seen()));
    }
    assert!(world.members.iter().all(|member| member.is_ours));
}

#[test]
fn a_new_server_that_began_alone_replaces_no_other() {
    let resource = RefCell::new(stated());
    let mut world = World::new();
    while planned(&resource, &world.seen()).step.is_some() && !world.members[1].is_ours {
        world.members[2].is_alone = world.members[2].is_ours;
        world.carry_out(&planned(&resource, &world.seen()));
    }
    let plan = planned(&resource, &world.seen());
    assert_eq!((plan.step, world.members.map(|member| member.is_ours)), (None, [false, false, true]));
    let why = plan.under_way.unwrap();
    let expected = format!("pod {SET}-1 is not replaced now: {} is not in the cluster of {}", name(0), name(2));
    assert_eq!(why, expected);
}

/// A member, as the world has it.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    is_ours: bool,
    is_down: bool,
    /// It has begun a cluster of its own.
    is_alone: bool,
}

#[derive(Clone, Debug)]
enum Event {
    Down(usize),
    Up(usize),
    /// Its server lost its data and starts without any.
    Alone(usize),
    Together(usize),
    Nothing,
}

struct World {
    observed: Observed<Rabbitmq>,
    members: [Member; 3],
    template: String,
    active: BTreeMap<String, tf_agent_api::content::ContentHash>,
}

impl World {
    fn new() -> Self {
        let mut observed = three::of(left(), SET, |_| Agent::Silent("no route".into()));
        observed.workloads.get_mut(SET).unwrap().current = true;
        Self { observed, members: [Member::default(); 3], template: String::new(), active: BTreeMap::new() }
    }

    fn happens(&mut self, event: &Event) {
        match *event {
            Event::Down(index) => self.members[index].is_down = true,
            Event::Up(index) => self.members[index].is_down = false,
            Event::Alone(index) => self.members[index].is_alone = self.members[index].is_ours,
            Event::Together(index) => self.members[index].is_alone = false,
            Event::Nothing => {}
        }
    }

    /// What a server of ours has as its cluster.
    fn cluster(&self, index: usize) -> BTreeMap<String, bool> {
        if self.members[index].is_alone {
            return BTreeMap::from([(name(index), true)]);
        }
        (0..3).map(|other| (name(other), !self.members[other].is_down && !self.members[other].is_alone)).collect()
    }

    fn seen(&self) -> Observed<Rabbitmq> {
        let mut observed = self.observed.clone();
        observed.agents.clear();
        let pod = |index: usize| {
            let Member { is_ours, is_down, .. } = self.members[index];
            let pod = if is_ours { three::pod(SET, index) } else { three::former(SET, index) };
            Pod { ready: !is_down, template: is_ours.then(|| self.template.clone()), ..pod }
        };
        let pods: Vec<Pod> = (0..3).map(pod).collect();
        for (index, pod) in pods.iter().enumerate().filter(|(_, pod)| !is_legacy(pod)) {
            let serves = pod.ready;
            let facts = if serves {
                facts(index, self.cluster(index))
            } else {
                Facts { unknown: Some("refused".into()), ..Facts::default() }
            };
            let health = Some(Health::new(serves, "port 5673"));
            let mut status = Status { health, rabbitmq: Some(facts), ..three::status(SET, "rabbitmq", index) };
            if let Some(active) = self.active.get(&pod.uid) {
                status.daemons.values_mut().for_each(|state| state.active = Some(active.clone()));
            }
            observed.agents.insert(pod.uid.clone(), Agent::Says(Box::new(status)));
        }
        observed.pods = Source::Known(pods);
        observed
    }

    fn carry_out(&mut self, plan: &Plan) {
        match plan.step.clone() {
            None => {}
            Some(Step::Restart(target)) => {
                let index = (0..3).find(|index| target.uid == format!("pod-{index}")).unwrap();
                plan.workload().1.clone_into(&mut self.template);
                self.members[index] = Member { is_ours: true, ..Member::default() };
            }
            Some(Step::Activate(target, hash)) => {
                self.active.insert(target.uid, hash);
            }
            Some(step) => panic!("{step:?}"),
        }
    }

    /// Whether a former member that serves is only stopped while everybody else serves beside it.
    fn bears(&self, plan: &Plan) -> Result<(), TestCaseError> {
        let Some(Step::Restart(target)) = &plan.step else { return Ok(()) };
        let index = (0..3).find(|index| target.uid == format!("pod-{index}")).unwrap();
        if self.members[index].is_down {
            return Ok(());
        }
        prop_assert!(!self.members[index].is_ours, "one of ours is replaced");
        let others = self.members.iter().enumerate().filter(|(other, _)| *other != index);
        for (other, member) in others {
            prop_assert!(!member.is_down && !member.is_alone, "{index} is stopped while {other} is away");
        }
        Ok(())
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => (0_usize..3).prop_map(Event::Down),
        2 => (0_usize..3).prop_map(Event::Up),
        1 => (0_usize..3).prop_map(Event::Alone),
        2 => (0_usize..3).prop_map(Event::Together),
        4 => Just(Event::Nothing),
    ]
}

proptest! {
    #![proptest_config(model_runs::random(128))]

    #[test]
    fn whatever_happens_no_former_member_is_stopped_while_another_one_is_away_and_in_the_end_all_are_ours(
        events in prop::collection::vec(event(), 0..20),
    ) {
        let resource = RefCell::new(stated());
        let mut world = World::new();
        for event in &events {
            world.happens(event);
            let plan = planned(&resource, &world.seen());
            world.bears(&plan)?;
            prop_assert_eq!(&plan.members, &three::recorded());
            prop_assert_eq!(plan.own_status.get("leaving"), None);
            world.carry_out(&plan);
        }
        for index in 0..3 {
            world.happens(&Event::Up(index));
            world.happens(&Event::Together(index));
        }
        for _ in 0..12 {
            let plan = planned(&resource, &world.seen());
            world.bears(&plan)?;
            world.carry_out(&plan);
        }
        prop_assert!(world.members.iter().all(|member| member.is_ours), "{:?}", world.members);
        prop_assert_eq!(planned(&resource, &world.seen()).step, None);
    }
}
