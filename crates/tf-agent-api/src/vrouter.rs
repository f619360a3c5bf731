//! What the node agent tells of a vRouter's agent: who that is on its node, in the words of its own file.

use serde::{Deserialize, Serialize};

use tf_config_files::read;

/// Name of the agent's file.
pub const FILE: &str = "contrail-vrouter-agent.conf";

/// Who an agent is. The config API has to know it by the same (docs/upstream/daemons.md#names).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// The first of its addresses in the overlay.
    pub address: String,
}

/// A loaded kernel module that is not as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Module {
    /// What differs, for people.
    pub cause: String,
    /// Why another one does not work, which was tried, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Whether a pod that starts loads it again where nothing uses the vRouter.
    pub reload: bool,
    /// Whether pods use the vRouter.
    pub used: bool,
}

impl Module {
    /// Whether another pod would load it again now.
    pub fn is_free(&self) -> bool {
        self.reload && self.failed.is_none() && !self.used
    }

    /// What differs and what to do, for people.
    pub fn explained(&self) -> String {
        let Self { cause, failed, reload, .. } = self;
        match failed {
            Some(why) => format!("{cause}; it was tried and does not work: {why}; correct it, or take the change back"),
            None if *reload => format!("{cause}; the node's pod loads the module again when the node is drained"),
            None => format!("{cause}; the module is loaded again when the node boots"),
        }
    }
}

impl Facts {
    /// What the file says; none if that is not who an agent is.
    pub fn read(file: &str) -> Option<Self> {
        let sections = read::boost(file).ok()?;
        let option = |section: &str, name: &str| {
            let value = sections.get(section)?.get(name)?.last()?.split_whitespace().next()?;
            Some(value.to_owned())
        };
        Some(Self {
            name: option("DEFAULT", "agent_name")?,
            address: option("VIRTUAL-HOST-INTERFACE", "compute_node_address")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_who_its_file_says() {
        let file = "[DEFAULT]\nagent_name = n1\n[VIRTUAL-HOST-INTERFACE]\ncompute_node_address = 10.9.0.1 10.9.1.1\n";
        assert_eq!(Facts::read(file), Some(Facts { name: "n1".into(), address: "10.9.0.1".into() }));
        assert_eq!(Facts::read("[DEFAULT]\nagent_name = n1\n"), None);
        assert_eq!(Facts::read("no file of an agent"), None);
    }
}
