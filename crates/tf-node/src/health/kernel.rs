//! What the kernel knows of a daemon's processes, for which the daemon itself is not asked: whether one is stopped (SIGSTOP, or a debugger), and which
//! sockets they have open. Those of a daemon are its process group: workers of uWSGI and the child of contrail-device-manager have the sockets.
//!
//! Sockets are only hints. That one has been closed which was open for a while is why the daemon is asked what it is connected to sooner than it
//! would be; nothing is concluded from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use tokio::time::Instant;

/// How long a socket is open until its end says something: requests come and go.
const LASTING: Duration = Duration::from_secs(10);

/// The processes of a daemon at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    /// Whether one of them is stopped.
    pub is_stopped: bool,
    /// Numbers (inodes) of their sockets. None where the kernel does not show them to this process.
    pub sockets: BTreeSet<u64>,
}

impl Processes {
    /// Those of the group that this process leads. What cannot be read is left out.
    pub fn of(leader: i32) -> Self {
        let mut found = Self::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let is_process =
                entry.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
            let stat = || fs::read_to_string(entry.path().join("stat")).ok();
            let Some((state, group)) = is_process.then(stat).flatten().as_deref().and_then(state_and_group) else {
                continue;
            };
            if group != leader {
                continue;
            }
            found.is_stopped |= matches!(state, 'T' | 't');
            let open = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
            found.sockets.extend(open.filter_map(|file| inode(fs::read_link(file.path()).ok()?.to_str()?)));
        }
        found
    }
}

/// State and process group of a line of `/proc/PID/stat` (proc(5)). The program's name, in brackets, may have any character.
fn state_and_group(stat: &str) -> Option<(char, i32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(1)?.parse().ok()?))
}

/// The number of a socket that a file descriptor leads to: `socket:[123]`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The sockets that are open, and since when.
#[derive(Clone, Debug, Default)]
pub struct Sockets(BTreeMap<u64, Instant>);

impl Sockets {
    /// Takes in those that are open at this moment: whether one has been closed that was open for a while.
    pub fn take(&mut self, open: &BTreeSet<u64>, now: Instant) -> bool {
        let before = self.0.len();
        let has_ended =
            self.0.iter().any(|(socket, since)| !open.contains(socket) && now.duration_since(*since) >= LASTING);
        self.0.retain(|socket, _| open.contains(socket));
        // All at once: the kernel does not show them any more.
        let has_ended = has_ended && !(before > 1 && open.is_empty());
        for socket in open {
            self.0.entry(*socket).or_insert(now);
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::unix::process::CommandExt as _,
        process::{Command, Stdio},
        thread,
    };

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    #[test]
    fn fields_are_found_whatever_a_program_is_called() {
        assert_eq!(state_and_group("12 (a) b) S 1 34 34 0 -1"), Some(('S', 34)));
        assert_eq!(state_and_group("12 (uwsgi) T 1 12 12"), Some(('T', 12)));
        assert_eq!(state_and_group("12 (a) S"), None);
        assert_eq!((inode("socket:[42]"), inode("pipe:[42]"), inode("/dev/null")), (Some(42), None, None));
    }

    #[test]
    fn the_end_of_a_socket_counts_that_was_open_for_a_while() {
        let (mut sockets, start) = (Sockets::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!sockets.take(&[1, 2].into(), at(0)));
        assert!(!sockets.take(&[1, 2, 3].into(), at(8)));
        assert!(!sockets.take(&[1, 2].into(), at(10)), "a request that has ended");
        assert!(sockets.take(&[1].into(), at(12)));
        assert!(!sockets.take(&[1, 4].into(), at(14)), "it is said once");
        assert!(!sockets.take(&[].into(), at(30)), "they cannot be read any more");
    }

    #[test]
    fn a_group_is_seen_to_be_stopped_and_with_the_sockets_of_its_children() {
        // A shell has no sockets of its own: its standard input is one, which the child inherits.
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut child = Command::new("/bin/sh")
            .args(["-c", "sleep 60; true"])
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(stream)))
            .process_group(0)
            .spawn()
            .unwrap();
        let leader = i32::try_from(child.id()).unwrap();
        let wait = |holds: &dyn Fn(&Processes) -> bool| {
            (0..200).any(|_| {
                thread::sleep(Duration::from_millis(20));
                holds(&Processes::of(leader))
            })
        };
        assert!(wait(&|seen| seen.sockets.len() == 1 && !seen.is_stopped));
        let pid = Pid::from_raw(leader).unwrap();
        kill_process_group(pid, Signal::STOP).unwrap();
        assert!(wait(&|seen| seen.is_stopped));
        kill_process_group(pid, Signal::CONT).unwrap();
        assert!(wait(&|seen| !seen.is_stopped));
        kill_process_group(pid, Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!(Processes::of(leader), Processes::default());
    }
}
