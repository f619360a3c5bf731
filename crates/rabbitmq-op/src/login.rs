//! What clients log in with, and where it comes from.
//!
//! The operator's own Secret, `<name>-secret` as the Go tf-operator's, holds user, password and virtual host: generated ones,
//! those of a user who edited it, or those of the spec, which win. The spec may name another Secret instead; then that one
//! decides, and the operator's own keeps only the hash of the password and the cookie. Clients paste all three into URLs
//! without quoting (docs/upstream/files.md#credentials), so what would not survive that is refused here, before anybody gets it.

use tf_agent_api::rabbitmq;
use tf_api::{Managed, Rabbitmq, contract::Reason, schema::Sensitive};
use tf_config_files::url;
use tf_plan::{
    credentials::{Credential, Generator, rabbitmq_hash, rabbitmq_salt},
    not_ready::NotReady,
    observed::Observed,
    secret::SecretData,
};

/// Key of the user's name; the Go tf-operator's, as the following three.
pub const USER: &str = "user";
/// Key of the password.
pub const PASSWORD: &str = "password";
/// Key of the virtual host.
pub const VHOST: &str = "vhost";
/// Key of the password's hash, whose salt is kept when the password changes.
pub const HASH: &str = "salted_password";
/// Key of the Erlang cookie.
pub const COOKIE: &str = "erlang_cookie";
/// Key of the password by which node agents ask their servers.
pub const AGENT_PASSWORD: &str = "agent_password";
/// Key of its hash.
pub const AGENT_HASH: &str = "agent_salted_password";

/// Longest user, password or virtual host, the limit of the spec's schema.
const LONGEST: usize = 255;

/// What clients log in with.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Name of the Secret that clients read it from.
    pub secret: String,
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
    /// Virtual host.
    pub vhost: String,
    /// Hash of the password as RabbitMQ stores it.
    pub hash: String,
    /// Password of the node agents.
    pub agent_password: String,
    /// Its hash.
    pub agent_hash: String,
}

/// Name of the operator's own Secret.
pub fn own_secret(cr: &Rabbitmq) -> String {
    format!("{}-secret", cr.title())
}

/// Name of the Secret that the spec names, unless it is the operator's own.
pub fn foreign_secret(cr: &Rabbitmq) -> Option<&str> {
    given(cr.spec.service_configuration.secret.as_deref()).filter(|name| *name != own_secret(cr))
}

/// A text of the spec. Empty ones are as good as none, as with the Go tf-operator.
pub fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// What has to be in the operator's own Secret.
pub fn credentials(cr: &Rabbitmq) -> Vec<Credential> {
    let secret = own_secret(cr);
    let credential = |key, generator| Credential::new(secret.clone(), key, generator);
    let mut credentials = match foreign_secret(cr) {
        Some(_) => Vec::new(),
        None => vec![
            credential(USER, Generator::Alphanumeric { length: 8 }),
            credential(PASSWORD, Generator::Alphanumeric { length: 32 }),
            credential(VHOST, Generator::Alphanumeric { length: 8 }),
        ],
    };
    credentials.push(credential(HASH, Generator::RabbitmqHash { of: PASSWORD }));
    credentials.push(credential(COOKIE, Generator::UpperCase { length: 32 }));
    credentials.push(credential(AGENT_PASSWORD, Generator::Alphanumeric { length: 32 }));
    credentials.push(credential(AGENT_HASH, Generator::RabbitmqHash { of: AGENT_PASSWORD }));
    credentials
}

impl Login {
    /// What clients log in with, by spec and Secrets.
    ///
    /// # Errors
    /// When the Secret of the spec is missing, or a value is missing or not fit for a URL.
    pub fn of(cr: &Rabbitmq, observed: &Observed<Rabbitmq>) -> Result<Self, NotReady> {
        let own = own_secret(cr);
        let stored = observed.secrets.get(&own);
        let source = match foreign_secret(cr) {
            None => Source { cr, secret: &own, data: stored, spec_counts: true },
            Some(name) => Source {
                cr,
                secret: name,
                data: Some(observed.secrets.get(name).ok_or_else(|| absent(cr, name))?),
                spec_counts: false,
            },
        };
        let spec = &cr.spec.service_configuration;
        let user = source.value(USER, spec.user.as_deref(), url::is_safe);
        let password = source.value(PASSWORD, spec.password.as_ref().map(Sensitive::expose), url::is_safe);
        let vhost = source.value(VHOST, spec.vhost.as_deref(), url::is_safe_vhost);
        let (user, password, vhost) = (user?, password?, vhost?);
        if user == rabbitmq::USER {
            return Err(NotReady::invalid(
                Reason::InvalidSpec,
                format!(
                    "clients cannot be called {user}, as the node agents are; choose another user in {}",
                    source.place()
                ),
            ));
        }
        let salt = |key| {
            stored.and_then(|data| rabbitmq_salt(data.get(key)?)).ok_or_else(|| {
                NotReady::secret(format!(
                    "key {key} of Secret {}/{own} is no password hash of RabbitMQ; remove it, and the operator generates another one",
                    cr.home()
                ))
            })
        };
        let agent_password = stored.and_then(|data| data.get(AGENT_PASSWORD)).unwrap_or_default();
        Ok(Self {
            hash: rabbitmq_hash(password, salt(HASH)?),
            agent_hash: rabbitmq_hash(agent_password, salt(AGENT_HASH)?),
            agent_password: agent_password.to_owned(),
            secret: source.secret.to_owned(),
            user: user.to_owned(),
            password: password.to_owned(),
            vhost: vhost.to_owned(),
        })
    }

    /// Content of the operator's own Secret.
    pub fn own_data(&self, cr: &Rabbitmq, cookie: &str) -> SecretData {
        let mut data = SecretData::default();
        if foreign_secret(cr).is_none() {
            data.insert(USER, &self.user);
            data.insert(PASSWORD, &self.password);
            data.insert(VHOST, &self.vhost);
        }
        data.insert(HASH, &self.hash);
        data.insert(COOKIE, cookie);
        data.insert(AGENT_PASSWORD, &self.agent_password);
        data.insert(AGENT_HASH, &self.agent_hash);
        data
    }

    /// What clients find in the connection Secret.
    pub fn connection(&self) -> SecretData {
        let mut data = SecretData::default();
        data.insert("username", &self.user);
        data.insert("password", &self.password);
        data.insert("vhost", &self.vhost);
        data
    }
}

/// Fields of the spec that have no effect because it names a Secret.
pub fn ignored(cr: &Rabbitmq) -> Vec<String> {
    let Some(secret) = foreign_secret(cr) else { return Vec::new() };
    let spec = &cr.spec.service_configuration;
    let password = spec.password.as_ref().map(Sensitive::expose);
    [(USER, spec.user.as_deref()), (PASSWORD, password), (VHOST, spec.vhost.as_deref())]
        .into_iter()
        .filter(|(_, value)| given(*value).is_some())
        .map(|(field, _)| format!("spec.serviceConfiguration.{field}: Secret {secret}, which the spec names, decides"))
        .collect()
}

/// Where values come from.
struct Source<'a> {
    cr: &'a Rabbitmq,
    secret: &'a str,
    data: Option<&'a SecretData>,
    spec_counts: bool,
}

impl<'a> Source<'a> {
    fn place(&self) -> String {
        format!("Secret {}/{}", self.cr.home(), self.secret)
    }

    fn value(&self, key: &str, spec: Option<&'a str>, is_safe: fn(&str) -> bool) -> Result<&'a str, NotReady> {
        let allowed = if is_safe("/") { ", or it has to be /" } else { "" };
        let rule = format!(
            "has to be 1 to {LONGEST} ASCII letters, digits, `-`, `_` and `.`{allowed}, because clients put it into URLs \
             as it is"
        );
        let fits = |value: &str| is_safe(value) && value.len() <= LONGEST;
        if let Some(value) = given(spec).filter(|_| self.spec_counts) {
            return if fits(value) {
                Ok(value)
            } else {
                Err(NotReady::invalid(Reason::InvalidSpec, format!("serviceConfiguration.{key} {rule}")))
            };
        }
        let place = self.place();
        match self.data.and_then(|data| data.get(key)) {
            None => Err(NotReady::secret(format!("{place} has no text under the key {key}; add it"))),
            Some(value) if fits(value) => Ok(value),
            Some(_) => Err(NotReady::secret(format!("key {key} of {place} {rule}"))),
        }
    }
}

fn absent(cr: &Rabbitmq, name: &str) -> NotReady {
    NotReady::input(
        Reason::SecretNotFound,
        format!(
            "Secret {}/{name} does not exist; create it with the keys {USER}, {PASSWORD} and {VHOST}, or remove \
             serviceConfiguration.secret to have credentials made",
            cr.home()
        ),
    )
}
