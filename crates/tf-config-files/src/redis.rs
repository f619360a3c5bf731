//! Redis's `redis.conf` (`loadServerConfigFromString` in `config.c`, `sdssplitargs` in `sds.c`).
//!
//! A setting is a directive and its arguments on one line, separated by blanks. A line that begins with `#` is a comment, and a directive
//! counts in any letter case. An argument in double quotes may contain blanks; a backslash in it escapes. Every value here is one
//! argument, in quotes unless it is of letters, digits and a few signs. Directives with several arguments, which may stand there more than
//! once (`user`, `sentinel`), are added with [`RedisConf::line`].

use super::dialect::{Dialect, no_control, plain_name};
use super::settings::{Entries, Settings};
use super::{Problem, Refusal, Unrepresentable};

const REDIS: Dialect = Dialect { key, value, assign: " ", folds_case: true, repeats: false };

/// A `redis.conf`: directives in the order they were set, then those of several arguments.
#[derive(Clone)]
pub struct RedisConf {
    file: String,
    entries: Entries,
    lines: Vec<(String, Vec<String>)>,
}

impl RedisConf {
    /// An empty file. `file` is its name in messages.
    pub fn new(file: impl Into<String>) -> Self {
        Self { file: file.into(), entries: Entries::default(), lines: Vec::new() }
    }

    /// Adds a directive with these arguments. It may be there already.
    pub fn line<T: ToString>(&mut self, directive: &str, arguments: impl IntoIterator<Item = T>) -> &mut Self {
        let arguments = arguments.into_iter().map(|argument| argument.to_string()).collect();
        self.lines.push((directive.to_owned(), arguments));
        self
    }

    /// The text of the file.
    ///
    /// # Errors
    /// Everything that cannot be represented, at once.
    pub fn render(&self) -> Result<String, Unrepresentable> {
        let mut out = self.entries.render_file(&self.file, &REDIS)?;
        let mut problems = Vec::new();
        for (directive, arguments) in &self.lines {
            let words = key(directive).and_then(|directive| {
                let arguments = arguments.iter().map(|argument| value(argument));
                [Ok(directive)].into_iter().chain(arguments).collect::<Result<Vec<_>, _>>()
            });
            match words {
                Ok(words) => {
                    out.push_str(&words.join(" "));
                    out.push('\n');
                }
                Err(refusal) => problems.push(Problem { section: None, key: directive.clone(), refusal }),
            }
        }
        Unrepresentable::unless_empty(&self.file, problems)?;
        Ok(out)
    }
}

impl Settings for RedisConf {
    fn entries(&mut self) -> &mut Entries {
        &mut self.entries
    }
}

fn key(key: &str) -> Result<String, Refusal> {
    plain_name(key, &['-'])
}

fn value(value: &str) -> Result<String, Refusal> {
    no_control(value)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return Ok(value.to_owned());
    }
    Ok(format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::super::{Separator, hostile, read};
    use super::*;

    #[test]
    fn directives_are_written_one_a_line() {
        let mut file = RedisConf::new("redis.conf");
        file.set("bind", "fd00::1").set("tls-port", 6389).set("save", "").set("requirepass", "a \"b\" \\ #c").list(
            "tls-protocols",
            Separator::Blank,
            ["TLSv1.2", "TLSv1.3"],
        );
        assert_eq!(
            file.render().unwrap(),
            "bind fd00::1\ntls-port 6389\nsave \"\"\nrequirepass \"a \\\"b\\\" \\\\ #c\"\n\
             tls-protocols \"TLSv1.2 TLSv1.3\"\n"
        );
    }

    #[test]
    fn directives_of_several_arguments_may_be_repeated_and_stand_at_the_end() {
        let mut file = RedisConf::new("sentinel.conf");
        file.line("sentinel", ["monitor", "a", "fd00::1", "2"]).line("sentinel", ["myid", "x y"]).set("port", 0);
        assert_eq!(file.render().unwrap(), "port 0\nsentinel monitor a fd00::1 2\nsentinel myid \"x y\"\n");
        assert!(file.clone().line("user", ["on\nsave 1 1"]).render().is_err());
        assert!(file.line("a b", ["x"]).render().is_err());
    }

    #[test]
    fn what_would_be_another_line_or_another_directive_is_refused() {
        for (key, value) in [("a", "x\nsave 1 1"), ("a", "x\0"), ("a b", "x"), ("#a", "x"), ("", "x"), ("\"a\"", "x")] {
            let mut file = RedisConf::new("redis.conf");
            file.set(key, value);
            assert!(file.render().is_err(), "{key:?} {value:?}");
        }
        let mut file = RedisConf::new("redis.conf");
        assert!(file.set("port", 0).set("PORT", 1).render().is_err(), "the same directive");
    }

    proptest! {
        #[test]
        fn what_was_set_is_read_back_and_nothing_else(
            content in btree_map("[a-z0-9][a-z0-9-]{0,3}", hostile::mostly_plain(), 1..4)
        ) {
            let mut file = RedisConf::new("f");
            for (key, value) in &content {
                file.set(key, value);
            }
            if let Ok(text) = file.render() {
                let expected = content.into_iter().map(|(key, value)| (key, vec![value])).collect();
                prop_assert_eq!(read::redis(&text), Ok(expected), "{}", text);
            }
        }

        #[test]
        fn hostile_keys_are_refused_or_read_back(key in hostile::text()) {
            let mut file = RedisConf::new("f");
            file.set(&key, "v");
            if let Ok(text) = file.render() {
                prop_assert_eq!(read::redis(&text), Ok([(key.to_lowercase(), vec!["v".to_owned()])].into()));
            }
        }

        #[test]
        fn a_message_never_contains_the_value(secret in hostile::secret()) {
            let mut file = RedisConf::new("f");
            file.set("requirepass", &secret);
            if let Err(error) = file.render() {
                prop_assert!(!error.to_string().contains(hostile::MARK), "{}", error);
            }
        }
    }
}
