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
        if is_of_admission(&status.message) {
            Reason::AdmissionDenied
        } else if status.is_forbidden() || status.code == 401 {
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

    /// Whether nothing can be made in the namespace any more, since it is being deleted (Kubernetes, admission plugin `NamespaceLifecycle`).
    pub fn is_in_leaving_namespace(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status)
            if status.is_forbidden() && status.message.contains("because it is being terminated"))
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

/// The words of admission: policies and webhooks answer with the code that they like (Kubernetes, "Dynamic Admission Control", "Validating Admission
/// Policy", "Resource Quotas", "Pod Security Admission"; OpenShift, "Managing security context constraints").
fn is_of_admission(message: &str) -> bool {
    [
        "ValidatingAdmissionPolicy '",
        "admission webhook \"",
        "violates PodSecurity",
        "exceeded quota: ",
        "failed quota: ",
        "unable to validate against any security context constraint",
    ]
    .iter()
    .any(|words| message.contains(words))
}

/// The words the API server uses when a field cannot be changed.
fn names_immutable_field(message: &str) -> bool {
    [
        "field is immutable",
        "is immutable after creation",
        "Forbidden: updates to",
        "may not be changed",
        "cannot be changed",
    ]
    .iter()
    .any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn reason(code: u16, kind: &str, message: &str) -> Reason {
        let status = Status::failure(message, kind).with_code(code);
        RequestError { doing: "applying".into(), source: kube::Error::Api(Box::new(status)) }.reason()
    }

    #[test]
    fn what_admission_denies_is_no_mistake_of_the_spec_and_no_lack_of_rights() {
        for (code, kind, message) in [
            (
                422,
                "Invalid",
                "statefulsets.apps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            ),
            (
                403,
                "Forbidden",
                "statefulsets.apps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            ),
            (403, "Forbidden", "admission webhook \"w.example.org\" denied the request: no"),
            (400, "BadRequest", "admission webhook \"w.example.org\" denied the request: no"),
            (
                403,
                "Forbidden",
                "secrets \"a\" is forbidden: exceeded quota: small, requested: secrets=1, used: secrets=1, limited: secrets=1",
            ),
        ] {
            assert_eq!(reason(code, kind, message), Reason::AdmissionDenied, "{message}");
        }
        let forbidden = "secrets is forbidden: User \"system:serviceaccount:tf:a\" cannot create resource \"secrets\"";
        assert_eq!(reason(403, "Forbidden", forbidden), Reason::Forbidden);
        assert_eq!(reason(422, "Invalid", "spec.replicas: Invalid value: -1"), Reason::InvalidSpec);
    }
}
