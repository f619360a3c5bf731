//! Three members of Config as the real daemons are: an API takes seconds to a minute to serve, the kubelet notices everything late, agents are
//! asked every other second, and daemons beside an API end by themselves when one goes that they use. Of each of the three daemons beside it one
//! process is elected by ZooKeeper: the znode of a standby outlives its process by a session, that of a device manager always does.

#![expect(clippy::panic, reason = "a promise that is broken is a panicking test")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tf_agent_api::{
    content::ContentHash,
    state::{Health, Phase, State, Status},
};
use tf_api::{Config, kinds::SESSION_TIMEOUT_DEFAULT};
use tf_plan::{
    observed::{Agent, Observed, Source},
    plan::Plan,
    step::Step,
};
use tf_testing::three;

use crate::support::{World, config, with_status};

const SET: &str = "config1-config-statefulset";
/// Daemons beside the API, each of which is elected.
const ELECTED: [&str; 3] = ["schematransformer", "servicemonitor", "devicemanager"];
/// Ends only by SIGKILL, so that its znode stays.
const DEVICE_MANAGER: usize = 2;
/// For how long a znode outlives its process, in seconds.
pub const SESSION: i64 = SESSION_TIMEOUT_DEFAULT.as_secs() as i64;
/// How old what an operator knows of an agent may be, in seconds.
const POLL: i64 = 2;

/// What a walk draws: how late and how unreliable everything is, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// From the start of an API until it serves, at least and at most.
    pub start: (i64, i64),
    /// How late the kubelet notices, at most.
    pub lag: i64,
    /// How many of a hundred daemons end when an API goes.
    pub ends: u64,
    /// How many APIs in ten thousand end by themselves in a second.
    pub crashes: u64,
    /// When the configuration changes a second time; never if it is 0.
    pub again: i64,
    /// Whether agents report since when a daemon serves.
    pub new_agents: bool,
    /// For everything else.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    Runs { since: i64, serves: i64 },
    Away { until: i64 },
}

/// Which process a znode is of.
#[derive(Clone, Copy, Debug)]
struct Znode {
    member: usize,
    since: i64,
    expires: Option<i64>,
}

#[derive(Clone, Debug)]
struct Member {
    api: Process,
    beside: [Process; 3],
    wanted: Option<ContentHash>,
    active: ContentHash,
    takes_at: Option<i64>,
    ready: bool,
    notices_at: Option<i64>,
    /// Whether the operator stopped it, and its API has not served since.
    stopped: bool,
    /// Since when its API does not serve.
    away_since: Option<i64>,
    report: Status,
}

/// What came of a walk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Members that the operator stopped.
    pub steps: usize,
    /// For how long at most a daemon had no leader although a process of it ran, in seconds.
    pub leaderless: i64,
    /// For how long the whole walk went on, in seconds.
    pub took: i64,
}

struct Model {
    draw: Draw,
    random: u64,
    now: i64,
    members: Vec<Member>,
    queues: [VecDeque<Znode>; 3],
    observed: [Observed<Config>; 2],
    content: usize,
    unwell_since: Option<i64>,
    leaderless: [i64; 3],
    seen: Seen,
    /// When the operator plans again although nothing happens.
    again: i64,
    outcome: Outcome,
}

/// What the operator saw when it planned last.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    content: usize,
    members: Vec<(bool, Option<ContentHash>, Status)>,
}

/// Walks until every member has the configuration that counts last and everything is well.
///
/// # Panics
/// When two members are away by the operator's hand, or that takes longer than half an hour.
pub fn walk(draw: Draw) -> Outcome {
    let mut model = Model::new(draw);
    while model.now < 1800 {
        model.second();
        if model.now > draw.again.max(10) && model.is_done() {
            return Outcome { took: model.now, ..model.outcome };
        }
    }
    panic!("not done after half an hour: {:?}; {:#?}", model.planned().under_way, model.members);
}

impl Model {
    fn new(draw: Draw) -> Self {
        let runs = Process::Runs { since: -1000, serves: -900 };
        let former: ContentHash = match "1".repeat(32).parse() {
            Ok(hash) => hash,
            Err(error) => panic!("{error:?}"),
        };
        let member = |index| Member {
            api: runs,
            beside: [runs; 3],
            wanted: None,
            active: former.clone(),
            takes_at: None,
            ready: true,
            notices_at: None,
            stopped: false,
            away_since: None,
            report: three::status(SET, "api", index),
        };
        let other =
            World { rabbitmq_login: ["user0001", "Another-Pass", "vhost001"].map(str::to_owned), ..World::default() };
        let observed = [World::default(), other].map(|world| {
            three::of(world.observed(), SET, |index| Agent::Says(Box::new(three::status(SET, "api", index))))
        });
        // The leaders are on different members.
        let queue = |first: usize| {
            (0..3).map(|at| Znode { member: (first + at) % 3, since: -1000, expires: None }).collect::<VecDeque<_>>()
        };
        let mut model = Self {
            draw,
            random: draw.seed | 1,
            now: 0,
            members: (0..3).map(member).collect(),
            queues: [queue(0), queue(1), queue(2)],
            observed,
            content: 0,
            unwell_since: None,
            leaderless: [0; 3],
            seen: Seen::default(),
            again: 0,
            outcome: Outcome::default(),
        };
        for index in 0..3 {
            model.report(index);
        }
        model
    }

    /// A number below this one.
    fn drawn(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below.max(1)
    }

    fn between(&mut self, (least, most): (i64, i64)) -> i64 {
        least + self.drawn((most - least + 1) as u64) as i64
    }

    fn serves(&self, process: Process) -> bool {
        matches!(process, Process::Runs { serves, .. } if serves <= self.now)
    }

    fn leads(&self, daemon: usize, member: usize) -> bool {
        let first = self.queues[daemon].front();
        first.is_some_and(|znode| znode.member == member && znode.expires.is_none())
    }

    fn second(&mut self) {
        self.now += 1;
        if self.now == self.draw.again {
            self.content = 1;
        }
        for index in 0..3 {
            self.lives(index);
        }
        for queue in &mut self.queues {
            queue.retain(|znode| znode.expires.is_none_or(|expires| expires > self.now));
        }
        for daemon in 0..3 {
            let led = (0..3).any(|member| self.leads(daemon, member));
            self.leaderless[daemon] = if led { 0 } else { self.leaderless[daemon] + 1 };
            self.outcome.leaderless = self.outcome.leaderless.max(self.leaderless[daemon]);
        }
        for index in 0..3 {
            self.is_noticed(index);
            if (self.now + index as i64) % POLL == 0 {
                self.report(index);
            }
        }
        self.operate();
    }

    /// What happens in a pod.
    fn lives(&mut self, index: usize) {
        if self.members[index].takes_at == Some(self.now) {
            self.members[index].takes_at = None;
            if let Some(wanted) = self.members[index].wanted.clone() {
                self.members[index].active = wanted;
            }
            self.ends_api(index, 3);
            for daemon in 0..3 {
                self.ends(index, daemon, 2, true);
            }
        }
        if self.drawn(10_000) < self.draw.crashes && self.serves(self.members[index].api) {
            self.ends_api(index, 2);
        }
        if matches!(self.members[index].api, Process::Away { until } if until <= self.now) {
            let serves = self.now + self.between(self.draw.start);
            self.members[index].api = Process::Runs { since: self.now, serves };
        }
        for daemon in 0..3 {
            if matches!(self.members[index].beside[daemon], Process::Away { until } if until <= self.now) {
                let serves = self.now + 1 + self.drawn(9) as i64;
                self.members[index].beside[daemon] = Process::Runs { since: self.now, serves };
                self.queues[daemon].push_back(Znode { member: index, since: self.now, expires: None });
            }
        }
        let is_serving = self.serves(self.members[index].api);
        let member = &mut self.members[index];
        member.stopped &= !is_serving || member.takes_at.is_some();
        member.away_since = if is_serving { None } else { member.away_since.or(Some(self.now)) };
    }

    /// An API ends, and others that use it may.
    fn ends_api(&mut self, index: usize, pause: i64) {
        self.members[index].api = Process::Away { until: self.now + pause };
        for member in 0..3 {
            for daemon in 0..3 {
                let runs = matches!(self.members[member].beside[daemon], Process::Runs { .. });
                if runs && self.drawn(100) < self.draw.ends {
                    let pause = 1 + self.drawn(20) as i64;
                    self.ends(member, daemon, pause, false);
                }
            }
        }
    }

    /// A daemon beside an API ends, by SIGTERM or by itself.
    fn ends(&mut self, index: usize, daemon: usize, pause: i64, by_signal: bool) {
        let Process::Runs { since, .. } = self.members[index].beside[daemon] else { return };
        let releases = self.leads(daemon, index) && by_signal && daemon != DEVICE_MANAGER;
        let expires = self.now + if releases { 0 } else { SESSION };
        let own = |znode: &&mut Znode| znode.member == index && znode.since == since && znode.expires.is_none();
        if let Some(znode) = self.queues[daemon].iter_mut().find(own) {
            znode.expires = Some(expires);
        }
        self.members[index].beside[daemon] = Process::Away { until: self.now + pause };
    }

    /// The kubelet notices, sooner or later.
    fn is_noticed(&mut self, index: usize) {
        let member = &self.members[index];
        let run = member.beside.iter().all(|process| matches!(process, Process::Runs { .. }));
        let is_ready = run && self.serves(member.api);
        let late = self.now + self.drawn(self.draw.lag as u64 + 1) as i64;
        let member = &mut self.members[index];
        if is_ready == member.ready {
            member.notices_at = None;
        } else if *member.notices_at.get_or_insert(late) <= self.now {
            member.ready = is_ready;
            member.notices_at = None;
        }
    }

    /// The operator asks an agent.
    fn report(&mut self, index: usize) {
        let member = &self.members[index];
        let state = |process: Process| {
            let (phase, since) = match process {
                Process::Runs { since, .. } => (Phase::Running, since),
                Process::Away { until } => (Phase::BackOff, until),
            };
            State { phase, since: at(since), active: Some(member.active.clone()), ..State::default() }
        };
        let serves = self.serves(member.api);
        let since = match member.api {
            Process::Runs { serves, .. } if self.draw.new_agents => Some(at(serves)),
            _ => None,
        };
        let api = State { serves_since: since.filter(|_| serves), ..state(member.api) };
        let mut daemons = BTreeMap::from([("api".to_owned(), api)]);
        for (daemon, name) in ELECTED.iter().enumerate() {
            let process = member.beside[daemon];
            let leads = self.leads(daemon, index);
            let answers = leads && self.serves(process);
            let connections = answers.then(|| ("Zookeeper:Zookeeper".to_owned(), true)).into_iter().collect();
            let is_standby = !leads && matches!(process, Process::Runs { .. });
            daemons.insert((*name).to_owned(), State { standby: is_standby, connections, ..state(process) });
        }
        let health = Health::new(serves, if serves { "status 200" } else { "status 503" });
        let report = Status { daemons, health: Some(health), ..three::status(SET, "api", index) };
        self.members[index].report = report;
    }

    fn planned(&self) -> Plan {
        let base = &self.observed[self.content];
        let mut observed = Observed { now: at(self.now), ..base.clone() };
        if let Source::Known(pods) = &mut observed.pods {
            for (pod, member) in pods.iter_mut().zip(&self.members) {
                pod.ready = member.ready;
                pod.active = member.wanted.as_ref().map(ToString::to_string);
            }
        }
        for (index, member) in self.members.iter().enumerate() {
            observed.agents.insert(format!("pod-{index}"), Agent::Says(Box::new(member.report.clone())));
        }
        let unwell = self.unwell_since.map(|since| {
            json!({"type": "WorkloadReady", "status": "False", "reason": "Progressing", "message": "", "lastTransitionTime": at(since).to_string()})
        });
        let conditions: Vec<Value> = unwell.into_iter().collect();
        let status =
            json!({"contract": "v1", "initialized": true, "members": three::recorded(), "conditions": conditions});
        match config_op::plan::plan(&with_status(&config(json!({})), status), &observed) {
            Ok(plan) => plan,
            Err(error) => panic!("{error:?}"),
        }
    }

    fn operate(&mut self) {
        let of = |member: &Member| (member.ready, member.wanted.clone(), member.report.clone());
        let seen = Seen { content: self.content, members: self.members.iter().map(of).collect() };
        if seen == self.seen && self.now < self.again {
            return;
        }
        self.seen = seen;
        let plan = self.planned();
        self.again = self.now + plan.again.map_or(60, |again| again.as_secs() as i64 + 1);
        let unwell = plan.under_way.is_some() || self.members.iter().any(|member| !member.ready);
        self.unwell_since = unwell.then(|| self.unwell_since.unwrap_or(self.now));
        let Some(Step::Activate(target, hash)) = plan.step else {
            assert_eq!(plan.step, None, "configurations change, and nothing else");
            return;
        };
        let Some(index) = (0..3).find(|index| target.uid == format!("pod-{index}")) else { panic!("{target:?}") };
        self.takes_turns(index);
        let takes_at = self.now + 1 + self.drawn(2) as i64;
        let member = &mut self.members[index];
        (member.wanted, member.takes_at, member.stopped) = (Some(hash), Some(takes_at), true);
        self.outcome.steps += 1;
    }

    /// The promise: no second member is away by the operator's hand.
    fn takes_turns(&self, target: usize) {
        for (index, other) in self.members.iter().enumerate().filter(|(index, _)| *index != target) {
            let said = || format!("{} s: member {target} is stopped while {index} is away: {other:#?}", self.now);
            let serves = self.serves(self.members[target].api);
            // One that is away by itself waits until another one that the operator stopped has begun, and for no longer where both lack a change.
            let is_stopped = other.stopped && (serves || matches!(other.api, Process::Away { .. }));
            assert!(!is_stopped, "{}", said());
            // One that ended by itself a moment ago is not known yet.
            let is_known = other.away_since.is_some_and(|since| self.now - since > POLL);
            assert!(!(is_known && serves), "{}", said());
        }
    }

    fn is_done(&self) -> bool {
        let active: BTreeSet<_> = self.members.iter().filter_map(|member| member.wanted.as_ref()).collect();
        let has = |member: &Member| member.wanted.as_ref() == Some(&member.active) && member.ready;
        let all_have = !active.is_empty() && self.members.iter().all(has);
        let is_new = self.seen.content == self.content;
        is_new && all_have && self.outcome.steps >= 3 && self.planned().under_way.is_none()
    }
}

fn at(second: i64) -> Timestamp {
    let began = Timestamp::constant(1_763_719_200, 0);
    Timestamp::from_second(began.as_second() + second).unwrap_or(began)
}
