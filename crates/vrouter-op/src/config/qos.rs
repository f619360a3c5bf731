//! Hardware queues and priority groups of the physical interface: the sections `QOS`, `QUEUE-n` and `PG-n` (tf-components
//! 8.1). The image's `qosmap.py` reads the groups; interfaces with a VLAN have none.

use tf_plan::plan::NotReady;

use super::sheet::Sheet;
use crate::parameters::{Name, Parameters};

/// Adds the sections that are asked for.
///
/// # Errors
/// When the lists do not belong together.
pub fn fill(sheet: &mut Sheet, parameters: &Parameters) -> Result<(), NotReady> {
    queues(sheet, parameters)?;
    priority_groups(sheet, parameters)
}

fn queues(sheet: &mut Sheet, parameters: &Parameters) -> Result<(), NotReady> {
    let tagging = parameters.flag(Name::PriorityTagging)?;
    let queues = numbers(parameters, Name::QosQueueId)?;
    let Some((last, before)) = queues.split_last() else {
        sheet.set_if_some("QOS", "priority_tagging", tagging);
        return Ok(());
    };
    sheet.set("QOS", "priority_tagging", tagging.unwrap_or(true));
    let mut logical: Vec<&str> =
        parameters.get(Name::QosLogicalQueues).map(|text| text.split(';').map(str::trim).collect()).unwrap_or_default();
    // The last queue may be left out: it takes what no other one takes.
    if logical.len() == before.len() {
        logical.push("[]");
    }
    if logical.len() != queues.len() {
        return Err(parameters.invalid(
            Name::QosQueueId,
            "qosLogicalQueues needs one list for each queue, or for each but the last, separated by semicolons",
        ));
    }
    for (queue, logical) in queues.iter().zip(logical) {
        sheet.set(&format!("QUEUE-{queue}"), "logical_queue", logical);
    }
    if parameters.flag(Name::QosDefHwQueue)? == Some(true) {
        sheet.set(&format!("QUEUE-{last}"), "default_hw_queue", true);
    }
    Ok(())
}

fn priority_groups(sheet: &mut Sheet, parameters: &Parameters) -> Result<(), NotReady> {
    let groups = numbers(parameters, Name::PriorityId)?;
    if groups.is_empty() {
        return Ok(());
    }
    let bandwidths = numbers(parameters, Name::PriorityBandwidth)?;
    let schedulings = parameters.items(Name::PriorityScheduling);
    if bandwidths.len() != groups.len() || schedulings.len() != groups.len() {
        return Err(parameters
            .invalid(Name::PriorityId, "priorityBandwidth and priorityScheduling need as many items as priorityId"));
    }
    sheet.section("QOS-NIANTIC");
    for ((group, bandwidth), scheduling) in groups.iter().zip(bandwidths).zip(schedulings) {
        if scheduling != "strict" && scheduling != "rr" {
            return Err(parameters.invalid(Name::PriorityScheduling, "use strict or rr for each group"));
        }
        let section = format!("PG-{group}");
        sheet.set(&section, "scheduling", scheduling);
        sheet.set(&section, "bandwidth", bandwidth);
    }
    Ok(())
}

/// Different numbers become names of sections, so none may stand twice in a list of groups or queues.
fn numbers(parameters: &Parameters, name: Name) -> Result<Vec<u16>, NotReady> {
    let numbers: Result<Vec<u16>, _> = parameters.items(name).iter().map(|item| item.parse()).collect();
    let numbers = numbers.map_err(|_| parameters.invalid(name, "use numbers separated by commas"))?;
    let repeated = (1..numbers.len()).any(|index| numbers[..index].contains(&numbers[index]));
    if repeated && name != Name::PriorityBandwidth {
        return Err(parameters.invalid(name, "use every number once"));
    }
    Ok(numbers)
}
