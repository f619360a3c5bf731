//! Carries plans out, and undoes them. The only part that changes a node.
//!
//! Each step is one message to the kernel or one call of the [`DataPath`], without waiting. A step that is done already is no
//! error, so that a plan can be carried out or undone from any point.

use std::{fs, io, path::Path};

use crate::{
    data_path::DataPath,
    facts::network::VHOST0,
    journal::{self, Journal, State},
    netlink::Writer,
    plan::{Plan, Step},
    root::Root,
};

/// Why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was begun.
    #[error("the journal: {0}")]
    Journal(#[from] journal::Error),
    /// All steps were undone.
    #[error("{reason}; undone")]
    RolledBack {
        /// Which step failed, or why the node was not as it should be.
        reason: String,
    },
    /// Steps could not be undone.
    #[error("{reason}; not undone: {}", .left.join(", "))]
    NotRolledBack {
        /// Which step failed, or why the node was not as it should be.
        reason: String,
        /// What could not be undone, and why.
        left: Vec<String>,
    },
}

/// Carries plans out.
pub struct Actor<'a, D> {
    root: &'a Root,
    data_path: &'a mut D,
    writer: Writer,
}

impl<'a, D: DataPath> Actor<'a, D> {
    /// For the network namespace of the caller. Kernel settings are files below the root.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn new(root: &'a Root, data_path: &'a mut D) -> io::Result<Self> {
        Ok(Self { root, data_path, writer: Writer::open()? })
    }

    /// Carries a plan out and verifies the node; undoes all of it if either fails.
    ///
    /// # Errors
    /// Why, and what is left.
    pub fn carry_out(
        &mut self,
        plan: &Plan,
        journal: &Path,
        boot_id: &str,
        verify: impl FnOnce(&mut D) -> Result<(), String>,
    ) -> Result<(), Error> {
        let mut record = Journal::begin(plan.clone(), boot_id);
        record.write(journal)?;
        let done = plan.steps.iter().try_for_each(|step| {
            self.apply(&plan.uplink, step).map_err(|error| format!("{}: {error}", described(step)))
        });
        let Err(reason) = done.and_then(|()| verify(self.data_path)) else {
            record.state = State::Committed;
            return Ok(record.write(journal)?);
        };
        let left = self.undo(plan);
        if !left.is_empty() {
            return Err(Error::NotRolledBack { reason, left });
        }
        record.state = State::RolledBack { reason: reason.clone() };
        record.write(journal)?;
        Err(Error::RolledBack { reason })
    }

    /// Undoes a plan from any point that it has come to, and goes on after what fails. Returns what could not be undone.
    pub fn undo(&mut self, plan: &Plan) -> Vec<String> {
        let failed = |step: &Step| {
            let error = self.apply(&plan.uplink, step).err()?;
            Some(format!("{}: {error}", described(step)))
        };
        plan.inverse().steps.iter().filter_map(failed).collect()
    }

    /// One step.
    ///
    /// # Errors
    /// When the kernel or the data plane refuses it.
    pub fn apply(&mut self, uplink: &str, step: &Step) -> io::Result<()> {
        match step {
            Step::CreateVhost { mac, mtu } => self.data_path.create(mac, *mtu)?,
            Step::RemoveVhost { .. } => self.data_path.remove()?,
            Step::AddPhysical => self.data_path.add_physical(uplink)?,
            Step::RemovePhysical => self.data_path.remove_physical(uplink)?,
            Step::Attach => self.data_path.attach(uplink)?,
            Step::Detach => self.data_path.detach(uplink)?,
            step => return of_kernel(self.root, &mut self.writer, step),
        }
        if matches!(step, Step::CreateVhost { .. } | Step::RemoveVhost { .. }) {
            self.writer.learn()?;
        }
        Ok(())
    }
}

/// One step that the kernel does alone.
///
/// # Errors
/// When the kernel refuses it, and for a step of the data plane.
pub(crate) fn of_kernel(root: &Root, writer: &mut Writer, step: &Step) -> io::Result<()> {
    match step {
        Step::SetSysctl { link, name, value, .. } => set(root, link, name, value),
        Step::SetUp => writer.set_up(VHOST0),
        Step::AddAddress(address) => writer.add_address(address),
        Step::DeleteAddress(address) => writer.delete_address(address),
        Step::AddNeighbour(neighbour) => writer.add_neighbour(neighbour),
        Step::DeleteNeighbour(neighbour) => writer.delete_neighbour(neighbour),
        Step::ReplaceRoute { to, .. } => writer.replace_route(to),
        Step::AddRule(rule) => writer.add_rule(rule),
        Step::DeleteRule(rule) => writer.delete_rule(rule),
        Step::CreateVhost { .. }
        | Step::RemoveVhost { .. }
        | Step::AddPhysical
        | Step::RemovePhysical
        | Step::Attach
        | Step::Detach => Err(io::Error::other("a step of the data plane")),
    }
}

/// Writes kernel settings again. One that cannot be written stays as it is.
pub(crate) fn settings(root: &Root, steps: &[Step]) {
    for step in steps {
        if let Step::SetSysctl { link, name, value, .. } = step {
            let _ = set(root, link, name, value);
        }
    }
}

/// Writes a kernel setting. One that this kernel does not have, or of an interface that has gone, is left out.
fn set(root: &Root, link: &str, name: &str, value: &str) -> io::Result<()> {
    let (family, name) = name.split_once('.').ok_or_else(|| io::Error::other("not the name of a setting"))?;
    let path = root.at(format!("/proc/sys/net/{family}/conf/{link}/{name}"));
    match fs::write(path, value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// A step in words.
pub(crate) fn described(step: &Step) -> String {
    match step {
        Step::CreateVhost { .. } => "make vhost0".into(),
        Step::RemoveVhost { .. } => "remove vhost0".into(),
        Step::SetSysctl { link, name, value, .. } => format!("set {name} of {link} to {value}"),
        Step::SetUp => "set vhost0 up".into(),
        Step::AddAddress(address) => format!("add {} to {}", address.address, address.link),
        Step::DeleteAddress(address) => format!("delete {} from {}", address.address, address.link),
        Step::AddNeighbour(neighbour) => format!("add the neighbour {} to {}", neighbour.address, neighbour.link),
        Step::DeleteNeighbour(neighbour) => {
            format!("delete the neighbour {} from {}", neighbour.address, neighbour.link)
        }
        Step::AddPhysical => "show the uplink to the data plane".into(),
        Step::RemovePhysical => "take the uplink from the data plane".into(),
        Step::Attach => "connect vhost0 with the uplink".into(),
        Step::Detach => "disconnect vhost0 from the uplink".into(),
        Step::ReplaceRoute { to, .. } => format!("replace the route to {} in table {}", to.destination, to.table),
        Step::AddRule(rule) => format!("add the rule {}", rule.priority),
        Step::DeleteRule(rule) => format!("delete the rule {}", rule.priority),
    }
}
