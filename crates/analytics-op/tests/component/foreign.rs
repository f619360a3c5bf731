//! Services of an authority that the namespace's own knows nothing of.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use std::path::PathBuf;

use crate::support::{self, World, named};
use analytics_op::{Analytics, AnalyticsAlarm, AnalyticsSnmp, QueryEngine};
use serde_json::{Value, json};
use tf_agent_api::node;
use tf_config_files::read;
use tf_plan::component::Component;
use tf_sim::analytics::options::{Daemon, Options};
use tf_testing::situation::{Planned, external, foreign, has_foreign};

type Secret = std::collections::BTreeMap<String, String>;

/// What is planned for a kind with these dependencies, each of which has the same Secret.
fn planned<C: Component>(name: &str, dependencies: Value, listed: &[&str]) -> (Planned, Secret) {
    let secret = foreign();
    let containers: Vec<Value> = listed.iter().map(|name| json!({"name": name})).collect();
    let cr =
        named::<C::Cr>(name, json!({"dependencies": dependencies, "serviceConfiguration": {"containers": containers}}));
    let mut observed = world().observed::<C::Cr>();
    observed.secrets.insert("outer".into(), secret.clone().into_iter().collect());
    for generated in C::credentials(&cr) {
        observed.secrets.entry(generated.secret).or_default().insert(generated.key, "Login-Pass-0123456789");
    }
    (Planned(C::plan(&cr, &observed).unwrap()), secret)
}

fn world() -> World {
    let nodes = vec!["10.0.0.1".to_owned()];
    World {
        cassandra: nodes.clone(),
        database: nodes.clone(),
        zookeeper: nodes.clone(),
        rabbitmq: nodes.clone(),
        redis: nodes.clone(),
        config: nodes.clone(),
        collectors: nodes.clone(),
        kafka: nodes.clone(),
        nodes,
        ready: true,
        rabbitmq_password: "Rabbit-Pass-0123456789".into(),
        redis_password: "Redis-Pass-0123456789".into(),
        login_password: "Login-Pass-0123456789".into(),
    }
}

fn options(planned: &Planned, container: &str, daemon: Daemon) -> Options {
    support::options(&planned.files(), container, daemon, "10.0.0.1").unwrap()
}

/// That a daemon checks collectors against their authority, shows them what is theirs, and shows itself to others as before.
fn reports_elsewhere(options: Options) {
    let (shown, authorities) = options.collector_tls.unwrap();
    let path = |file: &str| PathBuf::from(format!("/etc/contrail/analytics-{file}"));
    assert_eq!((shown.certificate, shown.key, authorities), (path("client.crt"), path("client.key"), path("ca.crt")));
    assert_eq!(options.introspect.1.unwrap().key, PathBuf::from(node::CERTIFICATE_KEY));
}

fn library(planned: &Planned) -> String {
    read::python(&planned.file("vnc_api_lib.ini")).unwrap()["global"]["cafile"].clone()
}

#[test]
fn collectors_and_the_api_check_the_config_api_against_its_authority() {
    let config = json!({"config": external(&[("api", 8082)])});
    let (planned, secret) = planned::<Analytics>("analytics1", config, &["analyticsapi", "collector", "nodemanager"]);
    assert_eq!(library(&planned), "/etc/contrail/config-ca.crt");
    has_foreign(&planned, "config", false, &secret, &["analyticsapi.launch", "collector.launch.10.0.0.1"]);
    assert_eq!(planned.0.registration.as_ref().unwrap().api.ca.as_ref(), Some(&secret["ca.crt"]));
    for (container, daemon) in [("collector", Daemon::Collector), ("analyticsapi", Daemon::Api)] {
        let (_, authorities) = options(&planned, container, daemon).collector_tls.unwrap();
        assert_eq!(authorities, PathBuf::from(node::CA_BUNDLE), "{container}: collectors are of this cluster");
    }
}

#[test]
fn a_kafka_of_another_authority_is_shown_what_is_its() {
    let kafka = json!({"analyticsAlarm": external(&[("kafka", 9093)])});
    let (planned, secret) = planned::<Analytics>("analytics1", kafka, &["analyticsapi", "collector"]);
    let (_, tls) = options(&planned, "collector", Daemon::Collector).kafka.unwrap();
    let (shown, authorities) = tls.unwrap();
    assert_eq!(shown.key, PathBuf::from("/etc/contrail/kafka-client.key"));
    assert_eq!(authorities, PathBuf::from("/etc/contrail/kafka-ca.crt"));
    has_foreign(&planned, "kafka", true, &secret, &["collector.launch.10.0.0.1"]);
}

#[test]
fn who_reports_to_collectors_of_another_authority_shows_them_what_is_theirs() {
    let both =
        || json!({"config": external(&[("api", 8082)]), "analytics": external(&[("collector", 8086), ("api", 8081)])});
    let listed = ["analytics-alarm-gen", "kafka", "nodemanager"];
    let (alarm, secret) = planned::<AnalyticsAlarm>("analyticsalarm1", both(), &listed);
    reports_elsewhere(options(&alarm, "analytics-alarm-gen", Daemon::AlarmGenerator));
    assert_eq!(library(&alarm), "/etc/contrail/config-ca.crt");
    has_foreign(&alarm, "analytics", true, &secret, &["analytics-alarm-gen.launch.10.0.0.1", "nodemanager.launch"]);
    let listed = ["analytics-snmp-collector", "analytics-snmp-topology", "nodemanager"];
    let (snmp, secret) = planned::<AnalyticsSnmp>("analyticssnmp1", both(), &listed);
    reports_elsewhere(options(&snmp, "analytics-snmp-collector", Daemon::SnmpCollector));
    reports_elsewhere(options(&snmp, "analytics-snmp-topology", Daemon::Topology));
    let launches = ["analytics-snmp-collector.launch", "analytics-snmp-topology.launch", "nodemanager.launch"];
    has_foreign(&snmp, "analytics", true, &secret, &launches);
    has_foreign(&snmp, "config", false, &secret, &launches[..2]);
    let analytics = json!({"analytics": external(&[("collector", 8086)])});
    let (engine, secret) = planned::<QueryEngine>("queryengine1", analytics, &["queryengine"]);
    reports_elsewhere(options(&engine, "queryengine", Daemon::QueryEngine));
    has_foreign(&engine, "analytics", true, &secret, &["queryengine.launch"]);
}
