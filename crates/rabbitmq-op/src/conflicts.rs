//! What a cluster has to itself on its nodes: its directory and its ports ([`tf_plan::conflicts`]).

use tf_api::{Managed as _, Rabbitmq};
use tf_plan::{
    build::{identity::Identity, storage},
    conflicts::{Exclusive, NodeResources},
};

use crate::{OPERATOR, plan::directory, ports::Ports};

/// Clusters among each other.
pub const CLUSTERS: Exclusive<Rabbitmq> = Exclusive { resources, is_founded: |cr| cr.is_initialized() };

fn resources(cr: &Rabbitmq) -> NodeResources {
    let usual = directory(&Identity::of(OPERATOR, cr), "/var/lib/contrail");
    let spec = &cr.spec.service_configuration;
    // Ports that cannot be are reported of the resource that has them.
    let ports = Ports::of(spec.port, spec.erl_epmd_port).map(|ports| ports.named()).unwrap_or_default();
    NodeResources {
        directory: storage::directory(cr.common().storage.as_ref(), &usual),
        ports: ports.into_iter().map(|(_, port)| port).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(name: &str, path: Option<&str>, port: u16, brought_up: bool, node: &str) -> Rabbitmq {
        let settings: Value = json!({"port": port, "erlEpmdPort": port + 1});
        serde_json::from_value(json!({
            "apiVersion": "tf.tungsten.io/v1alpha1",
            "kind": "Rabbitmq",
            "metadata": {"name": name, "namespace": "tf"},
            "spec": {"commonConfiguration": {"storage": {"hostPath": {"path": path}}}, "serviceConfiguration": settings},
            "status": {"initialized": brought_up, "members": [{"id": 1, "node": node, "address": "10.0.0.1"}]},
        }))
        .unwrap()
    }

    fn refused(cr: &Rabbitmq, sibling: &Rabbitmq) -> Option<String> {
        let members = &cr.contract().unwrap().members;
        CLUSTERS.check(cr, members, std::slice::from_ref(sibling)).err().map(|refused| refused.message)
    }

    #[test]
    fn the_cluster_that_was_brought_up_keeps_its_directory_and_its_ports() {
        let first = cluster("rabbitmq1", Some("/d"), 5673, true, "a");
        let same_path = cluster("other", Some("/d/"), 6673, false, "a");
        let why = refused(&same_path, &first).unwrap();
        assert!(why.contains("directory /d of the nodes belongs to Rabbitmq tf/rabbitmq1"), "{why}");
        assert_eq!(refused(&first, &same_path), None);
        let same_ports = cluster("other", None, 5673, false, "a");
        assert!(refused(&same_ports, &first).unwrap().contains("port 5673"));
        assert_eq!(refused(&cluster("other", None, 6673, false, "a"), &first), None);
        assert_eq!(refused(&cluster("other", Some("/d"), 5673, false, "b"), &first), None, "on other nodes");
    }
}
