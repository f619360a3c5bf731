//! The encoding of a leaf certificate (RFC 5280, 4.1).
//!
//! Written here rather than by rcgen, because issuer and key have to be taken over to the letter: rcgen keeps one value of
//! each attribute of a name, and authorities of Active Directory have several domain components.

use std::time::Duration;

use der::{
    Any, Decode, Encode, Sequence,
    asn1::{
        BitString, GeneralizedTime, Ia5String, ObjectIdentifier, OctetString, SetOfVec, UintRef, UtcTime, Utf8StringRef,
    },
    oid::{
        AssociatedOid,
        db::rfc4519::{COMMON_NAME, ORGANIZATION_NAME},
        db::rfc5280::{ID_KP_CLIENT_AUTH, ID_KP_SERVER_AUTH},
    },
};
use jiff::Timestamp;
use x509_cert::{
    attr::AttributeTypeAndValue,
    ext::{
        Extension,
        pkix::{
            AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
            SubjectKeyIdentifier, name::GeneralName,
        },
    },
    name::Name,
    spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned},
    time::Time,
};

use super::enciphers_keys;
use crate::{
    certificate::{Certificate, key_identifier},
    key::{PublicKey, signing_algorithm},
    lifetime::Validity,
    member::{Identity, ORGANISATION, Role},
};

/// All there is to a leaf.
pub(super) struct Template<'a> {
    pub identity: &'a Identity,
    pub key: &'a PublicKey,
    pub validity: Validity,
    pub serial: [u8; super::SERIAL],
    pub issuer: &'a Certificate,
}

/// `TBSCertificate`, version 3.
#[derive(Sequence)]
struct ToBeSigned<'a> {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: u8,
    serial_number: UintRef<'a>,
    signature: AlgorithmIdentifierOwned,
    issuer: Name,
    validity: Times,
    subject: Vec<SetOfVec<AttributeTypeAndValue>>,
    subject_public_key_info: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Vec<Extension>,
}

#[derive(Sequence)]
struct Times {
    not_before: Time,
    not_after: Time,
}

/// `Certificate`.
#[derive(Sequence)]
struct Signed {
    tbs_certificate: Any,
    signature_algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

/// `PrivateKeyInfo` (RFC 5208, 5).
#[derive(Sequence)]
struct PrivateKeyInfo {
    version: u8,
    algorithm: AlgorithmIdentifierOwned,
    private_key: OctetString,
}

impl Template<'_> {
    pub(super) fn to_be_signed(&self) -> der::Result<Vec<u8>> {
        const VERSION_3: u8 = 2;
        ToBeSigned {
            version: VERSION_3,
            serial_number: UintRef::new(&self.serial)?,
            signature: signing_algorithm(self.issuer.key().kind()),
            issuer: self.issuer.parsed().tbs_certificate().subject().clone(),
            validity: Times { not_before: time(self.validity.not_before)?, not_after: time(self.validity.not_after)? },
            subject: vec![
                attribute(ORGANIZATION_NAME, ORGANISATION)?,
                attribute(COMMON_NAME, &self.identity.common_name())?,
            ],
            subject_public_key_info: self.key.info().clone(),
            extensions: self.extensions()?,
        }
        .to_der()
    }

    fn extensions(&self) -> der::Result<Vec<Extension>> {
        let role = self.identity.role();
        let mut usages = KeyUsages::DigitalSignature.into();
        if enciphers_keys(self.key.kind(), role) {
            usages |= KeyUsages::KeyEncipherment;
        }
        let purposes = match role {
            Role::Member => vec![ID_KP_SERVER_AUTH, ID_KP_CLIENT_AUTH],
            Role::Operator => vec![ID_KP_CLIENT_AUTH],
        };
        let authority = AuthorityKeyIdentifier {
            key_identifier: Some(OctetString::new(self.issuer.key_identifier())?),
            ..AuthorityKeyIdentifier::default()
        };
        Ok(vec![
            extension(true, &BasicConstraints { ca: false, path_len_constraint: None })?,
            extension(true, &KeyUsage(usages))?,
            extension(false, &ExtendedKeyUsage(purposes))?,
            extension(false, &SubjectAltName(self.names()?))?,
            extension(false, &SubjectKeyIdentifier(OctetString::new(key_identifier(self.key))?))?,
            extension(false, &authority)?,
        ])
    }

    fn names(&self) -> der::Result<Vec<GeneralName>> {
        let names = self.identity.names().iter().map(|name| Ok(GeneralName::DnsName(Ia5String::new(name.as_str())?)));
        let addresses = self.identity.addresses().iter().map(|address| Ok(GeneralName::from(*address)));
        names.chain(addresses).collect()
    }
}

fn extension<T: AssociatedOid + Encode>(critical: bool, value: &T) -> der::Result<Extension> {
    Ok(Extension { extn_id: T::OID, critical, extn_value: OctetString::new(value.to_der()?)? })
}

fn attribute(oid: ObjectIdentifier, value: &str) -> der::Result<SetOfVec<AttributeTypeAndValue>> {
    let value = Any::from(Utf8StringRef::new(value)?);
    SetOfVec::try_from(vec![AttributeTypeAndValue { oid, value }])
}

/// A whole second, in the form that RFC 5280 wants for its year.
fn time(timestamp: Timestamp) -> der::Result<Time> {
    let seconds = u64::try_from(timestamp.as_second()).unwrap_or_default();
    let since_epoch = Duration::from_secs(seconds);
    // Until 2049 the short form, which ends there.
    UtcTime::from_unix_duration(since_epoch)
        .map(Time::UtcTime)
        .or_else(|_| GeneralizedTime::from_unix_duration(since_epoch).map(Time::GeneralTime))
}

/// A certificate of what was signed.
pub(super) fn signed(tbs: &[u8], algorithm: &AlgorithmIdentifierOwned, signature: &[u8]) -> der::Result<Vec<u8>> {
    Signed {
        tbs_certificate: Any::from_der(tbs)?,
        signature_algorithm: algorithm.clone(),
        signature: BitString::from_bytes(signature)?,
    }
    .to_der()
}

/// A private key in an older encoding as PKCS #8.
pub(super) fn pkcs8(algorithm: &AlgorithmIdentifierOwned, key: &[u8]) -> der::Result<Vec<u8>> {
    PrivateKeyInfo { version: 0, algorithm: algorithm.clone(), private_key: OctetString::new(key)? }.to_der()
}
