//! `contract::invariants::check` finds each kind of broken status, and nothing in a sane one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use tf_api::contract::{
    ConditionStatus, ConditionType, Contract, Endpoint, Reason,
    invariants::{Violation, check},
};

const GENERATION: i64 = 7;

fn condition(kind: ConditionType, status: ConditionStatus) -> Condition {
    Condition {
        type_: kind.to_string(),
        status: status.to_string(),
        reason: Reason::Succeeded.to_string(),
        message: String::new(),
        observed_generation: Some(GENERATION),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// A service that is rolled out and serves.
fn sane() -> Contract {
    let mut contract = Contract { observed_generation: GENERATION, ..Contract::default() };
    for kind in ConditionType::ALWAYS {
        set(&mut contract, kind, !matches!(kind, ConditionType::Degraded | ConditionType::Progressing));
    }
    contract.endpoints.push(Endpoint {
        name: "cql".into(),
        nodes: vec!["10.0.0.1".into(), "10.0.0.2".into()],
        ..Endpoint::default()
    });
    contract
}

fn set(contract: &mut Contract, kind: ConditionType, status: impl Into<ConditionStatus>) {
    contract.conditions.retain(|condition| condition.type_ != kind.as_ref());
    contract.conditions.push(condition(kind, status.into()));
    contract.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}

/// The violation found after `spoil` was done to a sane status.
fn found(spoil: impl FnOnce(&mut Contract)) -> Result<(), Violation> {
    let mut contract = sane();
    spoil(&mut contract);
    check(&contract, GENERATION)
}

#[test]
fn a_sane_status_passes() {
    assert_eq!(check(&sane(), GENERATION), Ok(()));
    assert_eq!(found(|c| set(c, ConditionType::FieldsIgnored, true)), Ok(()));
    assert_eq!(
        found(|c| {
            set(c, ConditionType::Ready, false);
            set(c, ConditionType::Stalled, true);
        }),
        Ok(())
    );
}

#[test]
fn a_status_of_a_generation_that_does_not_exist_is_found() {
    assert_eq!(
        found(|c| c.observed_generation = GENERATION + 1),
        Err(Violation::ObservedAhead { observed: GENERATION + 1, generation: GENERATION })
    );
}

#[test]
fn a_condition_ahead_of_the_status_or_without_generation_is_found() {
    let ahead = Err(Violation::GenerationAhead("Available".into()));
    assert_eq!(found(|c| c.conditions[0].observed_generation = Some(GENERATION + 1)), ahead);
    assert_eq!(found(|c| c.conditions[0].observed_generation = None), ahead);
}

#[test]
fn reasons_and_types_outside_of_the_catalogue_are_found() {
    assert_eq!(found(|c| c.conditions[0].reason = "Whatever".into()), Err(Violation::UnknownReason("Whatever".into())));
    assert_eq!(found(|c| c.conditions[0].type_ = "Alive".into()), Err(Violation::UnknownType("Alive".into())));
}

#[test]
fn an_abnormal_condition_that_is_not_true_is_found() {
    for kind in ConditionType::ABNORMAL_TRUE {
        for status in [ConditionStatus::False, ConditionStatus::Unknown] {
            assert_eq!(found(|c| set(c, kind, status)), Err(Violation::AbnormalNotTrue(kind)));
        }
    }
}

#[test]
fn conditions_out_of_order_or_repeated_are_found() {
    assert_eq!(found(|c| c.conditions.reverse()), Err(Violation::NotSorted));
    assert_eq!(found(|c| c.conditions.insert(0, c.conditions[0].clone())), Err(Violation::NotSorted));
}

#[test]
fn a_condition_that_must_be_there_is_missed() {
    for kind in ConditionType::ALWAYS {
        let result = found(|c| c.conditions.retain(|condition| condition.type_ != kind.as_ref()));
        assert_eq!(result, Err(Violation::Missing(kind)));
    }
}

#[test]
fn stalled_and_reconciling_together_are_found() {
    let result = found(|c| {
        set(c, ConditionType::Ready, false);
        set(c, ConditionType::Stalled, true);
        set(c, ConditionType::Reconciling, true);
    });
    assert_eq!(result, Err(Violation::StalledWhileReconciling));
}

#[test]
fn ready_together_with_what_excludes_it_is_found() {
    let not_available = Err(Violation::ReadyContradicted("Available is not True"));
    assert_eq!(found(|c| set(c, ConditionType::Available, false)), not_available);
    assert_eq!(found(|c| set(c, ConditionType::Available, ConditionStatus::Unknown)), not_available);
    assert_eq!(
        found(|c| set(c, ConditionType::Stalled, true)),
        Err(Violation::ReadyContradicted("Stalled is present"))
    );
    assert_eq!(
        found(|c| set(c, ConditionType::Reconciling, true)),
        Err(Violation::ReadyContradicted("Reconciling is present"))
    );
    let not_fine = Err(Violation::ReadyContradicted("Degraded is not False"));
    assert_eq!(found(|c| set(c, ConditionType::Degraded, true)), not_fine);
    assert_eq!(found(|c| set(c, ConditionType::Degraded, ConditionStatus::Unknown)), not_fine);
    assert_eq!(
        check(&sane(), GENERATION + 1),
        Err(Violation::ReadyContradicted("the status describes an older generation"))
    );
}

#[test]
fn members_of_an_endpoint_out_of_order_are_found() {
    assert_eq!(found(|c| c.endpoints[0].nodes.reverse()), Err(Violation::EndpointNodesNotSorted("cql".into())));
}

fn any_status() -> impl Strategy<Value = ConditionStatus> {
    prop_oneof![Just(ConditionStatus::True), Just(ConditionStatus::False), Just(ConditionStatus::Unknown)]
}

/// Any mixture of the conditions that the summary depends on, near enough to a sane one that many pass.
fn any_contract() -> impl Strategy<Value = Contract> {
    let statuses = proptest::collection::vec(any_status(), ConditionType::ALWAYS.len());
    let abnormal = proptest::sample::subsequence(&ConditionType::ABNORMAL_TRUE, 0..=2);
    (statuses, abnormal, prop_oneof![3 => Just(GENERATION), 1 => 0..GENERATION]).prop_map(
        |(statuses, abnormal, observed)| {
            let mut contract = Contract { observed_generation: observed, ..Contract::default() };
            for (kind, status) in ConditionType::ALWAYS.into_iter().zip(statuses) {
                set(&mut contract, kind, status);
            }
            for kind in abnormal {
                set(&mut contract, kind, true);
            }
            for condition in &mut contract.conditions {
                condition.observed_generation = Some(observed);
            }
            contract
        },
    )
}

proptest! {
    /// The rule of the contract in its own words, over any mixture of conditions.
    #[test]
    fn a_status_that_passes_means_what_it_says(contract in any_contract()) {
        let status = |kind: ConditionType| {
            contract.conditions.iter().find(|c| c.type_ == kind.as_ref()).map(|c| c.status.as_str())
        };
        let ready = status(ConditionType::Ready) == Some("True");
        let stalled = status(ConditionType::Stalled);
        let reconciling = status(ConditionType::Reconciling);
        let sane = !(stalled.is_some() && reconciling.is_some())
            && (!ready
                || (status(ConditionType::Available) == Some("True")
                    && status(ConditionType::Degraded) == Some("False")
                    && contract.observed_generation == GENERATION
                    && stalled.is_none()
                    && reconciling.is_none()));
        prop_assert_eq!(check(&contract, GENERATION).is_ok(), sane);
    }
}
