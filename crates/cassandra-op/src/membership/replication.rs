//! On how many members each row is.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tf_agent_api::cassandra::{Change, Facts, Failed};
use tf_plan::step::Step;

use super::{MemberState, RingState};
use crate::procedure::ask;

/// Until a repair is asked for again that did not succeed. It reads everything on every member.
const PAUSE: SignedDuration = SignedDuration::from_mins(2);

/// How long a member is not asked to repair since it just did not succeed in that. A clock that is far from the operator's counts for nothing.
pub fn pause(facts: &Facts, now: Timestamp) -> Option<SignedDuration> {
    let is_repair =
        |failed: &&Failed| matches!(failed.of, Change::Repair { routine: false, .. } | Change::RepairWithout { .. });
    let since = now.duration_since(facts.failed.as_ref().filter(is_repair)?.at);
    (since.abs() < PAUSE).then(|| PAUSE - since)
}

/// The next thing to do so that each row is on so many members, or what that waits for; none if there is nothing to do.
pub fn next(count: usize, view: &RingState<'_>) -> Option<Result<Step, String>> {
    let Some(facts) = view.all_facts() else {
        let why = view.inputs.fragile(&[]);
        return Some(Err(why.unwrap_or_else(|| "not all members report the state of the ring".to_owned())));
    };
    let (_, first) = facts.first()?;
    let now = view.inputs.now;
    // The keyspace of users counts where a server's clients log in. One that takes its configuration later has to get that first: it is not asked to repair what it
    // does not report.
    let is_everywhere = |name: &String| facts.iter().all(|(_, facts)| facts.keyspaces.contains_key(name));
    let mut keyspaces = first.keyspaces.iter().filter(|(name, _)| is_everywhere(name));
    let due = keyspaces.find_map(|(name, factor)| of_keyspace(name, *factor, count as u32, &facts, now))?;
    Some(due.and_then(|step| match view.inputs.fragile(&[]) {
        Some(why) => Err(format!("{}: {why}", step.explain())),
        None => Ok(step),
    }))
}

fn of_keyspace(
    name: &str,
    factor: u32,
    count: u32,
    facts: &[(&MemberState<'_>, &Facts)],
    now: Timestamp,
) -> Option<Result<Step, String>> {
    let is_repaired = |(_, facts): &&(&MemberState<'_>, &Facts)| facts.repaired.get(name) == Some(&factor);
    // Clients made it like that, and everybody was there.
    let is_untouched = |(_, facts): &&(&MemberState<'_>, &Facts)| !facts.repaired.contains_key(name) && !facts.joined;
    let is_right = factor == count;
    if is_right && facts.iter().all(|it| is_untouched(&it)) {
        return None;
    }
    let unrepaired: Vec<_> = facts.iter().filter(|it| !is_repaired(it)).copied().collect();
    let change = Change::Repair { keyspace: name.to_owned(), factor, routine: false };
    if let Some(repair) = repair(&unrepaired, &change, &format!("repairs keyspace {name}"), now) {
        return Some(repair);
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

/// What makes copies alike on those that stay, before a member that cannot come back is taken out of the ring: the one in its place fetches each row from one of them, and a quorum of
/// these two would not find what the lost one and a third had acknowledged (ADR 0065). None if nothing is left to do.
pub fn without(lost: &MemberState<'_>, view: &RingState<'_>) -> Option<Result<Step, String>> {
    let host_id = view.unheard_id(lost)?;
    let gone = || view.all.iter().filter(|seen| view.is_lost(seen) && view.listed_by_others(seen) == Some(true));
    if let Some(heard) = gone().find(|seen| view.unheard_id(seen).is_none()) {
        return Some(Err(format!(
            "other members still see member {} on node {} as UP",
            heard.member.id, heard.member.node
        )));
    }
    let absent: BTreeSet<String> = gone().filter_map(|seen| view.unheard_id(seen)).map(str::to_owned).collect();
    let answering: Vec<_> = view.answering().collect();
    let ring = answering.len() + absent.len();
    // Agents of an earlier release know no such repair.
    let able: Vec<_> = answering.into_iter().filter(|(_, facts)| facts.repaired_without.is_some()).collect();
    let (_, first) = able.first()?;
    let of_keyspace = |(keyspace, factor): (&String, &u32)| {
        let has_repaired = |(_, facts): &&(&MemberState<'_>, &Facts)| {
            let without = facts.repaired_without.as_ref().and_then(|repaired| repaired.get(keyspace));
            without.is_some_and(|without| without.contains(host_id))
        };
        let factor = *factor as usize;
        // Where each row is on every one, the first that repairs makes all copies alike.
        let is_done = factor >= ring && able.iter().any(|it| has_repaired(&it));
        // Otherwise there may be a row of which no two copies are left.
        if is_done || factor < absent.len() + 2 {
            return None;
        }
        let left: Vec<_> = able.iter().filter(|it| !has_repaired(it)).copied().collect();
        let change =
            Change::RepairWithout { keyspace: keyspace.clone(), factor: factor as u32, absent: absent.clone() };
        let what = format!("repairs keyspace {keyspace} with the others that are there");
        let repair = repair(&left, &change, &what, view.inputs.now)?;
        Some(repair.map_err(|why| format!("{why}; nodetool removenode {host_id} does without it")))
    };
    first.keyspaces.iter().find_map(of_keyspace)
}

/// Has the first of these members repair, unless one of them did not succeed in that a moment ago. None if there is none.
fn repair(
    unrepaired: &[(&MemberState<'_>, &Facts)],
    change: &Change,
    what: &str,
    now: Timestamp,
) -> Option<Result<Step, String>> {
    let (next, _) = unrepaired.first()?;
    let why = |seen: &MemberState<'_>| format!("member {} on node {} {what}", seen.member.id, seen.member.node);
    let failed = unrepaired.iter().find_map(|(seen, facts)| {
        let failed = facts.failed.as_ref().filter(|failed| failed.of == *change)?;
        pause(facts, now).map(|_| (seen, failed))
    });
    Some(match failed {
        Some((seen, failed)) => {
            Err(format!("{}, which did not succeed and is tried again two minutes later: {}", why(seen), failed.why))
        }
        None => Ok(ask(next.pod?, change.clone(), why(next))),
    })
}
