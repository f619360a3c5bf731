//! Virtual functions (SR-IOV): whether the hardware has as many as are wanted, and whether they can be made.

use super::{Finding, Id};
use crate::{
    HostFacts, Wanted,
    facts::{
        devices::{VirtualFunction, VirtualFunctions},
        network::{Network, VHOST0},
    },
    uplink::choose,
};

/// Drivers that hand a device to a program.
const HANDED: [&str; 4] = ["igb_uio", "uio_pci_generic", "vfio-pci", "pci-stub"];

pub fn check(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    wanted.virtual_functions.iter().flat_map(|(link, count)| of_link(facts, wanted, link, *count)).collect()
}

fn of_link(facts: &HostFacts, wanted: &Wanted, link: &str, count: u32) -> Vec<Finding> {
    let Some(found) = facts.devices.get(link).and_then(|device| device.virtual_functions.as_ref()) else {
        if count == 0 {
            return Vec::new();
        }
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
    }
    if found.managed {
        let cause = format!("sriov-network-operator manages virtual functions of {link}");
        findings.push(Finding::new(
            Id::VirtualFunctionsManaged,
            cause,
            "set their number there: the vRouter uses what it finds",
        ));
    } else if found.configured != count {
        findings.extend(busy(facts, link, found, count));
        findings.extend(carries(facts, wanted, link));
    }
    findings
}

fn busy(facts: &HostFacts, link: &str, found: &VirtualFunctions, count: u32) -> Option<Finding> {
    let use_of = used(&facts.network, &found.functions)?;
    let cause = format!(
        "{link} has {} virtual functions and {count} are wanted, which takes all of them away, and {use_of}",
        found.configured
    );
    let action = "drain the node and free its virtual functions, or ask for the number that there is";
    Some(Finding::new(Id::VirtualFunctionsDiffer, cause, action))
}

/// Some drivers reset the device for them. Where the interface is named for the vRouter, too, that is meant.
fn carries(facts: &HostFacts, wanted: &Wanted, link: &str) -> Option<Finding> {
    let routes = facts.network.default_routes();
    let carries = routes.iter().any(|route| route.hops.iter().any(|hop| hop.link == link))
        || facts.network.addresses_of(VHOST0).next().is_some() && is_uplink(facts, wanted, link);
    let is_meant = wanted.physical_interfaces.iter().any(|name| name == link);
    let cause = format!("{link} carries the node's own traffic, which may stop while its virtual functions are made");
    let action = format!("name another interface, or state {link} as physicalInterface, too, where that is meant");
    (carries && !is_meant).then(|| Finding::new(Id::VirtualFunctionsOnUplink, cause, action))
}

fn is_uplink(facts: &HostFacts, wanted: &Wanted, link: &str) -> bool {
    choose(facts, wanted).is_ok_and(|uplinks| uplinks.iter().any(|uplink| uplink.link.name == link))
}

/// What uses one of these functions, in words.
pub fn used(network: &Network, functions: &[VirtualFunction]) -> Option<String> {
    functions.iter().find_map(|VirtualFunction { pci, driver, links }| {
        let driver = driver.as_deref()?;
        if HANDED.contains(&driver) {
            return Some(format!("{pci} is handed to a program ({driver})"));
        }
        if links.is_empty() {
            return Some(format!("{pci} ({driver}) is in another network namespace"));
        }
        links.iter().find_map(|name| {
            let link = network.link(name)?;
            if let Some(address) = network.addresses_of(name).find(|address| address.is_global()) {
                return Some(format!("{name} ({pci}) has the address {}", address.address));
            }
            if let Some(master) = &link.master {
                return Some(format!("{name} ({pci}) is a port of {master}"));
            }
            let child = network.children_of(name).next()?;
            Some(format!("{} is above {name} ({pci})", child.name))
        })
    })
}
