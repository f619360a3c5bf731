//! The key by which contrail-named knows contrail-dns when that tells it to read its files (`rndc`).
//!
//! The spec gives one, as with the Go tf-operator, or it is generated once and kept in a Secret of the operator's own. Both daemons of a
//! member have it; nobody else needs it, since they talk over the loopback address.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use tf_api::{Control, Managed as _, contract::Reason, schema::Port};
use tf_plan::{
    build::identity,
    credentials::{Credential, Generator},
    hash,
    not_ready::NotReady,
    observed::Observed,
    secret::SecretData,
};

use crate::daemons;

/// Key of the Secret.
const KEY: &str = "rndckey";
/// Characters of a generated key: a multiple of four of base64's own, so it is base64.
const LENGTH: usize = 32;
/// Longest key that is taken.
const LONGEST: usize = 512;

/// Name of the Secret. With the type in it, since resources of other kinds may have the same name.
pub fn secret(cr: &Control) -> String {
    identity::fit(&format!("{}-control-rndc", cr.title()), 63)
}

/// What has to be in the Secret: nothing where the spec has the key, or no daemon needs one.
pub fn credentials(cr: &Control) -> Vec<Credential> {
    if given(cr).is_some() || !daemons::serves_dns(&cr.spec.service_configuration) {
        return Vec::new();
    }
    vec![Credential::new(secret(cr), KEY, Generator::Alphanumeric { length: LENGTH })]
}

/// The spec's key.
fn given(cr: &Control) -> Option<&str> {
    let key = cr.spec.service_configuration.rndckey.as_ref()?.expose();
    (!key.is_empty()).then_some(key)
}

/// The key of a resource. It has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    text: String,
    is_generated: bool,
}

impl Key {
    /// The spec's, else the one in the Secret.
    ///
    /// # Errors
    /// When there is none yet, or one that the daemons would not take.
    pub fn of(cr: &Control, observed: &Observed<Control>) -> Result<Self, NotReady> {
        if let Some(text) = given(cr) {
            return if is_fit(text) {
                Ok(Self { text: text.to_owned(), is_generated: false })
            } else {
                Err(NotReady::invalid(
                    Reason::InvalidSpec,
                    format!(
                        "serviceConfiguration.rndckey is not 1 to {LONGEST} characters of base64, which the name server wants; \
                         change it, or remove it and one is generated"
                    ),
                ))
            };
        }
        let place = format!("Secret {}/{}", cr.home(), secret(cr));
        match observed.secrets.get(&secret(cr)).and_then(|data| data.get(KEY)) {
            Some(text) if is_fit(text) => Ok(Self { text: text.to_owned(), is_generated: true }),
            Some(_) => Err(NotReady::secret(format!(
                "key {KEY} of {place} is not 1 to {LONGEST} characters of base64, which the name server wants; remove it, and it is \
                 made anew"
            ))),
            None => Err(NotReady::secret(format!("{place} has no text under the key {KEY}; add it"))),
        }
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Content of the Secret, where it is kept there.
    pub fn data(&self) -> Option<SecretData> {
        self.is_generated.then(|| [(KEY.to_owned(), self.text.clone())].into_iter().collect())
    }

    /// What tells files that were made with this key and port from those that were made with others, in 16 bits, which tell nothing of
    /// the key. With it in the names of the files no daemon of a member goes by what the other one made before a change, whichever of them
    /// is the first to be started anew.
    pub fn tag(&self, port: Port) -> String {
        let mut tag = hash::of_contents([("key", self.text.as_bytes()), ("port", port.get().to_string().as_bytes())]);
        tag.truncate(4);
        tag
    }
}

/// The daemon puts it between quotes into the name server's file, and that reads it as base64 (`BIND 9`, key block).
fn is_fit(key: &str) -> bool {
    (1..=LONGEST).contains(&key.len()) && BASE64_STANDARD.decode(key).is_ok()
}
