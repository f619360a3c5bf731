//! Tells when a file of some directories has changed, without looking again and again.
//!
//! A kubelet replaces the link `..data` of a volume by a rename; a person or a test closes a file after writing. Nothing else
//! is watched, so the kubelet's preparations wake nobody.

use std::{fs::File, io, path::PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;

/// The directories. Those that do not exist yet are watched from the first [`Self::refresh`] that finds them.
pub struct Watch {
    directories: Vec<PathBuf>,
    /// Not a pipe, and read like one: what the events say does not matter.
    inotify: Option<Receiver>,
}

impl Watch {
    /// Begins to watch.
    ///
    /// # Errors
    /// When the node has no inotify instance left. The watch then never tells anything, and its user has to look by itself.
    pub fn new(directories: Vec<PathBuf>) -> (Self, io::Result<()>) {
        let created = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(io::Error::from)
            .and_then(|inotify| Receiver::from_file_unchecked(File::from(inotify)));
        let (inotify, result) = match created {
            Ok(inotify) => (Some(inotify), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let watch = Self { directories, inotify };
        watch.refresh();
        (watch, result)
    }

    /// Watches directories that have come into being.
    pub fn refresh(&self) {
        let Some(inotify) = &self.inotify else { return };
        for directory in &self.directories {
            // A watch that exists stays as it is.
            let _ = inotify::add_watch(inotify, directory, WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE);
        }
    }

    /// Returns when something has changed. Changes in quick succession may count as one. Cancel safe.
    pub async fn changed(&self) {
        let Some(inotify) = &self.inotify else { return std::future::pending().await };
        let mut events = [0; 4096];
        loop {
            if inotify.readable().await.is_err() {
                return std::future::pending().await;
            }
            let mut any = false;
            while inotify.try_read(&mut events).is_ok_and(|length| length > 0) {
                any = true;
            }
            if any {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn changes_are_told_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let (watch, result) = Watch::new(vec![root.path().to_owned(), root.path().join("later")]);
        result.unwrap();
        let quiet = || async { timeout(Duration::from_millis(200), watch.changed()).await.is_err() };
        assert!(quiet().await);
        fs::create_dir(root.path().join("later")).unwrap();
        assert!(quiet().await, "a preparation of the kubelet");
        fs::write(root.path().join("a"), "").unwrap();
        assert!(!quiet().await);
        fs::rename(root.path().join("a"), root.path().join("b")).unwrap();
        assert!(!quiet().await);
        watch.refresh();
        fs::write(root.path().join("later/a"), "").unwrap();
        assert!(!quiet().await);
        assert!(quiet().await);
    }
}
