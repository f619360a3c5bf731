//! What operators write, by the audit log, and when they write nothing.

use std::time::Duration;

use anyhow::{Result, ensure};
use tf_testing::{Cluster, Entry, Mark, wait::eventually};
use tokio::time::Instant;

/// Requests of operators that change something, leases apart.
pub fn writes(entries: Vec<Entry>, users: &[&str]) -> Vec<Entry> {
    let ours = |entry: &Entry| users.contains(&entry.user.as_str());
    entries
        .into_iter()
        .filter(|entry| ours(entry) && entry.counts() && entry.is_mutating() && !entry.is_lease())
        .collect()
}

/// Requests as lines, for failure messages.
pub fn lines<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> String {
    let line = |entry: &Entry| {
        let sub = if entry.subresource.is_empty() { String::new() } else { format!("/{}", entry.subresource) };
        let (verb, resource) = (entry.verb, &entry.resource);
        format!("{} {verb:?} {resource}{sub} {}/{} {}", entry.user, entry.namespace, entry.name, entry.code)
    };
    entries.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Fails if these users have changed something since a position in the audit log.
pub async fn nothing_is_written(cluster: &Cluster, begin: Mark, users: &[&str]) -> Result<()> {
    let entries = cluster.lab.audit().window(begin, cluster.lab.audit_mark().await?)?;
    let written = writes(entries, users);
    ensure!(written.is_empty(), "written although nothing had changed:\n{}", lines(&written));
    Ok(())
}

/// Waits until the operators of a cluster have written nothing for this long, and returns the position in the audit log.
pub async fn settled(cluster: &Cluster, quiet: Duration) -> Result<Mark> {
    let users = cluster.users();
    let mut mark = cluster.lab.audit_mark().await?;
    let mut since = Instant::now();
    let limit = Duration::from_mins(1);
    eventually(&format!("no writes for {} s", quiet.as_secs()), limit, async || {
        let (entries, end) = cluster.lab.audit().entries_since(mark)?;
        if !writes(entries, &users).is_empty() {
            (mark, since) = (end, Instant::now());
        }
        Ok((since.elapsed() >= quiet).then_some(()))
    })
    .await?;
    cluster.lab.audit_mark().await
}
