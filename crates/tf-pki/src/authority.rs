//! The certificate authority: made, read, and used.

mod encode;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PublicKeyData, SerialNumber, SigningKey,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};

use crate::{
    bundle::Bundle,
    certificate::{Certificate, CertificateError},
    fingerprint::Fingerprint,
    key::{KeyKind, signing_algorithm},
    lifetime::Validity,
    member::{Identity, KeyAndRequest, ORGANISATION, Role},
    review::Approved,
};

/// How far before the present a certificate begins, for clocks that are behind.
pub const BACKDATED: SignedDuration = SignedDuration::from_mins(5);
/// Lifetime of an authority that is generated: ten years, as the Go tf-operator's (docs/upstream/go-operator.md#ca).
pub const AUTHORITY_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);

/// Bytes of a serial number; the first bit is 0 and the second 1, which leaves 126 random bits of the 160 that RFC 5280
/// allows.
const SERIAL: usize = 16;

/// Curve of a generated authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Curve {
    /// P-256: every daemon of Tungsten Fabric takes it.
    #[default]
    P256,
    /// P-384.
    P384,
}

/// An authority with its key.
pub struct Authority {
    chain: Vec<Certificate>,
    key: KeyPair,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("certificate", self.certificate()).finish_non_exhaustive()
    }
}

/// Why a certificate and a key are no authority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// Not certificates.
    #[error("the certificate of the authority: {0}")]
    Certificate(#[from] CertificateError),
    /// No certificate at all.
    #[error("there is no certificate")]
    Missing,
    /// Not a private key.
    #[error("the private key cannot be read: PEM with PKCS #8, PKCS #1 or SEC 1 without a password is taken")]
    Key,
    /// The key of another certificate.
    #[error("the private key is not that of the certificate of {0}")]
    OtherKey(String),
    /// Not a CA.
    #[error("the certificate of {0} is not that of an authority (basic constraints)")]
    NotAnAuthority(String),
    /// A CA that must not sign certificates.
    #[error("the certificate of {0} does not allow its key to sign certificates (key usage)")]
    MayNotSign(String),
    /// Fewer levels below it are allowed than there are.
    #[error("the path length of {0} allows no authority below it")]
    PathLength(String),
    /// Name constraints.
    #[error("the certificate of {0} constrains names; whether members' names fit is not known beforehand")]
    ConstrainsNames(String),
    /// The chain is not one.
    #[error("the certificate of {0} is not issued by the one after it")]
    Chain(String),
    /// The root is missing: not every TLS library trusts an authority that is not one.
    #[error("the certificate of {0} is not self-signed; add its issuers up to the root")]
    NoRoot(String),
    /// Over.
    #[error("the certificate of {0} has expired")]
    Expired(String),
    /// Not begun.
    #[error("the certificate of {0} is not valid yet; is this clock right?")]
    NotYetValid(String),
    /// An RSA key that is too weak.
    #[error("the key of {0} is {1}; RSA needs 2048 bits")]
    Weak(String, String),
}

/// Why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The authority is over, or about to be.
    #[error("the authority is good until {0} only")]
    Over(Timestamp),
    /// The authority begins later: a clock is wrong.
    #[error("the authority is good from {0} only; is this clock right?")]
    NotYet(Timestamp),
    /// The system gives no random bytes.
    #[error("no random bytes")]
    Random,
    /// The key cannot be made or used.
    #[error("the key cannot be made or used: {0}")]
    Key(#[from] rcgen::Error),
    /// Should not happen: an encoding without an end.
    #[error("the certificate cannot be encoded: {0}")]
    Encoding(#[from] der::Error),
    /// Should not happen: what was signed is not what was meant.
    #[error("the certificate is not what was to be signed: {0}")]
    Unsound(String),
}

/// A certificate as it is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The certificate, and those between it and the root, in PEM.
    pub pem: String,
    /// The certificate.
    pub certificate: Certificate,
}

/// A private key with its certificate, for an operator itself.
pub struct Pair {
    /// The private key, PKCS #8 in PEM.
    pub key: String,
    /// The certificate.
    pub issued: Issued,
}

impl Authority {
    /// Makes an authority: self-signed, with no authority below it. Its common name is `name` and the beginning of its key's
    /// fingerprint: two authorities in one bundle differ in name, or some TLS libraries would try the wrong one.
    pub fn generate(name: &str, curve: Curve, lifetime: Duration, now: Timestamp) -> Result<Self, SignError> {
        let algorithm = match curve {
            Curve::P256 => &PKCS_ECDSA_P256_SHA256,
            Curve::P384 => &PKCS_ECDSA_P384_SHA384,
        };
        let key = KeyPair::generate_for(algorithm)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, ORGANISATION);
        let identifier = Fingerprint::of(key.public_key_raw()).short(8);
        let name = crate::member::common_name(&format!("{name} {identifier}"));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.serial_number = Some(SerialNumber::from_slice(&serial()?));
        params.not_before = std::time::SystemTime::from(now - BACKDATED).into();
        params.not_after = std::time::SystemTime::from(now + lifetime).into();
        let certificate = Certificate::from_der(params.self_signed(&key)?.der())
            .map_err(|error| SignError::Unsound(error.to_string()))?;
        Ok(Self { chain: vec![certificate], key })
    }

    /// Reads an authority: its certificate, followed by those above it up to the root if it is not the root itself, and its
    /// private key. Time does not matter here, see [`Self::check`].
    pub fn from_pem(certificates: &str, key: &str) -> Result<Self, AuthorityError> {
        let chain = Certificate::all_from_pem(certificates)?;
        let own = chain.first().ok_or(AuthorityError::Missing)?;
        check_chain(&chain)?;
        let key = read_key(key, own)?;
        if key.subject_public_key_info() != crate::key::encoded(own.key().info()).unwrap_or_default() {
            return Err(AuthorityError::OtherKey(own.subject()));
        }
        Ok(Self { chain, key })
    }

    /// Whether the authority and those above it are good at a time.
    pub fn check(&self, now: Timestamp) -> Result<(), AuthorityError> {
        for certificate in &self.chain {
            if now > certificate.validity().not_after {
                return Err(AuthorityError::Expired(certificate.subject()));
            }
            if now < certificate.validity().not_before {
                return Err(AuthorityError::NotYetValid(certificate.subject()));
            }
        }
        Ok(())
    }

    /// Its certificate.
    pub fn certificate(&self) -> &Certificate {
        // Made with at least one.
        &self.chain[0]
    }

    /// Which authority it is.
    pub fn fingerprint(&self) -> Fingerprint {
        self.certificate().fingerprint()
    }

    /// Its certificate and those above it, in PEM: what [`Self::from_pem`] takes.
    pub fn certificates_pem(&self) -> String {
        self.chain.iter().map(Certificate::pem).collect()
    }

    /// Its private key, PKCS #8 in PEM.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// What members have to trust.
    pub fn bundle(&self) -> Bundle {
        self.chain.iter().cloned().collect()
    }

    /// When it and all above it are good.
    pub fn validity(&self) -> Validity {
        let own = self.certificate().validity();
        self.chain.iter().map(Certificate::validity).fold(own, |common, validity| Validity {
            not_before: common.not_before.max(validity.not_before),
            not_after: common.not_after.min(validity.not_after),
        })
    }

    /// Signs a request that was approved. The certificate begins five minutes before `now` and ends with the lifetime or with
    /// the authority, whichever is first.
    pub fn sign(&self, approved: &Approved, now: Timestamp) -> Result<Issued, SignError> {
        self.issue(approved.identity(), approved.key(), approved.lifetime(), now)
    }

    /// Makes a key and a certificate for an operator, which calls members with it.
    pub fn operator(&self, component: &str, lifetime: Duration, now: Timestamp) -> Result<Pair, SignError> {
        let identity =
            Identity::operator(component, lifetime).map_err(|error| SignError::Unsound(error.to_string()))?;
        let KeyAndRequest { key, request } =
            crate::member::request(&identity).map_err(|error| SignError::Unsound(error.to_string()))?;
        let csr = crate::csr::Csr::read(request.as_bytes()).map_err(|error| SignError::Unsound(error.to_string()))?;
        Ok(Pair { key, issued: self.issue(&identity, &csr.key, lifetime, now)? })
    }

    fn issue(
        &self,
        identity: &Identity,
        key: &crate::key::PublicKey,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Issued, SignError> {
        let validity = self.limit(lifetime, now)?;
        let template = encode::Template { identity, key, validity, serial: serial()?, issuer: self.certificate() };
        let tbs = template.to_be_signed()?;
        let signature = self.key.sign(&tbs)?;
        let der = encode::signed(&tbs, &signing_algorithm(self.certificate().key().kind()), &signature)?;
        let certificate = Certificate::from_der(&der).map_err(|error| SignError::Unsound(error.to_string()))?;
        if !certificate.is_issued_by(self.certificate()) || certificate.key() != key {
            return Err(SignError::Unsound("signature or key differ".into()));
        }
        let between = self.chain.iter().take(self.chain.len() - 1);
        let pem = std::iter::once(&certificate).chain(between).map(Certificate::pem).collect();
        Ok(Issued { pem, certificate })
    }

    fn limit(&self, lifetime: Duration, now: Timestamp) -> Result<Validity, SignError> {
        let own = self.validity();
        if now < own.not_before {
            return Err(SignError::NotYet(own.not_before));
        }
        // What is good for less than the shortest wait cannot be renewed in time.
        if now + crate::lifetime::SHORTEST_WAIT >= own.not_after {
            return Err(SignError::Over(own.not_after));
        }
        Ok(Validity {
            not_before: (now - BACKDATED).max(own.not_before),
            not_after: (now + lifetime).min(own.not_after),
        })
    }
}

fn check_chain(chain: &[Certificate]) -> Result<(), AuthorityError> {
    const SHORTEST_RSA: usize = 2048;
    for (depth, certificate) in chain.iter().enumerate() {
        let subject = || certificate.subject();
        let constraints = certificate.constraints().filter(|constraints| constraints.ca);
        let constraints = constraints.ok_or_else(|| AuthorityError::NotAnAuthority(subject()))?;
        if constraints.path_len_constraint.is_some_and(|length| usize::from(length) < depth) {
            return Err(AuthorityError::PathLength(subject()));
        }
        match certificate.usage() {
            Ok(None) => {}
            Ok(Some(usage)) if usage.key_cert_sign() => {}
            _ => return Err(AuthorityError::MayNotSign(subject())),
        }
        if certificate.constrains_names() {
            return Err(AuthorityError::ConstrainsNames(subject()));
        }
        match certificate.key().kind() {
            KeyKind::Rsa(bits) if bits < SHORTEST_RSA => {
                return Err(AuthorityError::Weak(subject(), certificate.key().kind().to_string()));
            }
            _ => {}
        }
        match chain.get(depth + 1) {
            Some(issuer) if !certificate.is_issued_by(issuer) => return Err(AuthorityError::Chain(subject())),
            None if !certificate.is_issued_by(certificate) => return Err(AuthorityError::NoRoot(subject())),
            _ => {}
        }
    }
    Ok(())
}

/// Reads a private key. PKCS #1 and SEC 1, which older tools write, lack the algorithm; the certificate has it.
fn read_key(pem: &str, certificate: &Certificate) -> Result<KeyPair, AuthorityError> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| AuthorityError::Key)?;
    let pkcs8 = match &key {
        PrivateKeyDer::Pkcs8(key) => key.secret_pkcs8_der().to_vec(),
        older => {
            encode::pkcs8(&certificate.key().info().algorithm, older.secret_der()).map_err(|_| AuthorityError::Key)?
        }
    };
    KeyPair::try_from(pkcs8.as_slice()).map_err(|_| AuthorityError::Key)
}

fn serial() -> Result<[u8; SERIAL], SignError> {
    let mut serial = [0; SERIAL];
    SystemRandom::new().fill(&mut serial).map_err(|_| SignError::Random)?;
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}

/// Purposes and usages are the same for every key kind but this: RSA keys also encipher keys in TLS 1.2.
fn enciphers_keys(kind: KeyKind, role: Role) -> bool {
    role == Role::Member && matches!(kind, KeyKind::Rsa(_))
}
