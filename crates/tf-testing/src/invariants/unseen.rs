//! What cannot be seen is not taken for absent: while the resources of a kind cannot be listed there is no plan, or it is the same.

use tf_api::contract::{ConditionType::DependenciesReady, Draft, Reason};
use tf_plan::{
    component::Component,
    not_ready::Obstacle,
    object::CONFIG_MAP,
    observed::{Observed, Source, Unavailable},
    plan::Plan,
    registration::Registration,
};

/// Checks a plan against what comes of it with one kind less in sight, whichever it is, when it has been carried out.
///
/// # Panics
/// When it does not hold.
pub fn check<C: Component>(name: &str, cr: &C::Cr, observed: &Observed<C::Cr>, plan: &Plan) {
    let observed = remembering::<C>(cr, observed, plan);
    let declaration = C::declaration();
    let kinds = declaration.peers.iter().map(|peer| peer.kind.kind);
    for kind in kinds.filter(|kind| observed.peers(kind).is_ok()) {
        for reason in [Reason::Forbidden, Reason::ApiError] {
            let name = format!("{name} without {kind} in sight ({reason})");
            let why = Unavailable { reason, message: format!("nobody could look for {kind}") };
            let mut observed = observed.clone();
            observed.peers.insert(kind.to_owned(), Source::Unavailable(why.clone()));
            match C::plan(cr, &observed) {
                Ok(other) => {
                    let (before, after) = (objects(plan), objects(&other));
                    assert_eq!(before, after, "{name}: other objects");
                    assert_eq!(registered(plan), registered(&other), "{name}: another content of the config API");
                    assert_eq!(plan.endpoints, other.endpoints, "{name}: other endpoints");
                }
                Err(waiting) => {
                    assert_eq!((waiting.obstacle, waiting.reason), (Obstacle::Waiting, reason), "{name}");
                    assert!(waiting.message.contains(&why.message), "{name} is told by: {}", waiting.message);
                    assert!(waiting.prepared.is_empty(), "{name}: something is made");
                    let fails = |is: &dyn Fn(&Draft) -> bool| waiting.drafts.iter().any(|it| !it.is_true() && is(it));
                    assert!(fails(&|it| it.reason == reason), "{name}: {:?}", waiting.drafts);
                    // What is wrong with another one may come first there.
                    assert!(fails(&|it| it.kind == DependenciesReady), "{name}: {:?}", waiting.drafts);
                }
            }
        }
    }
}

/// The snapshot with the ConfigMaps of the plan that the component reads itself.
fn remembering<C: Component>(cr: &C::Cr, observed: &Observed<C::Cr>, plan: &Plan) -> Observed<C::Cr> {
    let mut observed = observed.clone();
    for name in C::references(cr).config_maps {
        let map = plan.objects.iter().find(|object| object.kind == CONFIG_MAP && object.name == name);
        let data = map.and_then(|map| serde_json::from_value(map.body["data"].clone()).ok());
        observed.config_maps.extend(data.map(|data| (name, data)));
    }
    observed
}

/// What the config API is told, where anybody can be told.
fn registered(plan: &Plan) -> Option<&Registration> {
    plan.registration.as_ref().filter(|registration| !registration.api.hosts.is_empty())
}

fn objects(plan: &Plan) -> Vec<(String, &serde_json::Value)> {
    plan.objects.iter().map(|object| (object.describe(), &object.body)).collect()
}
