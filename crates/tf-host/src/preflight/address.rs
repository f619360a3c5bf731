//! Addresses of the interface, and what would set them again after they were moved to `vhost0`. NetworkManager and systemd-networkd are kept from it by
//! files (`crate::managers`); what others do is known from their configuration alone.

use super::{Finding, Id};
use crate::{
    HostFacts, Wanted,
    facts::{addresses::Address, links::Link, network::VHOST0, owners::Program},
};

pub fn check(facts: &HostFacts, wanted: &Wanted, uplinks: &[&Link]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = overlaps(facts, wanted, uplinks).into_iter().collect();
    findings.extend(without_own(facts, wanted));
    // The addresses of a multihomed node's uplinks stay where they are.
    let [link] = uplinks[..] else { return findings };
    if wanted.multihomed {
        return findings;
    }
    let on = |name: &'static str| ipv4(facts, name);
    let moved = on(VHOST0);
    let there = ipv4(facts, &link.name);
    findings.extend(usable(wanted, link, if moved.is_empty() { &there } else { &moved }));
    if moved.is_empty() {
        findings.extend(owned(facts, link, &there));
        findings.extend(advertised(facts, link));
    }
    findings
}

/// The address of a multihomed node is of none of its uplinks.
fn without_own(facts: &HostFacts, wanted: &Wanted) -> Option<Finding> {
    let subnet = wanted.loopback_subnet.filter(|_| wanted.multihomed)?;
    let is_own = |address: &Address| subnet.contains(&address.address.addr());
    let cause = format!("no interface of the node has an address in {subnet}, the network of its own address");
    let action = "give the loopback interface one, which routers know, or correct l3mhCidr";
    (!facts.network.addresses.iter().any(is_own)).then(|| Finding::new(Id::LoopbackAddressMissing, cause, action))
}

fn ipv4<'a>(facts: &'a HostFacts, link: &'a str) -> Vec<&'a Address> {
    facts.network.addresses_of(link).filter(|address| address.address.addr().is_ipv4() && address.is_global()).collect()
}

fn usable(wanted: &Wanted, link: &Link, addresses: &[&Address]) -> Option<Finding> {
    let name = &link.name;
    let Some(first) = addresses.first() else {
        let action = "give it one, or name another physicalInterface: the overlay is carried over IPv4";
        return Some(Finding::new(Id::UplinkWithoutIpv4, format!("{name} has no address for IPv4"), action));
    };
    let is_host = |address: &&Address| address.address.prefix_len() == 32;
    let cause = format!("{name} has {}, and the agent takes no network of a single host", first.address);
    let finding = || Finding::new(Id::UplinkHostPrefix, cause, "set dataSubnet: its prefix length is used");
    (addresses.iter().all(is_host) && wanted.data_subnet.is_none()).then(finding)
}

fn owned(facts: &HostFacts, link: &Link, addresses: &[&Address]) -> Vec<Finding> {
    let name = &link.name;
    let owners: Vec<_> = facts.owners.iter().filter(|owner| owner.link == *name).collect();
    let leased = addresses.iter().find(|address| address.expires());
    let client = owners.iter().find(|owner| owner.dhcp);
    let mut findings = Vec::new();
    let is_leased = leased.is_some() || client.is_some();
    if is_leased {
        let address =
            leased.or(addresses.first()).map_or_else(|| "its address".into(), |address| address.address.to_string());
        let who = client.map_or_else(String::new, |owner| format!(" by {}", owner.program));
        let cause =
            format!("{address} of {name} is leased{who}, and nothing would renew the lease once it is on vhost0");
        let action = format!("give {name} a static address, or name another physicalInterface");
        findings.push(Finding::new(Id::UplinkAddressLeased, cause, action));
    }
    let is_kept = |program: Program| matches!(program, Program::NetworkManager | Program::Networkd);
    for owner in owners.iter().filter(|owner| !owner.dhcp && !is_kept(owner.program)) {
        let cause = format!(
            "{} sets addresses of {name} ({}), and would set them again beside vhost0",
            owner.program, owner.evidence
        );
        let action = format!("keep {} from managing addresses of {name} before the vRouter takes it", owner.program);
        findings.push(Finding::new(Id::UplinkAddressOwned, cause, action));
    }
    if let Some(cloud) = facts.platform.cloud.filter(|_| is_leased) {
        let cause = format!(
            "the machine is of {cloud}, whose DHCP server may give the network of a single host and a short lease"
        );
        findings.push(Finding::new(Id::CloudDhcp, cause, "set dataSubnet, and reserve the address for this machine"));
    }
    findings
}

/// IPv6 by router advertisements, of which a program of the host keeps track where the kernel does not (`accept_ra` is 0). The kernel does so for `vhost0`, too,
/// which has the setting of the interface.
fn advertised(facts: &HostFacts, link: &Link) -> Option<Finding> {
    let name = &link.name;
    let by_program = facts.sysctls.of(name, "ipv6.accept_ra") == Some(0);
    let mut addresses = facts.network.addresses_of(name);
    let address =
        addresses.find(|address| address.address.addr().is_ipv6() && address.is_global() && address.expires());
    let mut routes = facts.network.routes.iter().filter(|route| route.is_over(name) && route.expires.is_some());
    let what = address.map(|address| address.address.to_string());
    let what = what.or_else(|| routes.next().map(|route| format!("the route to {}", route.destination)));
    let what = what.filter(|_| by_program)?;
    let cause = format!(
        "{what} of {name} ends unless router advertisements renew it, which a program handles there and the kernel does not \
         (net.ipv6.conf.{name}.accept_ra is 0): nothing would renew it once it is on vhost0"
    );
    let action = format!(
        "give {name} static addresses and routes for IPv6; or have the kernel handle router advertisements (IPv6AcceptRA=no for systemd-networkd, \
         ipv6.method=ignore for NetworkManager, and net.ipv6.conf.{name}.accept_ra=2)"
    );
    Some(Finding::new(Id::UplinkAddressLeased, cause, action))
}

fn overlaps(facts: &HostFacts, wanted: &Wanted, uplinks: &[&Link]) -> Option<Finding> {
    let names = uplinks.iter().map(|link| link.name.as_str()).chain([VHOST0]);
    let own: Vec<_> =
        names.flat_map(|name| facts.network.addresses_of(name)).filter(|address| address.is_global()).collect();
    let (address, pods) = own.iter().find_map(|address| {
        let network = address.address.trunc();
        let pods = wanted.pod_networks.iter().find(|pods| pods.contains(&network) || network.contains(*pods))?;
        Some((address, pods))
    })?;
    let cause = format!("{} of {} is in the network {pods} of pods", address.address, address.link);
    Some(Finding::new(Id::PodNetworkOverlaps, cause, "choose another network for pods"))
}
