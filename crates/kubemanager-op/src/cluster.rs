//! What the daemon of a resource is stated by.

use tf_api::{KubemanagerConfiguration, common::LogLevel, contract::MemberStatus};
use tf_plan::{component::Agents, keystone::Keystone};

use crate::{kubernetes::Kubernetes, objects::Objects, services::Services};

/// Everything that the daemon of one resource is stated by. It has no `Debug`, for the token.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    /// The spec.
    pub spec: &'a KubemanagerConfiguration,
    /// Level of the logs.
    pub log_level: LogLevel,
    /// What the daemon connects to.
    pub services: &'a Services,
    /// Its settings for the Kubernetes cluster.
    pub kubernetes: &'a Kubernetes,
    /// Its settings for objects of the config API.
    pub objects: &'a Objects,
    /// Keystone, if it authenticates users.
    pub keystone: Option<&'a Keystone>,
    /// The daemon's token for the Kubernetes API.
    pub token: &'a str,
    /// Members, in the order they joined.
    pub members: &'a [MemberStatus],
    /// How the members' agents are reached.
    pub agents: &'a Agents,
}
