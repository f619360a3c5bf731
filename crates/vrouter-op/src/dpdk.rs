//! The forwarder of the DPDK mode: a container beside the agent that has the node's interface for itself, and whose TAP is `vhost0` (`tf-node host forward`).

use std::collections::BTreeSet;

use tf_agent_api::{
    host::{FORWARD_WORDS, STATE_DIR},
    launch::{Launch, OnChange, Signal, Stop},
    node,
};
use tf_plan::{images::Builtin, not_ready::NotReady};

use crate::{
    config::agent,
    parameters::{Name, Parameters},
};

/// The container.
pub const FORWARDER: &str = "vrouteragentdpdk";
/// Its image. Only nodes of the DPDK mode have it.
pub const BUILTIN: Builtin = Builtin { name: FORWARDER, image: "vrouter-agent-dpdk", default: false };
/// Seconds that it gets to stop: it ends the forwarder and waits for the interface, which takes cards with slow firmware half a minute.
pub const STOP_SECONDS: u32 = 90;
/// The value of `DPDK_UIO_DRIVER` with which the images bind no driver: DPDK works beside the one of Mellanox cards, which `tf-node` sees by itself.
const BESIDE: &str = "mlnx";
/// The forwarder ends with fewer CPUs that forward packets.
const FEWEST: usize = 2;
/// More CPUs than any kernel is built for.
const MOST: u32 = 8192;

/// Options of `tf-node host` for the DPDK mode. What stands in the spec as text of its own, `DPDK_COMMAND_ADDITIONAL_ARGS`, may be a secret and is in the
/// environment.
///
/// # Errors
/// When a parameter means nothing, or cannot work.
pub fn options(parameters: &Parameters) -> Result<Vec<String>, NotReady> {
    if parameters.is_set(Name::L3mhCidr) || parameters.items(Name::PhysicalInterface).len() > 1 {
        let name = if parameters.is_set(Name::L3mhCidr) { Name::L3mhCidr } else { Name::PhysicalInterface };
        return Err(parameters.invalid(name, "the DPDK mode takes one interface, a bond for several; correct it"));
    }
    let mut options = vec!["--mode=dpdk".to_owned()];
    let masks = [Name::CpuCoreMask, Name::ServiceCoreMask, Name::DpdkCtrlThreadMask];
    let [forwarder, service, control] = masks.map(|name| cores(parameters, name));
    let (forwarder, service, control) = (forwarder?, service?, control?);
    if let Some(cores) = &forwarder {
        let taken = |cpu: &&u32| [&service, &control].into_iter().flatten().any(|others| others.contains(*cpu));
        if cores.iter().filter(|cpu| !taken(cpu)).count() < FEWEST {
            let hint = "two CPUs at least have to be left for forwarding, without those of SERVICE_CORE_MASK and DPDK_CTRL_THREAD_MASK; name more";
            return Err(parameters.invalid(Name::CpuCoreMask, hint));
        }
    }
    for (option, cores) in [("core-mask", forwarder), ("service-cores", service), ("control-cores", control)] {
        let list = |cores: BTreeSet<u32>| cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        options.extend(cores.map(|cores| format!("--{option}={}", list(cores))));
    }
    if let Some(driver) = parameters.get(Name::DpdkUioDriver).filter(|driver| *driver != BESIDE) {
        let is_name = driver.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !is_name {
            let hint = "use the name of a driver: vfio-pci, uio_pci_generic, or mlnx for cards of Mellanox";
            return Err(parameters.invalid(Name::DpdkUioDriver, hint));
        }
        options.push(format!("--dpdk-driver={driver}"));
    }
    let memory = parameters.number(Name::DpdkMemPerSocket, "use MiB from 0 to 65535")?;
    options.extend(memory.map(|memory| format!("--dpdk-memory={memory}")));
    for (name, option) in [(Name::NicOffloadEnable, "offloads"), (Name::DpdkEnableVlanFwrd, "vlan-forwarding")] {
        options.extend(parameters.flag(name)?.filter(|is_on| *is_on).map(|_| format!("--dpdk-{option}")));
    }
    Ok(options)
}

/// How `tf-node` runs it. `options`: those of `tf-node host forward`.
pub fn launch(options: &[String]) -> Launch {
    Launch {
        stop: Stop { signal: Signal::Term, seconds: STOP_SECONDS },
        // Where `vif` reads that there is a forwarder.
        files: [(agent::FILE.to_owned(), OnChange::Nothing)].into(),
        // Pods of the node have no network while it starts: it starts with its pod, whose template has the same options.
        runs_on: true,
        last_words: Some(format!("{STATE_DIR}/{FORWARD_WORDS}")),
        ..Launch::new(node::host_forward(options))
    }
}

/// CPUs of a mask (`0x3c`) or of a list (`2,4-6`). A number alone is a CPU to some programs and a mask to others.
fn cores(parameters: &Parameters, name: Name) -> Result<Option<BTreeSet<u32>>, NotReady> {
    let Some(text) = parameters.get(name) else { return Ok(None) };
    let hint = "write a mask with 0x, or a list with a comma or a dash, for example 0x3c or 2-5";
    cpus(text).map(Some).ok_or_else(|| parameters.invalid(name, hint))
}

fn cpus(text: &str) -> Option<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    if let Some(digits) = text.strip_prefix("0x") {
        for (place, digit) in (0..).zip(digits.chars().rev()) {
            let digit = digit.to_digit(16).filter(|_| place * 4 < MOST)?;
            found.extend((0..4).filter(|bit| digit >> bit & 1 == 1).map(|bit| place * 4 + bit));
        }
    } else {
        if !text.contains([',', '-']) {
            return None;
        }
        for item in text.split(',') {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= MOST {
                return None;
            }
            found.extend(first..=last);
        }
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_or_a_list_says_which_cpus_and_a_number_alone_neither() {
        for (text, expected) in [("0x3c", "2 3 4 5"), ("2,4-6", "2 4 5 6"), ("0x100000001", "0 32"), ("7-7", "7")] {
            let found: Vec<String> = cpus(text).unwrap().iter().map(u32::to_string).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
        for text in ["2", "", "0x", "0x0", "0xg", "a-b", "3-1", "1-99999999", "1,", "-"] {
            assert_eq!(cpus(text), None, "{text}");
        }
    }
}
