//! From which nodes of a group pods are evicted, so that another kernel module can be loaded or another forwarder started there, and which take pods
//! again.
//!
//! A taint of the Node says that it is under way ([`tf_api::names::TAINT_DRAIN`]), so a killed operator goes on where it was. The pod of a node that nothing uses any
//! more is replaced as on a node that a person has drained.

use super::{Batch, Drain, Member, PodGroup, Size, View, size};

/// Adds to what is done with the pods of a group.
pub(super) fn complete(batch: &mut Batch, group: &PodGroup, view: &View<'_, '_>, members: &[Member<'_>]) {
    let strategy = &group.strategy;
    let begun: Vec<&Member<'_>> = members.iter().filter(|member| (view.drained)(member.pod)).collect();
    for member in &begun {
        let Some(node) = member.pod.node.clone() else { continue };
        match due(view, member) {
            Some(true) if strategy.drains => batch.drains.push(Drain { node, begins: false }),
            // Its pod is replaced.
            Some(false) if strategy.drains => {}
            Some(_) => batch.drained.push(node),
            // Nothing is known of a node whose agent does not answer.
            None if (view.status)(member.pod).is_some() && is_well(member) => batch.drained.push(node),
            None => {}
        }
    }
    let is_quiet = batch.changes.is_empty() && batch.held.is_none();
    if !strategy.drains || !is_quiet {
        return;
    }
    let waiting = |it: &&Member<'_>| is_well(it) && !(view.drained)(it.pod) && due(view, it).is_some();
    let waiting: Vec<&Member<'_>> = members.iter().filter(waiting).collect();
    if waiting.is_empty() {
        return;
    }
    if let Some(why) = failed(view, members, strategy.max_failures) {
        batch.held = Some(format!("{} nodes wait for another kernel module: {why}", waiting.len()));
        return;
    }
    let Size { budget, missing } = size(strategy, &group.workloads, view);
    let is_occupied = |member: &&Member<'_>| member.is_away() || (view.drained)(member.pod);
    let occupied = members.iter().filter(is_occupied).count() + missing;
    // The first node is changed alone.
    let is_proof = |it: &Member<'_>| (view.status)(it.pod).is_some() && is_well(it) && due(view, it).is_none();
    let budget = if members.iter().any(is_proof) { budget } else { 1 };
    let key = strategy.topology_key.as_deref();
    let domain = |member: &Member<'_>| key.and_then(|key| (view.label)(member.pod, key));
    let now = begun.first().or_else(|| waiting.first()).map(|member| domain(member));
    let chosen = waiting.into_iter().filter(|member| Some(domain(member)) == now);
    let nodes = chosen.filter_map(|member| member.pod.node.clone()).take(budget.saturating_sub(occupied));
    batch.drains.extend(nodes.map(|node| Drain { node, begins: true }));
}

fn is_well(member: &Member<'_>) -> bool {
    member.is_current() && !member.is_away()
}

/// Whether another pod on the node would load another module, or run another forwarder, if nothing used the vRouter; then, whether something does.
fn due(view: &View<'_, '_>, member: &Member<'_>) -> Option<bool> {
    let module = (view.status)(member.pod).and_then(|status| status.module.as_ref());
    let module = module.filter(|module| module.reload && module.failed.is_none());
    module.map(|module| module.used).or_else(|| member.waits.then_some(true))
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
