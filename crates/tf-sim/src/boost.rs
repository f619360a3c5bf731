//! A file as Boost's parser of options reads it (docs/upstream/files.md#boost): `#` begins a comment anywhere, names are told apart by case, an
//! option that is no list stands there once. Some daemons end at an option that they do not know, others ignore it.

use std::collections::BTreeMap;

/// A file that the parser refuses. No value is quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A line is none of what there can be.
    #[error("invalid_config_file_syntax: line {0}")]
    Unreadable(usize),
    /// An option that is no list stands there twice.
    #[error("multiple_occurrences: {0}")]
    Twice(String),
    /// Nobody declared the option.
    #[error("unrecognised option: {0}")]
    Unknown(String),
    /// A value is not of its type.
    #[error("invalid_option_value: {0}")]
    Value(String),
}

/// What was read: values by `SECTION.option`, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boost(BTreeMap<String, Vec<String>>);

impl Boost {
    /// Reads a file.
    ///
    /// # Errors
    /// When the parser refuses it.
    pub fn read(text: &str) -> Result<Self, Fault> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut section = String::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.clone_into(&mut section);
                continue;
            }
            let (option, value) = line.split_once('=').ok_or(Fault::Unreadable(index + 1))?;
            values.entry(format!("{section}.{}", option.trim())).or_default().push(value.trim().to_owned());
        }
        Ok(Self(values))
    }

    /// The names of all options, as `SECTION.option`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether there is nothing but these options, for daemons that take no other ones.
    ///
    /// # Errors
    /// [`Fault::Unknown`] with the first other one.
    pub fn only(&self, is_known: impl Fn(&str) -> bool) -> Result<(), Fault> {
        match self.names().find(|name| !is_known(name)) {
            Some(name) => Err(Fault::Unknown(name.to_owned())),
            None => Ok(()),
        }
    }

    /// The items of a list: blanks separate them, and every occurrence adds some.
    pub fn list(&self, name: &str) -> Vec<String> {
        let values = self.0.get(name).into_iter().flatten();
        values.flat_map(|value| value.split_whitespace()).map(str::to_owned).collect()
    }

    /// A text, if it is there.
    ///
    /// # Errors
    /// [`Fault::Twice`].
    pub fn text(&self, name: &str) -> Result<Option<&str>, Fault> {
        match self.0.get(name).map(Vec::as_slice) {
            None => Ok(None),
            Some([value]) => Ok(Some(value)),
            Some(_) => Err(Fault::Twice(name.to_owned())),
        }
    }

    /// A value of another type, if it is there. An empty one is none.
    ///
    /// # Errors
    /// [`Fault::Twice`], [`Fault::Value`].
    pub fn parsed<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Fault> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Fault::Value(name.to_owned()))
    }

    /// Yes or no, if it is there.
    ///
    /// # Errors
    /// [`Fault::Twice`], [`Fault::Value`].
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Fault> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(Some(true)),
            "false" | "no" | "off" | "0" => Ok(Some(false)),
            _ => Err(Fault::Value(name.to_owned())),
        }
    }
}
