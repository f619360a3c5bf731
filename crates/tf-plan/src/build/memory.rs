//! How much memory a member may count on.
//!
//! Servers measure the node's memory and know nothing of the container's limit: without being told, they would be killed long before they
//! hold back (RabbitMQ 3.10.8, measured; `cassandra-env.sh`; docs/upstream/rabbitmq.md#memory).

use tf_api::common::PodConfiguration;

use super::quantity::bytes;

/// The memory limit of a container, in bytes, if the overrides set one.
pub fn limit(common: &PodConfiguration, container: &str) -> Option<u64> {
    let spec = common.pod_overrides.as_ref()?.spec.as_ref()?;
    let overrides = spec.containers.iter().find(|overrides| overrides.name == container)?;
    bytes(&overrides.resources.as_ref()?.limits.as_ref()?.get("memory")?.0)
}
