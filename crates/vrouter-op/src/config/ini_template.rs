//! A Boost INI file that nodes complete, while it is put together.
//!
//! Text and lists are escaped here and nowhere else, so that nothing a user or a peer wrote is taken for a placeholder; only
//! [`IniTemplate::node`] and [`IniTemplate::template`] let placeholders through. A key that is set again has the new value, because options of the spec come
//! last and win, and Boost does not take a scalar twice.

use std::fmt::Display;

use tf_agent_api::template::{Local, literal};
use tf_config_files::{Ini, Separator::Blank, Settings as _, Unrepresentable};

enum Value {
    Text(String),
    List(Vec<String>),
}

/// Sections and keys in the order they were first set.
#[derive(Default)]
pub struct IniTemplate(Vec<(String, Vec<(String, Value)>)>);

impl IniTemplate {
    /// Makes a section exist, even if nothing is set in it.
    pub fn section(&mut self, name: &str) {
        self.entries(name);
    }

    /// Sets a key to a text.
    pub fn set(&mut self, section: &str, key: &str, value: impl Display) {
        self.put(section, key, Value::Text(literal(&value.to_string())));
    }

    /// Sets a key to a text, if there is one.
    pub fn set_if_some(&mut self, section: &str, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.set(section, key, value);
        }
    }

    /// Sets a key to a list; leaves it out when there are no items, which the agent would take for an item.
    pub fn list(&mut self, section: &str, key: &str, items: &[impl Display]) {
        if !items.is_empty() {
            let items = items.iter().map(|item| literal(&item.to_string())).collect();
            self.put(section, key, Value::List(items));
        }
    }

    /// Sets a key to a value of the node.
    pub fn node(&mut self, section: &str, key: &str, local: Local) {
        self.template(section, key, local.placeholder());
    }

    /// Sets a key to a text with placeholders.
    pub fn template(&mut self, section: &str, key: &str, template: String) {
        self.put(section, key, Value::Text(template));
    }

    fn entries(&mut self, section: &str) -> &mut Vec<(String, Value)> {
        let index = self.0.iter().position(|(name, _)| name == section).unwrap_or_else(|| {
            self.0.push((section.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }

    fn put(&mut self, section: &str, key: &str, value: Value) {
        let entries = self.entries(section);
        match entries.iter_mut().find(|(present, _)| present == key) {
            Some((_, present)) => *present = value,
            None => entries.push((key.to_owned(), value)),
        }
    }

    /// The template.
    ///
    /// # Errors
    /// When a value cannot be expressed.
    pub fn render(self, file: &str) -> Result<String, Unrepresentable> {
        let mut ini = Ini::boost(file);
        for (name, entries) in self.0 {
            let section = ini.section(&name);
            for (key, value) in entries {
                match value {
                    Value::Text(text) => section.set(&key, text),
                    Value::List(items) => section.list(&key, Blank, items),
                };
            }
        }
        ini.render()
    }
}

#[cfg(test)]
mod tests {
    use tf_agent_api::template::fill;
    use tf_config_files::read;

    use super::*;

    #[test]
    fn text_stays_text_and_the_last_word_wins() {
        let mut template = IniTemplate::default();
        template.set("A", "text", "{{node.address}}");
        template.list("A", "list", &["{{node.address}}", "b"]);
        template.node("A", "node", Local::Address);
        template.set("B", "twice", 1);
        template.set("B", "twice", 2);
        let filled = fill(&template.render("f").unwrap(), |_| Some("10.0.0.1".into())).unwrap();
        let read = read::boost(&filled).unwrap();
        assert_eq!(read["A"]["text"], ["{{node.address}}"]);
        assert_eq!(read["A"]["list"], ["{{node.address}} b"]);
        assert_eq!(read["A"]["node"], ["10.0.0.1"]);
        assert_eq!(read["B"]["twice"], ["2"]);
    }
}
