//! Credentials that are generated once per resource and then kept.

use base64::{Engine, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};
use tf_api::Managed;
use tf_config_files::url;

use crate::{not_ready::NotReady, observed::Observed};

/// Longest text that clients are given, where nobody takes less.
pub const LONGEST: usize = 255;

/// The salt of [`rabbitmq_hash`].
pub type Salt = [u8; 4];

/// How a missing value is made. The runtime draws it from the operating system's randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    /// Letters and digits only, because clients paste credentials into URLs and INI files unquoted
    /// (docs/upstream/files.md#credentials).
    Alphanumeric {
        /// Number of characters.
        length: usize,
    },
    /// Upper-case letters, as Erlang's own cookies are.
    UpperCase {
        /// Number of characters.
        length: usize,
    },
    /// [`rabbitmq_hash`] with a random salt of the value of another key of the same Secret.
    RabbitmqHash {
        /// Key of the password.
        of: &'static str,
    },
}

/// One key of a Secret that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Name of the Secret in the resource's namespace.
    pub secret: String,
    /// Key.
    pub key: &'static str,
    /// How to make it.
    pub generator: Generator,
}

impl Credential {
    /// A credential.
    pub fn new(secret: impl Into<String>, key: &'static str, generator: Generator) -> Self {
        Self { secret: secret.into(), key, generator }
    }

    /// What the Secret has of it, where somebody may have put another one, for clients that take at most `longest` characters, none of which is to
    /// be quoted. `why` they do completes a sentence.
    ///
    /// # Errors
    /// When there is none, or one that clients cannot be given.
    pub fn unquoted<'a, Cr: Managed>(
        &self,
        cr: &Cr,
        observed: &'a Observed<Cr>,
        longest: usize,
        why: &str,
    ) -> Result<&'a str, NotReady> {
        let (key, place) = (self.key, format!("Secret {}/{}", cr.home(), self.secret));
        match observed.secrets.get(&self.secret).and_then(|data| data.get(key)) {
            Some(text) if url::is_safe(text) && text.len() <= longest => Ok(text),
            Some(_) => Err(NotReady::secret(format!(
                "key {key} of {place} has to be 1 to {longest} ASCII letters, digits, `-`, `_` and `.`, because {why}; remove it, and the operator generates another one"
            ))),
            None => Err(NotReady::secret(format!("{place} has no text under the key {key}; add it"))),
        }
    }
}

/// RabbitMQ's `rabbit_password_hashing_sha256`: base64 of salt and SHA-256 of salt and password (RabbitMQ, "Credentials and
/// Passwords").
pub fn rabbitmq_hash(password: &str, salt: Salt) -> String {
    let digest = Sha256::new().chain_update(salt).chain_update(password).finalize();
    BASE64_STANDARD.encode([salt.as_slice(), digest.as_slice()].concat())
}

/// The salt of a text that [`rabbitmq_hash`] could have made; none of any other text.
pub fn rabbitmq_salt(hash: &str) -> Option<Salt> {
    let bytes = BASE64_STANDARD.decode(hash).ok()?;
    let (salt, digest) = bytes.split_first_chunk()?;
    (digest.len() == Sha256::output_size()).then_some(*salt)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of RabbitMQ's documentation.
    const DOCUMENTED: &str = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR";

    #[test]
    fn the_hash_is_the_one_of_rabbitmqs_documentation() {
        assert_eq!(rabbitmq_hash("test12", [0x90, 0x8D, 0xC6, 0x0A]), DOCUMENTED);
        assert_eq!(rabbitmq_salt(DOCUMENTED), Some([0x90, 0x8D, 0xC6, 0x0A]));
    }

    #[test]
    fn what_is_no_hash_has_no_salt() {
        for text in ["", "kI3G", "no base64!", &DOCUMENTED[..44], &format!("{DOCUMENTED}AAAA")] {
            assert_eq!(rabbitmq_salt(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_salt_is_found_again(password in ".*", salt: Salt) {
            prop_assert_eq!(rabbitmq_salt(&rabbitmq_hash(&password, salt)), Some(salt));
        }
    }
}
