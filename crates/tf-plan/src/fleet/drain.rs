//! From which nodes of a lane pods are evicted, so that another kernel module can be loaded there, and which take pods again.
//!
//! A taint of the Node says that it is under way ([`tf_api::names::TAINT_DRAIN`]), so a killed operator goes on where it was. The pod of a node that nothing uses any
//! more is replaced as on a node that a person has drained.

use super::{Drain, Lane, Member, Module, Size, View, Wave, size};

/// Adds to what is done with the pods of a lane.
pub(super) fn complete(wave: &mut Wave, lane: &Lane, view: &View<'_, '_>, members: &[Member<'_>]) {
    let strategy = &lane.strategy;
    let begun: Vec<&Member<'_>> = members.iter().filter(|member| (view.drained)(member.pod)).collect();
    for member in &begun {
        let Some(node) = member.pod.node.clone() else { continue };
        match due(view, member) {
            Some(module) if strategy.drains && module.used => wave.drains.push(Drain { node, begins: false }),
            // Its pod is replaced.
            Some(_) if strategy.drains => {}
            Some(_) => wave.drained.push(node),
            // Nothing is known of the module of a node whose agent does not answer.
            None if (view.status)(member.pod).is_some() && !member.is_away() => wave.drained.push(node),
            None => {}
        }
    }
    let is_quiet = wave.changes.is_empty() && wave.held.is_none();
    if !strategy.drains || !is_quiet {
        return;
    }
    let waiting =
        |it: &&Member<'_>| it.is_current() && !it.is_away() && !(view.drained)(it.pod) && due(view, it).is_some();
    let waiting: Vec<&Member<'_>> = members.iter().filter(waiting).collect();
    if waiting.is_empty() {
        return;
    }
    if let Some(why) = failed(view, members, strategy.max_failures) {
        wave.held = Some(format!("{} nodes wait for another kernel module: {why}", waiting.len()));
        return;
    }
    let Size { budget, missing } = size(strategy, &lane.workloads, view);
    let is_occupied = |member: &&Member<'_>| member.is_away() || (view.drained)(member.pod);
    let occupied = members.iter().filter(is_occupied).count() + missing;
    // The first node is changed alone.
    let is_proof = |member: &Member<'_>| {
        !member.is_away() && (view.status)(member.pod).is_some_and(|status| status.module.is_none())
    };
    let budget = if members.iter().any(is_proof) { budget } else { 1 };
    let key = strategy.topology_key.as_deref();
    let domain = |member: &Member<'_>| key.and_then(|key| (view.label)(member.pod, key));
    let now = begun.first().or_else(|| waiting.first()).map(|member| domain(member));
    let chosen = waiting.into_iter().filter(|member| Some(domain(member)) == now);
    let nodes = chosen.filter_map(|member| member.pod.node.clone()).take(budget.saturating_sub(occupied));
    wave.drains.extend(nodes.map(|node| Drain { node, begins: true }));
}

/// The module of a node that another pod would load again, if nothing used it.
fn due<'a>(view: &View<'a, '_>, member: &Member<'_>) -> Option<&'a Module> {
    let module = (view.status)(member.pod)?.module.as_ref()?;
    (module.reload && module.failed.is_none()).then_some(module)
}

/// Why no other node is drained: another module did not work on as many as the strategy says.
fn failed(view: &View<'_, '_>, members: &[Member<'_>], most: usize) -> Option<String> {
    let failed = |member: &Member<'_>| {
        let why = (view.status)(member.pod)?.module.as_ref()?.failed.as_ref()?;
        Some(format!("{}: {why}", member.pod.node.as_deref()?))
    };
    let failed: Vec<String> = members.iter().filter_map(failed).collect();
    let first = failed.first().filter(|_| failed.len() >= most)?;
    Some(format!(
        "it does not work on {} (maxFailures: {most}), first node {first}; correct it, or take the change back",
        failed.len()
    ))
}
