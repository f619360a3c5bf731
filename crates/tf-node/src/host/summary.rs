//! A node in short: what a line of a table with many nodes has. Pure.

use tf_agent_api::host::{self, Summary};
use tf_host::{
    Finding, HostFacts, Wanted,
    facts::network::{Network, VHOST0},
    preflight, show,
    uplink::choose,
};

/// What facts of a node are for a vRouter of which this is wanted.
pub fn of(facts: &HostFacts, wanted: &Wanted) -> Summary {
    let uplinks = choose(facts, wanted).unwrap_or_default();
    let loaded = facts.module.loaded.as_ref();
    let common = facts.cni.directories.iter().find(|directory| directory.path == wanted.cni_directory);
    let first = common.and_then(|directory| directory.configurations.iter().find(|file| file.error.is_none()));
    Summary {
        uplinks: uplinks.iter().map(|uplink| uplink.link.name.clone()).collect(),
        vhost0: vhost0(&facts.network),
        kernel: facts.kernel.release.clone(),
        module: loaded.map(|module| module.version.clone().unwrap_or_else(|| "loaded".into())),
        huge_pages: show::huge_pages(facts),
        cni: first.map(|file| file.file.clone()),
        findings: preflight(facts, wanted).iter().map(finding).collect(),
        left_out: 0,
    }
}

fn vhost0(network: &Network) -> Option<String> {
    network.link(VHOST0)?;
    let mut addresses: Vec<_> = network.addresses_of(VHOST0).map(|address| address.address).collect();
    addresses.sort_by_key(|address| address.addr().is_ipv6());
    Some(addresses.first().map_or_else(|| "no address".into(), ToString::to_string))
}

fn finding(finding: &Finding) -> host::Finding {
    host::Finding { id: finding.id.to_string(), blocks: finding.blocks(), text: finding.to_string() }
}
