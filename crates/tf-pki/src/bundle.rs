//! What members trust: a set of authorities, in the order they were added.

use std::collections::BTreeSet;

use crate::{
    certificate::{Certificate, CertificateError},
    fingerprint::Fingerprint,
};

/// Certificates of authorities, none of them twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle(Vec<Certificate>);

impl Bundle {
    /// Reads a PEM file; text and other sections between the certificates are passed over, private keys with them.
    pub fn from_pem(pem: &str) -> Result<Self, CertificateError> {
        Ok(Certificate::all_from_pem(pem)?.into_iter().collect())
    }

    /// The bundle in PEM; the same bundle is always the same text.
    pub fn pem(&self) -> String {
        self.0.iter().map(Certificate::pem).collect()
    }

    /// This bundle and after it what only `other` has.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        self.0.iter().chain(&other.0).cloned().collect()
    }

    /// The certificates.
    pub fn certificates(&self) -> &[Certificate] {
        &self.0
    }

    /// Which certificates they are.
    pub fn fingerprints(&self) -> BTreeSet<Fingerprint> {
        self.0.iter().map(Certificate::fingerprint).collect()
    }

    /// The authority of the bundle that issued a certificate.
    pub fn issuer_of(&self, certificate: &Certificate) -> Option<&Certificate> {
        self.0.iter().find(|authority| certificate.is_issued_by(authority))
    }
}

impl FromIterator<Certificate> for Bundle {
    fn from_iter<T: IntoIterator<Item = Certificate>>(certificates: T) -> Self {
        let mut seen = BTreeSet::new();
        Self(certificates.into_iter().filter(|certificate| seen.insert(certificate.fingerprint())).collect())
    }
}
