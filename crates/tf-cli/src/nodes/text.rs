//! Rows as text: a table, and below it what stands in the way on each node.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use tf_agent_api::host::Summary;

use super::Row;

const TITLES: [&str; 9] = ["NODE", "VROUTER", "AGENT", "INTERFACE", "VHOST0", "MODULE", "KERNEL", "CNI", "FINDINGS"];

/// The table, and after it each node with a cause or findings. `now` is what ages are counted from.
pub fn text(rows: &[Row], now: Timestamp) -> String {
    if rows.is_empty() {
        return "no pods of a Vrouter\n".to_owned();
    }
    let mut lines = vec![TITLES.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let widths: Vec<usize> = (0..TITLES.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    for row in rows {
        out += &details(row, now);
    }
    out
}

fn cells(row: &Row) -> [String; 9] {
    let name = row.group.as_ref().map_or_else(|| row.vrouter.clone(), |group| format!("{}/{group}", row.vrouter));
    let agent = if row.ready { "Ready" } else { "not ready" };
    let [interface, vhost0, module, kernel, cni, findings] =
        row.summary.as_ref().map_or_else(|| std::array::from_fn(|_| "?".to_owned()), seen);
    [row.node.clone(), name, agent.to_owned(), interface, vhost0, module, kernel, cni, findings]
}

fn seen(summary: &Summary) -> [String; 6] {
    let or = |value: &Option<String>, none: &str| value.clone().unwrap_or_else(|| none.to_owned());
    let blocking = summary.findings.iter().filter(|finding| finding.blocks).count();
    let others = summary.findings.len() - blocking + summary.left_out;
    let count = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
    // What had no room comes after what blocks, unless that was too much already.
    let findings: Vec<String> = [count(blocking, "blocking"), count(others, "warning")].into_iter().flatten().collect();
    [
        if summary.uplinks.is_empty() { "none".to_owned() } else { summary.uplinks.join(",") },
        or(&summary.vhost0, "none"),
        or(&summary.module, "not loaded"),
        summary.kernel.clone(),
        or(&summary.cni, "none"),
        if findings.is_empty() { "none".to_owned() } else { findings.join(", ") },
    ]
}

/// What stands in the way on a node, with its name before it.
fn details(row: &Row, now: Timestamp) -> String {
    let mut lines: Vec<String> =
        row.cause.iter().map(|cause| format!("agent   {}", cause.replace('\n', " "))).collect();
    match &row.summary {
        Some(summary) => {
            lines.extend(summary.findings.iter().map(|finding| {
                let severity = if finding.blocks { "blocks" } else { "warns" };
                format!("{severity:6}  {}: {}", finding.id, finding.text)
            }));
            if summary.left_out > 0 {
                lines.push(format!("and {} more: kubectl tf nodes {}", summary.left_out, row.node));
            }
        }
        None => lines.push("nothing was reported of the node yet".to_owned()),
    }
    if lines.is_empty() {
        return String::new();
    }
    let age = row.seen.map(|seen| format!(" (as of {} ago)", age(now.duration_since(seen)))).unwrap_or_default();
    let mut out = format!("\n{}{age}\n", row.node);
    for line in lines {
        let _ = writeln!(out, "  {line}");
    }
    out
}

/// As kubectl writes it: the largest unit.
fn age(since: SignedDuration) -> String {
    let seconds = since.as_secs().max(0);
    let units = [(86400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let unit = units.into_iter().find(|(length, _)| seconds >= 2 * length);
    let (length, unit) = unit.unwrap_or((1, "s"));
    format!("{}{unit}", seconds / length)
}
