//! Kernel settings of a node, which the agent keeps there.

use serde::{Deserialize, Serialize};

/// Kernel settings that the agent sets, and sets again where another program changed them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The file that has them, one of [`super::Launch::files`], in the format of sysctl.conf(5).
    pub file: String,
    /// Whether a person stated them. Those of a release are left out where the kernel does not have them or does not let them be set, and
    /// their limits are only raised.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stated: bool,
}
