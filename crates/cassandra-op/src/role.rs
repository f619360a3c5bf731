//! Which of Tungsten Fabric's two databases a ring is, and what it takes over from an installation of the Go tf-operator.
//!
//! The role names the ring for node managers and `contrail-status`, and decides the directories on the nodes. The Go
//! tf-operator looked at its Manager: with one Cassandra in it that one was `database`, with several all but
//! `analyticsdb*` were `config-database` (docs/upstream/go-operator.md#cassandra). Here the name alone decides. Siblings must not: they come and
//! go, the order in which they are created is nobody's choice, and a ring whose directory depended on them would start
//! empty, or on the other ring's data, when one appears.
//!
//! So one installation is not taken over by itself: that with a single Cassandra, whose data lies in the directory of the
//! analytics database. It needs `storage.hostPath.path`, see [`Role::elsewhere`].

use tf_api::names;
use tf_contrail::nodemanager::NodeType;
use tf_plan::build::{identity::Identity, storage};

/// Name of both rings of the Go tf-operator. A server refuses to start on data that was written under another name, so
/// this stays for what is taken over, although the images' own default for analytics is `Contrail` (docs/upstream/cassandra.md#cluster-names).
pub const ADOPTED_CLUSTER_NAME: &str = "ContrailConfigDB";

/// One of the two databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The database of the configuration.
    Configuration,
    /// The database of analytics.
    Analytics,
}

impl Role {
    /// The role of the resource of that name.
    pub fn of(name: &str) -> Self {
        if name.starts_with("analyticsdb") { Self::Analytics } else { Self::Configuration }
    }

    /// What node managers call it.
    pub const fn node_type(self) -> NodeType {
        match self {
            Self::Configuration => NodeType::ConfigDatabase,
            Self::Analytics => NodeType::Database,
        }
    }

    /// The variable in which a node manager looks for the members (`cassandra_manager.py`).
    pub const fn nodes_variable(self) -> &'static str {
        match self {
            Self::Configuration => "CONFIGDB_NODES",
            Self::Analytics => "ANALYTICSDB_NODES",
        }
    }

    /// The name the Go tf-operator gave it.
    const fn usual_name(self) -> &'static str {
        match self {
            Self::Configuration => names::CONFIGDB,
            Self::Analytics => names::ANALYTICSDB,
        }
    }

    /// Whether the directories of the resource are the Go tf-operator's unless the spec says otherwise.
    pub fn is_usual(self, identity: &Identity) -> bool {
        storage::adopts(&[self.usual_name()], identity)
    }

    /// Directory of the nodes for data or logs below `base`.
    pub fn directory(self, base: &str, identity: &Identity) -> String {
        storage::node_directory(base, self.node_type().name(), &[self.usual_name()], identity)
    }

    /// Name of the ring. Unique where nothing is taken over: members that meet by a reused address must not take each other
    /// for the same ring. A namespace has no dot, so no two resources share a name.
    pub fn cluster_name(self, identity: &Identity) -> String {
        if self.is_usual(identity) {
            ADOPTED_CLUSTER_NAME.to_owned()
        } else {
            format!("{}.{}", identity.namespace, identity.name)
        }
    }

    /// Where the Go tf-operator kept the data of this ring if it was the only one; none if that is the same place.
    pub fn elsewhere(self, base: &str, identity: &Identity) -> Option<String> {
        (self == Self::Configuration && self.is_usual(identity))
            .then(|| format!("{base}/{}", NodeType::Database.name()))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use tf_api::Cassandra;

    use super::*;

    fn identity(namespace: &str, name: &str) -> Identity {
        let metadata =
            ObjectMeta { name: Some(name.into()), namespace: Some(namespace.into()), ..ObjectMeta::default() };
        Identity::of("cassandra-op", &Cassandra { metadata, ..Cassandra::default() })
    }

    fn directory(namespace: &str, name: &str) -> String {
        Role::of(name).directory("/data", &identity(namespace, name))
    }

    #[test]
    fn the_rings_of_the_go_tf_operator_keep_directories_and_name() {
        assert_eq!(directory("tf", "configdb1"), "/data/config-database");
        assert_eq!(directory("tf", "analyticsdb1"), "/data/database");
        for name in ["configdb1", "analyticsdb1"] {
            assert_eq!(Role::of(name).cluster_name(&identity("tf", name)), "ContrailConfigDB");
        }
    }

    #[test]
    fn any_other_ring_shares_neither_directory_nor_name() {
        assert_eq!(directory("tf", "analyticsdb2"), "/data/tf/cassandra-analyticsdb2");
        assert_eq!(directory("prod", "configdb1"), "/data/prod/cassandra-configdb1");
        assert_eq!(Role::of("configdb1").cluster_name(&identity("prod", "configdb1")), "prod.configdb1");
    }
}
