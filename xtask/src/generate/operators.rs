//! The operators of this workspace.

use tf_api::{KindInfo, kinds};
use tf_plan::{component::Component as _, declaration::Declaration};

/// One operator: its name, what it is for, and what its component declares.
#[derive(Clone, Copy)]
pub struct Operator {
    /// Name of crate, binary, image and chart.
    pub name: &'static str,
    /// What it is for, one line.
    pub description: &'static str,
    /// What its component declares.
    pub declaration: fn() -> Declaration,
}

/// The first of the ports of operators in the nodes' network. Nothing of Tungsten Fabric, its stores or Kubernetes listens at this and the next ones, and they
/// are neither NodePorts nor ephemeral.
const BOOTSTRAP_PORTS: u16 = 21_551;

impl Operator {
    /// The port of health and metrics where the operator is in its node's network.
    pub fn bootstrap_port(&self) -> u16 {
        let others = OPERATORS.iter().take_while(|other| other.name != self.name);
        others.fold(BOOTSTRAP_PORTS, |port, _| port + 1)
    }

    /// The kinds whose definitions it owns.
    pub fn kinds(&self) -> Vec<KindInfo> {
        kinds::ALL.into_iter().filter(|info| info.operator == self.name).collect()
    }
}

/// Every operator, in the order of their names.
pub const OPERATORS: [Operator; 11] = [
    Operator {
        name: "analytics-op",
        description: "Operator for analytics of Tungsten Fabric",
        declaration: analytics_op::declared,
    },
    Operator {
        name: "cassandra-op",
        description: "Operator for Cassandra rings of Tungsten Fabric",
        declaration: cassandra_op::Component::declaration,
    },
    Operator {
        name: "config-op",
        description: "Operator for the config API of Tungsten Fabric and its companions",
        declaration: config_op::Component::declaration,
    },
    Operator {
        name: "control-op",
        description: "Operator for the control nodes of Tungsten Fabric",
        declaration: control_op::Component::declaration,
    },
    Operator {
        name: "kubemanager-op",
        description: "Operator for the link between Kubernetes and Tungsten Fabric",
        declaration: kubemanager_op::Component::declaration,
    },
    Operator {
        name: "manager-op",
        description: "Operator that turns one Manager into the resources of all Tungsten Fabric components",
        declaration: manager_op::Component::declaration,
    },
    Operator {
        name: "rabbitmq-op",
        description: "Operator for RabbitMQ clusters of Tungsten Fabric",
        declaration: rabbitmq_op::Component::declaration,
    },
    Operator {
        name: "redis-op",
        description: "Operator for Redis servers of Tungsten Fabric",
        declaration: redis_op::Component::declaration,
    },
    Operator {
        name: "vrouter-op",
        description: "Operator for the vRouter of Tungsten Fabric on every node",
        declaration: vrouter_op::Component::declaration,
    },
    Operator {
        name: "webui-op",
        description: "Operator for the web user interface of Tungsten Fabric",
        declaration: webui_op::Component::declaration,
    },
    Operator {
        name: "zookeeper-op",
        description: "Operator for ZooKeeper ensembles of Tungsten Fabric",
        declaration: zookeeper_op::Component::declaration,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_operator_of_a_kind_is_in_the_lists_of_operators() {
        let owners: BTreeSet<&str> = kinds::ALL.iter().map(|kind| kind.operator).collect();
        assert_eq!(owners, OPERATORS.iter().map(|operator| operator.name).collect());
        assert_eq!(owners, tf_testing::operators::ALL.into_iter().collect());
    }
}
