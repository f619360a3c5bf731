//! Certificates as facts: what one says, read once.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use der::{
    Decode, Encode,
    oid::db::rfc5280::{ID_KP_CLIENT_AUTH, ID_KP_SERVER_AUTH},
};
use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use sha2::{Digest, Sha256};
use x509_cert::ext::pkix::{
    BasicConstraints, ExtendedKeyUsage, KeyUsage, NameConstraints, SubjectAltName, SubjectKeyIdentifier,
    name::GeneralName,
};

use crate::{
    fingerprint::Fingerprint,
    key::{BadSignature, KeyError, PublicKey},
    lifetime::Validity,
    member::OPERATOR_DOMAIN,
    name::DnsName,
};

/// Why a certificate is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Not a certificate in PEM.
    #[error("not a certificate in PEM: {0}")]
    Pem(String),
    /// Not a certificate.
    #[error("not a certificate: {0}")]
    Malformed(String),
    /// A key of a kind that is not known here.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// A certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Vec<u8>,
    parsed: x509_cert::Certificate,
    key: PublicKey,
    validity: Validity,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("subject", &self.subject())
            .field("fingerprint", &self.fingerprint())
            .finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads one certificate.
    pub fn from_der(bytes: &[u8]) -> Result<Self, CertificateError> {
        let parsed = x509_cert::Certificate::from_der(bytes).map_err(|e| CertificateError::Malformed(e.to_string()))?;
        let tbs = parsed.tbs_certificate();
        let key = PublicKey::new(tbs.subject_public_key_info().clone())?;
        let time = |time: x509_cert::time::Time| {
            Timestamp::try_from(time.to_system_time()).map_err(|e| CertificateError::Malformed(e.to_string()))
        };
        let validity =
            Validity { not_before: time(tbs.validity().not_before)?, not_after: time(tbs.validity().not_after)? };
        Ok(Self { der: bytes.to_vec(), key, validity, parsed })
    }

    /// Reads all certificates of a PEM file in their order. Other sections and text between them are passed over.
    pub fn all_from_pem(pem: &str) -> Result<Vec<Self>, CertificateError> {
        CertificateDer::pem_slice_iter(pem.as_bytes())
            .map(|section| Self::from_der(&section.map_err(|e| CertificateError::Pem(format!("{e:?}")))?))
            .collect()
    }

    /// Reads the first certificate of a PEM file: the holder's own, when a chain follows.
    pub fn first_from_pem(pem: &str) -> Result<Self, CertificateError> {
        Self::all_from_pem(pem)?.into_iter().next().ok_or_else(|| CertificateError::Pem("there is none".into()))
    }

    /// The encoding.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The certificate in PEM, lines of 64 characters.
    pub fn pem(&self) -> String {
        // Cannot fail for a label that is one and bytes that exist.
        der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, &self.der).unwrap_or_default()
    }

    /// Which certificate it is.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.der)
    }

    /// When it is good.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The subject for people (RFC 4514).
    pub fn subject(&self) -> String {
        self.parsed.tbs_certificate().subject().to_string()
    }

    /// Its key.
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// DNS names it is good for; entries in another spelling than [`DnsName`]'s are left out.
    pub fn names(&self) -> BTreeSet<DnsName> {
        let dns = |name: &GeneralName| match name {
            GeneralName::DnsName(name) => DnsName::parse(name.as_str()).ok(),
            _ => None,
        };
        self.alternative_names().iter().filter_map(dns).collect()
    }

    /// Addresses it is good for.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let address = |name: &GeneralName| match name {
            GeneralName::IpAddress(bytes) => address(bytes.as_bytes()),
            _ => None,
        };
        self.alternative_names().iter().filter_map(address).collect()
    }

    fn alternative_names(&self) -> Vec<GeneralName> {
        match self.parsed.tbs_certificate().get_extension() {
            Ok(Some((_, SubjectAltName(names)))) => names,
            _ => Vec::new(),
        }
    }

    /// The component whose operator holds the certificate, if an operator does. Trust in the issuer is checked elsewhere.
    pub fn operator(&self) -> Option<String> {
        self.names()
            .iter()
            .find_map(|name| name.as_str().strip_suffix(OPERATOR_DOMAIN)?.strip_suffix('.').map(str::to_owned))
    }

    /// Whether `issuer` signed it and is named as its issuer.
    pub fn is_issued_by(&self, issuer: &Self) -> bool {
        let names_fit = self.parsed.tbs_certificate().issuer() == issuer.parsed.tbs_certificate().subject();
        names_fit && self.verify(issuer).is_ok()
    }

    /// Whether its holder may be a server and a client of TLS. One that names no usages may be everything.
    pub fn serves_both_roles(&self) -> bool {
        let roles = match self.parsed.tbs_certificate().get_extension() {
            Ok(Some((_, ExtendedKeyUsage(usages)))) => {
                [ID_KP_SERVER_AUTH, ID_KP_CLIENT_AUTH].iter().all(|role| usages.contains(role))
            }
            Ok(None) => true,
            Err(_) => false,
        };
        roles && self.usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.digital_signature()))
    }

    /// Whether it is for a private key (PKCS #8 in PEM).
    pub fn is_for_key(&self, key: &str) -> bool {
        let (Ok(key), Ok(own)) = (KeyPair::from_pem(key), crate::key::encoded(self.key.info())) else {
            return false;
        };
        key.subject_public_key_info() == own
    }

    fn verify(&self, issuer: &Self) -> Result<(), BadSignature> {
        if self.parsed.tbs_certificate().signature() != self.parsed.signature_algorithm() {
            return Err(BadSignature);
        }
        let message = self.parsed.tbs_certificate().to_der().map_err(|_| BadSignature)?;
        issuer.key.verify(self.parsed.signature_algorithm(), &message, self.parsed.signature())
    }

    pub(crate) fn parsed(&self) -> &x509_cert::Certificate {
        &self.parsed
    }

    /// Basic constraints; `None` when there are none or they cannot be read.
    pub(crate) fn constraints(&self) -> Option<BasicConstraints> {
        self.parsed.tbs_certificate().get_extension().ok().flatten().map(|(_, value)| value)
    }

    /// Key usages; `Ok(None)` when every use is allowed.
    pub(crate) fn usage(&self) -> Result<Option<KeyUsage>, der::Error> {
        Ok(self.parsed.tbs_certificate().get_extension()?.map(|(_, value)| value))
    }

    /// Whether it limits the names of what it issues.
    pub(crate) fn constrains_names(&self) -> bool {
        !matches!(self.parsed.tbs_certificate().get_extension::<NameConstraints>(), Ok(None))
    }

    /// Identifier of its key: as the certificate says, or as RFC 7093 makes it.
    pub(crate) fn key_identifier(&self) -> Vec<u8> {
        match self.parsed.tbs_certificate().get_extension::<SubjectKeyIdentifier>() {
            Ok(Some((_, identifier))) => identifier.0.as_bytes().to_vec(),
            _ => key_identifier(&self.key),
        }
    }
}

/// The address of an entry for one; none of a wrong number of bytes.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(v4), _) => Some(v4.into()),
        (_, Ok(v6)) => Some(v6.into()),
        _ => None,
    }
}

/// RFC 7093, 2, method 1: the leftmost 160 bits of the key's SHA-256.
pub(crate) fn key_identifier(key: &PublicKey) -> Vec<u8> {
    Sha256::digest(key.bytes()).iter().take(20).copied().collect()
}
