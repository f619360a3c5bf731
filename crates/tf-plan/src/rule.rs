//! A rule of a role (RBAC).

/// Where a rule has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// In every watched namespace.
    Watched,
    /// In the namespace of the operator itself.
    Release,
    /// In one other namespace.
    Namespace(&'static str),
    /// In the whole cluster.
    Cluster,
}

/// One rule of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where.
    pub reach: Reach,
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Resource, with its subresource if it is about one.
    pub resource: String,
    /// Names of single objects; empty for all.
    pub names: Vec<&'static str>,
    /// Verbs, in the order people list them.
    pub verbs: Vec<&'static str>,
    /// Why, in one line.
    pub reason: String,
}
