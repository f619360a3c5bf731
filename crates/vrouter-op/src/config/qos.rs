//! Hardware queues and priority groups of the physical interface: the sections `QOS`, `QUEUE-n` and `PG-n` (docs/upstream/vrouter.md#queues), and
//! what the agent's `tf-node` sets on the interface, which the image's `qosmap.py` does otherwise.

use tf_agent_api::launch::{PriorityGroup, Queues};
use tf_plan::not_ready::NotReady;

use super::ini_template::IniTemplate;
use crate::parameters::{Name, Parameters};

const STRICT: &str = "strict";
const ROUND_ROBIN: &str = "rr";

/// Adds the sections that are asked for.
///
/// # Errors
/// When the lists do not belong together.
pub fn fill(template: &mut IniTemplate, parameters: &Parameters) -> Result<(), NotReady> {
    logical_queues(template, parameters)?;
    let groups = priority_groups(parameters)?;
    if !groups.is_empty() {
        template.section("QOS-NIANTIC");
    }
    for PriorityGroup { number, bandwidth, strict } in groups {
        let section = format!("PG-{number}");
        template.set(&section, "scheduling", if strict { STRICT } else { ROUND_ROBIN });
        template.set(&section, "bandwidth", bandwidth);
    }
    Ok(())
}

/// What is set on the interface. None: nothing is asked for, or the forwarder of the DPDK mode has it.
///
/// # Errors
/// When the lists do not belong together.
pub fn queues(parameters: &Parameters) -> Result<Option<Queues>, NotReady> {
    let is_asked = parameters.is_set(Name::PriorityId) || parameters.is_set(Name::QosQueueId);
    if !is_asked || parameters.is_dpdk() {
        return Ok(None);
    }
    let interfaces = parameters.items(Name::PhysicalInterface).iter().map(ToString::to_string).collect();
    Ok(Some(Queues { interfaces, groups: priority_groups(parameters)? }))
}

fn logical_queues(template: &mut IniTemplate, parameters: &Parameters) -> Result<(), NotReady> {
    let tagging = parameters.flag(Name::PriorityTagging)?;
    let queues = numbers(parameters, Name::QosQueueId)?;
    let Some((last, before)) = queues.split_last() else {
        template.set_if_some("QOS", "priority_tagging", tagging);
        return Ok(());
    };
    template.set("QOS", "priority_tagging", tagging.unwrap_or(true));
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
        template.set(&format!("QUEUE-{queue}"), "logical_queue", logical);
    }
    if parameters.flag(Name::QosDefHwQueue)? == Some(true) {
        template.set(&format!("QUEUE-{last}"), "default_hw_queue", true);
    }
    Ok(())
}

fn priority_groups(parameters: &Parameters) -> Result<Vec<PriorityGroup>, NotReady> {
    let groups = numbers(parameters, Name::PriorityId)?;
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let bandwidths = numbers(parameters, Name::PriorityBandwidth)?;
    let schedulings = parameters.items(Name::PriorityScheduling);
    if bandwidths.len() != groups.len() || schedulings.len() != groups.len() {
        return Err(parameters
            .invalid(Name::PriorityId, "priorityBandwidth and priorityScheduling need as many items as priorityId"));
    }
    let group = |((number, bandwidth), scheduling): ((&u16, u16), &String)| {
        if ![STRICT, ROUND_ROBIN].contains(&scheduling.as_str()) {
            return Err(parameters.invalid(Name::PriorityScheduling, "use strict or rr for each group"));
        }
        let below = |name, number: u16, end, hint| {
            u8::try_from(number).ok().filter(|number| *number < end).ok_or_else(|| parameters.invalid(name, hint))
        };
        Ok(PriorityGroup {
            number: below(Name::PriorityId, *number, 8, "use numbers from 0 to 7")?,
            bandwidth: below(Name::PriorityBandwidth, bandwidth, 101, "use percentages from 0 to 100")?,
            strict: scheduling == STRICT,
        })
    };
    groups.iter().zip(bandwidths).zip(&schedulings).map(group).collect()
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
