//! `tf-node host show`: what this node is for the vRouter, and what stands in its way. It reads only, needs no Kubernetes and
//! writes to standard output.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use lexopt::prelude::{Long, Short, Value, ValueExt as _};
use serde_json::json;
use tf_host::{
    Finding, HostFacts, Root, Wanted,
    facts::memory::{GIB_1, MIB_2},
    observe, preflight, show,
    uplink::choose,
};

use crate::paths::Paths;

/// How a run ends in which something keeps a vRouter from the node.
const BLOCKED: u8 = 3;

/// What people get when they ask for help.
pub const HELP: &str = "\
tf-node host show: what this node is for the vRouter, and what stands in its way. It changes nothing. Run it as root.

  --json                         facts and findings as JSON
  --mode kernel|dpdk             what forwards packets; kernel
  --module image|host            where the kernel module comes from: compiled by the vRouter's image, or on the node; image
  --physical-interface NAME      the interface that the vRouter takes; several for several uplinks. Else it is found
  --data-subnet NETWORK          network of the overlay's packets
  --gateway ADDRESS              router of the overlay's packets
  --control-node ADDRESS         may be repeated
  --pod-network NETWORK          network of pods or Services; may be repeated
  --huge-pages-2m COUNT, --huge-pages-1g COUNT
  --core-mask CPUS               CPUs that forward with DPDK: 2-5
  --dpdk-driver NAME             driver that DPDK gets the interface by; vfio-pci
  --cni-directory DIR, --cni-programs DIR
                                 where the container runtime has CNI configurations and programs
  --root DIR                     where the node's / is mounted; /

The exit code is 0 if a vRouter can be set up, 3 if something blocks it, and 2 if the arguments make no sense.
";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Facts and findings.
    Show {
        /// What a vRouter needs.
        wanted: Box<Wanted>,
        /// Whether a program reads it.
        json: bool,
    },
    /// Help.
    Help,
}

/// Reads the arguments after `host`.
///
/// # Errors
/// What makes no sense.
pub fn parse(parser: &mut lexopt::Parser, paths: &mut Paths) -> Result<Command> {
    let (mut wanted, mut json, mut actions) = (Wanted::default(), false, Vec::new());
    while let Some(argument) = parser.next()? {
        let name = match argument {
            Value(value) => {
                actions.push(value.string()?);
                continue;
            }
            Long("json") => {
                json = true;
                continue;
            }
            Long("help") | Short('h') => return Ok(Command::Help),
            Long("root") => {
                *paths = Paths::below(parser.value()?);
                continue;
            }
            Long(name) => name.to_owned(),
            other @ Short(_) => return Err(other.unexpected().into()),
        };
        set(&mut wanted, &name, parser).with_context(|| format!("--{name}"))?;
    }
    match actions.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["show"] => {
            wanted.multihomed = wanted.physical_interfaces.len() > 1;
            Ok(Command::Show { wanted: Box::new(wanted), json })
        }
        _ => bail!("host: write tf-node host show; see tf-node host --help"),
    }
}

fn set(wanted: &mut Wanted, name: &str, parser: &mut lexopt::Parser) -> Result<()> {
    let mut pages = |size, parser: &mut lexopt::Parser| -> Result<()> {
        let count: u64 = parser.value()?.parse()?;
        wanted.huge_pages.retain(|other, _| *other != size);
        wanted.huge_pages.extend((count > 0).then_some((size, count)));
        Ok(())
    };
    match name {
        "mode" => wanted.mode = parser.value()?.parse()?,
        "module" => wanted.module = parser.value()?.parse()?,
        "physical-interface" => {
            let names = parser.value()?.string()?;
            wanted.physical_interfaces.extend(names.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
        }
        "data-subnet" => wanted.data_subnet = Some(parser.value()?.parse()?),
        "gateway" => wanted.gateway = Some(parser.value()?.parse()?),
        "control-node" => wanted.control_nodes.push(parser.value()?.parse()?),
        "pod-network" => wanted.pod_networks.push(parser.value()?.parse()?),
        "huge-pages-2m" => pages(MIB_2, parser)?,
        "huge-pages-1g" => pages(GIB_1, parser)?,
        "core-mask" => wanted.cores = Some(parser.value()?.parse()?),
        "dpdk-driver" => wanted.dpdk_driver = parser.value()?.string()?,
        "cni-directory" => wanted.cni_directory = parser.value()?.string()?,
        "cni-programs" => wanted.cni_programs = parser.value()?.string()?,
        _ => bail!("no such option; see tf-node host --help"),
    }
    Ok(())
}

/// Does what the arguments ask for.
///
/// # Errors
/// When standard output cannot be written.
pub fn execute(paths: &Paths, command: Command) -> Result<ExitCode> {
    let Command::Show { wanted, json } = command else {
        io::stdout().write_all(HELP.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let facts = observe(&Root::below(paths.at("/")));
    let (text, code) = report(&facts, &wanted, json)?;
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::from(code))
}

/// What is printed, and the exit code.
fn report(facts: &HostFacts, wanted: &Wanted, json: bool) -> Result<(String, u8)> {
    let findings = preflight(facts, wanted);
    let text = if json { document(facts, wanted, &findings)? } else { show(facts, wanted, &findings) };
    Ok((text, if findings.iter().any(Finding::blocks) { BLOCKED } else { 0 }))
}

fn document(facts: &HostFacts, wanted: &Wanted, findings: &[Finding]) -> Result<String> {
    let uplinks: Vec<_> = choose(facts, wanted)
        .unwrap_or_default()
        .iter()
        .map(|uplink| json!({"link": uplink.link.name, "source": uplink.source}))
        .collect();
    let document = json!({"uplinks": uplinks, "findings": findings, "facts": facts});
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

#[cfg(test)]
mod tests {
    use tf_host::Mode;

    use super::*;

    fn parsed(line: &str) -> Result<Command> {
        parse(&mut lexopt::Parser::from_args(line.split_whitespace()), &mut Paths::default())
    }

    #[test]
    fn what_people_ask_for_is_understood() {
        assert_eq!(parsed("show").unwrap(), Command::Show { wanted: Box::default(), json: false });
        let wanted = Wanted {
            mode: Mode::Dpdk,
            physical_interfaces: vec!["eth0".into(), "eth1".into()],
            multihomed: true,
            gateway: Some([10, 0, 0, 1].into()),
            control_nodes: vec![[10, 0, 0, 2].into(), [10, 0, 0, 3].into()],
            huge_pages: [(MIB_2, 128)].into(),
            cores: Some("2-5".parse().unwrap()),
            ..Wanted::default()
        };
        let line = "show --json --mode dpdk --physical-interface eth0,eth1 --gateway=10.0.0.1 --control-node 10.0.0.2 \
                    --control-node 10.0.0.3 --huge-pages-2m 128 --huge-pages-1g 0 --core-mask 2-5";
        assert_eq!(parsed(line).unwrap(), Command::Show { wanted: Box::new(wanted), json: true });
        assert_eq!(parsed("--help").unwrap(), Command::Help);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_option_that_does_not() {
        for (line, expected) in [
            ("", "tf-node host show"),
            ("apply", "tf-node host show"),
            ("show now", "tf-node host show"),
            ("show --fast", "--fast"),
            ("show --mode vpp", "--mode"),
            ("show --gateway router", "--gateway"),
            ("show --huge-pages-2m many", "--huge-pages-2m"),
            ("show -x", "-x"),
        ] {
            let error = format!("{:#}", parsed(line).unwrap_err());
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn a_node_is_shown_without_a_cluster_and_its_findings_decide_the_exit_code() {
        let empty = tempfile::tempdir().unwrap();
        let facts = observe(&Root::below(empty.path()));
        let wanted = Wanted { physical_interfaces: vec!["none0".into()], ..Wanted::default() };
        let (text, code) = report(&facts, &wanted, false).unwrap();
        assert!(text.contains("blocks  uplink-not-found: the node has no interface none0"), "{text}");
        assert_eq!(code, BLOCKED);
        let (text, code) = report(&facts, &wanted, true).unwrap();
        assert_eq!(code, BLOCKED);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["findings"][0]["id"], "uplink-not-found");
        assert_eq!(serde_json::from_value::<HostFacts>(value["facts"].clone()).unwrap(), facts);
    }
}
