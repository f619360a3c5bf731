//! Failures of requests, sorted by what they mean for a resource.

use tf_api::contract::Reason;

use crate::client::is_not_leader;

/// A request that failed, with what was being done.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {}", in_words(source))]
pub struct RequestError {
    /// What was being done, for example "applying StatefulSet tf/a".
    pub doing: String,
    /// What the client says.
    #[source]
    pub source: kube::Error,
}

impl RequestError {
    /// Adds what was being done.
    pub fn while_doing(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |source| Self { doing, source }
    }

    /// For conditions.
    pub fn reason(&self) -> Reason {
        let kube::Error::Api(status) = &self.source else { return Reason::ApiError };
        if status.is_forbidden() || status.code == 401 {
            // Quota and admission plugins answer with 403 too; the message tells.
            Reason::Forbidden
        } else if status.is_invalid() && names_immutable_field(&status.message) {
            Reason::ImmutableFieldChanged
        } else if status.is_invalid() || status.code == 400 {
            Reason::InvalidSpec
        } else {
            Reason::ApiError
        }
    }

    /// Whether the same request may succeed a moment later without anybody doing anything.
    pub fn is_transient(&self) -> bool {
        match &self.source {
            kube::Error::Api(status) => {
                status.is_conflict() || status.is_already_exists() || status.code == 429 || status.code >= 500
            }
            _ => true,
        }
    }

    /// Whether what the request was about is not any more as it was read.
    pub fn is_conflict(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.is_conflict())
    }

    /// Whether the request was not sent because another process leads.
    pub fn is_not_leader(&self) -> bool {
        is_not_leader(&self.source)
    }
}

/// What went wrong, as a condition or a log line says it. The client's own text repeats the whole answer in the syntax of
/// Rust.
pub fn in_words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.trim().to_owned(),
        kube::Error::Api(status) => format!("the API server answered {}", status.code),
        other => other.to_string(),
    }
}

/// The words the API server uses when a field cannot be changed.
fn names_immutable_field(message: &str) -> bool {
    ["field is immutable", "Forbidden: updates to", "may not be changed", "cannot be changed"]
        .iter()
        .any(|words| message.contains(words))
}
