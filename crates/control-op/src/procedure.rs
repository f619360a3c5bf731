//! What is done to members that run: what the next one waits for before it is brought up to date, and what is said of daemons beside
//! contrail-control.

use tf_api::contract::MemberStatus;
use tf_plan::{
    node::state::{Phase, State},
    procedure::{self, Store, Troubles},
    reports::{Reports, pod_of},
};

use crate::containers::{CONTROL, DNS, NAMED};

/// The members, as the procedures of all components see them.
pub const MEMBERS: Store = Store { daemon: CONTROL, gate, troubles, leads: procedure::nobody };

/// What keeps a member that serves from being stopped: the others have to serve, since each agent of a vRouter is connected to two of them
/// (tf-components 4.1).
fn gate(members: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    procedure::heard(members.iter(), reports, "control node", |_| Ok(())).err()
}

/// Pods whose DNS daemon or name server does not run, of which the agent beside contrail-control knows and whose probe it does not ask.
fn troubles(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let trouble = |member: &MemberStatus| {
        let pod = pod_of(member, reports.pods)?;
        let status = reports.of(pod)?;
        let told = [DNS, NAMED].into_iter().find_map(|daemon| told(daemon, status.daemons.get(daemon)?))?;
        Some((pod.name.clone(), told))
    };
    members.iter().filter_map(trouble).collect()
}

fn told(daemon: &str, state: &State) -> Option<String> {
    let is_down = matches!(state.phase, Phase::Waiting | Phase::BackOff);
    let why = state.message.as_deref().unwrap_or("its agent does not say why");
    is_down.then(|| format!("its {daemon} does not run: {why}"))
}
