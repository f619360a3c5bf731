//! By which name the charts know the image of a container.

use tf_api::{
    KindInfo,
    kinds::{
        ANALYTICS, ANALYTICS_ALARM, ANALYTICS_SNMP, CASSANDRA, CONFIG, CONTROL, KUBEMANAGER, QUERY_ENGINE, RABBITMQ,
        REDIS, VROUTER, WEBUI, ZOOKEEPER,
    },
};
use tf_plan::{build::pod, images::Builtin};

use super::Operand;

/// The kinds that have pods, and the containers of each.
const KINDS: [(KindInfo, &[Builtin]); 13] = [
    (CASSANDRA, &cassandra_op::plan::CONTAINERS),
    (ZOOKEEPER, &zookeeper_op::plan::CONTAINERS),
    (RABBITMQ, &rabbitmq_op::plan::CONTAINERS),
    (REDIS, &redis_op::plan::CONTAINERS),
    (CONFIG, &config_op::containers::CONTAINERS),
    (CONTROL, &control_op::containers::CONTAINERS),
    (ANALYTICS, &analytics_op::analytics::containers::CONTAINERS),
    (ANALYTICS_ALARM, &analytics_op::alarm::CONTAINERS),
    (ANALYTICS_SNMP, &analytics_op::snmp::CONTAINERS),
    (QUERY_ENGINE, &analytics_op::query_engine::CONTAINERS),
    (KUBEMANAGER, &kubemanager_op::containers::CONTAINERS),
    (WEBUI, &webui_op::containers::CONTAINERS),
    (VROUTER, &vrouter_op::pods::CONTAINERS),
];

/// The containers of the kind that labels of a pod name (`tf_manager` has its name in lower case), if that operator made the pod.
pub fn of(label: &str, operator: &str) -> Option<&'static [Builtin]> {
    let is_its = |kind: &KindInfo| kind.kind.to_lowercase() == label && kind.operator == operator;
    KINDS.iter().find(|(kind, _)| is_its(kind)).map(|(_, containers)| *containers)
}

/// What a container runs; nothing for a container that others put into the pod.
pub fn operand(builtins: &[Builtin], container: &str, reference: &str) -> Option<Operand> {
    if container == pod::AGENT {
        return Some(Operand::TfNode);
    }
    let by_name = builtins.iter().find(|builtin| builtin.name == container)?;
    // The vRouter's installer of the kernel module has one name and, on nodes of Ubuntu, another image.
    let by_image = builtins.iter().find(|builtin| repository(reference).ends_with(builtin.image));
    Some(Operand::Image(by_image.unwrap_or(by_name).image))
}

/// A reference without tag and digest.
fn repository(reference: &str) -> &str {
    let name = reference.split_once('@').map_or(reference, |(name, _)| name);
    let tag = name.rfind(':').filter(|at| !name[*at..].contains('/'));
    tag.map_or(name, |at| &name[..at])
}
