//! What must hold on every status that is written. The runtime checks each write; tests check every status seen.

use super::{ConditionType, Contract, Reason};

/// A broken rule of the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Ready=True together with something that excludes it.
    #[error("Ready is True although {0}")]
    ReadyContradicted(&'static str),
    /// Stalled and Reconciling exclude each other.
    #[error("Stalled and Reconciling are both present")]
    StalledWhileReconciling,
    /// A condition that must always be there is missing.
    #[error("condition {0} is missing")]
    Missing(ConditionType),
    /// A condition that is only ever True says something else.
    #[error("condition {0} is present and not True")]
    AbnormalNotTrue(ConditionType),
    /// A condition's generation is ahead of the status or of the object.
    #[error("condition {0} carries a generation ahead of the status")]
    GenerationAhead(String),
    /// The status describes a generation that does not exist yet.
    #[error("observedGeneration {observed} is ahead of generation {generation}")]
    ObservedAhead {
        /// As written.
        observed: i64,
        /// Of the object.
        generation: i64,
    },
    /// A reason outside the catalogue.
    #[error("reason {0:?} is not in the catalogue")]
    UnknownReason(String),
    /// A condition type outside the catalogue.
    #[error("condition type {0:?} is not in the catalogue")]
    UnknownType(String),
    /// The list is not sorted by type, or a type appears twice.
    #[error("conditions are not sorted by type without repetition")]
    NotSorted,
    /// A member list of an endpoint is not sorted.
    #[error("nodes of endpoint {0} are not sorted")]
    EndpointNodesNotSorted(String),
}

/// Checks `contract` as the status of an object of the given `generation`.
///
/// # Errors
/// The first rule that does not hold.
pub fn check(contract: &Contract, generation: i64) -> Result<(), Violation> {
    check_generations(contract, generation)?;
    check_catalogue(contract)?;
    check_presence(contract)?;
    check_summary(contract, generation)?;
    for endpoint in &contract.endpoints {
        if !endpoint.nodes.is_sorted() {
            return Err(Violation::EndpointNodesNotSorted(endpoint.name.clone()));
        }
    }
    Ok(())
}

fn check_generations(contract: &Contract, generation: i64) -> Result<(), Violation> {
    let observed = contract.observed_generation;
    if observed > generation {
        return Err(Violation::ObservedAhead { observed, generation });
    }
    match contract.conditions.iter().find(|c| c.observed_generation.is_none_or(|g| g > observed)) {
        Some(condition) => Err(Violation::GenerationAhead(condition.type_.clone())),
        None => Ok(()),
    }
}

fn check_catalogue(contract: &Contract) -> Result<(), Violation> {
    for condition in &contract.conditions {
        if condition.reason.parse::<Reason>().is_err() {
            return Err(Violation::UnknownReason(condition.reason.clone()));
        }
        let Ok(kind) = condition.type_.parse::<ConditionType>() else {
            return Err(Violation::UnknownType(condition.type_.clone()));
        };
        if kind.is_abnormal_true() && condition.status != "True" {
            return Err(Violation::AbnormalNotTrue(kind));
        }
    }
    if !contract.conditions.is_sorted_by(|a, b| a.type_ < b.type_) {
        return Err(Violation::NotSorted);
    }
    Ok(())
}

fn check_presence(contract: &Contract) -> Result<(), Violation> {
    match ConditionType::ALWAYS.into_iter().find(|kind| status(contract, *kind).is_none()) {
        Some(kind) => Err(Violation::Missing(kind)),
        None => Ok(()),
    }
}

fn check_summary(contract: &Contract, generation: i64) -> Result<(), Violation> {
    let stalled = status(contract, ConditionType::Stalled).is_some();
    let reconciling = status(contract, ConditionType::Reconciling).is_some();
    if stalled && reconciling {
        return Err(Violation::StalledWhileReconciling);
    }
    if status(contract, ConditionType::Ready) != Some("True") {
        return Ok(());
    }
    let contradictions = [
        (status(contract, ConditionType::Available) != Some("True"), "Available is not True"),
        (contract.observed_generation != generation, "the status describes an older generation"),
        (stalled, "Stalled is present"),
        (reconciling, "Reconciling is present"),
        (status(contract, ConditionType::Degraded) != Some("False"), "Degraded is not False"),
    ];
    match contradictions.into_iter().find(|(found, _)| *found) {
        Some((_, what)) => Err(Violation::ReadyContradicted(what)),
        None => Ok(()),
    }
}

fn status(contract: &Contract, kind: ConditionType) -> Option<&str> {
    contract.conditions.iter().find(|c| c.type_ == kind.as_ref()).map(|c| c.status.as_str())
}
