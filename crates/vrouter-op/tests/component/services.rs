//! What agents are configured with outlives whatever happens to the resources it came from.

use std::collections::BTreeMap;

use serde_json::json;
use tf_api::contract::{ConditionType, Reason};
use tf_plan::{
    object::CONFIG_MAP,
    observed::{Observed, Source, Unavailable},
};
use tf_testing::invariants::unseen;

use crate::world::{endpoint, files, observed, peer, plan, vrouter};

const MAP: &str = "vrouter1-vrouter-services";

/// A snapshot with the memory that a plan made of `before` leaves.
fn after(before: &Observed<tf_api::Vrouter>) -> Observed<tf_api::Vrouter> {
    let plan = plan(&vrouter(json!({})), before).expect("a plan");
    let map = plan.objects.iter().find(|object| object.kind == CONFIG_MAP && object.name == MAP).expect("the map");
    let data: BTreeMap<String, String> = serde_json::from_value(map.body["data"].clone()).expect("texts");
    Observed { config_maps: BTreeMap::from([(MAP.to_owned(), data)]), ..before.clone() }
}

fn agent(observed: &Observed<tf_api::Vrouter>) -> String {
    files(&plan(&vrouter(json!({})), observed).expect("a plan"))["contrail-vrouter-agent.conf.node"].clone()
}

#[test]
fn the_map_of_services_is_one_the_operator_reads_back() {
    let references = <vrouter_op::Component as tf_plan::component::Component>::references(&vrouter(json!({})));
    assert_eq!(references.config_maps, [MAP]);
}

#[test]
fn peers_that_cannot_be_read_for_a_moment_change_nothing() {
    let mut later = after(&observed());
    let before = agent(&later);
    for peers in later.peers.values_mut() {
        let message = "rights were taken away".to_owned();
        *peers = Source::Unavailable(Unavailable { reason: Reason::Forbidden, message });
    }
    assert_eq!(agent(&later), before);
    let drafts = plan(&vrouter(json!({})), &later).expect("a plan").drafts;
    let control = drafts.iter().find(|draft| draft.kind == ConditionType::ControlReady).expect("a condition");
    assert_eq!(control.reason, Reason::Forbidden);
}

/// An agent without control nodes is no harm at first, but who was told of some before may have lost the memory alone.
#[test]
fn who_remembers_nothing_waits_until_peers_can_be_seen() {
    let plan_of = |observed: &Observed<tf_api::Vrouter>| plan(&vrouter(json!({})), observed);
    unseen::check::<vrouter_op::Component>("vrouter", &vrouter(json!({})), &observed(), &plan_of(&observed()).unwrap());
    let mut blind = observed();
    let why = Unavailable { reason: Reason::ApiError, message: "nobody could look".to_owned() };
    blind.peers.insert("Control".into(), Source::Unavailable(why));
    assert_eq!(plan_of(&blind).unwrap_err().reason, Reason::ApiError);
}

#[test]
fn control_nodes_are_kept_when_their_resource_goes_and_collectors_are_not() {
    let mut later = after(&observed());
    later.peers.values_mut().for_each(|peers| *peers = Source::Known(Vec::new()));
    let agent = agent(&later);
    assert!(agent.contains("servers = 10.0.0.1:5269 10.0.0.2:5269 10.0.0.3:5269"));
    assert!(agent.contains("servers = 10.0.0.1:53 10.0.0.2:53 10.0.0.3:53"));
    assert!(!agent.contains("collectors ="));
}

#[test]
fn what_is_published_now_wins_over_what_is_remembered() {
    let mut later = after(&observed());
    let moved = peer("control1", vec![endpoint("xmpp", 5269, true, &["10.0.0.9"])]);
    later.peers.insert("Control".into(), Source::Known(vec![moved]));
    assert!(agent(&later).contains("servers = 10.0.0.9:5269\n"));
}

#[test]
fn remembering_is_a_fixed_point() {
    let once = after(&observed());
    assert_eq!(after(&once).config_maps, once.config_maps);
    let mut gone = once.clone();
    gone.peers.remove("Control");
    let again = after(&gone);
    assert_eq!(agent(&again), agent(&gone));
}
