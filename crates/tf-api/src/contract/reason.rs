//! The closed catalogue of condition reasons.

use serde_with::{DeserializeFromStr, SerializeDisplay};

/// Why a condition has its status. Machine readable and closed: a reader may switch on it, a metric may use it as a
/// label. The meaning of each is part of the API and never changes; adding one needs a line in `docs/status-contract.md`.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    strum::AsRefStr,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
    SerializeDisplay,
    DeserializeFromStr,
)]
pub enum Reason {
    /// As it should be.
    Succeeded,
    /// Work is under way and nothing is wrong.
    Progressing,
    /// Members are being brought to the current template or configuration.
    RolloutInProgress,
    /// A roll-out made no progress within its deadline.
    RolloutTimedOut,
    /// Fewer members are ready than wanted.
    ReplicasUnavailable,
    /// A daemon of which one process has to be elected has had no leader for longer than a handover takes.
    NoLeader,
    /// `status.members` and the volumes of members contradict each other.
    MembersUnclear,
    /// Nothing has been observed yet.
    NotYetReported,
    /// The spec cannot be carried out as it is.
    InvalidSpec,
    /// The API server refused to change an immutable field.
    ImmutableFieldChanged,
    /// A Secret named by the spec does not exist.
    SecretNotFound,
    /// A Secret lacks a key, or its content does not parse or is refused by whom it is for.
    SecretInvalid,
    /// A ConfigMap named by the spec does not exist.
    ConfigMapNotFound,
    /// No dependency is named and none can be chosen.
    DependencyNotConfigured,
    /// The dependency does not exist.
    DependencyNotFound,
    /// The dependency exists and is not Ready.
    DependencyNotReady,
    /// The dependency served and does not now.
    DependencyUnavailable,
    /// The dependency has not observed its current generation yet.
    DependencyStale,
    /// An external endpoint does not answer.
    DependencyUnreachable,
    /// The dependency speaks a contract version this operator does not know.
    ContractUnsupported,
    /// The resource definition of a kind is not installed.
    #[strum(serialize = "CRDMissing")]
    CrdMissing,
    /// The API server denied the request.
    Forbidden,
    /// Admission refuses an object or its pods: Pod Security, a quota, a policy, a webhook.
    AdmissionDenied,
    /// The API server failed.
    #[strum(serialize = "APIError")]
    ApiError,
    /// A certificate has been requested and not been issued yet.
    CertificatePending,
    /// A certificate is inside its renewal window and not renewed.
    CertificateExpiring,
    /// A certificate has expired.
    CertificateExpired,
    /// Files of a node with a certificate are missing or cannot be used.
    CertificateInvalid,
    /// Registration in the config API has not been done yet.
    ProvisioningPending,
    /// Registration in the config API failed.
    ProvisioningFailed,
    /// A member is being drained.
    DrainInProgress,
    /// Data is being moved or repaired.
    DataMigrationRunning,
    /// The step from the running release to the wanted one is not allowed now.
    UpgradeBlocked,
    /// The wanted release is lower than the running one.
    DowngradeUnsupported,
    /// Reconciling is suspended.
    Paused,
    /// Its servers are stopped, as the resource asks.
    Hibernated,
    /// The resource is being deleted.
    Deleting,
    /// The component was not asked for.
    NotRequested,
    /// No node matches the placement of the resource.
    NoMatchingNodes,
    /// An object of the planned name belongs to somebody else.
    ObjectNotOwned,
    /// Another field manager holds a field with another value.
    FieldConflict,
    /// The spec sets fields that cannot have an effect.
    NoEffect,
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::Reason;

    #[test]
    fn every_reason_is_a_valid_condition_reason() {
        for reason in Reason::VARIANTS {
            let text = reason.as_ref();
            assert!(text.chars().next().is_some_and(|c| c.is_ascii_uppercase()), "{text}");
            assert!(text.chars().all(|c| c.is_ascii_alphanumeric()), "{text}");
            assert_eq!(text.parse::<Reason>(), Ok(*reason));
        }
    }
}
