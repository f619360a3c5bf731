//! The figures as plain text: one table of clusters, one of operators for each cluster.

use std::fmt::Write as _;

use super::bringup::{Figures, Used};
use super::peer::{MEASURED, NOTE, Peer};

const MIB: f64 = 1024.0 * 1024.0;

/// What stands for a figure that was not measured.
const NONE: &str = "-";

/// Everything that is to be printed, with what each operator did where that is wanted in full.
pub fn table(runs: &[Figures], full: bool) -> String {
    let mut text = clusters(runs);
    for run in runs.iter().filter(|_| full) {
        let _ = write!(text, "\n{}", operators(run));
    }
    let _ = write!(text, "\n{}", notes());
    text
}

/// One column for each cluster of ours, then the Go operator's.
fn clusters(runs: &[Figures]) -> String {
    let mut head = vec![String::new()];
    head.extend(runs.iter().map(|run| format!("{} + {}", run.control_plane, run.workers)));
    head.extend(MEASURED.iter().map(|peer| format!("Go, 3 + {}", peer.workers)));
    let mut rows = vec![head];
    let mut row = |label: &str, ours: &dyn Fn(&Figures) -> String, theirs: &dyn Fn(&Peer) -> String| {
        let cells = runs.iter().map(ours).chain(MEASURED.iter().map(theirs));
        rows.push([label.to_owned()].into_iter().chain(cells).collect());
    };
    let none = |_: &Peer| NONE.to_owned();
    row("seconds from apply to Ready", &|run| seconds(run.ready), &|peer| seconds(peer.ready));
    row("  of them a workload is under way", &|run| seconds(run.workloads.workloads), &none);
    row("  of them no workload is under way", &|run| seconds(run.ready - run.workloads.workloads), &none);
    row("  of them a pod is not Ready yet", &|run| seconds(run.workloads.pods_starting), &none);
    row("  last pod Ready to Manager Ready", &|run| seconds(run.workloads.after_last_pod), &none);
    row("pods", &|run| run.workloads.pods.to_string(), &none);
    row("requests", &|run| sum(run, |used| used.bringup.requests).to_string(), &|peer| peer.requests.to_string());
    row("mutating requests, leases apart", &|run| sum(run, |used| used.bringup.writes).to_string(), &|peer| {
        peer.lock.map_or(NONE.into(), |lock| (peer.mutating - lock).to_string())
    });
    row(
        "mutating requests, leases included",
        &|run| sum(run, |used| used.bringup.writes + used.bringup.lease_writes).to_string(),
        &|peer| peer.mutating.to_string(),
    );
    row("objects created by operators", &|run| sum(run, |used| used.bringup.objects).to_string(), &none);
    row(
        "mutating requests per object",
        &|run| ratio(sum(run, |used| used.bringup.writes), sum(run, |used| used.bringup.objects)),
        &none,
    );
    row("CPU seconds", &|run| format!("{:.2}", total(run, |used| used.cpu)), &|peer| format!("{:.1}", peer.cpu));
    row("peak memory, all operators, MiB", &|run| mib(sum(run, |used| used.peak)), &|peer| format!("{:.1}", peer.peak));
    row("idle memory, all operators, MiB", &|run| mib(sum(run, |used| used.idle)), &none);
    row("idle memory, largest operator, MiB", &|run| mib(largest(run, |used| used.idle)), &none);
    row("idle requests a minute", &|run| format!("{:.1}", total(run, |used| used.idle_requests)), &|peer| {
        format!("{:.0}", peer.idle_requests)
    });
    row("idle mutating a minute, leases apart", &|run| format!("{:.1}", total(run, |used| used.idle_writes)), &none);
    row(
        "idle mutating a minute, with leases",
        &|run| format!("{:.1}", total(run, |used| used.idle_writes + used.idle_renewals)),
        &|peer| format!("{:.0}", peer.idle_mutating),
    );
    row(
        "pods replaced by a joining node",
        &|run| run.joined.map_or(NONE.into(), |joined| format!("{} of {}", joined.replaced, joined.before)),
        &|peer| peer.replaced.map_or(NONE.into(), |replaced| replaced.to_string()),
    );
    row("pods added by it", &|run| run.joined.map_or(NONE.into(), |joined| joined.added.to_string()), &none);
    row("mutating requests for it", &|run| run.joined.map_or(NONE.into(), |joined| joined.writes.to_string()), &none);
    align(&rows)
}

/// One row for each operator of one cluster.
fn operators(run: &Figures) -> String {
    let mut head = vec![format!("{} + {}", run.control_plane, run.workers)];
    head.extend(
        ["requests", "mutating", "objects", "per object", "CPU s", "peak MiB", "idle MiB", "idle req/min"]
            .map(str::to_owned),
    );
    if run.foreign > 0 {
        head.push(format!("MiB with {} strangers", 2 * run.foreign));
    }
    let mut rows = vec![head];
    for (name, used) in &run.operators {
        let mut row = vec![
            (*name).to_owned(),
            used.bringup.requests.to_string(),
            used.bringup.writes.to_string(),
            used.bringup.objects.to_string(),
            ratio(used.bringup.writes, used.bringup.objects),
            format!("{:.2}", used.cpu),
            mib(used.peak),
            mib(used.idle),
            format!("{:.1}", used.idle_requests),
        ];
        if run.foreign > 0 {
            row.push(used.with_foreign.map_or(NONE.into(), mib));
        }
        rows.push(row);
    }
    align(&rows)
}

fn notes() -> String {
    format!(
        "\
A workload is under way from its creation by an operator to the last status its controller wrote before Ready: that time is
the controllers', the scheduler's and the simulated kubelets'. Mutating requests include status, events and refused ones, from
the manifest applied to 5 s after Ready.
{NOTE}
"
    )
}

fn sum(run: &Figures, of: impl Fn(&Used) -> u64) -> u64 {
    run.operators.values().map(of).sum()
}

fn total(run: &Figures, of: impl Fn(&Used) -> f64) -> f64 {
    run.operators.values().map(of).sum()
}

fn largest(run: &Figures, of: impl Fn(&Used) -> u64) -> u64 {
    run.operators.values().map(of).max().unwrap_or_default()
}

fn seconds(value: f64) -> String {
    format!("{value:.1}")
}

#[expect(clippy::cast_precision_loss, reason = "counts and bytes of a test cluster are far below 2^53")]
/// Mebibytes of bytes, with one digit.
pub fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MIB)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a test cluster are far below 2^53")]
fn ratio(part: u64, of: u64) -> String {
    if of == 0 { NONE.into() } else { format!("{:.2}", part as f64 / of as f64) }
}

/// The first column to the left, all others to the right, each as wide as its widest cell.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        let _ = writeln!(text, "{}", cells.collect::<String>().trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec![String::new(), "3 + 3".into()], vec!["requests".into(), "7".into()]];
        assert_eq!(align(&rows), "          3 + 3\nrequests      7\n");
    }

    #[test]
    fn a_ratio_to_nothing_is_no_figure() {
        assert_eq!(ratio(3, 2), "1.50");
        assert_eq!(ratio(3, 0), NONE);
    }
}
