//! Virtual functions (SR-IOV): whether the hardware has as many as are wanted, and whether they can be made.

use super::{Finding, Id};
use crate::{HostFacts, Wanted};

pub fn check(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    wanted.virtual_functions.iter().flat_map(|(link, count)| of_link(facts, link, *count)).collect()
}

fn of_link(facts: &HostFacts, link: &str, count: u32) -> Vec<Finding> {
    let Some(found) = facts.devices.get(link).and_then(|device| device.virtual_functions.as_ref()) else {
        let cause = format!("{link} has no virtual functions (sriov_totalvfs)");
        return vec![Finding::new(
            Id::VirtualFunctionsTooFew,
            cause,
            "enable SR-IOV in firmware and BIOS, or name another interface",
        )];
    };
    let mut findings = Vec::new();
    if found.total < count {
        let cause = format!("{link} can have {} virtual functions and {count} are wanted", found.total);
        findings.push(Finding::new(
            Id::VirtualFunctionsTooFew,
            cause,
            "ask for fewer, or raise the number in the firmware",
        ));
    } else if found.configured != 0 && found.configured != count {
        let cause = format!(
            "{link} has {} virtual functions and {count} are wanted, and the kernel changes the number only from 0",
            found.configured
        );
        let action = "drain the node and write 0 to sriov_numvfs, or ask for the number that there is";
        findings.push(Finding::new(Id::VirtualFunctionsDiffer, cause, action));
    }
    if found.managed {
        let cause = format!("sriov-network-operator manages virtual functions of {link}");
        findings.push(Finding::new(
            Id::VirtualFunctionsManaged,
            cause,
            "set their number there: the vRouter uses what it finds",
        ));
    }
    findings
}
