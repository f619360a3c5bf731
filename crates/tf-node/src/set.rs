//! What one daemon needs of its member's content.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::{Context as _, Result, bail};
use tf_agent_api::{
    content::ContentHash,
    launch::{self, Launch, Lists, OnChange, Signal},
    node::{PARAMETERS_FILE, environment_file},
};
use tf_config_files::env;

use crate::{
    local::{self, facts::Facts},
    source::Content,
};

/// A file as the daemon reads it.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// Its content, completed.
    pub bytes: Vec<u8>,
    /// Whether it holds a secret.
    pub secret: bool,
}

/// The files of one daemon, complete and readable.
#[derive(Clone)]
pub struct Set {
    /// The member's content that it was taken from.
    pub hash: ContentHash,
    /// How the daemon is run.
    pub launch: Launch,
    /// Variables of the environment file.
    pub environment: BTreeMap<String, String>,
    /// The files by name: those of the launch file, itself, and the environment file.
    pub files: BTreeMap<String, File>,
}

/// Without contents, which may be secret.
impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set").field("hash", &self.hash).field("files", &self.files.keys()).finish_non_exhaustive()
    }
}

/// What a running daemon needs when it goes from one set to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is restarted.
    Restart,
    /// It gets these signals, possibly none.
    Signals(Vec<Signal>),
}

impl Set {
    /// Takes a daemon's files out of the content, on the node of this name.
    ///
    /// # Errors
    /// When one is missing or not readable, or the node cannot complete it. The message names the file and shows nothing of it.
    pub fn select(content: &Content, daemon: &str, node: &str) -> Result<Self> {
        let mut files = BTreeMap::new();
        let mut facts: Option<Facts> = None;
        let mut take = |name: &str| -> Result<()> {
            let Some(file) = content.files.get(name) else { return Ok(()) };
            let bytes = if file.template {
                let known = match &mut facts {
                    Some(known) => known,
                    empty => {
                        let parameters = content.files.get(PARAMETERS_FILE).map(|file| file.bytes.as_slice());
                        empty.insert(Facts::look(parameters, node)?)
                    }
                };
                local::complete(name, &file.bytes, known)?
            } else {
                file.bytes.clone()
            };
            files.insert(name.to_owned(), File { bytes, secret: file.secret });
            Ok(())
        };
        let launch_file = launch::file_name(daemon);
        take(&launch_file)?;
        take(&environment_file(daemon))?;
        let launch = Self::launch(content, daemon);
        for name in launch.iter().flat_map(Launch::needed) {
            take(name)?;
        }
        Self::assemble(content.hash.clone(), files, daemon)
    }

    /// How a daemon is run, if that can be read, whatever else is missing.
    pub fn launch(content: &Content, daemon: &str) -> Option<Launch> {
        content.files.get(&launch::file_name(daemon)).and_then(|file| Launch::parse(&file.bytes).ok())
    }

    /// A set of these files.
    ///
    /// # Errors
    /// As [`Self::select`].
    pub fn assemble(hash: ContentHash, files: BTreeMap<String, File>, daemon: &str) -> Result<Self> {
        let name = launch::file_name(daemon);
        let Some(file) = files.get(&name) else { bail!("{name} is missing") };
        let launch = Launch::parse(&file.bytes).with_context(|| name.clone())?;
        let missing: Vec<&str> = launch.needed().filter(|name| !files.contains_key(*name)).collect();
        if !missing.is_empty() {
            bail!("missing: {}", missing.join(", "));
        }
        let name = environment_file(daemon);
        let environment = match files.get(&name) {
            Some(file) => {
                let text = std::str::from_utf8(&file.bytes).ok().with_context(|| format!("{name} is no UTF-8 text"))?;
                env::parse(text).with_context(|| name.clone())?
            }
            None => BTreeMap::new(),
        };
        Ok(Self { hash, launch, environment, files })
    }

    /// What the running daemon needs when `next` takes the place of this set.
    pub fn effect(&self, next: &Self) -> Effect {
        let (old, new) = (&self.launch, &next.launch);
        let starts_alike = old.argv == new.argv
            && old.working_directory == new.working_directory
            && old.environment == new.environment
            && self.environment == next.environment;
        if !starts_alike && !new.runs_on {
            return Effect::Restart;
        }
        let told = match (&old.level, &new.level) {
            (Some(old), Some(new)) if old.lines == new.lines => new.lines.clone(),
            _ => BTreeSet::new(),
        };
        let unread: BTreeSet<String> = told.union(&new.only_at_start).cloned().collect();
        let lists = new.lists.as_ref().filter(|lists| old.lists.as_ref() == Some(lists));
        let difference = |name: &str| match (self.files.get(name), next.files.get(name)) {
            (Some(old), Some(new)) if old != new => Difference::between(&old.bytes, &new.bytes, &unread, lists),
            (old, new) if old == new => Difference::None,
            _ => Difference::More,
        };
        let mut signals = BTreeSet::new();
        // What is no longer listed counts as it was listed.
        let listed = old.files.iter().filter(|(name, _)| !new.files.contains_key(*name)).chain(&new.files);
        for (name, on_change) in listed {
            match (difference(name), on_change) {
                (Difference::None, _) | (_, OnChange::Nothing) => {}
                (Difference::Lists(signal), OnChange::Restart) | (_, OnChange::Signal(signal)) => {
                    signals.insert(*signal);
                }
                (Difference::More, OnChange::Restart) => return Effect::Restart,
            }
        }
        Effect::Signals(signals.into_iter().collect())
    }
}

/// How a file differs from the one before.
#[derive(Clone, Copy)]
enum Difference<'a> {
    /// In nothing but what the daemon is told, or does not read while it runs.
    None,
    /// In lists that it reads again after this signal.
    Lists(&'a Signal),
    /// In something else.
    More,
}

impl<'a> Difference<'a> {
    fn between(old: &[u8], new: &[u8], unread: &BTreeSet<String>, lists: Option<&'a Lists>) -> Self {
        let (old, new) = (without(unread, old), without(unread, new));
        let differing = || old.iter().zip(&new).filter(|(old, new)| old != new);
        let is_list = |line: &[u8]| lists.is_some_and(|lists| begins_with(&lists.lines, line));
        match lists {
            _ if old == new => Self::None,
            Some(lists) if old.len() == new.len() && differing().all(|(old, new)| is_list(old) && is_list(new)) => {
                Self::Lists(&lists.signal)
            }
            _ => Self::More,
        }
    }
}

/// The lines of a file that begin with none of these.
fn without<'a>(beginnings: &BTreeSet<String>, file: &'a [u8]) -> Vec<&'a [u8]> {
    file.split(|byte| *byte == b'\n').filter(|line| !begins_with(beginnings, line)).collect()
}

fn begins_with(beginnings: &BTreeSet<String>, line: &[u8]) -> bool {
    beginnings.iter().any(|beginning| line.starts_with(beginning.as_bytes()))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use tf_agent_api::{
        content::content_hash,
        launch::{Level, Place, Tell, When},
    };

    use super::*;
    use crate::source;

    pub(crate) fn content(files: &[(&str, &[u8])]) -> Content {
        let file = |bytes: &&[u8]| source::File { bytes: bytes.to_vec(), secret: false, template: false };
        let files: BTreeMap<String, source::File> =
            files.iter().map(|(name, bytes)| ((*name).to_owned(), file(bytes))).collect();
        Content { hash: content_hash(&files), files }
    }

    fn launch(change: impl FnOnce(&mut Launch)) -> String {
        let mut launch = Launch::new(vec!["daemon".into()]);
        launch.files = BTreeMap::from([
            ("hard".into(), OnChange::Restart),
            ("soft".into(), OnChange::Signal(Signal::Hup)),
            ("none".into(), OnChange::Nothing),
        ]);
        change(&mut launch);
        launch.render().unwrap()
    }

    fn set(launch: &str, others: &[(&str, &str)]) -> Set {
        let mut files = BTreeMap::from([("hard", "1"), ("soft", "1"), ("none", "1"), ("d.launch", launch)]);
        files.extend(others.iter().copied());
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
        Set::select(&content(&files), "d", "n").unwrap()
    }

    #[test]
    fn only_what_the_daemon_needs_is_taken() {
        let place = vec![Place { file: "id".into(), to: "/d/id".into(), when: When::Absent, private: false }];
        let launch = launch(|launch| launch.place = place);
        let set = set(&launch, &[("id", "1"), ("d.env", "A='1'\n"), ("other.env", ""), ("other", "")]);
        assert_eq!(set.files.keys().collect::<Vec<_>>(), ["d.env", "d.launch", "hard", "id", "none", "soft"]);
        assert_eq!(set.environment, BTreeMap::from([("A".into(), "1".into())]));
    }

    #[test]
    fn a_daemon_that_runs_on_is_not_restarted_for_other_arguments() {
        let of = |argument: &str, runs_on: bool| {
            let launch = launch(|launch| {
                launch.argv.push(argument.into());
                launch.runs_on = runs_on;
            });
            set(&launch, &[])
        };
        assert_eq!(of("a", false).effect(&of("b", false)), Effect::Restart);
        assert_eq!(of("a", true).effect(&of("b", true)), Effect::Signals(Vec::new()));
    }

    #[test]
    fn a_set_with_a_part_missing_or_broken_is_refused_and_not_quoted() {
        let text = launch(|_| {});
        let error = |files: &[(&str, &[u8])]| format!("{:#}", Set::select(&content(files), "d", "n").unwrap_err());
        assert_eq!(error(&[]), "d.launch is missing");
        assert_eq!(error(&[("d.launch", text.as_bytes()), ("none", b"")]), "missing: hard, soft");
        assert_eq!(
            error(&[("d.launch", b"{\"hunter2")]),
            "d.launch: line 1, column 9: not a launch file: it ends too early"
        );
        let plain = Launch::new(vec!["d".into()]).render().unwrap();
        let broken: [(&str, &[u8]); 2] = [("d.launch", plain.as_bytes()), ("d.env", b"P=hunter2\n")];
        assert_eq!(error(&broken), "d.env: line 1: has something outside single quotes");
        let binary: [(&str, &[u8]); 2] = [("d.launch", plain.as_bytes()), ("d.env", b"\xff")];
        assert_eq!(error(&binary), "d.env is no UTF-8 text");
    }

    #[test]
    fn each_file_asks_for_what_the_launch_file_says() {
        let text = launch(|_| {});
        let before = set(&text, &[]);
        let effect = |others: &[(&str, &str)]| before.effect(&set(&text, others));
        assert_eq!(effect(&[]), Effect::Signals(vec![]));
        assert_eq!(effect(&[("hard", "2"), ("soft", "2")]), Effect::Restart);
        assert_eq!(effect(&[("soft", "2")]), Effect::Signals(vec![Signal::Hup]));
        assert_eq!(effect(&[("none", "2")]), Effect::Signals(vec![]));
        assert_eq!(effect(&[("d.env", "A='1'\n")]), Effect::Restart);
        assert_eq!(effect(&[("d.env", "# a remark\n")]), Effect::Signals(vec![]));
    }

    #[test]
    fn a_new_launch_file_restarts_only_when_the_process_would_be_another() {
        let before = set(&launch(|_| {}), &[]);
        let effect = |change: fn(&mut Launch)| before.effect(&set(&launch(change), &[]));
        assert_eq!(effect(|l| l.argv.push("-v".into())), Effect::Restart);
        assert_eq!(effect(|l| l.working_directory = Some("/".into())), Effect::Restart);
        assert_eq!(effect(|l| drop(l.environment.insert("A".into(), "1".into()))), Effect::Restart);
        assert_eq!(effect(|l| _ = l.files.remove("hard")), Effect::Restart);
        assert_eq!(effect(|l| _ = l.files.remove("none")), Effect::Signals(vec![]));
        assert_eq!(effect(|l| l.stop.seconds = 5), Effect::Signals(vec![]));
    }

    #[test]
    fn a_level_that_the_daemon_can_be_told_restarts_nothing_and_anything_beside_it_does() {
        let level = |value: &str| Level {
            value: value.into(),
            lines: ["level = ".to_owned()].into(),
            tell: Tell::Command { argv: vec!["say".into()] },
        };
        let told = |value: &'static str| launch(move |launch| launch.level = Some(level(value)));
        let before = set(&told("info"), &[("hard", "a\nlevel = info\nb")]);
        let effect = |launch: &str, hard: &str| before.effect(&set(launch, &[("hard", hard)]));
        assert_eq!(effect(&told("debug"), "a\nlevel = debug\nb"), Effect::Signals(vec![]));
        assert_eq!(effect(&told("debug"), "a\nlevel = debug\nc"), Effect::Restart);
        assert_eq!(effect(&told("debug"), "a\nlevels = debug\nb"), Effect::Restart);
        assert_eq!(effect(&launch(|_| {}), "a\nlevel = debug\nb"), Effect::Restart);
    }

    #[test]
    fn lists_that_the_daemon_reads_again_have_it_signalled_and_anything_beside_them_restarts_it() {
        let lists = |launch: &mut Launch| launch.lists = Some(Lists::of(&["servers", "collectors"]));
        let before = set(&launch(lists), &[("hard", "[a]\nservers = 1 2\n[b]\ncollectors = 1")]);
        let effect = |hard: &str| before.effect(&set(&launch(lists), &[("hard", hard)]));
        let signalled = Effect::Signals(vec![Signal::Hup]);
        assert_eq!(effect("[a]\nservers = 1 2\n[b]\ncollectors = 1"), Effect::Signals(vec![]));
        assert_eq!(effect("[a]\nservers = 1 2 3\n[b]\ncollectors = 1"), signalled);
        assert_eq!(effect("[a]\nservers = 2\n[b]\ncollectors = 2"), signalled);
        for more in [
            "[a]\nservers = 1\n[c]\ncollectors = 1",
            "[a]\nservers = 1\n[b]",
            "[a]\nservers = 1\n[b]\ncollectors = 1\ncollectors = 1",
            "[a]\nserver = 1\n[b]\ncollectors = 1",
        ] {
            assert_eq!(effect(more), Effect::Restart, "{more}");
        }
        let unread = launch(|_| {});
        let after = set(&unread, &[("hard", "[a]\nservers = 1\n[b]\ncollectors = 1")]);
        assert_eq!(before.effect(&after), Effect::Restart, "it is not known to read them");
    }

    #[test]
    fn what_counts_at_a_start_alone_restarts_nothing_and_anything_beside_it_does() {
        let seeds = |launch: &mut Launch| launch.only_at_start = ["  - seeds: ".to_owned()].into();
        let before = set(&launch(|_| {}), &[("hard", "a:\n  - seeds: 1\nb")]);
        let effect = |hard: &str| before.effect(&set(&launch(seeds), &[("hard", hard)]));
        assert_eq!(effect("a:\n  - seeds: 1,2\nb"), Effect::Signals(vec![]));
        assert_eq!(effect("a:\n  - seeds: 1,2\nc"), Effect::Restart);
        let unsaid = set(&launch(|_| {}), &[("hard", "a:\n  - seeds: 1,2\nb")]);
        assert_eq!(before.effect(&unsaid), Effect::Restart, "it is not said of it");
    }

    proptest! {
        /// Whatever is mounted is a complete set or an error.
        #[test]
        fn garbage_is_refused(files in prop::collection::btree_map("d\\.(launch|env)|hard|soft", any::<Vec<u8>>(), 0..4)) {
            let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
            prop_assert!(Set::select(&content(&files), "d", "n").is_err());
        }
    }
}
