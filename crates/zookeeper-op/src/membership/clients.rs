//! From where clients that speak no TLS reach the members.
//!
//! The address for them is part of a server's entry in the list, and a server to which the list gives another one listens there
//! instead, while it serves. So this is a change of the list like others, of one member after the other.
//!
//! A door is closed when another is open: not before every pod is up to date, so that each server listens for clients that speak
//! TLS and each agent finds its server on the loopback address. The first entry that is changed makes the lists of all pods
//! outdated, so from then on only the pods' templates count. A door is opened before anything else is closed, and whatever
//! the pods are like.

use std::net::IpAddr;

use tf_agent_api::zookeeper::Server;
use tf_api::{contract::MemberStatus, kinds::PlainClients};

use super::{Change, Decision, Inputs, QuorumState, Step};

/// Corrects the address for clients of one member, if it has another than is wanted. `settled`: the membership is as wanted.
pub fn correct(inputs: &Inputs<'_>, view: &QuorumState<'_>, settled: bool, decision: &mut Decision) {
    let wrong: Vec<&MemberStatus> = listed(inputs, view)
        .filter(|(_, server)| !is_as_wanted(server, inputs.plain_clients))
        .map(|(member, _)| member)
        .collect();
    let Some(member) = wrong.first() else { return };
    if inputs.plain_clients == PlainClients::Everywhere || settled && may_close(inputs, view) {
        let (id, address, version) = (member.id, member.address.clone(), view.servers.version);
        decision.step = Some(Step::Add { id, address, version });
        return;
    }
    let ids: Vec<String> = wrong.iter().map(|member| member.id.to_string()).collect();
    decision.waits.push(format!(
        "clients without TLS still reach member {} from everywhere, until all members serve and are up to date",
        ids.join(", ")
    ));
}

/// Members that have a vote at the address they are recorded with. Others get the wanted entry with that.
fn listed<'a>(
    inputs: &'a Inputs<'_>,
    view: &'a QuorumState<'_>,
) -> impl Iterator<Item = (&'a MemberStatus, &'a Server)> {
    let stays = |member: &&MemberStatus| !inputs.leaving.contains_key(&member.id);
    let entry = |member: &'a MemberStatus| Some((member, view.servers.servers.get(&member.id)?));
    let is_current = |(member, server): &(&MemberStatus, &Server)| server.votes && server.address == member.address;
    view.recorded.iter().filter(stays).filter_map(entry).filter(is_current)
}

fn may_close(inputs: &Inputs<'_>, view: &QuorumState<'_>) -> bool {
    let has_begun = listed(inputs, view).any(|(_, server)| !is_as_wanted(server, PlainClients::Everywhere));
    let is_current = |change: Option<Change>| match change {
        None => true,
        Some(Change::Template | Change::Certificate) => false,
        Some(Change::Configuration | Change::HotReload | Change::UnderWay) => has_begun,
    };
    inputs.slots.iter().all(|slot| is_current(slot.change)) && view.fragile().is_none()
}

/// Whether a server's entry lets them in from where it shall. Addresses that others listed are not corrected otherwise.
pub fn is_as_wanted(server: &Server, wanted: PlainClients) -> bool {
    let is_loopback = server.client_address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match wanted {
        PlainClients::Node => is_loopback,
        PlainClients::Everywhere => !is_loopback || server.client_address == server.address,
    }
}
