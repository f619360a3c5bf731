//! Boost's `program_options::parse_config_file`: the line iterator of `detail/config_file.cpp`.

use std::collections::BTreeMap;

use super::super::ReadError;

/// Sections and their options with every value given, in order. Which of them may stand several times is known to the
/// daemon alone: for a scalar, more than one value is an error there. Options before the first section are in section `""`.
///
/// # Errors
/// A line that is neither section, option, comment nor empty.
pub fn boost(text: &str) -> Result<BTreeMap<String, BTreeMap<String, Vec<String>>>, ReadError> {
    const STRIPPED: [char; 4] = [' ', '\t', '\r', '\n'];
    let mut sections: BTreeMap<_, BTreeMap<_, Vec<_>>> = BTreeMap::new();
    let mut section = "";
    for (index, line) in text.split('\n').enumerate() {
        let wrong = |why| ReadError { line: index + 1, why };
        // Newer versions also take a line that begins with `;` for a comment, older ones for an option.
        let line = line.split_once('#').map_or(line, |(before, _)| before).trim_matches(STRIPPED);
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            if name.is_empty() {
                return Err(wrong("the section has no name"));
            }
            // Section and option are joined by a dot, unless the section ends with one.
            section = name.strip_suffix('.').unwrap_or(name);
            continue;
        }
        let (name, value) = line.split_once('=').ok_or(wrong("there is no `=`"))?;
        let options = sections.entry(section.to_owned()).or_default();
        options
            .entry(name.trim_matches(STRIPPED).to_owned())
            .or_default()
            .push(value.trim_matches(STRIPPED).to_owned());
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Boost 1.74 was seen to do with these lines.
    #[test]
    fn lines_are_read_as_boost_reads_them() {
        for (value, read) in [
            ("a#b", "a"),
            ("'q' \"x\" = ; [y]", "'q' \"x\" = ; [y]"),
            ("[a]", "[a]"),
            (";a", ";a"),
            ("", ""),
            (" \u{a0}a\u{a0} ", "\u{a0}a\u{a0}"),
            ("x\\", "x\\"),
        ] {
            let sections = boost(&format!("[DEFAULT]\ns = {value}\nt = 1\n")).unwrap();
            assert_eq!(sections["DEFAULT"]["s"], [read], "{value:?}");
            assert_eq!(sections["DEFAULT"]["t"], ["1"], "{value:?}");
        }
    }

    #[test]
    fn repeated_options_and_sections_collect_their_values() {
        assert_eq!(boost("[S]\nl=a\nl=b\n[T]\n[S]\nl=c\n").unwrap()["S"]["l"], ["a", "b", "c"]);
    }

    #[test]
    fn a_line_without_a_sign_is_an_error() {
        assert_eq!(boost("[S]\n\nx\n").unwrap_err().line, 3);
        assert_eq!(boost("[]\n").unwrap_err().line, 1);
    }
}
