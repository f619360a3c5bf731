//! Making backups, and taking them in.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::json;
use tf_agent_api::cassandra::{
    Change,
    backup::{Backup, DIRECTORY, Restored},
};

use super::{
    super::Failure,
    Release, all_keyspaces, ask,
    backup::{self, Request, SNAPSHOT, STAGING, beside},
    change::{Changer, in_time, quoted},
    disk, session,
};
use crate::log;

/// Releases from this on take in files that are somewhere else (`nodetool import`).
const IMPORT_SINCE: Release = Release { major: 4, minor: 0 };

/// Looks for a backup, and tells from now on what there is.
pub(super) async fn look(changer: &Changer, of: &Backup) -> Result<(), Failure> {
    let (volume, of) = (volume(changer), of.clone());
    let found = in_time(beside(move || Ok(backup::find(&volume, &of)))).await?;
    changer.tasks.has_found(found);
    Ok(())
}

/// Carries out what goes on after the answer.
pub(super) async fn carry_out(changer: &Changer, change: Change) -> Result<()> {
    match change {
        Change::Backup { of, resource, member, members } => {
            save(changer, of, resource, member, members.into_iter().collect()).await
        }
        Change::RestoreSchema { of, folder, factor } => make_schema(changer, of, folder, factor).await,
        Change::RestoreRows { of, folders } => take_in(changer, of, folders).await,
        Change::Replicate { .. }
        | Change::Repair { .. }
        | Change::RepairWithout { .. }
        | Change::UpgradeSstables
        | Change::Decommission
        | Change::Remove { .. }
        | Change::Look { .. } => Ok(()),
    }
}

fn volume(changer: &Changer) -> PathBuf {
    changer.paths.at(DIRECTORY)
}

fn data(changer: &Changer) -> PathBuf {
    changer.paths.at(&changer.server.data)
}

/// Writes the folder of this member. What was acknowledged before is in it, or in that of another member: the server writes to disk what is only in
/// memory before it makes a snapshot.
async fn save(
    changer: &Changer,
    of: Backup,
    resource: String,
    member: u32,
    members: BTreeMap<u32, String>,
) -> Result<()> {
    let clients = &changer.server.clients;
    let keyspaces = in_time(async { all_keyspaces(&mut session(clients, &changer.paths).await?).await }).await?;
    let release = in_time(ask(changer)).await?.release;
    let tables = disk::keyspaces(&data(changer));
    let clear = async || {
        let tables = tables.clone();
        beside(move || backup::clear(&tables)).await
    };
    clear().await?;
    let names: Vec<&str> = keyspaces.keys().map(String::as_str).collect();
    if !names.is_empty() {
        changer.nodetool(&[&["snapshot", "-t", SNAPSHOT, "--"], names.as_slice()].concat()).await?;
    }
    let request = Request { of: of.clone(), resource, member, members, release, keyspaces };
    let (volume, source) = (volume(changer), tables.clone());
    let saved = beside(move || backup::write(&volume, &source, &request)).await;
    // Whatever became of the copy: it keeps files that the server has no more.
    if let Err(error) = clear().await {
        log::warn("a snapshot was not removed", &json!({"error": format!("{error:#}")}));
    }
    disk::note_backup(&data(changer), &of.name, saved?)
}

/// Makes the keyspaces and tables of a folder, each row on so many members. Whoever was cut short makes those that are missing.
async fn make_schema(changer: &Changer, of: Backup, folder: u32, factor: u32) -> Result<()> {
    let clients = &changer.server.clients;
    let release = in_time(ask(changer)).await?.release;
    let (volume, backup) = (volume(changer), of.clone());
    let schema = beside(move || backup::schema(&volume, &backup, folder)).await?;
    can_take_in(&release, &schema.release)?;
    let noted = restored(changer, &of)?;
    if noted.is_none() {
        let present = in_time(async { all_keyspaces(&mut session(clients, &changer.paths).await?).await }).await?;
        if let Some(keyspace) = present.keys().next() {
            bail!("the ring has keyspace {keyspace} already; a backup is taken in by a new ring alone");
        }
    }
    let noted = noted.unwrap_or_else(|| begun(&of));
    disk::note_restored(&data(changer), &noted)?;
    let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {factor}}}");
    let keyspaces = schema.keyspaces.iter().map(|(name, durable)| {
        let options = format!("replication = {replication} AND durable_writes = {durable}");
        format!("CREATE KEYSPACE IF NOT EXISTS {} WITH {options}", quoted(name))
    });
    for statement in keyspaces.chain(schema.statements) {
        let made = in_time(async { session(clients, &changer.paths).await?.execute(&statement).await }).await;
        if let Err(error) = made
            && !backup::is_harmless(&statement, &format!("{error:#}"))
        {
            let statement: String = statement.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
            return Err(error).context(statement);
        }
    }
    disk::note_restored(&data(changer), &Restored { schema: true, at: Timestamp::now(), ..noted })
}

/// Whether a server takes in what one of another release wrote: tables are described by options that earlier releases do not know, and files may be.
///
/// # Errors
/// When it does not, with what does.
fn can_take_in(release: &str, written_by: &str) -> Result<()> {
    let (own, theirs) = (Release::of(release), Release::of(written_by));
    ensure!(own >= IMPORT_SINCE, "release {release} of Cassandra cannot take in a backup; it needs 4.0 or a later one");
    ensure!(
        own >= theirs,
        "release {release} of Cassandra cannot take in a backup that {written_by} made; use an image of that or a later one"
    );
    Ok(())
}

/// Takes in the rows of folders that were not taken in before.
async fn take_in(changer: &Changer, of: Backup, folders: BTreeSet<u32>) -> Result<()> {
    let mut noted = restored(changer, &of)?.unwrap_or_else(|| begun(&of));
    for folder in folders {
        if noted.folders.contains(&folder) {
            continue;
        }
        let (volume, of, data) = (volume(changer), of.clone(), data(changer));
        let target = data.clone();
        let tables = beside(move || backup::stage(&volume, &of, folder, &target)).await?;
        for table in &tables {
            let path = changer.server.data.clone() + "/" + &table.path.strip_prefix(&data)?.to_string_lossy();
            changer.nodetool(&["import", "--", &table.keyspace, &table.name, &path]).await?;
            // It moves what it takes in, and of what it does not it tells its log alone.
            let (keyspace, name) = (&table.keyspace, &table.name);
            ensure!(!table.has_data()?, "the server took in a part of {keyspace}.{name} only; its log says why");
        }
        noted.folders.insert(folder);
        noted.at = Timestamp::now();
        disk::note_restored(&data, &noted)?;
    }
    let staging = data(changer).join(STAGING);
    std::fs::remove_dir_all(&staging).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error).with_context(|| format!("remove {}", staging.display())),
    })
}

fn begun(of: &Backup) -> Restored {
    Restored { of: of.clone(), schema: false, folders: BTreeSet::new(), at: Timestamp::now() }
}

/// What was taken in of this backup, if anything was.
fn restored(changer: &Changer, of: &Backup) -> Result<Option<Restored>> {
    let noted = disk::restored(&data(changer));
    let other = noted.as_ref().map(|noted| &noted.of).filter(|other| *other != of);
    ensure!(other.is_none(), "rows of another backup were taken in before: {}", other.map_or("", |other| &other.name));
    Ok(noted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_takes_in_what_its_own_release_or_an_earlier_one_wrote() {
        for (own, written_by) in
            [("5.0.9", "5.0.9"), ("5.0.2", "5.0.9"), ("5.0.9", "4.1.10"), ("4.1.10", "3.11.19"), ("4.0.0", "4.0.18")]
        {
            assert!(can_take_in(own, written_by).is_ok(), "{own} {written_by}");
        }
        for (own, written_by, says) in [
            ("3.11.19", "3.11.19", "it needs 4.0 or a later one"),
            ("4.1.10", "5.0.9", "that 5.0.9 made; use an image of that or a later one"),
            ("4.0.18", "4.1.10", "that 4.1.10 made; use an image of that or a later one"),
        ] {
            let why = can_take_in(own, written_by).unwrap_err().to_string();
            assert!(why.ends_with(says), "{why}");
        }
    }
}
