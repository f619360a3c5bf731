//! Who is taken out of a ring, who is taken back, and who is waited for.

use std::collections::{BTreeMap, BTreeSet};

use cassandra_op::plan::plan;
use jiff::SignedDuration;
use serde_json::json;
use tf_agent_api::{
    cassandra::{Change, Facts, Failed, Peer},
    state,
};
use tf_api::Cassandra;
use tf_plan::{
    observed::{Node, Observed, Pod, Source},
    plan::Plan,
    step::{Request, Step},
};
use tf_testing::three::THREE;

use crate::ring::*;

#[test]
fn a_founder_whose_disk_was_emptied_takes_the_files_with_which_it_joins_before_it_is_taken_out_of_the_ring() {
    let unheard = |change: &dyn Fn(&mut Facts)| {
        let mut observed = settled();
        for (index, peer) in [(0, 1), (2, 1)] {
            let peers = &mut says(&mut observed, index).cassandra.as_mut().unwrap().peers;
            peers.insert(THREE[peer].1.parse().unwrap(), Peer { heard: Some(false), ..heard() });
        }
        let status = says(&mut observed, 1);
        status.daemons.get_mut("cassandra").unwrap().phase = state::Phase::BackOff;
        let mut facts = Facts { founds: true, ..Facts::default() };
        change(&mut facts);
        status.cassandra = Some(facts);
        if let Source::Known(pods) = &mut observed.pods {
            pods[1].ready = false;
        }
        planned(&observed)
    };
    let empty = unheard(&|_| {});
    assert!(matches!(&empty.step, Some(Step::Activate(target, _)) if target.uid == "pod-1"), "{empty:?}");
    assert_eq!(empty.own_status.get("leaving"), None);
    let full = unheard(&|facts| facts.has_served = true);
    assert_eq!((full.step, full.own_status.get("leaving")), (None, None), "it has its data");
    let new = unheard(&|facts| facts.founds = false);
    assert_eq!(new.own_status.get("leaving"), Some(&json!([2])));
}

#[test]
fn a_ring_of_more_members_than_do_any_good_is_refused() {
    let asked = |replicas| {
        let mut resource = resource();
        resource.spec.common_configuration.replicas = Some(replicas);
        plan(&resource, &settled()).map_err(|refused| refused.message)
    };
    assert!(asked(7).is_ok());
    let why = asked(8).unwrap_err();
    assert!(why.contains("replicas is 8") && why.contains("state 7 or less"), "{why}");
}

#[test]
fn a_majority_without_data_is_left_as_it_is_and_told_what_to_bring_back() {
    let without_and = |lost: &[usize], change: &dyn Fn(&mut Observed<Cassandra>)| {
        let mut observed = settled();
        for index in 0..3 {
            let facts = says(&mut observed, index).cassandra.as_mut().unwrap();
            for other in lost.iter().filter(|other| **other != index) {
                facts.peers.insert(THREE[*other].1.parse().unwrap(), Peer { heard: Some(false), ..heard() });
            }
        }
        for index in lost {
            let status = says(&mut observed, *index);
            status.daemons.get_mut("cassandra").unwrap().phase = state::Phase::BackOff;
            status.cassandra = Some(Facts::default());
            if let Source::Known(pods) = &mut observed.pods {
                pods[*index].ready = false;
            }
        }
        change(&mut observed);
        planned(&observed)
    };
    let without = |lost: &[usize]| without_and(lost, &|_| {});
    assert_eq!(without(&[1]).own_status.get("leaving"), Some(&json!([2])));
    let held = without(&[1, 2]);
    assert_eq!((held.own_status.get("leaving"), held.step), (None, None));
    let told = held.under_way.unwrap_or_default();
    assert!(told.contains("only 1 of 3 members serve") && told.contains("bring back nodes or disks of"), "{told}");
    let is_left = |left: bool| {
        without_and(&[1, 2], &move |observed| {
            says(observed, 2).cassandra = Some(Facts { has_served: true, left, owner: Some(3), ..Facts::default() });
            let first = says(observed, 0).cassandra.as_mut().unwrap();
            first.peers.remove(&THREE[2].1.parse().unwrap());
        })
    };
    assert_eq!(is_left(false).own_status.get("leaving"), None);
    assert_eq!(is_left(true).own_status.get("leaving"), Some(&json!([2])), "it handed over what it holds");
}

/// What is planned for a ring whose second member has an empty disk, where the others say this.
#[expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]
fn emptied(change: Said<'_>) -> Plan {
    let mut leaving = resource();
    let own = &mut leaving.status.as_mut().unwrap().own;
    (own.highest_id, own.leaving) = (Some(3), vec![2]);
    let mut observed = settled();
    for index in [0, 2] {
        let facts = says(&mut observed, index).cassandra.as_mut().unwrap();
        let peer = Peer { heard: Some(false), host_id: Some("lost".into()), ..heard() };
        facts.peers.insert(THREE[1].1.parse().unwrap(), peer);
        facts.keyspaces.insert("config_db_uuid".into(), 3);
        facts.repaired_without = Some(BTreeMap::new());
        change(index, facts);
    }
    let status = says(&mut observed, 1);
    status.daemons.get_mut("cassandra").unwrap().phase = state::Phase::BackOff;
    status.cassandra = Some(Facts::default());
    if let Source::Known(pods) = &mut observed.pods {
        pods[1].ready = false;
    }
    plan(&leaving, &observed).unwrap()
}

#[test]
fn those_that_stay_repair_with_each_other_before_one_that_cannot_come_back_is_taken_out() {
    let asked = |change: Said<'_>| match emptied(change).step {
        Some(Step::Ask(target, Request::Ring(change))) => Some((target.uid, change)),
        _ => None,
    };
    let ids = |id: &str| BTreeSet::from([id.to_owned()]);
    let change = || Change::RepairWithout { keyspace: "config_db_uuid".into(), factor: 3, absent: ids("lost") };
    let repair = Some(("pod-0".to_owned(), change()));
    let removal = Some(("pod-0".to_owned(), Change::Remove { host_id: "lost".into() }));
    let done = |of: &'static str| {
        move |index: usize, facts: &mut Facts| {
            let repaired = [("config_db_uuid".to_owned(), ids(of))].into();
            facts.repaired_without = (index == 2).then_some(repaired).or(facts.repaired_without.take());
        }
    };
    assert_eq!(asked(&|_, _| {}), repair);
    assert_eq!(asked(&done("lost")), removal, "each row is on every member, so one is enough");
    assert_eq!(asked(&done("another")), repair);
    assert_eq!(asked(&|_, facts| facts.repaired_without = None), removal, "agents that know no such repair");
    let of_two = |_: usize, facts: &mut Facts| facts.keyspaces.extend([("config_db_uuid".to_owned(), 2)]);
    assert_eq!(asked(&of_two), removal, "no row has two copies that are left");
    let failed = |ago: i64| {
        emptied(&move |index, facts| {
            let at = running().now - SignedDuration::from_secs(ago);
            facts.failed = (index == 0).then(|| Failed { of: change(), why: "damaged".into(), at });
        })
    };
    let held = failed(30);
    assert_eq!(held.step, None);
    let told = held.under_way.unwrap_or_default();
    assert!(told.contains("damaged") && told.contains("nodetool removenode lost"), "{told}");
    assert!(failed(130).step.is_some(), "it is tried again");
}

#[test]
fn a_member_that_cannot_join_is_taken_back_and_one_that_may_be_joining_is_waited_for() {
    let mut fewer = resource();
    fewer.spec.common_configuration.replicas = Some(2);
    let lowered = |phase| {
        let mut observed = settled();
        for index in 0..2 {
            let facts = says(&mut observed, index).cassandra.as_mut().unwrap();
            facts.peers.remove(&THREE[2].1.parse().unwrap());
            facts.keyspaces.insert("config_db_uuid".into(), 2);
        }
        let status = says(&mut observed, 2);
        status.daemons.get_mut("cassandra").unwrap().phase = phase;
        status.cassandra = Some(Facts::default());
        if let Source::Known(pods) = &mut observed.pods {
            pods[2].ready = false;
        }
        plan(&fewer, &observed).unwrap().own_status.get("leaving").cloned()
    };
    assert_eq!(lowered(state::Phase::BackOff), Some(json!([3])));
    assert_eq!(lowered(state::Phase::Running), None);
}

#[test]
fn a_server_that_does_not_tell_for_a_moment_is_no_change_that_goes_on() {
    let mut observed = settled();
    let unknown = Facts { unknown: Some("no answer within 1200 ms".into()), ..Facts::default() };
    says(&mut observed, 1).cassandra = Some(unknown);
    let plan = planned(&observed);
    assert_eq!((plan.step, plan.under_way), (None, None));
}

#[test]
fn who_could_not_hand_over_what_it_holds_begins_anew_when_no_other_one_is_away() {
    let stuck = |is_away: bool| {
        let mut fewer = resource();
        fewer.spec.common_configuration.replicas = Some(2);
        let own = &mut fewer.status.as_mut().unwrap().own;
        (own.highest_id, own.leaving) = (Some(3), vec![3]);
        let mut observed = settled();
        for index in 0..2 {
            let peers = &mut says(&mut observed, index).cassandra.as_mut().unwrap().peers;
            peers.insert(THREE[2].1.parse().unwrap(), Peer { state: Some("LEAVING".into()), ..heard() });
        }
        let failed = Failed { of: Change::Decommission, why: "no answer".into(), at: observed.now };
        says(&mut observed, 2).cassandra.as_mut().unwrap().failed = Some(failed);
        if let Source::Known(pods) = &mut observed.pods {
            pods[0].ready = !is_away;
        }
        plan(&fewer, &observed).unwrap()
    };
    let alone = stuck(false).step;
    assert!(matches!(&alone, Some(Step::Restart(target)) if target.uid == "pod-2"), "{alone:?}");
    let waits = stuck(true);
    assert_eq!(waits.step, None);
    let told = waits.under_way.unwrap_or_default();
    assert!(told.contains("starts again: the member on node cp1 does not serve"), "{told}");
}

#[test]
fn nobody_joins_while_pods_run_another_image_than_new_ones_would() {
    let mut more = resource();
    more.spec.common_configuration.replicas = Some(4);
    let grown = |image: Option<&str>| {
        let mut observed = settled();
        if let Source::Known(nodes) = &mut observed.nodes {
            let node = Node { name: "cp4".into(), address: Some("10.0.0.4".into()), ..nodes[0].clone() };
            nodes.push(node);
        }
        if let Source::Known(pods) = &mut observed.pods {
            pods[1].images.extend(image.map(|image| ("cassandra".to_owned(), image.to_owned())));
        }
        plan(&more, &observed).unwrap()
    };
    assert_eq!(grown(None).members.len(), 4);
    let waits = grown(Some("cassandra:earlier"));
    assert_eq!(waits.members.len(), 3);
    let told = waits.under_way.unwrap_or_default();
    assert!(told.contains("node cp4 is to join: pod") && told.contains("another image"), "{told}");
}

/// The third member has no pod on its node, which lost its label, and there is another one.
#[expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]
fn unlabelled(change: impl FnOnce(&mut Observed<Cassandra>)) -> Option<serde_json::Value> {
    let mut observed = settled();
    if let Source::Known(nodes) = &mut observed.nodes {
        let other = Node { name: "cp4".into(), address: Some("10.0.0.4".into()), ..nodes[0].clone() };
        nodes.push(other);
        nodes[2].labels.clear();
    }
    for index in 0..2 {
        let peers = &mut says(&mut observed, index).cassandra.as_mut().unwrap().peers;
        peers.insert(THREE[2].1.parse().unwrap(), Peer { heard: Some(false), ..heard() });
    }
    if let Source::Known(pods) = &mut observed.pods {
        pods[2] = Pod { node: None, ready: false, uid: "new".into(), certificate: None, ..pods[2].clone() };
    }
    change(&mut observed);
    planned(&observed).own_status.get("leaving").cloned()
}

#[test]
fn a_member_whose_pod_finds_its_node_again_is_not_taken_out_whatever_labels_that_has() {
    assert_eq!(unlabelled(|_| {}), None);
    let refused = unlabelled(|observed| {
        let Source::Known(pods) = &mut observed.pods else { panic!("they are known") };
        pods[2].trouble = Some("0/4 nodes are available".into());
    });
    assert_eq!(refused, Some(json!([3])));
    let gone = unlabelled(|observed| {
        let Source::Known(nodes) = &mut observed.nodes else { panic!("they are known") };
        nodes.remove(2);
    });
    assert_eq!(gone, Some(json!([3])));
}

#[test]
fn a_pod_whose_node_is_of_no_member_any_more_is_made_anew_where_a_member_waits_for_one() {
    let mut observed = settled();
    let template = planned(&observed).rollout.unwrap().workloads[0].1.clone();
    if let Source::Known(pods) = &mut observed.pods {
        for pod in pods.iter_mut() {
            pod.template = Some(template.clone());
        }
        // The member there left, since its node lost its label, and was struck off.
        (pods[2].node, pods[2].ready) = (Some("cp9".into()), false);
    }
    says(&mut observed, 2).cassandra = Some(Facts { left: true, ..Facts::default() });
    assert_eq!(planned(&observed).step, None, "its controller would put it there again");
    observed.workloads.get_mut(SET).unwrap().current = true;
    let plan = planned(&observed);
    assert!(matches!(&plan.step, Some(Step::Restart(target)) if target.uid == "pod-2"), "{:?}", plan.step);
}
