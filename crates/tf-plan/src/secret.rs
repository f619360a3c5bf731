//! Secret content inside a plan: readable by planners, invisible to anything that prints.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// Data of a Secret. `Debug` shows the keys only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretData(BTreeMap<String, String>);

impl SecretData {
    /// The value of a key, if it exists and is text.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The text of a key, if there is any.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|text| !text.is_empty())
    }

    /// Sets a key.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, String)> for SecretData {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(pairs: T) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::SecretData;

    #[test]
    fn debug_output_has_keys_and_no_values() {
        let data: SecretData = [("password".to_owned(), "s3cr3t".to_owned())].into_iter().collect();
        assert_eq!(format!("{data:?}"), r#"{"password"}"#);
    }
}
