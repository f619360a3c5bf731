//! What the decision about the members means for the plan: the step, what is said of it, and what is recorded.

use std::collections::BTreeMap;

use serde_json::Value;
use tf_agent_api::{
    content::ContentHash,
    zookeeper::{Reconfigure, Servers},
};
use tf_api::{
    Zookeeper,
    contract::{ConditionType, Draft, Reason},
    kinds::{
        CertificatesMode, LeavingMember, ListedMember, ListedMembers, ListedPorts, Modes, QuorumTlsMode,
        ZookeeperOwnStatus,
    },
    schema::Port,
};
use tf_plan::{
    daemons,
    observed::{Observed, Pod},
    plan::Plan,
    procedure,
    reports::{self, AgentCoverage, pod_of},
    step::{self, Request, Target},
    takeover,
};

use crate::{
    certificates, config,
    membership::{self, Decision, Quorum, decide},
    observe::ClusterState,
    plan::DAEMON,
    quorum_tls,
};

/// Fields of the status that have to be stored before anything is done.
const RECORD: [&str; 5] = ["highestId", "leaving", "ensemble", "quorumTls", "certificates"];

/// What it is about.
pub struct Subject<'a> {
    /// The resource.
    pub cr: &'a Zookeeper,
    /// The snapshot.
    pub observed: &'a Observed<Zookeeper>,
    /// What was seen of the members.
    pub sight: &'a ClusterState<'a>,
    /// The configuration of the member on each node.
    pub contents: BTreeMap<String, ContentHash>,
    /// What is to be done about the members, but for pods that are not up to date; none where it cannot be told.
    pub decided: Option<Decision>,
    /// How the servers speak with each other.
    pub quorum_tls: Modes<QuorumTlsMode>,
    /// Which certificates they show and trust.
    pub certificates: Modes<CertificatesMode>,
}

/// Completes a plan whose objects are those of the decision.
pub fn complete(plan: &mut Plan, subject: &Subject<'_>) {
    let Subject { sight, decided, .. } = subject;
    let mode = subject.certificates.mode;
    plan.drafts.push(tf_plan::certificates::condition(mode, subject.observed, &sight.reports, sight.clarity));
    plan.daemons = procedure::is_deserted(subject.observed).then(Vec::new);
    plan.record = &RECORD;
    record(plan, subject);
    let mut changeovers = changeovers(subject);
    let Some(decided) = decided else {
        if sight.is_founded() {
            plan.held = plan.held.take().map(|(_, why)| (Reason::ReplicasUnavailable, why));
        }
        if sight.clarity == AgentCoverage::Polling {
            // What one may conclude from the kubelet's word alone is not for an ensemble that can be asked.
            plan.step = None;
            // Nor that a change is through which was not.
            changeovers.extend(reports::being_asked(subject.cr));
        }
        plan.under_way = joined(&changeovers);
        return;
    };
    let decision = with_pods(plan, subject);
    plan.troubles = sight.reports.troubles();
    plan.daemons = Some(daemons::statuses(DAEMON, plan.wanted(), &sight.reports));
    plan.held = decided.held.first().map(|why| (held_reason(sight), why.clone()));
    plan.step = decision.step.as_ref().and_then(|step| carried_out(step, &decision, subject));
    plan.under_way = under_way(&decision, plan.step.as_ref(), changeovers);
    plan.drafts.extend(available(subject, &decision));
}

/// The decision again, now that it is known what of each pod is not up to date. Members are the same.
fn with_pods(plan: &Plan, subject: &Subject<'_>) -> Decision {
    let Subject { observed, sight, contents, .. } = subject;
    let (workload, template) = plan.workload();
    let live = observed.workloads.get(workload);
    let slots = sight.slots(|pod| sight.reports.change(pod, DAEMON, live, template, contents));
    decide(&sight.inputs(&slots))
}

fn carried_out(step: &membership::Step, decision: &Decision, subject: &Subject<'_>) -> Option<step::Step> {
    let target = |pod: &str, uid: &str, why: String| Target { pod: pod.to_owned(), uid: uid.to_owned(), why };
    let reconfigure = |change, why: String| {
        let pod = spokesman(decision.quorum.as_ref()?, subject)?;
        Some(step::Step::Ask(target(&pod.name, &pod.uid, why), Request::Reconfigure(change)))
    };
    match step {
        membership::Step::Add { id, address, version } => {
            let server = config::server(&subject.cr.spec.service_configuration, address);
            let listed = decision.quorum.as_ref().and_then(|quorum| quorum.servers.servers.get(id));
            let why = match listed.filter(|listed| listed.votes && listed.address == *address) {
                Some(_) => format!("member {id} takes clients without TLS at {}", server.client_address),
                None => format!("member {id} joins at {address}"),
            };
            reconfigure(Reconfigure::Add { id: *id, server, version: *version }, why)
        }
        membership::Step::Remove { id, version } => {
            reconfigure(Reconfigure::Remove { id: *id, version: *version }, format!("member {id} leaves"))
        }
        membership::Step::Restart { pod, uid, why } => Some(step::Step::Restart(target(pod, uid, why.clone()))),
        membership::Step::Activate { pod, uid } => {
            let node = subject.sight.reports.pods.iter().find(|other| other.uid == *uid)?.node.as_ref()?;
            let hash = subject.contents.get(node)?.clone();
            Some(step::Step::Activate(target(pod, uid, format!("configuration {hash}")), hash))
        }
    }
}

/// A pod that can be asked and whose server has a vote and serves, the leader if it is one of them.
fn spokesman<'a>(quorum: &Quorum, subject: &'a Subject<'_>) -> Option<&'a Pod> {
    let serving = subject.sight.recorded().iter().filter(|member| quorum.serving.contains(&member.id));
    let candidates = serving
        .filter_map(|member| Some((quorum.leader == Some(member.id), pod_of(member, subject.sight.reports.pods)?)))
        .filter(|(_, pod)| !takeover::is_legacy(pod));
    // Of several that compare alike the first is taken.
    candidates.min_by_key(|(leads, _)| !leads).map(|(_, pod)| pod)
}

/// The modes that are not as wanted yet.
fn changeovers(subject: &Subject<'_>) -> Vec<String> {
    let tls = quorum_tls::explain(subject.quorum_tls, quorum_tls::wanted(&subject.cr.spec.service_configuration));
    tls.into_iter().chain(certificates::explain(subject.certificates, certificates::wanted(subject.cr))).collect()
}

fn under_way(decision: &Decision, step: Option<&step::Step>, changeovers: Vec<String>) -> Option<String> {
    let mut parts = changeovers;
    parts.extend(step.map(step::Step::explain));
    parts.extend(decision.leaving.keys().map(|id| format!("member {id} is leaving")));
    // Without a quorum nothing is being done, and `Available` says what is the matter.
    parts.extend(decision.waits.iter().filter(|_| decision.quorum.is_some()).cloned());
    parts.dedup();
    joined(&parts)
}

fn joined(parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Too few nodes heal when nodes come; members that do not serve, when they do.
fn held_reason(sight: &ClusterState<'_>) -> Reason {
    if sight.matching() < sight.wanted() { Reason::NoMatchingNodes } else { Reason::ReplicasUnavailable }
}

/// Whether a quorum serves, in the words of its members. The first bring-up is the kubelet's to report.
fn available(subject: &Subject<'_>, decision: &Decision) -> Option<Draft> {
    use ConditionType::Available;
    let contract = subject.cr.status.as_ref().map(|status| &status.contract)?;
    if contract.initialized != Some(true) {
        return None;
    }
    let Some(quorum) = &decision.quorum else {
        let message = format!(
            "{}; it serves again when a majority of its members does; if their data is lost, see docs/zookeeper.md",
            decision.waits.join("; ")
        );
        return Some(Draft::fails(Available, Reason::ReplicasUnavailable, message));
    };
    let message = format!("{} of {} members with a vote serve", quorum.serving.len(), quorum.servers.voters().count());
    Some(Draft::holds(Available, Reason::Succeeded, message))
}

/// Puts what is kept in the status into the plan.
fn record(plan: &mut Plan, subject: &Subject<'_>) {
    let Subject { cr, sight, decided, .. } = subject;
    let (highest, leaving) = match decided {
        Some(decision) => (decision.highest, &decision.leaving),
        None => (plan.members.iter().map(|member| member.id).fold(sight.highest(), u32::max), sight.leaving()),
    };
    let quorum = decided.as_ref().and_then(|decision| decision.quorum.as_ref());
    let stored = || cr.status.as_ref().and_then(|status| status.own.ensemble.clone());
    let own = ZookeeperOwnStatus {
        highest_id: Some(highest),
        leaving: leaving.iter().map(|(id, since)| LeavingMember { id: *id, since_version: hex(*since) }).collect(),
        ensemble: quorum.map(|quorum| listed(&quorum.servers)).or_else(stored),
        quorum_tls: (subject.quorum_tls != Modes::default()).then_some(subject.quorum_tls),
        certificates: (subject.certificates != Modes::default()).then_some(subject.certificates),
        ports: None,
    };
    if let Ok(Value::Object(fields)) = serde_json::to_value(own) {
        plan.own_status.extend(fields);
    }
}

fn listed(servers: &Servers) -> ListedMembers {
    let voters = servers.servers.iter().filter(|(_, server)| server.votes);
    let members = voters.map(|(id, server)| ListedMember { id: *id, address: server.address.clone() }).collect();
    let ports = servers.servers.values().next().map(|server| ListedPorts {
        client_port: Port(server.client_port),
        election_port: Port(server.quorum_port),
        server_port: Port(server.election_port),
    });
    ListedMembers { version: hex(servers.version), members, ports }
}

/// A version as ZooKeeper shows it.
fn hex(version: u64) -> String {
    format!("{version:x}")
}
