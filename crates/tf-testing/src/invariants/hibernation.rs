//! Who sleeps loses nothing: a resource that hibernates keeps its members and every object but its pods, has nothing done to it, and is
//! what it was when it wakes. One that cannot says so.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tf_api::{Managed, contract::MemberStatus, names::ANNOTATION_HIBERNATE};
use tf_plan::{
    component::Component,
    object::{Object, STATEFUL_SET},
    observed::{Observed, Source},
    plan::{Hibernation, Plan},
};

/// Checks a plan of a resource that is awake, or asleep already.
pub fn check<C: Component>(name: &str, cr: &C::Cr, observed: &Observed<C::Cr>, plan: &Plan) {
    let (awake, asleep) = (annotated(cr, false), annotated(cr, true));
    let recorded = cr.contract().map(|contract| contract.members.clone()).unwrap_or_default();
    let Ok(sleeping) = C::plan(&asleep, observed) else {
        panic!("{name}: the annotation {ANNOTATION_HIBERNATE} takes the plan away");
    };
    match &sleeping.hibernation {
        Hibernation::Awake => {
            assert!(sleeping.ignored.iter().any(|why| why.contains(ANNOTATION_HIBERNATE)), "{name}: it is not told");
            return;
        }
        Hibernation::Held(_, why) => {
            let held = sleeping.held.as_ref().is_some_and(|(_, held)| held.contains(why.as_str()));
            assert!(held, "{name}: why it does not sleep is not told: {why}");
            assert_eq!(without_pods(&sleeping.objects).1, without_pods(&plan.objects).1, "{name}: its pods changed");
            return;
        }
        Hibernation::Asleep => sleeps(name, &sleeping, &recorded),
    }
    let night = night::<C>(observed);
    let same = C::plan(&asleep, &night).unwrap_or_else(|why| panic!("{name}: it sleeps and has no plan: {why:?}"));
    sleeps(name, &same, &recorded);
    // Others come and go, or are configured otherwise, when it is awake.
    let Ok(before) = C::plan(&awake, observed) else { panic!("{name}: it has no plan when it is awake") };
    if before.held.as_ref().is_some_and(|(_, why)| why.contains(ANNOTATION_HIBERNATE)) {
        return; // What it says that it does while it sleeps is not what it was.
    }
    assert_eq!(without_pods(&same.objects), without_pods(&sleeping.objects), "{name}: it changes while it sleeps");
    let Ok(after) = C::plan(&awake, &night) else { panic!("{name}: it does not wake") };
    if before.members == recorded && before.own_status == sleeping.own_status {
        assert_eq!(without_pods(&sleeping.objects).0, without_pods(&before.objects).0, "{name}: it lost something");
        assert_eq!(after.members, recorded, "{name}: it wakes with other members");
        assert_eq!(after.objects, before.objects, "{name}: it wakes as something else");
    }
}

/// What holds of one that sleeps.
fn sleeps(name: &str, plan: &Plan, recorded: &[MemberStatus]) {
    assert_eq!(plan.members, recorded, "{name}: somebody came or went while it slept");
    assert!(plan.step.is_none() && plan.under_way.is_none() && plan.troubles.is_empty(), "{name}: something is done");
    let pods = without_pods(&plan.objects).1;
    assert!(!pods.is_empty() && pods.iter().all(|pods| *pods == json!(0)), "{name}: it has pods: {pods:?}");
}

/// The objects without their numbers of pods, and those.
fn without_pods(objects: &[Object]) -> (Vec<Object>, Vec<Value>) {
    let mut pods = Vec::new();
    let mut objects = objects.to_vec();
    for object in objects.iter_mut().filter(|object| object.kind == STATEFUL_SET) {
        pods.push(object.body["spec"]["replicas"].take());
    }
    (objects, pods)
}

fn annotated<Cr: Managed>(cr: &Cr, hibernates: bool) -> Cr {
    let mut cr = cr.clone();
    let annotations = cr.meta_mut().annotations.get_or_insert_default();
    annotations.remove(ANNOTATION_HIBERNATE);
    if hibernates {
        annotations.insert(ANNOTATION_HIBERNATE.to_owned(), "true".to_owned());
    }
    cr
}

/// The same world when nobody is awake any more.
fn night<C: Component>(observed: &Observed<C::Cr>) -> Observed<C::Cr> {
    let mut night = Observed { pods: Source::Known(Vec::new()), agents: BTreeMap::new(), ..observed.clone() };
    for workload in night.workloads.values_mut() {
        (workload.wanted, workload.existing, workload.ready) = (0, 0, 0);
    }
    night
}
