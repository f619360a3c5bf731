//! Merging conditions, and telling whether a new status is worth a write.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::Value;
use tf_api::{
    Managed,
    contract::{ConditionStatus, ConditionType, Contract, Draft},
};

/// Longest message the API server accepts for a condition.
const MESSAGE_LIMIT: usize = 32_768;

/// Turns drafts into conditions. A condition keeps its transition time unless its status flips; the list is sorted by
/// type; conditions that have no draft are gone.
pub fn merge(previous: &[Condition], drafts: Vec<Draft>, generation: i64, now: Timestamp) -> Vec<Condition> {
    let mut merged: Vec<Condition> = drafts
        .into_iter()
        .map(|draft| {
            let before = previous.iter().find(|condition| condition.type_ == draft.kind.as_ref());
            let unchanged = before.filter(|condition| condition.status == draft.status.as_ref());
            Condition {
                type_: draft.kind.to_string(),
                status: draft.status.to_string(),
                reason: draft.reason.to_string(),
                message: truncate(draft.message),
                observed_generation: Some(generation),
                last_transition_time: unchanged
                    .map_or(Time(whole_seconds(now)), |found| found.last_transition_time.clone()),
            }
        })
        .collect();
    merged.sort_by(|a, b| a.type_.cmp(&b.type_));
    merged.dedup_by(|a, b| a.type_ == b.type_);
    merged
}

/// Time as it is written into a status: the API server stores whole seconds, and fractions would make every comparison fail.
pub fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// How much of a span that began at this moment is left; none if it is over. Moments are by the clocks of nodes: one that is ahead by no more than the span
/// leaves all of it, and one that is further ahead says nothing.
pub fn remaining(span: Duration, began: Timestamp, now: Timestamp) -> Option<Duration> {
    let passed = now.duration_since(began);
    let is_ahead = passed.is_negative() && passed.unsigned_abs() <= span;
    let passed = if is_ahead { Duration::ZERO } else { passed.unsigned_abs() };
    span.checked_sub(passed).filter(|left| !left.is_zero())
}

fn truncate(mut message: String) -> String {
    if message.len() > MESSAGE_LIMIT {
        let end = message.floor_char_boundary(MESSAGE_LIMIT - 4);
        message.truncate(end);
        message.push_str(" ...");
    }
    message
}

/// Whether the condition has the given status.
pub fn is(contract: &Contract, kind: ConditionType, status: &str) -> bool {
    contract.conditions.iter().any(|condition| condition.type_ == kind.as_ref() && condition.status == status)
}

/// Since when the condition has the given status.
pub fn since(contract: &Contract, kind: ConditionType, status: ConditionStatus) -> Option<Timestamp> {
    contract
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind.as_ref() && condition.status == status.as_ref())
        .map(|condition| condition.last_transition_time.0)
}

/// A stored condition as a draft, if its type, status and reason are ones we know.
pub fn draft(contract: &Contract, kind: ConditionType) -> Option<Draft> {
    let condition = contract.conditions.iter().find(|condition| condition.type_ == kind.as_ref())?;
    Some(Draft {
        kind,
        status: condition.status.parse().ok()?,
        reason: condition.reason.parse().ok()?,
        message: condition.message.clone(),
    })
}

/// Whether the resource was Ready, for its current generation, when it was last looked at.
pub fn is_ready(cr: &impl Managed) -> bool {
    cr.contract().is_some_and(|contract| {
        contract.observed_generation == cr.meta().generation.unwrap_or_default()
            && draft(contract, ConditionType::Ready).is_some_and(|ready| ready.is_true())
    })
}

/// How much two statuses differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Not at all, apart from times.
    None,
    /// In what is there for people to read: counts, texts, reasons, states of single parts. It may wait a little.
    Minor,
    /// In the same, of a resource that fails: people look for the cause.
    Explanation,
    /// In something others act on.
    Major,
}

/// Compares two statuses given as JSON.
pub fn change(before: &Value, after: &Value) -> Change {
    if without_times(before) == without_times(after) {
        return Change::None;
    }
    match (acted_on(before), acted_on(after)) {
        (Some(before), Some(after)) if before == after && fails(&after) => Change::Explanation,
        (Some(before), Some(after)) if before == after => Change::Minor,
        _ => Change::Major,
    }
}

/// Whether the resource is not Ready, without a roll-out that explains it.
fn fails(status: &Contract) -> bool {
    is(status, ConditionType::Ready, "False") && is(status, ConditionType::Progressing, "False")
}

fn without_times(status: &Value) -> Value {
    let mut status = status.clone();
    let Some(fields) = status.as_object_mut() else { return status };
    fields.retain(|_, value| !value.is_null());
    for condition in fields.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastTransitionTime");
        }
    }
    status
}

/// The part of a status that other programs act on: the contract without what shows progress, and of the conditions the status
/// of those that every kind has or that tell of a fault. None for a status that cannot be read.
fn acted_on(status: &Value) -> Option<Contract> {
    let mut contract: Contract = serde_json::from_value(status.clone()).ok()?;
    contract.ready_replicas = None;
    contract.members_ready = None;
    contract.degraded = None;
    contract.nodes.clear();
    contract.daemons.clear();
    let general = |kind: &str| {
        ConditionType::ALWAYS.iter().chain(&ConditionType::ABNORMAL_TRUE).any(|general| general.as_ref() == kind)
    };
    contract.conditions.retain(|condition| general(&condition.type_));
    for condition in &mut contract.conditions {
        condition.reason.clear();
        condition.message.clear();
        condition.last_transition_time = Time(Timestamp::UNIX_EPOCH);
    }
    Some(contract)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(change: impl Fn(&mut Value)) -> Value {
        let condition = |kind: &str, status: &str| {
            json!({
                "type": kind, "status": status, "reason": "Succeeded", "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-11-21T10:00:00Z",
            })
        };
        let mut status = json!({
            "contract": "v1", "observedGeneration": 1, "readyReplicas": 1, "replicas": 3, "kindOfOurs": 1,
            "conditions": [condition("Available", "True"), condition("CassandraReady", "True")],
        });
        change(&mut status);
        status
    }

    #[test]
    fn what_others_act_on_is_written_at_once_and_what_people_read_may_wait() {
        let degree = |differ: &dyn Fn(&mut Value)| change(&status(|_| ()), &status(differ));
        assert_eq!(
            degree(&|status| status["conditions"][0]["lastTransitionTime"] = json!("2026-11-21T11:00:00Z")),
            Change::None
        );
        assert_eq!(degree(&|status| status["nodes"] = Value::Null), Change::None);

        assert_eq!(degree(&|status| status["conditions"][0]["reason"] = json!("Other")), Change::Minor);
        assert_eq!(degree(&|status| status["conditions"][0]["message"] = json!("more")), Change::Minor);
        assert_eq!(degree(&|status| status["conditions"][1]["status"] = json!("False")), Change::Minor);
        assert_eq!(degree(&|status| status["readyReplicas"] = json!(2)), Change::Minor);
        assert_eq!(degree(&|status| status["kindOfOurs"] = json!(2)), Change::Minor);

        assert_eq!(degree(&|status| status["conditions"][0]["status"] = json!("False")), Change::Major);
        assert_eq!(degree(&|status| status["conditions"][1]["type"] = json!("Stalled")), Change::Major);
        assert_eq!(degree(&|status| status["observedGeneration"] = json!(2)), Change::Major);
        assert_eq!(degree(&|status| status["endpoints"] = json!([{"name": "cql", "port": 9042}])), Change::Major);
    }

    #[test]
    fn what_explains_a_fault_is_told_apart_from_what_tells_of_progress() {
        let condition = |kind: &str, status: &str, message: &str| {
            json!({
                "type": kind, "status": status, "reason": "Any", "message": message, "observedGeneration": 1,
                "lastTransitionTime": "2026-11-21T10:00:00Z",
            })
        };
        let of = |progressing: &str, message: &str| {
            let conditions = [condition("Progressing", progressing, ""), condition("Ready", "False", message)];
            status(|status| status["conditions"] = json!(conditions))
        };
        assert_eq!(change(&of("True", "1 of 3"), &of("True", "2 of 3")), Change::Minor);
        assert_eq!(change(&of("False", "2 of 3"), &of("False", "2 of 3; pod a: no route")), Change::Explanation);
        assert_eq!(change(&of("False", "2 of 3"), &of("False", "2 of 3")), Change::None);
        assert_eq!(change(&of("False", "2 of 3"), &of("True", "2 of 3")), Change::Major);
    }

    #[test]
    fn a_first_status_and_one_in_place_of_an_unreadable_one_are_written_at_once() {
        assert_eq!(change(&Value::Null, &status(|_| ())), Change::Major);
        assert_eq!(change(&json!({"observedGeneration": "nonsense"}), &status(|_| ())), Change::Major);
    }
}
