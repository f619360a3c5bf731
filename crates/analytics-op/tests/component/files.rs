//! Files as the daemons read them, in recorded situations. `tf-sim` reads them, which knows the daemons and none of our crates.

#![expect(clippy::panic, reason = "a situation that cannot be made is a failing test")]

use crate::support::{self, files, plan};
use analytics_op::{Analytics, AnalyticsAlarm, AnalyticsSnmp, QueryEngine};
use serde_json::{Value, json};
use tf_agent_api::launch::Probe;
use tf_plan::component::Component;
use tf_sim::analytics::options::{Daemon, Options};

/// What the daemon of the first member goes by.
fn options<C: Component>(situation: &str, container: &str, daemon: Daemon) -> Options {
    let options = support::options(&files(&plan::<C>(situation)), container, daemon, "10.0.0.1");
    options.unwrap_or_else(|why| panic!("{situation}: {why}"))
}

fn collector(situation: &str) -> Options {
    options::<Analytics>(&format!("analytics/{situation}"), "collector", Daemon::Collector)
}

fn api(situation: &str) -> Options {
    options::<Analytics>(&format!("analytics/{situation}"), "analyticsapi", Daemon::Api)
}

#[test]
fn what_is_not_there_is_named_to_nobody() {
    let alone = collector("three-nodes-that-keep-the-current-state-alone");
    assert!(alone.database.is_none() && alone.kafka.is_none());
    assert_eq!(api("three-nodes-that-keep-the-current-state-alone").queries, None);
    let all = collector("three-nodes-with-a-database-and-alarms");
    assert_eq!(all.database.unwrap().port, 9042);
    let (brokers, tls) = all.kafka.unwrap();
    assert_eq!((brokers.len(), tls.is_some()), (3, true));
    assert_eq!(api("three-nodes-with-a-database-and-alarms").queries, Some(6389));
}

#[test]
fn with_a_query_engine_the_only_cassandra_is_the_database() {
    let collector = collector("query-engine-beside-one-cassandra");
    assert_eq!(collector.database.unwrap().port, collector.cassandra.unwrap().port);
}

#[test]
fn a_mode_for_which_nobody_gives_tokens_is_told_and_stays() {
    let (cr, observed) = support::situation::<Analytics>("analytics/three-nodes-with-a-database-and-alarms");
    for (mode, is_told) in [("cloud-admin", true), ("rbac", true), ("no-auth", false), ("noauth", false)] {
        let cr = support::with_settings(&cr, json!({"aaaMode": mode}));
        let plan = Analytics::plan(&cr, &observed).unwrap();
        let told = plan.notes.iter().any(|note| note.contains(&format!("with aaaMode {mode}")));
        assert_eq!(told, is_told, "{mode}: {:?}", plan.notes);
        let file = support::file(&files(&plan), "contrail-analytics-api.conf", "10.0.0.1").unwrap();
        let rendered = if is_told { mode } else { "no-auth" };
        assert!(file.contains(&format!("aaa_mode = {rendered}\n")), "{mode}: {file}");
    }
}

#[test]
fn the_collector_finds_redis_on_the_loopback_address_without_tls() {
    let redis = collector("three-nodes-with-a-database-and-alarms").redis.unwrap();
    assert_eq!((redis.servers.as_slice(), redis.tls), (["127.0.0.1:6389".to_owned()].as_slice(), None));
    assert_eq!(redis.password.as_deref(), Some("Redis-Pass-0123456789"));
    let redis = api("three-nodes-with-a-database-and-alarms").redis.unwrap();
    assert_eq!((redis.servers.len(), redis.tls.is_some()), (3, true));
}

#[test]
fn the_relay_of_a_collector_leads_to_the_redis_of_its_node_or_else_to_another() {
    let relay = |situation: &str, address: &str| -> Value {
        let files = files(&plan::<Analytics>(&format!("analytics/{situation}")));
        let launch: Value = serde_json::from_str(&files[&format!("collector.launch.{address}")]).unwrap();
        launch["relay"].clone()
    };
    assert_eq!(relay("three-nodes-with-a-database-and-alarms", "10.0.0.2")["host"], "10.0.0.2");
    assert_eq!(relay("redis-on-one-node-of-three", "10.0.0.2")["host"], "10.0.0.1");
    let notes = plan::<Analytics>("analytics/redis-on-one-node-of-three").notes;
    assert!(notes.iter().any(|note| note.contains("10.0.0.2, 10.0.0.3")), "{notes:?}");
}

#[test]
fn ports_and_settings_of_the_spec_arrive() {
    let situation = "node-manager-and-keystone-and-other-ports";
    let (collector, api) = (collector(situation), api(situation));
    assert_eq!((collector.introspect.0.1, collector.listen.unwrap().0.1), (9089, 9086));
    let (listen, tls) = api.listen.unwrap();
    assert_eq!((api.introspect.0.1, listen.1, tls.is_some()), (9090, 9081, true));
    assert_eq!(api.collectors, ["10.0.0.1:9086"]);
}

#[test]
fn all_who_share_out_the_state_agree_on_the_partitions() {
    let alarm = options::<AnalyticsAlarm>(
        "analyticsalarm/keystone-node-manager-and-every-setting",
        "analytics-alarm-gen",
        Daemon::AlarmGenerator,
    );
    let others = [collector("three-nodes-with-a-database-and-alarms"), api("three-nodes-with-a-database-and-alarms")];
    assert!(others.iter().all(|other| other.partitions == alarm.partitions && other.partitions == Some(30)));
}

#[test]
fn services_that_no_operator_runs_are_named_with_their_authorities() {
    let collector = collector("services-that-no-operator-runs");
    let database = collector.database.unwrap();
    assert_eq!(database.login, Some(("cass0001".into(), "Cass-Pass-0123456789".into())));
    assert_eq!(database.authorities.unwrap(), std::path::PathBuf::from("/etc/contrail/analytics-cassandra-ca.crt"));
    let (brokers, tls) = collector.kafka.unwrap();
    assert_eq!(brokers, ["192.0.2.4:9093"], "no IPv6 address");
    assert_eq!(tls.unwrap().1, std::path::PathBuf::from("/etc/contrail/kafka-ca.crt"));
}

#[test]
fn the_query_engine_takes_its_file() {
    let engine = options::<QueryEngine>("queryengine/three-nodes", "queryengine", Daemon::QueryEngine);
    assert_eq!((engine.database.unwrap().port, engine.collectors.len()), (9042, 3));
    let redis = engine.redis.unwrap();
    assert!(redis.servers.len() == 3 && redis.tls.unwrap().1.is_some());
    let moved = options::<QueryEngine>("queryengine/one-cassandra-and-a-login", "queryengine", Daemon::QueryEngine);
    assert_eq!((moved.introspect.0.1, moved.database.unwrap().port), (9091, 9042), "not that of Thrift");
}

#[test]
fn daemons_of_snmp_and_alarms_take_their_files() {
    let every = "analyticssnmp/keystone-node-manager-and-every-setting";
    let snmp = options::<AnalyticsSnmp>(every, "analytics-snmp-collector", Daemon::SnmpCollector);
    let topology = options::<AnalyticsSnmp>(every, "analytics-snmp-topology", Daemon::Topology);
    assert_eq!((snmp.introspect.0.1, topology.introspect.0.1), (6920, 6921));
    for daemon in [&snmp, &topology] {
        assert_eq!(daemon.rabbitmq.as_ref().unwrap().servers.len(), 3);
        assert!(daemon.rabbitmq.as_ref().unwrap().tls.as_ref().unwrap().pair.is_some());
        assert_eq!(daemon.zookeeper.clone().flatten().unwrap(), "10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181");
    }
    let three = "analyticsalarm/three-nodes";
    let alarm = options::<AnalyticsAlarm>(three, "analytics-alarm-gen", Daemon::AlarmGenerator);
    assert!(alarm.zookeeper.clone().flatten().is_some() && alarm.rabbitmq.unwrap().tls.unwrap().pair.is_some());
    assert_eq!(alarm.kafka.unwrap().0, ["10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092"]);
}

#[test]
fn who_reads_the_configuration_serves_without_rabbitmq_and_says_so_after_a_while() {
    let snmp = files(&plan::<AnalyticsSnmp>("analyticssnmp/three-nodes"));
    let alarm = files(&plan::<AnalyticsAlarm>("analyticsalarm/three-nodes"));
    let collector = files(&plan::<Analytics>("analytics/three-nodes-with-a-database-and-alarms"));
    for (files, container, is_reader) in [
        (&snmp, "analytics-snmp-collector", true),
        (&snmp, "analytics-snmp-topology", true),
        (&alarm, "analytics-alarm-gen", true),
        (&collector, "collector", false),
    ] {
        let launch = support::launch(files, container, "10.0.0.1");
        let Probe::NodeStatus { optional, functional: true, .. } = &launch.ready else { panic!("{:?}", launch.ready) };
        let lost_after = launch.connections.and_then(|connections| connections.patience);
        let expected = if is_reader { (["Database:RabbitMQ".to_owned()].into(), Some(300)) } else { ([].into(), None) };
        assert_eq!((optional.clone(), lost_after), expected, "{container}");
    }
}

#[test]
fn each_alarm_generator_has_a_database_of_its_own_and_brokers_have_numbers() {
    let files = files(&plan::<AnalyticsAlarm>("analyticsalarm/three-nodes"));
    for member in 1..=3 {
        let launch: Value =
            serde_json::from_str(&files[&format!("analytics-alarm-gen.launch.10.0.0.{member}")]).unwrap();
        assert_eq!(launch["environment"]["ALARMGEN_REDIS_AGGREGATE_DB_OFFSET"], member.to_string());
        let broker = &files[&format!("server.properties.10.0.0.{member}")];
        let lines: Vec<&str> = broker.lines().collect();
        for line in [
            format!("broker.id={member}").as_str(),
            "default.replication.factor=3",
            "min.insync.replicas=1",
            "ssl.client.auth=required",
        ] {
            assert!(lines.contains(&line), "{line}: {broker}");
        }
    }
    let notes = plan::<AnalyticsAlarm>("analyticsalarm/twelve-control-nodes").notes;
    assert!(notes.iter().any(|note| note.contains("7 to 18")), "{notes:?}");
}
