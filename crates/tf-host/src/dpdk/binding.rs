//! Drivers of devices on PCI: another one than their own, and their own again (kernel `Documentation/ABI/testing/sysfs-bus-pci`: `driver_override`).

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::taken::Device;
use crate::{Root, atomic::of, preflight::BESIDE, program};

/// For the kernel to give a device another driver.
const BOUND: Duration = Duration::from_secs(10);
/// For an interface to appear after its device has its own driver again: firmware of some cards takes many seconds.
const APPEARED: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// The PCI bus of a node.
pub struct Bus<'a> {
    /// Where `/sys` is.
    pub root: &'a Root,
    /// The program that loads drivers.
    pub modprobe: &'a str,
}

impl Bus<'_> {
    /// Gives a device this driver. Nothing is done where it has it, and where DPDK works beside its own one (Mellanox).
    ///
    /// # Errors
    /// When the kernel does not give it the driver.
    pub fn bind(&self, device: &Device, driver: &str) -> io::Result<()> {
        let own = self.driver(&device.pci);
        if own.as_deref() == Some(driver) || own.as_deref().is_some_and(|own| BESIDE.contains(&own)) {
            return Ok(());
        }
        if !self.at(&format!("drivers/{driver}")).exists() {
            let directory = self.root.at("/");
            program::run(Command::new(self.modprobe).arg("-d").arg(directory).arg(driver))?;
        }
        write(&self.file(device, "driver_override"), driver)?;
        self.probe(device, own.as_deref())?;
        self.wait(device, driver)
    }

    /// Gives a device its own driver, and waits for its interface.
    ///
    /// # Errors
    /// When the kernel does not give it the driver, or no interface appears.
    pub fn release(&self, device: &Device) -> io::Result<()> {
        let present = self.driver(&device.pci);
        if present != device.driver {
            // An empty line takes the override away.
            let before = device.driver_override.as_deref().unwrap_or("\n");
            write(&self.file(device, "driver_override"), before)?;
            self.probe(device, present.as_deref())?;
            if let Some(own) = &device.driver
                && self.wait(device, own).is_err()
            {
                write(&self.at(&format!("drivers/{own}/bind")), &device.pci)?;
                self.wait(device, own)?;
            }
        }
        let begun = Instant::now();
        loop {
            if !self.interfaces(device).is_empty() {
                return Ok(());
            }
            if begun.elapsed() > APPEARED {
                let what = format!("{} has its driver and no interface after {} s", device.pci, APPEARED.as_secs());
                return Err(io::Error::other(what));
            }
            thread::sleep(LOOK);
        }
    }

    /// Takes the present driver away and has the kernel choose one.
    fn probe(&self, device: &Device, present: Option<&str>) -> io::Result<()> {
        if let Some(present) = present {
            write(&self.at(&format!("drivers/{present}/unbind")), &device.pci)?;
        }
        write(&self.at("drivers_probe"), &device.pci)
    }

    fn wait(&self, device: &Device, driver: &str) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let present = self.driver(&device.pci);
            if present.as_deref() == Some(driver) {
                return Ok(());
            }
            if begun.elapsed() > BOUND {
                let present = present.unwrap_or_else(|| "none".into());
                let what = format!("{} ({}) has the driver {present} and not {driver}", device.link, device.pci);
                return Err(io::Error::other(what));
            }
            thread::sleep(LOOK);
        }
    }

    /// The driver that a device has.
    fn driver(&self, pci: &str) -> Option<String> {
        let target = fs::read_link(self.at(&format!("devices/{pci}/driver"))).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// Names of the interfaces of a device, of which some have one for each port. A virtio device is one level below.
    pub fn interfaces(&self, device: &Device) -> Vec<String> {
        let directory = self.file(device, "");
        let below = fs::read_dir(&directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let virtio =
            below.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("virtio")));
        let places = std::iter::once(directory.clone()).chain(virtio);
        places
            .filter_map(|place| fs::read_dir(place.join("net")).ok())
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    fn file(&self, device: &Device, file: &str) -> PathBuf {
        self.at(&format!("devices/{}/{file}", device.pci))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.at(format!("/sys/bus/pci/{path}"))
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| of(path, &error))
}
