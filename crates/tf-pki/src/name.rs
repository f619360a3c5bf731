//! DNS names in the one spelling that certificates carry.

use std::{fmt, net::IpAddr};

/// Longest name (RFC 1035, 2.3.4, without the final dot).
const LONGEST: usize = 253;
/// Longest label.
const LONGEST_LABEL: usize = 63;

/// A DNS name: lower case, ASCII, no final dot, no wildcard, nothing that reads as an address.
///
/// There is one spelling of each name, so two names are the same exactly when their texts are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsName(String);

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there, or an empty label such as a final dot makes.
    #[error("has an empty label")]
    EmptyLabel,
    /// Longer than DNS takes.
    #[error("is longer than 253 characters or has a label longer than 63")]
    TooLong,
    /// Stands for more than one name.
    #[error("is a wildcard")]
    Wildcard,
    /// Upper case, a control character, anything beyond ASCII.
    #[error("has characters other than lower-case letters, digits and dashes inside labels")]
    Character,
    /// An address, which belongs into an address entry; some clients take such a name for an address.
    #[error("reads as an address")]
    Address,
    /// One of the names by which members know operators, see [`crate::member::OPERATOR_DOMAIN`].
    #[error("is kept for operators")]
    Reserved,
}

impl DnsName {
    /// The name, if it is in its one spelling. Nothing is corrected: who asks for another spelling tries something.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.contains('*') {
            return Err(NameError::Wildcard);
        }
        if text.len() > LONGEST {
            return Err(NameError::TooLong);
        }
        // Clients take a name whose last label is a number for an IPv4 address (WHATWG URL, "ends in a number").
        let last = text.rsplit('.').next().unwrap_or_default();
        if text.parse::<IpAddr>().is_ok() || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(NameError::Address);
        }
        for label in text.split('.') {
            check_label(label)?;
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name lies below `domain`.
    pub fn is_below(&self, domain: &str) -> bool {
        self.0.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    }
}

fn check_label(label: &str) -> Result<(), NameError> {
    if label.is_empty() {
        return Err(NameError::EmptyLabel);
    }
    if label.len() > LONGEST_LABEL {
        return Err(NameError::TooLong);
    }
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !label.bytes().all(inside) || label.starts_with('-') || label.ends_with('-') {
        return Err(NameError::Character);
    }
    Ok(())
}

impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text from outside as messages may show it: escaped, and no longer than a line.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST_SHOWN: usize = 80;
    let cut: String = text.chars().take(LONGEST_SHOWN).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{cut:?}{more}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_spelling_of_a_name_is_taken() {
        for good in ["a", "zk-0", "zk-0.zk.tf.svc.cluster.local", "1a.b2", "xn--mnchen-3ya.de"] {
            assert_eq!(DnsName::parse(good).unwrap().as_str(), good);
        }
        for (bad, why) in [
            ("", NameError::EmptyLabel),
            ("zk-0.", NameError::EmptyLabel),
            (".zk-0", NameError::EmptyLabel),
            ("a..b", NameError::EmptyLabel),
            ("*.zk", NameError::Wildcard),
            ("z*", NameError::Wildcard),
            ("ZK-0", NameError::Character),
            ("zk_0", NameError::Character),
            ("-zk", NameError::Character),
            ("zk-", NameError::Character),
            ("zk 0", NameError::Character),
            ("zk-0\0.evil", NameError::Character),
            ("münchen", NameError::Character),
            ("10.0.0.1", NameError::Address),
            ("::1", NameError::Address),
            ("zk.1", NameError::Address),
        ] {
            assert_eq!(DnsName::parse(bad), Err(why), "{bad:?}");
        }
        assert_eq!(DnsName::parse(&"a".repeat(64)), Err(NameError::TooLong));
        assert_eq!(DnsName::parse(&"abc.".repeat(64)), Err(NameError::TooLong));
    }

    #[test]
    fn a_name_is_below_a_domain_and_not_below_a_part_of_a_label() {
        let name = DnsName::parse("zookeeper.operator.example").unwrap();
        assert!(name.is_below("operator.example"));
        assert!(!name.is_below("erator.example"));
        assert!(!name.is_below("zookeeper.operator.example"));
    }

    proptest! {
        #[test]
        fn messages_show_any_text_on_one_short_line(text in ".*") {
            let shown = shown(&text);
            prop_assert!(!shown.contains(char::is_control));
            prop_assert!(shown.chars().count() <= 80 * 10 + 3);
        }
    }
}
