//! On how many members each row is.

use jiff::{SignedDuration, Timestamp};
use tf_plan::{
    node::cassandra::{Change, Facts, Failed},
    step::Step,
};

use super::{Seen, View};
use crate::procedure::ask;

/// Until a repair is asked for again that did not succeed. It reads everything on every member.
const PAUSE: SignedDuration = SignedDuration::from_mins(2);

/// How long a member is not asked to repair since it just did not succeed in that. A clock that is far from the operator's counts for nothing.
pub fn pause(facts: &Facts, now: Timestamp) -> Option<SignedDuration> {
    let is_repair = |failed: &&Failed| matches!(failed.of, Change::Repair { routine: false, .. });
    let since = now.duration_since(facts.failed.as_ref().filter(is_repair)?.at);
    (since.abs() < PAUSE).then(|| PAUSE - since)
}

/// The next thing to do so that each row is on so many members, or what that waits for; none if there is nothing to do.
pub fn next(count: usize, view: &View<'_>) -> Option<Result<Step, String>> {
    let Some(facts) = view.all_facts() else {
        let why = view.situation.fragile(&[]);
        return Some(Err(why.unwrap_or_else(|| "not all members tell how the ring is".to_owned())));
    };
    let (_, first) = facts.first()?;
    let now = view.situation.now;
    let mut keyspaces = first.keyspaces.iter();
    let due = keyspaces.find_map(|(name, factor)| of_keyspace(name, *factor, count as u32, &facts, now))?;
    Some(due.and_then(|step| match view.situation.fragile(&[]) {
        Some(why) => Err(format!("{}: {why}", step.explain())),
        None => Ok(step),
    }))
}

fn of_keyspace(
    name: &str,
    factor: u32,
    count: u32,
    facts: &[(&Seen<'_>, &Facts)],
    now: Timestamp,
) -> Option<Result<Step, String>> {
    let is_repaired = |(_, facts): &&(&Seen<'_>, &Facts)| facts.repaired.get(name) == Some(&factor);
    // Clients made it like that, and everybody was there.
    let is_untouched = |(_, facts): &&(&Seen<'_>, &Facts)| !facts.repaired.contains_key(name) && !facts.joined;
    let is_right = factor == count;
    if is_right && facts.iter().all(|it| is_untouched(&it)) {
        return None;
    }
    let mut unrepaired = facts.iter().filter(|it| !is_repaired(it)).peekable();
    if let Some((next, _)) = unrepaired.peek() {
        let repair = Change::Repair { keyspace: name.to_owned(), factor, routine: false };
        let why =
            |seen: &Seen<'_>| format!("member {} on node {} repairs keyspace {name}", seen.member.id, seen.member.node);
        let failed = unrepaired.clone().find_map(|(seen, facts)| {
            let failed = facts.failed.as_ref().filter(|failed| failed.of == repair)?;
            pause(facts, now).map(|_| (seen, failed))
        });
        return Some(match failed {
            Some((seen, failed)) => Err(format!(
                "{}, which did not succeed and is tried again two minutes later: {}",
                why(seen),
                failed.why
            )),
            None => Ok(ask(next.pod?, repair, why(next))),
        });
    }
    let to = match factor.cmp(&count) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Less => factor + 1,
        std::cmp::Ordering::Greater => factor - 1,
    };
    let why = format!("each row of keyspace {name} is to be on {to} members instead of {factor}");
    let (seen, _) = facts.first()?;
    Some(Ok(ask(seen.pod?, Change::Replicate { keyspace: name.to_owned(), from: factor, to }, why)))
}
