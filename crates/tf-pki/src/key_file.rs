//! Private keys in the files of other programs, which are not always PKCS #8.

use der::{
    Decode as _, Encode as _, Sequence,
    asn1::{AnyRef, BitStringRef, Null, ObjectIdentifier, OctetStringRef},
    oid::db::rfc5912::{ID_EC_PUBLIC_KEY, RSA_ENCRYPTION},
};
use rcgen::KeyPair;
use rustls_pki_types::{PrivateKeyDer, pem::PemObject as _};

/// Why a file is of no use. Nothing of it is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// No key.
    #[error("has no private key in PEM")]
    Missing,
    /// A key that only a person can use.
    #[error("has a key with a passphrase; take it off")]
    Encrypted,
    /// A key that nothing here can use.
    #[error("has no ECDSA key on P-256 or P-384 and no RSA key from 2048 bits")]
    Kind,
}

/// `PrivateKeyInfo` (RFC 5208, 5).
#[derive(Sequence)]
struct Pkcs8<'a> {
    version: u8,
    algorithm: Algorithm<'a>,
    key: &'a OctetStringRef,
}

#[derive(Sequence)]
struct Algorithm<'a> {
    kind: ObjectIdentifier,
    parameters: AnyRef<'a>,
}

/// `ECPrivateKey` (RFC 5915, 3).
#[derive(Sequence)]
struct Sec1<'a> {
    version: u8,
    key: &'a OctetStringRef,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    curve: Option<ObjectIdentifier>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    public: Option<BitStringRef<'a>>,
}

/// The first private key of a PEM file as PKCS #8 in PEM, whether it is that, PKCS #1 or SEC 1.
///
/// # Errors
/// When there is none that certificates here can be for.
pub fn pkcs8(pem: &str) -> Result<String, KeyFileError> {
    if pem.contains("BEGIN ENCRYPTED PRIVATE KEY") || pem.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(KeyFileError::Encrypted);
    }
    let der = match PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| KeyFileError::Missing)? {
        PrivateKeyDer::Pkcs8(key) => key.secret_pkcs8_der().to_vec(),
        PrivateKeyDer::Pkcs1(key) => {
            wrapped(RSA_ENCRYPTION, AnyRef::from(Null), key.secret_pkcs1_der()).map_err(|_| KeyFileError::Kind)?
        }
        PrivateKeyDer::Sec1(key) => from_sec1(key.secret_sec1_der()).map_err(|_| KeyFileError::Kind)?,
        _ => return Err(KeyFileError::Kind),
    };
    let pem = der::pem::encode_string("PRIVATE KEY", der::pem::LineEnding::LF, &der).map_err(|_| KeyFileError::Kind)?;
    KeyPair::from_pem(&pem).map(|_| pem).map_err(|_| KeyFileError::Kind)
}

fn from_sec1(key: &[u8]) -> der::Result<Vec<u8>> {
    let curve = Sec1::from_der(key)?.curve.ok_or(der::ErrorKind::Failed)?.to_der()?;
    wrapped(ID_EC_PUBLIC_KEY, AnyRef::from_der(&curve)?, key)
}

fn wrapped(kind: ObjectIdentifier, parameters: AnyRef<'_>, key: &[u8]) -> der::Result<Vec<u8>> {
    Pkcs8 { version: 0, algorithm: Algorithm { kind, parameters }, key: OctetStringRef::new(key)? }.to_der()
}
