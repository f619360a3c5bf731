//! Which member of a kind takes a change now, what that waits for, which of its daemons are started anew, and what is told of members that
//! do not serve.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a situation that cannot be planned is a failing test")]

use std::collections::BTreeSet;

use crate::support::{situation, started_anew, with_settings, with_status};
use analytics_op::{Analytics, AnalyticsAlarm, AnalyticsSnmp, QueryEngine};
use serde_json::{Value, json};
use tf_agent_api::state::{Certificate, Health, Phase, State};
use tf_api::contract::Reason;
use tf_plan::{
    component::Component,
    observed::{Agent, Observed, Source, Unavailable},
    plan::Plan,
    step::Step,
};
use tf_testing::{invariants::unseen, three};

/// Three members of a kind that run.
struct Members<C: Component> {
    cr: C::Cr,
    observed: Observed<C::Cr>,
    set: &'static str,
    /// The container that speaks for a pod.
    daemon: &'static str,
}

impl<C: Component> Members<C> {
    /// Each of them with an old configuration.
    fn running(name: &str, set: &'static str, daemon: &'static str) -> Self {
        let (cr, observed) = situation::<C>(name);
        let status = json!({"contract": "v1", "initialized": true, "members": three::recorded()});
        let says = |index| Agent::Says(Box::new(three::status(set, daemon, index)));
        Self { cr: with_status(&cr, status), observed: three::of(observed, set, says), set, daemon }
    }

    fn plan(&self) -> Plan {
        C::plan(&self.cr, &self.observed).unwrap()
    }

    fn status(&mut self, uid: &str) -> &mut tf_agent_api::state::Status {
        let Some(Agent::Says(status)) = self.observed.agents.get_mut(uid) else { panic!("no agent of {uid}") };
        status
    }

    fn ready(&mut self, index: usize, ready: bool) {
        if let Source::Known(pods) = &mut self.observed.pods {
            pods[index].ready = ready;
        }
    }

    /// Does what a plan asks for; whose configuration it was.
    fn activate(&mut self) -> Option<String> {
        let Some(Step::Activate(target, hash)) = self.plan().step else { return None };
        let daemon = self.daemon;
        self.status(&target.uid).daemons.get_mut(daemon)?.active = Some(hash);
        Some(target.uid)
    }

    fn one_after_the_other_and_each_waits_for_the_others(mut self) {
        let what = self.set;
        self.ready(0, false);
        assert_eq!(self.activate().as_deref(), Some("pod-0"), "{what}: who does not serve takes it first");
        let plan = self.plan();
        assert_eq!(plan.step, None, "{what}");
        let held = plan.under_way.unwrap_or_default();
        assert!(held.contains("the member on node cp1 does not serve"), "{what}: {held}");
        self.ready(0, true);
        let order: Vec<String> = std::iter::from_fn(|| self.activate()).collect();
        assert_eq!(order, ["pod-2", "pod-1"], "{what}");
        assert_eq!(self.plan().under_way, None, "{what}");
    }

    fn the_next_one_waits_for_each_daemon_of_the_one_before(mut self, beside: &str) {
        let former = State { active: "f".repeat(32).parse().ok(), phase: Phase::Running, ..State::default() };
        self.status("pod-2").daemons.insert(beside.to_owned(), former);
        assert_eq!(self.activate().as_deref(), Some("pod-2"));
        let daemon = self.daemon;
        let hash = self.status("pod-2").daemons[daemon].active.clone();
        if let Source::Known(pods) = &mut self.observed.pods {
            pods[2].active = hash.as_ref().map(ToString::to_string);
        }
        let plan = self.plan();
        assert_eq!(plan.step, None, "{beside}");
        let held = plan.under_way.unwrap_or_default();
        assert!(held.contains("has not changed over yet"), "{held}");
        // It has the configuration before it runs with it.
        for phase in [Phase::Starting, Phase::Stopping] {
            let state = State { active: hash.clone(), phase, ..State::default() };
            self.status("pod-2").daemons.insert(beside.to_owned(), state);
            let plan = self.plan();
            assert_eq!(plan.step, None, "{beside}");
            let held = plan.under_way.unwrap_or_default();
            assert!(held.contains(&format!("its {beside} does not run")), "{held}");
        }
        self.status("pod-2").daemons.get_mut(beside).unwrap().phase = Phase::Running;
        assert_eq!(self.activate().as_deref(), Some("pod-1"));
    }

    fn anew_for_a_certificate_while_the_others_serve(mut self) {
        let what = self.set;
        while self.activate().is_some() {}
        let not_after = "2027-01-01T00:00:00Z".parse().unwrap_or_default();
        let unused = "c".repeat(32).parse().ok();
        let former = Certificate { not_before: None, not_after, issuer: None, revision: 1, unread: None, unused };
        for uid in ["pod-0", "pod-1"] {
            self.status(uid).certificate = Some(former.clone());
        }
        let Some(Step::Renew(target, _)) = self.plan().step else { panic!("{what}: nobody is started anew") };
        assert_eq!((target.uid.as_str(), target.why.as_str()), ("pod-1", "they go by a former certificate"), "{what}");
        self.ready(2, false);
        assert_eq!(self.plan().step, None, "{what}: another one does not serve");
    }

    fn what_is_lacked_is_told(mut self, lacks: &str) {
        self.status("pod-1").health = Some(Health::new(false, lacks));
        let pod = format!("{}-1", self.set);
        assert_eq!(self.plan().troubles[&pod], lacks);
    }

    /// What is told of a pod whose agent says that it serves and that the kubelet holds for not ready, or ready.
    fn beside(mut self, ready: bool) -> Option<String> {
        self.ready(1, ready);
        self.plan().troubles.get(&format!("{}-1", self.set)).cloned()
    }
}

fn analytics() -> Members<Analytics> {
    let name = "analytics/three-nodes-with-a-database-and-alarms";
    Members::running(name, "analytics1-analytics-statefulset", "analyticsapi")
}

fn engine() -> Members<QueryEngine> {
    Members::running("queryengine/three-nodes", "queryengine1-queryengine-statefulset", "queryengine")
}

fn snmp() -> Members<AnalyticsSnmp> {
    let set = "analyticssnmp1-analyticssnmp-statefulset";
    Members::running("analyticssnmp/three-nodes", set, "analytics-snmp-collector")
}

fn alarm() -> Members<AnalyticsAlarm> {
    let set = "analyticsalarm1-analyticsalarm-statefulset";
    Members::running("analyticsalarm/three-nodes", set, "analytics-alarm-gen")
}

#[test]
fn members_take_a_change_one_after_the_other_and_each_waits_until_the_others_serve() {
    analytics().one_after_the_other_and_each_waits_for_the_others();
    engine().one_after_the_other_and_each_waits_for_the_others();
    snmp().one_after_the_other_and_each_waits_for_the_others();
    alarm().one_after_the_other_and_each_waits_for_the_others();
}

#[test]
fn the_next_member_waits_until_each_daemon_of_the_one_before_has_the_change() {
    analytics().the_next_one_waits_for_each_daemon_of_the_one_before("collector");
    snmp().the_next_one_waits_for_each_daemon_of_the_one_before("analytics-snmp-topology");
    alarm().the_next_one_waits_for_each_daemon_of_the_one_before("kafka");
}

#[test]
fn members_that_go_by_a_former_certificate_are_made_anew_while_the_others_serve() {
    analytics().anew_for_a_certificate_while_the_others_serve();
    engine().anew_for_a_certificate_while_the_others_serve();
    snmp().anew_for_a_certificate_while_the_others_serve();
    alarm().anew_for_a_certificate_while_the_others_serve();
}

#[test]
fn what_keeps_a_daemon_from_being_functional_is_told_with_its_member() {
    let lacks = "NodeStatus: Non-Functional (Redis:AGGREGATE connection down)";
    analytics().what_is_lacked_is_told(lacks);
    engine().what_is_lacked_is_told(lacks);
    snmp().what_is_lacked_is_told(lacks);
    alarm().what_is_lacked_is_told(lacks);
}

#[test]
fn a_daemon_that_does_not_serve_beside_one_that_does_is_told() {
    for told in [analytics().beside(false), snmp().beside(false), alarm().beside(false)] {
        assert!(told.as_ref().is_some_and(|told| told.contains("one of its daemons is not ready")), "{told:?}");
    }
    assert_eq!([analytics().beside(true), snmp().beside(true), alarm().beside(true)], [None, None, None]);
}

/// The containers of a member whose daemons are started anew when these settings change.
fn anew<C: Component>(name: &str, settings: Value) -> Vec<String> {
    let (cr, observed) = situation::<C>(name);
    let plan = |cr: &C::Cr| C::plan(cr, &observed).unwrap();
    let (before, after) = (plan(&cr), plan(&with_settings(&cr, settings)));
    assert_ne!(before, after);
    started_anew(&before, &after, "10.0.0.2")
}

#[test]
fn a_setting_starts_those_daemons_anew_that_read_it_and_no_others() {
    let one = "analytics/three-nodes-with-a-database-and-alarms";
    assert_eq!(anew::<Analytics>(one, json!({"aaaMode": "cloud-admin"})), ["analyticsapi"]);
    assert_eq!(anew::<Analytics>(one, json!({"analyticsIntrospectPort": 8190})), ["analyticsapi"]);
    assert_eq!(anew::<Analytics>(one, json!({"collectorIntrospectPort": 8189})), ["collector"]);
    assert_eq!(anew::<Analytics>(one, json!({"analyticsFlowTTL": 3})), ["analyticsapi", "collector"]);
    // The API lists collectors.
    assert_eq!(anew::<Analytics>(one, json!({"collectorPort": 9086})), ["analyticsapi", "collector"]);

    let snmp = |settings| anew::<AnalyticsSnmp>("analyticssnmp/three-nodes", settings);
    assert_eq!(snmp(json!({"snmpCollectorScanFrequency": 900})), ["analytics-snmp-collector"]);
    assert_eq!(snmp(json!({"topologyScanFrequency": 900})), ["analytics-snmp-topology"]);
    assert_eq!(snmp(json!({"logLocal": "0"})), ["analytics-snmp-collector", "analytics-snmp-topology"]);

    // Kafka keeps the state that alarms are made of.
    let alarm = |settings| anew::<AnalyticsAlarm>("analyticsalarm/three-nodes", settings);
    for settings in [
        json!({"alarmgenRedisAggregateDbOffset": 3}),
        json!({"alarmgenIntrospectListenPort": 5996}),
        json!({"alarmgenLogFileName": "other.log"}),
    ] {
        assert_eq!(alarm(settings), ["analytics-alarm-gen"]);
    }
    let engine = anew::<QueryEngine>("queryengine/three-nodes", json!({"analyticsdbIntrospectPort": 8191}));
    assert_eq!(engine, ["queryengine"]);
}

/// The containers whose daemons are started anew when services come or go.
fn moved<C: Component>(name: &str, changes: impl Fn(&mut Observed<C::Cr>)) -> BTreeSet<String> {
    let (cr, mut observed) = situation::<C>(name);
    let status = json!({"contract": "v1", "initialized": true, "members": three::recorded()});
    let cr = with_status(&cr, status);
    let plan =
        |observed: &Observed<C::Cr>| C::plan(&cr, observed).unwrap_or_else(|not_ready| panic!("{}", not_ready.message));
    let before = plan(&observed);
    changes(&mut observed);
    started_anew(&before, &plan(&observed), "10.0.0.2").into_iter().collect()
}

fn gone<Cr>(observed: &mut Observed<Cr>, kind: &str) {
    assert!(observed.peers.contains_key(kind), "{kind}");
    observed.peers.insert(kind.to_owned(), Source::Known(Vec::new()));
}

fn containers<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn what_flaps_starts_nobody_anew_and_what_was_never_told_of_does_when_it_comes() {
    // A service that is not there for a moment is known by what was published last.
    for kind in ["Redis", "Config", "Rabbitmq", "Zookeeper"] {
        let unready = |observed: &mut Observed<tf_api::Analytics>| {
            let Some(Source::Known(peers)) = observed.peers.get_mut(kind) else { panic!("no {kind}") };
            let conditions = peers[0].status.conditions.iter_mut();
            conditions.filter(|it| it.type_ == "Ready").for_each(|ready| ready.status = "False".into());
        };
        let anew = moved::<Analytics>("analytics/three-nodes-with-a-database-and-alarms", unready);
        assert_eq!(anew, containers([]), "{kind}");
    }
    let alone = "analytics/three-nodes-that-keep-the-current-state-alone";
    let (_, with) = situation::<Analytics>("analytics/three-nodes-with-a-database-and-alarms");
    let comes = |kind: &'static str| {
        let peers = with.peers[kind].clone();
        moved::<Analytics>(alone, move |observed| drop(observed.peers.insert(kind.into(), peers.clone())))
    };
    // The API shows links to alarms and asks queries of its own node.
    assert_eq!(comes("AnalyticsAlarm"), containers(["analyticsapi", "collector"]));
    assert_eq!(comes("Cassandra"), containers(["analyticsapi", "collector"]));
    // Nobody connects to the query engine.
    let engine = moved::<Analytics>("analytics/three-nodes-with-a-database-and-alarms", |it| gone(it, "QueryEngine"));
    assert_eq!(engine, containers([]));
}

/// A database that is lost from sight must not be taken out of the config API, nor any collector lose it.
#[test]
fn a_service_that_cannot_be_seen_is_taken_from_nobody() {
    for name in ["three-nodes-with-a-database-and-alarms", "three-nodes-that-keep-the-current-state-alone"] {
        let (cr, observed) = situation::<Analytics>(&format!("analytics/{name}"));
        let cr = with_status(&cr, json!({"contract": "v1", "initialized": true, "members": three::recorded()}));
        let plan = Analytics::plan(&cr, &observed).unwrap();
        unseen::check::<Analytics>(name, &cr, &observed, &plan);
        // With a QueryEngine the only Cassandra is the database.
        for kind in ["Cassandra", "QueryEngine", "AnalyticsAlarm"] {
            let mut observed = observed.clone();
            let why = Unavailable { reason: Reason::ApiError, message: "nobody could look".into() };
            observed.peers.insert(kind.into(), Source::Unavailable(why));
            let is_moot = kind == "QueryEngine" && name.contains("database");
            assert_eq!(Analytics::plan(&cr, &observed).is_ok(), is_moot, "{name}, {kind}");
        }
    }
}
