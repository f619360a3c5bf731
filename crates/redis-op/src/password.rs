//! The password that all clients of all members log in with, and the one that members log in with at each other.
//!
//! It is generated once and kept in a Secret of the operator's own, where somebody may put another one. Clients of Tungsten Fabric get
//! it by INI files and JavaScript, so only what needs no quotes anywhere is taken.

use tf_api::{Managed, Redis, kinds::RedisMode};
use tf_plan::{
    build::identity,
    credentials::{Credential, Generator},
    files::url,
    observed::Observed,
    plan::NotReady,
    secret::SecretData,
};

/// Key of the password, in the Secret and in what clients connect with.
pub const PASSWORD: &str = "password";

/// Key of the password of the members, which clients are not given.
const PEERS: &str = "peer-password";

/// Longest password, as for other credentials of clients.
const LONGEST: usize = 255;

/// Name of the Secret. With the type in it, since resources of other kinds may have the same name.
pub fn secret(cr: &Redis) -> String {
    identity::fit(&format!("{}-redis-password", cr.title()), 63)
}

/// What has to be in the Secret.
pub fn credentials(cr: &Redis) -> Vec<Credential> {
    let generated = |key| Credential::new(secret(cr), key, Generator::Alphanumeric { length: 32 });
    match cr.spec.service_configuration.mode.unwrap_or_default() {
        RedisMode::Independent => vec![generated(PASSWORD)],
        RedisMode::Sentinel => vec![generated(PASSWORD), generated(PEERS)],
    }
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

    fn at(key: &str, cr: &Redis, observed: &Observed<Redis>) -> Result<Self, NotReady> {
        let place = || format!("Secret {}/{}", cr.home(), secret(cr));
        let stored = observed.secrets.get(&secret(cr)).and_then(|data| data.get(key));
        match stored {
            Some(password) if url::is_safe(password) && password.len() <= LONGEST => Ok(Self(password.to_owned())),
            Some(_) => Err(NotReady::secret(format!(
                "key {key} of {} has to be 1 to {LONGEST} ASCII letters, digits, `-`, `_` and `.`, because clients put it \
                 into files as it is; remove it, and it is made anew",
                place()
            ))),
            None => Err(NotReady::secret(format!("{} has no text under the key {key}; add it", place()))),
        }
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
