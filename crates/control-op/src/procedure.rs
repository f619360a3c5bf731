//! What is done to members that run: what the next one waits for before it is brought up to date, and what is said of daemons beside
//! contrail-control.

use tf_api::contract::MemberStatus;
use tf_plan::{
    procedure::{Gate, Store, Troubles},
    reports::{Reports, pod_of},
};

use crate::containers::{CONTROL, DNS};

/// The members, as the procedures of all components see them.
pub const MEMBERS: Store = Store { daemon: CONTROL, gate: Gate::Apart("control node"), troubles, election: None };

/// Pods whose DNS daemon or name server does not serve, which only the kubelet knows: it does not say why.
fn troubles(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let trouble = |member: &MemberStatus| {
        let pod = pod_of(member, reports.pods)?;
        let status = reports.of(pod)?;
        let serves = status.health.as_ref().is_some_and(|health| health.serves);
        let is_alone = serves && !pod.ready && status.daemons.contains_key(DNS);
        is_alone.then(|| (pod.name.clone(), BESIDE.to_owned()))
    };
    members.iter().filter_map(trouble).collect()
}

/// What is said of a pod that is not ready although contrail-control is.
const BESIDE: &str = "contrail-dns or named beside it is not ready; the NodeStatus introspection page of dns, or the log of named, has the cause";
