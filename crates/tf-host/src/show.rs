//! What a node is, for people to read: a table, and the findings below it. Pure.

use std::fmt::Write as _;

use crate::{
    Finding, HostFacts, Mode, Wanted,
    dpdk::{command::command, taken::Taken},
    facts::{
        addresses::Address,
        kernel::{Kernel, Lockdown},
        links::Link,
        memory::{GIB_1, MIB_2},
        module::Module,
        network::{Network, VHOST0},
        routes::Route,
    },
    preflight::Severity,
    uplink::choose,
};

/// Width of the first column.
const NAMES: usize = 14;

/// Text of several lines, each with its newline.
pub fn show(facts: &HostFacts, wanted: &Wanted, findings: &[Finding]) -> String {
    let mut table = Table::default();
    uplinks(&mut table, facts, wanted);
    if wanted.mode == Mode::Dpdk
        && let Ok(taken) = Taken::of(facts, wanted)
    {
        table.row("forwarder", command(&taken, facts, wanted).join(" "));
    }
    table.rows("default route", facts.network.default_routes().iter().map(|route| self::route(route)).collect());
    table.row("kernel", kernel(&facts.kernel));
    table.row("module", module(&facts.module));
    table.rows("huge pages", huge_pages(facts));
    table.row("CPUs", cpus(facts));
    table.rows("CNI", cni(facts));
    if let Some(system) = &facts.platform.system {
        table.row("system", system.clone());
    }
    table.text + "\n" + &list(findings)
}

#[derive(Default)]
struct Table {
    text: String,
}

impl Table {
    fn row(&mut self, name: &str, value: String) {
        let line = format!("{name:NAMES$}  {value}");
        self.text += line.trim_end();
        self.text.push('\n');
    }

    /// Several values below one name.
    fn rows(&mut self, name: &str, values: Vec<String>) {
        if values.is_empty() {
            self.row(name, "none".into());
        }
        for (place, value) in values.into_iter().enumerate() {
            self.row(if place == 0 { name } else { "" }, value);
        }
    }
}

fn uplinks(table: &mut Table, facts: &HostFacts, wanted: &Wanted) {
    let network = &facts.network;
    let chosen = choose(facts, wanted);
    match &chosen {
        Ok(uplinks) if uplinks.is_empty() => table.row("uplink", "the DPDK forwarder has it".into()),
        Ok(_) => {}
        Err(_) => table.row("uplink", "none; see the findings".into()),
    }
    let uplinks = chosen.unwrap_or_default();
    for uplink in &uplinks {
        let link = uplink.link;
        table.row("uplink", format!("{} ({}): {}", link.name, uplink.source, described(network, link)));
        if let Some(device) = facts.devices.get(&link.name) {
            let words = [
                device.driver.as_ref().map(|driver| format!("driver {driver}")),
                device.pci.as_ref().map(|pci| format!("PCI {pci}")),
                device.numa_node.map(|node| format!("NUMA node {node}")),
                device.iommu.as_ref().map(|group| format!("IOMMU group {}", group.number)),
            ];
            table.row("", words.into_iter().flatten().collect::<Vec<_>>().join(", "));
        }
        table.rows("addresses", network.addresses_of(&link.name).map(address).collect());
        let owners: Vec<String> = facts
            .owners
            .iter()
            .filter(|owner| owner.link == link.name)
            .map(|owner| {
                let how = if owner.dhcp { ", by DHCP" } else { "" };
                format!("{}{how} ({})", owner.program, owner.evidence)
            })
            .collect();
        if !owners.is_empty() {
            table.rows("set by", owners);
        }
    }
    match network.link(VHOST0) {
        Some(link) => {
            table.row("vhost0", described(network, link));
            table.rows("", network.addresses_of(VHOST0).map(address).collect());
        }
        None => table.row("vhost0", "none".into()),
    }
}

fn described(network: &Network, link: &Link) -> String {
    let mut words = Vec::new();
    words.extend(link.kind.clone());
    words.extend(link.bond.as_ref().map(|bond| format!("mode {}", bond.mode)));
    words.extend(link.vlan.map(|id| format!("id {id}")));
    words.extend(
        link.parent.as_ref().filter(|_| link.kind.as_deref() != Some("veth")).map(|parent| format!("above {parent}")),
    );
    words.extend(link.master.as_ref().map(|master| format!("port of {master}")));
    words.push(match (link.up, link.carrier) {
        (true, true) => "up".into(),
        (true, false) => "up without carrier".into(),
        (false, _) => "down".into(),
    });
    words.push(format!("MTU {}", link.mtu));
    words.extend(link.mac.as_ref().map(|mac| format!("MAC {mac}")));
    let children: Vec<&str> = network.children_of(&link.name).map(|child| child.name.as_str()).collect();
    if !children.is_empty() {
        words.push(format!("below {}", children.join(" ")));
    }
    words.join(", ")
}

fn address(address: &Address) -> String {
    let left = address.valid.map(|seconds| format!(", valid for {seconds} s")).unwrap_or_default();
    format!("{}{left}", address.address)
}

fn route(route: &Route) -> String {
    let hop = |hop: &crate::facts::routes::Hop| {
        let gateway = hop.gateway.map(|gateway| format!("via {gateway} ")).unwrap_or_default();
        format!("{gateway}over {}", hop.link)
    };
    let hops: Vec<String> = route.hops.iter().map(hop).collect();
    let metric = route.metric.map(|metric| format!(", metric {metric}")).unwrap_or_default();
    format!("{}{metric} ({})", hops.join(" and "), route.protocol)
}

fn kernel(kernel: &Kernel) -> String {
    if kernel.release.is_empty() {
        return "unknown".into();
    }
    let mut words = vec![format!("{} {}", kernel.release, kernel.architecture)];
    words.push(if kernel.loads_modules { "loads modules" } else { "loads no modules" }.into());
    words.push(if kernel.has_headers { "headers installed" } else { "no headers" }.into());
    if kernel.secure_boot == Some(true) {
        words.push("secure boot".into());
    }
    if kernel.lockdown != Lockdown::None {
        words.push(format!("lockdown {}", kernel.lockdown));
    }
    words.join(", ")
}

fn module(module: &Module) -> String {
    let loaded = match &module.loaded {
        Some(loaded) => {
            format!("loaded{}", loaded.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default())
        }
        None => "not loaded".into(),
    };
    let file = module.files.first().map_or_else(|| "no file for this kernel".into(), |file| file.path.clone());
    format!("{loaded}, {file}")
}

/// Huge pages of each size that the kernel knows, and where they are mounted.
pub fn huge_pages(facts: &HostFacts) -> Vec<String> {
    let memory = &facts.memory;
    let sizes = [(MIB_2, "2M"), (GIB_1, "1G")].into_iter().filter_map(|(size, name)| {
        let pages = memory.huge_pages.get(&size)?;
        let mount =
            memory.mount_of(size).map_or_else(|| "not mounted".into(), |mount| format!("mounted at {}", mount.path));
        Some(format!("{name}: {} of {} free, {mount}", pages.usable(), pages.total))
    });
    sizes.collect()
}

fn cpus(facts: &HostFacts) -> String {
    let cpus = &facts.cpus;
    let isolated = if cpus.isolated.is_empty() { String::new() } else { format!(", isolated {}", cpus.isolated) };
    let nodes = if cpus.nodes.len() > 1 { format!(", {} NUMA nodes", cpus.nodes.len()) } else { String::new() };
    let online = if cpus.online.is_empty() { "unknown".into() } else { cpus.online.to_string() };
    format!("{online}{isolated}{nodes}")
}

fn cni(facts: &HostFacts) -> Vec<String> {
    let mut lines = Vec::new();
    for directory in &facts.cni.directories {
        lines.extend(directory.configurations.iter().map(|file| {
            let what = file.error.clone().unwrap_or_else(|| file.types.join(", "));
            format!("{}/{}: {what}", directory.path, file.file)
        }));
    }
    lines
}

fn list(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    if findings.is_empty() {
        return "No findings.\n".into();
    }
    let mut text = format!("Findings: {} blocking, {} warning\n", count(Severity::Blocks), count(Severity::Warns));
    for finding in findings {
        let _ = writeln!(text, "{:6}  {}: {finding}", finding.severity.to_string(), finding.id);
    }
    text
}
