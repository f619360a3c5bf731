//! What else runs on the node: ports, agents, other data planes, the firewall.

use super::{Finding, Id};
use crate::{
    HostFacts, Wanted,
    facts::processes::{Process, Role},
    uplink::choose,
};

/// Ports of the agent: introspection, metadata proxy, CNI plugin.
const PORTS: [(u16, &str); 3] = [(8085, "introspection"), (8097, "the metadata proxy"), (9091, "the CNI plugin")];

pub fn check(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    let mut findings = Vec::new();
    match facts.processes.iter().find(|process| process.role == Role::VrouterAgent) {
        Some(agent) => findings.push(runs(agent)),
        None => findings.extend(PORTS.iter().filter_map(|port| taken(facts, *port))),
    }
    findings.extend(other_data_plane(facts));
    findings.extend(zones(facts, wanted));
    findings
}

fn runs(agent: &Process) -> Finding {
    let cause = format!("{} runs already (process {})", agent.name, agent.id);
    Finding::new(Id::AgentRuns, cause, "stop it if it is of an earlier installation: one node has one agent")
}

fn taken(facts: &HostFacts, (port, what): (u16, &str)) -> Option<Finding> {
    let cause = format!("a program listens on TCP port {port}, which the vRouter's agent has for {what}");
    let action = format!("find it with ss -ltnp sport = :{port}, and stop it or give it another port");
    facts.listeners.contains(port).then(|| Finding::new(Id::PortTaken, cause, action))
}

fn other_data_plane(facts: &HostFacts) -> Option<Finding> {
    let process = facts.processes.iter().find(|process| matches!(process.role, Role::OpenVswitch | Role::Vpp));
    let process = process.map(|process| format!("{} runs (process {})", process.name, process.id));
    let module = facts.platform.data_planes.first().map(|module| format!("the kernel module {module} is loaded"));
    let cause = process.or(module)?;
    let action = "remove other data planes from the node: beside the vRouter they led to kernel panics";
    Some(Finding::new(Id::OtherDataPlane, cause, action))
}

fn zones(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    let zones = &facts.firewall.zones;
    let uplinks = choose(facts, wanted).unwrap_or_default();
    let zone = |link: &str| Some((link.to_owned(), zones.get(link)?));
    let named = uplinks.iter().filter_map(|uplink| zone(&uplink.link.name));
    let others = named.filter(|(_, zone)| zones.get(crate::facts::network::VHOST0) != Some(*zone));
    let finding = |(link, zone): (String, &String)| {
        let cause = format!("firewalld has {link} in the zone {zone}, and vhost0 in none");
        let action = format!("firewall-cmd --permanent --zone={zone} --add-interface=vhost0, and reload firewalld");
        Finding::new(Id::FirewallZone, cause, action)
    };
    others.map(finding).collect()
}
