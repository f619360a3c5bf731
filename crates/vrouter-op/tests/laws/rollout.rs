//! One node at a time, whatever its group.

use serde_json::json;
use tf_api::Vrouter;
use tf_plan::observed::{Observed, Pod, Source, Workload};

use crate::world::{observed, plan, vrouter};

fn two_groups() -> Vrouter {
    vrouter(json!({"groups": [
        {"name": "a", "nodeSelector": {"tier": "a"}}, {"name": "b", "nodeSelector": {"tier": "b"}},
    ]}))
}

/// Two pods in each group: (ready, current) of a-1, a-2, b-1, b-2.
fn running(states: [(bool, bool); 4]) -> Observed<Vrouter> {
    let rollout = plan(&two_groups(), &observed()).expect("a plan").rollout.expect("workloads");
    let pods = states.iter().enumerate().map(|(index, (ready, current))| {
        let (workload, hash) = &rollout.workloads[index / 2];
        Pod {
            name: format!("{workload}-{index}"),
            uid: format!("uid-{index}"),
            ready: *ready,
            template: Some(if *current { hash.clone() } else { "old".into() }),
            ..Pod::default()
        }
    });
    let workloads = rollout.workloads.iter().map(|(name, _)| {
        (
            name.clone(),
            Workload { name: name.clone(), current: true, wanted: 2, existing: 2, ready: 2, ..Workload::default() },
        )
    });
    Observed { pods: Source::Known(pods.collect()), workloads: workloads.collect(), ..observed() }
}

fn restarted(states: [(bool, bool); 4]) -> Option<String> {
    plan(&two_groups(), &running(states)).expect("a plan").step.map(|step| step.target().uid.clone())
}

#[test]
fn groups_are_restarted_one_after_the_other() {
    assert_eq!(restarted([(true, false), (true, false), (true, false), (true, false)]).as_deref(), Some("uid-1"));
    assert_eq!(restarted([(true, true), (true, true), (true, false), (true, false)]).as_deref(), Some("uid-3"));
    assert_eq!(restarted([(true, true); 4]), None);
}

#[test]
fn a_node_that_is_down_in_one_group_holds_the_healthy_nodes_of_the_other() {
    assert_eq!(restarted([(true, false), (true, true), (false, true), (true, true)]), None);
}

#[test]
fn an_outdated_pod_that_is_down_goes_before_healthy_ones_of_any_group() {
    assert_eq!(restarted([(true, false), (true, false), (false, false), (true, true)]).as_deref(), Some("uid-2"));
}
