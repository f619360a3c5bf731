//! What is done to members that run: what the next one waits for before it is brought up to date.

use tf_api::contract::MemberStatus;
use tf_plan::{
    procedure::{Gate, Store, Troubles},
    reports::{Reports, pod_of},
};

/// The members of a resource whose container `daemon` speaks for the pod, as the procedures of all components see them.
pub const fn members(daemon: &'static str) -> Store {
    Store { daemon, gate: Gate::Apart("member of analytics"), troubles, election: None }
}

/// Pods in which the daemon that speaks for them serves and another one does not, which only the kubelet knows.
fn troubles(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let trouble = |member: &MemberStatus| {
        let pod = pod_of(member, reports.pods)?;
        let serves = reports.of(pod)?.health.as_ref().is_some_and(|health| health.serves);
        (serves && !pod.ready).then(|| (pod.name.clone(), BESIDE.to_owned()))
    };
    members.iter().filter_map(trouble).collect()
}

/// What is said of such a pod.
const BESIDE: &str = "one of its daemons is not ready; its NodeStatus introspection page has the cause";
