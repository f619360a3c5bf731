//! What holds for every plan of every component, whatever the situation: [`check`]. Five laws have modules of their own:
//! what containers may do ([`security`]), that no field of a spec lies ([`fields`]), that no file has a key which nobody reads (`keys`), that
//! who sleeps loses nothing (`hibernation`), and that what cannot be seen is not taken for absent ([`unseen`]).

#![expect(clippy::panic, reason = "a broken law is a panicking test")]

pub mod fields;
mod hibernation;
mod keys;
pub mod security;
pub mod unseen;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tf_api::{Managed, Resource as _, names};
use tf_plan::{
    component::Component,
    not_ready::NotReady,
    object::{DAEMON_SET, Object, SECRET, STATEFUL_SET},
    observed::{Observed, Source},
    plan::Plan,
};

/// Values shorter than this appear by chance.
const SECRET_LENGTH: usize = 8;
/// So do made-up values that are shorter than this.
const MADE_UP_SECRET: usize = 12;
/// The API server's limit for a ConfigMap or Secret.
const OBJECT_LIMIT: usize = 1024 * 1024;
/// Kubernetes' recommended labels that every object of ours carries.
const RECOMMENDED: [&str; 5] =
    [names::LABEL_NAME, names::LABEL_INSTANCE, names::LABEL_COMPONENT, names::LABEL_PART_OF, names::LABEL_MANAGED_BY];

/// What must hold whatever the situation.
///
/// # Panics
/// When it does not hold.
pub fn check<C: Component>(name: &str, cr: &C::Cr, observed: &Observed<C::Cr>, result: &Result<Plan, NotReady>) {
    assert_eq!(C::plan(cr, observed), *result, "{name}: planning twice gives two results");
    assert_eq!(C::plan(cr, &reordered(observed)), *result, "{name}: the order of observed lists leaks into the plan");
    let declaration = C::declaration();
    let objects = match result {
        Ok(plan) => &plan.objects,
        Err(not_ready) => &not_ready.prepared,
    };
    for object in objects {
        let label = object.describe();
        let owned = declaration.owns(object.kind);
        assert!(owned, "{name}: {label} is of a kind that is not declared as owned");
        assert_eq!(object.body["metadata"]["name"], json!(object.name), "{name}: {label}");
        assert_eq!(object.body["apiVersion"], json!(object.kind.api_version()), "{name}: {label}");
        if object.kind.namespaced {
            assert_eq!(object.namespace.as_deref(), Some(cr.home()), "{name}: {label} is in another namespace");
            let uid = json!(cr.meta().uid.clone().unwrap_or_default());
            // What is in volumes outlives everybody (ADR 0056).
            let expected = if object.kind.is_kept() { json!(null) } else { uid };
            assert_eq!(
                object.body["metadata"]["ownerReferences"][0]["uid"], expected,
                "{name}: {label} has another owner"
            );
        }
        labels(&format!("{name}: {label}"), declaration.operator, object);
    }
    keys::check(name, objects);
    let Ok(plan) = result else { return };
    security::check(name, declaration.operator, plan);
    hibernation::check::<C>(name, cr, observed, plan);
    unseen::check::<C>(name, cr, observed, plan);
    no_secret_outside_of_secrets(name, cr, observed, plan);
}

/// What must hold of what is planned for inputs that were made up, or of the reason why nothing is. `secrets`: values that users or operators
/// keep secret, of which short ones may appear by chance. Returns the plan.
///
/// # Panics
/// When it does not hold.
pub fn sound(planned: impl Fn() -> Result<Plan, NotReady>, secrets: &[&str]) -> Option<Plan> {
    let hidden = |text: &str| secrets.iter().all(|secret| secret.len() < MADE_UP_SECRET || !text.contains(secret));
    let result = planned();
    assert_eq!(result, planned(), "planning twice gives two results");
    let plan = match result {
        Ok(plan) => plan,
        Err(not_ready) => {
            assert!(!not_ready.message.is_empty() && hidden(&not_ready.message), "{}", not_ready.message);
            return None;
        }
    };
    assert!(plan.notes.iter().chain(&plan.ignored).all(|text| hidden(text)), "a note tells a secret");
    let names: BTreeSet<_> = plan.objects.iter().map(|object| (object.kind, &object.name)).collect();
    assert_eq!(names.len(), plan.objects.len(), "two objects have one name");
    for object in &plan.objects {
        let label = object.describe();
        assert!(object.name.len() <= 63, "{label} has a long name");
        let text = object.body.to_string();
        assert!(text.len() < OBJECT_LIMIT, "{label} is too large");
        assert!(object.kind == SECRET || hidden(&text), "{label} holds a secret");
    }
    keys::check("made-up inputs", &plan.objects);
    Some(plan)
}

/// Every object carries the recommended labels, every built-in one those of the Go tf-operator too, and pods carry what
/// their workload selects.
fn labels(name: &str, operator: &str, object: &Object) {
    let labels = &object.body["metadata"]["labels"];
    for key in RECOMMENDED {
        let value = labels[key].as_str().unwrap_or_default();
        assert!((1..=63).contains(&value.len()), "{name} has {key}={value:?}");
    }
    assert_eq!(labels[names::LABEL_PART_OF], names::PART_OF, "{name}");
    assert_eq!(labels[names::LABEL_MANAGED_BY], operator, "{name}");
    if object.kind.group == tf_api::GROUP {
        return; // A resource of another operator, which labels what it makes of it.
    }
    let type_name = labels[names::LABEL_TYPE].as_str().unwrap_or_default();
    assert_eq!(labels[type_name], labels[names::LABEL_INSTANCE], "{name}: {labels}");
    assert_eq!(type_name, labels[names::LABEL_NAME], "{name}: {labels}");
    if matches!(object.kind, STATEFUL_SET | DAEMON_SET) {
        let selector = object.body["spec"]["selector"]["matchLabels"].as_object();
        let pod = &object.body["spec"]["template"]["metadata"]["labels"];
        assert!(selector.is_some_and(|selector| !selector.is_empty()), "{name} selects every pod");
        for (key, value) in labels.as_object().into_iter().chain(selector).flatten() {
            assert_eq!(pod[key], *value, "{name}: label {key} of its pods");
        }
    }
}

/// No secret value that the planner was given appears in anything but a Secret.
fn no_secret_outside_of_secrets<Cr: Managed>(name: &str, cr: &Cr, observed: &Observed<Cr>, plan: &Plan) {
    let values: Vec<&str> = observed
        .secrets
        .values()
        .flat_map(tf_plan::secret::SecretData::iter)
        .filter(|(key, value)| is_secret(key) && value.len() >= SECRET_LENGTH)
        .map(|(_, value)| value)
        .collect();
    let status =
        format!("{:?} {:?} {:?} {}", plan.drafts, plan.ignored, plan.notes, Value::Object(plan.own_status.clone()));
    for value in values {
        assert!(!status.contains(value), "{name}: a secret of {} is in the status", cr.title());
        for object in plan.objects.iter().filter(|object| object.kind != SECRET) {
            let text = object.body.to_string();
            assert!(!text.contains(value), "{name}: {} holds a secret", object.describe());
        }
    }
}

/// Keys of Secrets whose values are no secrets: names and addresses.
fn is_secret(key: &str) -> bool {
    !matches!(key, "user" | "username" | "vhost" | "type" | "provider" | "host" | "port" | "ca.crt" | "tls.crt")
}

fn reordered<Cr: Clone>(observed: &Observed<Cr>) -> Observed<Cr> {
    let mut observed = observed.clone();
    observed.siblings.reverse();
    for peers in observed.peers.values_mut() {
        if let Source::Known(peers) = peers {
            peers.reverse();
        }
    }
    observed
}
