//! On how many members each row is.

use tf_plan::{
    node::cassandra::{Change, Facts},
    step::Step,
};

use super::{Seen, View};
use crate::procedure::ask;

/// The next thing to do so that each row is on so many members, or what that waits for; none if there is nothing to do.
pub fn next(count: usize, view: &View<'_>) -> Option<Result<Step, String>> {
    let Some(facts) = view.all_facts() else {
        let why = view.situation.fragile(&[]);
        return Some(Err(why.unwrap_or_else(|| "not all members tell how the ring is".to_owned())));
    };
    let (_, first) = facts.first()?;
    let step = first.keyspaces.iter().find_map(|(name, factor)| of_keyspace(name, *factor, count as u32, &facts))?;
    Some(match view.situation.fragile(&[]) {
        Some(why) => Err(format!("{}: {why}", step.explain())),
        None => Ok(step),
    })
}

fn of_keyspace(name: &str, factor: u32, count: u32, facts: &[(&Seen<'_>, &Facts)]) -> Option<Step> {
    let is_repaired = |(_, facts): &&(&Seen<'_>, &Facts)| facts.repaired.get(name) == Some(&factor);
    // Clients made it like that, and everybody was there.
    let is_untouched = |(_, facts): &&(&Seen<'_>, &Facts)| !facts.repaired.contains_key(name) && !facts.joined;
    let is_right = factor == count;
    if is_right && facts.iter().all(|it| is_untouched(&it)) {
        return None;
    }
    if let Some((seen, _)) = facts.iter().find(|it| !is_repaired(it)) {
        let why = format!("member {} on node {} repairs keyspace {name}", seen.member.id, seen.member.node);
        return Some(ask(seen.pod?, Change::Repair { keyspace: name.to_owned(), factor, routine: false }, why));
    }
    let to = match factor.cmp(&count) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Less => factor + 1,
        std::cmp::Ordering::Greater => factor - 1,
    };
    let why = format!("each row of keyspace {name} is to be on {to} members instead of {factor}");
    let (seen, _) = facts.first()?;
    Some(ask(seen.pod?, Change::Replicate { keyspace: name.to_owned(), from: factor, to }, why))
}
