//! Public keys: which kinds are taken, and the signatures they verify.

use std::fmt;

use der::{
    Decode, Encode, Sequence,
    asn1::{BitString, ObjectIdentifier, UintRef},
    oid::db::rfc5912::{
        ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, ID_EC_PUBLIC_KEY, RSA_ENCRYPTION, SECP_256_R_1, SECP_384_R_1,
        SHA_256_WITH_RSA_ENCRYPTION, SHA_384_WITH_RSA_ENCRYPTION, SHA_512_WITH_RSA_ENCRYPTION,
    },
};
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

/// Shortest RSA modulus of a new certificate, in bits (NIST SP 800-57, 128 bits of security are 3072).
pub const SHORTEST_RSA: usize = 3072;
/// Longest RSA modulus, in bits: what is longer costs time for nothing.
pub const LONGEST_RSA: usize = 8192;

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// RSA with so many bits.
    Rsa(usize),
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::P256 => f.write_str("ECDSA P-256"),
            Self::P384 => f.write_str("ECDSA P-384"),
            Self::Rsa(bits) => write!(f, "RSA {bits}"),
        }
    }
}

/// Why a key is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Another algorithm or curve.
    #[error("keys of the kind {0} are not taken; ECDSA P-256, ECDSA P-384 and RSA from 3072 bits are")]
    Kind(String),
    /// An RSA key with too few or too many bits, or an exponent that is not 65537.
    #[error("an RSA key with {bits} bits and exponent {exponent} is not taken; 3072 to 8192 bits and 65537 are")]
    Rsa {
        /// Bits of the modulus.
        bits: usize,
        /// The exponent; 0 when it is larger than 64 bits.
        exponent: u64,
    },
    /// Not a key.
    #[error("the public key cannot be read")]
    Malformed,
}

/// A signature does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature is not valid")]
pub struct BadSignature;

/// A public key of a kind that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    info: SubjectPublicKeyInfoOwned,
    kind: KeyKind,
}

/// `RSAPublicKey` (RFC 8017, A.1.1).
#[derive(Sequence)]
struct RsaPublicKey<'a> {
    modulus: UintRef<'a>,
    exponent: UintRef<'a>,
}

impl PublicKey {
    /// The key, if its kind is known; nothing is said about its strength.
    pub(crate) fn new(info: SubjectPublicKeyInfoOwned) -> Result<Self, KeyError> {
        let kind = kind(&info)?;
        Ok(Self { info, kind })
    }

    /// The key, if it is good enough for a new certificate.
    pub(crate) fn strong(info: SubjectPublicKeyInfoOwned) -> Result<Self, KeyError> {
        let key = Self::new(info)?;
        match key.kind {
            KeyKind::Rsa(bits) if !(SHORTEST_RSA..=LONGEST_RSA).contains(&bits) => {
                Err(KeyError::Rsa { bits, exponent: exponent(&key.info)? })
            }
            _ => Ok(key),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// As it stands in requests and certificates.
    pub(crate) fn info(&self) -> &SubjectPublicKeyInfoOwned {
        &self.info
    }

    /// The key itself, without its algorithm.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.info.subject_public_key.as_bytes().unwrap_or_default()
    }

    /// Checks a signature that this key is said to have made.
    pub(crate) fn verify(
        &self,
        algorithm: &AlgorithmIdentifierOwned,
        message: &[u8],
        signature: &BitString,
    ) -> Result<(), BadSignature> {
        let scheme = scheme(self.kind, algorithm).ok_or(BadSignature)?;
        let signature = signature.as_bytes().ok_or(BadSignature)?;
        UnparsedPublicKey::new(scheme, self.bytes()).verify(message, signature).map_err(|_| BadSignature)
    }
}

fn kind(info: &SubjectPublicKeyInfoOwned) -> Result<KeyKind, KeyError> {
    let algorithm = &info.algorithm;
    if algorithm.oid == ID_EC_PUBLIC_KEY {
        let curve: ObjectIdentifier =
            algorithm.parameters.as_ref().and_then(|any| any.decode_as().ok()).ok_or(KeyError::Malformed)?;
        return match curve {
            SECP_256_R_1 => Ok(KeyKind::P256),
            SECP_384_R_1 => Ok(KeyKind::P384),
            other => Err(KeyError::Kind(format!("ECDSA on curve {other}"))),
        };
    }
    if algorithm.oid != RSA_ENCRYPTION {
        return Err(KeyError::Kind(algorithm.oid.to_string()));
    }
    if !algorithm.parameters.as_ref().is_some_and(der::Any::is_null) {
        return Err(KeyError::Malformed);
    }
    let bytes = info.subject_public_key.as_bytes().ok_or(KeyError::Malformed)?;
    let key = RsaPublicKey::from_der(bytes).map_err(|_| KeyError::Malformed)?;
    let modulus = key.modulus.as_bytes();
    let unused = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    let bits = modulus.len() * 8 - unused;
    match exponent(info)? {
        65537 => Ok(KeyKind::Rsa(bits)),
        exponent => Err(KeyError::Rsa { bits, exponent }),
    }
}

fn exponent(info: &SubjectPublicKeyInfoOwned) -> Result<u64, KeyError> {
    let bytes = info.subject_public_key.as_bytes().ok_or(KeyError::Malformed)?;
    let key = RsaPublicKey::from_der(bytes).map_err(|_| KeyError::Malformed)?;
    let bytes = key.exponent.as_bytes();
    if bytes.len() > size_of::<u64>() {
        return Ok(0);
    }
    Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// The scheme a signature algorithm names, if a key of this kind can have used it. SHA-1 is not among them.
fn scheme(kind: KeyKind, algorithm: &AlgorithmIdentifierOwned) -> Option<&'static dyn VerificationAlgorithm> {
    let parameters_fit = match (kind, &algorithm.parameters) {
        (KeyKind::Rsa(_), Some(any)) => any.is_null(),
        (KeyKind::Rsa(_), None) => false,
        (_, parameters) => parameters.is_none(),
    };
    if !parameters_fit {
        return None;
    }
    Some(match (kind, algorithm.oid) {
        (KeyKind::P256, ECDSA_WITH_SHA_256) => &signature::ECDSA_P256_SHA256_ASN1,
        (KeyKind::P256, ECDSA_WITH_SHA_384) => &signature::ECDSA_P256_SHA384_ASN1,
        (KeyKind::P384, ECDSA_WITH_SHA_256) => &signature::ECDSA_P384_SHA256_ASN1,
        (KeyKind::P384, ECDSA_WITH_SHA_384) => &signature::ECDSA_P384_SHA384_ASN1,
        (KeyKind::Rsa(_), SHA_256_WITH_RSA_ENCRYPTION) => &signature::RSA_PKCS1_2048_8192_SHA256,
        (KeyKind::Rsa(_), SHA_384_WITH_RSA_ENCRYPTION) => &signature::RSA_PKCS1_2048_8192_SHA384,
        (KeyKind::Rsa(_), SHA_512_WITH_RSA_ENCRYPTION) => &signature::RSA_PKCS1_2048_8192_SHA512,
        _ => return None,
    })
}

/// The algorithm by which the authority's key signs: rcgen's choice for the kind of key.
pub(crate) fn signing_algorithm(kind: KeyKind) -> AlgorithmIdentifierOwned {
    let (oid, parameters) = match kind {
        KeyKind::P256 => (ECDSA_WITH_SHA_256, None),
        KeyKind::P384 => (ECDSA_WITH_SHA_384, None),
        KeyKind::Rsa(_) => (SHA_256_WITH_RSA_ENCRYPTION, Some(der::Any::null())),
    };
    AlgorithmIdentifierOwned { oid, parameters }
}

/// What a structure is hashed or signed over: its encoding.
pub(crate) fn encoded(value: &impl Encode) -> Result<Vec<u8>, der::Error> {
    value.to_der()
}
