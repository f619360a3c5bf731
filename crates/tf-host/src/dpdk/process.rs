//! The forwarder as a process, and what the program `vif` has it do.

use std::{
    fs, io,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::forward::Forwarder;
use crate::{
    atomic,
    data_path::vif::{self, Vif},
    facts::network::VHOST0,
    program::{self, quoted},
};

/// Where the forwarder takes requests (VR dpdk `VR_DEF_SOCKET_DIR`).
pub const SOCKET: &str = "/var/run/vrouter/dpdk_netlink";
/// Where `vif` reads that there is a forwarder and no kernel module.
const VIF_CONFIG: &str = "/etc/contrail/contrail-vrouter-agent.conf";
/// For it to end by itself.
const ENDED: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// The forwarder of this container.
#[derive(Debug)]
pub struct Process {
    vif: String,
    starter: Vec<String>,
    is_to_end: Arc<AtomicBool>,
    child: Option<Child>,
}

impl Process {
    /// One that does not run yet. `vif`: the program of this name. `starter`: words before its command line, for what starts it. `is_to_end`: set when it is to
    /// end, also while it is waited for.
    pub fn new(vif: String, starter: Vec<String>, is_to_end: Arc<AtomicBool>) -> Self {
        Self { vif, starter, is_to_end, child: None }
    }

    fn list(&self) -> io::Result<Vec<Vif>> {
        Ok(vif::list(&program::run(Command::new(&self.vif).arg("--list"))?))
    }

    /// Has it take an interface. The program ends well whatever comes of it, so that is looked at.
    fn add_one(&self, kind: &str, arguments: &[&str]) -> io::Result<()> {
        let has_it = |listed: Vec<Vif>| listed.iter().any(|vif| vif.kind == kind);
        if has_it(self.list()?) {
            return Ok(());
        }
        let said = program::run(Command::new(&self.vif).args(arguments))?;
        if has_it(self.list()?) {
            return Ok(());
        }
        Err(io::Error::other(format!("the forwarder did not take {}: {}", arguments[1], quoted(&said))))
    }
}

impl Forwarder for Process {
    fn start(&mut self, command: &[String]) -> io::Result<()> {
        // Those of one that was killed: EAL would not start beside them, and nothing answers there.
        for left in [SOCKET, "/run/.rte_config"] {
            atomic::remove(Path::new(left))?;
        }
        for file in [SOCKET, VIF_CONFIG] {
            fs::create_dir_all(Path::new(file).parent().unwrap_or(Path::new("/")))?;
        }
        if !Path::new(VIF_CONFIG).exists() {
            fs::write(VIF_CONFIG, "[DEFAULT]\nplatform=dpdk\n")?;
        }
        let mut words = self.starter.iter().chain(command);
        let program = words.next().ok_or_else(|| io::Error::other("no command"))?;
        let child = Command::new(program).args(words).stdin(Stdio::null()).spawn();
        self.child = Some(child.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?);
        Ok(())
    }

    fn ended(&mut self) -> io::Result<Option<String>> {
        if self.is_to_end.load(Ordering::Relaxed) {
            return Ok(Some("this process was asked to end".into()));
        }
        let Some(child) = &mut self.child else { return Ok(Some("the forwarder was not started".into())) };
        Ok(child.try_wait()?.map(said))
    }

    fn answers(&mut self) -> bool {
        Path::new(SOCKET).exists()
    }

    fn add(&mut self, uplink: &str, mac: &str) -> io::Result<()> {
        let physical =
            ["--add", uplink, "--mac", mac, "--vrf", "0", "--vhost-phys", "--type", "physical", "--pmd", "--id", "0"];
        self.add_one("Physical", &physical)?;
        let host =
            ["--add", VHOST0, "--mac", mac, "--vrf", "0", "--type", "vhost", "--xconnect", "0", "--pmd", "--id", "1"];
        self.add_one("Host", &host)
    }

    fn stop(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return Ok(()) };
        let begun = Instant::now();
        while child.try_wait()?.is_none() {
            // It may have ended since.
            let _ = kill_process(pid, if begun.elapsed() > ENDED { Signal::KILL } else { Signal::TERM });
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

fn said(status: ExitStatus) -> String {
    let how = status.signal().map(|signal| format!("by signal {signal}"));
    let how = how.unwrap_or_else(|| format!("with exit code {}", status.code().unwrap_or_default()));
    format!("the forwarder ended {how}; its last lines are above, or in /var/log/contrail/contrail-vrouter-dpdk.log")
}
