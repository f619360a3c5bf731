//! What holds whatever the situation.

use crate::support::{World, files, named, options, with_status};
use analytics_op::{Analytics, AnalyticsAlarm, AnalyticsSnmp, QueryEngine};
use proptest::{prelude::*, test_runner::TestCaseResult};
use serde_json::{Value, json};
use tf_plan::component::Component;
use tf_sim::analytics::options::{Daemon, Options};
use tf_testing::{invariants, strategies::addresses};

fn perhaps() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![Just(Vec::new()), addresses(24)]
}

/// Text that careless writers break.
fn password() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[A-Za-z0-9._-]{12,40}", 1 => "[ -~]{12,40}", 1 => "[#%;=&+<>\"'\\\\é😀\n\t(){}\\[\\]a-c]{12,24}"]
}

fn port(usual: u16) -> impl Strategy<Value = u16> {
    prop_oneof![3 => Just(usual), 1 => 1_u16..]
}

prop_compose! {
    fn world()(
        nodes in addresses(24),
        cassandra in addresses(24),
        database in perhaps(),
        zookeeper in addresses(24),
        rabbitmq in addresses(24),
        redis in addresses(24),
        config in addresses(24),
        collectors in addresses(24),
        kafka in perhaps(),
        ready in prop_oneof![3 => Just(true), 1 => Just(false)],
        passwords in (password(), password(), password()),
    ) -> World {
        let (rabbitmq_password, redis_password, login_password) = passwords;
        World {
            nodes, cassandra, database, zookeeper, rabbitmq, redis, config, collectors, kafka, ready, rabbitmq_password, redis_password,
            login_password,
        }
    }
}

/// A list of some of these containers, mostly none.
fn listed(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let some = prop::sample::subsequence(names, 0..=names.len());
    let some = prop_oneof![2 => Just(Vec::new()), 1 => some];
    some.prop_map(|some| some.into_iter().map(|name| json!({"name": name})).collect())
}

fn without_nulls(mut settings: Value) -> Value {
    if let Some(settings) = settings.as_object_mut() {
        settings.retain(|_, value| !value.is_null());
    }
    settings
}

/// What a daemon of a container is to go by.
type Daemons<'a> = &'a [(&'a str, Daemon)];

/// Plans a resource before or after its first bring-up. `judge` looks at what each daemon of each member goes by.
fn planned<C: Component>(
    world: &World,
    name: &str,
    settings: &Value,
    is_initialized: bool,
    daemons: Daemons<'_>,
    judge: impl Fn(&Options, &World) -> TestCaseResult,
) -> TestCaseResult {
    let mut cr: C::Cr = named(name, json!({"serviceConfiguration": without_nulls(settings.clone())}));
    if is_initialized {
        cr = with_status(&cr, json!({"initialized": true, "observedGeneration": 1}));
    }
    let mut observed = world.observed();
    for generated in C::credentials(&cr) {
        observed.secrets.entry(generated.secret).or_default().insert(generated.key, &world.login_password);
    }
    let secrets = [&world.rabbitmq_password, &world.redis_password, &world.login_password].map(String::as_str);
    let Some(plan) = invariants::sound(|| C::plan(&cr, &observed), &secrets) else { return Ok(()) };
    prop_assert!(is_initialized || world.ready, "a bring-up with services that are not ready");
    let files = files(&plan);
    for member in &plan.members {
        for (container, daemon) in daemons {
            let options = options(&files, container, *daemon, &member.address);
            let options = options.map_err(|why| TestCaseError::fail(format!("{container}: {why}")))?;
            prop_assert_eq!(options.address.to_string(), member.address.as_str());
            if let Some(rabbitmq) = &options.rabbitmq {
                prop_assert_eq!(&rabbitmq.password, &world.rabbitmq_password);
            }
            if let Some(redis) = &options.redis {
                prop_assert_eq!(redis.password.as_ref(), Some(&world.redis_password));
            }
            if let Some(administration) = &options.administration {
                prop_assert_eq!(&administration.servers, &["127.0.0.1:8181"]);
                prop_assert_eq!(&administration.user, "admin");
                prop_assert_eq!(&administration.password, &world.login_password);
            }
            judge(&options, world)?;
        }
    }
    Ok(())
}

fn of_version_4(addresses: &[String]) -> usize {
    addresses.iter().filter(|address| !address.contains(':')).count()
}

const NAME: &str = "[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn plans_of_analytics_are_complete_or_say_why_not(
        world in world(),
        name in NAME,
        (analytics, collector, introspect) in (port(8081), port(8086), port(8090)),
        flows in prop::option::of(any::<i32>()),
        containers in listed(&["analyticsapi", "collector", "nodemanager", "provisioner", "other"]),
        is_initialized in any::<bool>(),
    ) {
        let settings = json!({
            "analyticsPort": analytics, "collectorPort": collector, "analyticsIntrospectPort": introspect, "analyticsFlowTTL": flows,
            "containers": containers,
        });
        let daemons = [("collector", Daemon::Collector), ("analyticsapi", Daemon::Api)];
        planned::<Analytics>(&world, &name, &settings, is_initialized, &daemons, |options, world| {
            // Nobody is told of what is not there, nor of what could not be reached.
            let (has_database, has_kafka) = (of_version_4(&world.database) > 0, of_version_4(&world.kafka) > 0);
            if options.daemon == Daemon::Collector {
                prop_assert_eq!(options.database.as_ref().map(|it| it.listed), has_database.then_some(world.database.len()));
                prop_assert_eq!(options.kafka.as_ref().map(|it| it.0.len()), has_kafka.then_some(world.kafka.len()));
                prop_assert_eq!(&options.redis.as_ref().unwrap().servers, &vec!["127.0.0.1:6389".to_owned()]);
                prop_assert_eq!(options.listen.as_ref().unwrap().0.1, collector);
            } else {
                prop_assert_eq!(options.queries.is_some(), has_database);
                prop_assert_eq!(options.listen.as_ref().unwrap().0.1, analytics);
            }
            prop_assert_eq!(options.partitions, Some(30));
            Ok(())
        })?;
    }

    #[test]
    fn plans_of_query_engines_are_complete_or_say_why_not(
        world in world(),
        name in NAME,
        (introspect, database) in (port(8091), prop::option::of(port(9160))),
        containers in listed(&["queryengine", "nodemanager", "other"]),
        is_initialized in any::<bool>(),
    ) {
        let settings =
            json!({"analyticsdbIntrospectPort": introspect, "analyticsdbPort": database, "containers": containers});
        let daemons = [("queryengine", Daemon::QueryEngine)];
        planned::<QueryEngine>(&world, &name, &settings, is_initialized, &daemons, |options, world| {
            let stored = options.database.as_ref().unwrap();
            // Without `analyticsdb1` the only Cassandra is asked.
            let (servers, usual) = if world.database.is_empty() { (&world.cassandra, 9041) } else { (&world.database, 9042) };
            prop_assert_eq!(&stored.hosts, servers);
            prop_assert_eq!(stored.port, database.filter(|port| *port != 9160).unwrap_or(usual));
            prop_assert_eq!(options.introspect.0.1, introspect);
            prop_assert_eq!(options.collectors.len(), world.collectors.len());
            Ok(())
        })?;
    }

    #[test]
    fn plans_of_snmp_are_complete_or_say_why_not(
        world in world(),
        name in NAME,
        (snmp, topology) in (port(5920), port(5921)),
        log_path in prop::option::of("(/var/log|/tmp|var)?(/[a-z.]{1,9}){0,3}/?"),
        scan in prop::option::of(0_u32..100_000),
        containers in listed(&["analytics-snmp-collector", "analytics-snmp-topology", "nodemanager", "other"]),
        is_initialized in any::<bool>(),
    ) {
        let settings = json!({
            "snmpCollectorIntrospectListenPort": snmp, "topologyIntrospectListenPort": topology, "logFilePath": log_path,
            "snmpCollectorScanFrequency": scan, "containers": containers,
        });
        let daemons =
            [("analytics-snmp-collector", Daemon::SnmpCollector), ("analytics-snmp-topology", Daemon::Topology)];
        planned::<AnalyticsSnmp>(&world, &name, &settings, is_initialized, &daemons, |options, world| {
            let port = if options.daemon == Daemon::Topology { topology } else { snmp };
            prop_assert_eq!(options.introspect.0.1, port);
            prop_assert_eq!(options.collectors.len(), world.collectors.len());
            prop_assert!(options.zookeeper.clone().flatten().is_some());
            Ok(())
        })?;
    }

    #[test]
    fn plans_of_alarms_are_complete_or_say_why_not(
        world in world(),
        name in NAME,
        introspect in port(5995),
        (offset, partitions) in (prop::option::of(0_u32..=65_535), prop::option::of(1_u32..=65_535)),
        log_local in prop::option::of("[ -~]{0,16}"),
        containers in listed(&["analytics-alarm-gen", "kafka", "nodemanager", "other"]),
        is_initialized in any::<bool>(),
    ) {
        let settings = json!({
            "alarmgenIntrospectListenPort": introspect, "alarmgenRedisAggregateDbOffset": offset, "alarmgenPartitions": partitions,
            "logLocal": log_local, "containers": containers,
        });
        let daemons = [("analytics-alarm-gen", Daemon::AlarmGenerator)];
        planned::<AnalyticsAlarm>(&world, &name, &settings, is_initialized, &daemons, |options, world| {
            prop_assert_eq!(options.introspect.0.1, introspect);
            prop_assert_eq!(options.partitions, Some(30));
            prop_assert_eq!(options.collectors.len(), world.collectors.len());
            let (brokers, tls) = options.kafka.as_ref().unwrap();
            prop_assert_eq!((brokers.len(), tls.is_some()), (world.nodes.len(), true));
            Ok(())
        })?;
    }
}
