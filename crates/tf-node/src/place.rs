//! Copies of files that a daemon wants at another place, made before each start.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::json;
use tf_agent_api::{
    launch::{self, Launch, OnChange, Place, When},
    zookeeper::Servers,
};
use tf_host::atomic;

use crate::{
    log,
    paths::Paths,
    set::{File, Set},
    store::zookeeper::newest,
};

/// Makes the copies of a set. The directories exist: one that is missing is a volume that is not mounted, and creating it
/// would hide that. `is_private`: those by which nobody but the agent reaches the daemon, too. `major`: the daemon's release, where that
/// can be told.
pub fn place(set: &Set, paths: &Paths, is_private: bool, major: Option<u32>) -> Result<()> {
    let lists = own_lists(set, paths)?;
    for place in &set.launch.place {
        let Place { file, to, when, .. } = place;
        let target = paths.at(to);
        let content = content(set, file)?;
        match when {
            When::Absent if fs::symlink_metadata(&target).is_ok() => continue,
            When::New { served } if fs::symlink_metadata(paths.at(served)).is_ok() => continue,
            When::New { served } => atomic::replace(&paths.at(launch::begun(served)), b"", 0o644)?,
            When::Private { .. } if !is_private => continue,
            When::Private { served: Some(served) } if fs::symlink_metadata(paths.at(served)).is_ok() => continue,
            When::Since { major: first } if major.is_none_or(|major| major < *first) => continue,
            When::Always | When::Absent | When::Private { .. } | When::Since { .. } => {}
            When::NewestList { config, ensemble, .. } => {
                let is_own = lists.contains_key(config.as_str());
                if !is_own {
                    newest::forget(&target)?;
                }
                newest::mark(&target, ensemble.as_deref())?;
                if is_own {
                    continue;
                }
            }
        }
        let list = lists.get(file.as_str());
        let pointed = list.map(|list| newest::pointed(&String::from_utf8_lossy(&content.bytes), list));
        let bytes = pointed.as_ref().map_or(content.bytes.as_slice(), String::as_bytes);
        copy(place, bytes, content.secret, &target)?;
    }
    Ok(())
}

/// Makes copies anew beside a daemon that goes from one set to another and runs on: those of files that ask nothing of it. `major`: as in
/// [`place`].
pub fn place_again(former: &Set, set: &Set, paths: &Paths, major: Option<u32>) -> Result<()> {
    let is_idle = |file: &str| set.launch.files.get(file) == Some(&OnChange::Nothing);
    let differs = |file: &str| former.files.get(file) != set.files.get(file);
    let is_due = |when: &When| match when {
        When::Always => true,
        When::Since { major: first } => major.is_some_and(|major| major >= *first),
        _ => false,
    };
    // Of those for one place the last one counts.
    let last: BTreeMap<&str, &Place> =
        set.launch.place.iter().filter(|it| is_due(&it.when)).map(|it| (it.to.as_str(), it)).collect();
    for place in last.into_values().filter(|it| is_idle(&it.file) && differs(&it.file)) {
        let content = content(set, &place.file)?;
        copy(place, &content.bytes, content.secret, &paths.at(&place.to))?;
    }
    Ok(())
}

fn content<'a>(set: &'a Set, file: &str) -> Result<&'a File> {
    set.files.get(file).with_context(|| format!("{file} is missing"))
}

fn copy(place: &Place, bytes: &[u8], is_secret: bool, target: &Path) -> Result<()> {
    let mode = match (place.private, is_secret) {
        (true, _) => 0o600,
        (false, true) => 0o640,
        (false, false) => 0o644,
    };
    atomic::write(target, bytes, mode)?;
    match target.parent() {
        Some(parent) => atomic::sync_directory(parent).with_context(|| format!("write {}", target.display())),
        None => Ok(()),
    }
}

/// Notes among a daemon's data that it has served with it, for [`When::New`]. Where it is not noted that the daemon began with that data, the disk was
/// emptied beside it.
pub fn note_served(launch: &Launch, paths: &Paths) -> Result<()> {
    for place in &launch.place {
        let When::New { served } = &place.when else { continue };
        let (path, begun) = (paths.at(served), paths.at(launch::begun(served)));
        if fs::symlink_metadata(&path).is_err() && fs::symlink_metadata(&begun).is_ok() {
            atomic::replace(&path, b"", 0o644)?;
        }
    }
    Ok(())
}

/// The lists that servers go by instead of the rendered ones, by the configuration that has to name them.
fn own_lists<'a>(set: &'a Set, paths: &Paths) -> Result<BTreeMap<&'a str, PathBuf>> {
    let mut lists = BTreeMap::new();
    for Place { file, to, when, .. } in &set.launch.place {
        let When::NewestList { id, config, ensemble } = when else { continue };
        let text = |name: &str| set.files.get(name).and_then(|file| std::str::from_utf8(&file.bytes).ok());
        let rendered = text(file).and_then(|text| text.parse::<Servers>().ok());
        let id = text(id).and_then(|text| text.trim().parse().ok());
        // ZooKeeper itself says what is wrong with them.
        let Some((rendered, id)) = rendered.zip(id) else { continue };
        let list = paths.at(to);
        if newest::is_of_another(&list, ensemble.as_deref())? {
            continue;
        }
        let noted = newest::noted(&list)?;
        if let Some(version) = newest::choose(&rendered, id, &noted) {
            let list = newest::versioned(Path::new(to), version);
            let version = |version: u64| format!("{version:x}");
            let fields = json!({"file": list, "renderedVersion": version(rendered.version)});
            log::info("the server goes by the list of members that it noted itself", &fields);
            lists.insert(config.as_str(), list);
        }
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tf_agent_api::launch::Launch;

    use super::*;
    use crate::set::tests::content;

    /// A server whose data directory holds these files, about to be started with this list.
    fn started(noted: &[(&str, &str)], rendered: &str) -> (tempfile::TempDir, Result<()>) {
        started_in(None, noted, rendered)
    }

    /// The same, in an ensemble that is called so.
    fn started_in(ensemble: Option<&str>, noted: &[(&str, &str)], rendered: &str) -> (tempfile::TempDir, Result<()>) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        for (name, text) in noted {
            fs::write(root.path().join("data").join(name), text).unwrap();
        }
        let mut launch = Launch::new(vec!["d".into()]);
        let place = |file: &str, when| Place { file: file.into(), to: format!("/data/{file}"), when, private: false };
        launch.place = vec![
            place("zoo.cfg", When::Always),
            place(
                "zoo.cfg.dynamic",
                When::NewestList { id: "myid".into(), config: "zoo.cfg".into(), ensemble: ensemble.map(str::to_owned) },
            ),
            place("myid", When::Always),
        ];
        let launch = launch.render().unwrap();
        let config = "dynamicConfigFile=/data/zoo.cfg.dynamic\n";
        let files =
            [("d.launch", launch.as_str()), ("zoo.cfg", config), ("zoo.cfg.dynamic", rendered), ("myid", "1\n")];
        let files = files.map(|(name, text)| (name, text.as_bytes()));
        let set = Set::select(&content(&files), "d", "n").unwrap();
        let placed = place_in(&set, root.path());
        (root, placed)
    }

    fn place_in(set: &Set, root: &Path) -> Result<()> {
        super::place(set, &Paths::below(root), false, None)
    }

    fn files(root: &tempfile::TempDir) -> BTreeMap<String, String> {
        let read = |path: PathBuf| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap())
        };
        fs::read_dir(root.path().join("data")).unwrap().map(|entry| read(entry.unwrap().path())).collect()
    }

    #[test]
    fn a_daemon_that_has_not_served_with_its_data_gets_the_file_for_new_ones() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        let place = |file: &str, when| Place { file: file.into(), to: "/data/conf".into(), when, private: false };
        let mut launch = Launch::new(vec!["d".into()]);
        launch.place =
            vec![place("conf", When::Always), place("joining", When::New { served: "/data/.served".into() })];
        let text = launch.render().unwrap();
        let files: [(&str, &[u8]); 3] = [("d.launch", text.as_bytes()), ("conf", b"usual"), ("joining", b"new")];
        let set = Set::select(&content(&files), "d", "n").unwrap();
        let placed = || {
            place_in(&set, root.path()).unwrap();
            fs::read_to_string(root.path().join("data/conf")).unwrap()
        };
        let is_begun = || root.path().join("data/.served.begun").exists();
        assert!(!is_begun());
        assert_eq!(placed(), "new");
        assert!(is_begun());
        for _ in 0..2 {
            note_served(&launch, &Paths::below(root.path())).unwrap();
            assert_eq!(placed(), "usual");
        }
        // Its disk is emptied while it runs.
        for file in [".served", ".served.begun"] {
            fs::remove_file(root.path().join("data").join(file)).unwrap();
        }
        note_served(&launch, &Paths::below(root.path())).unwrap();
        assert_eq!(placed(), "new");
    }

    #[test]
    fn a_daemon_that_nobody_is_to_reach_gets_the_file_for_that_whether_it_is_new_or_not() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        let served = || "/data/.served".to_owned();
        let place = |file: &str, when| Place { file: file.into(), to: "/data/conf".into(), when, private: false };
        let mut launch = Launch::new(vec!["d".into()]);
        launch.place = vec![
            place("conf", When::Always),
            place("joining", When::New { served: served() }),
            place("private", When::Private { served: None }),
            place("joining-private", When::Private { served: Some(served()) }),
        ];
        let text = launch.render().unwrap();
        let files = ["conf", "joining", "private", "joining-private"].map(|name| (name, name.as_bytes()));
        let files = [&files[..], &[("d.launch", text.as_bytes())]].concat();
        let set = Set::select(&content(&files), "d", "n").unwrap();
        let paths = Paths::below(root.path());
        let placed = |is_private| {
            super::place(&set, &paths, is_private, None).unwrap();
            fs::read_to_string(root.path().join("data/conf")).unwrap()
        };
        assert_eq!((placed(true), placed(false)), ("joining-private".to_owned(), "joining".to_owned()));
        note_served(&launch, &paths).unwrap();
        assert_eq!((placed(true), placed(false)), ("private".to_owned(), "conf".to_owned()));
    }

    #[test]
    fn a_server_gets_the_file_of_its_release_at_its_start_and_while_it_runs() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        let place = |file: &str, when| Place { file: file.into(), to: "/data/conf".into(), when, private: false };
        let mut launch = Launch::new(vec!["d".into()]);
        launch.place = vec![place("conf", When::Always), place("conf-4", When::Since { major: 4 })];
        launch.files = ["conf", "conf-4"].map(|file| (file.to_owned(), OnChange::Nothing)).into();
        let text = launch.render().unwrap();
        let set = |later: &'static str| {
            let files: [(&str, &[u8]); 3] =
                [("d.launch", text.as_bytes()), ("conf", b"three"), ("conf-4", later.as_bytes())];
            Set::select(&content(&files), "d", "n").unwrap()
        };
        let paths = Paths::below(root.path());
        let read = || fs::read_to_string(root.path().join("data/conf")).unwrap();
        for (major, expected) in [(None, "three"), (Some(3), "three"), (Some(4), "four"), (Some(5), "four")] {
            super::place(&set("four"), &paths, false, major).unwrap();
            assert_eq!(read(), expected, "{major:?}");
        }
        place_again(&set("four"), &set("more"), &paths, Some(4)).unwrap();
        assert_eq!(read(), "more");
        super::place(&set("four"), &paths, false, Some(3)).unwrap();
        place_again(&set("four"), &set("more"), &paths, Some(3)).unwrap();
        assert_eq!(read(), "three");
    }

    const ALONE: &str = "server.1=a:1:2:participant;a:3\n";
    const TWO: &str = "server.1=a:1:2:participant;a:3\nserver.2=b:1:2:participant;b:3\n";

    #[test]
    fn a_newer_list_of_the_server_itself_is_named_by_its_configuration_and_stays_with_what_was_begun() {
        let noted = [("zoo.cfg.dynamic.100000003", TWO), ("zoo.cfg.dynamic.next", TWO), ("zoo.cfg", "rewritten")];
        for rendered in [ALONE.to_owned(), format!("# version 100000003\n{ALONE}")] {
            let (root, placed) = started(&noted, &rendered);
            placed.unwrap();
            let files = files(&root);
            assert_eq!(files["zoo.cfg"], "dynamicConfigFile=/data/zoo.cfg.dynamic.100000003\n");
            let names: Vec<&str> = files.keys().map(String::as_str).collect();
            assert_eq!(names, ["myid", "zoo.cfg", "zoo.cfg.dynamic.100000003", "zoo.cfg.dynamic.next"]);
        }
    }

    #[test]
    fn lists_of_an_ensemble_that_was_deleted_do_not_count_in_the_next_one_of_the_same_members() {
        const MARK: &str = "zoo.cfg.dynamic.ensemble";
        let noted = ("zoo.cfg.dynamic.100000003", TWO);
        let lists = |files: &BTreeMap<String, String>| {
            files.keys().filter(|name| name.starts_with("zoo.cfg.dynamic.")).cloned().collect::<Vec<_>>()
        };
        for (mark, own) in [(Some("second"), true), (Some("first"), false), (None, true)] {
            let noted: Vec<_> = [noted].into_iter().chain(mark.map(|mark| (MARK, mark))).collect();
            let (root, placed) = started_in(Some("second"), &noted, ALONE);
            placed.unwrap();
            let files = files(&root);
            assert_eq!(files[MARK], "second", "{mark:?}");
            let left = if own { vec!["zoo.cfg.dynamic.100000003", MARK] } else { vec![MARK] };
            assert_eq!(lists(&files), left, "{mark:?}");
            assert_eq!(files["zoo.cfg"].contains("100000003"), own, "{mark:?}");
        }
    }

    #[test]
    fn an_older_or_foreign_list_gives_way_to_the_rendered_one() {
        let older = format!("# version 100000004\n{ALONE}");
        let foreign = TWO.replace("server.1=a", "server.1=z");
        for (noted, rendered) in [(TWO, older.as_str()), (foreign.as_str(), ALONE), ("garbage", ALONE)] {
            let (root, placed) =
                started(&[("zoo.cfg.dynamic.100000003", noted), ("zoo.cfg.dynamic.next", noted)], rendered);
            placed.unwrap();
            let files = files(&root);
            assert_eq!(files["zoo.cfg"], "dynamicConfigFile=/data/zoo.cfg.dynamic\n");
            assert_eq!(files["zoo.cfg.dynamic"], rendered);
            assert_eq!(files.keys().collect::<Vec<_>>(), ["myid", "zoo.cfg", "zoo.cfg.dynamic"]);
        }
    }
}
