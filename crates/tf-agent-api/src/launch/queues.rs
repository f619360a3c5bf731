//! Queues of the vRouter's hardware, which its agent keeps.

use serde::{Deserialize, Serialize};

/// Queues that no CPU chooses, since the vRouter does, and priority groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Queues {
    /// Physical interfaces. Empty: the one below `vhost0`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
    /// Priority groups of the interface (DCB). Empty: as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<PriorityGroup>,
}

/// A priority group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityGroup {
    /// Its number, 0 to 7.
    pub number: u8,
    /// Its share of the bandwidth, percent.
    pub bandwidth: u8,
    /// Whether its packets go before those of groups that are not strict.
    pub strict: bool,
}
