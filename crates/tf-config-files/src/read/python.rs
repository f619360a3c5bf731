//! Python's `configparser.ConfigParser()` with its defaults: strict, `BasicInterpolation`, no inline comments. Follows
//! `Lib/configparser.py` of Python 3.11, with the file opened in text mode.

use std::collections::BTreeMap;

use super::super::ReadError;

type Options = BTreeMap<String, String>;

/// Sections and their options as `parser.items(section)` gives them: inherited from `[DEFAULT]` and interpolated.
///
/// # Errors
/// Where `configparser` raises; the line is that of the option or, for interpolation, the last one of the file.
pub fn python(text: &str) -> Result<BTreeMap<String, Options>, ReadError> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let Raw { sections, defaults } = read(&text)?;
    let interpolation = |why| ReadError { line: text.lines().count(), why };
    let mut parsed = BTreeMap::new();
    for (name, own) in sections {
        let mut all = defaults.clone();
        all.extend(own);
        let mut options = Options::new();
        for (key, value) in &all {
            let mut out = String::new();
            interpolate(value, &all, 1, &mut out).map_err(interpolation)?;
            options.insert(key.clone(), out);
        }
        parsed.insert(name, options);
    }
    Ok(parsed)
}

/// What stands in the file, before inheritance and interpolation.
#[derive(Default)]
struct Raw {
    sections: BTreeMap<String, Options>,
    defaults: Options,
}

impl Raw {
    fn options(&mut self, section: &str) -> &mut Options {
        if section == "DEFAULT" { &mut self.defaults } else { self.sections.entry(section.to_owned()).or_default() }
    }
}

/// `str.isspace`, which the pattern `\s` and `str.strip` share.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `RawConfigParser._read`
fn read(text: &str) -> Result<Raw, ReadError> {
    let mut raw = Raw::default();
    let mut section: Option<String> = None;
    let mut option: Option<String> = None;
    let mut indent = 0;
    for (index, line) in text.split('\n').enumerate() {
        let wrong = |why| ReadError { line: index + 1, why };
        let content = line.trim_matches(is_space);
        let comment = content.starts_with(['#', ';']);
        if comment || content.is_empty() {
            if let (false, Some(section), Some(option)) = (comment, &section, &option) {
                raw.options(section).entry(option.clone()).or_default().push('\n');
            }
            continue;
        }
        let line_indent = line.chars().take_while(|&c| is_space(c)).count();
        if let (Some(section), Some(option)) = (&section, &option)
            && line_indent > indent
        {
            let value = raw.options(section).entry(option.clone()).or_default();
            value.push('\n');
            value.push_str(content);
            continue;
        }
        indent = line_indent;
        if let Some(name) = section_name(content) {
            if raw.sections.contains_key(name) {
                return Err(wrong("the section stands for the second time"));
            }
            raw.options(name);
            section = Some(name.to_owned());
            option = None;
            continue;
        }
        let Some(section) = &section else { return Err(wrong("there is no section yet")) };
        let (name, value) = content.split_once(['=', ':']).ok_or(wrong("there is no `=` or `:`"))?;
        let name = name.trim_matches(is_space).to_lowercase();
        if name.is_empty() {
            return Err(wrong("the option has no name"));
        }
        let value = value.trim_matches(is_space).to_owned();
        if raw.options(section).insert(name.clone(), value).is_some() {
            return Err(wrong("the option stands for the second time"));
        }
        option = Some(name);
    }
    for options in raw.sections.values_mut().chain([&mut raw.defaults]) {
        for value in options.values_mut() {
            value.truncate(value.trim_end_matches(is_space).len());
        }
    }
    Ok(raw)
}

/// `SECTCRE`: greedy up to the last bracket; what follows it is ignored.
fn section_name(content: &str) -> Option<&str> {
    let (name, _) = content.strip_prefix('[')?.rsplit_once(']')?;
    (!name.is_empty()).then_some(name)
}

/// `BasicInterpolation._interpolate_some`
fn interpolate(value: &str, options: &Options, depth: usize, out: &mut String) -> Result<(), &'static str> {
    const MAX_DEPTH: usize = 10;
    if depth > MAX_DEPTH {
        return Err("the interpolation is too deep");
    }
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
        } else if let Some(reference) = after.strip_prefix('(') {
            let (name, after) = reference.split_once(')').ok_or("a `%(` has no end")?;
            rest = after.strip_prefix('s').ok_or("a `%(name)` is not followed by `s`")?;
            if name.is_empty() {
                return Err("a `%()s` has no name");
            }
            let value = options.get(&name.to_lowercase()).ok_or("a `%(name)s` names no option")?;
            interpolate(value, options, depth + 1, out)?;
        } else {
            return Err("a `%` is followed by neither `%` nor `(`");
        }
    }
    out.push_str(rest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Option<usize> {
        python(text).err().map(|error| error.line)
    }

    #[test]
    fn comment_signs_inside_a_value_belong_to_it() {
        let parsed = python("[global]\n# a\n  ; b\nWEB_PORT = 8082 ; the port\n").unwrap();
        assert_eq!(parsed["global"]["web_port"], "8082 ; the port");
    }

    #[test]
    fn an_indented_line_continues_the_value() {
        assert_eq!(python("[S]\na = 1\n  b = 2\n\nc: 3\n").unwrap()["S"]["a"], "1\nb = 2");
    }

    #[test]
    fn options_of_default_show_in_every_section() {
        assert_eq!(
            python("[DEFAULT]\na=1\n[S]\nb=%(a)s%%\n").unwrap()["S"],
            Options::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "1%".to_owned())])
        );
    }

    #[test]
    fn what_configparser_raises_for_is_an_error() {
        assert_eq!(line("a = 1\n"), Some(1));
        assert_eq!(line("[S]\na\n"), Some(2));
        assert_eq!(line("[S]\n = 1\n"), Some(2));
        assert_eq!(line("[S]\na = 1\nA = 2\n"), Some(3));
        assert_eq!(line("[S]\n[S]\n"), Some(2));
        assert_eq!(line("[S]\na = 100%\n"), Some(2));
        assert_eq!(line("[S]\na = %(a)s\n"), Some(2));
    }
}
