//! Virtual functions of interfaces (SR-IOV): made where there are none or another number, and taken away again.
//!
//! The kernel takes a number only where there is none, so that another number takes all functions away first. That is done only where nothing uses one of
//! them. What was made in this boot is recorded, so that [`remove`] takes away nothing else; a boot takes all of them away.

use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    Finding, HostFacts, Root, Wanted, atomic, observe,
    preflight::{
        self,
        virtual_functions::{self, used},
    },
    record,
};

/// For the kernel to have the functions: drivers that are slow take seconds.
const MADE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Another number of virtual functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The interface.
    pub link: String,
    /// PCI address of its device.
    pub pci: String,
    /// How many there are.
    pub from: u32,
    /// How many there are to be.
    pub to: u32,
}

/// What was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    /// Numbers by the PCI addresses of devices.
    made: BTreeMap<String, u32>,
}

/// Why functions are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Findings that block. Nothing was changed.
    #[error("{}", preflight::lines(.0))]
    Blocked(Vec<Finding>),
    /// The record cannot be used. Nothing was changed.
    #[error("the record of virtual functions {path} cannot be used: {error}")]
    Record {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel did not take a number.
    #[error("{link} ({pci}) has {has} virtual functions and not {wanted}: {cause}")]
    Refused {
        /// The interface.
        link: String,
        /// PCI address of its device.
        pci: String,
        /// How many it has now.
        has: u32,
        /// How many it was to have.
        wanted: u32,
        /// Why.
        cause: String,
    },
}

/// What is to be changed. Pure.
pub fn changes(facts: &HostFacts, wanted: &Wanted) -> Vec<Change> {
    let change = |(link, to): (&String, &u32)| {
        let device = facts.devices.get(link)?;
        let functions = device.virtual_functions.as_ref().filter(|functions| !functions.managed)?;
        let change = Change { link: link.clone(), pci: device.pci.clone()?, from: functions.configured, to: *to };
        (change.from != change.to).then_some(change)
    };
    wanted.virtual_functions.iter().filter_map(change).collect()
}

/// Makes what is wanted. Nothing is done where it is there, and where sriov-network-operator manages the device.
///
/// # Errors
/// Why it is not there.
pub fn apply(root: &Root, wanted: &Wanted, path: &Path) -> Result<Vec<Change>, Error> {
    let facts = observe(root);
    let findings = virtual_functions::check(&facts, wanted);
    let blocking: Vec<Finding> = findings.into_iter().filter(Finding::blocks).collect();
    if !blocking.is_empty() {
        return Err(Error::Blocked(blocking));
    }
    let changes = changes(&facts, wanted);
    if changes.is_empty() {
        return Ok(changes);
    }
    let boot = &facts.kernel.boot_id;
    let mut made: Record = record::read(path, boot).map_err(|error| unusable(path, error))?;
    for change in &changes {
        // First: what is not recorded is never taken away.
        made.made.insert(change.pci.clone(), change.to);
        record::write(path, boot, &made).map_err(|error| unusable(path, error))?;
        set(root, change)?;
    }
    Ok(changes)
}

/// Takes away what was made in this boot and is not used. Out: what was taken away, and what stays with its cause.
///
/// # Errors
/// When the kernel does not take a function away, or the record cannot be used.
pub fn remove(root: &Root, path: &Path) -> Result<(Vec<Change>, Vec<String>), Error> {
    let facts = observe(root);
    let boot = &facts.kernel.boot_id;
    let mut made: Record = record::read(path, boot).map_err(|error| unusable(path, error))?;
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    for (pci, number) in made.made.clone() {
        let found = facts.devices.iter().find(|(_, device)| device.pci.as_ref() == Some(&pci));
        let functions = found.and_then(|(link, device)| Some((link, device.virtual_functions.as_ref()?)));
        // Another program made them where there are not as many.
        if let Some((link, functions)) = functions.filter(|(_, functions)| functions.configured == number) {
            if let Some(use_of) = used(&facts.network, &functions.functions) {
                left.push(format!("virtual functions of {link}, since {use_of}"));
                continue;
            }
            let change = Change { link: link.clone(), pci: pci.clone(), from: number, to: 0 };
            set(root, &change)?;
            removed.push(change);
        }
        made.made.remove(&pci);
    }
    let kept = if made.made.is_empty() { atomic::remove(path) } else { record::write(path, boot, &made) };
    kept.map_err(|error| unusable(path, error))?;
    Ok((removed, left))
}

/// Has the kernel make a number of functions, and waits until they are there.
fn set(root: &Root, change: &Change) -> Result<(), Error> {
    let Change { link, pci, from, to } = change;
    let file = root.at(format!("/sys/bus/pci/devices/{pci}/sriov_numvfs"));
    let has = || fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default();
    let refused =
        |cause: String| Error::Refused { link: link.clone(), pci: pci.clone(), has: has(), wanted: *to, cause };
    let write = |number: u32| fs::write(&file, number.to_string()).map_err(|error| refused(error.to_string()));
    if *from > 0 && *to > 0 {
        write(0)?;
    }
    write(*to)?;
    let begun = Instant::now();
    let are_there = || {
        let is_function = |name: &io::Result<fs::DirEntry>| {
            name.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("virtfn"))
        };
        let entries = file.parent().and_then(|directory| fs::read_dir(directory).ok());
        has() == *to && entries.is_some_and(|entries| entries.filter(is_function).count() == *to as usize)
    };
    while !are_there() {
        if begun.elapsed() > MADE {
            return Err(refused(format!("they did not appear in {} s", MADE.as_secs())));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

fn unusable(path: &Path, error: io::Error) -> Error {
    Error::Record { path: path.display().to_string(), error }
}
