//! INI files for the two families of daemons.
//!
//! **Python** (`configparser.ConfigParser` with its default `BasicInterpolation`, Python 3): `%` is written `%%`; `#` and `;`
//! are comments only at the beginning of a line, so inside a value they are ordinary; both ends of a value lose what
//! `str.strip` strips; keys are folded to lower case; a repeated section or key is an error. `[DEFAULT]` would leak its keys
//! into every other section (the daemons read `[DEFAULTS]`), so it is refused. Text outside ASCII is written as UTF-8: the
//! daemon must run with a UTF-8 locale or `PYTHONUTF8=1`.
//!
//! **Boost** (`program_options`, `detail/config_file.cpp`): `#` starts a comment anywhere and there is no escape, so a value
//! with `#` is refused; blanks and tabs at both ends are stripped; a scalar option that stands twice, also through a
//! repeated section, is an error; names are case-sensitive, and section `A.B` with key `c` is the same option as section
//! `A` with key `B.c`, so names have no dot. Checked against Boost 1.74.
//!
//! Both take quotes and backslashes literally. Unknown keys are the caller's concern: control, dns and query-engine exit on
//! one. The vRouter utilities read `platform` from the agent's file with a parser of their own
//! (`utils/ini_parser.c`) that ends a section at any `[`: put `platform` before values with IPv6 addresses in brackets.

use super::dialect::{Dialect, no_control, no_outer, plain_name};
use super::settings::{Entries, Settings, Value};
use super::{Problem, Refusal, Unrepresentable};

const PYTHON: Dialect =
    Dialect { key: python_key, value: python_value, assign: " = ", folds_case: true, repeats: false };

const BOOST: Dialect = Dialect { key: boost_name, value: boost_value, assign: " = ", folds_case: false, repeats: true };

/// An INI file: sections in the order they were first named, keys in the order they were set.
#[derive(Clone)]
pub struct Ini {
    file: String,
    dialect: &'static Dialect,
    section_name: fn(&str) -> Result<String, Refusal>,
    sections: Vec<Section>,
}

/// One section of an [`Ini`].
#[derive(Clone)]
pub struct Section {
    name: String,
    entries: Entries,
}

impl Ini {
    /// A file for a Python daemon. `file` is its name in messages.
    pub fn python(file: impl Into<String>) -> Self {
        Self { file: file.into(), dialect: &PYTHON, section_name: python_section, sections: Vec::new() }
    }

    /// A file for a C++ daemon. `file` is its name in messages.
    pub fn boost(file: impl Into<String>) -> Self {
        Self { file: file.into(), dialect: &BOOST, section_name: boost_name, sections: Vec::new() }
    }

    /// The section of that name, which exists from now on, even if nothing is set in it: several daemons exit when
    /// `[DEFAULTS]` is missing. Naming it again continues it.
    pub fn section(&mut self, name: &str) -> &mut Section {
        let index = self.sections.iter().position(|section| section.name == name).unwrap_or_else(|| {
            self.sections.push(Section { name: name.to_owned(), entries: Entries::default() });
            self.sections.len() - 1
        });
        &mut self.sections[index]
    }

    /// The text of the file.
    ///
    /// # Errors
    /// Everything that cannot be represented, at once.
    pub fn render(&self) -> Result<String, Unrepresentable> {
        let mut out = String::new();
        let mut problems = Vec::new();
        for section in &self.sections {
            match (self.section_name)(&section.name) {
                Ok(name) => {
                    let gap = if out.is_empty() { "" } else { "\n" };
                    out.extend([gap, "[", &name, "]\n"]);
                }
                Err(refusal) => {
                    problems.push(Problem { section: Some(section.name.clone()), key: String::new(), refusal });
                }
            }
            section.entries.render(self.dialect, Some(&section.name), &mut out, &mut problems);
        }
        Unrepresentable::unless_empty(&self.file, problems)?;
        Ok(out)
    }
}

impl Section {
    /// Sets a list option of Boost, one line per item. Only for options that the daemon declares as a vector: a scalar
    /// that stands twice is an error there. Refused in a Python file. Most lists of the C++ daemons are
    /// [`Settings::list`] with blanks instead.
    pub fn repeat<T: std::fmt::Display>(&mut self, key: &str, items: impl IntoIterator<Item = T>) -> &mut Self {
        let items = items.into_iter().map(|item| item.to_string()).collect();
        self.entries.push(key, Value::Lines(items));
        self
    }
}

impl Settings for Section {
    fn entries(&mut self) -> &mut Entries {
        &mut self.entries
    }
}

fn python_section(name: &str) -> Result<String, Refusal> {
    if name == "DEFAULT" {
        return Err(Refusal {
            why: "is the section whose keys Python adds to every other section",
            hint: "name it DEFAULTS",
        });
    }
    python_key(name)
}

fn python_key(key: &str) -> Result<String, Refusal> {
    plain_name(key, &['-', '.'])
}

fn python_value(value: &str) -> Result<String, Refusal> {
    no_control(value)?;
    // `str.strip` strips more than the Unicode White_Space of `char::is_whitespace`: U+001C to U+001F, which are control
    // characters and refused above.
    no_outer(value, char::is_whitespace)?;
    Ok(value.replace('%', "%%"))
}

fn boost_name(name: &str) -> Result<String, Refusal> {
    plain_name(name, &['-'])
}

fn boost_value(value: &str) -> Result<String, Refusal> {
    no_control(value)?;
    no_outer(value, |c| c == ' ' || c == '\t')?;
    if value.contains('#') {
        return Err(Refusal {
            why: "contains a `#`, which starts a comment in this file and cannot be escaped",
            hint: "choose a value without `#`",
        });
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::hostile;
    use super::super::read;
    use super::super::settings::Separator::{Blank, Comma};
    use super::*;

    fn message(file: &Ini) -> String {
        file.render().unwrap_err().to_string()
    }

    #[test]
    fn sections_and_keys_stand_in_the_order_they_were_added() {
        let mut file = Ini::boost("control.conf");
        file.section("DEFAULT").set("http_server_port", 8083).set("log_local", true);
        file.section("CONFIGDB").list("config_db_server_list", Blank, ["10.0.0.1:9041", "10.0.0.2:9041"]);
        file.section("DEFAULT").set_if_some("hostip", None::<&str>).set("hostname", "");
        assert_eq!(
            file.render().unwrap(),
            "[DEFAULT]\nhttp_server_port = 8083\nlog_local = true\nhostname =\n\n\
             [CONFIGDB]\nconfig_db_server_list = 10.0.0.1:9041 10.0.0.2:9041\n"
        );
    }

    #[test]
    fn an_empty_section_is_written() {
        let mut file = Ini::python("schema.conf");
        file.section("DEFAULTS");
        assert_eq!(file.render().unwrap(), "[DEFAULTS]\n");
    }

    #[test]
    fn an_empty_list_is_refused_unless_the_call_allows_it() {
        let mut file = Ini::python("api.conf");
        file.section("DEFAULTS").list_unless_empty("collectors", Blank, [""; 0]).list("zk_server_ip", Comma, [""; 0]);
        assert_eq!(message(&file), "api.conf: [DEFAULTS] zk_server_ip is an empty list: name at least one item");
    }

    #[test]
    fn a_list_item_with_a_separator_in_it_is_refused() {
        for item in ["a b", "a,b", "", "a\u{a0}b"] {
            let mut file = Ini::python("api.conf");
            file.section("DEFAULTS").list("collectors", Blank, [item]);
            assert!(message(&file).contains("collectors has a list item"), "{item:?}");
        }
    }

    #[test]
    fn all_problems_of_a_file_are_reported_at_once() {
        let mut file = Ini::boost("dns.conf");
        file.section("CONFIGDB").set("config_db_password", "a#b").set_credential("rabbitmq_password", "p@ss");
        file.section("A.B").set("x", 1).set("x", 2);
        let error = file.render().unwrap_err();
        let places: Vec<_> =
            error.problems.iter().map(|p| (p.section.as_deref().unwrap_or_default(), p.key.as_str())).collect();
        assert_eq!(
            places,
            [("CONFIGDB", "config_db_password"), ("CONFIGDB", "rabbitmq_password"), ("A.B", ""), ("A.B", "x")]
        );
    }

    #[test]
    fn a_hash_is_fine_for_python_and_refused_for_boost() {
        let mut python = Ini::python("api.conf");
        python.section("CASSANDRA").set("cassandra_password", "#a#b;c");
        assert_eq!(python.render().unwrap(), "[CASSANDRA]\ncassandra_password = #a#b;c\n");

        let mut boost = Ini::boost("control.conf");
        boost.section("CONFIGDB").set("config_db_password", "a#b");
        assert_eq!(
            message(&boost),
            "control.conf: [CONFIGDB] config_db_password contains a `#`, which starts a comment in this file and cannot \
             be escaped: choose a value without `#`"
        );
    }

    #[test]
    fn python_keys_that_differ_in_case_only_are_the_same_key() {
        let mut python = Ini::python("vnc_api_lib.ini");
        python.section("auth").set("AUTHN_TYPE", "noauth").set("authn_type", "keystone");
        assert!(message(&python).contains("[auth] authn_type is set twice"));

        let mut boost = Ini::boost("agent.conf");
        boost.section("DEFAULT").set("a", 1).set("A", 2);
        assert_eq!(boost.render().unwrap(), "[DEFAULT]\na = 1\nA = 2\n");
    }

    #[test]
    fn the_section_python_inherits_from_is_refused() {
        let mut file = Ini::python("api.conf");
        file.section("DEFAULT");
        assert_eq!(
            message(&file),
            "api.conf: [DEFAULT] is the section whose keys Python adds to every other section: name it DEFAULTS"
        );
    }

    #[test]
    fn a_repeated_key_is_a_list_for_boost_and_refused_for_python() {
        let mut boost = Ini::boost("agent.conf");
        boost.section("DEFAULT").repeat("l", ["a", "b"]);
        assert_eq!(boost.render().unwrap(), "[DEFAULT]\nl = a\nl = b\n");

        let mut python = Ini::python("api.conf");
        python.section("DEFAULTS").repeat("l", ["a", "b"]);
        assert!(message(&python).contains("[DEFAULTS] l has several lines"));
    }

    fn filled(mut file: Ini, content: &BTreeMap<String, BTreeMap<String, String>>) -> Ini {
        for (section, keys) in content {
            for (key, value) in keys {
                file.section(section).set(key, value);
            }
        }
        file
    }

    proptest! {
        #[test]
        fn python_reads_back_what_was_set_and_nothing_else(content in hostile::sections()) {
            if let Ok(text) = filled(Ini::python("f"), &content).render() {
                prop_assert_eq!(read::python(&text), Ok(content), "{}", text);
            }
        }

        #[test]
        fn boost_reads_back_what_was_set_and_nothing_else(content in hostile::sections()) {
            if let Ok(text) = filled(Ini::boost("f"), &content).render() {
                let once: BTreeMap<_, BTreeMap<_, _>> = content
                    .into_iter()
                    .map(|(section, keys)| (section, keys.into_iter().map(|(key, value)| (key, vec![value])).collect()))
                    .collect();
                prop_assert_eq!(read::boost(&text), Ok(once), "{}", text);
            }
        }

        #[test]
        fn hostile_names_are_refused_or_read_back(section in hostile::text(), key in hostile::text()) {
            for mut file in [Ini::python("f"), Ini::boost("f")] {
                file.section(&section).set(&key, "v");
                if let Ok(text) = file.render() {
                    prop_assert_eq!(text, format!("[{section}]\n{key} = v\n"));
                    prop_assert!(section.is_ascii() && key.is_ascii());
                }
            }
        }

        #[test]
        fn lists_split_at_their_separator_into_their_items(items in prop::collection::vec(hostile::mostly_plain(), 1..4)) {
            for (separator, sign) in [(Blank, ' '), (Comma, ',')] {
                let mut file = Ini::python("f");
                file.section("S").list("l", separator, &items);
                if let Ok(text) = file.render() {
                    let sections = read::python(&text).unwrap();
                    prop_assert_eq!(sections["S"]["l"].split(sign).collect::<Vec<_>>(), &items[..]);
                }
            }
        }

        #[test]
        fn a_message_never_contains_the_value(secret in hostile::secret()) {
            for mut file in [Ini::python("f"), Ini::boost("f")] {
                file.section("S").set("a", &secret).set_credential("b", &secret).list("c", Blank, [&secret]);
                if let Err(error) = file.render() {
                    prop_assert!(!error.to_string().contains(hostile::MARK), "{}", error);
                    let debugged = format!("{error:?}");
                    prop_assert!(!debugged.contains(hostile::MARK), "{}", debugged);
                }
            }
        }

        #[test]
        fn text_that_needs_no_escape_is_never_refused(value in "([A-Za-z0-9&<+'\"%=:;/\\\\-][ ]?){0,8}[a-z]") {
            for mut file in [Ini::python("f"), Ini::boost("f")] {
                file.section("S").set("k", &value);
                prop_assert!(file.render().is_ok());
            }
        }
    }
}
