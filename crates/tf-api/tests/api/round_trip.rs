//! The Rust defaults and those of the schema are the same, and writing an object adds nothing but defaults.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tf_api::kinds::*;

use super::support::{definition, filled_in, meaningful};

fn nulls(value: &Value) -> usize {
    match value {
        Value::Null => 1,
        Value::Array(items) => items.iter().map(nulls).sum(),
        Value::Object(fields) => fields.values().map(nulls).sum(),
        _ => 0,
    }
}

fn check<S: Default + Serialize + DeserializeOwned + PartialEq + Debug>(info: KindInfo) {
    let kind = info.kind;
    let empty: S = serde_json::from_value(json!({})).unwrap();
    assert_eq!(empty, S::default(), "{kind}: an empty spec is the default");

    let written = serde_json::to_value(S::default()).unwrap();
    assert_eq!(nulls(&written), 0, "{kind}: {written}");
    let read: S = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(read, S::default(), "{kind}: what is written reads back");
    let filled = filled_in(&definition(kind).schema()["properties"]["spec"]);
    assert_eq!(meaningful(&filled), meaningful(&written), "{kind}: the schema's defaults are those of the type");
}

#[test]
fn an_empty_spec_is_the_default_in_rust_and_in_the_schema() {
    check::<AnalyticsSpec>(ANALYTICS);
    check::<AnalyticsAlarmSpec>(ANALYTICS_ALARM);
    check::<AnalyticsSnmpSpec>(ANALYTICS_SNMP);
    check::<CassandraSpec>(CASSANDRA);
    check::<ConfigSpec>(CONFIG);
    check::<ControlSpec>(CONTROL);
    check::<KubemanagerSpec>(KUBEMANAGER);
    check::<ManagerSpec>(MANAGER);
    check::<QueryEngineSpec>(QUERY_ENGINE);
    check::<RabbitmqSpec>(RABBITMQ);
    check::<RedisSpec>(REDIS);
    check::<VrouterProfileSpec>(VROUTER_PROFILE);
    check::<VrouterSpec>(VROUTER);
    check::<WebuiSpec>(WEBUI);
    check::<ZookeeperSpec>(ZOOKEEPER);
}

#[test]
fn a_link_local_service_without_fields_is_the_metadata_service() {
    let spec: ConfigSpec =
        serde_json::from_value(json!({ "serviceConfiguration": { "linklocalServiceConfig": {} } })).unwrap();
    assert_eq!(spec.service_configuration.linklocal_service_config, Some(LinklocalServiceConfig::default()));
}
