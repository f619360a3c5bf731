//! Which of the stored files are a member's, and the hash that names them.
//!
//! Operators and `tf-node` both use these functions, so both mean the same by the annotation
//! [`tf_api::names::ANNOTATION_ACTIVE_CONFIG`]: every file of the member, whichever daemon of the pod reads it, as it is
//! stored. A template counts with its placeholders, so that a hash is the same for all nodes of a DaemonSet.

use std::{collections::BTreeMap, fmt, net::IpAddr, net::Ipv4Addr, net::Ipv6Addr, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::node::TEMPLATE_SUFFIX;

/// Length of a [`ContentHash`] in hexadecimal digits.
const DIGITS: usize = 32;

/// Names a set of files: SHA-256 over names and contents, cut to 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash(String);

/// A text that is no [`ContentHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not 32 hexadecimal digits in lower case")]
pub struct NotAHash;

impl ContentHash {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ContentHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for ContentHash {
    type Error = NotAHash;

    fn try_from(text: String) -> Result<Self, NotAHash> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == DIGITS && text.bytes().all(is_digit) { Ok(Self(text)) } else { Err(NotAHash) }
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> Self {
        hash.0
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The hash of a member's files. Every name and content is preceded by its length, so no two sets run into each other.
pub fn content_hash<B: AsRef<[u8]>>(files: &BTreeMap<String, B>) -> ContentHash {
    let mut hasher = Sha256::new();
    for (name, content) in files {
        frame(&mut hasher, name.as_bytes());
        frame(&mut hasher, content.as_ref());
    }
    let mut text = String::with_capacity(DIGITS);
    for byte in hasher.finalize().iter().take(DIGITS / 2) {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    ContentHash(text)
}

/// Where a file is stored. The order is that of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volume {
    /// In the Secret.
    Secret,
    /// In the ConfigMap.
    Config,
}

/// Whose a stored file is. The order is that of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// One member's.
    Member(IpAddr),
    /// A template for every node ([`crate::template`]).
    Template,
    /// Everybody's.
    Shared,
}

/// A stored file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// Where.
    pub volume: Volume,
    /// Under which key.
    pub key: &'a str,
    /// Whose.
    pub scope: Scope,
}

/// File name and owner that a key stands for. So no name of a file may end like an address or with `.node`.
pub fn parse_key(key: &str) -> (&str, Scope) {
    let split = |dots: usize| {
        let (at, _) = key.rmatch_indices('.').nth(dots - 1)?;
        (at > 0).then(|| (&key[..at], &key[at + 1..]))
    };
    if let Some((file, suffix)) = split(4)
        && let Ok(address) = suffix.parse::<Ipv4Addr>()
    {
        return (file, Scope::Member(address.into()));
    }
    match split(1) {
        Some((file, TEMPLATE_SUFFIX)) => (file, Scope::Template),
        // Colons are not allowed in keys: `key` writes dashes.
        Some((file, suffix)) => match suffix.replace('-', ":").parse::<Ipv6Addr>() {
            Ok(address) => (file, Scope::Member(address.into())),
            Err(_) => (key, Scope::Shared),
        },
        None => (key, Scope::Shared),
    }
}

/// Key of a member's file. Colons of IPv6 addresses are not allowed in keys and become dashes, which no address has.
pub fn key(file: &str, address: &str) -> String {
    format!("{file}.{}", address.replace(':', "-"))
}

/// The files of the member with this address, by name: of several keys for one file the preferred one.
pub fn of_member<'a>(
    secret: impl IntoIterator<Item = &'a str>,
    config: impl IntoIterator<Item = &'a str>,
    address: IpAddr,
) -> BTreeMap<&'a str, Stored<'a>> {
    let secret = secret.into_iter().map(|key| (Volume::Secret, key));
    let config = config.into_iter().map(|key| (Volume::Config, key));
    let mut files: BTreeMap<&str, Stored<'_>> = BTreeMap::new();
    for (volume, key) in secret.chain(config) {
        let (file, scope) = parse_key(key);
        if matches!(scope, Scope::Member(owner) if owner != address) {
            continue;
        }
        let stored = Stored { volume, key, scope };
        let best = files.entry(file).or_insert(stored);
        if (volume, scope) < (best.volume, best.scope) {
            *best = stored;
        }
    }
    files
}

/// Length-prefixed, so that neighbours cannot run into each other.
pub fn frame(hasher: &mut Sha256, bytes: &[u8]) {
    hasher.update((bytes.len() as u64).to_be_bytes());
    hasher.update(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys<'a>(files: &BTreeMap<&'a str, Stored<'a>>) -> Vec<(&'a str, &'a str)> {
        files.iter().map(|(file, stored)| (*file, stored.key)).collect()
    }

    #[test]
    fn the_secret_wins_and_in_each_volume_the_members_own_file() {
        let config =
            ["a.10.0.0.1", "a", "b", "b.node", "c.10.0.0.1", "c.10.0.0.2", "zoo.cfg", "zoo.cfg.dynamic.10.0.0.1"];
        let files = of_member(["a"], config, "10.0.0.1".parse().unwrap());
        let expected = [
            ("a", "a"),
            ("b", "b.node"),
            ("c", "c.10.0.0.1"),
            ("zoo.cfg", "zoo.cfg"),
            ("zoo.cfg.dynamic", "zoo.cfg.dynamic.10.0.0.1"),
        ];
        assert_eq!(keys(&files), expected);
        assert_eq!(files["a"].volume, Volume::Secret);
    }

    #[test]
    fn keys_of_ipv6_members_are_valid_and_distinct() {
        assert_eq!(key("zoo.cfg", "fd00::1"), "zoo.cfg.fd00--1");
        assert_ne!(key("f", "fd00:0:1::"), key("f", "fd00::0:1"));
        assert!(key("f", "fd00::1").bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)));
    }

    #[test]
    fn names_that_only_look_like_an_address_are_everybodys() {
        for key in ["a", "a.1.2.3", ".1.2.3.4", "a.300.0.0.1", "a.b-c", "1.2.3.4", "contrail-api.conf", "a.node.b"] {
            assert_eq!(parse_key(key), (key, Scope::Shared), "{key}");
        }
    }

    #[test]
    fn a_hash_is_32_hexadecimal_digits_and_stays_what_it_was() {
        let files = BTreeMap::from([("a".to_owned(), b"1".to_vec()), ("b".to_owned(), Vec::new())]);
        // Computed by Python's hashlib over the same bytes.
        assert_eq!(content_hash(&files).as_str(), "8d792d649dace668665ca2144af26489");
        for bad in ["", "4d55", "4D55D26EBCDD5B6DEE39D1A9F4B43A5B", "4d55d26ebcdd5b6dee39d1a9f4b43a5g"] {
            assert_eq!(bad.parse::<ContentHash>(), Err(NotAHash));
        }
    }

    proptest! {
        #[test]
        fn what_operators_store_for_a_member_is_found_by_it_and_by_no_other(
            file in "[a-z][a-z.]{0,8}[a-z]", one: IpAddr, other: IpAddr,
        ) {
            // An IPv4 address in IPv6 clothes is not what Kubernetes reports for a node.
            prop_assume!(one != other && [one, other].iter().all(|a| !a.to_string().contains(":ffff:") && file != "node"));
            prop_assume!(![one, other].iter().any(|a| a.is_ipv6() && a.to_string().contains('.')));
            let key = key(&file, &one.to_string());
            prop_assert_eq!(keys(&of_member([], [key.as_str()], one)), [(file.as_str(), key.as_str())]);
            prop_assert!(of_member([], [key.as_str()], other).is_empty());
        }

        #[test]
        fn different_sets_have_different_hashes(
            one in prop::collection::btree_map("[ab]{0,3}", "[ab]{0,3}", 0..3),
            other in prop::collection::btree_map("[ab]{0,3}", "[ab]{0,3}", 0..3),
        ) {
            prop_assert_eq!(one == other, content_hash(&one) == content_hash(&other));
            prop_assert_eq!(content_hash(&one).as_str().parse(), Ok(content_hash(&one)));
        }
    }
}
