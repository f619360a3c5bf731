//! One attempt to make the config API say what it shall, over one of its members: look, decide, call, and look again.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use tf_config_api::{
    call::{Call, Verdict},
    decide::{Decision, Wanted, decide},
};

use super::client::{Client, Unable, text};
use crate::metrics::Metrics;

/// Calls at the same time.
const AT_ONCE: usize = 8;
/// Looks at the API. Objects, references to them and the rest take three.
const LOOKS: usize = 6;
/// Failures that are told of one by one.
const TOLD: usize = 3;

/// What came of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// Everything is as it shall be.
    Done {
        /// What a person should know.
        notes: Vec<String>,
    },
    /// Something is not.
    Failed {
        /// What, and what can be done.
        why: String,
        /// So many of the wanted objects.
        missing: usize,
    },
}

/// What came of the calls of one decision.
#[derive(Default)]
struct Round {
    done: usize,
    /// Answers by which somebody else was faster, by what they are about.
    overtaken: BTreeMap<String, String>,
    stays: Vec<String>,
    failures: Vec<String>,
}

/// Makes an attempt.
///
/// # Errors
/// When this member of the API is of no use at the moment.
pub async fn attempt(client: &Client<'_>, wanted: &Wanted, metrics: &Metrics) -> Result<End, Unable> {
    let mut last = Round::default();
    for look in 1.. {
        let mut seen = Vec::new();
        for scope in &wanted.scopes {
            let listed = client.list(wanted, scope, &seen).await?;
            seen.extend(listed);
        }
        let decision = decide(wanted, &seen);
        let is_over = decision.waves.is_empty() || look == LOOKS || look > 1 && last.done == 0;
        if is_over {
            return Ok(conclude(decision, last));
        }
        last = Round::default();
        for wave in decision.waves {
            let answers = stream::iter(wave).map(|call| make(client, call, metrics)).buffer_unordered(AT_ONCE);
            for outcome in answers.collect::<Vec<_>>().await {
                let (call, outcome) = outcome?;
                match outcome {
                    Made::Done => last.done += 1,
                    Made::Overtaken(answer) => {
                        last.done += 1;
                        last.overtaken.insert(call.subject(), answer);
                    }
                    Made::Stays(status) => last.stays.push(format!(
                        "{} stays while others use it: {}",
                        call.subject(),
                        call.advice(status)
                    )),
                    Made::Failed(why) => last.failures.push(why),
                }
            }
        }
    }
    Ok(conclude(Decision::default(), last))
}

enum Made {
    Done,
    /// Somebody else was faster, or what it is about is not there: the answer.
    Overtaken(String),
    /// It stays: the answer had this status.
    Stays(u16),
    Failed(String),
}

async fn make(client: &Client<'_>, call: Call, metrics: &Metrics) -> Result<(Call, Made), Unable> {
    let request = call.request();
    let count = |outcome: &str| metrics.registration_calls.with_label_values(&[outcome]).inc();
    let answer = client.send(&request).await.inspect_err(|_| count("unanswered"))?;
    let status = answer.status.as_u16();
    let what = || format!("{} {}{}", request.method, client.url(), request.path);
    let made = match call.verdict(status) {
        Verdict::Done => {
            tracing::info!(method = request.method, path = request.path, what = call.subject(), "registered");
            count("done");
            Made::Done
        }
        Verdict::Changed => {
            count("changed");
            // Without the member that was asked: the same answer from another one is no news.
            let (path, subject, said) = (&request.path, call.subject(), text(&answer));
            let advice = call.advice(status);
            Made::Overtaken(format!("{} {path} for {subject}: {}: {said}; {advice}", request.method, answer.status))
        }
        Verdict::Stays => {
            count("refused");
            Made::Stays(status)
        }
        Verdict::Unable => {
            count("failed");
            return Err(Unable::Silent(format!("{}: {}: {}", what(), answer.status, text(&answer))));
        }
        Verdict::Unauthorised => {
            count("refused");
            return Err(Unable::Unauthorised(format!("{}: {}; {}", what(), answer.status, call.advice(status))));
        }
        Verdict::Refused => {
            count("refused");
            let (subject, said) = (call.subject(), text(&answer));
            Made::Failed(format!("{} for {subject}: {}: {said}; {}", what(), answer.status, call.advice(status)))
        }
    };
    Ok((call, made))
}

fn conclude(decision: Decision, last: Round) -> End {
    let Decision { waves, troubles, mut notes, missing } = decision;
    let mut failures = last.failures;
    failures.extend(troubles);
    let left: Vec<Call> = waves.into_iter().flatten().filter(|call| !may_stay(call)).collect();
    // It was not that somebody else did it: the answer says why it is still to be done.
    failures.extend(left.iter().filter_map(|call| last.overtaken.get(&call.subject()).cloned()));
    if failures.is_empty()
        && let Some(call) = left.first()
    {
        // Another member may not have heard of it yet.
        failures.push(format!("the config API does not show the change of {} yet; it is read again", call.subject()));
    }
    if failures.is_empty() {
        notes.extend(last.stays);
        return End::Done { notes: bounded(notes) };
    }
    End::Failed { why: bounded(failures).join("; "), missing: missing.max(1) }
}

/// The first of them, and how many more there are.
fn bounded(mut told: Vec<String>) -> Vec<String> {
    told.sort();
    let more = told.len().saturating_sub(TOLD);
    told.truncate(TOLD);
    told.extend((more > 0).then(|| format!("and {more} more")));
    told
}

fn may_stay(call: &Call) -> bool {
    matches!(call, Call::Delete { may_stay: true, .. })
}
