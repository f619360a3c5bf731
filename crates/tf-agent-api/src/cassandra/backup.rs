//! Backups of a ring: where they are on their volume, and what agents say of them.
//!
//! Each member has a folder of its own, `<namespace>/<resource>/<backup>/<number of the member>`, which appears when it is complete. It names the
//! members of the whole, so a folder that is missing is noticed wherever another one is.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Where the volume is mounted in a member's pod.
pub const DIRECTORY: &str = "/backup";
/// Of the name of a backup, which is that of a directory.
const LONGEST: usize = 63;

/// A backup of a ring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Namespace of the resource.
    pub namespace: String,
    /// Name of the resource.
    pub ring: String,
    /// Name of the backup.
    pub name: String,
}

impl Backup {
    /// Its directory below the volume; none if a name cannot be that of a directory.
    pub fn directory(&self) -> Option<String> {
        let Self { namespace, ring, name } = self;
        (is_name(namespace) && is_name(ring) && is_backup(name)).then(|| format!("{namespace}/{ring}/{name}"))
    }
}

/// Whether a backup can be called so.
pub fn is_backup(name: &str) -> bool {
    is_name(name) && name.len() <= LONGEST
}

/// Whether it leads nowhere else and is not hidden.
fn is_name(name: &str) -> bool {
    let begins = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// A folder of a backup that a member has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Uid of the resource that it was for.
    pub resource: String,
    /// When it was complete.
    pub at: Timestamp,
    /// Size of its files.
    pub bytes: u64,
}

/// What a member has of a backup before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The backup.
    pub of: Backup,
    /// When it was looked for.
    pub at: Timestamp,
    /// Complete folders by the numbers of the members that wrote them.
    #[serde(default)]
    pub folders: BTreeMap<u32, Folder>,
    /// What is wrong with the others, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A complete folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// Uid of the resource that it was for.
    pub resource: String,
    /// All members of the backup by their numbers, each with its node then.
    pub members: BTreeMap<u32, String>,
}

/// What a server has taken in of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The backup.
    pub of: Backup,
    /// Whether this member has made its keyspaces and tables in the ring.
    #[serde(default)]
    pub schema: bool,
    /// Folders whose rows it has taken in.
    #[serde(default)]
    pub folders: BTreeSet<u32>,
    /// When that last changed.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_volume() {
        let of = |namespace: &str, ring: &str, name: &str| {
            Backup { namespace: namespace.into(), ring: ring.into(), name: name.into() }.directory()
        };
        assert_eq!(of("tf", "configdb1", "2026-11-23_a.b").as_deref(), Some("tf/configdb1/2026-11-23_a.b"));
        for name in ["", "..", ".hidden", "a/b", "-x", "a b", "a\0", &"x".repeat(64)] {
            assert_eq!(of("tf", "configdb1", name), None, "{name}");
        }
        assert_eq!((of("..", "a", "b"), of("a", "../b", "c")), (None, None));
    }
}
