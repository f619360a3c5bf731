//! Which list of members a server starts with.
//!
//! The list that the operator rendered can be older than the one the ensemble goes by: the operator was killed between a change
//! and its record of it, or the kubelet has not mounted that yet. A server of two that starts with the list of one elects
//! itself and the ensemble is two. So a list that the server has noted itself wins unless the rendered one is newer. A list of
//! a former life, of another identity or with another address than the member has now, never wins; nor does one that was noted in
//! another ensemble, see [`mark`].

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::json;
use tf_agent_api::zookeeper::{Malformed, Servers};
use tf_host::atomic;

use crate::log;

/// Property of the static configuration with the path of the list.
const LIST: &str = "dynamicConfigFile";

/// Version of the server's own list to start with; none for the rendered one. `own` are the lists it has noted, by version.
/// The founding list has no version that could be compared.
pub fn choose(rendered: &Servers, id: u32, own: &BTreeMap<u64, Servers>) -> Option<u64> {
    let (version, newest) = own.last_key_value()?;
    let (planned, noted) = (rendered.servers.get(&id)?, newest.servers.get(&id)?);
    (noted.address == planned.address && *version > 0 && *version >= rendered.version).then_some(*version)
}

/// Name of the file beside `list` that holds a version of it (`QuorumPeer.makeDynamicConfigFilename`).
pub fn versioned(list: &Path, version: u64) -> PathBuf {
    let name = list.file_name().unwrap_or_default().to_string_lossy();
    list.with_file_name(format!("{name}.{version:x}"))
}

/// The lists that the server has noted beside `list`. One that cannot be read is passed over: a power failure cuts files off.
pub fn noted(list: &Path) -> Result<BTreeMap<u64, Servers>> {
    let mut found = BTreeMap::new();
    for (path, suffix) in beside(list)? {
        let Ok(version) = u64::from_str_radix(&suffix, 16) else { continue };
        match read(&path) {
            Ok(servers) => _ = found.insert(version, Servers { version, ..servers }),
            Err(error) => {
                let fields = json!({"file": path, "error": format!("{error:#}")});
                log::warn("a list of members that the server noted is not readable", &fields);
            }
        }
    }
    Ok(found)
}

/// Whether the lists beside `list` were noted in another ensemble than this one.
pub fn is_of_another(list: &Path, ensemble: Option<&str>) -> Result<bool> {
    let path = marked(list);
    match fs::read_to_string(&path) {
        Ok(noted) => Ok(ensemble.is_some_and(|ensemble| noted != ensemble)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}

/// Notes which ensemble the lists beside `list` are of.
pub fn mark(list: &Path, ensemble: Option<&str>) -> Result<()> {
    let (Some(ensemble), path) = (ensemble, marked(list)) else { return Ok(()) };
    if fs::read_to_string(&path).is_ok_and(|noted| noted == ensemble) {
        return Ok(());
    }
    Ok(atomic::write(&path, ensemble.as_bytes(), 0o644)?)
}

fn marked(list: &Path) -> PathBuf {
    let name = list.file_name().unwrap_or_default().to_string_lossy();
    list.with_file_name(format!("{name}.ensemble"))
}

/// Removes what a server noted beside `list`, a change that was not finished (`.next`) included.
pub fn forget(list: &Path) -> Result<()> {
    for (path, _) in beside(list)? {
        fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        log::info("removed a list of members that is not this server's any more", &json!({"file": path}));
    }
    Ok(())
}

/// The static configuration with another list.
pub fn pointed(config: &str, list: &Path) -> String {
    let is_other = |line: &&str| line.split_once('=').is_none_or(|(key, _)| key.trim() != LIST);
    let kept = config.lines().filter(is_other).map(|line| format!("{line}\n"));
    kept.chain([format!("{LIST}={}\n", list.display())]).collect()
}

fn read(path: &Path) -> Result<Servers> {
    // Without the line, which could be anything.
    let servers: Servers = fs::read_to_string(path)?.parse().map_err(|error: Malformed| anyhow!(error.problem))?;
    ensure!(!servers.servers.is_empty(), "it lists no server");
    Ok(servers)
}

/// Files whose name is that of the list, a dot and something more.
fn beside(list: &Path) -> Result<Vec<(PathBuf, String)>> {
    let directory = list.parent().unwrap_or(Path::new("/"));
    let name = list.file_name().with_context(|| format!("{} is not the path of a file", list.display()))?;
    let prefix = format!("{}.", name.to_string_lossy());
    let list = || -> io::Result<Vec<_>> { fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect() };
    let paths = list().with_context(|| format!("list {}", directory.display()))?;
    let suffix = |path: &Path| Some(path.file_name()?.to_str()?.strip_prefix(&prefix)?.to_owned());
    Ok(paths.into_iter().filter_map(|path| Some((path.clone(), suffix(&path)?))).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(version: u64, members: &[(u32, &str)]) -> Servers {
        let lines: Vec<String> =
            members.iter().map(|(id, host)| format!("server.{id}={host}:1:2;{host}:3\n")).collect();
        Servers { version, ..lines.concat().parse().unwrap() }
    }

    fn chosen(rendered: &Servers, id: u32, own: &[Servers]) -> Option<u64> {
        choose(rendered, id, &own.iter().map(|list| (list.version, list.clone())).collect())
    }

    #[test]
    fn a_server_of_two_does_not_go_back_to_being_alone() {
        let founded = list(0, &[(1, "a")]);
        let grown = list(0x1_0000_0004, &[(1, "a"), (2, "b")]);
        assert_eq!(chosen(&founded, 1, &[list(0x1_0000_0000, &[(1, "a")]), grown.clone()]), Some(0x1_0000_0004));
        assert_eq!(
            chosen(&grown, 1, std::slice::from_ref(&grown)),
            Some(0x1_0000_0004),
            "its own file has the version"
        );
        assert_eq!(
            chosen(&list(0x1_0000_0005, &[(1, "a")]), 1, &[grown]),
            None,
            "the operator knows of a later change"
        );
    }

    #[test]
    fn lists_of_a_former_life_do_not_count() {
        let rendered = list(0x2_0000_0000, &[(4, "a"), (5, "b")]);
        for former in [&[(1, "a"), (2, "b")][..], &[(4, "z"), (5, "b")], &[(5, "b")]] {
            assert_eq!(chosen(&rendered, 4, &[list(0x9_0000_0000, former)]), None, "{former:?}");
        }
        assert_eq!(chosen(&rendered, 4, &[]), None);
        assert_eq!(
            chosen(&list(0, &[(1, "a")]), 1, &[list(0, &[(1, "a")])]),
            None,
            "without a version nothing is newer"
        );
    }

    #[test]
    fn the_configuration_points_to_one_list() {
        let config = "dataDir=/d\ndynamicConfigFile=/d/zoo.cfg.dynamic\ntickTime=2000\n";
        let list = versioned(Path::new("/d/zoo.cfg.dynamic"), 0x1_0000_000a);
        let expected = "dataDir=/d\ntickTime=2000\ndynamicConfigFile=/d/zoo.cfg.dynamic.10000000a\n";
        assert_eq!(pointed(config, &list), expected);
        assert_eq!(pointed(expected, &list), expected);
    }

    #[test]
    fn what_cannot_be_read_is_passed_over_and_what_is_forgotten_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("zoo.cfg.dynamic");
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        let good = list(0, &[(1, "a")]).file();
        write("zoo.cfg.dynamic", &good);
        write("zoo.cfg.dynamic.100000000", &good);
        write("zoo.cfg.dynamic.200000000", "server.1=a:1");
        write("zoo.cfg.dynamic.300000000", "");
        write("zoo.cfg.dynamic.next", &good);
        write("zoo.cfg", "");
        assert_eq!(noted(&path).unwrap(), BTreeMap::from([(0x1_0000_0000, list(0x1_0000_0000, &[(1, "a")]))]));
        forget(&path).unwrap();
        let mut left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["zoo.cfg", "zoo.cfg.dynamic"]);
    }

    fn lists() -> impl Strategy<Value = Servers> {
        let members = prop::collection::btree_map(1_u32..5, "[ab]", 0..4);
        (0_u64..6, members).prop_map(|(version, members)| {
            let members: Vec<(u32, &str)> = members.iter().map(|(id, host)| (*id, host.as_str())).collect();
            list(version, &members)
        })
    }

    proptest! {
        #[test]
        fn no_server_goes_back_to_an_older_list_of_its_own_life(
            rendered in lists(), id in 1_u32..5, own in prop::collection::vec(lists(), 0..4),
        ) {
            let own: BTreeMap<u64, Servers> = own.into_iter().map(|list| (list.version, list)).collect();
            let newest = own.last_key_value().map(|(_, list)| list);
            let is_of_this_life = |list: &Servers| {
                let address = |list: &Servers| list.servers.get(&id).map(|server| server.address.clone());
                address(list).is_some() && address(list) == address(&rendered)
            };
            if let Some(version) = choose(&rendered, id, &own) {
                prop_assert!(version >= rendered.version);
                prop_assert_eq!(newest.map(|list| list.version), Some(version));
                prop_assert!(is_of_this_life(&own[&version]));
            } else {
                prop_assert!(newest.is_none_or(|list| list.version <= rendered.version || !is_of_this_life(list)));
            }
        }

        #[test]
        fn the_rest_of_the_configuration_stays(lines in prop::collection::vec("[a-zA-Z.]{1,8}=[ -~]{0,8}", 0..6)) {
            let config = lines.join("\n") + if lines.is_empty() { "" } else { "\n" };
            let pointed = pointed(&config, Path::new("/l"));
            prop_assert_eq!(pointed, format!("{config}dynamicConfigFile=/l\n"));
        }
    }
}
