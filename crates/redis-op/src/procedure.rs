//! What is done to members that run: what the next one waits for before it is brought up to date, and what is said of a server that is
//! not what it should be.

use std::collections::BTreeMap;

use tf_agent_api::{content::ContentHash, redis::Facts};
use tf_api::{Redis, contract::MemberStatus, kinds::RedisMode};
use tf_plan::{
    observed::{Observed, Pod},
    plan::Plan,
    procedure::{self, AgentReport, DisruptionPolicy, Store, Troubles},
    reports::{Reports, pod_of},
};

use crate::{plan::CONTAINER, replication};

/// Servers on their own, as the procedures of all stores see them.
const SERVERS: Store = Store { daemon: CONTAINER, policy: DisruptionPolicy::Quorum(gate), troubles, election: None };

/// Completes a plan. `contents`: the configuration of the member on each node.
pub fn complete(
    mode: RedisMode,
    plan: &mut Plan,
    cr: &Redis,
    observed: &Observed<Redis>,
    contents: &BTreeMap<String, ContentHash>,
) {
    match mode {
        RedisMode::Independent => {
            procedure::complete(&SERVERS, plan, cr, observed, contents);
            procedure::reschedule(plan, observed);
        }
        RedisMode::Sentinel => replication::complete(plan, cr, observed, contents),
    }
}

/// What agents tell of servers that were founded as what the status says, whatever the spec asks for now.
pub fn agent_report(cr: &Redis, observed: &Observed<Redis>) -> Option<AgentReport> {
    let founded = cr.status.as_ref().and_then(|status| status.own.mode).unwrap_or_default();
    match founded {
        RedisMode::Independent => SERVERS.agent_report(cr, observed),
        RedisMode::Sentinel => replication::agent_report(cr, observed),
    }
}

/// What keeps a member that serves from being stopped: the others have to serve, and to have read what they have. A server begins empty,
/// and its clients fill it again; who needs the same from any of them finds it at the others meanwhile.
fn gate(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    match heard(members, reports) {
        Ok(heard) => heard
            .iter()
            .find(|(_, facts)| facts.loading)
            .map(|(pod, _)| format!("the server of pod {} is loading its data", pod.name)),
        Err(why) => Some(why),
    }
}

/// Pods whose servers answer and take no writes, since somebody told them to copy another one.
fn troubles(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let copies = |member: &MemberStatus| {
        let pod = pod_of(member, reports.pods)?;
        let other = facts(pod, reports)?.copies.as_ref()?;
        Some((
            pod.name.clone(),
            format!("its server copies {other} and takes no writes; REPLICAOF NO ONE, or a restart, ends that"),
        ))
    };
    members.iter().filter_map(copies).collect()
}

/// What members' servers say of themselves; else why one of them is not to be counted on.
///
/// # Errors
/// A member that does not serve, or whose server does not tell.
pub fn heard<'a>(members: &[MemberStatus], reports: &Reports<'a>) -> Result<Vec<(&'a Pod, &'a Facts)>, String> {
    let unknown = |pod| reports.of(pod).and_then(|status| status.redis.as_ref()?.unknown.as_deref());
    let says = |pod| facts(pod, reports).ok_or_else(|| unknown(pod));
    procedure::heard(members.iter(), reports, "server", says)
}

/// What a pod's server says of itself, if it says anything.
pub fn facts<'a>(pod: &Pod, reports: &Reports<'a>) -> Option<&'a Facts> {
    reports.of(pod)?.redis.as_ref().filter(|facts| facts.unknown.is_none())
}
