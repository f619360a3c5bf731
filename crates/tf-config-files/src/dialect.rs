//! What the line-oriented dialects have in common: one setting a line, each with rules for keys and for values.

use super::Refusal;

/// The rules of one dialect. Checks return the text as it stands in the file, escaped where the dialect can escape.
pub(super) struct Dialect {
    /// Checks and escapes a key.
    pub key: fn(&str) -> Result<String, Refusal>,
    /// Checks and escapes a value.
    pub value: fn(&str) -> Result<String, Refusal>,
    /// What stands between key and value.
    pub assign: &'static str,
    /// Whether keys that differ in letter case only are the same key to the reader.
    pub folds_case: bool,
    /// Whether the reader collects the values of a key that stands on several lines.
    pub repeats: bool,
}

/// The reader works line by line.
pub(super) fn no_control(text: &str) -> Result<(), Refusal> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Refusal {
            why: "contains a control character, such as a line break",
            hint: "choose a value of printable characters on one line",
        });
    }
    Ok(())
}

/// The reader strips white space from both ends.
pub(super) fn no_outer(text: &str, stripped: impl Fn(char) -> bool) -> Result<(), Refusal> {
    if text.starts_with(&stripped) || text.ends_with(&stripped) {
        return Err(Refusal {
            why: "begins or ends with white space, which the reader strips",
            hint: "choose a value without white space at its ends",
        });
    }
    Ok(())
}

/// For values that are read or written back by code that handles ASCII only.
pub(super) fn printable_ascii(text: &str) -> Result<(), Refusal> {
    if !text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return Err(Refusal {
            why: "contains a character that is not printable ASCII, which the reader changes or rejects",
            hint: "choose a value of printable ASCII characters",
        });
    }
    Ok(())
}

/// A name that no parser of this module treats specially: ASCII letters, digits, `_` and the given further characters,
/// not starting with one of the latter.
pub(super) fn plain_name(name: &str, further: &[char]) -> Result<String, Refusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.starts_with(plain) && name.chars().all(|c| plain(c) || further.contains(&c)) {
        return Ok(name.to_owned());
    }
    Err(Refusal {
        why: "has a name that the reader would not take for one",
        hint: "use ASCII letters, digits and underscores",
    })
}
