//! YAML files, `cassandra.yaml` first of all.
//!
//! Their readers (SnakeYAML, PyYAML) speak YAML 1.1, where `on`, `no`, `0755`, `12:30:45` or `2001-01-01` without quotes are not
//! strings. `serde-saphyr` quotes strings and keys that any YAML 1.1 or 1.2 reader would take for another type; the tests
//! hold it to that. Long strings are kept on one line: one setting, one line, whoever compares two files.
//!
//! SnakeYAML before 1.18 (Cassandra 3.x carries 1.11) rejects characters beyond U+FFFF anywhere in the file, even in a
//! comment, so such strings are refused: a release must not decide whether a file can be read.

use serde::Serialize;
use serde_json::Value;

use super::{Problem, Refusal, Unrepresentable, json};

/// The value as a YAML document. Fields stand in the order of the struct; use ordered maps.
///
/// # Errors
/// A string or key with a character beyond U+FFFF, named by its path, or a map whose keys are not strings.
pub fn render<T: Serialize>(file: &str, value: &T) -> Result<String, Unrepresentable> {
    let tree = serde_json::to_value(value).map_err(|_| json::not_json(file))?;
    let mut problems = Vec::new();
    check(&tree, "", &mut problems);
    Unrepresentable::unless_empty(file, problems)?;
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options).map_err(|_| json::not_json(file))
}

fn check(value: &Value, path: &str, problems: &mut Vec<Problem>) {
    match value {
        Value::String(text) => check_text(text, path, problems),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(item, &format!("{path}[{index}]"), problems);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                check_text(key, &path, problems);
                check(value, &path, problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether the text has a character that takes a surrogate pair in Java.
fn beyond_basic_plane(text: &str) -> bool {
    text.chars().any(|c| c > '\u{ffff}')
}

fn check_text(text: &str, path: &str, problems: &mut Vec<Problem>) {
    if beyond_basic_plane(text) {
        let refusal = Refusal {
            why: "contains a character beyond U+FFFF, such as an emoji, which older YAML readers reject",
            hint: "choose a value without it",
        };
        problems.push(Problem { section: None, key: path.to_owned(), refusal });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::hostile;
    use super::*;

    #[test]
    fn a_document_keeps_the_order_of_the_struct_and_one_line_a_setting() {
        #[derive(Serialize)]
        struct Cassandra {
            num_tokens: u16,
            cluster_name: &'static str,
            commit_failure_policy: &'static str,
            seed_provider: Vec<Seeds>,
        }
        #[derive(Serialize)]
        struct Seeds {
            class_name: &'static str,
            parameters: Vec<BTreeMap<&'static str, String>>,
        }
        let value = Cassandra {
            num_tokens: 256,
            cluster_name: "0755",
            commit_failure_policy: "stop",
            seed_provider: vec![Seeds {
                class_name: "org.apache.cassandra.locator.SimpleSeedProvider",
                parameters: vec![BTreeMap::from([("seeds", "10.0.0.1,10.0.0.2,".repeat(6))])],
            }],
        };
        let text = render("cassandra.yaml", &value).unwrap();
        let lines: Vec<_> = text.lines().map(|line| line.split_once(':').unwrap_or_default().0).collect();
        assert_eq!(
            lines,
            [
                "num_tokens",
                "cluster_name",
                "commit_failure_policy",
                "seed_provider",
                "- class_name",
                "  parameters",
                "  - seeds"
            ]
        );
        assert!(text.contains("cluster_name: \"0755\"\n"), "{text}");
    }

    #[test]
    fn a_character_beyond_the_basic_plane_is_refused_by_path() {
        let error = render("cassandra.yaml", &json!({"a": [{"b": "ok"}, {"b": "😀"}]})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cassandra.yaml: a[1].b contains a character beyond U+FFFF, such as an emoji, which older YAML readers \
             reject: choose a value without it"
        );
    }

    proptest! {
        #[test]
        fn documents_read_back_as_they_were(document in hostile::document()) {
            match render("f", &document) {
                Ok(text) => {
                    prop_assert!(!beyond_basic_plane(&text));
                    prop_assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), document, "{}", text);
                }
                Err(_) => prop_assert!(beyond_basic_plane(&document.to_string())),
            }
        }

        #[test]
        fn a_message_never_contains_the_value(secret in hostile::secret()) {
            let error = render("f", &json!({"password": secret + "😀"})).unwrap_err();
            prop_assert!(!error.to_string().contains(hostile::MARK));
        }
    }
}
