//! Small schema-bearing value types shared by the kinds.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A TCP or UDP port number, 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Port(pub u16);

impl Port {
    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Port {
    fn schema_name() -> Cow<'static, str> {
        "Port".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 1, "maximum": 65535})
    }
}

/// Text that must not be seen: a password, key or token that the spec gives in clear. It is stored and sent as plain
/// text, and prints as nothing, so that it cannot reach a log, an event or a status by way of `Debug`. There is no
/// `Display`; [`Sensitive::expose`] is the one way to the value. At most 4096 characters.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sensitive(String);

impl Sensitive {
    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for the Secret or file it belongs into.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sensitive")
    }
}

impl JsonSchema for Sensitive {
    fn schema_name() -> Cow<'static, str> {
        "Sensitive".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": 4096})
    }
}

/// A CEL rule for `x-kubernetes-validations`. The message says what to do.
pub fn rule(expression: &str, message: &str) -> Value {
    json!({ "rule": expression, "message": message })
}

/// The rule that the values of `list`, a CEL expression for a short list such as `[self.port, self.cqlPort]`, differ
/// from each other.
pub fn distinct(list: &str, message: &str) -> Value {
    rule(&format!("({list}).all(p, ({list}).exists_one(q, q == p))"), message)
}

/// The rule that two spellings of one setting do not contradict each other.
pub fn same_setting(misspelt: &str, right: &str) -> Value {
    rule(
        &format!("!has(self.{misspelt}) || !has(self.{right}) || self.{misspelt} == self.{right}"),
        &format!("{misspelt} is an old spelling of {right}; set {right} only"),
    )
}

/// The rule that a text is an IPv4 or IPv6 address, or empty.
pub fn address() -> Value {
    rule("self == '' || isIP(self)", "give one IPv4 or IPv6 address, for example 10.0.0.1 or fd00::1")
}

/// The rule that a text is a list of addresses separated by commas, or empty.
pub fn addresses() -> Value {
    rule(
        "self == '' || self.split(',').all(a, isIP(a.trim()))",
        "give IPv4 or IPv6 addresses separated by commas, for example 10.0.0.1,10.0.1.1",
    )
}

/// The rule that a text is an IPv4 or IPv6 subnet, or empty. Host bits may be set.
pub fn subnet() -> Value {
    rule(
        "self == '' || isCIDR(self)",
        "give one IPv4 or IPv6 subnet with its prefix length, for example 10.0.0.0/24 or fd00::/64",
    )
}

/// The rule that a text is a list of subnets separated by commas or blanks, or empty.
pub fn subnets() -> Value {
    rule(
        "self.replace(' ', ',').split(',').all(s, s == '' || isCIDR(s))",
        "give IPv4 or IPv6 subnets with their prefix lengths, separated by commas, for example 10.32.0.0/12,fd00::/64",
    )
}
