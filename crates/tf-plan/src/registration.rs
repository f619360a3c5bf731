//! Registration: what a resource's nodes and settings are in the config API (docs/upstream/config-api.md#rest-of-the-config-api).
//!
//! A component says in its plan what shall be there and where the API is ([`Registration`]). The runtime lists what is, asks for a decision
//! ([`tf_config_api`]), makes the calls and looks again until nothing is left to do; what came of it is the condition `Provisioned`.

pub mod client;

use tf_api::{
    Managed,
    contract::{ConditionType, Draft, MemberStatus, Reason},
};
use tf_config_api::{decide::Wanted, mark::Owner};

use crate::{keystone::Keystone, observed::Observed};

/// What a resource registers, and with whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// What shall be there.
    pub wanted: Wanted,
    /// The API.
    pub api: Api,
    /// Whether some members have not been heard yet: an operator that has just started does nothing until they are, and what was true
    /// before counts.
    pub is_early: bool,
}

/// The members of a config API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// Addresses or names, any of which will do.
    pub hosts: Vec<String>,
    /// Their port.
    pub port: u16,
    /// Whether they speak TLS.
    pub tls: bool,
    /// Certificates theirs are checked against, in PEM, if not those of the namespace's authority.
    pub ca: Option<String>,
    /// Who the API is told to be asked by, where it wants to know.
    pub keystone: Option<Keystone>,
}

/// How far a registration has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nobody has looked since the operator started.
    Unknown,
    /// It has not been done yet, for this reason.
    Pending(String),
    /// Everything is there.
    Done {
        /// How many objects.
        objects: usize,
        /// What a person should know.
        notes: Vec<String>,
    },
    /// It did not work, for this reason.
    Failed(String),
}

/// Nodes that are no members any more and whose pods still serve: what they are in the API has to stay as long.
pub fn serving_leavers<Cr>(observed: &Observed<Cr>, members: &[MemberStatus]) -> impl Iterator<Item = String> {
    let pods = observed.pods.known().map(Vec::as_slice).unwrap_or_default();
    let serving = pods.iter().filter(|pod| pod.ready).filter_map(|pod| pod.node.clone());
    serving.filter(|node| members.iter().all(|member| member.node != *node))
}

/// The owner that a resource is.
pub fn owner<Cr: Managed>(cr: &Cr) -> Owner {
    let meta = cr.meta();
    Owner {
        kind: Cr::INFO.kind.to_owned(),
        namespace: cr.home().to_owned(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
    }
}

/// Whether the config API that a resource uses, as its condition says, is gone or goes: then what is in it goes with it.
pub fn is_gone(api: &Draft) -> bool {
    matches!(api.reason, Reason::DependencyNotFound | Reason::CrdMissing | Reason::Deleting)
}

/// The condition that tells how far a registration has got; none if it stays what it was.
pub fn draft(progress: &Progress) -> Option<Draft> {
    use ConditionType::Provisioned;
    match progress {
        Progress::Unknown => None,
        Progress::Pending(why) => Some(Draft::fails(Provisioned, Reason::ProvisioningPending, why.clone())),
        Progress::Failed(why) => Some(Draft::fails(Provisioned, Reason::ProvisioningFailed, why.clone())),
        Progress::Done { objects, notes } => {
            let message = format!("{objects} objects in the config API are as planned");
            let message = [&[message], notes.as_slice()].concat().join("; ");
            Some(Draft::holds(Provisioned, Reason::Succeeded, message))
        }
    }
}
