//! RabbitMQ's `rabbitmq.conf`: the sysctl format of cuttlefish (grammar: `src/conf_parse.peg` there).
//!
//! A setting is `key = value` on one line, the key a series of words joined by dots. `#` ends a value anywhere, an empty
//! value is a syntax error, blanks and tabs at both ends are stripped, the last of several equal keys wins, and `$(name)` in
//! a value is replaced by another setting or an environment variable (`cuttlefish_generator`). Since cuttlefish 3.3.0
//! (2024) a value may be quoted with `'`; before, as in RabbitMQ 3.10, a quote is part of the value. So nothing is quoted
//! here, and what needs quotes, or would be taken for quoted by the newer grammar, is refused. Beyond ASCII the versions
//! disagree too: the older rejects what is not Latin-1, and `binary` options turn `é` into one byte that no client sends.
//! Checked against cuttlefish 3.0.1, the one of RabbitMQ 3.10.8.
//!
//! Newer RabbitMQ takes the text before a colon of some secrets, `default_pass` among them, for a tag (`encrypted:...`):
//! set credentials with [`Settings::set_credential`], whose characters exclude the colon.

use super::dialect::{Dialect, no_outer, plain_name, printable_ascii};
use super::settings::{Entries, Settings};
use super::{Refusal, Unrepresentable};

const CUTTLEFISH: Dialect = Dialect { key, value, assign: " = ", folds_case: false, repeats: false };

/// A `rabbitmq.conf`: keys in the order they were set.
#[derive(Clone)]
pub struct Sysctl {
    file: String,
    entries: Entries,
}

impl Sysctl {
    /// An empty file. `file` is its name in messages.
    pub fn new(file: impl Into<String>) -> Self {
        Self { file: file.into(), entries: Entries::default() }
    }

    /// The text of the file, which is pure ASCII.
    ///
    /// # Errors
    /// Everything that cannot be represented, at once.
    pub fn render(&self) -> Result<String, Unrepresentable> {
        self.entries.render_file(&self.file, &CUTTLEFISH)
    }
}

impl Settings for Sysctl {
    fn entries(&mut self) -> &mut Entries {
        &mut self.entries
    }
}

fn key(key: &str) -> Result<String, Refusal> {
    for word in key.split('.') {
        plain_name(word, &['-'])?;
    }
    Ok(key.to_owned())
}

fn value(value: &str) -> Result<String, Refusal> {
    let refuse = |why, hint| Err(Refusal { why, hint });
    printable_ascii(value)?;
    no_outer(value, |c| c == ' ')?;
    if value.is_empty() {
        return refuse("is empty, which is a syntax error in this file", "leave the key out");
    }
    if value.contains('#') {
        return refuse("contains a `#`, which starts a comment in this file", "choose a value without `#`");
    }
    if value.contains("$(") {
        return refuse("contains `$(`, which RabbitMQ replaces by another setting", "choose a value without `$(`");
    }
    if value.starts_with('\'') {
        return refuse(
            "begins with a single quote, which only some versions of RabbitMQ take literally",
            "choose a value that does not begin with a single quote",
        );
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::super::hostile;
    use super::super::read::{self, Cuttlefish};
    use super::*;

    #[test]
    fn settings_are_written_one_a_line() {
        let mut file = Sysctl::new("rabbitmq.conf");
        file.set("listeners.ssl.1", "fd00::1:5671")
            .set("cluster_formation.classic_config.nodes.1", "rabbit@node-1")
            .set("heartbeat", 10)
            .set("tcp_listen_options.nodelay", true);
        assert_eq!(
            file.render().unwrap(),
            "listeners.ssl.1 = fd00::1:5671\ncluster_formation.classic_config.nodes.1 = rabbit@node-1\n\
             heartbeat = 10\ntcp_listen_options.nodelay = true\n"
        );
    }

    #[test]
    fn what_versions_of_rabbitmq_read_differently_is_refused() {
        for value in ["", "a#b", "'a'", "'''a'''", "$(HOME)", "é", "a\tb", " a", "a ", "a\nb"] {
            let mut file = Sysctl::new("rabbitmq.conf");
            file.set("default_pass", value);
            assert!(file.render().is_err(), "{value:?}");
        }
    }

    #[test]
    fn keys_are_words_joined_by_dots() {
        for key in ["", ".a", "a.", "a..b", "a b", "a=b", "a\\.b", "é", "#a"] {
            let mut file = Sysctl::new("rabbitmq.conf");
            file.set(key, 1);
            assert!(file.render().is_err(), "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn both_grammars_read_back_what_was_set_and_nothing_else(
            content in btree_map("[a-z0-9_-]{1,3}(\\.[a-z0-9_-]{1,3}){0,2}", hostile::mostly_plain(), 1..4)
        ) {
            let mut file = Sysctl::new("f");
            for (key, value) in &content {
                file.set(key, value);
            }
            if let Ok(text) = file.render() {
                for grammar in [Cuttlefish::Unquoted, Cuttlefish::Quoted] {
                    prop_assert_eq!(read::sysctl(&text, grammar), Ok(content.clone()), "{}", text);
                }
            }
        }

        #[test]
        fn hostile_keys_are_refused_or_read_back(key in hostile::text()) {
            let mut file = Sysctl::new("f");
            file.set(&key, "v");
            if let Ok(text) = file.render() {
                prop_assert_eq!(read::sysctl(&text, Cuttlefish::Quoted), Ok([(key, "v".to_owned())].into()));
            }
        }

        #[test]
        fn url_safe_credentials_are_never_refused(password in "[A-Za-z0-9_.-]{1,32}") {
            let mut file = Sysctl::new("f");
            file.set_credential("default_pass", &password);
            prop_assert_eq!(file.render().unwrap(), format!("default_pass = {password}\n"));
        }

        #[test]
        fn a_message_never_contains_the_value(secret in hostile::secret()) {
            let mut file = Sysctl::new("f");
            file.set("a", &secret);
            if let Err(error) = file.render() {
                prop_assert!(!error.to_string().contains(hostile::MARK), "{}", error);
            }
        }
    }
}
