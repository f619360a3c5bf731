//! What a consumer reads of a provider's status: the contract fields and nothing else.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use super::{Endpoint, MemberStatus, NameReference};

/// The thin view of another operator's status. It has only what consumers use, every field is optional on the wire and
/// unknown fields are skipped, so a newer provider cannot break an older consumer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PeerStatus {
    /// Contract version of the writer.
    pub contract: Option<String>,
    /// Generation the status describes.
    pub observed_generation: Option<i64>,
    /// Whether the first bring-up is done.
    pub initialized: bool,
    /// Members wanted.
    pub replicas: Option<i32>,
    /// Ready and wanted members as text.
    pub members_ready: Option<String>,
    /// Members with identities.
    pub members: Vec<MemberStatus>,
    /// Published endpoints.
    #[serde(deserialize_with = "super::readable")]
    pub endpoints: Vec<Endpoint>,
    /// Secret with credentials.
    pub connection_secret_ref: Option<NameReference>,
    /// Changes when endpoints or credentials change.
    pub connection_hash: Option<String>,
    /// Conditions, whatever their type.
    #[serde(deserialize_with = "super::readable")]
    pub conditions: Vec<Condition>,
}

impl PeerStatus {
    /// The condition of the given type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// The endpoint of the given name.
    pub fn endpoint(&self, name: &str) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.name == name)
    }
}
