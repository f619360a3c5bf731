//! JavaScript modules that export one object, whose settings are assigned one a line: `config.global.js` of the web UI
//! (docs/upstream/web-ui.md#files).
//!
//! A value is JSON, which is an expression of JavaScript since ECMAScript 2019; what older engines read as the end of a line in a text, and
//! what would end a script on a page, is escaped. So every value can be written, and only names are checked.

use serde_json::Value;

use super::{Problem, Refusal, Unrepresentable};

/// A module.
#[derive(Clone, Debug)]
pub struct Js {
    file: String,
    object: &'static str,
    lines: Vec<String>,
    known: Vec<String>,
    problems: Vec<Problem>,
}

impl Js {
    /// A module that exports an object under this name. `file` is its name in messages.
    pub fn new(file: impl Into<String>, object: &'static str) -> Self {
        let lines = vec![format!("var {object} = {{}};")];
        Self { file: file.into(), object, lines, known: Vec::new(), problems: Vec::new() }
    }

    /// Assigns a value to a setting, which dots lead to: `cnfg.server_port`.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> &mut Self {
        if let Err(refusal) = self.check(path) {
            self.problems.push(Problem { section: None, key: path.to_owned(), refusal });
            return self;
        }
        let parents = path.match_indices('.').map(|(end, _)| path[..end].to_owned());
        for parent in parents {
            if !self.known.contains(&parent) {
                self.lines.push(format!("{}.{parent} = {{}};", self.object));
                self.known.push(parent);
            }
        }
        self.lines.push(format!("{}.{path} = {};", self.object, literal(&value.into())));
        self.known.push(path.to_owned());
        self
    }

    fn check(&self, path: &str) -> Result<(), Refusal> {
        let is_name = |name: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            name.bytes().all(plain) && name.starts_with(|first: char| first.is_ascii_alphabetic())
        };
        if !path.split('.').all(is_name) {
            return Err(Refusal {
                why: "is no name of a setting",
                hint: "choose letters, digits and underscores, with dots between",
            });
        }
        if self.known.iter().any(|known| known == path) {
            return Err(Refusal { why: "is set twice", hint: "set it once" });
        }
        Ok(())
    }

    /// The text of the file.
    ///
    /// # Errors
    /// Everything that cannot be represented, at once.
    pub fn render(&self) -> Result<String, Unrepresentable> {
        Unrepresentable::unless_empty(&self.file, self.problems.clone())?;
        Ok(format!("{}\nmodule.exports = {};\n", self.lines.join("\n"), self.object))
    }
}

fn literal(value: &Value) -> String {
    let mut text = String::new();
    for letter in value.to_string().chars() {
        match letter {
            '<' => text.push_str("\\u003c"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_on_the_way_to_a_setting_are_made_once() {
        let mut file = Js::new("config.global.js", "config");
        file.set("orchestration.Manager", "none").set("introspect.ssl.enabled", true).set("introspect.ssl.key", "/k");
        file.set("cnfg.server_ip", vec!["10.0.0.1", "10.0.0.2"]).set("redisDBIndex", 3);
        assert_eq!(
            file.render().unwrap(),
            "var config = {};\nconfig.orchestration = {};\nconfig.orchestration.Manager = \"none\";\nconfig.introspect = {};\n\
             config.introspect.ssl = {};\nconfig.introspect.ssl.enabled = true;\nconfig.introspect.ssl.key = \"/k\";\n\
             config.cnfg = {};\nconfig.cnfg.server_ip = [\"10.0.0.1\",\"10.0.0.2\"];\nconfig.redisDBIndex = 3;\n\
             module.exports = config;\n"
        );
    }

    #[test]
    fn no_text_ends_before_its_end() {
        let mut file = Js::new("f.js", "auth");
        file.set("a", "'\"\\\n\u{2028}</script>*/");
        let text = file.render().unwrap();
        assert!(text.contains(r#"auth.a = "'\"\\\n\u2028\u003c/script>*/";"#), "{text}");
    }

    #[test]
    fn what_is_no_name_and_what_is_there_already_is_refused() {
        for path in ["", "a.", "a b", "1", "a[0]", "é", "a;b", "__proto__"] {
            let mut file = Js::new("f.js", "config");
            assert!(file.set(path, 1).render().is_err(), "{path}");
        }
        let mut file = Js::new("f.js", "config");
        assert!(file.set("a.b", 1).set("a", json!({})).render().is_err());
    }

    proptest! {
        #[test]
        fn every_text_reads_back(text in "\\PC*|[\\s\\S]{0,40}") {
            let mut file = Js::new("f.js", "config");
            let rendered = file.set("a", text.as_str()).render().unwrap();
            let line = rendered.lines().nth(1).unwrap();
            let value = line.strip_prefix("config.a = ").unwrap().strip_suffix(';').unwrap();
            let is_escaped = !value.contains(['<', '\u{2028}', '\u{2029}']);
            prop_assert!(is_escaped);
            prop_assert_eq!(serde_json::from_str::<Value>(value).unwrap(), json!(text));
        }
    }
}
