//! Who may log in: whoever Keystone knows, or else one user.
//!
//! Name and password of that user are those that the spec has for Keystone's administrator, as with the Go tf-operator
//! (docs/upstream/go-operator.md#keystone). That one had the same password for every installation where the spec has none; here one is generated, and
//! kept in a Secret of the operator's own.

use tf_api::{Managed as _, Webui, contract::Reason, schema::Sensitive};
use tf_plan::{
    build::identity,
    credentials::{Credential, Generator},
    keystone::{self, Keystone},
    not_ready::NotReady,
    observed::Observed,
    secret::SecretData,
};

/// Name of the one user, where the spec has none.
const USER: &str = "admin";
/// Characters of a generated password.
const LENGTH: usize = 32;

/// Who may log in.
#[derive(Clone, Debug, PartialEq)]
pub enum Login {
    /// Whoever Keystone knows.
    Keystone(Box<Keystone>),
    /// One user.
    Static {
        /// Name.
        user: String,
        /// Password.
        password: Sensitive,
        /// Whether it is kept in the operator's own Secret.
        is_generated: bool,
    },
}

/// Name of the Secret with a generated password. With the type in it, since resources of other kinds may have the same name.
pub fn secret(cr: &Webui) -> String {
    identity::fit(&format!("{}-webui-login", cr.title()), 63)
}

/// What has to be in the Secret: nothing where Keystone is asked, or the spec has a password or names one.
pub fn credentials(cr: &Webui) -> Vec<Credential> {
    let auth = cr.spec.common_configuration.auth_parameters.as_ref();
    if keystone::is_used(auth) || inline(cr).is_some() || named(cr).is_some() {
        return Vec::new();
    }
    vec![Credential::new(secret(cr), keystone::PASSWORD, Generator::Alphanumeric { length: LENGTH })]
}

/// The Secret of somebody else's that holds the password.
pub fn referenced(cr: &Webui) -> Option<&str> {
    named(cr).filter(|_| inline(cr).is_none())
}

impl Login {
    /// What the spec says, with passwords out of the Secrets it names.
    ///
    /// # Errors
    /// When there is no password, or one that cannot be used.
    pub fn of(cr: &Webui, observed: &Observed<Webui>) -> Result<Self, NotReady> {
        let auth = cr.spec.common_configuration.auth_parameters.as_ref();
        if let Some(keystone) = Keystone::let_in(cr, observed)? {
            return Ok(Self::Keystone(Box::new(keystone)));
        }
        let parameters = auth.and_then(|auth| auth.keystone_auth_parameters.as_ref());
        let user = parameters.and_then(|parameters| parameters.admin_username.as_deref());
        let user = user.filter(|user| !user.is_empty()).unwrap_or(USER).to_owned();
        if let Some(password) = inline(cr) {
            return Ok(Self::Static { user, password: password.clone(), is_generated: false });
        }
        let name = named(cr).map_or_else(|| secret(cr), str::to_owned);
        let stored = observed.secrets.get(&name).and_then(|data| data.get(keystone::PASSWORD));
        let Some(password) = stored.filter(|password| !password.is_empty()) else {
            let message = format!(
                "Secret {}/{name} has no text under the key {}, the password of the web UI's user; add it",
                cr.home(),
                keystone::PASSWORD
            );
            return Err(NotReady::input(Reason::SecretNotFound, message));
        };
        Ok(Self::Static { user, password: Sensitive::new(password), is_generated: named(cr).is_none() })
    }

    /// Keystone, if it knows the users.
    pub fn keystone(&self) -> Option<&Keystone> {
        match self {
            Self::Keystone(keystone) => Some(keystone),
            Self::Static { .. } => None,
        }
    }

    /// Content of the operator's own Secret, where the password is kept there.
    pub fn kept(&self) -> Option<SecretData> {
        match self {
            Self::Static { password, is_generated: true, .. } => {
                Some([(keystone::PASSWORD.to_owned(), password.expose().to_owned())].into_iter().collect())
            }
            _ => None,
        }
    }
}

fn inline(cr: &Webui) -> Option<&Sensitive> {
    let auth = cr.spec.common_configuration.auth_parameters.as_ref()?;
    let password = auth.keystone_auth_parameters.as_ref()?.admin_password.as_ref()?;
    (!password.expose().is_empty()).then_some(password)
}

fn named(cr: &Webui) -> Option<&str> {
    let auth = cr.spec.common_configuration.auth_parameters.as_ref()?;
    auth.keystone_secret_name.as_deref().filter(|name| !name.is_empty())
}
