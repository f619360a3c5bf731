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

/// The containers that a kind can run.
type Containers = fn() -> Vec<Builtin>;

/// The kinds that have pods, and the containers of each.
const KINDS: [(KindInfo, Containers); 13] = [
    (CASSANDRA, || cassandra_op::plan::CONTAINERS.to_vec()),
    (ZOOKEEPER, || zookeeper_op::plan::CONTAINERS.to_vec()),
    (RABBITMQ, || rabbitmq_op::plan::CONTAINERS.to_vec()),
    (REDIS, || redis_op::plan::CONTAINERS.to_vec()),
    (CONFIG, config_op::daemons::containers),
    (CONTROL, control_op::daemons::containers),
    (ANALYTICS, analytics_op::analytics::plan::containers),
    (ANALYTICS_ALARM, analytics_op::alarm::containers),
    (ANALYTICS_SNMP, analytics_op::snmp::containers),
    (QUERY_ENGINE, analytics_op::query_engine::containers),
    (KUBEMANAGER, kubemanager_op::daemons::containers),
    (WEBUI, webui_op::daemons::containers),
    (VROUTER, || vrouter_op::pods::CONTAINERS.to_vec()),
];

/// The containers of the kind that labels of a pod name (`tf_manager` has its name in lower case), if that operator made the pod.
pub fn of(label: &str, operator: &str) -> Option<Vec<Builtin>> {
    let is_its = |kind: &KindInfo| kind.kind.to_lowercase() == label && kind.operator == operator;
    KINDS.iter().find(|(kind, _)| is_its(kind)).map(|(_, containers)| containers())
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

#[cfg(test)]
mod tests {
    use tf_api::kinds;

    use super::of;

    #[test]
    fn the_containers_of_each_kind_with_pods_are_known() {
        for kind in kinds::ALL {
            let containers = of(&kind.kind.to_lowercase(), kind.operator);
            assert_eq!(containers.is_some(), kind.has_pods, "{}", kind.kind);
        }
    }
}
