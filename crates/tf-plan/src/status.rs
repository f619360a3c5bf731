//! Merging conditions, and telling whether a new status is worth a write.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::Value;
use tf_api::contract::{ConditionStatus, ConditionType, Contract, Draft};

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

/// The API server stores whole seconds; writing fractions would make every comparison fail.
fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
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

/// How much two statuses differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Not at all, apart from times.
    None,
    /// In counts and texts only: progress that may wait a little.
    Minor,
    /// In something others act on.
    Major,
}

/// Fields that show progress and that nobody acts on.
const PROGRESS: [&str; 5] = ["readyReplicas", "membersReady", "nodes", "agents", "degraded"];

/// Compares two statuses given as JSON.
pub fn change(before: &Value, after: &Value) -> Change {
    if comparable(before, true) == comparable(after, true) {
        Change::None
    } else if comparable(before, false) == comparable(after, false) {
        Change::Minor
    } else {
        Change::Major
    }
}

fn comparable(status: &Value, with_progress: bool) -> Value {
    let mut status = status.clone();
    let Some(fields) = status.as_object_mut() else { return status };
    fields.retain(|_, value| !value.is_null());
    if !with_progress {
        fields.retain(|field, _| !PROGRESS.contains(&field.as_str()));
    }
    for condition in fields.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastTransitionTime");
            if !with_progress {
                condition.remove("message");
            }
        }
    }
    status
}
