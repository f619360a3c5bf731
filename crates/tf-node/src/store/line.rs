//! With which release's data a server is started: the release that has served with it is noted beside it, and one that must not go on with that is not
//! started ([`tf_agent_api::release`]). What is there is left as it is, so an image that is set back goes on.

use std::{fs, path::Path};

use anyhow::{Result, bail};
use tf_agent_api::release::Upgrades;
use tf_host::atomic;

/// The note.
const RELEASE: &str = ".tf-release";

/// The release in the rest of a file's name, which begins with a number: names of other files go on with a word.
pub(super) fn version(rest: &str) -> Option<String> {
    rest.starts_with(|first: char| first.is_ascii_digit()).then(|| rest.to_owned())
}

/// Fails if a server of this release, where that can be told, is not to be started with the data in this folder.
pub(super) fn may_start(store: &Upgrades, data: &Path, release: Option<&str>) -> Result<()> {
    let noted = fs::read_to_string(data.join(RELEASE)).unwrap_or_default();
    match release.and_then(|release| store.refuse(noted.trim(), release)) {
        Some(why) => bail!(why),
        None => Ok(()),
    }
}

/// Notes that a server of this release serves with the data in this folder. What cannot be written is tried again at the next look.
pub(super) fn note(data: &Path, release: &str) {
    let file = data.join(RELEASE);
    if !release.is_empty() && !fs::read_to_string(&file).is_ok_and(|noted| noted == release) {
        let _ = atomic::write(&file, release.as_bytes(), 0o644);
    }
}

#[cfg(test)]
mod tests {
    use tf_agent_api::release::RABBITMQ;

    use super::*;

    #[test]
    fn a_server_goes_on_with_what_its_line_or_the_one_before_has_served_with_and_with_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let starts = |release| may_start(&RABBITMQ, root.path(), release).is_ok();
        assert!(starts(Some("4.0.5")) && starts(None), "nothing has served yet");
        note(root.path(), "");
        note(root.path(), "3.10.8");
        assert!(!starts(Some("4.0.5")) && starts(Some("3.11.1")) && starts(Some("3.10.1")) && starts(None));
        assert!(!starts(Some("4.0.5")), "it was not started, and is not the next time");
        note(root.path(), "3.11.1");
        assert!(!starts(Some("3.10.8")) && starts(Some("3.12.0")));
        note(&root.path().join("absent"), "3.10.8");
    }
}
