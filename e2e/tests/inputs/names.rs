//! Names as long as they may be, in a namespace whose name is as long as it may be.

use anyhow::Result;
use futures::future::try_join_all;
use serde_json::{Value, json};
use tf_api::kinds::{
    ANALYTICS, ANALYTICS_ALARM, ANALYTICS_SNMP, CASSANDRA, CONFIG, CONTROL, KUBEMANAGER, MANAGER, QUERY_ENGINE,
    RABBITMQ, REDIS, VROUTER, WEBUI, ZOOKEEPER,
};
use tf_testing::{operators, resources, sample::has_turn};

use crate::support::cluster;

#[tokio::test]
async fn names_at_the_limit_work_and_longer_ones_are_refused_with_the_limit() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let namespace = format!("in-{}", "n".repeat(60));
    let cluster = cluster(&namespace, &operators::ALL).await?;
    cluster.nodes(1, 1).await?;
    let kinds = [
        ANALYTICS,
        ANALYTICS_ALARM,
        ANALYTICS_SNMP,
        CASSANDRA,
        CONFIG,
        CONTROL,
        KUBEMANAGER,
        MANAGER,
        QUERY_ENGINE,
        RABBITMQ,
        REDIS,
        VROUTER,
        WEBUI,
        ZOOKEEPER,
    ];
    let mut longest = Vec::new();
    for kind in kinds {
        let refusal =
            resources::apply(&cluster.client, kind, &namespace, &"x".repeat(64), json!({})).await.unwrap_err();
        let text = format!("{refusal:#}");
        let limit: usize = text
            .split_once("metadata.name must have at most ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{}: {text}", kind.kind));
        assert!(resources::apply(&cluster.client, kind, &namespace, &"x".repeat(limit + 1), json!({})).await.is_err());
        longest.push((kind, "n".repeat(limit)));
    }
    let name = |kind| longest.iter().find(|(known, _)| *known == kind).map(|(_, name)| name.clone());
    let child = |kind| json!({"metadata": {"name": name(kind)}, "spec": {}});
    let mut vrouter = child(VROUTER);
    vrouter["spec"]["commonConfiguration"]["nodeSelector"] = cluster.everywhere();
    let services: Value = json!({
        "analytics": child(ANALYTICS),
        "analyticsAlarm": child(ANALYTICS_ALARM),
        "analyticsSnmp": child(ANALYTICS_SNMP),
        "cassandras": [child(CASSANDRA)],
        "config": child(CONFIG),
        "controls": [child(CONTROL)],
        "kubemanager": child(KUBEMANAGER),
        "queryengine": child(QUERY_ENGINE),
        "rabbitmq": child(RABBITMQ),
        "redis": [child(REDIS)],
        "zookeeper": child(ZOOKEEPER),
        "vrouters": [vrouter],
        "webui": child(WEBUI),
    });
    let spec = json!({"commonConfiguration": {"nodeSelector": cluster.control_plane()}, "services": services});
    let manager = name(MANAGER).unwrap_or_default();
    resources::apply(&cluster.client, MANAGER, &namespace, &manager, spec).await?;
    try_join_all(longest.iter().map(|(kind, name)| cluster.ready(*kind, name))).await?;
    Ok(())
}
