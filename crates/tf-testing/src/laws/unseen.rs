//! What cannot be seen is not taken for absent: while the resources of a kind cannot be listed there is no plan, or it is the same.

use tf_api::contract::{ConditionType::DependenciesReady, Draft, Reason};
use tf_plan::{
    component::Component,
    observed::{Observed, Source, Unavailable},
    plan::{Obstacle, Plan},
};

/// Checks a plan against what comes of it with one kind less in sight, whichever it is.
///
/// # Panics
/// When it does not hold.
pub fn check<C: Component>(name: &str, cr: &C::Cr, observed: &Observed<C::Cr>, plan: &Plan) {
    for kind in C::declaration().peers.iter().map(|peer| peer.kind.kind) {
        for reason in [Reason::Forbidden, Reason::ApiError] {
            let name = format!("{name} without {kind} in sight ({reason})");
            let why = Unavailable { reason, message: format!("nobody could look for {kind}") };
            let mut observed = observed.clone();
            observed.peers.insert(kind.to_owned(), Source::Unavailable(why.clone()));
            match C::plan(cr, &observed) {
                Ok(other) => {
                    let (before, after) = (objects(plan), objects(&other));
                    assert_eq!(before, after, "{name}: other objects");
                    assert_eq!(plan.registration, other.registration, "{name}: another content of the config API");
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

fn objects(plan: &Plan) -> Vec<(String, &serde_json::Value)> {
    plan.objects.iter().map(|object| (object.describe(), &object.body)).collect()
}
