//! A setting of each service is changed for which some of its daemons are started anew: those are, one member at a time, nobody else is, and a client of
//! the config API notices nothing but that members take turns.

use serde_json::{Value, json};
use tf_api::kinds::{ANALYTICS, ANALYTICS_SNMP, QUERY_ENGINE, RABBITMQ, REDIS, ZOOKEEPER};

use super::daemons::{Daemon, Daemons};
use super::images::{STORES, resources_of};
use super::named::Findings;
use super::world::World;
use super::*;

/// A change, and what it is for.
#[derive(Clone, Copy)]
struct Setting {
    /// The service of the manifest.
    service: &'static str,
    kind: KindInfo,
    /// What becomes of the specs of its resources.
    wish: fn() -> Value,
    /// Containers whose daemons are started anew.
    anew: &'static [&'static str],
}

/// Settings that stand in files of the daemons named, and where a service has none such, one by which its pods are made anew. Stores first. Settings
/// of the schema transformer, the service monitor, contrail-dns and contrail-named are ports or levels alone: a port is the whole pod's, and of a level
/// they are told.
const SETTINGS: [Setting; 15] = [
    Setting {
        service: "zookeeper",
        kind: ZOOKEEPER,
        wish: || json!({"serviceConfiguration": {"snapRetainCount": 4}}),
        anew: &["zookeeper"],
    },
    Setting {
        service: "cassandras",
        kind: CASSANDRA,
        wish: || json!({"serviceConfiguration": {"cassandraParameters": {"concurrentReads": 16}}}),
        anew: &["cassandra"],
    },
    Setting {
        service: "rabbitmq",
        kind: RABBITMQ,
        wish: || json!({"serviceConfiguration": {"tcpListenOptions": {"backlog": 200}}}),
        anew: &["rabbitmq"],
    },
    // All that its files say is its port, for which everybody who uses it is started anew, too.
    Setting { service: "redis", kind: REDIS, wish: pods, anew: &["redis"] },
    // Without Keystone nothing stands in the API's file alone. Further workers are the whole pod's, which has their number.
    Setting {
        service: "config",
        kind: CONFIG_KIND,
        wish: || json!({"serviceConfiguration": {"apiWorkerCount": 2}}),
        anew: &["api", "devicemanager", "dnsmasq", "schematransformer", "servicemonitor"],
    },
    Setting {
        service: "config",
        kind: CONFIG_KIND,
        wish: || json!({"serviceConfiguration": {"fabricMgmtIP": "192.0.2.10"}}),
        anew: &["devicemanager"],
    },
    Setting {
        service: "config",
        kind: CONFIG_KIND,
        wish: || json!({"serviceConfiguration": {"useExternalTFTP": true}}),
        anew: &["dnsmasq"],
    },
    Setting {
        service: "analytics",
        kind: ANALYTICS,
        wish: || json!({"serviceConfiguration": {"analyticsDataTTL": 24}}),
        anew: &["analyticsapi", "collector"],
    },
    // Nothing but ports.
    Setting { service: "queryengine", kind: QUERY_ENGINE, wish: pods, anew: &["queryengine"] },
    Setting {
        service: "analyticsSnmp",
        kind: ANALYTICS_SNMP,
        wish: || json!({"serviceConfiguration": {"snmpCollectorScanFrequency": 300}}),
        anew: &["analytics-snmp-collector"],
    },
    Setting {
        service: "analyticsSnmp",
        kind: ANALYTICS_SNMP,
        wish: || json!({"serviceConfiguration": {"topologyScanFrequency": 300}}),
        anew: &["analytics-snmp-topology"],
    },
    Setting {
        service: "analyticsAlarm",
        kind: ANALYTICS_ALARM,
        wish: || json!({"serviceConfiguration": {"alarmgenRedisAggregateDbOffset": 2}}),
        anew: &["analytics-alarm-gen"],
    },
    // A port is the pod's, too.
    Setting {
        service: "controls",
        kind: CONTROL,
        wish: || json!({"serviceConfiguration": {"bgpPort": 1179}}),
        anew: &["control", "dns", "named"],
    },
    Setting {
        service: "kubemanager",
        kind: KUBEMANAGER,
        wish: || json!({"serviceConfiguration": {"ipFabricSnat": false}}),
        anew: &["kubemanager"],
    },
    // Its servers are told no level.
    Setting {
        service: "webui",
        kind: WEBUI,
        wish: || json!({"commonConfiguration": {"logLevel": "debug"}}),
        anew: &["webuijob", "webuiweb"],
    },
];

/// For this every pod is made anew.
fn pods() -> Value {
    json!({"commonConfiguration": {"podOverrides": {"spec": {"terminationGracePeriodSeconds": 47}}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_of_each_service_changes_under_a_client_of_the_api_and_only_daemons_that_read_it_are_started_anew()
-> Result<()> {
    Long::Settings.run(story).await
}

pub async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    // No server is stopped before that.
    repaired(client).await?;
    let mut manifest: Value = serde_saphyr::from_str(&whole::manifest()?)?;
    let mut findings = Findings::default();
    for (number, settings) in together().into_iter().enumerate() {
        let mut meant: Vec<(String, &[&str])> = Vec::new();
        let mut names = Vec::new();
        for Setting { service, wish, anew, .. } in &settings {
            for resource in resources_of(&mut manifest["spec"]["services"][service]) {
                let name = resource["metadata"]["name"].as_str().context("no name")?;
                meant.push((format!("{name}-"), anew));
                merge(&mut resource["spec"], &wish());
            }
            names.push(format!("{service} {}", wish()));
        }
        let what = names.join(", ");
        println!("{what}");
        let before = Daemons::of(lab, client).await?;
        let apply = async { lab.apply(&manifest.to_string()).await.map(drop) };
        let kinds: Vec<KindInfo> = settings.iter().map(|setting| setting.kind).collect();
        let changed = world.goes_through(&format!("setting-{number}"), apply, &kinds).await;
        findings.note(&what, changed);
        let is_meant = |daemon: &Daemon| {
            meant.iter().any(|(pods, anew)| anew.contains(&daemon.container.as_str()) && daemon.pod.starts_with(pods))
        };
        findings.note(&what, before.are_others(is_meant));
        let anew: Vec<&str> = settings.iter().flat_map(|setting| setting.anew).copied().collect();
        findings.note(&what, before.have_stayed_but(is_meant, &anew));
    }
    findings.none()
}

/// Settings that are changed together: each store's alone, and of the others one of each service.
fn together() -> Vec<Vec<Setting>> {
    let mut groups: Vec<Vec<Setting>> = Vec::new();
    for setting in SETTINGS {
        let is_store = |setting: &Setting| STORES.contains(&setting.service);
        let group = groups.iter_mut().find(|group| {
            !is_store(&setting) && !group.iter().any(|other| is_store(other) || other.service == setting.service)
        });
        match group {
            Some(group) => group.push(setting),
            None => groups.push(vec![setting]),
        }
    }
    groups
}

/// Puts a wish into what there is.
fn merge(there: &mut Value, wish: &Value) {
    match wish {
        Value::Object(fields) => fields.iter().for_each(|(field, wish)| merge(&mut there[field], wish)),
        other => *there = other.clone(),
    }
}
