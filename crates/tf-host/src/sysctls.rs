//! Kernel settings of the node (sysctl): set by writing `/proc/sys`, and set again where another program changed them.
//!
//! No file in `/etc/sysctl.d` is written: the vRouter's pod is there after each boot, and nothing is left when it goes. What another program keeps
//! changing is reported and not fought over.

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use crate::Root;

/// Limits that a release raises and never lowers: other programs of the node may need more (databases, of `vm.max_map_count`).
const ONLY_RAISED: [&str; 2] = ["net.core.wmem_max", "vm.max_map_count"];
/// How often a setting is written before another program counts as the one that keeps changing it.
const WRITES: u32 = 3;

/// A kernel setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name as of sysctl(8): `net.ipv4.tcp_keepalive_time`, or `net/ipv4/conf/eth0.100/rp_filter` where a word has a dot.
    pub name: String,
    /// Its value, words separated by blanks.
    pub value: String,
}

/// What one look did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Names of settings that were written.
    pub written: Vec<String>,
    /// Those that are not as they should be, with the cause.
    pub problems: Vec<String>,
}

/// Keeps settings, and remembers how often it wrote each.
#[derive(Clone, Debug, Default)]
pub struct Keeper {
    writes: BTreeMap<String, u32>,
}

/// Reads `sysctl.conf` (sysctl.conf(5)): `name = value` on each line, comments after `#` or `;`.
///
/// # Errors
/// The number of the first line that has no such thing. The line is not shown.
pub fn parse(text: &str) -> Result<Vec<Setting>, String> {
    let mut settings = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let setting = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let (name, value) = setting
            .filter(|(name, value)| file(name).is_some() && !value.is_empty())
            .ok_or_else(|| format!("line {number} is not NAME = VALUE"))?;
        settings.push(Setting { name: name.into(), value: value.into() });
    }
    Ok(settings)
}

impl Keeper {
    /// Sets what is not as it should be. `stated`: whether a person stated the settings. Those of a release are left out where the kernel does not have
    /// them or does not let them be set, and its limits are only raised.
    pub fn look(&mut self, root: &Root, settings: &[Setting], stated: bool) -> Look {
        let mut look = Look::default();
        for setting in settings {
            match self.keep(root, setting, stated) {
                Ok(false) => {}
                Ok(true) => look.written.push(setting.name.clone()),
                Err(problem) => look.problems.extend(problem),
            }
        }
        look
    }

    /// Whether the setting was written. The error is none where nothing is to be said.
    fn keep(&mut self, root: &Root, setting: &Setting, stated: bool) -> Result<bool, Option<String>> {
        let Setting { name, value } = setting;
        let cause = |why: String| stated.then_some(why);
        let path = root.at(file(name).ok_or_else(|| cause(format!("{name} is not the name of a kernel setting")))?);
        let present = || fs::read_to_string(&path).map(|text| words(&text));
        let before = match present() {
            Ok(before) => before,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(cause(format!("the kernel has no setting {name}")));
            }
            Err(error) => return Err(cause(format!("{name} cannot be read: {error}"))),
        };
        let wanted = words(value);
        let suffices = !stated && ONLY_RAISED.contains(&name.as_str()) && number(&before) >= number(&wanted);
        if before == wanted || suffices {
            return Ok(false);
        }
        let writes = self.writes.entry(name.clone()).or_default();
        if *writes >= WRITES {
            return Err(Some(format!("another program keeps changing {name}")));
        }
        fs::write(&path, value).map_err(|error| cause(format!("the kernel does not take {name}: {error}")))?;
        *writes += 1;
        match present() {
            Ok(after) if after != wanted => Err(cause(format!("the kernel changed the value of {name}"))),
            _ => Ok(true),
        }
    }
}

/// The file of a setting below `/proc/sys` (sysctl.d(5)): where the first separator is a slash, dots belong to words.
fn file(name: &str) -> Option<PathBuf> {
    let separator = name.find(['.', '/']).map_or('.', |at| if name[at..].starts_with('/') { '/' } else { '.' });
    let other = if separator == '.' { '/' } else { '\0' };
    let words: Vec<String> = name.split(separator).map(|word| word.replace(other, ".")).collect();
    let is_word = |word: &String| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-:@".contains(letter);
        !matches!(word.as_str(), "" | "." | "..") && word.chars().all(is_letter)
    };
    words.iter().all(is_word).then(|| PathBuf::from("/proc/sys").join(words.join("/")))
}

/// The kernel separates words of a value by tabs, and people by blanks.
fn words(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn number(value: &str) -> Option<u64> {
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str) -> Setting {
        Setting { name: name.into(), value: value.into() }
    }

    /// A root with settings, and what reads and writes one of them.
    fn root(settings: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        for (path, value) in settings {
            let path = directory.path().join("proc/sys").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }
        let root = Root::below(directory.path());
        (directory, root)
    }

    #[test]
    fn a_file_has_a_setting_a_line() {
        let text =
            "# of the vRouter\nnet.ipv4.tcp_keepalive_time = 5\n\n; more\nnet.ipv4.tcp_rmem=4096 87380  6291456\n";
        let expected =
            [setting("net.ipv4.tcp_keepalive_time", "5"), setting("net.ipv4.tcp_rmem", "4096 87380  6291456")];
        assert_eq!(parse(text), Ok(expected.to_vec()));
        for text in ["x", "a = ", "= 1", "a..b = 1", "kernel.//.//.//etc/passwd = 1", "../a = 1", "a/../b = 1"] {
            assert_eq!(parse(text), Err("line 1 is not NAME = VALUE".to_owned()), "{text}");
        }
    }

    #[test]
    fn dots_of_interfaces_are_kept_where_slashes_separate() {
        let path = |name| file(name).map(|path| path.display().to_string());
        assert_eq!(path("vm.max_map_count").as_deref(), Some("/proc/sys/vm/max_map_count"));
        let vlan = Some("/proc/sys/net/ipv4/conf/eth0.100/rp_filter");
        assert_eq!(path("net/ipv4/conf/eth0.100/rp_filter").as_deref(), vlan);
        assert_eq!(path("net.ipv4.conf.eth0/100.rp_filter").as_deref(), vlan);
    }

    #[test]
    fn settings_are_written_where_they_differ_and_limits_of_a_release_only_raised() {
        let (directory, root) = root(&[
            ("net/ipv4/tcp_keepalive_time", "7200\n"),
            ("net/ipv4/tcp_rmem", "4096\t87380\t6291456\n"),
            ("vm/max_map_count", "262144\n"),
        ]);
        let settings = [
            setting("net.ipv4.tcp_keepalive_time", "5"),
            setting("net.ipv4.tcp_rmem", "4096 87380 6291456"),
            setting("vm.max_map_count", "128960"),
            setting("net.core.wmem_max", "9160000"),
        ];
        let mut keeper = Keeper::default();
        let look = keeper.look(&root, &settings, false);
        assert_eq!(look, Look { written: vec!["net.ipv4.tcp_keepalive_time".into()], problems: vec![] });
        assert_eq!(keeper.look(&root, &settings, false), Look::default());
        // What a person states counts as it is.
        let look = keeper.look(&root, &settings, true);
        assert_eq!(look.written, ["vm.max_map_count"]);
        assert_eq!(look.problems, ["the kernel has no setting net.core.wmem_max"]);
        let read = |path: &str| fs::read_to_string(directory.path().join("proc/sys").join(path)).unwrap();
        assert_eq!((read("net/ipv4/tcp_keepalive_time"), read("vm/max_map_count")), ("5".into(), "128960".into()));
    }

    #[test]
    fn what_another_program_keeps_changing_is_reported_and_left() {
        let (directory, root) = root(&[("kernel/a", "0\n")]);
        let settings = [setting("kernel.a", "1")];
        let mut keeper = Keeper::default();
        for _ in 0..WRITES {
            assert_eq!(keeper.look(&root, &settings, true).written, ["kernel.a"]);
            fs::write(directory.path().join("proc/sys/kernel/a"), "0\n").unwrap();
        }
        let look = keeper.look(&root, &settings, false);
        assert_eq!(look.problems, ["another program keeps changing kernel.a"]);
        assert_eq!(look.written, Vec::<String>::new());
        fs::write(directory.path().join("proc/sys/kernel/a"), "1\n").unwrap();
        assert_eq!(keeper.look(&root, &settings, true), Look::default(), "it is as it should be");
    }

    #[test]
    fn what_the_kernel_does_not_take_is_named() {
        let (_directory, root) = root(&[("kernel/a/b", "0\n")]);
        // A directory is no setting.
        let look = Keeper::default().look(&root, &[setting("kernel.a", "1")], true);
        assert!(look.problems[0].starts_with("kernel.a cannot be read: "), "{look:?}");
        assert_eq!(Keeper::default().look(&root, &[setting("kernel.a", "1")], false), Look::default());
    }
}
