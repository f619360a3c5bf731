//! What is done to members that copy one of them: what the next one waits for before it is brought up to date, who takes writes when the one
//! that does has to be, and what is said of members that are not of one mind. Who takes writes is decided by the Sentinels; it is asked here
//! and nowhere set.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use tf_agent_api::{
    content::ContentHash,
    redis::{Change, Facts, Sentinel, truth},
};
use tf_api::{Managed as _, Redis, contract::MemberStatus};
use tf_plan::{
    election::Election,
    observed::{Observed, Pod},
    plan::Plan,
    procedure::{self, AgentReport, DisruptionPolicy, Store, Troubles},
    reports::{AgentCoverage, Reports, pod_of},
    step::{Request, Step, Target},
};

use crate::{
    plan::CONTAINER,
    procedure::{facts, heard},
};

/// The servers, as the procedures of all stores see them.
pub const SERVERS: Store = Store {
    daemon: CONTAINER,
    policy: DisruptionPolicy::Quorum(gate),
    troubles,
    election: Some(Election { daemons: &[CONTAINER], leads, session: Duration::ZERO }),
};

/// Completes a plan. `contents`: the configuration of the member on each node.
pub fn complete(plan: &mut Plan, cr: &Redis, observed: &Observed<Redis>, contents: &BTreeMap<String, ContentHash>) {
    procedure::complete(&SERVERS, plan, cr, observed, contents);
    let reports = Reports::of_observed(observed);
    // A member whose pod is on the node of none cannot serve before that one has moved.
    let has_slot = |member: &&MemberStatus| pod_of(member, reports.pods).is_some();
    let seated: Vec<MemberStatus> = plan.members.iter().filter(has_slot).cloned().collect();
    let is_stuck = is_unmade(&reports) || waits_for_seats(&seated, plan.members.len(), &reports);
    if is_stuck || apart(&seated, &reports).is_none() {
        procedure::reschedule_while(plan, observed, |all_serve| all_serve || is_stuck);
    }
    if gate(&plan.members, &reports).is_none() {
        plan.notes.extend(praise(&plan.members, &reports));
    }
    if reports.clarity() == AgentCoverage::Complete {
        plan.outage = outage(&plan.members, &reports);
        step_down_first(plan, &reports);
        recount(plan, &reports);
    }
}

/// What agents tell of the members that are recorded while there is no plan.
pub fn agent_report(cr: &Redis, observed: &Observed<Redis>) -> Option<AgentReport> {
    let members = cr.contract().map(|contract| contract.members.as_slice()).unwrap_or_default();
    let outage = outage(members, &Reports::of_observed(observed));
    SERVERS.agent_report(cr, observed).map(|told| AgentReport { outage, ..told })
}

/// A Sentinel counts for ever who made itself known to it, and more than half of those it counts have to agree. Members whose pods were there for a
/// moment are forgotten, by one Sentinel after the other, when nothing of them is left and there is nothing else to do.
fn recount(plan: &mut Plan, reports: &Reports<'_>) {
    let (seen, count) = (seen(&plan.members, reports), plan.members.len());
    let tell = seen.iter().filter(|one| one.facts.sentinel.is_some()).count();
    if plan.step.is_some() || plan.under_way.is_some() || reports.pods.len() != count || tell != count {
        return;
    }
    if let Some(Seen { pod, .. }) = seen.iter().find(|one| one.is_outnumbered(count)) {
        let why = format!(
            "the Sentinel of pod {} starts again, because it counts more Sentinels than the {count} that exist",
            pod.name
        );
        let step = Step::Ask(Target::of(pod, why), Request::Redis(Change::Recount));
        plan.under_way = Some(step.explain());
        plan.step = Some(step);
    }
}

/// Before the server that takes writes is stopped another one takes its place. One that serves and does not tell could be it.
fn step_down_first(plan: &mut Plan, reports: &Reports<'_>) {
    let (target, wanted) = match &plan.step {
        Some(Step::Restart(target)) => (target, None),
        Some(Step::Activate(target, wanted)) => (target, Some(wanted)),
        _ => return,
    };
    // One that another operator or an earlier release made has no agent.
    let has_agent = |pod: &&Pod| pod.uid == target.uid && pod.ready && pod.certificate.is_some();
    let is_stopped = |pod: &&Pod| wanted.is_none_or(|wanted| !reports.takes(pod, wanted));
    let Some(pod) = reports.pods.iter().find(has_agent).filter(is_stopped) else { return };
    match facts(pod, reports) {
        None => {
            let name = &pod.name;
            let why = format!("pod {name} is not up to date; whether its server takes writes has to be known before");
            (plan.step, plan.under_way) = (None, Some(why));
        }
        Some(facts) if takes_writes(facts) => {
            let why = format!("another server takes writes in the place of pod {}, which is not up to date", pod.name);
            let step = Step::Ask(Target::of(pod, why), Request::Redis(Change::StepDown));
            plan.under_way = Some(step.explain());
            plan.step = Some(step);
        }
        Some(_) => {}
    }
}

/// Whether a pod's server takes writes.
fn leads(pod: &Pod, _: &str, reports: &Reports<'_>) -> bool {
    facts(pod, reports).is_some_and(takes_writes)
}

/// Whether a server answers and copies no other one.
fn takes_writes(facts: &Facts) -> bool {
    facts.unknown.is_none() && facts.copies.is_none()
}

/// How many copies a server lacks to take writes.
fn lacks(facts: &Facts) -> usize {
    facts.copying.as_ref().map(|copying| copying.lacks).unwrap_or_default()
}

/// What the server of a pod is to the others.
struct Seen<'a> {
    pod: &'a Pod,
    address: Option<IpAddr>,
    facts: &'a Facts,
}

impl Seen<'_> {
    /// Address of the server that it copies.
    fn copies(&self) -> Option<&str> {
        // `<host>:<port>`, where the host of the newer family has colons, too.
        self.facts.copies.as_ref()?.rsplit_once(':').map(|(host, _)| host)
    }

    /// Whether its Sentinel counts others than so many members.
    fn is_outnumbered(&self, members: usize) -> bool {
        self.facts.sentinel.as_ref().and_then(|it| it.others).is_some_and(|others| others >= members)
    }

    /// Whether its Sentinel has no majority, since most of those that it counts are gone for good. It counts them until it starts anew.
    fn is_deserted(&self, members: usize) -> bool {
        self.is_outnumbered(members) && self.facts.sentinel.as_ref().is_some_and(|it| it.refuses.is_some())
    }

    /// Whether it is in touch with the server that it copies.
    fn is_linked(&self) -> bool {
        self.facts.copying.as_ref().is_some_and(|copying| copying.linked)
    }

    fn copies_that(&self, master: IpAddr) -> bool {
        self.copies().and_then(|host| host.parse().ok()) == Some(master)
    }
}

/// Members whose agents answer, whatever their servers do.
fn seen<'a>(members: &[MemberStatus], reports: &Reports<'a>) -> Vec<Seen<'a>> {
    let of = |member: &MemberStatus| {
        let pod = pod_of(member, reports.pods)?;
        let facts = reports.of(pod)?.redis.as_ref()?;
        Some(Seen { pod, address: member.address.parse().ok(), facts })
    };
    members.iter().filter_map(of).collect()
}

/// The server that takes writes, as the Sentinels have it.
fn named(seen: &[Seen<'_>]) -> Option<IpAddr> {
    truth(seen.iter().filter_map(|seen| seen.facts.sentinel.as_ref()))
}

/// What keeps a member that serves from being stopped: the others have to serve and to have what was written, and the Sentinels to agree, so
/// that they can have another one take writes. Where they never can, some have to be started anew.
fn gate(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    let is_beyond = |pod: &&Pod| pod.ordinal().is_some_and(|ordinal| ordinal as usize >= members.len());
    let leaves = reports.pods.iter().filter(|pod| !pod.terminating).find(is_beyond);
    // The others may need what it has until it has gone.
    leaves
        .map(|pod| format!("pod {} is of no member any more and about to go", pod.name))
        .or_else(|| apart(members, reports))
}

/// What keeps members from having one of them stopped, whoever else there is.
fn apart(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    let (seen, count) = (seen(members, reports), members.len());
    let master = named(&seen);
    if let Some(why) = parted(members, reports, &seen, master).filter(|_| !is_hopeless(&seen, count)) {
        return Some(why);
    }
    // One that copies another one itself has nothing that the others could lack.
    let leads = |one: &&Seen<'_>| one.address == master && one.facts.copies.is_none();
    let copying = seen.iter().find(leads).and_then(|one| one.facts.copying.as_ref())?;
    let is_behind = |one: &&Seen<'_>| one.address != master && one.address.is_none_or(|one| copying.is_ahead_of(one));
    let behind = seen.iter().find(is_behind)?;
    Some(format!("the server of pod {} does not have everything yet", behind.pod.name))
}

/// Whether the Sentinels of so many members will never have a server take writes: most of those that each of them counts are gone for good, or
/// they began with different ones before there was a failover. Nobody has taken writes then, since no server starts so.
fn is_hopeless(seen: &[Seen<'_>], count: usize) -> bool {
    let all_unmade = || seen.iter().all(|one| has_made_none(one.facts));
    seen.len() == count && (seen.iter().all(|one| one.is_deserted(count)) || all_unmade())
}

/// Whether members that have pods wait for the Sentinels of those that have none, since they are not most of so many: they serve when pods on
/// nodes of no member have moved there. Somebody takes writes meanwhile, and hands them over before it moves itself.
fn waits_for_seats(seated: &[MemberStatus], count: usize, reports: &Reports<'_>) -> bool {
    let waits = |member: &MemberStatus| pod_of(member, reports.pods).is_some_and(|pod| !pod.ready);
    let are_there = reports.clarity() == AgentCoverage::Complete && reports.pods.iter().all(|pod| !pod.terminating);
    let is_taken = || reports.pods.iter().any(|pod| pod.ready && leads(pod, CONTAINER, reports));
    2 * seated.len() <= count && are_there && seated.iter().any(waits) && is_taken()
}

/// Whether no server has taken writes yet, those of no member included: none of them has anything.
fn is_unmade(reports: &Reports<'_>) -> bool {
    reports.pods.iter().all(|pod| {
        let facts = reports.of(pod).and_then(|status| status.redis.as_ref());
        !pod.terminating && facts.is_some_and(has_made_none)
    })
}

/// Whether a server takes no writes and its Sentinel knows of none that was made to.
fn has_made_none(facts: &Facts) -> bool {
    facts.sentinel.as_ref().is_some_and(|it| it.epoch == 0) && !takes_writes(facts)
}

/// What keeps members that serve from having another one of them take writes.
fn parted(
    members: &[MemberStatus],
    reports: &Reports<'_>,
    seen: &[Seen<'_>],
    master: Option<IpAddr>,
) -> Option<String> {
    if let Err(why) = heard(members, reports) {
        return Some(why);
    }
    if let Some(one) = seen.iter().find(|one| one.facts.loading) {
        return Some(format!("the server of pod {} is loading its data", one.pod.name));
    }
    // A Sentinel that counts members which are gone is helped by what is kept from happening here.
    let of_sentinel = |one: &Seen<'_>| of_sentinel(one).filter(|_| !one.is_deserted(members.len()));
    let mut troubles =
        seen.iter().filter_map(|one| Some((one.pod, of_server(one, master).or_else(|| of_sentinel(one))?)));
    if let Some((pod, why)) = troubles.next() {
        return Some(format!("pod {}: {why}", pod.name));
    }
    let disagrees = |one: &&Seen<'_>| one.facts.sentinel.as_ref().map(|it| it.master) != master;
    let one = seen.iter().find(disagrees)?;
    Some(format!("the Sentinel of pod {} does not know who takes writes yet", one.pod.name))
}

/// What is the matter with members that serve: that they are not of one mind, or that the others could not do without them.
fn troubles(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let seen = seen(members, reports);
    let master = named(&seen);
    let trouble = |one: &Seen<'_>| of_server(one, master).or_else(|| of_sentinel(one));
    seen.iter().filter_map(|one| Some((one.pod.name.clone(), trouble(one)?))).collect()
}

/// Why no server takes writes, as far as agents tell. One whose agent does not answer may, if enough of the others copy it.
fn outage(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    let seen = seen(members, reports);
    let serves = |facts: &Facts| takes_writes(facts) && lacks(facts) == 0;
    let is_silent = |member: &&MemberStatus| reports.of_member(member).is_none();
    let is_copied = |master: IpAddr| {
        let copies = seen.iter().filter(|one| one.is_linked() && one.copies_that(master)).count();
        copies >= members.len() / 2
    };
    let mut silent = members.iter().filter(is_silent).filter_map(|member| member.address.parse().ok());
    if reports.pods.iter().filter_map(|pod| facts(pod, reports)).any(serves) || silent.any(is_copied) {
        return None;
    }
    let Some(master) = named(&seen) else {
        return Some("no server is master, and no Sentinel reports which one should be".to_owned());
    };
    let one = seen.iter().find(|one| one.address == Some(master));
    let why = one.and_then(|one| of_server(one, Some(master)));
    Some(why.unwrap_or_else(|| format!("no server takes writes: the one at {master} is to, and does not answer")))
}

/// What is the matter with a member's server, when the Sentinels have this one as the one that takes writes.
fn of_server(one: &Seen<'_>, master: Option<IpAddr>) -> Option<String> {
    let master = master?;
    let is_it = one.address == Some(master);
    match (&one.facts.unknown, one.copies(), is_it) {
        (Some(why), _, true) => Some(format!("no server takes writes: {why}")),
        (None, None, true) if lacks(one.facts) > 0 => {
            let count = lacks(one.facts);
            Some(format!("no server takes writes: {count} more of the others have to be in touch with this one"))
        }
        // The probe tells of it.
        (Some(_), ..) | (None, None, true) => None,
        (None, Some(other), true) => Some(format!("no server takes writes: this one is to, and copies {other}")),
        (None, None, false) => Some(format!("its server takes writes besides the one at {master}")),
        (None, Some(other), false) if !one.copies_that(master) => {
            Some(format!("its server copies {other} and not {master}, which takes writes"))
        }
        (None, Some(_), false) => {
            (!one.is_linked()).then(|| format!("its server is not in touch with {master}, which it copies"))
        }
    }
}

/// What is the matter with the Sentinel of a member.
fn of_sentinel(one: &Seen<'_>) -> Option<String> {
    match &one.facts.sentinel {
        Some(Sentinel { refuses: Some(why), .. }) => Some(format!("its Sentinel has no majority: {why}")),
        Some(_) => None,
        None => {
            let why = one.facts.sentinel_unknown.as_deref().unwrap_or("it was not asked yet");
            Some(format!("its Sentinel does not report the master: {why}"))
        }
    }
}

/// Who takes writes, where everything is well and members were asked.
fn praise(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    let seen = seen(members, reports);
    let master = named(&seen)?;
    let one = seen.iter().find(|one| one.address == Some(master))?;
    Some(format!("the server at {master}, of pod {}, takes writes, and {} copy it", one.pod.name, seen.len() - 1))
}
