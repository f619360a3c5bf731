//! What is done to members that run: which of them is brought up to date now, what that waits for, and what is said of it.

use std::collections::BTreeMap;

use tf_api::{Rabbitmq, contract::MemberStatus, kinds::CertificatesMode};
use tf_plan::{
    certificates,
    node::{ContentHash, rabbitmq::Facts},
    observed::{Observed, Pod},
    plan::Plan,
    reports::{self, Clarity, Reports, pod_of},
    rollout::{self, Seat},
    step::Step,
};

use crate::plan::CONTAINER;

/// Completes a plan. `contents`: the configuration of the member on each node.
pub fn complete(
    plan: &mut Plan,
    cr: &Rabbitmq,
    observed: &Observed<Rabbitmq>,
    contents: &BTreeMap<String, ContentHash>,
) {
    let pods = observed.pods.known().map(Vec::as_slice).unwrap_or_default();
    let reports = Reports { pods, agents: &observed.agents };
    let clarity = reports.clarity();
    plan.drafts.push(certificates::condition(CertificatesMode::Issued, observed, &reports, clarity));
    match clarity {
        // The kubelet's word is all there is.
        Clarity::Blind => {}
        Clarity::Unheard => {
            // What one may conclude from the kubelet's word alone is not for members that can be asked.
            plan.step = None;
            plan.under_way = reports::being_asked(cr);
        }
        Clarity::Clear => {
            roll(plan, observed, &reports, contents);
            plan.troubles = reports.troubles();
            for (pod, why) in divided(&plan.members, &reports).into_iter().chain(alarmed(&plan.members, &reports)) {
                plan.troubles.entry(pod).or_insert(why);
            }
        }
    }
}

/// Brings one pod up to date if the cluster can bear it.
fn roll(
    plan: &mut Plan,
    observed: &Observed<Rabbitmq>,
    reports: &Reports<'_>,
    contents: &BTreeMap<String, ContentHash>,
) {
    let (workload, template) = plan.workload();
    let live = observed.workloads.get(workload);
    let seat = |pod| seat(pod, reports.change(pod, CONTAINER, live, template, contents));
    let seats: Vec<Seat<'_>> = reports.pods.iter().map(seat).collect();
    let decision = rollout::next(&seats, || gate(&plan.members, reports));
    let held = decision.held().map(str::to_owned);
    plan.step = decision.step(reports.pods, contents);
    plan.under_way = plan.step.as_ref().map(Step::explain).or(held);
}

fn seat(pod: &Pod, change: Option<rollout::Change>) -> Seat<'_> {
    // An agent that does not answer says nothing about the server, and one that is cut off serves whom it sees.
    let Pod { name, uid, ready, terminating, .. } = pod;
    Seat { pod: name, uid, serves: *ready, leads: false, terminating: *terminating, change }
}

/// What keeps a member that serves from being stopped: everybody has to be there, in one cluster, with every message in more
/// than one place (stateful-services, appendix A). An alarm keeps nobody: what is being changed may be what it is about.
fn gate(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    let mut names = Vec::new();
    for member in members {
        let Some(pod) = pod_of(member, reports.pods).filter(|pod| pod.ready) else {
            return Some(format!("the member on node {} does not serve", member.node));
        };
        // One that another operator or an earlier release made has no agent, and those that have one say whether it runs.
        if pod.certificate.is_none() {
            continue;
        }
        let Some(facts) = facts(pod, reports) else {
            let why = reports.of(pod).and_then(|status| status.rabbitmq.as_ref()?.unknown.as_ref());
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            return Some(format!("pod {} does not tell how its cluster is{why}", pod.name));
        };
        names.push((pod, facts));
    }
    names.iter().find_map(|(pod, facts)| {
        let down = facts.nodes.iter().find(|(_, runs)| !**runs).map(|(name, _)| format!("{name} does not run"));
        let missing = || {
            let other = names.iter().find(|(_, other)| !facts.nodes.contains_key(&other.name))?;
            Some(format!("{} is not in the cluster of {}", other.1.name, facts.name))
        };
        let parted =
            || facts.partitions.first().map(|other| format!("{} and {other} were cut off from each other", facts.name));
        let critical = || facts.critical.as_ref().map(|why| format!("pod {} may not be stopped: {why}", pod.name));
        down.or_else(missing).or_else(parted).or_else(critical)
    })
}

/// Pods whose servers answer and do not see another one that answers, too: each of them takes itself for the cluster.
fn divided(members: &[MemberStatus], reports: &Reports<'_>) -> Vec<(String, String)> {
    let seen: Vec<(&Pod, &Facts)> = members
        .iter()
        .filter_map(|member| pod_of(member, reports.pods))
        .filter_map(|pod| Some((pod, facts(pod, reports)?)))
        .collect();
    let lacks = |facts: &Facts| {
        let unseen = |other: &Facts| facts.nodes.get(&other.name) != Some(&true);
        seen.iter().map(|(_, other)| *other).find(|other| unseen(other)).map(|other| other.name.clone())
    };
    let explain = |other: &str| format!("its server does not see {other}, which runs, too");
    seen.iter().filter_map(|(pod, facts)| Some((pod.name.clone(), explain(&lacks(facts)?)))).collect()
}

/// Pods whose servers hold publishers back, and with them those of all other servers.
fn alarmed(members: &[MemberStatus], reports: &Reports<'_>) -> Vec<(String, String)> {
    let alarm = |member: &MemberStatus| {
        let pod = pod_of(member, reports.pods)?;
        let alarms: Vec<&str> = facts(pod, reports)?.alarms.iter().map(String::as_str).collect();
        let told = || format!("no server takes messages, since this one runs short of {}", alarms.join(" and "));
        (!alarms.is_empty()).then(|| (pod.name.clone(), told()))
    };
    members.iter().filter_map(alarm).collect()
}

/// What a pod's server says of its cluster, if it says anything.
fn facts<'a>(pod: &Pod, reports: &Reports<'a>) -> Option<&'a Facts> {
    reports.of(pod)?.rabbitmq.as_ref().filter(|facts| !facts.name.is_empty())
}
