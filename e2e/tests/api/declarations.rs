//! What the operators declare.

use tf_plan::{
    component::Component,
    declaration::{Declaration, Read},
    object::SECRET,
};
use tf_testing::operators;

/// The declaration of every operator.
pub fn all() -> [Declaration; 11] {
    [
        analytics_op::declared(),
        cassandra_op::Component::declaration(),
        config_op::Component::declaration(),
        control_op::Component::declaration(),
        kubemanager_op::Component::declaration(),
        manager_op::Component::declaration(),
        rabbitmq_op::Component::declaration(),
        redis_op::Component::declaration(),
        vrouter_op::Component::declaration(),
        webui_op::Component::declaration(),
        zookeeper_op::Component::declaration(),
    ]
}

/// Whether it says that it reads Secrets: its own, or those that a spec names.
pub fn reads_secrets(declaration: &Declaration) -> bool {
    let reads = declaration.reads.iter().any(|read| matches!(read, Read::Secrets { .. }));
    reads || declaration.owned.iter().any(|owned| owned.kind == SECRET)
}

/// The other tests go through what there is; this one says that it is all there is.
#[test]
fn every_operator_with_a_chart_is_tested() {
    assert_eq!(all().map(|declaration| declaration.operator), operators::ALL);
    let charts = std::fs::read_dir(operators::repository().join("charts")).unwrap();
    let mut charts: Vec<String> =
        charts.map(|chart| chart.unwrap().file_name().to_string_lossy().into_owned()).collect();
    charts.sort();
    assert_eq!(charts, operators::ALL);
}
