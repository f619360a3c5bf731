//! A module of JavaScript as far as configuration files are one: `var config = {};`, assignments of literals to its members, one a line, and
//! `module.exports = config;`. Everything else ends the program, which would run it.

use serde_json::{Map, Value};

use crate::exit::{Exit, exception};

/// What a module exports.
///
/// # Errors
/// What ends the program. No value is quoted.
pub fn read(text: &str) -> Result<Value, Exit> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let object = lines
        .next()
        .and_then(|(_, line)| line.strip_prefix("var ")?.strip_suffix(" = {};"))
        .filter(|object| is_name(object))
        .ok_or_else(|| exception("SyntaxError: line 1: no object is declared"))?;
    let mut exported = Value::Object(Map::new());
    for (number, line) in lines.by_ref() {
        let syntax = || exception(format!("SyntaxError: line {number}: no assignment"));
        let statement = line.strip_suffix(';').ok_or_else(syntax)?;
        if statement == format!("module.exports = {object}") {
            return match lines.next() {
                None => Ok(exported),
                Some((number, _)) => Err(exception(format!("SyntaxError: line {number}: something follows the end"))),
            };
        }
        let (path, value) = statement.split_once(" = ").ok_or_else(syntax)?;
        let path = path.strip_prefix(object).and_then(|path| path.strip_prefix('.')).ok_or_else(syntax)?;
        // What ends a line for older engines, also inside a text.
        if value.contains(['\u{2028}', '\u{2029}']) {
            return Err(exception(format!("SyntaxError: line {number}: a text does not end")));
        }
        let value = serde_json::from_str(value).map_err(|_| syntax())?;
        assign(&mut exported, path, value).ok_or_else(|| exception(format!("TypeError: line {number}: {path}")))?;
    }
    Err(exception("SyntaxError: nothing is exported"))
}

/// Assigns to a member of what is there already.
fn assign(object: &mut Value, path: &str, value: Value) -> Option<()> {
    let mut names: Vec<&str> = path.split('.').collect();
    let last = names.pop()?;
    let mut place = object;
    for name in names {
        place = place.get_mut(name).filter(|_| is_name(name))?;
    }
    place.as_object_mut().filter(|_| is_name(last))?.insert(last.to_owned(), value);
    Some(())
}

fn is_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.chars().all(plain) && name.starts_with(|first: char| first.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn assignments_make_an_object() {
        let text = "var config = {};\nconfig.a = {};\nconfig.a.b = [\"1\",2];\nconfig.c = \"'\\\";\\u2028\";\nmodule.exports = config;\n";
        assert_eq!(read(text).unwrap(), json!({"a": {"b": ["1", 2]}, "c": "'\";\u{2028}"}));
    }

    #[test]
    fn everything_else_ends_it_and_is_not_quoted() {
        for line in [
            "config.a = 'hunter2';",
            "config.a = \"hunter2\"",
            "config.a = hunter2();",
            "config.a.b = \"hunter2\";",
            "config.a = \"hunter2\"; process.exit();",
            "other.a = \"hunter2\";",
            "config[\"a\"] = \"hunter2\";",
            "config.a = \"hunter2\u{2028}\";",
            "// hunter2",
            "",
        ] {
            let exit = read(&format!("var config = {{}};\n{line}\nmodule.exports = config;\n")).unwrap_err();
            assert!(exit.code == 1 && !exit.why.contains("hunter2"), "{line}: {}", exit.why);
        }
        for text in ["", "var config = {};\n", "var config = {};\nmodule.exports = config;\nconfig.a = 1;\n"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_stands_there_is_an_object_or_an_end(text in "(var config = \\{\\};\n)?\\PC*") {
            let _ = read(&text);
        }
    }
}
