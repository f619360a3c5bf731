//! How a change goes through the nodes of groups, as the spec says.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tf_api::{ModuleReload, UpgradeStrategy, UpgradeType, Vhost0, Vrouter, contract::Reason};
use tf_plan::{
    fleet::{PodGroup, Share, Strategy},
    not_ready::NotReady,
};

use crate::{groups::Group, parameters::Parameters};

/// Whether pods of a group load another kernel module where nothing uses the vRouter.
pub fn reloads(cr: &Vrouter, group: &Group<'_>) -> bool {
    let stated = group.strategy.or(cr.spec.upgrade_strategy.as_ref());
    reload(stated) != ModuleReload::Boot
}

/// Whether the operator evicts pods from nodes that wait for another kernel module.
pub fn drains(stated: Option<&UpgradeStrategy>) -> bool {
    reload(stated) == ModuleReload::Drain
}

fn reload(stated: Option<&UpgradeStrategy>) -> ModuleReload {
    stated.and_then(|strategy| strategy.module_reload).unwrap_or_default()
}

/// Refuses to have the kernel module loaded again by pods that do not make `vhost0`: it would be gone. A forwarder makes it always.
fn reloadable(cr: &Vrouter, groups: &[Group<'_>], sets: &[Parameters]) -> Result<(), NotReady> {
    let is_managed = cr.spec.service_configuration.vhost0 == Some(Vhost0::Managed);
    let mut in_kernel = groups.iter().zip(sets).filter(|(_, parameters)| !parameters.is_dpdk());
    if is_managed || !in_kernel.any(|(group, _)| reloads(cr, group)) {
        return Ok(());
    }
    let message = "upgradeStrategy.moduleReload is for pods that make vhost0, which goes with the module; set \
                   spec.serviceConfiguration.vhost0 to Managed, or remove moduleReload";
    Err(NotReady::invalid(Reason::InvalidSpec, message))
}

/// Pod groups of the workloads of groups, which stand in the order of the groups: one for all groups that follow the spec's strategy, and one for each group with a
/// strategy of its own. `sets`: the parameters of each group.
///
/// # Errors
/// `InvalidSpec` for a share that is none.
pub fn pod_groups(
    cr: &Vrouter,
    groups: &[Group<'_>],
    sets: &[Parameters],
    workloads: &[(String, String)],
) -> Result<Vec<PodGroup>, NotReady> {
    reloadable(cr, groups, sets)?;
    let stated = cr.spec.upgrade_strategy.as_ref();
    let strategy_of_spec = strategy(stated, || "spec.upgradeStrategy".to_owned())?;
    let mut pod_groups = vec![PodGroup { strategy: strategy_of_spec, ..PodGroup::default() }];
    for ((group, parameters), workload) in groups.iter().zip(sets).zip(workloads) {
        let pod_group = match group.strategy {
            None => &mut pod_groups[0],
            own => {
                let path = || format!("spec.groups[{}].upgradeStrategy", group.name.unwrap_or_default());
                pod_groups.push(PodGroup { strategy: strategy(own, path)?, ..PodGroup::default() });
                let last = pod_groups.len() - 1;
                &mut pod_groups[last]
            }
        };
        pod_group.forwarders.extend(parameters.is_dpdk().then(|| workload.0.clone()));
        pod_group.workloads.push(workload.clone());
    }
    Ok(pod_groups)
}

fn strategy(stated: Option<&UpgradeStrategy>, path: impl Fn() -> String) -> Result<Strategy, NotReady> {
    let drains = drains(stated);
    let UpgradeStrategy { kind, max_unavailable, max_failures, soak_seconds, topology_key, module_reload: _ } =
        stated.cloned().unwrap_or_default();
    let default = Strategy::default();
    if drains && kind.unwrap_or_default() != UpgradeType::RollingUpdate {
        let message = format!(
            "{}.moduleReload: Drain needs the type RollingUpdate, by which the operator replaces the vRouter's pod of a node that it has drained; remove type, or \
             set moduleReload to Drained",
            path()
        );
        return Err(NotReady::invalid(Reason::InvalidSpec, message));
    }
    let share = match &max_unavailable {
        None => default.max_unavailable,
        Some(stated) => share(stated).ok_or_else(|| {
            let message =
                format!("{}.maxUnavailable is neither a number from 1 nor a percentage from 1% to 100%", path());
            NotReady::invalid(Reason::InvalidSpec, message)
        })?,
    };
    Ok(Strategy {
        method: kind.unwrap_or_default(),
        max_unavailable: share,
        max_failures: max_failures.map_or(default.max_failures, |most| usize::try_from(most).unwrap_or(1).max(1)),
        soak: Duration::from_secs(soak_seconds.map_or(0, |seconds| u64::try_from(seconds).unwrap_or(0))),
        topology_key,
        drains,
        // To replace the pods of forwarders one after the other has to be asked for.
        cuts_off: kind == Some(UpgradeType::RollingUpdate) && !drains,
    })
}

fn share(stated: &IntOrString) -> Option<Share> {
    match stated {
        IntOrString::Int(count) => usize::try_from(*count).ok().filter(|count| *count > 0).map(Share::Nodes),
        IntOrString::String(text) => {
            let percent: usize = text.strip_suffix('%')?.parse().ok()?;
            (1..=100).contains(&percent).then_some(Share::Percent(percent))
        }
    }
}

/// Settings that have no effect, since every group has a strategy of its own.
pub fn ignored(cr: &Vrouter) -> Option<String> {
    let groups = &cr.spec.groups;
    let is_unused = !groups.is_empty() && groups.iter().all(|group| group.upgrade_strategy.is_some());
    (cr.spec.upgrade_strategy.is_some() && is_unused)
        .then(|| "spec.upgradeStrategy: every group has its own".to_owned())
}
