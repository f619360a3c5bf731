//! Whether a cluster has the feature flags of its release (RabbitMQ, "Feature Flags"): what a release brings is off after an upgrade, and a later line
//! does not start where it still is. The plugin tells administrators alone, and the tool is an Erlang of its own, so it is noted for which
//! release they were enabled. That is beside the databases, and gone with them.

use std::{fs, path::Path};

use anyhow::Result;
use tf_agent_api::release::Line;
use tf_host::atomic;

use super::data;

/// The note.
const ENABLED: &str = ".tf-flags";
/// From this line on one of the flags moves the database to where nothing of ours has been tried with it (Khepri).
const MOVES: Line = Line { major: 4, minor: 2 };

/// Whether they were enabled for this release; none where that is not ours to do.
pub(super) fn are_enabled(data: &Path, release: &str) -> Option<bool> {
    let is_ours = Line::of(release).is_some_and(|line| line < MOVES);
    is_ours.then(|| fs::read_to_string(data::databases(data).join(ENABLED)).is_ok_and(|noted| noted == release))
}

/// Notes that they were enabled for this release.
pub(super) fn note(data: &Path, release: &str) -> Result<()> {
    Ok(atomic::write(&data::databases(data).join(ENABLED), release.as_bytes(), 0o644)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_enabled_for_one_release_and_not_where_that_moves_the_database() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path();
        assert_eq!(are_enabled(data, "3.10.8"), Some(false));
        fs::create_dir(data::databases(data)).unwrap();
        note(data, "3.10.8").unwrap();
        let said = ["3.10.8", "3.11.1", "4.1.0", "4.2.0", ""].map(|release| are_enabled(data, release));
        assert_eq!(said, [Some(true), Some(false), Some(false), None, None]);
    }
}
