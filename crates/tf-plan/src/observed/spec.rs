//! Specs of resources that no operator reconciles, and that others name.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Specs by the names of their resources.
pub type Specs = BTreeMap<String, Spec>;

/// A spec as it is stored. It may have secrets in it, and prints as nothing.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Spec(Value);

impl Spec {
    /// Wraps one.
    pub const fn new(spec: Value) -> Self {
        Self(spec)
    }

    /// The same as a type.
    ///
    /// # Errors
    /// When it is none of that type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.0)
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spec")
    }
}
