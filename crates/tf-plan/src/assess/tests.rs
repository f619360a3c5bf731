//! What a status says after passes of all kinds.

use tf_api::contract::invariants;

use super::*;

fn plan_without_pods() -> Plan {
    let available = Draft::holds(ConditionType::Available, Reason::Succeeded, "all parts are");
    Plan {
        objects: Vec::new(),
        rollout: None,
        members: Vec::new(),
        endpoints: Vec::new(),
        connection: None,
        discovery: None,
        version: "1".into(),
        drafts: vec![available],
        ignored: Vec::new(),
        notes: Vec::new(),
        held: None,
        under_way: None,
        troubles: BTreeMap::new(),
        own_status: Map::new(),
        record: &[],
        step: None,
    }
}

fn assess_after(previous: Option<&Contract>, outcome: Outcome<'_>) -> Contract {
    let assessment = assess(&Situation {
        generation: 1,
        paused: false,
        previous,
        availability: Availability::Any,
        workloads: &BTreeMap::new(),
        pods: &[],
        operator: "test",
        now: Timestamp::UNIX_EPOCH,
        outcome,
    });
    invariants::check(&assessment.contract, 1).unwrap();
    assessment.contract
}

#[test]
fn a_pass_that_fails_says_nothing_about_the_service_of_a_kind_without_pods() {
    let is = |contract: &Contract, kind, status| status::is(contract, kind, status);
    let fine = assess_after(None, Outcome::Planned(&plan_without_pods(), &Applied::default()));
    assert!(is(&fine, ConditionType::Ready, "True") && is(&fine, ConditionType::Available, "True"));
    for outcome in [Outcome::Started, Outcome::Failed(Reason::ApiError, "a request got lost")] {
        let after = assess_after(Some(&fine), outcome);
        assert!(is(&after, ConditionType::Ready, "False"));
        assert!(is(&after, ConditionType::Available, "True") && is(&after, ConditionType::WorkloadReady, "True"));
    }
}

#[test]
fn conditions_that_only_a_plan_knows_do_not_come_and_go_with_passes_that_have_none() {
    let mut plan = plan_without_pods();
    plan.drafts.push(Draft::fails(ConditionType::ZookeeperReady, Reason::DependencyNotFound, "there is none"));
    let applied = Applied::default();
    let before = assess_after(None, Outcome::Planned(&plan, &applied));
    let invalid = NotReady::invalid(Reason::InvalidSpec, "a mistake");
    let without_plan = [
        Outcome::Started,
        Outcome::Failed(Reason::ApiError, "a request got lost"),
        Outcome::NotReady(&invalid),
        Outcome::Deleting("removing what is left"),
    ];
    for outcome in without_plan {
        let after = assess_after(Some(&before), outcome);
        let kept = status::draft(&after, ConditionType::ZookeeperReady);
        assert_eq!(kept, status::draft(&before, ConditionType::ZookeeperReady));
    }
    let after = assess_after(Some(&before), Outcome::Planned(&plan_without_pods(), &applied));
    assert_eq!(status::draft(&after, ConditionType::ZookeeperReady), None, "a plan knows better");
}

#[test]
fn a_kind_with_pods_whose_workload_is_gone_is_not_available() {
    let fine = assess_after(None, Outcome::Planned(&plan_without_pods(), &Applied::default()));
    let ran = Contract { replicas: Some(3), ..fine };
    let after = assess_after(Some(&ran), Outcome::Failed(Reason::ApiError, "a request got lost"));
    assert!(status::is(&after, ConditionType::Available, "False"));
}

#[test]
fn fields_that_a_definition_does_not_have_are_told_and_hold_nothing_up() {
    let applied = Applied { unknown: vec!["Zookeeper a.spec.b".into()], ..Applied::default() };
    assert!(applied.is_complete());
    let mut plan = plan_without_pods();
    plan.ignored.push("spec.c".into());
    let after = assess_after(None, Outcome::Planned(&plan, &applied));
    assert!(status::is(&after, ConditionType::Ready, "True"));
    let told = status::draft(&after, ConditionType::FieldsIgnored).map(|draft| draft.message);
    assert_eq!(told.as_deref(), Some("spec.c; Zookeeper a.spec.b"));
}
