//! What a RabbitMQ server has on its disk (RabbitMQ, "Clustering": `cluster_nodes.config`; releases that keep their cluster in Mnesia).

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::json;
use tf_plan::files::env;

use super::super::owner::{self, exists};
use crate::{atomic, log, paths::Paths};

/// Directory of the databases, one of each name that the node ever had, below the data directory.
const DATABASES: &str = "mnesia";
/// Where they are put aside. One generation is kept.
const FORMER: &str = "mnesia.former";
/// File of a database with the cluster's nodes: an Erlang tuple of a list of all and a list of those with a disk.
const CLUSTER: &str = "cluster_nodes.config";
/// File of the server's environment with its name.
const ENVIRONMENT: &str = "rabbitmq-env.conf";
const NAME: &str = "RABBITMQ_NODENAME";

/// Names of the nodes that a server has as its cluster; none where it has no database.
pub(super) fn remembered(data: &Path, paths: &Paths) -> BTreeSet<String> {
    let environment = fs::read_to_string(paths.run_dir().join(ENVIRONMENT)).unwrap_or_default();
    let variables = env::parse(&environment).unwrap_or_default();
    let Some(name) = variables.get(NAME) else { return BTreeSet::new() };
    let file = data.join(DATABASES).join(name).join(CLUSTER);
    fs::read_to_string(file).map(|text| nodes(&text)).unwrap_or_default()
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

/// Lets the data be that of this member, which the cluster has not forgotten.
pub(super) fn belongs_to(member: &str, data: &Path) -> Result<()> {
    owner::belongs_to(member, data, put_aside)
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
    use super::*;

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
            belongs_to(member, data).unwrap();
            assert_eq!((read("mnesia").as_deref(), read("mnesia.former")), (Some("of nobody"), None), "{member}");
        }
        belongs_to("second/4", data).unwrap();
        assert_eq!((read("mnesia"), read("mnesia.former").as_deref()), (None, Some("of nobody")));
        // Stopped before the end: nothing takes the place of the only copy.
        fs::write(data.join(owner::OWNER), "second/3").unwrap();
        belongs_to("second/4", data).unwrap();
        assert_eq!(read("mnesia.former").as_deref(), Some("of nobody"));
        write("of the fourth");
        belongs_to("second/5", data).unwrap();
        assert_eq!((read("mnesia"), read("mnesia.former").as_deref()), (None, Some("of the fourth")));
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
        assert_eq!(remembered(&data, &paths), BTreeSet::from(names.map(str::to_owned)));
        assert_eq!(remembered(&root.path().join("empty"), &paths), BTreeSet::new());
    }
}
