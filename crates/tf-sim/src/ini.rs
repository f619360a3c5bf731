//! Files as Python's `ConfigParser` reads them: interpolation with `%`, continued lines, comments at the beginning of a line only, a
//! `[DEFAULT]` that every section inherits from.

use std::collections::BTreeMap;

/// A file that the parser refuses, by the name of Python's exception. No value is quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An option stands before the first section.
    #[error("MissingSectionHeaderError: line {0}")]
    NoSection(usize),
    /// A section stands there twice.
    #[error("DuplicateSectionError: line {0}")]
    SectionTwice(usize),
    /// An option of a section stands there twice.
    #[error("DuplicateOptionError: line {0}")]
    OptionTwice(usize),
    /// A line is none of what there can be.
    #[error("ParsingError: line {0}")]
    Unreadable(usize),
    /// A `%` that is not followed by another one, or by a name that there is.
    #[error("InterpolationSyntaxError: [{section}] {option}")]
    Percent {
        /// The section.
        section: String,
        /// The option.
        option: String,
    },
}

const INHERITED: &str = "DEFAULT";
/// References that lead to others, at most.
const DEPTH: usize = 10;

type Section = BTreeMap<String, String>;

/// What was read, from one file or from several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ini {
    sections: BTreeMap<String, Section>,
}

/// Where a value goes on.
struct Open {
    section: String,
    option: String,
    indent: usize,
}

impl Ini {
    /// Reads a further file, whose options win over those that are there.
    ///
    /// # Errors
    /// When the parser refuses it.
    pub fn read(&mut self, text: &str) -> Result<(), Fault> {
        for (name, options) in parse(text)? {
            self.sections.entry(name).or_default().extend(options);
        }
        Ok(())
    }

    /// Whether there is a section.
    pub fn has(&self, section: &str) -> bool {
        self.sections.contains_key(section)
    }

    /// The options of a section, with those it inherits, interpolated.
    ///
    /// # Errors
    /// [`Fault::Percent`].
    pub fn options(&self, section: &str) -> Result<Section, Fault> {
        let own = self.sections.get(section);
        let inherited = self.sections.get(INHERITED);
        let mut raw = inherited.cloned().unwrap_or_default();
        raw.extend(own.cloned().unwrap_or_default());
        let interpolated = |(option, value): (&String, &String)| {
            let value = interpolate(value, &raw, DEPTH)
                .ok_or_else(|| Fault::Percent { section: section.into(), option: option.clone() })?;
            Ok((option.clone(), value))
        };
        raw.iter().map(interpolated).collect()
    }
}

fn parse(text: &str) -> Result<BTreeMap<String, Section>, Fault> {
    let mut sections: BTreeMap<String, Section> = BTreeMap::new();
    let mut current: Option<String> = None;
    let mut open: Option<Open> = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        if let Some(open) = open.as_ref().filter(|open| indent > open.indent) {
            let value = sections.entry(open.section.clone()).or_default().entry(open.option.clone()).or_default();
            value.push('\n');
            value.push_str(content);
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let (name, _) = rest.split_once(']').ok_or(Fault::Unreadable(number))?;
            if name != INHERITED && sections.contains_key(name) {
                return Err(Fault::SectionTwice(number));
            }
            sections.entry(name.to_owned()).or_default();
            current = Some(name.to_owned());
            open = None;
            continue;
        }
        let section = current.clone().ok_or(Fault::NoSection(number))?;
        // An option without a value is one.
        let (option, value) = content.split_once(['=', ':']).unwrap_or((content, ""));
        let option = option.trim().to_lowercase();
        if option.is_empty() {
            return Err(Fault::Unreadable(number));
        }
        let options = sections.entry(section.clone()).or_default();
        if options.insert(option.clone(), value.trim().to_owned()).is_some() {
            return Err(Fault::OptionTwice(number));
        }
        open = Some(Open { section, option, indent });
    }
    Ok(sections)
}

/// `%%` and `%(name)s`. None if there is another `%`.
fn interpolate(value: &str, options: &Section, depth: usize) -> Option<String> {
    let mut read = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('%') {
        read.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            read.push('%');
            rest = after;
        } else {
            let (name, after) = after.strip_prefix('(')?.split_once(")s")?;
            let referred = options.get(&name.to_lowercase()).filter(|_| depth > 0)?;
            read.push_str(&interpolate(referred, options, depth - 1)?);
            rest = after;
        }
    }
    read.push_str(rest);
    Some(read)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Section, Fault> {
        let mut ini = Ini::default();
        ini.read(text)?;
        ini.options("A")
    }

    fn value(text: &str) -> Result<String, Fault> {
        Ok(read(&format!("[A]\nx = {text}\n"))?["x"].clone())
    }

    #[test]
    fn a_percent_sign_is_written_twice_or_refers_to_an_option() {
        assert_eq!(value("100%%").unwrap(), "100%");
        assert_eq!(read("[A]\nx = %(y)s!\ny = z\n").unwrap()["x"], "z!");
        let refused = Err(Fault::Percent { section: "A".into(), option: "x".into() });
        for text in ["50%", "%d", "%(nothing)s", "%(x)s", "a%%%b"] {
            assert_eq!(value(text), refused, "{text}");
        }
    }

    #[test]
    fn comments_begin_lines_and_stand_nowhere_else() {
        assert_eq!(value("8082 ; port").unwrap(), "8082 ; port");
        assert_eq!(value("a#b").unwrap(), "a#b");
        assert_eq!(read("# c\n; c\n[A]\n  # c\nx=1\n").unwrap()["x"], "1");
    }

    #[test]
    fn names_of_options_have_no_case_and_names_of_sections_have() {
        let mut ini = Ini::default();
        ini.read("[a]\nX: 1\n").unwrap();
        assert!(!ini.has("A") && ini.has("a"));
        assert_eq!(ini.options("a").unwrap()["x"], "1");
    }

    #[test]
    fn a_line_that_is_indented_goes_on() {
        assert_eq!(read("[A]\nx = 1\n  2\ny = 3\n").unwrap()["x"], "1\n2");
    }

    #[test]
    fn every_section_inherits_from_the_one_without_the_s() {
        assert_eq!(read("[DEFAULT]\nx = 1\ny = 2\n[A]\nx = 3\n").unwrap(), read("[A]\nx = 3\ny = 2\n").unwrap());
    }

    #[test]
    fn a_later_file_wins_and_one_file_says_nothing_twice() {
        let mut ini = Ini::default();
        ini.read("[A]\nx = 1\ny = 1\n").unwrap();
        ini.read("[A]\nx = 2\n").unwrap();
        let options = ini.options("A").unwrap();
        assert_eq!((options["x"].as_str(), options["y"].as_str()), ("2", "1"));
        assert_eq!(read("[A]\nx = 1\nX = 2\n"), Err(Fault::OptionTwice(3)));
        assert_eq!(read("[A]\n[A]\n"), Err(Fault::SectionTwice(2)));
        assert_eq!(read("x = 1\n"), Err(Fault::NoSection(1)));
        assert_eq!(read("[A\n"), Err(Fault::Unreadable(1)));
    }

    proptest! {
        #[test]
        fn whatever_stands_there_is_read_or_refused(text: String) {
            let mut ini = Ini::default();
            if ini.read(&text).is_ok() {
                let _ = ini.options("A");
            }
        }
    }
}
