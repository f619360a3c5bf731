//! Credentials that are generated once per resource and then kept.

/// How a missing value is made. The runtime draws it from the operating system's randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    /// Letters and digits only, because clients paste credentials into URLs and INI files unquoted
    /// (tf-components 1.3).
    Alphanumeric {
        /// Number of characters.
        length: usize,
    },
    /// Upper-case letters, as Erlang's own cookies are.
    UpperCase {
        /// Number of characters.
        length: usize,
    },
    /// RabbitMQ's `rabbit_password_hashing_sha256` of the value of another key of the same Secret: base64 of a random
    /// 4-byte salt followed by SHA-256 of salt and password.
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
}
