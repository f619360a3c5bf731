//! The password that all clients of all members log in with, and the one that members log in with at each other.
//!
//! It is generated once and kept in a Secret of the operator's own, where somebody may put another one. Clients of Tungsten Fabric get
//! it by INI files and JavaScript, so only what needs no quotes anywhere is taken.

use tf_api::{Managed as _, Redis, kinds::RedisMode};
use tf_plan::{
    build::identity,
    credentials::{Credential, Generator, LONGEST},
    not_ready::NotReady,
    observed::Observed,
    secret::SecretData,
};

/// Key of the password, in the Secret and in what clients connect with.
pub const PASSWORD: &str = "password";

/// Key of the password of the members, which clients are not given.
const PEERS: &str = "peer-password";

/// Name of the Secret. With the type in it, since resources of other kinds may have the same name.
pub fn secret(cr: &Redis) -> String {
    identity::fit(&format!("{}-redis-password", cr.title()), 63)
}

/// What has to be in the Secret.
pub fn credentials(cr: &Redis) -> Vec<Credential> {
    match cr.spec.service_configuration.mode.unwrap_or_default() {
        RedisMode::Independent => vec![credential(cr, PASSWORD)],
        RedisMode::Sentinel => vec![credential(cr, PASSWORD), credential(cr, PEERS)],
    }
}

fn credential(cr: &Redis, key: &'static str) -> Credential {
    Credential::new(secret(cr), key, Generator::Alphanumeric { length: 32 })
}

/// The password of a resource.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// The clients', which is in the Secret.
    ///
    /// # Errors
    /// When there is none, or one that clients cannot be given.
    pub fn of(cr: &Redis, observed: &Observed<Redis>) -> Result<Self, NotReady> {
        Self::at(PASSWORD, cr, observed)
    }

    /// The members'.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn of_peers(cr: &Redis, observed: &Observed<Redis>) -> Result<Self, NotReady> {
        Self::at(PEERS, cr, observed)
    }

    fn at(key: &'static str, cr: &Redis, observed: &Observed<Redis>) -> Result<Self, NotReady> {
        let password = credential(cr, key).unquoted(cr, observed, LONGEST, "clients put it into files as it is")?;
        Ok(Self(password.to_owned()))
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Content of the Secret, and what clients find in the connection Secret.
    pub fn data(&self) -> SecretData {
        let mut data = SecretData::default();
        data.insert(PASSWORD, &self.0);
        data
    }

    /// Content of the Secret where members have one of their own.
    pub fn with_peers(&self, peers: Option<&Self>) -> SecretData {
        let mut data = self.data();
        if let Some(peers) = peers {
            data.insert(PEERS, &peers.0);
        }
        data
    }
}
