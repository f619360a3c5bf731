//! What the servers of a resource are to each other (ADR 0030).

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::{Map, Value};
use tf_agent_api::{launch::port, redis::Replication};
use tf_api::{
    Managed, Redis,
    contract::{MemberStatus, Reason},
    kinds::{RedisMode, RedisOwnStatus},
};
use tf_plan::{
    members::{Leaving, SizeRule},
    not_ready::NotReady,
    observed::Observed,
    placement::Placement,
    reports::Reports,
};

use crate::ports::Ports;

/// Members where nobody states a number: the fewest of whom more than half remain when one is lost.
const DEFAULT_SIZE: i32 = 3;
/// Fields of the status that have to be stored before anything is done.
pub const RECORD: [&str; 1] = ["mode"];

/// What the spec asks for.
///
/// # Errors
/// `InvalidSpec` when the members are something else already, or when so many cannot be that.
pub fn of(cr: &Redis) -> Result<RedisMode, NotReady> {
    let mode = cr.spec.service_configuration.mode.unwrap_or_default();
    let is_founded = cr.contract().is_some_and(|contract| !contract.members.is_empty());
    let founded = cr.status.as_ref().and_then(|status| status.own.mode).unwrap_or_default();
    if is_founded && founded != mode {
        return Err(NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "spec.serviceConfiguration.mode is {mode:?} and the members were founded as {founded:?}, which this release does \
                 not change; set it back to {founded:?}, or delete the resource and make it anew"
            ),
        ));
    }
    match cr.common().replicas {
        Some(replicas) if mode == RedisMode::Sentinel && (replicas < 3 || replicas % 2 == 0) => Err(NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "spec.commonConfiguration.replicas is {replicas}; in mode Sentinel more than half of the members decide \
                     who takes writes, so it has to be odd and at least 3"
            ),
        )),
        _ => Ok(mode),
    }
}

/// How many members there are where nobody states it.
pub fn size_rule(mode: RedisMode) -> SizeRule {
    match mode {
        // Clients on a node use the server beside them (docs/upstream/redis.md#servers).
        RedisMode::Independent => SizeRule::EveryNode,
        RedisMode::Sentinel => SizeRule::OddFrom(DEFAULT_SIZE),
    }
}

/// What becomes of a member that loses its node. Independent servers hold copies of what clients have. One of those that decide
/// together stays until another one can take its place: with fewer of them fewer would be more than half. Of those that are too many less than
/// half go at once, and the next ones when the Sentinels that stay count them no longer: those that remain have to be able to decide, and to have
/// what clients were told they have.
pub fn leaving(mode: RedisMode, cr: &Redis, observed: &Observed<Redis>) -> Leaving {
    let placement = Placement::of_members(cr.common());
    let nodes = observed.nodes.known().map(Vec::as_slice).unwrap_or_default();
    let matching = nodes.iter().filter(|node| placement.matches(node) && node.address.is_some()).count();
    // Of an even number of nodes one is of no use.
    let useful = matching.saturating_sub(usize::from(matching.is_multiple_of(2)));
    let wanted = usize::try_from(cr.common().replicas.unwrap_or(DEFAULT_SIZE)).unwrap_or_default();
    // More than there are come when there are nodes for them, and those that there are do not wait for that.
    let present = cr.contract().map(|contract| contract.members.len()).unwrap_or_default();
    if mode == RedisMode::Independent {
        Leaving::Dropped
    } else if matching >= wanted.min(useful.max(present)) {
        Leaving::DroppedTo(fewest(cr, observed).min(useful))
    } else {
        Leaving::Kept
    }
}

/// The fewest members that are odd in number and more than half of those that the Sentinel of any member counts.
fn fewest(cr: &Redis, observed: &Observed<Redis>) -> usize {
    let members = cr.contract().map(|contract| contract.members.as_slice()).unwrap_or_default();
    let reports = Reports::of_observed(observed);
    let counts = |member| Some(reports.of_member(member)?.redis.as_ref()?.sentinel.as_ref()?.others? + 1);
    let counted = members.iter().map(|member| counts(member).unwrap_or(members.len())).max().unwrap_or_default();
    (counted / 2 + 1) | 1
}

/// What servers and Sentinels have to know of each other; nothing where each server is on its own.
///
/// # Errors
/// When there are too few nodes, or one has no address.
pub fn replication(
    cr: &Redis,
    mode: RedisMode,
    members: &[MemberStatus],
    ports: Ports,
) -> Result<Option<Replication>, NotReady> {
    let Some(sentinel) = ports.sentinel.filter(|_| mode == RedisMode::Sentinel) else { return Ok(None) };
    let count = members.len();
    if count < 3 || count.is_multiple_of(2) {
        return Err(NotReady::waiting(
            Reason::NoMatchingNodes,
            format!("{count} nodes match; in mode Sentinel there have to be 3 or a larger odd number; add nodes"),
        ));
    }
    let members = members.iter().map(address).collect::<Result<BTreeSet<_>, _>>()?;
    let sentinel = port("ready.replication.sentinel", sentinel)?;
    Ok(Some(Replication { master: cr.title().to_owned(), sentinel, members }))
}

/// The address of a member.
///
/// # Errors
/// When its node has none that is one.
pub fn address(member: &MemberStatus) -> Result<IpAddr, NotReady> {
    let MemberStatus { address, node, .. } = member;
    address.parse().map_err(|_| {
        NotReady::invalid(Reason::InvalidSpec, format!("address {address:?} of node {node} is not an IP address"))
    })
}

/// What is kept in the status; nothing where each server is on its own.
pub fn recorded(replication: Option<&Replication>) -> Map<String, Value> {
    let own = replication.map(|replication| RedisOwnStatus {
        mode: Some(RedisMode::Sentinel),
        master_name: Some(replication.master.clone()),
    });
    match own.map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    }
}
