//! The way back: the uplink has again all that `vhost0` has, make before break as in [`super::switch`].
//!
//! It is planned from what is there now, not from what was there before the switch: an address or a route that was added to
//! `vhost0` since then is not lost with it. Routes that the agent made go with `vhost0`.
//!
//! The plan does not remove `vhost0`: nothing of the node depends on it any more when the plan is done, and until it is removed
//! the plan can be undone.

use super::{
    NoPlan, Plan, Step,
    moves::Move,
    switch::{names, setting},
};
use crate::{HostFacts, Mode, Wanted, facts::network::VHOST0, preflight::immovable, uplink::choose};

/// What is left to do so that the uplink has all that `vhost0` has. Empty where there is no `vhost0`.
///
/// # Errors
/// Why there is no plan.
pub fn restore(facts: &HostFacts, wanted: &Wanted) -> Result<Plan, NoPlan> {
    if wanted.mode != Mode::Kernel {
        return Err(NoPlan::NotKernelMode);
    }
    let network = &facts.network;
    let Some(vhost0) = network.link(VHOST0) else { return Ok(Plan::default()) };
    let uplinks = choose(facts, wanted).map_err(NoPlan::Blocked)?;
    if wanted.multihomed {
        // They have all that they had.
        let links: Vec<_> = uplinks.iter().map(|uplink| uplink.link).collect();
        return Ok(Plan { uplink: names(&links), steps: vec![Step::Detach, Step::RemovePhysical] });
    }
    let uplink = uplinks.first().ok_or(NoPlan::NotKernelMode)?.link;
    if let Some(finding) = immovable(network, vhost0, &uplink.name) {
        return Err(NoPlan::Blocked(finding));
    }
    let moves = Move { network, from: VHOST0, to: &uplink.name };
    let mut steps: Vec<Step> = advertisements(facts, &uplink.name).into_iter().collect();
    steps.extend(moves.addresses_made());
    steps.extend(moves.routers_learnt());
    steps.extend(moves.routes());
    steps.extend(moves.rules());
    steps.extend([Step::Detach, Step::RemovePhysical]);
    steps.extend(moves.routers_forgotten());
    steps.extend(moves.addresses_deleted());
    Ok(Plan { uplink: uplink.name.clone(), steps })
}

/// Router advertisements come to the uplink again, with the setting that `vhost0` took from it.
fn advertisements(facts: &HostFacts, uplink: &str) -> Option<Step> {
    let name = "ipv6.accept_ra";
    let before = setting(facts, uplink, name).filter(|value| *value == "0")?;
    let value = setting(facts, VHOST0, name).filter(|value| *value != before)?;
    Some(Step::SetSysctl { link: uplink.into(), name: name.into(), value: value.clone(), before: Some(before.clone()) })
}
