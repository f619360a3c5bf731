//! Whose the data of a store is.

use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Error, Result, anyhow};
use tf_agent_api::node::{MEMBER_FILE, OTHER_MEMBERS_FILE};
use tf_host::atomic;

use crate::{paths::Paths, set::Set, source};

/// Says whose the data is.
pub(super) const OWNER: &str = ".member";

/// Number of the member that the data is of.
pub(super) fn of(data: &Path) -> Option<u32> {
    fs::read_to_string(data.join(OWNER)).ok()?.trim().rsplit_once('/')?.1.parse().ok()
}

/// The member on this node, by the newest files that there are for it.
pub(super) fn recorded(paths: &Paths, address: IpAddr) -> Option<String> {
    let content = source::read(paths, address).ok()?;
    Some(String::from_utf8_lossy(&content.files.get(MEMBER_FILE)?.bytes).trim().to_owned())
}

/// Lets the data be that of the member whose files these are. What a former member of the same resource had is put aside: the others did without that
/// one since. Data of no member, or of a resource that is gone, is taken over.
///
/// # Errors
/// When a file cannot be read, written or moved, or the data is that of another member.
pub(super) fn claim(set: &Set, data: &Path, put_aside: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let text = |file| set.files.get(file).map(|file| String::from_utf8_lossy(&file.bytes));
    let Some(member) = text(MEMBER_FILE) else { return Ok(()) };
    // Operators of earlier releases tell nothing of others.
    let others = text(OTHER_MEMBERS_FILE).unwrap_or_default();
    belongs_to(member.trim(), &others.split_whitespace().collect::<Vec<_>>(), data, put_aside)
}

/// The same for a member, `<uid of the resource>/<number>`, and the numbers of the others.
pub(super) fn belongs_to(
    member: &str,
    others: &[&str],
    data: &Path,
    put_aside: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let file = data.join(OWNER);
    let owner = match fs::read_to_string(&file) {
        Ok(owner) => Some(owner),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
    };
    let owner = owner.as_deref().map(str::trim);
    if owner == Some(member) {
        return Ok(());
    }
    let resource = |member: &str| member.split_once('/').map(|(resource, _)| resource.to_owned());
    if let Some((uid, number)) = owner.and_then(|owner| owner.split_once('/'))
        && resource(member).as_deref() == Some(uid)
    {
        if others.contains(&number) {
            return Err(misplaced(&format!("data of member {number}")));
        }
        put_aside(data)?;
    }
    // Last: whoever is stopped before does the same again, and what has been put aside by then stays.
    Ok(atomic::write(&file, member.as_bytes(), 0o600)?)
}

/// Lets data be that of another member of the same resource, whose number its own has become since the server was started. `note` keeps both: the server may be
/// started again with files of the former one. What is not noted is put aside then.
pub(super) fn renumber(member: &str, data: &Path, note: &Path) {
    let file = data.join(OWNER);
    let resource = |member: &str| member.trim().rsplit_once('/').map(|(resource, _)| resource.to_owned());
    let owner = fs::read_to_string(&file).unwrap_or_default();
    if owner.trim() != member && resource(&owner).is_some_and(|it| resource(member) == Some(it)) {
        let _ = atomic::replace(note, renumbered(owner.trim(), member).as_bytes(), 0o644)
            .and_then(|()| atomic::write(&file, member.as_bytes(), 0o600));
    }
}

/// Whether these are files of the member that data was of before ([`renumber`]).
pub(super) fn is_renumbered(set: &Set, data: &Path, note: &Path) -> bool {
    let [note, owner] = [note, &data.join(OWNER)].map(|file| fs::read_to_string(file).unwrap_or_default());
    let member = set.files.get(MEMBER_FILE).map(|file| String::from_utf8_lossy(&file.bytes));
    member.is_some_and(|member| note == renumbered(member.trim(), owner.trim()))
}

fn renumbered(former: &str, member: &str) -> String {
    format!("{former} {member}")
}

/// Why a server is not started with the volume of another member.
pub(super) fn misplaced(what: &str) -> Error {
    anyhow!(
        "its volume has the {what}, which is on another node; delete the pods of both at once, until each is on the node of its volume"
    )
}

/// Whether there is something of this name.
///
/// # Errors
/// When that cannot be told.
pub(super) fn exists(path: &PathBuf) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("look at {}", path.display())),
    }
}
