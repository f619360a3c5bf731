//! Metrics that real servers and operators tell, held against the table.

use anyhow::{Result, ensure};
use tf_plan::metrics::{Metric, Told};

/// Whether a page has a series of this name.
fn has(page: &str, metric: &Metric) -> bool {
    let named = |line: &str| line.strip_prefix(metric.name).is_some_and(|rest| rest.starts_with([' ', '{']));
    page.lines().any(named)
}

/// Whether each server tells each of these, those of the leading server apart, which one of them tells.
pub fn by_servers(metrics: &[&Metric], pages: &[String]) -> Result<()> {
    for metric in metrics {
        let by = pages.iter().filter(|page| has(page, metric)).count();
        let wanted = if metric.told == Told::ByLeadingServer { 1 } else { pages.len() };
        ensure!(by >= wanted, "{} of {wanted} servers tell {}: {pages:?}", by, metric.name);
    }
    Ok(())
}

/// Whether an operator that leads and has members tells each of these that is about every such resource.
pub fn by_operator(metrics: &[&Metric], page: &str) -> Result<()> {
    for metric in metrics.iter().filter(|metric| matches!(metric.told, Told::ByLeader | Told::OfMembers)) {
        ensure!(has(page, metric), "{} is not told: {page}", metric.name);
    }
    Ok(())
}
