//! The CNI configuration of a node, which the agent puts there.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

/// A CNI configuration that the agent puts where the container runtime reads it as soon as its daemon serves and answers the plugin, and again
/// when another program took it away. The container serves only while it is there. It stays when the pod goes: pods that are
/// deleted then need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cni {
    /// Absolute path of the configuration in the container.
    pub source: String,
    /// Absolute paths that get it, one at least.
    pub targets: Vec<String>,
    /// Port on 127.0.0.1 at which the plugin asks the daemon by HTTP.
    pub port: NonZeroU16,
}
