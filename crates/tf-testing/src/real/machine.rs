//! A machine: namespaces for network, mounts and host name, a root of its own, and one process that keeps them.
//!
//! The keeper is a recorded process of the lab. When it and what was started beside it have ended, the kernel takes the
//! namespaces down and with them every mount, device, route and rule. What lasts is the machine's folder: its disk.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::{
    folder::{Folder, write_atomically},
    identity::Identity,
    process::{self, Process, Spec},
    real::cgroup::Group,
    wait::eventually,
};

/// How a machine gets its root.
const ROOT: &str = include_str!("../../../../e2e/lab/node/root.sh");

/// Where programs are on a machine.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables of the developer's that must not reach a node: a proxy would be asked for the API server.
const NO_PROXY: (&str, &str) = ("NO_PROXY", "*");

/// A machine of a lab, running or not.
#[derive(Clone, Debug)]
pub struct Machine {
    lab: Folder,
    name: String,
    background: bool,
}

impl Machine {
    /// The machine `name`; nothing is started.
    pub fn new(lab: &Folder, name: &str, background: bool) -> Self {
        Self { lab: lab.clone(), name: name.into(), background }
    }

    /// Its folder: what is on its disk, and what the lab knows about it.
    pub fn folder(&self) -> PathBuf {
        self.lab.path().join("nodes").join(&self.name)
    }

    /// Its control group.
    pub fn group(&self) -> Group {
        Group::of_lab(self.lab.path()).within(&self.name)
    }

    /// The process that keeps its namespaces, or `None` while it is off.
    pub fn keeper(&self) -> Result<Option<Identity>> {
        let record = process::find(&self.lab, &self.name)?;
        Ok(record.map(|record| record.identity).filter(Identity::is_alive))
    }

    /// Switches it on: namespaces and root, no network yet. `disk` is the size of a disk of its own in bytes; without one
    /// its files are among the lab's.
    pub async fn boot(&self, packages: Option<&PathBuf>, control_plane: &PathBuf, disk: Option<u64>) -> Result<()> {
        fs::create_dir_all(self.folder()).with_context(|| format!("making {}", self.folder().display()))?;
        let keeper = Spec::new(&self.name, "unshare").args(["--mount", "--net", "--uts", "--", "sleep", "infinity"]);
        let keeper = self.spawn_outside(keeper)?;
        let entered = format!("/proc/{}/comm", keeper.pid);
        eventually("the namespaces of a machine", Duration::from_secs(20), async || {
            let program = fs::read_to_string(&entered).context("the keeper of the namespaces has ended")?;
            Ok((program.trim() == "sleep").then_some(()))
        })
        .await
        .with_context(|| process::tail(&self.lab.log(&self.name), 5).unwrap_or_default())?;
        let script = self.lab.path().join("root.sh");
        write_atomically(&script, ROOT.as_bytes())?;
        let mut root = self.command("sh")?;
        root.arg("-eu").arg(&script).arg(&self.name).arg(self.folder());
        root.arg(packages.map_or("".as_ref(), |tree| tree.as_os_str())).arg(control_plane);
        root.arg(disk.map(|bytes| bytes.to_string()).unwrap_or_default());
        run(root, "").await.with_context(|| format!("making the root of {}", self.name))?;
        Ok(())
    }

    /// A command on it. An error while it is off.
    pub fn command(&self, program: &str) -> Result<Command> {
        let mut command = Command::new("nsenter");
        command.args(self.enter()?).arg(program).env("PATH", PATH).env(NO_PROXY.0, NO_PROXY.1).kill_on_drop(true);
        Ok(command)
    }

    /// Starts a program on it that runs until the machine is switched off, recorded as `<machine>.<name>`.
    pub fn spawn(&self, name: &str, program: &str, arguments: &[String]) -> Result<Identity> {
        let spec = Spec::new(format!("{}.{name}", self.name), "nsenter")
            .args(self.enter()?)
            .args([program])
            .args(arguments)
            .env("PATH", PATH)
            .env(NO_PROXY.0, NO_PROXY.1);
        self.spawn_outside(spec)
    }

    /// Kills the program `name` of [`spawn`](Self::spawn), and waits until it is gone.
    pub fn kill(&self, name: &str) -> Result<()> {
        Process::adopt(&self.lab, &format!("{}.{name}", self.name))?.kill()
    }

    /// From now on it counts as never switched on, and programs of [`spawn`](Self::spawn) as never started. All must have
    /// ended.
    pub fn forget(&self, names: &[&str]) -> Result<()> {
        process::forget(&self.lab, &self.name)?;
        names.iter().try_for_each(|name| process::forget(&self.lab, &format!("{}.{name}", self.name)))
    }

    /// Whether the program `name` of [`spawn`](Self::spawn) was started and has ended.
    pub fn has_ended(&self, name: &str) -> Result<bool> {
        let record = process::find(&self.lab, &format!("{}.{name}", self.name))?;
        Ok(record.is_some_and(|record| !record.identity.is_alive()))
    }

    /// Output of the program `name` of [`spawn`](Self::spawn), its last lines.
    pub fn tail(&self, name: &str) -> String {
        process::tail(&self.lab.log(&format!("{}.{name}", self.name)), 15).unwrap_or_default()
    }

    /// A path of the machine as the lab sees it. An error while it is off.
    pub fn path(&self, path: &str) -> Result<PathBuf> {
        Ok(PathBuf::from(format!("/proc/{}/root", self.on()?.pid)).join(path.trim_start_matches('/')))
    }

    /// Process id of its keeper. An error while it is off.
    pub fn pid(&self) -> Result<i32> {
        Ok(self.on()?.pid)
    }

    fn spawn_outside(&self, mut spec: Spec) -> Result<Identity> {
        spec.own_group = self.background;
        spec.cgroup = Some(self.group().within("system").create()?);
        let mut process = Process::spawn(&self.lab, spec)?;
        // Machines end with the lab's folder, or when they are switched off, by whoever does that.
        process.outlive_guard();
        Ok(process.identity().clone())
    }

    fn enter(&self) -> Result<[String; 6]> {
        let pid = self.on()?.pid.to_string();
        Ok(["--target", &pid, "--mount", "--net", "--uts", "--"].map(str::to_owned))
    }

    fn on(&self) -> Result<Identity> {
        self.keeper()?.with_context(|| format!("{} is switched off", self.name))
    }
}

/// Runs a command with `input`. A failure tells what it said.
pub async fn run(mut command: Command, input: &str) -> Result<Output> {
    let what = format!("{:?}", command.as_std());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("running {what}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()).await {
            // It needed no more of it, and its status says whether it is content.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            outcome => outcome.with_context(|| format!("writing to {what}"))?,
        }
    }
    let output = child.wait_with_output().await?;
    if !output.status.success() {
        bail!("{what}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output)
}
