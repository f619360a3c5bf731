//! Trees as text: a line for each resource, and below it what keeps it from being as wished.

use std::fmt::Write as _;

use tf_api::contract::DaemonStatus;

use super::{Node, State};

/// Daemons that are told of below their resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemons {
    /// Those that do not serve everywhere, or say that something they are connected to is down.
    Unwell,
    /// All, with all that they say they are connected to.
    All,
}

/// A resource's line, before the columns are as wide as the widest.
struct Line {
    what: String,
    state: String,
    members: String,
    version: String,
    /// What stands below, already indented.
    told: Vec<String>,
}

/// The trees, a paragraph for each namespace, and after them what could not be read.
pub fn text(trees: &[Node], notes: &[String], daemons: Daemons) -> String {
    let mut out = String::new();
    let mut namespace = None;
    for tree in trees {
        if namespace != Some(&tree.namespace) {
            let gap = if out.is_empty() { "" } else { "\n" };
            let _ = writeln!(out, "{gap}namespace {}", tree.namespace);
            namespace = Some(&tree.namespace);
            let lines: Vec<Line> = trees
                .iter()
                .filter(|other| other.namespace == tree.namespace)
                .flat_map(|root| lines(root, "", "", daemons))
                .collect();
            out += &aligned(&lines);
        }
    }
    if trees.is_empty() {
        out += "no resources of Tungsten Fabric\n";
    }
    for note in notes {
        let _ = writeln!(out, "could not be read: {note}");
    }
    out
}

/// A resource and what it made. `first` stands before its own line, `below` before those under it.
fn lines(node: &Node, first: &str, below: &str, daemons: Daemons) -> Vec<Line> {
    let bar = if node.children.is_empty() { "    " } else { "│   " };
    let said = node.told.iter().map(|told| {
        let message = told.message.replace('\n', " ");
        format!("{below}{bar}{}={} {}: {message}", told.kind, told.status, told.reason)
    });
    let shown = node.daemons.iter().filter(|daemon| daemons == Daemons::All || !daemon.is_well());
    let shown = shown.flat_map(|daemon| daemon_lines(daemon, daemons)).map(|line| format!("{below}{bar}{line}"));
    let own = Line {
        what: format!("{first}{} {}", node.kind, node.name),
        state: state(node),
        members: node.members.clone().unwrap_or_default(),
        version: node.version.clone().unwrap_or_default(),
        told: said.chain(shown).collect(),
    };
    let last = node.children.len().saturating_sub(1);
    let children = node.children.iter().enumerate().flat_map(|(index, child)| {
        let (branch, bar) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines(child, &format!("{below}{branch}"), &format!("{below}{bar}"), daemons)
    });
    std::iter::once(own).chain(children).collect()
}

/// A daemon, and below it its connections and where it does not serve.
fn daemon_lines(daemon: &DaemonStatus, daemons: Daemons) -> Vec<String> {
    let standby = daemon.standby.map(|standby| format!(", {standby} of them standby")).unwrap_or_default();
    let DaemonStatus { name, serving, wanted, .. } = daemon;
    let mut lines = vec![format!("{name}: {serving} of {wanted} serve{standby}; {}", daemon.versions.join(", "))];
    if let Some(since) = &daemon.unelected_since {
        lines.push(format!("  no process is active since {}", since.0));
    }
    for connection in daemon.connections.iter().filter(|it| daemons == Daemons::All || it.down > 0) {
        let down = if connection.down > 0 { format!(", down in {}", connection.down) } else { String::new() };
        lines.push(format!("  {} up in {}{down}", connection.name, connection.up));
    }
    lines.extend(
        daemon.troubles.iter().map(|trouble| format!("  {}: {}", trouble.node, trouble.message.replace('\n', " "))),
    );
    lines
}

fn state(node: &Node) -> String {
    match node.state {
        State::Ready => "Ready".to_owned(),
        State::NotReady => node.reason.clone().unwrap_or_else(|| "not Ready".to_owned()),
        State::NotReported => "no operator has reported".to_owned(),
        State::Outdated => "changed, not looked at yet".to_owned(),
        State::Hibernated => "Hibernated".to_owned(),
        State::Deleting => "being deleted".to_owned(),
    }
}

fn aligned(lines: &[Line]) -> String {
    let widest =
        |column: fn(&Line) -> &String| lines.iter().map(|line| column(line).chars().count()).max().unwrap_or(0);
    let (what, state, members) = (widest(|line| &line.what), widest(|line| &line.state), widest(|line| &line.members));
    let mut out = String::new();
    for line in lines {
        let row = format!("{:what$}  {:state$}  {:members$}  {}", line.what, line.state, line.members, line.version);
        let _ = writeln!(out, "{}", row.trim_end());
        for told in &line.told {
            let _ = writeln!(out, "{told}");
        }
    }
    out
}
