//! Requests to the config API (docs/upstream/config-api.md#requests), and what their answers mean.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::record::{FqName, Type, label};

/// A change of the config API.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Call {
    /// Makes an object.
    Create {
        /// Its type.
        kind: Type,
        /// Its name.
        name: FqName,
        /// Properties, and references to what is there already.
        body: Map<String, Value>,
    },
    /// Changes properties; the others stay.
    Update {
        /// Type of the object.
        kind: Type,
        /// Its name.
        name: FqName,
        /// Its identifier.
        uuid: String,
        /// The properties, each as a whole.
        body: Map<String, Value>,
    },
    /// Makes an object refer to another one, or no longer.
    Refer {
        /// Type of the object.
        kind: Type,
        /// Its name.
        name: FqName,
        /// Its identifier.
        uuid: String,
        /// Type of the other one.
        to_kind: Type,
        /// Its name.
        to: FqName,
        /// Whether it shall refer to it.
        adds: bool,
    },
    /// Lets an object be deleted although another one refers to it.
    Relax {
        /// Identifier of the one that refers.
        holder: String,
        /// Identifier of the one that is referred to.
        uuid: String,
        /// Type and name of that, for people.
        what: String,
    },
    /// Deletes an object.
    Delete {
        /// Its type.
        kind: Type,
        /// Its name.
        name: FqName,
        /// Its identifier.
        uuid: String,
        /// Whether it may stay as long as others refer to it.
        may_stay: bool,
    },
}

/// A call as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Method of HTTP.
    pub method: &'static str,
    /// Path.
    pub path: String,
    /// Body; none for those that have none.
    pub body: Option<Value>,
}

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it was to be.
    Done,
    /// Somebody was faster, as it seems: what is there has to be looked at again.
    Changed,
    /// Others still use what was to be deleted, which is their right.
    Stays,
    /// This member of the API cannot at the moment; another one may.
    Unable,
    /// The API does not let the operator in. A new token may help once.
    Unauthorised,
    /// The API does not do it.
    Refused,
}

impl Call {
    /// As it is sent.
    pub fn request(&self) -> Request {
        match self {
            Self::Create { kind, body, .. } => Request {
                method: "POST",
                path: format!("/{}", kind.collection()),
                body: Some(json!({kind.name: body})),
            },
            Self::Update { kind, uuid, body, .. } => {
                Request { method: "PUT", path: format!("/{}/{uuid}", kind.name), body: Some(json!({kind.name: body})) }
            }
            Self::Refer { kind, uuid, to_kind, to, adds, .. } => {
                let body = json!({
                    "type": kind.name, "uuid": uuid, "ref-type": to_kind.name, "ref-fq-name": to, "ref-uuid": null,
                    "operation": if *adds { "ADD" } else { "DELETE" }, "attr": null,
                });
                Request { method: "POST", path: "/ref-update".into(), body: Some(body) }
            }
            Self::Relax { holder, uuid, .. } => {
                let body = json!({"uuid": holder, "ref-uuid": uuid});
                Request { method: "POST", path: "/ref-relax-for-delete".into(), body: Some(body) }
            }
            Self::Delete { kind, uuid, .. } => {
                Request { method: "DELETE", path: format!("/{}/{uuid}", kind.name), body: None }
            }
        }
    }

    /// What it is about, for people.
    pub fn subject(&self) -> String {
        match self {
            Self::Create { kind, name, .. } | Self::Update { kind, name, .. } | Self::Delete { kind, name, .. } => {
                label(kind.name, name)
            }
            Self::Refer { kind, name, to_kind, to, .. } => {
                format!("reference from {} to {}", label(kind.name, name), label(to_kind.name, to))
            }
            Self::Relax { what, .. } => format!("references to {what}"),
        }
    }

    /// What an answer with this status means.
    pub fn verdict(&self, status: u16) -> Verdict {
        match (self, status) {
            (_, 200..=299) | (Self::Delete { .. }, 404) => Verdict::Done,
            (Self::Create { .. }, 409) | (Self::Update { .. } | Self::Refer { .. } | Self::Relax { .. }, 404) => {
                Verdict::Changed
            }
            (Self::Delete { may_stay: true, .. }, 409) => Verdict::Stays,
            (_, 401) => Verdict::Unauthorised,
            (_, 500..) => Verdict::Unable,
            _ => Verdict::Refused,
        }
    }

    /// What a person can do about an answer with this status.
    pub fn advice(&self, status: u16) -> &'static str {
        match (self, status) {
            (_, 401 | 403) => "set authParameters to a user with the cloud-admin role, as Config has them",
            (Self::Delete { .. }, 409) => "remove from the API what is in it or refers to it",
            (Self::Create { .. }, 412) => "raise the quota of the API for this type",
            (Self::Create { .. }, 400 | 404) => "what it is in or refers to has to exist in the API first",
            (Self::Refer { .. }, 404) => "both have to exist in the API first",
            (_, 500..) => "look at the log of the config API, and at its stores",
            _ => "the answer says why; it is tried again",
        }
    }
}
