//! How generic tools (Flux, Helm 4, Argo-like ones) read a resource: the rules of kstatus for custom resources.
//!
//! After `kubernetes-sigs/cli-utils/pkg/kstatus/status` (docs/upstream/kubernetes.md#kstatus).

use serde_json::{Value, json};

/// What such a tool says about a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kstatus {
    /// It is being deleted.
    Terminating,
    /// Wait.
    InProgress,
    /// Waiting does not help.
    Failed,
    /// As the spec says.
    Current,
}

/// The first rule that applies decides.
pub fn kstatus(resource: &Value) -> Kstatus {
    let status = &resource["status"];
    if !resource["metadata"]["deletionTimestamp"].is_null() {
        return Kstatus::Terminating;
    }
    if status["observedGeneration"].is_i64() && status["observedGeneration"] != resource["metadata"]["generation"] {
        return Kstatus::InProgress;
    }
    let conditions = || status["conditions"].as_array().into_iter().flatten();
    for condition in conditions().filter(|condition| condition["status"] == "True") {
        match condition["type"].as_str() {
            Some("Reconciling") => return Kstatus::InProgress,
            Some("Stalled") => return Kstatus::Failed,
            _ => {}
        }
    }
    match conditions().find(|condition| condition["type"] == "Ready") {
        Some(ready) if ready["status"] != "True" => Kstatus::InProgress,
        // Without a Ready condition a resource counts as finished, too.
        _ => Kstatus::Current,
    }
}

#[test]
fn the_first_rule_that_applies_decides() {
    let resource = |status: Value| json!({"metadata": {"generation": 2}, "status": status});
    let conditions = |all: &[(&str, &str)]| {
        let all: Vec<Value> = all.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
        json!({"observedGeneration": 2, "conditions": all})
    };
    let cases = [
        (json!({}), Kstatus::Current),
        (json!({"observedGeneration": -1}), Kstatus::InProgress),
        (json!({"observedGeneration": 2}), Kstatus::Current),
        (conditions(&[("Ready", "True")]), Kstatus::Current),
        (conditions(&[("Ready", "Unknown")]), Kstatus::InProgress),
        (conditions(&[("Ready", "False"), ("Stalled", "True")]), Kstatus::Failed),
        (conditions(&[("Ready", "False"), ("Stalled", "False")]), Kstatus::InProgress),
        (conditions(&[("Ready", "True"), ("Reconciling", "True")]), Kstatus::InProgress),
        (conditions(&[("Stalled", "True"), ("Reconciling", "True")]), Kstatus::Failed),
    ];
    for (status, expected) in cases {
        assert_eq!(kstatus(&resource(status.clone())), expected, "{status}");
    }
    let terminating = json!({"metadata": {"generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(kstatus(&terminating), Kstatus::Terminating);
}
