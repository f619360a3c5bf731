//! What TLS to a service needs where that is not the cluster's own: the connection Secret that a spec names may hold certificates that the service's
//! own is checked against, and what it is shown. Members get both as files beside their own, and a daemon's configuration names either these or those.

use std::fmt;

use tf_agent_api::node;
use tf_pki::{
    certificate::{Certificate, CertificateError},
    key_file,
};

use crate::{connection::Connection, secret::SecretData};

/// Key of a connection Secret with the certificates that a service's own is checked against.
pub const CA: &str = "ca.crt";
/// Key with the certificate that a service is shown, as in Secrets of the type `kubernetes.io/tls`.
pub const CERTIFICATE: &str = "tls.crt";
/// Key with the private key of that.
pub const KEY: &str = "tls.key";

/// Services that may have something of their own, as files are called after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Service {
    /// The database of the configuration.
    #[default]
    Cassandra,
    /// The database of analytics.
    AnalyticsCassandra,
    /// The message bus.
    Rabbitmq,
    /// Redis.
    Redis,
    /// Kafka.
    Kafka,
    /// The config API.
    Config,
    /// Collectors, and the API of analytics.
    Analytics,
}

/// A certificate and its key, in PEM. `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, and those between it and its authority.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pair")
    }
}

/// What a service has of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalTls {
    service: Service,
    /// Certificates that the service's own is checked against, in PEM, if not the cluster's.
    pub ca: Option<String>,
    /// What it is shown, if not the member's own.
    pub pair: Option<Pair>,
}

/// A file that members get for it.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// Its name in [`node::RUN_DIR`].
    pub name: String,
    /// What is in it.
    pub content: String,
    /// Whether it is a secret.
    pub is_secret: bool,
}

impl ExternalTls {
    /// What a connection says of a service.
    pub fn of(service: Service, connection: &Connection) -> Self {
        let given = |key| connection.credentials.text(key).map(str::to_owned);
        let pair = given(CERTIFICATE).zip(given(KEY)).map(|(certificate, key)| Pair { certificate, key });
        Self { service, ca: given(CA), pair }
    }

    /// Name of the file with the certificates that the service's own is checked against, if not the cluster's.
    pub fn ca_file(&self) -> Option<String> {
        self.ca.as_ref().map(|_| self.ca_name())
    }

    /// Path of the certificates that the service's own is checked against.
    pub fn trust(&self) -> String {
        path(self.ca_file(), node::CA_BUNDLE)
    }

    /// Path of the certificate that it is shown.
    pub fn certificate(&self) -> String {
        path(self.pair.is_some().then(|| self.certificate_name()), node::CERTIFICATE)
    }

    /// Path of the key of that.
    pub fn key(&self) -> String {
        path(self.pair.is_some().then(|| self.key_name()), node::CERTIFICATE_KEY)
    }

    /// The files that members get.
    pub fn files(&self) -> Vec<File> {
        let file = |name, content: &String, is_secret| File { name, content: content.clone(), is_secret };
        let ca = self.ca.iter().map(|ca| file(self.ca_name(), ca, false));
        let pair = self.pair.iter().flat_map(|pair| {
            let certificate = file(self.certificate_name(), &pair.certificate, false);
            [certificate, file(self.key_name(), &pair.key, true)]
        });
        ca.chain(pair).collect()
    }

    fn ca_name(&self) -> String {
        self.name("ca.crt")
    }

    fn certificate_name(&self) -> String {
        self.name("client.crt")
    }

    fn key_name(&self) -> String {
        self.name("client.key")
    }

    fn name(&self, of: &str) -> String {
        let service: &str = self.service.into();
        format!("{service}-{of}")
    }
}

/// Path of a file where there is one, else of the member's own.
pub(crate) fn path(file: Option<String>, own: &str) -> String {
    file.map_or_else(|| own.to_owned(), |file| format!("{}/{file}", node::RUN_DIR))
}

/// What of a Secret is used. `shows`: whether daemons show the service anything of it.
pub fn used(secret: &SecretData, shows: bool) -> SecretData {
    let is_used = |key: &str| shows || ![CERTIFICATE, KEY].contains(&key);
    secret.iter().filter(|(key, _)| is_used(key)).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Looks whether daemons could use what is used of a Secret.
///
/// # Errors
/// Which key has what is of no use, and what to do. Nothing of a key is quoted.
pub fn check(used: &SecretData) -> Result<(), String> {
    if let Some(authorities) = used.text(CA) {
        first(authorities).map_err(|why| {
            format!("key {CA} is {why}; put the authority of the service's certificate there, or remove the key")
        })?;
    }
    let (certificate, key) = match (used.text(CERTIFICATE), used.text(KEY)) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) => return Ok(()),
        (None, Some(_)) => return Err(format!("there is a key {KEY} and no {CERTIFICATE}; add it, or remove both")),
        (Some(_), None) => return Err(format!("there is a key {CERTIFICATE} and no {KEY}; add it, or remove both")),
    };
    let shown = first(certificate)
        .map_err(|why| format!("key {CERTIFICATE} is {why}; put the certificate there that the service is shown"))?;
    let key = key_file::pkcs8(key).map_err(|why| format!("key {KEY} {why}"))?;
    if shown.is_some_and(|shown| !shown.is_for_key(&key)) {
        return Err(format!("the private key in {KEY} is not that of the certificate in {CERTIFICATE}"));
    }
    Ok(())
}

/// The first certificate of a text, which has to be one; none if its key is of a kind that only daemons may know.
fn first(text: &str) -> Result<Option<Certificate>, CertificateError> {
    match Certificate::first_from_pem(text) {
        Err(CertificateError::Key(_)) => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use tf_pki::authority::{Authority, Curve};

    use super::*;

    fn authority() -> Authority {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50);
        Authority::generate("outer", Curve::P256, SignedDuration::from_hours(24).unsigned_abs(), now).unwrap()
    }

    fn secret(keys: &[(&str, &str)]) -> SecretData {
        keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_key_that_cannot_be_used_is_named_and_nothing_of_its_content() {
        let (ours, other) = (authority(), authority());
        let (certificate, key) = (ours.certificates_pem(), ours.key_pem());
        let of_other = other.key_pem();
        for (keys, named) in [
            (vec![(CA, "no certificate")], "key ca.crt is not a certificate in PEM"),
            (vec![(CA, &*key)], "key ca.crt is not a certificate in PEM"),
            (vec![(CERTIFICATE, &*certificate)], "there is a key tls.crt and no tls.key"),
            (vec![(KEY, &*key)], "there is a key tls.key and no tls.crt"),
            (vec![(CERTIFICATE, &*key), (KEY, &*key)], "key tls.crt is not a certificate in PEM"),
            (vec![(CERTIFICATE, &*certificate), (KEY, "s3cret")], "key tls.key has no private key in PEM"),
            (vec![(CERTIFICATE, &*certificate), (KEY, &*of_other)], "the private key in tls.key is not that of"),
        ] {
            let why = check(&secret(&keys)).unwrap_err();
            assert!(why.starts_with(named) && !why.contains("s3cret") && !why.contains("BEGIN"), "{why}");
        }
        let whole = secret(&[(CA, &certificate), (CERTIFICATE, &certificate), (KEY, &key)]);
        assert_eq!((check(&whole), check(&SecretData::default())), (Ok(()), Ok(())));
        let without = used(&whole, false);
        assert_eq!((without.get(CA), without.get(CERTIFICATE), without.get(KEY)), (Some(&*certificate), None, None));
    }

    #[test]
    fn files_are_called_after_the_service_and_keys_are_secret() {
        let credentials = secret(&[(CA, "a"), (CERTIFICATE, "c"), (KEY, "k")]);
        let external_tls =
            ExternalTls::of(Service::AnalyticsCassandra, &Connection { credentials, ..Connection::default() });
        let files = external_tls.files().into_iter().map(|file| (file.name, file.content, file.is_secret));
        let named = |name: &str, content: &str, is_secret| (name.to_owned(), content.to_owned(), is_secret);
        assert_eq!(
            files.collect::<Vec<_>>(),
            [
                named("analytics-cassandra-ca.crt", "a", false),
                named("analytics-cassandra-client.crt", "c", false),
                named("analytics-cassandra-client.key", "k", true),
            ]
        );
        assert_eq!(external_tls.trust(), format!("{}/analytics-cassandra-ca.crt", node::RUN_DIR));
        let own = ExternalTls::default();
        assert_eq!(own.trust(), node::CA_BUNDLE);
        assert_eq!((&*own.certificate(), &*own.key()), (node::CERTIFICATE, node::CERTIFICATE_KEY));
        assert!(own.files().is_empty());
    }
}
