//! Which certificate it is, in 32 bytes.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// SHA-256 of some bytes. Written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Its first digits: enough to tell few things apart.
    pub fn short(self, digits: usize) -> String {
        self.to_string().chars().take(digits).collect()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

/// Text that is no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is 64 hexadecimal digits in lower case")]
pub struct NoFingerprint;

impl TryFrom<String> for Fingerprint {
    type Error = NoFingerprint;

    fn try_from(text: String) -> Result<Self, NoFingerprint> {
        let digit =
            |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase()).ok_or(NoFingerprint);
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
            return Err(NoFingerprint);
        };
        let bytes = pairs
            .iter()
            .map(|[high, low]| Ok(digit(*high)? as u8 * 16 + digit(*low)? as u8))
            .collect::<Result<Vec<u8>, NoFingerprint>>()?;
        Ok(Self(bytes.try_into().map_err(|_| NoFingerprint)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let fingerprint = Fingerprint::of(b"a");
        assert_eq!(fingerprint.short(8), "ca978112");
        assert_eq!(Fingerprint::try_from(fingerprint.to_string()), Ok(fingerprint));
        let text = fingerprint.to_string();
        for bad in [&text[1..], &text[2..], &text.to_uppercase(), &text.replace('c', "x"), &format!("{text}00"), ""] {
            assert_eq!(Fingerprint::try_from(bad.to_owned()), Err(NoFingerprint), "{bad}");
        }
    }
}
