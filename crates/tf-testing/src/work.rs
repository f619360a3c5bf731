//! What one user asked of the API server, in figures. Pure: from entries of the audit log.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::audit::{self, Entry};

/// Requests of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// All of them.
    pub requests: u64,
    /// Mutating ones, refused ones and events included, those about the operator's lease left out.
    pub writes: u64,
    /// Mutating ones about the lease.
    pub lease_writes: u64,
    /// Those answered with 400 or more.
    pub failed: u64,
    /// Objects created, without events and the lease.
    pub objects: u64,
}

/// The requests of one user.
pub fn of(entries: &[Entry], user: &str) -> Work {
    let count = audit::count_by_user(entries).get(user).copied().unwrap_or_default();
    let objects: BTreeSet<_> = entries
        .iter()
        .filter(|entry| entry.user == user && creates_object(entry))
        .map(|entry| (&entry.group, &entry.resource, &entry.namespace, &entry.name))
        .collect();
    Work {
        requests: count.total,
        writes: count.writes(),
        lease_writes: count.lease_writes,
        failed: count.failed,
        objects: objects.len() as u64,
    }
}

/// Server-side apply is a patch; 201 is what tells that the object is new.
fn creates_object(entry: &Entry) -> bool {
    let kept = !entry.is_lease() && entry.resource != "events" && entry.subresource.is_empty();
    kept && entry.counts() && entry.is_mutating() && entry.code == 201
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{audit::tests::entry, request::Verb};

    #[test]
    fn objects_are_counted_once_and_events_and_leases_are_none() {
        let map = ["", "configmaps", "", "a"];
        let entries = [
            entry(1, "op", Verb::Patch, map, 201),
            entry(2, "op", Verb::Patch, map, 200),
            entry(3, "op", Verb::Patch, map, 201),
            entry(3, "op", Verb::Create, ["events.k8s.io", "events", "", "e"], 201),
            entry(3, "op", Verb::Create, ["coordination.k8s.io", "leases", "", "op"], 201),
            entry(4, "op", Verb::Get, map, 404),
            entry(4, "else", Verb::Patch, ["", "secrets", "", "s"], 201),
        ];
        let work = Work { requests: 6, writes: 4, lease_writes: 1, failed: 1, objects: 1 };
        assert_eq!(of(&entries, "op"), work);
    }
}
