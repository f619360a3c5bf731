//! Formats of a server's data files, by their names.
//!
//! A file is called `nb-1-big-Data.db`: the version of the format, a number or an identifier, how it is laid out, and what of a table it has. The
//! first letter is the line of releases that began with it: `m` is of 3.x, `n` of 4.x, `o` of 5.x (`BigFormat.java`). 5.x goes on with that of 4.x
//! unless `storage_compatibility_mode` says otherwise. A server reads what an earlier line wrote, and does not hand it to others in all cases.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tf_agent_api::cassandra::{Change, Facts};

use super::Release;

/// Between two counts where nothing has changed that could make another number.
const PERIOD: Duration = Duration::from_secs(30);

/// What was counted last: a walk through all tables takes as long as there are many files.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Arc<Mutex<Option<Count>>>);

#[derive(Debug)]
struct Count {
    release: String,
    doing: Option<Change>,
    at: Instant,
    older: usize,
}

impl Counts {
    /// [`older`] as of some seconds ago; anew when the server is of another release, or something was begun or has ended that rewrites files.
    pub(super) fn older(&self, keyspaces: &Path, facts: &Facts, now: Instant) -> usize {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = |last: &&Count| {
            last.release == facts.release && last.doing == facts.doing && now.duration_since(last.at) < PERIOD
        };
        if let Some(last) = last.as_ref().filter(is_current) {
            return last.older;
        }
        let older = older(keyspaces, Release::of(&facts.release));
        *last = Some(Count { release: facts.release.clone(), doing: facts.doing.clone(), at: now, older });
        older
    }
}

/// Number of data files below a directory of keyspaces that are in the format of an earlier line of releases than this one. What cannot be read
/// is not counted: a table may be dropped meanwhile.
fn older(keyspaces: &Path, release: Release) -> usize {
    let Some(own) = format_of(release) else { return 0 };
    let is_older = |name: &str| format(name).is_some_and(|format| format < own);
    folders(keyspaces, |_| true)
        .iter()
        .flat_map(|keyspace| folders(keyspace, |_| true))
        .map(|table| count(&table, &is_older))
        .sum()
}

/// Those of a table, and of its indices, whose folders' names begin with a dot. Snapshots and backups stay as they were made.
fn count(table: &Path, is_older: &impl Fn(&str) -> bool) -> usize {
    let own = names(table).iter().filter(|name| is_older(name)).count();
    own + folders(table, |name| name.starts_with('.')).iter().map(|index| count(index, is_older)).sum::<usize>()
}

/// The letter that every server of a line writes, or a later one.
fn format_of(release: Release) -> Option<char> {
    match release.major {
        4.. => Some('n'),
        _ => None,
    }
}

fn format(name: &str) -> Option<char> {
    let (version, rest) = name.split_once('-')?;
    let is_data = version.len() == 2 && rest.ends_with("-big-Data.db");
    version.chars().next().filter(|_| is_data)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn folders(folder: &Path, is_meant: impl Fn(&str) -> bool) -> Vec<std::path::PathBuf> {
    let paths = names(folder).into_iter().filter(|name| is_meant(name)).map(|name| folder.join(name));
    paths.filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_earlier_line_are_counted_in_tables_and_indices_and_nowhere_else() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "ks/t-1/md-1-big-Data.db",
            "ks/t-1/md-1-big-Index.db",
            "ks/t-1/nb-2-big-Data.db",
            "ks/t-1/nb-3gqe_0ka1_1o2kw2mwnmhoxhmwdw-big-Data.db",
            "ks/t-1/.by_name/me-4-big-Data.db",
            "ks/t-1/snapshots/before/md-1-big-Data.db",
            "ks/t-1/backups/md-1-big-Data.db",
            "system/local-2/mc-7-big-Data.db",
            "system/local-2/oa-8-big-Data.db",
            "system/local-2/da-9-bti-Data.db",
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        for (release, expected) in [("3.11.19", 0), ("4.1.10", 3), ("5.0.9", 3), ("", 0)] {
            assert_eq!(older(root.path(), Release::of(release)), expected, "{release}");
        }
        assert_eq!(older(&root.path().join("absent"), Release::of("5.0.9")), 0);
    }

    #[test]
    fn they_are_counted_anew_when_the_release_or_what_is_done_to_them_is_another_and_now_and_then() {
        let root = tempfile::tempdir().unwrap();
        let table = root.path().join("ks/t-1");
        fs::create_dir_all(&table).unwrap();
        let (counts, begun) = (Counts::default(), Instant::now());
        let write = |number: u32| fs::write(table.join(format!("md-{number}-big-Data.db")), "").unwrap();
        let count = |release: &str, doing: Option<Change>, seconds: u64| {
            let facts = Facts { release: release.into(), doing, ..Facts::default() };
            counts.older(root.path(), &facts, begun + Duration::from_secs(seconds))
        };
        write(1);
        assert_eq!(count("3.11.19", None, 0), 0);
        assert_eq!(count("4.1.10", None, 1), 1);
        write(2);
        assert_eq!(count("4.1.10", None, 30), 1);
        assert_eq!(count("4.1.10", Some(Change::UpgradeSstables), 30), 2);
        write(3);
        assert_eq!(count("4.1.10", None, 31), 3);
        write(4);
        assert_eq!(count("4.1.10", None, 61), 4);
    }
}
