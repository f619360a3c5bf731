//! Cuttlefish, the reader of `rabbitmq.conf`: the grammar `src/conf_parse.peg`, and the substitution of
//! `cuttlefish_generator`.

use std::collections::BTreeMap;

use super::super::ReadError;

/// Which grammar: they differ in what a single quote at the beginning of a value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuttlefish {
    /// Before cuttlefish 3.3.0: quotes are ordinary.
    Unquoted,
    /// From cuttlefish 3.3.0 on: `'...'` is a value, line breaks included. (`'''...'''`, new in 3.6.0, is an error here.)
    Quoted,
}

const BLANKS: [char; 2] = [' ', '\t'];

/// The settings of the file; of several with the same key the last.
///
/// # Errors
/// A line that is not of the grammar; also an `include` and a value with `$(name)`, which need more than the text.
pub fn sysctl(text: &str, grammar: Cuttlefish) -> Result<BTreeMap<String, String>, ReadError> {
    let mut settings = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let line = 1 + text[..text.len() - rest.len()].matches('\n').count();
        let wrong = |why| ReadError { line, why };
        let start = rest.trim_start_matches(BLANKS);
        if start.starts_with('#') || at_line_end(start) {
            rest = start.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        let (key, after) = start.split_once('=').ok_or(wrong("there is no `=`"))?;
        let key = unescape_key(key.trim_end_matches(BLANKS)).ok_or(wrong("the key is not words joined by dots"))?;
        let (value, after) = value(after.trim_start_matches(BLANKS), grammar).map_err(wrong)?;
        if value.contains("$(") {
            return Err(wrong("the value refers to another setting"));
        }
        let after = after.trim_start_matches(BLANKS);
        if !after.starts_with('#') && !at_line_end(after) {
            return Err(wrong("something follows the quoted value"));
        }
        rest = after.split_once('\n').map_or("", |(_, rest)| rest);
        settings.insert(key, value.to_owned());
    }
    Ok(settings)
}

fn at_line_end(text: &str) -> bool {
    text.is_empty() || text.starts_with('\n') || text.starts_with("\r\n")
}

/// `key <- head:word tail:("." word)*`. Dots escaped by a backslash belong to a word; they are shown with it, so that keys
/// stay distinct.
fn unescape_key(key: &str) -> Option<String> {
    let words = key.replace("\\.", "_");
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    words.split('.').all(is_word).then(|| key.to_owned())
}

/// `escaped_value / unescaped_value`, and what follows it.
fn value(text: &str, grammar: Cuttlefish) -> Result<(&str, &str), &'static str> {
    if grammar == Cuttlefish::Quoted {
        if text.starts_with("'''") {
            return Err("values of several lines are not supported");
        }
        if let Some((quoted, after)) = text.strip_prefix('\'').and_then(|text| text.split_once('\'')) {
            return Ok((quoted, after));
        }
    }
    // Up to white space that runs into a comment or the end of the line. At the end of the file blanks are kept.
    let end = text
        .char_indices()
        .map(|(index, _)| index)
        .find(|&index| {
            let rest = &text[index..];
            let next = rest.trim_start_matches(BLANKS);
            next.starts_with('#') || (at_line_end(next) && !next.is_empty())
        })
        .unwrap_or(text.len());
    if end == 0 { Err("the value is empty") } else { Ok(text.split_at(end)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, grammar: Cuttlefish) -> Option<String> {
        sysctl(text, grammar).ok().and_then(|mut settings| settings.remove("a"))
    }

    /// What cuttlefish 3.0.1 was seen to do with these files.
    #[test]
    fn values_are_read_as_cuttlefish_reads_them() {
        for (text, value) in [
            ("a = x\n", Some("x")),
            ("a = x#y\n", Some("x")),
            ("a = x # y\n", Some("x")),
            ("a = 'x'\n", Some("'x'")),
            ("a = 'x#y'\n", Some("'x")),
            ("a =\n", None),
            ("a = \n", None),
            ("a = x \t\nb = y\n", Some("x")),
            ("a = = x\n", Some("= x")),
            ("a = x\ry\n", Some("x\ry")),
            ("a = x\r\nb = y\n", Some("x")),
            ("a = x y  z\n", Some("x y  z")),
            ("a = 1\na = 2\n", Some("2")),
            ("# c\n\n  a = [::1]:5672\n", Some("[::1]:5672")),
            ("a.é = 1\na = 1\n", None),
        ] {
            assert_eq!(read(text, Cuttlefish::Unquoted).as_deref(), value, "{text:?}");
        }
    }

    #[test]
    fn the_newer_grammar_has_quotes() {
        for (text, value) in [
            ("a = 'x#y' # c\n", Some("x#y")),
            ("a = 'x\ny'\n", Some("x\ny")),
            ("a = 'x'y\n", None),
            ("a = 'x\n", Some("'x")),
            ("a = it's\n", Some("it's")),
        ] {
            assert_eq!(read(text, Cuttlefish::Quoted).as_deref(), value, "{text:?}");
        }
    }

    #[test]
    fn errors_carry_their_line() {
        assert_eq!(sysctl("a = 1\n\ninclude x\n", Cuttlefish::Quoted).unwrap_err().line, 3);
        assert_eq!(sysctl("a = $(b)\n", Cuttlefish::Quoted).unwrap_err().line, 1);
    }
}
