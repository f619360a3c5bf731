//! Gives the interface to the forwarder and has `vhost0` take its place; and back.
//!
//! Between the moment in which the device gets another driver and the one in which `vhost0` has its addresses the node cannot be reached over this
//! interface: seconds, most of them while the forwarder sets up its memory. There is no make-before-break here. So whatever fails on the way, and
//! however the forwarder ends, the interface gets everything back at once.

use std::{
    fs::File,
    io,
    net::SocketAddr,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use super::{
    binding::Bus,
    command::command,
    taken::{Device, Taken, renamed},
};
use crate::{
    Finding, HostFacts, Root, Wanted,
    act::{described, of_kernel},
    atomic,
    facts::{
        network::{Network, VHOST0},
        observe_network,
    },
    journal,
    managers::{HostPrograms, Managers},
    netlink::Writer,
    observe,
    plan::{Step, moves::Move, switch::settings},
    preflight,
    preflight::Id,
    setup::answers,
};

/// For the forwarder to take requests: it clears its memory first.
const STARTED: Duration = Duration::from_secs(300);
/// For `vhost0` to be there, or not to be there any more.
const MADE: Duration = Duration::from_secs(10);
/// For udev to name an interface that has appeared.
const NAMED: Duration = Duration::from_secs(5);
/// For peers to answer on a real network: switches learn, bonds negotiate.
pub const VERIFIED: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// The program that moves packets, as far as this needs it.
pub trait Forwarder {
    /// Starts it with a command line.
    ///
    /// # Errors
    /// When it cannot be started.
    fn start(&mut self, command: &[String]) -> io::Result<()>;
    /// Why it does not run any more. None: it runs.
    ///
    /// # Errors
    /// When that is not known.
    fn ended(&mut self) -> io::Result<Option<String>>;
    /// Whether it takes requests.
    fn answers(&mut self) -> bool;
    /// Has it take the interface of this name and MAC address, and make `vhost0`.
    ///
    /// # Errors
    /// When it does not.
    fn add(&mut self, uplink: &str, mac: &str) -> io::Result<()>;
    /// Ends it, if it runs, and waits for its end.
    ///
    /// # Errors
    /// When it cannot be ended.
    fn stop(&mut self) -> io::Result<()>;
}

/// A node and its forwarder.
pub struct Forwarding<'a, F> {
    /// Where the node's files are.
    pub root: &'a Root,
    /// What the vRouter needs.
    pub wanted: &'a Wanted,
    /// What was taken, a file on the host.
    pub record: &'a Path,
    /// Who is reached over TCP before and has to be afterwards.
    pub peers: &'a [SocketAddr],
    /// How long they may take, for example [`VERIFIED`].
    pub patience: Duration,
    /// The forwarder.
    pub forwarder: &'a mut F,
    /// The program that loads drivers.
    pub modprobe: &'a str,
    /// Programs of the host, for those that set addresses.
    pub programs: &'a dyn HostPrograms,
}

/// Why `vhost0` has not the place of the interface, or the interface has not got it back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Findings that block. The node was not touched.
    #[error("{}", preflight::lines(.0))]
    Blocked(Vec<Finding>),
    /// Another process changes the node. It was not touched.
    #[error("another tf-node host is at work on this node; run this again when that one has ended")]
    Busy,
    /// There still is a `vhost0`. The interface was not touched.
    #[error("a forwarder that another process has started still runs; end that one first: delete its pod")]
    InUse,
    /// The record cannot be used. The node was not touched.
    #[error("the record {path} cannot be used: {error}; a boot gives the interface its driver and addresses back")]
    Record {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// A program of the host that sets addresses does not leave `vhost0` alone. The node was not touched.
    #[error("a program that sets addresses cannot be kept from vhost0: {0}")]
    NotKept(#[source] io::Error),
    /// It failed, and the interface has everything back.
    #[error("{0}; the interface has its addresses and routes back")]
    NotTaken(String),
    /// The interface has not got everything back.
    #[error("{} has not got everything back: {}; run tf-node host remove, or reboot the node", .uplink, .left.join(", "))]
    NotGivenBack {
        /// The interface.
        uplink: String,
        /// What failed.
        left: Vec<String>,
    },
}

impl<F: Forwarder> Forwarding<'_, F> {
    /// Starts the forwarder and has `vhost0` take the place of the interface. What an earlier process had taken in this boot is given back first.
    ///
    /// # Errors
    /// Why it has not; the interface has everything back then, unless the error says otherwise.
    pub fn begin(&mut self) -> Result<Taken, Error> {
        let _lock = self.lock()?;
        if let Some(taken) = self.taken()? {
            self.give_back(taken)?;
        }
        let facts = observe(self.root);
        let mut blocking: Vec<Finding> = preflight(&facts, self.wanted).into_iter().filter(Finding::blocks).collect();
        if blocking.is_empty() && facts.network.link(VHOST0).is_some() {
            let action = "end the forwarder that made it, or remove the interface";
            blocking.push(Finding::new(Id::Vhost0OfOtherKind, "there is a vhost0 already", action));
        }
        if !blocking.is_empty() {
            return Err(Error::Blocked(blocking));
        }
        let taken = Taken::of(&facts, self.wanted).map_err(|finding| Error::Blocked(vec![finding]))?;
        Managers::new(self.root, self.programs).keep_from_vhost0(&facts).map_err(Error::NotKept)?;
        taken.write(self.record).map_err(|error| self.unusable(error))?;
        let done = self.take(&facts, &taken).and_then(|()| {
            let switched = Taken { is_switched: true, ..taken.clone() };
            switched.write(self.record).map_err(|error| self.unusable(error).to_string())?;
            Ok(switched)
        });
        match done {
            Ok(switched) => Ok(switched),
            Err(reason) => {
                self.give_back(taken)?;
                Err(Error::NotTaken(reason))
            }
        }
    }

    /// Ends the forwarder and gives the interface back what `vhost0` had last. Whether there was something to give back.
    ///
    /// # Errors
    /// What it has not got back.
    pub fn end(&mut self) -> Result<bool, Error> {
        let _lock = self.lock()?;
        let Some(taken) = self.taken()? else { return Ok(false) };
        self.give_back(taken)?;
        Ok(true)
    }

    /// Records what `vhost0` has, so that nothing is lost that was added to it since. Whether something is another than before.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub fn keep(&self) -> Result<bool, Error> {
        let Some(mut taken) = self.taken()? else { return Ok(false) };
        self.record_present(&mut taken)
    }

    /// The same for a record that was read.
    fn record_present(&self, taken: &mut Taken) -> Result<bool, Error> {
        let is_other = taken.update([&self.network(), &self.network()], VHOST0);
        if is_other {
            taken.write(self.record).map_err(|error| self.unusable(error))?;
        }
        Ok(is_other)
    }

    /// Everything up to a `vhost0` that has all that the interface had. The error is the cause.
    fn take(&mut self, facts: &HostFacts, taken: &Taken) -> Result<(), String> {
        let peers: Vec<SocketAddr> = self.peers.iter().copied().filter(answers).collect();
        let bus = self.bus();
        for device in &taken.devices {
            bus.bind(device, &self.wanted.dpdk.driver).map_err(|error| error.to_string())?;
        }
        let failed = |error: io::Error| error.to_string();
        self.forwarder.start(&command(taken, facts, self.wanted)).map_err(failed)?;
        self.until(STARTED, "the forwarder takes no requests", |this| Ok(this.forwarder.answers()))?;
        self.forwarder.add(&taken.uplink.name, &taken.mac).map_err(failed)?;
        self.until(MADE, "the forwarder made no vhost0", |this| Ok(this.network().link(VHOST0).is_some()))?;
        let mut writer = Writer::open().map_err(failed)?;
        writer.set_mac(VHOST0, &taken.mac).and_then(|()| writer.set_mtu(VHOST0, taken.uplink.mtu)).map_err(failed)?;
        let moves = Move { network: &taken.network, from: &taken.uplink.name, to: VHOST0 };
        let mut steps = settings(facts, &taken.uplink);
        steps.push(Step::SetUp);
        steps.extend([moves.addresses_made(), moves.routers_learnt(), moves.routes(), moves.rules()].concat());
        // A VLAN, a bond and an interface that DPDK works beside are still there.
        let network = self.network();
        if network.link(&taken.uplink.name).is_some() {
            let left = Move { network: &network, from: &taken.uplink.name, to: VHOST0 };
            steps.extend([left.routers_forgotten(), left.addresses_deleted()].concat());
        }
        for step in &steps {
            of_kernel(self.root, &mut writer, step).map_err(|error| format!("{}: {error}", described(step)))?;
        }
        if network.link(&taken.uplink.name).is_some() {
            let managers = Managers::new(self.root, self.programs);
            managers.release(facts, &taken.uplink.name).map_err(failed)?;
        }
        let silent = |peer: &SocketAddr| format!("{peer}, which answered before, does not answer any more");
        let what = peers.first().map(silent).unwrap_or_default();
        self.until(self.patience, &what, |_| Ok(peers.iter().all(answers)))
    }

    /// Waits until something is so, as long as the forwarder runs.
    fn until(
        &mut self,
        patience: Duration,
        otherwise: &str,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, String>,
    ) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            if let Some(why) = self.forwarder.ended().map_err(|error| error.to_string())? {
                return Err(why);
            }
            if is_so(self)? {
                return Ok(());
            }
            if begun.elapsed() > patience {
                return Err(format!("{otherwise} (after {} s)", patience.as_secs()));
            }
            thread::sleep(LOOK);
        }
    }

    fn give_back(&mut self, mut taken: Taken) -> Result<(), Error> {
        self.record_present(&mut taken)?;
        if let Err(error) = self.forwarder.stop() {
            return Err(Error::NotGivenBack {
                uplink: taken.uplink.name,
                left: vec![format!("the forwarder: {error}")],
            });
        }
        // A driver is not taken away while a program has the device: the kernel would wait for that one.
        if !self.is_without_vhost0() {
            return Err(Error::InUse);
        }
        let (mut left, mut names) = (Vec::new(), Vec::new());
        for device in &taken.devices {
            match self.bus().release(device).and_then(|()| self.named(device)) {
                Ok(name) => names.push((device.link.clone(), name)),
                Err(error) => left.push(error.to_string()),
            }
        }
        // A rule of the host may give it another name now.
        let new = |name: &str| names.iter().find(|(old, _)| old == name).map_or(name, |(_, new)| new).to_owned();
        let uplink = new(&taken.uplink.name);
        let restored = self.restore(&taken, &uplink, &names);
        left.extend(restored.err().map(|error| format!("{uplink}: {error}")));
        left.extend(restored_steps(self.root, &taken, &uplink));
        if !left.is_empty() {
            return Err(Error::NotGivenBack { uplink, left });
        }
        let managers = Managers::new(self.root, self.programs);
        if let Err(error) = managers.give_back(&observe(self.root), Some(&uplink)) {
            return Err(Error::NotGivenBack { uplink, left: vec![error.to_string()] });
        }
        atomic::remove(self.record).map_err(|error| self.unusable(error))
    }

    /// The name of an interface that has appeared. The kernel calls it `eth0`, and udev renames it a moment later, which kernels before 6.2 refuse once it is
    /// up. Where nothing renames it, it gets the name that it had.
    fn named(&self, device: &Device) -> io::Result<String> {
        let begun = Instant::now();
        loop {
            let names = self.bus().interfaces(device);
            if names.contains(&device.link) {
                return Ok(device.link.clone());
            }
            if begun.elapsed() > NAMED
                && let Some(first) = names.first()
            {
                // Which of several ports it was is not known.
                let is_renamed = names.len() == 1 && Writer::open()?.rename(first, &device.link).is_ok();
                return Ok(if is_renamed { device.link.clone() } else { first.clone() });
            }
            if begun.elapsed() > NAMED + MADE {
                return Err(io::Error::other(format!("the interface of {} is gone again", device.pci)));
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until `vhost0` has gone with the forwarder.
    fn is_without_vhost0(&self) -> bool {
        let begun = Instant::now();
        while self.network().link(VHOST0).is_some() {
            if begun.elapsed() > MADE {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// Interfaces as they were: members of their bond, MTU, up.
    fn restore(&self, taken: &Taken, uplink: &str, names: &[(String, String)]) -> io::Result<()> {
        let mut writer = Writer::open()?;
        let is_bond = taken.lower.bond.is_some();
        // A bond that lost its members has another address, which switches and DHCP servers do not know.
        if let Some(mac) = taken.lower.mac.as_ref().filter(|_| is_bond) {
            writer.set_mac(&taken.lower.name, mac)?;
        }
        for (_, link) in names {
            if is_bond && self.network().link(link).is_some_and(|link| link.master.is_none()) {
                writer.set_master(link, &taken.lower.name)?;
            }
            writer.set_up(link)?;
        }
        // A VLAN goes with the interface below it.
        if let Some(id) = taken.uplink.vlan {
            let lower =
                names.iter().find(|(old, _)| *old == taken.lower.name).map_or(&taken.lower.name, |(_, new)| new);
            writer.add_vlan(uplink, lower, id)?;
            writer.learn()?;
        }
        writer.set_mtu(uplink, taken.uplink.mtu)?;
        writer.set_up(uplink)
    }

    fn bus(&self) -> Bus<'_> {
        Bus { root: self.root, modprobe: self.modprobe }
    }

    fn network(&self) -> Network {
        observe_network(self.root)
    }

    /// What was taken in this boot.
    fn taken(&self) -> Result<Option<Taken>, Error> {
        Taken::read(self.record, self.root).map_err(|error| self.unusable(error))
    }

    fn unusable(&self, error: io::Error) -> Error {
        Error::Record { path: self.record.display().to_string(), error }
    }

    /// The same one as that of the kernel mode, whose journal is beside the record.
    fn lock(&self) -> Result<File, Error> {
        journal::lock(&self.record.with_file_name(journal::FILE))
            .map_err(|error| self.unusable(error))?
            .ok_or(Error::Busy)
    }
}

/// Addresses and routes of the interface again. Goes on after what fails; out: what failed.
fn restored_steps(root: &Root, taken: &Taken, uplink: &str) -> Vec<String> {
    let mut writer = match Writer::open() {
        Ok(writer) => writer,
        Err(error) => return vec![format!("netlink: {error}")],
    };
    let network = renamed(&taken.network, &taken.uplink.name, VHOST0);
    let moves = Move { network: &network, from: VHOST0, to: uplink };
    let setting = |(name, value): &(String, String)| Step::SetSysctl {
        link: uplink.to_owned(),
        name: name.clone(),
        value: value.clone(),
        before: None,
    };
    let mut steps: Vec<Step> = taken.sysctls.iter().map(setting).collect();
    steps.extend([moves.addresses_made(), moves.routers_learnt(), moves.routes(), moves.rules()].concat());
    let failed = |step: &Step| {
        let error = of_kernel(root, &mut writer, step).err()?;
        Some(format!("{}: {error}", described(step)))
    };
    steps.iter().filter_map(failed).collect()
}
