//! What a RabbitMQ server has on its disk (RabbitMQ, "Clustering": `cluster_nodes.config`; releases that keep their cluster in Mnesia).

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::json;
use tf_agent_api::rabbitmq::{FORMATION_FILE, FORMATION_NODES};
use tf_config_files::env;
use tf_host::atomic;

use super::super::owner::{self, exists};
use crate::{log, paths::Paths, set::Set};

/// Directory of the databases, one of each name that the node ever had, below the data directory.
const DATABASES: &str = "mnesia";
/// Where they are put aside. One generation is kept.
const FORMER: &str = "mnesia.former";
/// File of a database with the cluster's nodes: an Erlang tuple of a list of all and a list of those with a disk.
const CLUSTER: &str = "cluster_nodes.config";
/// File of a database that has served.
const SCHEMA: &str = "schema.DAT";
/// File of the server's environment with its name.
const ENVIRONMENT: &str = "rabbitmq-env.conf";
const NAME: &str = "RABBITMQ_NODENAME";

/// Names of the nodes that a server has as its cluster, which are none where it has no database; none where that cannot be told.
pub(super) fn remembered(data: &Path, paths: &Paths) -> Option<BTreeSet<String>> {
    let environment = fs::read_to_string(paths.run_dir().join(ENVIRONMENT)).ok()?;
    let name = env::parse(&environment).ok()?.remove(NAME)?;
    match fs::read_to_string(own(data, &name).join(CLUSTER)) {
        Ok(text) => Some(nodes(&text)).filter(|nodes| !nodes.is_empty()),
        // With the database of another name, or what is left of its own, its volume is not empty.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let is_empty = databases_of(data).ok()?.is_empty() && !exists(&own(data, &name).join(SCHEMA)).ok()?;
            is_empty.then(BTreeSet::new)
        }
        Err(_) => None,
    }
}

/// Where the database of this name is.
fn own(data: &Path, name: &str) -> PathBuf {
    data.join(DATABASES).join(name)
}

/// Names of nodes of which there are databases.
fn databases_of(data: &Path) -> io::Result<Vec<String>> {
    // A directory that is not there has none; a disk that is not there is an error.
    fs::symlink_metadata(data)?;
    let entries = match fs::read_dir(data.join(DATABASES)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?.collect::<io::Result<Vec<_>>>()?,
    };
    let databases = entries.iter().filter(|entry| entry.path().join(CLUSTER).exists());
    Ok(databases.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// The first list of a tuple of lists of atoms.
fn nodes(text: &str) -> BTreeSet<String> {
    let list = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(list, _)| list);
    let atoms = list.unwrap_or_default().split(',').map(|atom| atom.trim().trim_matches('\''));
    atoms.filter(|atom| !atom.is_empty()).map(str::to_owned).collect()
}

/// Where the release is noted that has served: beside the databases, and gone with them.
pub(super) fn databases(data: &Path) -> PathBuf {
    data.join(DATABASES)
}

/// Lets the data be that of the member whose files these are, which the cluster has not forgotten. A server knows a database by its own name, and would
/// begin with nothing beside that of another one.
pub(super) fn claim(set: &Set, data: &Path) -> Result<()> {
    // Nothing is noted about a volume that has to go elsewhere.
    if let Some(other) = misplaced(set, data).with_context(|| format!("look at {}", data.display()))? {
        return Err(owner::misplaced(&format!("database of {other}")));
    }
    owner::claim(set, data, put_aside)
}

/// Another node of the cluster of which there is a database, and none of the server's own.
fn misplaced(set: &Set, data: &Path) -> io::Result<Option<String>> {
    let text = |file| set.files.get(file).map(|file| String::from_utf8_lossy(&file.bytes)).unwrap_or_default();
    let name = env::parse(&text(ENVIRONMENT)).ok().and_then(|mut variables| variables.remove(NAME));
    let formation = text(FORMATION_FILE);
    let nodes = formation.lines().filter_map(|line| line.strip_prefix(FORMATION_NODES)?.split_once('='));
    let nodes: BTreeSet<&str> = nodes.map(|(_, name)| name.trim()).collect();
    let databases = databases_of(data)?;
    let has_own = name.is_none_or(|name| databases.contains(&name));
    Ok(databases.into_iter().find(|name| !has_own && nodes.contains(name.as_str())))
}

fn put_aside(data: &Path) -> Result<()> {
    let (databases, former) = (data.join(DATABASES), data.join(FORMER));
    if !exists(&databases)? {
        return Ok(());
    }
    if exists(&former)? {
        fs::remove_dir_all(&former).with_context(|| format!("remove {}", former.display()))?;
    }
    fs::rename(&databases, &former).with_context(|| format!("rename {}", databases.display()))?;
    atomic::sync_directory(data).with_context(|| format!("write {}", data.display()))?;
    log::info("put the data of a former member aside", &json!({"directory": former}));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tf_agent_api::{
        content::content_hash,
        launch::Launch,
        node::{MEMBER_FILE, OTHER_MEMBERS_FILE},
    };

    use super::*;
    use crate::set::File;

    #[test]
    fn nodes_are_read_as_the_server_writes_them() {
        let text = "{['rabbit@cp1.cluster.local','rabbit@cp2.cluster.local'],['rabbit@cp1.cluster.local']}.\n";
        let names = ["rabbit@cp1.cluster.local", "rabbit@cp2.cluster.local"];
        assert_eq!(nodes(text), BTreeSet::from(names.map(str::to_owned)));
        assert_eq!(nodes("{[rabbit@a],[rabbit@a]}."), BTreeSet::from(["rabbit@a".to_owned()]));
        for nonsense in ["", "{[", "{[],[]}.", "]["] {
            assert_eq!(nodes(nonsense), BTreeSet::new(), "{nonsense}");
        }
    }

    #[test]
    fn data_of_another_member_of_the_resource_is_put_aside_and_all_other_is_taken_over() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path();
        let write = |content: &str| {
            fs::create_dir_all(data.join("mnesia/rabbit@a")).unwrap();
            fs::write(data.join("mnesia/rabbit@a/schema.DAT"), content).unwrap();
        };
        let read = |directory: &str| fs::read_to_string(data.join(directory).join("rabbit@a/schema.DAT")).ok();
        write("of nobody");
        for member in ["first/1", "first/1", "second/3"] {
            owner::belongs_to(member, &["7"], data, put_aside).unwrap();
            assert_eq!((read("mnesia").as_deref(), read("mnesia.former")), (Some("of nobody"), None), "{member}");
        }
        owner::belongs_to("second/4", &["7"], data, put_aside).unwrap();
        assert_eq!((read("mnesia"), read("mnesia.former").as_deref()), (None, Some("of nobody")));
        // Stopped before the end: nothing takes the place of the only copy.
        fs::write(data.join(owner::OWNER), "second/3").unwrap();
        owner::belongs_to("second/4", &["7"], data, put_aside).unwrap();
        assert_eq!(read("mnesia.former").as_deref(), Some("of nobody"));
        write("of the fourth");
        owner::belongs_to("second/5", &["7"], data, put_aside).unwrap();
        assert_eq!((read("mnesia"), read("mnesia.former").as_deref()), (None, Some("of the fourth")));
    }

    #[test]
    fn data_of_a_member_that_is_on_another_node_stays_where_it_is_and_no_server_is_started_beside_it() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path();
        let found = |name: &str| {
            fs::create_dir_all(data.join(DATABASES).join(name)).unwrap();
            fs::write(data.join(DATABASES).join(name).join(CLUSTER), format!("{{[{name}],[]}}.")).unwrap();
        };
        let set = |member: &str, others: &str, name: &str, other: &str| {
            let nodes = format!("{FORMATION_NODES}1 = {other}\n{FORMATION_NODES}2 = {name}\n");
            let files = [
                (MEMBER_FILE, format!("{member}\n")),
                (OTHER_MEMBERS_FILE, format!("{others}\n")),
                (ENVIRONMENT, format!("{NAME}='{name}'\n")),
                (FORMATION_FILE, nodes),
            ];
            let file = |text: String| File { bytes: text.into_bytes(), secret: false };
            Set {
                hash: content_hash::<Vec<u8>>(&BTreeMap::new()),
                launch: Launch::new(Vec::new()),
                environment: BTreeMap::new(),
                files: files.map(|(name, text)| (name.to_owned(), file(text))).into(),
            }
        };
        claim(&set("uid/1", "2", "rabbit@a", "rabbit@b"), data).unwrap();
        found("rabbit@a");
        // Of this resource, or of one that was made anew.
        for member in ["uid/2", "new/2"] {
            let why = claim(&set(member, "1", "rabbit@b", "rabbit@a"), data).unwrap_err().to_string();
            assert!(why.starts_with("its volume has the database of rabbit@a, which is on another node"), "{why}");
        }
        assert!(own(data, "rabbit@a").join(CLUSTER).exists() && !data.join(FORMER).exists());
        // Nor is it taken for lost.
        let paths = Paths::below(root.path().join("pod"));
        fs::create_dir_all(paths.run_dir()).unwrap();
        fs::write(paths.run_dir().join(ENVIRONMENT), format!("{NAME}='rabbit@b'\n")).unwrap();
        assert_eq!(remembered(data, &paths), None);
        // Whose volume it is, or who is in the place of a member that is none any more.
        claim(&set("new/1", "2", "rabbit@a", "rabbit@b"), data).unwrap();
        claim(&set("new/3", "2", "rabbit@c", "rabbit@b"), data).unwrap();
        assert!(data.join(FORMER).join("rabbit@a").exists());
        assert_eq!(remembered(data, &paths), Some(BTreeSet::new()));
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_lost() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        let data = root.path().join("data");
        assert_eq!(remembered(&data, &paths), None, "nobody knows its name");
        fs::create_dir_all(paths.run_dir()).unwrap();
        fs::write(paths.run_dir().join(ENVIRONMENT), "RABBITMQ_NODENAME='rabbit@a'\n").unwrap();
        assert_eq!(remembered(&data, &paths), None, "the disk is not there");
        fs::create_dir_all(&data).unwrap();
        assert_eq!(remembered(&data, &paths), Some(BTreeSet::new()));
        fs::create_dir_all(own(&data, "rabbit@a")).unwrap();
        assert_eq!(remembered(&data, &paths), Some(BTreeSet::new()), "a server has begun and is no member yet");
        fs::write(own(&data, "rabbit@a").join(SCHEMA), "").unwrap();
        assert_eq!(remembered(&data, &paths), None, "a database without what it says of the cluster");
        fs::write(own(&data, "rabbit@a").join(CLUSTER), "").unwrap();
        assert_eq!(remembered(&data, &paths), None, "one that was cut off");
        fs::remove_file(own(&data, "rabbit@a").join(CLUSTER)).unwrap();
        fs::create_dir(own(&data, "rabbit@a").join(CLUSTER)).unwrap();
        assert_eq!(remembered(&data, &paths), None, "it cannot be read");
    }

    #[test]
    fn the_nodes_of_a_former_name_do_not_count() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        fs::create_dir_all(paths.run_dir()).unwrap();
        fs::write(paths.run_dir().join(ENVIRONMENT), "RABBITMQ_NODENAME='rabbit@new'\n").unwrap();
        let data = root.path().join("data");
        for (name, nodes) in [("rabbit@old", "{[rabbit@old],[]}."), ("rabbit@new", "{[rabbit@new,rabbit@b],[]}.")] {
            fs::create_dir_all(data.join(DATABASES).join(name)).unwrap();
            fs::write(data.join(DATABASES).join(name).join(CLUSTER), nodes).unwrap();
        }
        let names = ["rabbit@b", "rabbit@new"];
        assert_eq!(remembered(&data, &paths), Some(BTreeSet::from(names.map(str::to_owned))));
    }
}
