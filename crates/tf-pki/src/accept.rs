//! Whether a member may use a certificate it was handed: the last look before the one in use is replaced.

use jiff::Timestamp;

use crate::{
    bundle::Bundle,
    certificate::{Certificate, CertificateError},
    lifetime::Age,
    member::Identity,
};

/// Why a certificate is not to be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Not a certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Nothing there.
    #[error("there is no certificate")]
    Missing,
    /// It is for another key.
    #[error("the certificate is for another key")]
    OtherKey,
    /// It lacks a name.
    #[error("the certificate lacks {0}")]
    Lacks(String),
    /// Not issued by an authority that members trust.
    #[error("the certificate is not issued by an authority of the bundle")]
    Untrusted,
    /// Over, or not begun by this clock.
    #[error("the certificate is good from {from} until {until}; now is {now}")]
    NotNow {
        /// First second.
        from: Timestamp,
        /// Last second.
        until: Timestamp,
        /// This clock.
        now: Timestamp,
    },
}

/// Checks a certificate (PEM, with those between it and the root) for a key (PKCS #8 in PEM) and gives it back.
pub fn accept(
    certificates: &str,
    key: &str,
    identity: &Identity,
    bundle: &Bundle,
    now: Timestamp,
) -> Result<Certificate, Unfit> {
    let chain = Certificate::all_from_pem(certificates)?;
    let own = chain.first().ok_or(Unfit::Missing)?;
    if !own.is_for_key(key) {
        return Err(Unfit::OtherKey);
    }
    let (names, addresses) = (own.names(), own.addresses());
    let lacking = identity.names().difference(&names).map(ToString::to_string);
    if let Some(name) = lacking.chain(identity.addresses().difference(&addresses).map(ToString::to_string)).next() {
        return Err(Unfit::Lacks(name));
    }
    if !is_trusted(&chain, bundle) {
        return Err(Unfit::Untrusted);
    }
    let validity = own.validity();
    match validity.age(identity.name(), now) {
        Age::NotYetValid | Age::Expired => {
            Err(Unfit::NotNow { from: validity.not_before, until: validity.not_after, now })
        }
        Age::Fresh | Age::Due | Age::Overdue => Ok(own.clone()),
    }
}

/// Whether each is issued by the next up to one that an authority of the bundle issued.
fn is_trusted(chain: &[Certificate], bundle: &Bundle) -> bool {
    for (position, certificate) in chain.iter().enumerate() {
        if bundle.issuer_of(certificate).is_some() {
            return true;
        }
        if !chain.get(position + 1).is_some_and(|issuer| certificate.is_issued_by(issuer)) {
            return false;
        }
    }
    false
}
