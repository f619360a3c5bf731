//! The vRouter's kernel module, driven by `modprobe`, `insmod` and by its own program `vif`.
//!
//! `vif` ends with 0 whatever the module answers (VR utils/vif.c), so each change is read back: from the kernel's interfaces, or
//! from `vif --list`.

use std::{collections::BTreeMap, fs, io, path::Path, process::Command};

use super::{
    DataPath, each,
    vif::{self, Vif},
};
use crate::{
    facts::{module::VROUTER, network::VHOST0},
    netlink::{self, Writer},
    program::{self, quoted},
    root::Root,
};

/// Interfaces that the module makes for packets that it hands to another CPU.
const PACKETS: [&str; 3] = ["pkt1", "pkt2", "pkt3"];

/// The programs that drive the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// `modprobe`.
    pub modprobe: String,
    /// `insmod`.
    pub insmod: String,
    /// `vif`.
    pub vif: String,
}

impl Default for Programs {
    fn default() -> Self {
        Self { modprobe: "modprobe".into(), insmod: "insmod".into(), vif: "vif".into() }
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

    fn is_loaded(&self) -> bool {
        self.root.at(format!("/sys/module/{VROUTER}")).exists()
    }

    /// Arguments of `modprobe`: the directory that has the host's /lib/modules (modprobe(8)), and the module.
    fn modprobe(&self, option: &str, parameters: &[String]) -> io::Result<()> {
        let directory = self.root.at("/").display().to_string();
        let named = [option.to_owned(), "-d".to_owned(), directory, VROUTER.to_owned()];
        run(&self.programs.modprobe, &texts(&[&named, parameters].concat())).map(drop)
    }

    fn stated(&self) -> Vec<String> {
        self.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Each queue of the module's own interfaces is for the CPU of its number (RPS), as the images' scripts have it. It is about speed alone, so that a
    /// kernel which does not take it is left as it is.
    fn spread(&self) -> io::Result<()> {
        for name in PACKETS.into_iter().filter(|name| netlink::mac_of(name).is_ok_and(|mac| mac.is_some())) {
            let queues = self.root.at(format!("/sys/class/net/{name}/queues"));
            for queue in fs::read_dir(queues).into_iter().flatten().flatten() {
                let number = queue.file_name().to_str().and_then(|name| name.strip_prefix("rx-")?.parse().ok());
                if let Some(number) = number {
                    let _ = fs::write(queue.path().join("rps_cpus"), mask(number));
                }
            }
            Writer::open()?.set_up(name)?;
        }
        Ok(())
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
        if !self.is_loaded() {
            self.modprobe("-v", &self.stated())?;
            self.spread()?;
        }
        self.list().map(drop)
    }

    fn unload(&mut self) -> io::Result<()> {
        if self.is_loaded() {
            self.modprobe("-r", &[])?;
        }
        if self.is_loaded() { Err(io::Error::other("the kernel keeps it loaded")) } else { Ok(()) }
    }

    fn load(&mut self, file: &Path) -> io::Result<()> {
        let arguments = [vec![file.display().to_string()], self.stated()].concat();
        run(&self.programs.insmod, &texts(&arguments))?;
        self.spread()?;
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
        // The images' scripts add the last one first.
        each(uplink).rev().try_for_each(|uplink| {
            let mac = netlink::mac_of(uplink)?.unwrap_or_default();
            self.add(uplink, &["--mac", &mac, "--vrf", "0", "--vhost-phys", "--type", "physical"])
        })
    }

    fn remove_physical(&mut self, uplink: &str) -> io::Result<()> {
        each(uplink).try_for_each(|uplink| self.delete(uplink))
    }

    fn attach(&mut self, uplink: &str) -> io::Result<()> {
        let mac = netlink::mac_of(VHOST0)?.unwrap_or_default();
        self.add(VHOST0, &["--mac", &mac, "--vrf", "0", "--type", "vhost", "--xconnect", uplink])
    }

    fn detach(&mut self, _uplink: &str) -> io::Result<()> {
        self.delete(VHOST0)
    }

    fn has(&mut self, link: &str) -> io::Result<bool> {
        let found = self.list()?;
        Ok(each(link).all(|link| found.iter().any(|vif| vif.link.as_deref() == Some(link))))
    }

    fn users(&mut self) -> io::Result<Vec<String>> {
        let used = self.list()?.into_iter().filter(|vif| ["Agent", "Virtual"].contains(&vif.kind.as_str()));
        Ok(used.map(|vif| format!("{} (vif0/{})", vif.link.unwrap_or(vif.kind), vif.index)).collect())
    }
}

/// A mask with one CPU, as the kernel has it: words of 32 bits, the highest first.
fn mask(cpu: usize) -> String {
    format!("{:x}{}", 1_u32 << (cpu % 32), ",00000000".repeat(cpu / 32))
}

fn texts(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    program::run(Command::new(program).args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_bit_of_its_cpu() {
        let masks = [0, 3, 31, 32, 69].map(mask);
        assert_eq!(masks, ["1", "8", "80000000", "1,00000000", "20,00000000,00000000"]);
    }
}
