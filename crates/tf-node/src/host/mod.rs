//! `tf-node host`: what this node is for the vRouter, and the switch to `vhost0` and back. It needs no Kubernetes and writes to
//! standard output.

pub mod forward;
mod guard;
mod options;
pub mod programs;
mod summary;

use std::{
    env, fs,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use serde_json::json;
use tf_agent_api::host::SUMMARY_LIMIT;
use tf_host::{
    Finding, HostFacts, Root, Wanted, act,
    data_path::Module,
    journal::Journal,
    observe, preflight, queues,
    reload::Reloaded,
    setup::{Done, Error, Setup, remove_cni},
    show,
    uplink::choose,
    virtual_functions::{self, Change},
};

use self::{
    guard::Guard,
    options::{Action, HELP, Options},
    programs::HostRoot,
};
use crate::paths::Paths;

/// Record of virtual functions that were made.
const FUNCTIONS: &str = "virtual-functions.json";
/// How a run ends in which something keeps a vRouter from the node, which was not touched.
const BLOCKED: u8 = 3;
/// How one ends that changed the node and undid it.
const UNDONE: u8 = 4;
/// How one ends that failed otherwise.
const FAILED: u8 = 2;

/// What is asked for. None: help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command(Option<Box<(Action, Options)>>);

/// Reads the arguments after `host`.
///
/// # Errors
/// What makes no sense.
pub fn parse(parser: &mut lexopt::Parser, paths: &mut Paths) -> Result<Command> {
    Ok(Command(options::parse(parser, paths)?.map(Box::new)))
}

/// What a vRouter needs of a node by these options of `tf-node host apply`. None: they make no sense.
pub fn wanted(options: &[String], root: &Root) -> Option<Wanted> {
    let words = ["apply".to_owned()].into_iter().chain(options.iter().cloned());
    let (_, options) = options::parse(&mut lexopt::Parser::from_args(words), &mut Paths::default()).ok()??;
    Some(informed(&options, root))
}

/// What a vRouter needs, with what the journal of this boot has.
fn informed(options: &Options, root: &Root) -> Wanted {
    Wanted { below_vhost0: Journal::uplink(&options.journal, root), ..options.wanted.clone() }
}

/// Does what the arguments ask for.
///
/// # Errors
/// When standard output cannot be written, or a process cannot be started.
pub fn execute(paths: &Paths, command: Command) -> Result<ExitCode> {
    let Command(Some(command)) = command else {
        io::stdout().write_all(HELP.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let (action, options) = *command;
    let mut options = options.with_environment(|name| env::var(name).ok());
    let root = Root::below(paths.at("/"));
    options.wanted = informed(&options, &root);
    let (text, code) = match action {
        Action::Show => shown(&observe(&root), &options)?,
        Action::Apply => after_forwarder(&root, action, &options)?,
        Action::VirtualFunctions => {
            functions(virtual_functions::apply(&root, &options.wanted, &options.beside_journal(FUNCTIONS)))
        }
        Action::Forward => forward::run(&root, &options)?,
        Action::Remove => {
            let (text, code) = after_forwarder(&root, action, &options)?;
            // They are no part of what a guard undoes, and nothing is taken away where the vRouter stays.
            if code == 0 && options.guard_of.is_none() {
                let (text, code) = without_functions(&root, &options, &text);
                if code == 0 { with_queues(&root, &options, &text) } else { (text, code) }
            } else {
                (text, code)
            }
        }
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::from(code))
}

/// What is printed, and the exit code. A summary goes into its file.
fn shown(facts: &HostFacts, options: &Options) -> Result<(String, u8)> {
    let (text, code) = report(facts, &options.wanted, options.json)?;
    let Some(file) = &options.summary else { return Ok((text, code)) };
    let summary = summary::of(facts, &options.wanted).message(SUMMARY_LIMIT);
    fs::write(file, summary).with_context(|| format!("write {}", file.display()))?;
    Ok((text, 0))
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

/// Gives back what a forwarder of this boot had taken that was killed with its container, and changes the node then.
fn after_forwarder(root: &Root, action: Action, options: &Options) -> Result<(String, u8)> {
    // The process that is guarded has done it before.
    let given = if options.guard_of.is_some() { None } else { forward::remove(root, options) };
    let Some((given, code)) = given else { return change(root, action, options) };
    if code != 0 {
        return Ok((given, code));
    }
    let (text, code) = change(root, action, options)?;
    Ok((format!("{}; {text}", given.trim_end()), code))
}

/// Changes the node, or guards a process that does.
fn change(root: &Root, action: Action, options: &Options) -> Result<(String, u8)> {
    let mut wanted = options.wanted.clone();
    if action == Action::Remove && wanted.physical_interfaces.is_empty() {
        // The pod that removes the vRouter is the same for all groups.
        let uplinks = Journal::uplinks(&options.journal, root);
        if uplinks.len() > 1 {
            (wanted.physical_interfaces, wanted.multihomed) = (uplinks, true);
        }
    }
    let wanted = &wanted;
    if options.keep_vhost0 {
        return Ok(match remove_cni(root, wanted, options.force) {
            Ok(files) => (format!("vhost0 stays{}\n", removed(&files)), 0),
            Err(error) => outcome(action, Err(error)),
        });
    }
    let mut data_path = Module::new(root, options.programs.clone(), wanted.module_parameters.clone());
    let (journal, peers): (&Path, _) = (&options.journal, &options.peers);
    let programs = HostRoot(root);
    let other_module = options.other_module;
    let mut setup =
        Setup { root, wanted, journal, peers, data_path: &mut data_path, programs: &programs, other_module };
    if let Some(process) = options.guard_of {
        guard::wait(process, journal);
        return Ok(match setup.recover() {
            Ok(_) => (String::new(), 0),
            Err(error) => (format!("{error}\n"), FAILED),
        });
    }
    let guard = Guard::start()?;
    let done = if action == Action::Apply { setup.apply() } else { setup.remove(options.force) };
    guard.end();
    Ok(outcome(action, done))
}

/// What is printed of virtual functions, and the exit code.
fn functions(made: Result<Vec<Change>, virtual_functions::Error>) -> (String, u8) {
    match made {
        Ok(made) if made.is_empty() => ("virtual functions are as they should be\n".to_owned(), 0),
        Ok(made) => (format!("made {}\n", listed(&made, |change| change.to)), 0),
        Err(error @ virtual_functions::Error::Blocked(_)) => (format!("{error}; nothing was touched\n"), BLOCKED),
        Err(error) => (format!("{error}\n"), FAILED),
    }
}

fn listed(changes: &[Change], number: impl Fn(&Change) -> u32) -> String {
    let each = changes.iter().map(|change| format!("{} virtual functions of {}", number(change), change.link));
    each.collect::<Vec<_>>().join(", ")
}

/// Takes virtual functions away that were made, and says so after what was done before.
fn without_functions(root: &Root, options: &Options, text: &str) -> (String, u8) {
    let (removed, left) = match virtual_functions::remove(root, &options.beside_journal(FUNCTIONS)) {
        Ok(done) => done,
        Err(error) => return (format!("{error}; {text}"), FAILED),
    };
    let mut done = vec![text.trim_end().to_owned()];
    done.extend((!removed.is_empty()).then(|| format!("removed {}", listed(&removed, |change| change.from))));
    done.extend(left.into_iter().map(|kept| format!("kept {kept}")));
    (done.join("; ") + "\n", 0)
}

/// Gives queues the CPUs back that they had, and says so after what was done before.
fn with_queues(root: &Root, options: &Options, text: &str) -> (String, u8) {
    match queues::give_back(root, &options.beside_journal(queues::RECORD)) {
        Ok(given) if given.is_empty() => (text.to_owned(), 0),
        Ok(given) => (format!("{}; {} queues have their CPUs back\n", text.trim_end(), given.len()), 0),
        Err(error) => (format!("the record of queues cannot be used: {error}; {text}"), FAILED),
    }
}

/// What is printed of a change, and the exit code.
fn outcome(action: Action, done: Result<Done, Error>) -> (String, u8) {
    let done = match done {
        Ok(done) => done,
        Err(error) => {
            let (untouched, code) = match &error {
                Error::Blocked(_) | Error::NotPlanned(_) | Error::InUse(_) => ("; nothing was touched", BLOCKED),
                Error::Busy => ("", BLOCKED),
                Error::Act(act::Error::RolledBack { .. }) => ("", UNDONE),
                _ => ("", FAILED),
            };
            return (format!("{error}{untouched}\n"), code);
        }
    };
    let recovered = if done.recovered { "undid what an earlier process began; " } else { "" };
    let text = match (action, done.uplink, done.steps) {
        (Action::Remove, None, _) => "there is no vhost0".to_owned(),
        (Action::Remove, Some(uplink), _) => format!("{uplink} has its addresses and routes back, and vhost0 is gone"),
        (_, uplink, steps) => {
            let uplink = uplink.unwrap_or_default();
            let how = if steps == 0 { "already".to_owned() } else { format!("after {steps} steps") };
            format!("vhost0 has the place of {uplink} ({how})")
        }
    };
    (format!("{recovered}{text}{}{}\n", removed(&done.files), of_module(&done.module)), 0)
}

/// What is printed of the kernel module.
fn of_module(module: &Reloaded) -> String {
    match module {
        Reloaded::No => String::new(),
        Reloaded::Yes => "; the kernel module was loaded again".into(),
        Reloaded::Failed(why) => {
            format!("; the kernel module is the one that worked before, and not another one: {why}")
        }
        Reloaded::Unloaded => "; the kernel module is unloaded".into(),
        Reloaded::Stays(why) => format!("; the kernel module stays loaded until the node boots: {why}"),
    }
}

fn removed(files: &[String]) -> String {
    if files.is_empty() { String::new() } else { format!("; removed {}", files.join(", ")) }
}

#[cfg(test)]
mod tests {
    use tf_agent_api::host::Summary;
    use tf_host::preflight::Id;

    use super::*;

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

    #[test]
    fn a_summary_is_written_beside_what_is_shown_and_stops_nothing() {
        let empty = tempfile::tempdir().unwrap();
        let facts = observe(&Root::below(empty.path()));
        let wanted = Wanted { physical_interfaces: vec!["none0".into()], ..Wanted::default() };
        let file = empty.path().join("termination-log");
        let options = Options { wanted: wanted.clone(), summary: Some(file.clone()), ..Options::default() };
        let (text, code) = shown(&facts, &options).unwrap();
        assert_eq!((text, code), (report(&facts, &wanted, false).unwrap().0, 0));
        let written: Summary = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(written.uplinks, Vec::<String>::new());
        assert_eq!(written.findings[0].id, "uplink-not-found");
        assert!(written.findings[0].blocks && written.findings[0].text.starts_with("the node has no interface none0"));
    }

    #[test]
    fn a_change_says_what_was_done_or_why_not_and_whether_the_node_was_touched() {
        let done = |uplink: Option<&str>, steps, recovered| {
            Ok(Done { uplink: uplink.map(Into::into), steps, recovered, ..Done::default() })
        };
        let files = vec!["/etc/cni/net.d/10-tf-cni.conf".to_owned()];
        let blocked = || Error::Blocked(vec![Finding::new(Id::UplinkDown, "eth0 is down", "set it up")]);
        let undone = act::Error::RolledBack { reason: "10.0.0.1:6443 does not answer".into() };
        let left = act::Error::NotRolledBack { reason: "no".into(), left: vec!["remove vhost0: no".into()] };
        for (action, result, text, code) in [
            (Action::Apply, done(Some("eth0"), 7, false), "vhost0 has the place of eth0 (after 7 steps)", 0),
            (Action::Apply, done(Some("eth0"), 0, false), "vhost0 has the place of eth0 (already)", 0),
            (Action::Remove, done(None, 0, true), "undid what an earlier process began; there is no vhost0", 0),
            (
                Action::Remove,
                done(Some("eth0"), 7, false),
                "eth0 has its addresses and routes back, and vhost0 is gone",
                0,
            ),
            (
                Action::Remove,
                Ok(Done { files, ..Done::default() }),
                "there is no vhost0; removed /etc/cni/net.d/10-tf-cni.conf",
                0,
            ),
            (
                Action::Apply,
                Ok(Done { uplink: Some("eth0".into()), steps: 13, module: Reloaded::Yes, ..Done::default() }),
                "vhost0 has the place of eth0 (after 13 steps); the kernel module was loaded again",
                0,
            ),
            (
                Action::Remove,
                Ok(Done { module: Reloaded::Stays("Module vrouter is in use".into()), ..Done::default() }),
                "there is no vhost0; the kernel module stays loaded until the node boots: Module vrouter is in use",
                0,
            ),
            (Action::Apply, Err(blocked()), "eth0 is down; set it up; nothing was touched", BLOCKED),
            (Action::Apply, Err(undone.into()), "10.0.0.1:6443 does not answer; undone", UNDONE),
            (Action::Apply, Err(left.into()), "no; not undone: remove vhost0: no", FAILED),
        ] {
            assert_eq!(outcome(action, result), (format!("{text}\n"), code));
        }
    }
}
