//! Finding secret values where they must not be.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// A secret value, as it may be found in a text: as it is, as URLs write it, and as base64 writes what it is a part of.
pub struct Value(BTreeSet<String>);

impl Value {
    /// Everything that gives this value away.
    pub fn new(value: &str) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let escape = |hex: fn(u8) -> String| {
            let each = value.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { hex(byte) });
            each.collect::<String>()
        };
        let mut forms = BTreeSet::from([
            value.to_owned(),
            escape(|byte| format!("%{byte:02X}")),
            escape(|byte| format!("%{byte:02x}")),
        ]);
        for before in 0..3 {
            // Three bytes become four characters: those at the ends depend on the neighbours, too.
            let padded = [&vec![0; before], value.as_bytes()].concat();
            let own = if before == 0 { 0 } else { 4 };
            let whole = padded.len() / 3 * 4;
            let encoded = STANDARD.encode(&padded);
            forms.insert(encoded[own..whole].to_owned());
        }
        Self(forms)
    }

    /// Whether a text gives it away.
    pub fn is_in(&self, text: &str) -> bool {
        self.0.iter().any(|form| text.contains(form))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_whatever_it_was_encoded_with() {
        let text = "pass+word%of/8";
        let value = Value::new(text);
        for text in [format!("url amqp://u:{text}@h"), "pass%2Bword%25of%2F8".into(), "pass%2bword%25of%2f8".into()] {
            assert!(value.is_in(&text), "{text}");
        }
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "z", "zy", "zyx"] {
                assert!(value.is_in(&STANDARD.encode(format!("{before}{text}{after}"))), "{before} {after}");
            }
        }
        assert!(!value.is_in(&STANDARD.encode("another password")) && value.0.iter().all(|form| form.len() >= 12));
    }
}
