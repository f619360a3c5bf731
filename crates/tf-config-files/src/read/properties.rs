//! Java's `java.util.Properties.load`.

use std::collections::BTreeMap;

use super::super::ReadError;

const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// The settings of a properties file; of several with the same key the last.
///
/// # Errors
/// A `\u` that is not followed by four hexadecimal digits, or yields half of a surrogate pair, which no Rust string can hold.
pub fn properties(text: &str) -> Result<BTreeMap<String, String>, ReadError> {
    let mut settings = BTreeMap::new();
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = text.split('\n').enumerate();
    while let Some((index, line)) = lines.next() {
        let start = line.trim_start_matches(BLANKS);
        // A backslash alone continues nothing: the next line stands for itself.
        if start.is_empty() || start == "\\" || start.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = start.to_owned();
        while ends_in_escape(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start_matches(BLANKS));
        }
        let (key, value) = split(&logical);
        let decode = |text| unescape(text).map_err(|why| ReadError { line: index + 1, why });
        settings.insert(decode(key)?, decode(value)?);
    }
    Ok(settings)
}

/// Whether the line break after this line is escaped: an odd number of backslashes stands before it.
fn ends_in_escape(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}

/// The key ends at the first unescaped blank, `=` or `:`; around one `=` or `:` blanks are skipped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line
        .find(|c| {
            let ends = !escaped && (BLANKS.contains(&c) || c == '=' || c == ':');
            escaped = !escaped && c == '\\';
            ends
        })
        .unwrap_or(line.len());
    let rest = line[end..].trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..end], value.trim_start_matches(BLANKS))
}

fn unescape(text: &str) -> Result<String, &'static str> {
    let mut units = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let hexadecimal = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit());
                    let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| hexadecimal);
                    units.push(unit.ok_or("a `\\u` is not followed by four hexadecimal digits")?);
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => continue,
            },
            other => other,
        };
        units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16(&units).map_err(|_| "half of a surrogate pair stands alone")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn separators_comments_and_continuations() {
        let text = "# c\n ! c\na=1\nb : 2\nc 3\nd\ne==4\nf = x \\\n   y\ng\\=h=5 \ni=\\\\\nj=6";
        let expected = [
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", ""),
            ("e", "=4"),
            ("f", "x y"),
            ("g=h", "5 "),
            ("i", "\\"),
            ("j", "6"),
        ];
        assert_eq!(properties(text).unwrap(), pairs(expected));
    }

    #[test]
    fn a_backslash_alone_continues_nothing() {
        assert_eq!(properties("\\\n \na=1").unwrap(), pairs([("a", "1")]));
        assert_eq!(properties("\\\n#a=1\nb=2").unwrap(), pairs([("b", "2")]));
    }

    #[test]
    fn escapes_are_replaced() {
        assert_eq!(properties("a=\\u00e9\\uD83D\\uDE00\\t\\q\\ ").unwrap(), pairs([("a", "é😀\tq ")]));
        assert_eq!(properties("\na=\\u00g0").unwrap_err().line, 2);
    }
}
