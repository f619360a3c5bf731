//! The vocabulary every line-oriented writer shares: set a key, set a list, leave a key out on purpose.

use std::collections::HashSet;
use std::fmt::{Display, Write as _};

use super::dialect::Dialect;
use super::{Problem, Refusal, Unrepresentable, url};

/// What stands between the items of a list that is one value. Which one a daemon wants for which option differs
/// (docs/upstream/files.md#lists), so every call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// `a b`
    Blank,
    /// `a,b`
    Comma,
}

/// Keys and values of a section, or of a file without sections, in the order they were added.
///
/// Deliberately not `Debug`: values may be secrets.
#[derive(Clone, Default)]
pub struct Entries(Vec<(String, Value)>);

#[derive(Clone)]
pub(super) enum Value {
    Text(String),
    Credential(String),
    VirtualHost(String),
    List(Separator, Vec<String>),
    Lines(Vec<String>),
}

/// Adding settings to a file or section. Whatever is wrong with a value is reported by `render`.
///
/// A `bool` is written as `true` or `false`. That suits every daemon but `log_local` of contrail-api, which wants `1` or `0`.
pub trait Settings {
    /// The settings so far.
    #[doc(hidden)]
    fn entries(&mut self) -> &mut Entries;

    /// Sets `key`. An empty value is written as such; to leave a key out use [`Settings::set_if_some`].
    fn set(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.entries().push(key, Value::Text(value.to_string()));
        self
    }

    /// Sets `key` when there is a value, else leaves it out.
    fn set_if_some(&mut self, key: &str, value: Option<impl Display>) -> &mut Self {
        if let Some(value) = value {
            self.set(key, value);
        }
        self
    }

    /// Sets a user name or password that the daemon pastes into a URL without quoting; see [`url::is_safe`].
    fn set_credential(&mut self, key: &str, value: &str) -> &mut Self {
        self.entries().push(key, Value::Credential(value.to_owned()));
        self
    }

    /// Sets a RabbitMQ virtual host that the daemon pastes into a URL without quoting; see [`url::is_safe_vhost`].
    fn set_vhost(&mut self, key: &str, value: &str) -> &mut Self {
        self.entries().push(key, Value::VirtualHost(value.to_owned()));
        self
    }

    /// Sets a list that must not be empty: most daemons take an empty list of servers for their built-in default, such as
    /// `127.0.0.1`. Items must be free of white space and commas, because several readers split at both.
    fn list<T: Display>(&mut self, key: &str, separator: Separator, items: impl IntoIterator<Item = T>) -> &mut Self {
        let items = items.into_iter().map(|item| item.to_string()).collect();
        self.entries().push(key, Value::List(separator, items));
        self
    }

    /// As [`Settings::list`], but leaves the key out when there are no items.
    fn list_unless_empty<T: Display>(
        &mut self,
        key: &str,
        separator: Separator,
        items: impl IntoIterator<Item = T>,
    ) -> &mut Self {
        let mut items = items.into_iter().peekable();
        if items.peek().is_some() {
            self.list(key, separator, items);
        }
        self
    }
}

impl Entries {
    pub(super) fn push(&mut self, key: &str, value: Value) {
        self.0.push((key.to_owned(), value));
    }

    /// The text of a file without sections.
    pub(super) fn render_file(&self, file: &str, dialect: &Dialect) -> Result<String, Unrepresentable> {
        let mut out = String::new();
        let mut problems = Vec::new();
        self.render(dialect, None, &mut out, &mut problems);
        Unrepresentable::unless_empty(file, problems)?;
        Ok(out)
    }

    /// Appends one line per setting to `out`, and to `problems` whatever cannot be written.
    pub(super) fn render(
        &self,
        dialect: &Dialect,
        section: Option<&str>,
        out: &mut String,
        problems: &mut Vec<Problem>,
    ) {
        let mut seen = HashSet::new();
        for (key, value) in &self.0 {
            let identity = if dialect.folds_case { key.to_lowercase() } else { key.clone() };
            let lines = if seen.insert(identity) {
                (dialect.key)(key).and_then(|key| Ok((key, value.render(dialect)?)))
            } else {
                Err(Refusal { why: "is set twice", hint: "keep one of the two" })
            };
            match lines {
                Ok((key, values)) => {
                    for value in values {
                        // Nothing follows the sign when the value is empty: a trailing blank would be invisible.
                        let line = format!("{key}{}{value}", dialect.assign);
                        // Writing to a string cannot fail.
                        let _ = writeln!(out, "{}", if value.is_empty() { line.trim_end() } else { &line });
                    }
                }
                Err(refusal) => {
                    problems.push(Problem { section: section.map(str::to_owned), key: key.clone(), refusal });
                }
            }
        }
    }
}

impl Value {
    /// The values to write, one a line.
    fn render(&self, dialect: &Dialect) -> Result<Vec<String>, Refusal> {
        let one = |text: &str| Ok(vec![(dialect.value)(text)?]);
        match self {
            Value::Text(text) => one(text),
            Value::Credential(text) if url::is_safe(text) => one(text),
            Value::VirtualHost(text) if url::is_safe_vhost(text) => one(text),
            Value::Credential(_) | Value::VirtualHost(_) => Err(url::UNSAFE),
            Value::List(separator, items) => {
                check_items(items)?;
                one(&items.join(match separator {
                    Separator::Blank => " ",
                    Separator::Comma => ",",
                }))
            }
            Value::Lines(_) if !dialect.repeats => Err(Refusal {
                why: "has several lines, of which the reader keeps one",
                hint: "write the items as one list",
            }),
            Value::Lines(items) => {
                check_items(items)?;
                items.iter().map(|item| (dialect.value)(item)).collect()
            }
        }
    }
}

fn check_items(items: &[String]) -> Result<(), Refusal> {
    if items.is_empty() {
        return Err(Refusal { why: "is an empty list", hint: "name at least one item" });
    }
    if items.iter().any(|item| item.is_empty() || item.contains(|c: char| c.is_whitespace() || c == ',')) {
        return Err(Refusal {
            why: "has a list item that is empty or contains white space or a comma",
            hint: "use items without white space and commas",
        });
    }
    Ok(())
}
