//! What a spec names.

/// Objects a resource refers to, so that the runtime can read and watch them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Secrets in the resource's namespace.
    pub secrets: Vec<String>,
    /// ConfigMaps in the resource's namespace.
    pub config_maps: Vec<String>,
}
