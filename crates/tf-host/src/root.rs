//! Where files are read from. The root is `/` except in tests, and in a container that has the host's `/` mounted elsewhere.

use std::{
    cell::RefCell,
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// Larger files are none that is expected where we read.
const LARGEST: u64 = 64 << 20;
/// More links than any path of a host goes through.
const MOST_LINKS: usize = 16;

/// A directory that stands for `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

/// Something that could not be read, so that facts of it are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The file, directory or netlink request.
    pub what: String,
    /// The error.
    pub error: String,
}

impl Default for Root {
    fn default() -> Self {
        Self::below("/")
    }
}

impl Root {
    /// A directory that stands for `/`.
    pub fn below(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// A path of the host.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// Reads below a root, and remembers what could not be read. What does not exist is no error.
pub(crate) struct Reader<'a> {
    root: &'a Root,
    unread: RefCell<Vec<Unread>>,
}

impl<'a> Reader<'a> {
    pub fn new(root: &'a Root) -> Self {
        Self { root, unread: RefCell::default() }
    }

    pub fn into_unread(self) -> Vec<Unread> {
        self.unread.into_inner()
    }

    /// Remembers what could not be read.
    pub fn missed(&self, what: impl Into<String>, error: impl ToString) {
        let unread = Unread { what: what.into(), error: error.to_string() };
        let mut list = self.unread.borrow_mut();
        if !list.contains(&unread) {
            list.push(unread);
        }
    }

    fn found<T>(&self, path: &str, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(found) => Some(found),
            Err(error) if is_absent(&error) => None,
            Err(error) => {
                self.missed(path, error);
                None
            }
        }
    }

    /// The content of a file, invalid UTF-8 replaced.
    pub fn text(&self, path: &str) -> Option<String> {
        self.found(path, self.try_text(path))
    }

    /// The content of a file of which the kernel may refuse to show that of other users.
    pub fn try_text(&self, path: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.try_bytes(path)?).into_owned())
    }

    fn try_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        let path = self.resolved(path)?;
        if fs::metadata(&path)?.len() > LARGEST {
            return Err(io::Error::other("larger than 64 MiB"));
        }
        fs::read(path)
    }

    /// The content of a file.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.found(path, self.try_bytes(path))
    }

    /// The content of a file with one value, without blanks around it. Empty counts as absent.
    pub fn value(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let value = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// A file with one number.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.value(path)?.parse().ok()
    }

    /// Names in a directory, sorted.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let list = || {
            let entries = fs::read_dir(self.resolved(directory)?)?;
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()
        };
        let mut names = self.found(directory, list()).unwrap_or_default();
        names.sort();
        names
    }

    pub fn exists(&self, path: &str) -> bool {
        let found = self.resolved(path).and_then(fs::metadata);
        self.found(path, found).is_some()
    }

    /// The last part of where a symbolic link leads.
    pub fn link_name(&self, path: &str) -> Option<String> {
        let target = self.found(path, fs::read_link(self.root.at(path)))?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// A path of the host without symbolic links in it.
    pub fn real_path(&self, path: &str) -> Option<String> {
        let found = self.resolved(path).ok()?;
        fs::symlink_metadata(&found).ok()?;
        Some(format!("/{}", found.strip_prefix(&self.root.0).ok()?.display()))
    }

    /// Whether files can be made in a directory, or in the closest one above it that exists.
    pub fn access(&self, directory: &str) -> Access {
        let Ok(path) = self.resolved(directory) else { return Access::Denied };
        if !path.exists() {
            return Access::Absent;
        }
        match rustix::fs::access(&path, rustix::fs::Access::WRITE_OK) {
            Ok(()) => Access::Writable,
            Err(rustix::io::Errno::ROFS) => Access::ReadOnly,
            Err(_) => Access::Denied,
        }
    }

    /// Where a path of the host is, with absolute links taken from the root and not from `/`.
    fn resolved(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let mut left: Vec<PathBuf> = vec![path.as_ref().to_owned()];
        let (mut done, mut links) = (self.root.0.clone(), 0);
        while let Some(path) = left.pop() {
            let mut parts = path.components();
            let Some(part) = parts.next() else { continue };
            left.push(parts.as_path().to_owned());
            match part {
                Component::RootDir | Component::Prefix(_) => done.clone_from(&self.root.0),
                Component::CurDir => {}
                Component::ParentDir => {
                    if done != self.root.0 {
                        done.pop();
                    }
                }
                Component::Normal(name) => {
                    let next = done.join(name);
                    match fs::read_link(&next) {
                        Ok(_) if links >= MOST_LINKS => return Err(io::Error::other("too many symbolic links")),
                        Ok(target) => {
                            links += 1;
                            left.push(target);
                        }
                        Err(_) => done = next,
                    }
                }
            }
        }
        Ok(done)
    }
}

/// Whether files can be made in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Access {
    /// Yes.
    Writable,
    /// Its file system is mounted read-only.
    ReadOnly,
    /// Not by this user.
    Denied,
    /// There is no such directory.
    Absent,
}

/// Absent, of a process that has ended, or of a device that has no such value.
fn is_absent(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || [Errno::SRCH, Errno::INVAL, Errno::NODEV, Errno::OPNOTSUPP]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn absolute_links_lead_below_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::below(directory.path());
        fs::create_dir_all(root.at("/usr/src/headers")).unwrap();
        fs::create_dir_all(root.at("/lib/modules/6.1")).unwrap();
        fs::write(root.at("/usr/src/headers/Makefile"), " all:\n").unwrap();
        symlink("/usr/src/headers", root.at("/lib/modules/6.1/build")).unwrap();
        symlink("loop", root.at("/loop")).unwrap();
        let reader = Reader::new(&root);
        assert_eq!(reader.value("/lib/modules/6.1/build/Makefile").as_deref(), Some("all:"));
        assert_eq!(reader.real_path("/lib/modules/6.1/build").as_deref(), Some("/usr/src/headers"));
        assert!(!reader.exists("/lib/modules/6.1/source") && !reader.exists("/../../proc/self"));
        assert_eq!(reader.into_unread(), []);
        let reader = Reader::new(&root);
        assert_eq!(reader.text("/loop"), None);
        assert_eq!(reader.into_unread().len(), 1, "what cannot be read is not taken for absent");
    }
}
