//! Stable hashes of desired state.

use serde_json::Value;
use sha2::{Digest, Sha256};
use tf_agent_api::content::frame;

/// Hash of a JSON value, independent of key order: the first 16 hexadecimal digits of SHA-256. Long enough to tell
/// states of one object apart, short enough for a label or an annotation.
pub fn of_value(value: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(&mut hasher, value);
    short(hasher)
}

/// Hash of named contents, independent of their order, in the same form as [`of_value`].
pub fn of_contents<'a>(contents: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut contents: Vec<_> = contents.into_iter().collect();
    contents.sort_unstable();
    let mut hasher = Sha256::new();
    for (name, content) in contents {
        frame(&mut hasher, name.as_bytes());
        frame(&mut hasher, content);
    }
    short(hasher)
}

fn feed(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => {
            hasher.update(b"{");
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort_unstable();
            for key in keys {
                frame(hasher, key.as_bytes());
                feed(hasher, &fields[key]);
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                feed(hasher, item);
            }
            hasher.update(b"]");
        }
        scalar => frame(hasher, scalar.to_string().as_bytes()),
    }
}

fn short(hasher: Sha256) -> String {
    let digest = hasher.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    format!("{:016x}", u64::from_be_bytes(first))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn key_order_does_not_matter() {
        assert_eq!(of_value(&json!({"a": 1, "b": [1, 2]})), of_value(&json!({"b": [1, 2], "a": 1})));
    }

    #[test]
    fn list_order_and_nesting_matter() {
        assert_ne!(of_value(&json!([1, 2])), of_value(&json!([2, 1])));
        assert_ne!(of_value(&json!([[1], 2])), of_value(&json!([1, [2]])));
    }

    proptest! {
        #[test]
        fn moving_a_byte_between_name_and_content_changes_the_hash(name in "[a-z]{1,8}", content in "[a-z]{1,8}") {
            let moved = (&name[..name.len() - 1], format!("{}{content}", &name[name.len() - 1..]));
            prop_assert_ne!(
                of_contents([(name.as_str(), content.as_bytes())]),
                of_contents([(moved.0, moved.1.as_bytes())])
            );
        }
    }
}
