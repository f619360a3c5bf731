//! An ensemble of which something changes while it runs (TLS between its servers, certificates, the operator): plans follow each
//! other, their steps are carried out, and at every moment all servers understand each other and trust what the others show.

// Says to clippy that the helpers below are tests, too.
#![cfg(test)]

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use serde_json::{Map, Value, json};
use tf_agent_api::content::{ContentHash, Volume, content_hash, of_member};
use tf_api::{
    Zookeeper,
    contract::{ConditionType, Reason},
    names::ANNOTATION_RESTART_HASH,
};
use tf_config_files::read;
use tf_plan::{
    component::Component as _,
    object::{CONFIG_MAP, SECRET, STATEFUL_SET},
    observed::Observed,
    plan::Plan,
    step::Step,
};
use zookeeper_op::{Component, config, plan::DAEMON};

const ADDRESSES: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
/// The last one.
const LEADER: usize = 2;

/// The files of a member by name.
type Files = BTreeMap<String, String>;

/// Three servers, and the resource as it is stored.
struct World {
    /// Version of the operator.
    operator: &'static str,
    spec: Value,
    status: Map<String, Value>,
    /// What each server runs with.
    runs: Vec<Files>,
    /// What each pod was made from.
    templates: Vec<String>,
    /// A member whose agent does not answer.
    silent: Option<usize>,
    /// A member whose node has no good files, with what is wrong.
    without_files: Option<(usize, &'static str)>,
}

impl World {
    /// An ensemble that runs as this spec says.
    fn at_rest(spec: &Value) -> Self {
        let members = ADDRESSES
            .iter()
            .enumerate()
            .map(|(index, address)| json!({"id": index + 1, "node": format!("cp{index}"), "address": address}));
        let founded =
            json!({"members": members.collect::<Vec<_>>(), "contract": "v1", "initialized": true, "highestId": 3});
        let mut world = Self {
            operator: "0.1.0",
            spec: spec.clone(),
            status: Map::new(),
            runs: Vec::new(),
            templates: Vec::new(),
            silent: None,
            without_files: None,
        };
        let plan = world.plan();
        world.status.clone_from(founded.as_object().unwrap());
        world.record(&plan);
        world.runs = ADDRESSES.map(|address| files(&plan, address)).into();
        world.templates = vec![template(&plan); 3];
        // The list that the quorum has is not the founders' any more.
        world.settle();
        world
    }

    fn plan(&self) -> Plan {
        let resource = json!({
            "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper",
            "metadata": {"name": "zk", "namespace": "tf", "uid": "u", "generation": 1},
            "spec": self.spec, "status": self.status,
        });
        let cr: Zookeeper = serde_json::from_value(resource).unwrap();
        Component::plan(&cr, &self.observed()).unwrap()
    }

    fn observed(&self) -> Observed<Zookeeper> {
        let label = json!({"node-role.kubernetes.io/control-plane": ""});
        let node = |index: usize| json!({"name": format!("cp{index}"), "address": ADDRESSES[index], "labels": label});
        let name = |index: usize| format!("zk-zookeeper-statefulset-{index}");
        let pod = |index: usize| {
            json!({
                "name": name(index), "uid": index.to_string(), "node": format!("cp{index}"), "address": ADDRESSES[index],
                "ready": true, "template": self.templates[index],
                "certificate": {"notAfter": "2027-02-19T10:00:00Z", "issuer": "00ff"},
            })
        };
        let list: Vec<String> = (0..3).map(entry).collect();
        let servers: tf_agent_api::zookeeper::Servers = (list.concat() + "version=100000000").parse().unwrap();
        let agent = |index: usize| {
            if self.silent == Some(index) {
                return json!({"silent": "no answer"});
            }
            let bad = self.without_files.filter(|(without, _)| *without == index).map(|(_, problem)| problem);
            let used = host_files(&self.runs[index]);
            json!({"says": {
                "hostFiles": used.as_ref().map(|used| json!({
                    "notAfter": bad.is_none().then_some("2027-01-19T10:00:00Z"), "problem": bad,
                    "shown": bad.is_none() && used == "Shown",
                })),
                "version": "0.1.0", "pod": name(index), "node": format!("cp{index}"), "address": ADDRESSES[index],
                "daemons": {DAEMON: {
                    "phase": "Running", "since": "2026-11-21T09:00:00Z", "active": content_hash(&self.runs[index]),
                }},
                "zookeeper": {
                    "id": index + 1, "serving": true, "role": if index == LEADER { "leader" } else { "follower" }, "zxid": 1,
                    "syncedFollowers": (index == LEADER).then_some(2), "servers": servers,
                },
            }})
        };
        let running = 0..self.runs.len();
        let agents: BTreeMap<String, Value> = running.clone().map(|index| (index.to_string(), agent(index))).collect();
        serde_json::from_value(json!({
            "operator": {"version": self.operator, "clusterDomain": "cluster.local"},
            "now": "2026-11-21T10:00:00Z",
            "nodes": {"known": (0..3).map(node).collect::<Vec<_>>()},
            "pods": {"known": running.map(pod).collect::<Vec<_>>()},
            "agents": agents,
            "secrets": {"zk-zookeeper-super": {"password": "SuxxxxxxxxxxxxxxxxxxxxxxxxxxxxPw"}},
        }))
        .unwrap()
    }

    /// Stores what has to be before the step.
    fn record(&mut self, plan: &Plan) {
        for field in plan.record {
            match plan.own_status.get(*field) {
                Some(value) => self.status.insert((*field).to_owned(), value.clone()),
                None => self.status.remove(*field),
            };
        }
        if let Some(list) = plan.own_status.get("ensemble") {
            self.status.insert("ensemble".into(), list.clone());
        }
    }

    /// One pass. Returns the member that changed over, if one did.
    fn pass(&mut self) -> Option<usize> {
        let plan = self.plan();
        self.record(&plan);
        let changed = match plan.step {
            None => None,
            Some(Step::Activate(ref target, ref hash)) => Some(self.activate(&plan, &target.pod, hash)),
            Some(Step::Restart(ref target)) => Some(self.replace(&plan, &target.pod)),
            Some(ref step) => panic!("{step:?}"),
        };
        for one in &self.runs {
            for other in &self.runs {
                assert!(understands(one, other) && trusts(one, other), "{one:?}\n{other:?}");
            }
        }
        changed
    }

    fn activate(&mut self, plan: &Plan, pod: &str, hash: &ContentHash) -> usize {
        let index: usize = pod.rsplit_once('-').unwrap().1.parse().unwrap();
        self.runs[index] = files(plan, ADDRESSES[index]);
        assert_eq!(content_hash(&self.runs[index]), *hash);
        index
    }

    /// The pod is made anew.
    fn replace(&mut self, plan: &Plan, pod: &str) -> usize {
        let index: usize = pod.rsplit_once('-').unwrap().1.parse().unwrap();
        self.runs[index] = files(plan, ADDRESSES[index]);
        self.templates[index] = template(plan);
        index
    }

    /// Passes until nothing is left to do. Returns who changed over, in order.
    fn settle(&mut self) -> Vec<usize> {
        let mut changed = Vec::new();
        for _ in 0..40 {
            let before = self.status.clone();
            let step = self.pass();
            changed.extend(step);
            if step.is_none() && self.status == before {
                assert_eq!(self.plan().under_way, None);
                return changed;
            }
        }
        panic!("still under way after 40 passes: {:?}", self.status)
    }

    fn quorum_tls(&self) -> Option<&Value> {
        self.status.get("quorumTls")
    }

    fn certificates(&self) -> Option<&Value> {
        self.status.get("certificates")
    }
}

/// Hash of the pods' template.
fn template(plan: &Plan) -> String {
    let set = plan.objects.iter().find(|object| object.kind == STATEFUL_SET).unwrap();
    let hash = &set.body["spec"]["template"]["metadata"]["annotations"][ANNOTATION_RESTART_HASH];
    hash.as_str().unwrap().to_owned()
}

/// What a server does with its node's files.
fn host_files(files: &Files) -> Option<String> {
    let launch: Value = serde_json::from_str(&files[&format!("{DAEMON}.launch")]).unwrap();
    launch["identity"]["hostFiles"].as_str().map(str::to_owned)
}

/// Whether a server trusts the certificate of another one.
fn trusts(one: &Files, other: &Files) -> bool {
    host_files(other).as_deref() != Some("Shown") || host_files(one).is_some()
}

fn entry(index: usize) -> String {
    let address = ADDRESSES[index];
    format!("server.{}={address}:2888:3888:participant;{address}:2181\n", index + 1)
}

/// What a plan has for a member.
fn files(plan: &Plan, address: &str) -> Files {
    let of = |kind, suffix| plan.objects.iter().find(move |it| it.kind == kind && it.name.ends_with(suffix)).unwrap();
    let open: Files = serde_json::from_value(of(CONFIG_MAP, "-files").body["data"].clone()).unwrap();
    let secret: Secret = serde_json::from_value(of(SECRET, "-secret-files").body.clone()).unwrap();
    let text = |(file, bytes): (String, ByteString)| (file, String::from_utf8(bytes.0).unwrap());
    let secret: Files = secret.data.unwrap().into_iter().map(text).collect();
    let own = of_member(secret.keys().map(String::as_str), open.keys().map(String::as_str), address.parse().unwrap());
    let content = |volume, key: &str| if volume == Volume::Secret { &secret[key] } else { &open[key] };
    own.into_iter().map(|(file, stored)| (file.to_owned(), content(stored.volume, stored.key).clone())).collect()
}

/// Whether a server that begins a connection is understood by another one (`QuorumCnxManager`, `UnifiedServerSocket`).
fn understands(one: &Files, other: &Files) -> bool {
    let settings = |files: &Files| read::properties(&files[config::STATIC_FILE]).unwrap();
    let is_on = |files: &Files, key: &str| settings(files).get(key).is_some_and(|value| value == "true");
    is_on(other, "portUnification") || is_on(one, "sslQuorum") == is_on(other, "sslQuorum")
}

fn with_tls() -> Value {
    json!({"serviceConfiguration": {"tls": {"quorum": true}}})
}

#[test]
fn an_ensemble_that_serves_goes_to_tls_and_back_in_three_rounds_with_the_leader_last() {
    let mut world = World::at_rest(&json!({}));
    assert_eq!((world.settle(), world.quorum_tls()), (vec![], None));
    world.spec = with_tls();
    assert_eq!(world.settle(), [1, 0, 2, 1, 0, 2, 1, 0, 2]);
    assert_eq!(world.quorum_tls(), Some(&json!({"mode": "Required"})));
    world.spec = json!({});
    assert_eq!(world.settle(), [1, 0, 2, 1, 0, 2, 1, 0, 2]);
    assert_eq!(world.quorum_tls(), None);
}

#[test]
fn an_ensemble_that_was_founded_with_tls_stays_as_it_is() {
    let mut world = World::at_rest(&with_tls());
    assert_eq!(world.settle(), Vec::<usize>::new());
    assert_eq!(world.quorum_tls(), Some(&json!({"mode": "Required"})));
}

#[test]
fn nothing_goes_on_while_an_agent_is_silent() {
    let mut world = World::at_rest(&json!({}));
    world.spec = with_tls();
    for _ in 0..4 {
        world.pass();
    }
    world.silent = Some(1);
    for _ in 0..10 {
        world.pass();
    }
    let stuck = world.quorum_tls().cloned();
    assert_ne!(stuck, Some(json!({"mode": "Required"})));
    assert!(world.plan().under_way.unwrap().contains("TLS between the servers goes from"));
    world.silent = None;
    world.settle();
    assert_eq!(world.quorum_tls(), Some(&json!({"mode": "Required"})));
}

#[test]
fn a_wish_that_is_taken_back_at_any_moment_comes_true_without_a_misunderstanding() {
    for first in 0..12 {
        for second in [1, 4] {
            let mut world = World::at_rest(&json!({}));
            world.spec = with_tls();
            (0..first).for_each(|_| _ = world.pass());
            world.spec = json!({});
            (0..second).for_each(|_| _ = world.pass());
            world.spec = with_tls();
            world.settle();
            assert_eq!(world.quorum_tls(), Some(&json!({"mode": "Required"})));
        }
    }
}

fn with_host_files() -> Value {
    json!({"commonConfiguration": {"certificates": {"hostFiles": {}}}, "serviceConfiguration": {"tls": {"quorum": true}}})
}

#[test]
fn an_ensemble_trusts_the_certificates_of_its_nodes_before_it_shows_them_and_until_it_does_not() {
    let mut world = World::at_rest(&with_tls());
    world.spec = with_host_files();
    // Pods that see the files, and then a launch file that shows them.
    assert_eq!(world.settle(), [1, 0, 2, 1, 0, 2]);
    assert_eq!(world.certificates(), Some(&json!({"mode": "Host"})));
    world.spec = with_tls();
    assert_eq!(world.settle(), [1, 0, 2, 1, 0, 2]);
    assert_eq!(world.certificates(), None);
    // Together with TLS itself.
    let mut world = World::at_rest(&json!({}));
    world.spec = with_host_files();
    world.settle();
    assert_eq!(
        (world.certificates(), world.quorum_tls()),
        (Some(&json!({"mode": "Host"})), Some(&json!({"mode": "Required"})))
    );
}

#[test]
fn nobody_shows_a_certificate_of_its_node_while_one_node_has_none() {
    let mut world = World::at_rest(&with_tls());
    world.spec = with_host_files();
    world.without_files = Some((1, "/etc/contrail/ssl/certs/server-10.0.0.2.crt is missing"));
    for _ in 0..20 {
        world.pass();
    }
    assert_eq!(world.certificates(), Some(&json!({"mode": "HostTrusted"})));
    let plan = world.plan();
    let told = plan.drafts.iter().find(|draft| draft.kind == ConditionType::CertificatesReady).unwrap();
    assert_eq!(told.reason, Reason::CertificateInvalid);
    assert!(
        told.message.contains("zk-zookeeper-statefulset-1: /etc/contrail/ssl/certs/server-10.0.0.2.crt is missing")
    );
    assert!(plan.under_way.unwrap().contains("goes on to Host when every member answers, serves and has good files"));
    world.without_files = None;
    world.settle();
    assert_eq!(world.certificates(), Some(&json!({"mode": "Host"})));
}

#[test]
fn another_source_that_is_taken_back_at_any_moment_leaves_nobody_without_trust() {
    for first in 0..9 {
        for second in [1, 4] {
            let mut world = World::at_rest(&with_tls());
            world.spec = with_host_files();
            (0..first).for_each(|_| _ = world.pass());
            world.spec = with_tls();
            (0..second).for_each(|_| _ = world.pass());
            world.spec = with_host_files();
            world.settle();
            assert_eq!(world.certificates(), Some(&json!({"mode": "Host"})));
        }
    }
}

/// The image of the agent.
fn agent_image(plan: &Plan) -> Value {
    let set = plan.objects.iter().find(|object| object.kind == STATEFUL_SET).unwrap();
    set.body["spec"]["template"]["spec"]["initContainers"][0]["image"].clone()
}

#[test]
fn an_upgrade_of_the_operator_restarts_nothing_and_activates_no_configuration() {
    for spec in [json!({}), with_tls(), with_host_files()] {
        let mut world = World::at_rest(&spec);
        let before = world.plan();
        world.operator = "0.2.0";
        let after = world.plan();
        assert_ne!(agent_image(&after), agent_image(&before), "it is another operator");
        assert_eq!(after.rollout, before.rollout);
        for address in ADDRESSES {
            assert_eq!(content_hash(&files(&after, address)), content_hash(&files(&before, address)));
        }
        assert_eq!((after.step, after.under_way), (None, None));
        assert_eq!(world.settle(), Vec::<usize>::new());
    }
}
