//! Which process exactly: a pid together with the time the kernel started it.
//!
//! A pid alone is not an identity: the kernel hands it out again. Everything that signals a process goes through
//! [`Identity`], which opens a pidfd first and compares the start time afterwards, so that a signal reaches the
//! recorded process or nobody.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process of this boot of this machine. What it names may have ended; see [`Identity::is_alive`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Process id, in the pid namespace of whoever recorded it.
    pub pid: i32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks between boot and the start of the process.
    pub start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`: after a reboot no recorded process is alive, whatever the numbers say.
    pub boot_id: String,
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory in bytes, shared pages included.
    pub rss_bytes: u64,
    /// The part of it that the process made itself, in bytes: no code, which comes and goes as it is used.
    pub anonymous_bytes: u64,
    /// User and system time since its start, at the kernel's resolution (usually 10 ms).
    pub cpu: Duration,
}

impl Identity {
    /// The identity of the process that has `pid` now, or `None` when there is no such process.
    pub fn of(pid: u32) -> Result<Option<Self>> {
        let pid = i32::try_from(pid).context("pid out of range")?;
        let Some(stat) = Stat::read(pid)? else { return Ok(None) };
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("reading the boot id")?;
        Ok(Some(Self { pid, start_ticks: stat.start_ticks, boot_id: boot_id.trim().to_owned() }))
    }

    /// The identity of the calling process.
    pub fn own() -> Result<Self> {
        Self::of(std::process::id())?.context("the calling process is not in /proc")
    }

    /// True while the process runs; a zombie nobody has reaped yet has ended.
    pub fn is_alive(&self) -> bool {
        self.stat().is_some_and(|stat| stat.state != 'Z' && stat.state != 'X')
    }

    /// Memory and processor time, or `None` when the process has ended.
    pub fn usage(&self) -> Option<Usage> {
        let stat = self.stat().filter(|stat| stat.state != 'Z')?;
        let page = rustix::param::page_size() as u64;
        Some(Usage {
            rss_bytes: stat.rss_pages * page,
            anonymous_bytes: self.status_bytes("RssAnon:")?,
            cpu: ticks(stat.cpu_ticks),
        })
    }

    /// Time since the process was started, or `None` when it has ended.
    pub fn age(&self) -> Option<Duration> {
        self.stat()?;
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let uptime = Duration::try_from_secs_f64(uptime.split_whitespace().next()?.parse().ok()?).ok()?;
        uptime.checked_sub(ticks(self.start_ticks))
    }

    /// The most memory the process ever had resident, in bytes, or `None` when it has ended.
    pub fn peak_rss(&self) -> Option<u64> {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, field: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        self.stat()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }

    /// Sends `signal`. `Ok(false)` means that the process had ended before.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(handle) = self.open()? else { return Ok(false) };
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Blocks until the process has ended, at most until `deadline`; true when it has.
    pub fn wait(&self, deadline: Instant) -> io::Result<bool> {
        let Some(handle) = self.open()? else { return Ok(true) };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let mut fds = [PollFd::new(&handle, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A handle to this very process. The order matters: once the handle is open, the pid cannot pass to another
    /// process unnoticed, so the comparison that follows holds for as long as the handle does.
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(self.stat().is_some().then_some(handle))
    }

    /// What the kernel says about the pid, if it still is this process.
    fn stat(&self) -> Option<Stat> {
        let same_boot =
            fs::read_to_string("/proc/sys/kernel/random/boot_id").is_ok_and(|boot| boot.trim() == self.boot_id);
        let stat = Stat::read(self.pid).ok().flatten()?;
        (same_boot && stat.start_ticks == self.start_ticks).then_some(stat)
    }
}

/// So many ticks of the kernel's clock.
fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 1000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Asks all of `processes` to end (SIGTERM) and kills (SIGKILL) what has not ended after `grace`. Returns once all
/// have ended. A paused process is resumed, otherwise it could not act on the request.
pub fn stop_all(processes: &[&Identity], grace: Duration) -> io::Result<()> {
    for process in processes {
        process.signal(Signal::TERM)?;
        process.signal(Signal::CONT)?;
    }
    let deadline = Instant::now() + grace;
    for process in processes {
        if !process.wait(deadline)? {
            process.signal(Signal::KILL)?;
        }
    }
    // What was sent SIGKILL ends as soon as the kernel gets to it; a minute means something is badly wrong.
    let deadline = Instant::now() + Duration::from_mins(1);
    for process in processes {
        if !process.wait(deadline)? {
            return Err(io::Error::other(format!("process {} survives SIGKILL", process.pid)));
        }
    }
    Ok(())
}

/// The fields of `/proc/<pid>/stat` (see proc_pid_stat(5)) that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    cpu_ticks: u64,
    start_ticks: u64,
    rss_pages: u64,
}

impl Stat {
    fn read(pid: i32) -> Result<Option<Self>> {
        match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(line) => Ok(Some(Self::parse(&line).with_context(|| format!("unexpected /proc/{pid}/stat"))?)),
            // ESRCH: the process ended between open and read.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    || error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("reading /proc/{pid}/stat")),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        // The name of the program, in parentheses, may hold blanks and parentheses itself.
        let (_, rest) = line.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            cpu_ticks: number(14)? + number(15)?,
            start_ticks: number(22)?,
            rss_pages: number(24)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let line = "77 (a) b (c) S 1 77 77 0 -1 4194304 98 0 0 0 5 7 0 0 20 0 1 0 165762 3133440 382 1844 0";
        assert_eq!(Stat::parse(line), Some(Stat { state: 'S', cpu_ticks: 12, start_ticks: 165_762, rss_pages: 382 }));
    }

    #[test]
    fn a_signal_does_not_reach_another_process_with_the_same_pid() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap().unwrap();
        let earlier = Identity { start_ticks: identity.start_ticks - 1, ..identity.clone() };
        let before_reboot = Identity { boot_id: "another boot".into(), ..identity.clone() };

        assert!(!earlier.signal(Signal::KILL).unwrap());
        assert!(!before_reboot.signal(Signal::KILL).unwrap());
        assert!(identity.is_alive() && !earlier.is_alive() && !before_reboot.is_alive());

        stop_all(&[&identity], Duration::from_secs(5)).unwrap();
        assert!(!identity.is_alive(), "a zombie counts as ended");
        child.wait().unwrap();
    }

    #[test]
    fn what_ignores_sigterm_is_killed_after_the_grace_period() {
        let mut child = Command::new("sh").args(["-c", "trap '' TERM; while :; do sleep 1; done"]).spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap().unwrap();
        // The shell must have set its trap before it is asked to end.
        let ignores_term = || {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim().to_owned();
            u64::from_str_radix(&mask, 16).unwrap() & (1 << 14) != 0
        };
        while !ignores_term() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let begun = Instant::now();
        stop_all(&[&identity], Duration::from_millis(300)).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(300));
        assert!(!identity.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn a_paused_process_ends_on_request() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap().unwrap();
        assert!(identity.signal(Signal::STOP).unwrap());
        let begun = Instant::now();
        stop_all(&[&identity], Duration::from_secs(10)).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5));
        child.wait().unwrap();
    }
}
