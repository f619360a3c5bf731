//! The vRouter's kernel module, driven by `modprobe` and by its own program `vif`.
//!
//! `vif` ends with 0 whatever the module answers (VR utils/vif.c), so each change is read back: from the kernel's interfaces, or
//! from `vif --list`.

use std::{collections::BTreeMap, io, process::Command};

use super::{
    DataPath,
    vif::{self, Vif},
};
use crate::{
    facts::{module::VROUTER, network::VHOST0},
    netlink::{self, Writer},
    program::{self, quoted},
    root::Root,
};

/// The programs that drive the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// `modprobe`.
    pub modprobe: String,
    /// `vif`.
    pub vif: String,
}

impl Default for Programs {
    fn default() -> Self {
        Self { modprobe: "modprobe".into(), vif: "vif".into() }
    }
}

/// The kernel module.
#[derive(Clone, Debug)]
pub struct Module {
    root: Root,
    programs: Programs,
    parameters: BTreeMap<String, String>,
}

impl Module {
    /// The module of the kernel that runs, with the parameters that it gets if it is loaded.
    pub fn new(root: &Root, programs: Programs, parameters: BTreeMap<String, String>) -> Self {
        Self { root: root.clone(), programs, parameters }
    }

    fn vif(&self, arguments: &[&str]) -> io::Result<String> {
        run(&self.programs.vif, arguments)
    }

    fn list(&self) -> io::Result<Vec<Vif>> {
        Ok(vif::list(&self.vif(&["--list"])?))
    }

    fn find(&self, link: &str) -> io::Result<Option<Vif>> {
        Ok(self.list()?.into_iter().find(|vif| vif.link.as_deref() == Some(link)))
    }

    /// Adds an interface to the vRouter, unless it is there.
    fn add(&self, link: &str, arguments: &[&str]) -> io::Result<()> {
        if self.find(link)?.is_some() {
            return Ok(());
        }
        let said = self.vif(&[&["--add", link], arguments].concat())?;
        match self.find(link)? {
            Some(_) => Ok(()),
            None => Err(io::Error::other(format!("the module did not take {link}: {}", quoted(&said)))),
        }
    }

    /// Deletes an interface from the vRouter, if it is there.
    fn delete(&self, link: &str) -> io::Result<()> {
        let Some(found) = self.find(link)? else { return Ok(()) };
        let said = self.vif(&["--delete", &found.index.to_string()])?;
        match self.find(link)? {
            None => Ok(()),
            Some(_) => Err(io::Error::other(format!("the module keeps {link}: {}", quoted(&said)))),
        }
    }
}

impl DataPath for Module {
    fn prepare(&mut self) -> io::Result<()> {
        if !self.root.at(format!("/sys/module/{VROUTER}")).exists() {
            // The directory that has the host's /lib/modules (modprobe(8)).
            let directory = self.root.at("/").display().to_string();
            let parameters = self.parameters.iter().map(|(name, value)| format!("{name}={value}"));
            let options = ["-v".to_owned(), "-d".to_owned(), directory, VROUTER.to_owned()];
            let arguments: Vec<String> = options.into_iter().chain(parameters).collect();
            run(&self.programs.modprobe, &arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        self.list().map(drop)
    }

    fn create(&mut self, mac: &str, mtu: u32) -> io::Result<()> {
        let said = if netlink::mac_of(VHOST0)?.is_some() {
            String::new()
        } else {
            self.vif(&["--create", VHOST0, "--mac", mac])?
        };
        let mut writer = Writer::open()?;
        let made = writer.set_mtu(VHOST0, mtu);
        made.map_err(|error| io::Error::new(error.kind(), format!("{error}; vif --create: {}", quoted(&said))))
    }

    fn remove(&mut self) -> io::Result<()> {
        Writer::open()?.remove_link(VHOST0)
    }

    fn add_physical(&mut self, uplink: &str) -> io::Result<()> {
        let mac = netlink::mac_of(uplink)?.unwrap_or_default();
        self.add(uplink, &["--mac", &mac, "--vrf", "0", "--vhost-phys", "--type", "physical"])
    }

    fn remove_physical(&mut self, uplink: &str) -> io::Result<()> {
        self.delete(uplink)
    }

    fn attach(&mut self, uplink: &str) -> io::Result<()> {
        let mac = netlink::mac_of(VHOST0)?.unwrap_or_default();
        self.add(VHOST0, &["--mac", &mac, "--vrf", "0", "--type", "vhost", "--xconnect", uplink])
    }

    fn detach(&mut self, _uplink: &str) -> io::Result<()> {
        self.delete(VHOST0)
    }

    fn has(&mut self, link: &str) -> io::Result<bool> {
        Ok(self.find(link)?.is_some())
    }

    fn users(&mut self) -> io::Result<Vec<String>> {
        let used = self.list()?.into_iter().filter(|vif| ["Agent", "Virtual"].contains(&vif.kind.as_str()));
        Ok(used.map(|vif| format!("{} (vif0/{})", vif.link.unwrap_or(vif.kind), vif.index)).collect())
    }
}

fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    program::run(Command::new(program).args(arguments))
}
