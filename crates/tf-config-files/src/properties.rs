//! Java properties files.
//!
//! [`Properties::java`] writes what `java.util.Properties.load(InputStream)` reads back exactly: that method reads Latin-1, so
//! everything outside printable ASCII becomes `\uXXXX`; backslashes and control characters are escaped everywhere, blanks
//! at the beginning of a value, and in keys also blanks, `=`, `:`, `#` and `!`. In a value the latter mean themselves and
//! stay readable: `server.1=10.0.0.1:2888:3888`. What a consumer does with a value afterwards is its own: log4j replaces
//! `${...}`, Kafka and ZooKeeper trim most values.
//!
//! [`Properties::zookeeper`] is stricter, because ZooKeeper rewrites `zoo.cfg` at the first reconfiguration
//! (`QuorumPeerConfig.editStaticConfig`) with values trimmed and **without escaping** them: a backslash would vanish at the
//! next start and an escaped line break would become a further setting. So nothing that needs an escape is accepted.

use std::fmt::Write as _;

use super::dialect::{Dialect, no_outer, plain_name, printable_ascii};
use super::settings::{Entries, Settings};
use super::{Refusal, Unrepresentable};

const JAVA: Dialect = Dialect { key: java_key, value: java_value, assign: "=", folds_case: false, repeats: false };

const ZOOKEEPER: Dialect =
    Dialect { key: zookeeper_key, value: zookeeper_value, assign: "=", folds_case: false, repeats: false };

/// A properties file: keys in the order they were set.
#[derive(Clone)]
pub struct Properties {
    file: String,
    dialect: &'static Dialect,
    entries: Entries,
}

impl Properties {
    /// A file that its consumer only reads. `file` is its name in messages.
    pub fn java(file: impl Into<String>) -> Self {
        Self { file: file.into(), dialect: &JAVA, entries: Entries::default() }
    }

    /// A `zoo.cfg` or its dynamic part. `file` is its name in messages.
    pub fn zookeeper(file: impl Into<String>) -> Self {
        Self { file: file.into(), dialect: &ZOOKEEPER, entries: Entries::default() }
    }

    /// The text of the file, which is pure ASCII.
    ///
    /// # Errors
    /// Everything that cannot be represented, at once.
    pub fn render(&self) -> Result<String, Unrepresentable> {
        self.entries.render_file(&self.file, self.dialect)
    }
}

impl Settings for Properties {
    fn entries(&mut self) -> &mut Entries {
        &mut self.entries
    }
}

fn java_key(key: &str) -> Result<String, Refusal> {
    if key.is_empty() {
        return Err(Refusal { why: "is set without a name", hint: "name the key" });
    }
    Ok(escape(key, |_, c| " =:#!".contains(c)))
}

#[expect(clippy::unnecessary_wraps, reason = "other dialects refuse values")]
fn java_value(value: &str) -> Result<String, Refusal> {
    // One escaped blank ends the white space that the reader skips.
    Ok(escape(value, |index, c| index == 0 && c == ' '))
}

fn escape(text: &str, special: impl Fn(usize, char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, c) in text.chars().enumerate() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' if special(index, c) => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04X}");
                }
            }
        }
    }
    out
}

fn zookeeper_key(key: &str) -> Result<String, Refusal> {
    plain_name(key, &['-', '.'])
}

fn zookeeper_value(value: &str) -> Result<String, Refusal> {
    printable_ascii(value)?;
    no_outer(value, |c| c == ' ')?;
    if value.contains('\\') {
        return Err(Refusal {
            why: "contains a backslash, which is lost when ZooKeeper rewrites the file",
            hint: "choose a value without backslashes",
        });
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::super::hostile;
    use super::super::read;
    use super::super::settings::Separator::Comma;
    use super::*;

    #[test]
    fn a_zoo_cfg_stays_readable() {
        let mut file = Properties::zookeeper("zoo.cfg");
        file.set("reconfigEnabled", true)
            .list("4lw.commands.whitelist", Comma, ["srvr", "mntr"])
            .set("server.1", "10.0.0.1:2888:3888:participant;10.0.0.1:2181");
        assert_eq!(
            file.render().unwrap(),
            "reconfigEnabled=true\n4lw.commands.whitelist=srvr,mntr\n\
             server.1=10.0.0.1:2888:3888:participant;10.0.0.1:2181\n"
        );
    }

    #[test]
    fn what_the_reader_would_change_is_escaped() {
        let mut file = Properties::java("server.properties");
        file.set("a b:c=#!d", "  x \\ \n é😀 ").set("empty", "");
        assert_eq!(file.render().unwrap(), "a\\ b\\:c\\=\\#\\!d=\\  x \\\\ \\n \\u00E9\\uD83D\\uDE00 \nempty=\n");
    }

    #[test]
    fn a_key_needs_a_name_and_is_set_once() {
        let mut file = Properties::java("f");
        file.set("", 1).set("a", 1).set("a", 2);
        assert_eq!(
            file.render().unwrap_err().to_string(),
            "f: is set without a name: name the key; a is set twice: keep one of the two"
        );
    }

    #[test]
    fn what_zookeeper_would_lose_when_it_rewrites_its_file_is_refused() {
        for value in ["C:\\data", "a\nserver.9=evil:2888:3888", " a", "a ", "é", "\u{7f}"] {
            let mut file = Properties::zookeeper("zoo.cfg");
            file.set("dataDir", value);
            assert!(file.render().is_err(), "{value:?}");
        }
    }

    /// What `QuorumPeerConfig.editStaticConfig` does to the file.
    fn rewritten_by_zookeeper(text: &str) -> String {
        let mut out = String::new();
        for (key, value) in read::properties(text).unwrap() {
            out.extend([key.trim(), "=", value.trim(), "\n"]);
        }
        out
    }

    proptest! {
        #[test]
        fn java_reads_back_what_was_set_and_nothing_else(content in btree_map(hostile::text(), hostile::text(), 0..5)) {
            let mut file = Properties::java("f");
            for (key, value) in &content {
                file.set(key, value);
            }
            match file.render() {
                Ok(text) => {
                    prop_assert!(text.is_ascii());
                    prop_assert_eq!(read::properties(&text), Ok(content), "{}", text);
                }
                // There is one thing this dialect cannot say.
                Err(_) => prop_assert!(content.contains_key("")),
            }
        }

        #[test]
        fn zookeeper_settings_survive_its_rewriting(
            content in btree_map("[a-zA-Z0-9][a-zA-Z0-9.]{0,6}", hostile::mostly_plain(), 1..4)
        ) {
            let mut file = Properties::zookeeper("f");
            for (key, value) in &content {
                file.set(key, value);
            }
            if let Ok(text) = file.render() {
                let settings: BTreeMap<_, _> = read::properties(&text).unwrap();
                prop_assert_eq!(&settings, &content);
                prop_assert_eq!(read::properties(&rewritten_by_zookeeper(&text)), Ok(content));
            }
        }

        #[test]
        fn hostile_zookeeper_keys_are_refused_or_survive(key in hostile::text()) {
            let mut file = Properties::zookeeper("f");
            file.set(&key, "v");
            if let Ok(text) = file.render() {
                let expected = BTreeMap::from([(key, "v".to_owned())]);
                prop_assert_eq!(read::properties(&rewritten_by_zookeeper(&text)), Ok(expected));
            }
        }

        #[test]
        fn a_message_never_contains_the_value(secret in hostile::secret()) {
            let mut file = Properties::zookeeper("f");
            file.set("a", &secret);
            if let Err(error) = file.render() {
                prop_assert!(!error.to_string().contains(hostile::MARK), "{}", error);
            }
        }
    }
}
