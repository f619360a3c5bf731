//! The operators of this workspace.

use tf_api::{KindInfo, kinds};
use tf_plan::{component::Component, declaration::Declaration};

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

impl Operator {
    /// The kinds whose definitions it owns.
    pub fn kinds(&self) -> Vec<KindInfo> {
        kinds::ALL.into_iter().filter(|info| info.operator == self.name).collect()
    }
}

/// Every operator, in the order of their names.
pub const OPERATORS: [Operator; 2] = [
    Operator {
        name: "manager-op",
        description: "Operator that turns one Manager into the resources of all Tungsten Fabric components",
        declaration: manager_op::Component::declaration,
    },
    Operator {
        name: "zookeeper-op",
        description: "Operator for ZooKeeper ensembles of Tungsten Fabric",
        declaration: zookeeper_op::Component::declaration,
    },
];
