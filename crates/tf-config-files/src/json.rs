//! JSON files: CNI configuration and RabbitMQ definitions.

use serde::Serialize;

use super::{Problem, Refusal, Unrepresentable};

/// The value as indented JSON with a final line break. Fields stand in the order of the struct; use ordered maps.
///
/// # Errors
/// When the value has a map whose keys are not strings.
pub fn render<T: Serialize>(file: &str, value: &T) -> Result<String, Unrepresentable> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => Ok(text + "\n"),
        Err(_) => Err(not_json(file)),
    }
}

pub(super) fn not_json(file: &str) -> Unrepresentable {
    Unrepresentable {
        file: file.to_owned(),
        problems: vec![Problem {
            section: None,
            key: String::new(),
            refusal: Refusal {
                why: "the document has a value that the format does not know",
                hint: "use maps with text keys",
            },
        }],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn fields_keep_the_order_of_the_struct() {
        #[derive(Serialize)]
        struct Network {
            #[serde(rename = "cniVersion")]
            version: &'static str,
            name: &'static str,
            a: [u8; 1],
        }
        let text = render("10-tf-cni.conf", &Network { version: "0.3.1", name: "tf", a: [1] }).unwrap();
        assert_eq!(text, "{\n  \"cniVersion\": \"0.3.1\",\n  \"name\": \"tf\",\n  \"a\": [\n    1\n  ]\n}\n");
    }

    #[test]
    fn a_map_without_text_keys_is_refused() {
        let error = render("definitions.json", &BTreeMap::from([((1, 2), 3)])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "definitions.json: the document has a value that the format does not know: use maps with text keys"
        );
    }
}
