//! What a status says after passes of all kinds.

use tf_api::contract::{DaemonStatus, invariants};

use super::*;
use crate::plan::{Hibernation, Rollout};

fn plan_without_pods() -> Plan {
    let available = Draft::holds(ConditionType::Available, Reason::Succeeded, "all parts are");
    Plan { version: "1".into(), drafts: vec![available], ..Plan::default() }
}

fn given<'a>(previous: Option<&'a Contract>, outcome: Outcome<'a>) -> Inputs<'a> {
    const NONE: &BTreeMap<String, Workload> = &BTreeMap::new();
    Inputs {
        generation: 1,
        paused: false,
        previous,
        availability: Availability::Any,
        workloads: NONE,
        pods: &[],
        told: None,
        operator: "test",
        now: Timestamp::UNIX_EPOCH,
        outcome,
    }
}

fn assess_after(previous: Option<&Contract>, outcome: Outcome<'_>) -> Contract {
    let assessment = assess(&given(previous, outcome));
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
fn neither_a_workload_s_count_nor_its_pods_make_more_of_a_member_than_its_agent_says() {
    let pod = |name: &str, ready| Pod { name: name.into(), ready, ..Pod::default() };
    let (all, one_lost) = ([pod("a", true), pod("b", true)], [pod("a", true), pod("b", false)]);
    let silent = BTreeMap::from([("b".to_owned(), "its agent does not answer".to_owned())]);
    for (counted, pods, troubles, ready) in [
        (2, &all, BTreeMap::new(), 2),
        (2, &all, silent.clone(), 1),
        // The controller has not counted again since the node was lost.
        (2, &one_lost, silent.clone(), 1),
        (2, &one_lost, BTreeMap::new(), 1),
        (1, &one_lost, silent, 1),
        // The pod is seen before it is counted.
        (1, &all, BTreeMap::new(), 1),
    ] {
        let rollout = Rollout { workloads: Vec::new(), wanted: Some(2), selector: String::new() };
        let plan = Plan { rollout: Some(rollout), troubles, ..plan_without_pods() };
        let workload =
            Workload { name: "w".into(), current: true, wanted: 2, existing: 2, ready: counted, ..Workload::default() };
        let assessment = assess(&Inputs {
            workloads: &BTreeMap::from([("w".to_owned(), workload)]),
            pods,
            ..given(None, Outcome::Planned(&plan, &Applied::default()))
        });
        assert_eq!(assessment.contract.ready_replicas, Some(ready), "{counted}, {pods:?}");
        assert_eq!(status::is(&assessment.contract, ConditionType::WorkloadReady, "True"), ready == 2);
    }
}

#[test]
fn pods_that_the_api_server_refuses_are_the_cause_with_what_ends_it_and_degrade_after_three_minutes() {
    let said = |words: &str, began: Option<i64>| {
        let workload =
            Workload { name: "w".into(), current: true, wanted: 3, refusal: Some(words.into()), ..Workload::default() };
        let rollout = Rollout { workloads: Vec::new(), wanted: Some(3), selector: String::new() };
        let plan = Plan { rollout: Some(rollout), ..plan_without_pods() };
        let previous = began.map(|seconds| {
            let since = Timestamp::from_second(seconds).unwrap();
            let draft = Draft::fails(ConditionType::WorkloadReady, Reason::AdmissionDenied, "before");
            Contract { conditions: status::merge(&[], vec![draft], 1, since), ..Contract::default() }
        });
        let now = Timestamp::from_second(1_000).unwrap();
        assess(&Inputs {
            workloads: &BTreeMap::from([("w".to_owned(), workload)]),
            now,
            ..given(previous.as_ref(), Outcome::Planned(&plan, &Applied::default()))
        })
    };
    for (words, remedy) in [
        (
            "violates PodSecurity \"restricted:latest\": host namespaces (hostNetwork=true)",
            "label the namespace pod-security.kubernetes.io/enforce=privileged",
        ),
        ("exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2", "raise or delete that quota"),
        ("unable to validate against any security context constraint: []", "grant the ServiceAccount"),
        ("admission webhook \"policy.example.org\" denied the request: no", "change what refuses them"),
    ] {
        let first = said(words, None);
        let workload = status::draft(&first.contract, ConditionType::WorkloadReady).unwrap();
        assert_eq!((workload.is_true(), workload.reason), (false, Reason::AdmissionDenied));
        assert!(
            workload.message.starts_with(&format!("the API server refuses pods of w: {words}; {remedy}")),
            "{}",
            workload.message
        );
        assert!(workload.message.ends_with("; 0 of 3 members are ready"), "{}", workload.message);
        let ready = status::draft(&first.contract, ConditionType::Ready).unwrap();
        assert_eq!((ready.reason, &ready.message), (Reason::AdmissionDenied, &workload.message));
        assert!(status::is(&first.contract, ConditionType::Degraded, "False"));
        assert_eq!(first.again, Some(std::time::Duration::from_mins(3)));
    }
    assert_eq!(said("no", Some(900)).again, Some(std::time::Duration::from_secs(80)));
    let late = said("no", Some(820)).contract;
    let degraded = status::draft(&late, ConditionType::Degraded).unwrap();
    assert!(degraded.is_true() && degraded.message.contains("refuses pods of w: no"), "{}", degraded.message);
}

#[test]
fn members_that_serve_nobody_together_are_not_available_with_a_plan_and_without() {
    let pods = ["a", "b"].map(|name| Pod { name: name.into(), ready: true, ..Pod::default() });
    let workload =
        Workload { name: "w".into(), current: true, wanted: 2, existing: 2, ready: 2, ..Workload::default() };
    let workloads = BTreeMap::from([("w".to_owned(), workload)]);
    let previous = Contract { initialized: Some(true), replicas: Some(2), ..Contract::default() };
    let outage = || Some("no server takes writes".to_owned());
    let rollout = Rollout { workloads: Vec::new(), wanted: Some(2), selector: String::new() };
    let plan = Plan { rollout: Some(rollout), outage: outage(), ..Plan::default() };
    let invalid = NotReady::invalid(Reason::InvalidSpec, "a mistake");
    for (outcome, told) in [
        (Outcome::Planned(&plan, &Applied::default()), None),
        (Outcome::NotReady(&invalid), Some(AgentReport { outage: outage(), ..AgentReport::default() })),
    ] {
        let after = |ready: bool| {
            let pods = pods.clone().map(|pod| Pod { ready, ..pod });
            let given = Inputs {
                workloads: &workloads,
                pods: &pods,
                told: told.clone(),
                ..given(Some(&previous), outcome.clone())
            };
            status::draft(&assess(&given).contract, ConditionType::Available).unwrap()
        };
        let available = after(true);
        assert_eq!((available.is_true(), available.message.as_str()), (false, "no server takes writes"));
        assert_eq!(after(false).message, "0 of 2 members are ready");
    }
}

#[test]
fn who_is_not_ready_is_named_at_once_where_nothing_is_under_way_and_the_cause_when_it_is_known() {
    let pod = |name: &str, ready| Pod { name: name.into(), ready, ..Pod::default() };
    let workload =
        Workload { name: "w".into(), current: true, wanted: 3, existing: 3, ready: 3, ..Workload::default() };
    let told = |previous: Option<&Contract>, ready: [bool; 3], troubles| {
        let rollout = Rollout { workloads: Vec::new(), wanted: Some(3), selector: String::new() };
        let plan = Plan { rollout: Some(rollout), troubles, ..plan_without_pods() };
        let pods = [pod("a", ready[0]), pod("b", ready[1]), pod("c", ready[2])];
        let after = assess(&Inputs {
            workloads: &BTreeMap::from([("w".to_owned(), workload.clone())]),
            pods: &pods,
            ..given(previous, Outcome::Planned(&plan, &Applied::default()))
        });
        let ready = status::draft(&after.contract, ConditionType::Ready).map(|draft| draft.message);
        (after.contract, ready.unwrap_or_default())
    };
    let (begun, message) = told(None, [true, false, false], BTreeMap::new());
    assert_eq!(message, "1 of 3 members are ready", "a first bring-up explains it");
    let (fine, _) = told(Some(&begun), [true, true, true], BTreeMap::new());
    let (_, message) = told(Some(&fine), [true, false, false], BTreeMap::new());
    assert_eq!(message, "1 of 3 members are ready; not ready: b, c");
    let silent = BTreeMap::from([("b".to_owned(), "its agent does not answer".to_owned())]);
    let (_, message) = told(Some(&fine), [true, false, false], silent);
    assert_eq!(message, "1 of 3 members are ready; pod b: its agent does not answer");
}

#[test]
fn a_pod_that_serves_without_what_it_needs_is_ready_and_the_resource_is_not() {
    let rollout = Rollout { workloads: Vec::new(), wanted: Some(1), selector: String::new() };
    let shortages =
        BTreeMap::from([("a".to_owned(), "its api is not connected: Database:RabbitMQ (refused)".to_owned())]);
    let plan = Plan { rollout: Some(rollout), shortages, ..plan_without_pods() };
    let workload =
        Workload { name: "w".into(), current: true, wanted: 1, existing: 1, ready: 1, ..Workload::default() };
    let after = assess(&Inputs {
        workloads: &BTreeMap::from([("w".to_owned(), workload)]),
        pods: &[Pod { name: "a".into(), ready: true, ..Pod::default() }],
        ..given(None, Outcome::Planned(&plan, &Applied::default()))
    })
    .contract;
    assert_eq!(after.ready_replicas, Some(1));
    assert!(status::is(&after, ConditionType::Available, "True"));
    let ready = status::draft(&after, ConditionType::Ready).unwrap();
    assert_eq!((ready.is_true(), ready.reason), (false, Reason::DependencyUnreachable));
    assert_eq!(ready.message, "1 of 1 members are ready; pod a: its api is not connected: Database:RabbitMQ (refused)");
}

#[test]
fn what_the_others_lack_is_told_beside_the_member_that_is_lost() {
    let workload =
        Workload { name: "w".into(), current: true, wanted: 2, existing: 2, ready: 2, ..Workload::default() };
    let workloads = BTreeMap::from([("w".to_owned(), workload)]);
    let pods = ["a", "b"].map(|name| Pod { name: name.into(), ready: true, ..Pod::default() });
    let told = |previous: Option<&Contract>, troubles: &[(&str, &str)], shortages: &[(&str, &str)]| {
        let map = |of: &[(&str, &str)]| of.iter().map(|(pod, why)| ((*pod).to_owned(), (*why).to_owned())).collect();
        let rollout = Rollout { workloads: Vec::new(), wanted: Some(2), selector: String::new() };
        let plan =
            Plan { rollout: Some(rollout), troubles: map(troubles), shortages: map(shortages), ..plan_without_pods() };
        let planned = Outcome::Planned(&plan, &Applied::default());
        assess(&Inputs { workloads: &workloads, pods: &pods, ..given(previous, planned) }).contract
    };
    let well = told(None, &[], &[]);
    let lost = told(Some(&well), &[("b", "its agent does not answer")], &[("a", "its api is not connected: Redis")]);
    let ready = status::draft(&lost, ConditionType::Ready).unwrap();
    assert_eq!(ready.reason, Reason::ReplicasUnavailable);
    let both = "1 of 2 members are ready; pod b: its agent does not answer; pod a: its api is not connected: Redis";
    assert_eq!(ready.message, both);
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

/// A look at a plan for two members, so many seconds after the first one.
fn look(previous: Option<&Contract>, ready: i32, seconds: i64) -> Assessment {
    look_while(None, previous, ready, seconds)
}

/// The same while something is being done to the members.
fn look_while(under_way: Option<&str>, previous: Option<&Contract>, ready: i32, seconds: i64) -> Assessment {
    let rollout = Rollout { workloads: Vec::new(), wanted: Some(2), selector: String::new() };
    let plan = Plan { rollout: Some(rollout), under_way: under_way.map(str::to_owned), ..plan_without_pods() };
    let workload = Workload { name: "w".into(), current: true, wanted: 2, existing: 2, ready, ..Workload::default() };
    let assessment = assess(&Inputs {
        workloads: &BTreeMap::from([("w".to_owned(), workload)]),
        now: Timestamp::from_second(seconds).unwrap(),
        ..given(previous, Outcome::Planned(&plan, &Applied::default()))
    });
    invariants::check(&assessment.contract, 1).unwrap();
    assessment
}

/// When to look again, in seconds, and whether it is Ready and Degraded, with the reason and the message.
fn verdict(assessment: &Assessment) -> (Option<u64>, [bool; 2], Reason, String) {
    let is = |kind| status::is(&assessment.contract, kind, "True");
    let degraded = status::draft(&assessment.contract, ConditionType::Degraded).unwrap();
    let again = assessment.again.map(|again| again.as_secs());
    (again, [is(ConditionType::Ready), is(ConditionType::Degraded)], degraded.reason, degraded.message)
}

const IN_TIME: &str = "nothing is missing for longer than its deadline";

#[test]
fn a_roll_out_that_lasts_ten_minutes_is_degraded_from_then_on_until_it_is_complete() {
    let begun = look(None, 1, 0);
    assert_eq!(verdict(&begun), (Some(600), [false, false], Reason::Succeeded, IN_TIME.into()));
    let nearly = look(Some(&begun.contract), 1, 599);
    assert_eq!(verdict(&nearly), (Some(1), [false, false], Reason::Succeeded, IN_TIME.into()));
    let late = look(Some(&nearly.contract), 1, 600);
    let told = "for more than 10 minutes: 1 of 2 members are ready";
    assert_eq!(verdict(&late), (None, [false, true], Reason::RolloutTimedOut, told.into()));
    let complete = look(Some(&late.contract), 2, 601);
    assert_eq!(verdict(&complete), (None, [true, false], Reason::Succeeded, IN_TIME.into()));
}

#[test]
fn what_takes_longer_than_its_deadline_is_told_with_what_it_is() {
    let begun = look_while(Some("pod a repairs"), None, 2, 0);
    let late = look_while(Some("pod b repairs"), Some(&begun.contract), 2, 600);
    let told = "for more than 10 minutes: 2 of 2 members are ready; pod b repairs";
    assert_eq!(verdict(&late).3, told);
}

#[test]
fn a_member_that_is_missing_for_five_minutes_makes_the_resource_degraded_until_it_is_back() {
    let fine = look(Some(&look(None, 1, 0).contract), 2, 10);
    assert_eq!(verdict(&fine), (None, [true, false], Reason::Succeeded, IN_TIME.into()));
    // However long it was well before.
    let lost = look(Some(&fine.contract), 1, 10_000);
    assert_eq!(verdict(&lost), (Some(300), [false, false], Reason::Succeeded, IN_TIME.into()));
    let nearly = look(Some(&lost.contract), 1, 10_299);
    assert_eq!(verdict(&nearly), (Some(1), [false, false], Reason::Succeeded, IN_TIME.into()));
    let late = look(Some(&nearly.contract), 1, 10_300);
    let told = "for more than 5 minutes: 1 of 2 members are ready";
    assert_eq!(verdict(&late), (None, [false, true], Reason::ReplicasUnavailable, told.into()));
    let back = look(Some(&late.contract), 2, 10_301);
    assert_eq!(verdict(&back), (None, [true, false], Reason::Succeeded, IN_TIME.into()));
}

fn sleeping(
    previous: Option<&Contract>,
    wanted: i32,
    pods: &[Pod],
    outcome: Option<Outcome<'_>>,
    seconds: i64,
) -> Contract {
    let workloads = vec![("w".to_owned(), "t".to_owned())];
    let rollout = Rollout { workloads, wanted: Some(3), selector: String::new() };
    let plan = Plan { rollout: Some(rollout), hibernation: Hibernation::Asleep, ..Plan::default() };
    let workload = Workload { name: "w".into(), current: true, wanted, existing: wanted, ..Workload::default() };
    let applied = Applied::default();
    let assessment = assess(&Inputs {
        availability: Availability::Majority,
        workloads: &BTreeMap::from([("w".to_owned(), workload)]),
        pods,
        now: Timestamp::from_second(seconds).unwrap(),
        ..given(previous, outcome.unwrap_or(Outcome::Planned(&plan, &applied)))
    });
    invariants::check(&assessment.contract, 1).unwrap();
    assessment.contract
}

#[test]
fn who_sleeps_says_so_and_is_not_degraded_however_long_it_sleeps() {
    use ConditionType::{Available, Degraded, Hibernated, Progressing, Ready};
    let is = |contract: &Contract, kind, status| status::is(contract, kind, status);
    let awake = Contract { initialized: Some(true), observed_generation: 1, ..Contract::default() };
    let pods =
        [Pod { name: "w-0".into(), ready: true, terminating: true, template: Some("t".into()), ..Pod::default() }];
    let falling = sleeping(Some(&awake), 0, &pods, None, 0);
    assert!(is(&falling, Hibernated, "True") && is(&falling, Progressing, "True") && is(&falling, Available, "False"));
    let asleep = sleeping(Some(&falling), 0, &[], None, 60);
    let later = sleeping(Some(&asleep), 0, &[], None, 6_000_000);
    for contract in [&asleep, &later] {
        let ready = status::draft(contract, Ready).unwrap();
        assert_eq!((ready.status, ready.reason), (ConditionStatus::False, Reason::Hibernated));
        assert!(
            is(contract, Progressing, "False") && is(contract, Degraded, "False") && is(contract, Hibernated, "True")
        );
        assert_eq!((contract.replicas, contract.ready_replicas, contract.degraded), (Some(3), Some(0), Some(false)));
        assert_eq!(contract.initialized, Some(true));
    }
    // Passes that learn nothing do not wake it.
    let failed =
        sleeping(Some(&later), 0, &[], Some(Outcome::Failed(Reason::ApiError, "a request got lost")), 6_000_001);
    assert!(is(&failed, Hibernated, "True") && is(&failed, Degraded, "True") && is(&failed, Available, "False"));
}

#[test]
fn who_is_paused_before_it_sleeps_is_awake_and_says_that() {
    let awake = Contract { initialized: Some(true), observed_generation: 1, ..Contract::default() };
    let pod = |name: &str| Pod { name: name.into(), ready: true, template: Some("t".into()), ..Pod::default() };
    let pods = ["w-0", "w-1", "w-2"].map(pod);
    let contract = sleeping(Some(&awake), 3, &pods, None, 0);
    assert!(!status::is(&contract, ConditionType::Hibernated, "True"));
}

#[test]
fn members_that_serve_unregistered_are_ready_and_others_are_not() {
    let mut plan = plan_without_pods();
    plan.drafts.push(Draft::fails(ConditionType::Provisioned, Reason::ProvisioningFailed, "Keystone is away"));
    let assessed = |plan: &Plan| assess_after(None, Outcome::Planned(plan, &Applied::default()));
    let waits = assessed(&plan);
    assert!(status::is(&waits, ConditionType::Ready, "False"));
    plan.serves_unregistered = true;
    let serves = assessed(&plan);
    assert!(
        status::is(&serves, ConditionType::Ready, "True") && status::is(&serves, ConditionType::Provisioned, "False")
    );
}

/// Whatever keeps a plan from being made, daemons go on to hang and connections to get lost.
#[test]
fn what_agents_tell_is_told_without_a_plan() {
    let workload =
        Workload { name: "w".into(), current: true, wanted: 2, existing: 2, ready: 2, ..Workload::default() };
    let workloads = BTreeMap::from([("w".to_owned(), workload)]);
    let pods = ["a", "b"].map(|name| Pod { name: name.into(), ready: true, ..Pod::default() });
    let daemon = |serving| DaemonStatus { name: "api".into(), wanted: 2, serving, ..DaemonStatus::default() };
    let previous = Contract {
        initialized: Some(true),
        observed_generation: 1,
        replicas: Some(2),
        daemons: vec![daemon(2)],
        ..Contract::default()
    };
    let assessed = |previous: &Contract, outcome: &Outcome<'_>, told: &Option<AgentReport>| {
        let given =
            Inputs { workloads: &workloads, pods: &pods, told: told.clone(), ..given(Some(previous), outcome.clone()) };
        let contract = assess(&given).contract;
        invariants::check(&contract, 1).unwrap();
        contract
    };
    let why = "its schema does not serve: no answer within 2500 ms";
    let told = Some(AgentReport {
        daemons: vec![daemon(1)],
        troubles: BTreeMap::from([("b".to_owned(), why.to_owned())]),
        shortages: BTreeMap::from([("a".to_owned(), "its api is not connected: Redis".to_owned())]),
        ..AgentReport::default()
    });
    let invalid = NotReady::invalid(Reason::InvalidSpec, "a mistake");
    let waiting = NotReady::waiting(Reason::DependencyNotFound, "a store is gone");
    for outcome in [
        Outcome::NotReady(&invalid),
        Outcome::NotReady(&waiting),
        Outcome::Failed(Reason::ApiError, "a request got lost"),
        Outcome::Deleting("what is left is taken out"),
    ] {
        let after = assessed(&previous, &outcome, &told);
        assert_eq!((after.ready_replicas, &after.daemons), (Some(1), &vec![daemon(1)]), "{outcome:?}");
        let workload = status::draft(&after, ConditionType::WorkloadReady).unwrap();
        let expected = format!("1 of 2 members are ready; pod b: {why}; pod a: its api is not connected: Redis");
        assert_eq!(workload.message, expected, "{outcome:?}");
        assert_eq!(assessed(&after, &outcome, &told), after, "the same again is no news: {outcome:?}");
        // What nobody can be asked about now is as it was.
        assert_eq!(assessed(&after, &outcome, &None).daemons, after.daemons, "{outcome:?}");
        assert!(
            assessed(&after, &outcome, &Some(AgentReport::default())).daemons.is_empty(),
            "there are none: {outcome:?}"
        );
    }
}
