//! What a writer cannot put into a file, and what a reader cannot understand.
//!
//! Neither error carries a value: a value may be a password, and these texts end in conditions, events and logs.

use std::fmt;

/// A file that cannot be written without changing its meaning. The display text is a condition message: it says what, where
/// and what to do, for every problem of the file at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {}", Sentence(problems))]
pub struct Unrepresentable {
    /// Name of the file, as given to the writer.
    pub file: String,
    /// At least one problem, in the order of the file.
    pub problems: Vec<Problem>,
}

impl Unrepresentable {
    /// `Ok` when there are no problems.
    pub(super) fn unless_empty(file: &str, problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { file: file.to_owned(), problems }) }
    }
}

/// One place of a file that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Section, where the dialect has sections.
    pub section: Option<String>,
    /// Key, or path of the field in a nested document; empty when the section or the whole document is meant.
    pub key: String,
    /// Why, and what to do.
    pub refusal: Refusal,
}

/// Why something cannot be written, and what to choose instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Verb phrase whose subject is the key, such as "contains a `#`, which starts a comment".
    pub why: &'static str,
    /// Imperative, such as "choose a value without `#`".
    pub hint: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names may come from a user's map of extra options, so they are shown on one line whatever they contain.
        if let Some(section) = &self.section {
            write!(f, "[{}] ", section.escape_debug())?;
        }
        if !self.key.is_empty() {
            write!(f, "{} ", self.key.escape_debug())?;
        }
        write!(f, "{}: {}", self.refusal.why, self.refusal.hint)
    }
}

/// The problems as one line. A condition message is limited to 32 KiB, so a long list is cut and counted.
struct Sentence<'a>(&'a [Problem]);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (index, problem) in self.0.iter().take(SHOWN).enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            problem.fmt(f)?;
        }
        match self.0.len().checked_sub(SHOWN) {
            Some(hidden) if hidden > 0 => write!(f, "; and {hidden} more"),
            _ => Ok(()),
        }
    }
}

/// A text that a reader of this module does not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct ReadError {
    /// Line of the text, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSAL: Refusal = Refusal { why: "is empty", hint: "give it a value" };

    fn problem(section: Option<&str>, key: &str) -> Problem {
        Problem { section: section.map(str::to_owned), key: key.to_owned(), refusal: REFUSAL }
    }

    #[test]
    fn the_message_says_where_what_and_what_to_do() {
        let error = Unrepresentable {
            file: "control.conf".to_owned(),
            problems: vec![problem(Some("CONFIGDB"), "rabbitmq_password"), problem(None, "a\nb")],
        };
        assert_eq!(
            error.to_string(),
            "control.conf: [CONFIGDB] rabbitmq_password is empty: give it a value; a\\nb is empty: give it a value"
        );
    }

    #[test]
    fn a_long_list_of_problems_is_cut_and_counted() {
        let error = Unrepresentable { file: "f".to_owned(), problems: vec![problem(None, "k"); 11] };
        assert!(error.to_string().ends_with("; and 3 more"), "{error}");
    }
}
