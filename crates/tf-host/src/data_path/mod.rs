//! What moves packets between the uplink and `vhost0`.

mod module;
pub(crate) mod vif;

use std::{io, path::Path};

pub use module::{Module, Programs};

use crate::facts::network::VHOST0;

/// Interfaces that a data plane is given, separated by commas: one, or several of a multihomed node.
pub fn each(uplink: &str) -> impl DoubleEndedIterator<Item = &str> {
    uplink.split(',')
}

/// What moves packets between the uplink and `vhost0`: the vRouter's kernel module ([`Module`]), or a stand-in in tests. What
/// is done already is no error.
pub trait DataPath {
    /// Has it ready to be used: the kernel module is loaded and answers. Nothing of the node's network changes.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn prepare(&mut self) -> io::Result<()>;
    /// Takes the kernel module out of the kernel. There is no `vhost0`, and the uplink is no part of it.
    ///
    /// # Errors
    /// When the kernel keeps it.
    fn unload(&mut self) -> io::Result<()>;
    /// Has the kernel load the module from a file, and not the one that `modprobe` finds. None is loaded.
    ///
    /// # Errors
    /// When the kernel refuses it, or it does not answer.
    fn load(&mut self, file: &Path) -> io::Result<()>;
    /// Makes `vhost0`, down and connected with nothing.
    ///
    /// # Errors
    /// When the kernel refuses it.
    fn create(&mut self, mac: &str, mtu: u32) -> io::Result<()>;
    /// Removes `vhost0`.
    ///
    /// # Errors
    /// When the kernel refuses it.
    fn remove(&mut self) -> io::Result<()>;
    /// Shows the uplink to the data plane. What arrives on it still goes to the host.
    ///
    /// # Errors
    /// When the data plane refuses it.
    fn add_physical(&mut self, uplink: &str) -> io::Result<()>;
    /// Takes the uplink from the data plane.
    ///
    /// # Errors
    /// When the data plane refuses it.
    fn remove_physical(&mut self, uplink: &str) -> io::Result<()>;
    /// Has what arrives on the uplink arrive on `vhost0`, and what is sent on `vhost0` leave by the uplink.
    ///
    /// # Errors
    /// When the data plane refuses it.
    fn attach(&mut self, uplink: &str) -> io::Result<()>;
    /// Has it arrive on the uplink again.
    ///
    /// # Errors
    /// When the data plane refuses it.
    fn detach(&mut self, uplink: &str) -> io::Result<()>;
    /// Whether the data plane has this interface: the uplink, or `vhost0`.
    ///
    /// # Errors
    /// When the data plane does not say.
    fn has(&mut self, link: &str) -> io::Result<bool>;
    /// Whether it has both the uplink and `vhost0`.
    ///
    /// # Errors
    /// When the data plane does not say.
    fn is_attached(&mut self, uplink: &str) -> io::Result<bool> {
        Ok(self.has(uplink)? && self.has(VHOST0)?)
    }
    /// Interfaces of pods and of the agent that the data plane has, in words.
    ///
    /// # Errors
    /// When the data plane does not say.
    fn users(&mut self) -> io::Result<Vec<String>>;
}
