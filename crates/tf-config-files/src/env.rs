//! Environment files: written by planners, read by `tf-node`, and by a human's shell with `. ./file`.
//!
//! The format is a subset of the POSIX shell language in UTF-8:
//!
//! ```text
//! file    = { line }
//! line    = "\n" | "#" { any but "\n" } "\n" | name "=" value "\n"      (the last "\n" may be missing)
//! name    = ( "A".."Z" | "a".."z" | "_" ) { "A".."Z" | "a".."z" | "0".."9" | "_" }
//! value   = part { part }
//! part    = "'" { any but "'" and NUL } "'" | "\'"
//! ```
//!
//! Between single quotes every character means itself, line breaks included; a single quote is written `'\''`. There are no
//! other quotes, escapes, expansions, blanks around the sign or `export`. A name stands once. So a shell and [`parse`] agree
//! on every file that [`parse`] accepts.

use std::collections::BTreeMap;

use super::dialect::Dialect;
use super::settings::{Entries, Settings};
use super::{ReadError, Refusal, Unrepresentable};

const SHELL: Dialect = Dialect { key, value, assign: "=", folds_case: false, repeats: false };

/// An environment file: variables in the order they were set.
#[derive(Clone)]
pub struct EnvFile {
    file: String,
    entries: Entries,
}

impl EnvFile {
    /// An empty file. `file` is its name in messages.
    pub fn new(file: impl Into<String>) -> Self {
        Self { file: file.into(), entries: Entries::default() }
    }

    /// The text of the file.
    ///
    /// # Errors
    /// Everything that cannot be represented, at once: names that are not identifiers, and NUL in a value.
    pub fn render(&self) -> Result<String, Unrepresentable> {
        self.entries.render_file(&self.file, &SHELL)
    }
}

impl Settings for EnvFile {
    fn entries(&mut self) -> &mut Entries {
        &mut self.entries
    }
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn key(key: &str) -> Result<String, Refusal> {
    if is_name(key) {
        return Ok(key.to_owned());
    }
    Err(Refusal {
        why: "is not the name of an environment variable",
        hint: "use ASCII letters, digits and underscores, not starting with a digit",
    })
}

fn value(value: &str) -> Result<String, Refusal> {
    if value.contains('\0') {
        return Err(Refusal {
            why: "contains a NUL character, which no environment variable can hold",
            hint: "choose a value without it",
        });
    }
    Ok(format!("'{}'", value.replace('\'', "'\\''")))
}

/// The variables of an environment file.
///
/// # Errors
/// The first line that is not of the format, or sets a name for the second time.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, ReadError> {
    let mut variables = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let line = 1 + text[..text.len() - rest.len()].matches('\n').count();
        let wrong = |why| ReadError { line, why };
        if rest.starts_with(['\n', '#']) {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        let (name, quoted) = rest.split_once('=').ok_or(wrong("is not NAME='value'"))?;
        if !is_name(name) {
            return Err(wrong("does not begin with NAME="));
        }
        let (value, after) = unquote(quoted).map_err(wrong)?;
        if variables.insert(name.to_owned(), value).is_some() {
            return Err(wrong("sets a name for the second time"));
        }
        rest = after;
    }
    Ok(variables)
}

/// The value at the beginning of `text`, and what follows its line.
fn unquote(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (part, after) = quoted.split_once('\'').ok_or("has no closing quote")?;
            if part.contains('\0') {
                return Err("contains a NUL character");
            }
            value.push_str(part);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\\'") {
            value.push('\'');
            rest = after;
        } else {
            return Err("has something outside single quotes");
        }
        if let Some(after) = rest.strip_prefix('\n') {
            return Ok((value, after));
        }
        if rest.is_empty() {
            return Ok((value, rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::super::hostile;
    use super::*;

    #[test]
    fn values_are_quoted_for_the_shell() {
        let mut file = EnvFile::new("provisioner.env");
        file.set("PHYSICAL_INTERFACE", "eth0").set("PASSWORD", "it's $HOME\n`x`").set("EMPTY", "");
        let text = file.render().unwrap();
        assert_eq!(text, "PHYSICAL_INTERFACE='eth0'\nPASSWORD='it'\\''s $HOME\n`x`'\nEMPTY=''\n");
        assert_eq!(parse(&text).unwrap()["PASSWORD"], "it's $HOME\n`x`");
    }

    #[test]
    fn comments_and_empty_lines_are_allowed_between_variables() {
        let parsed = parse("# by hand\n\nA='#1'\n\n# last").unwrap();
        assert_eq!(parsed, [("A".to_owned(), "#1".to_owned())].into());
    }

    #[test]
    fn everything_else_is_refused_with_its_line() {
        for (text, line) in [
            ("A=1\n", 1),
            ("A=\n", 1),
            ("A=\"1\"\n", 1),
            ("A='1' \n", 1),
            ("A='1'B='2'\n", 1),
            ("A='1\n\n", 1),
            ("A='1\n2'\nexport B='2'\n", 3),
            ("1A='1'\n", 1),
            ("='1'\n", 1),
            (" A='1'\n", 1),
            ("A='\0'\n", 1),
            ("A='1'\nA='2'\n", 2),
            ("A='1'\r\n", 1),
        ] {
            assert_eq!(parse(text).map_err(|error| error.line), Err(line), "{text:?}");
        }
    }

    #[test]
    fn a_name_that_is_no_identifier_is_refused() {
        for name in ["", "1A", "A-B", "A B", "A=B", "É", "A\n"] {
            let mut file = EnvFile::new("f");
            file.set(name, 1);
            assert!(file.render().is_err(), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn only_nul_is_refused_and_all_else_reads_back(
            content in btree_map("[A-Za-z_][A-Za-z0-9_]{0,6}", hostile::text(), 0..5)
        ) {
            let mut file = EnvFile::new("f");
            for (name, value) in &content {
                file.set(name, value);
            }
            match file.render() {
                Ok(text) => prop_assert_eq!(parse(&text), Ok(content), "{}", text),
                Err(_) => prop_assert!(content.values().any(|value| value.contains('\0'))),
            }
        }

        #[test]
        fn a_message_never_contains_the_value(secret in hostile::secret()) {
            let mut file = EnvFile::new("f");
            file.set("A", format!("{secret}\0"));
            prop_assert!(!file.render().unwrap_err().to_string().contains(hostile::MARK));
        }
    }
}
