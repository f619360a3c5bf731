//! Reading a PKCS #10 request: everything it asks for, and nothing passed over.
//!
//! The encoding has to be DER to the letter; what is read is encoded again before its signature is checked, so what was
//! judged is what was signed.

use std::{collections::BTreeSet, net::IpAddr};

use der::{
    Decode, Encode,
    asn1::ObjectIdentifier,
    oid::{
        AssociatedOid,
        db::{
            rfc4519::{COMMON_NAME, ORGANIZATION_NAME},
            rfc5280::{ID_CE_BASIC_CONSTRAINTS, ID_CE_EXT_KEY_USAGE, ID_CE_KEY_USAGE, ID_CE_SUBJECT_ALT_NAME},
        },
    },
    referenced::OwnedToRef,
};
use x509_cert::{
    ext::{
        Extension,
        pkix::{ExtendedKeyUsage, KeyUsage, SubjectAltName, name::GeneralName},
    },
    request::{CertReq, ExtensionReq},
};

use crate::{
    key::{KeyError, PublicKey},
    member::ORGANISATION,
    name::{DnsName, NameError, shown},
};

/// Most bytes of a request; an honest one has less than two thousand.
pub const LARGEST: usize = 16 * 1024;

/// Why a request is not considered, whoever it is from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsrError {
    /// Too many bytes.
    #[error("the request has {0} bytes, more than 16384")]
    TooLarge(usize),
    /// Not a request.
    #[error("the request cannot be read: {0}")]
    Malformed(String),
    /// The requester does not hold the key.
    #[error("the request is not signed with its own key")]
    Signature,
    /// A key that is too weak or of another kind.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Something else than an extension request among the attributes, or that twice.
    #[error("the request has other attributes than one extension request")]
    Attributes,
    /// The same extension more than once.
    #[error("extension {0} is there twice")]
    Repeated(ObjectIdentifier),
    /// An extension that is not for members to ask for.
    #[error("extension {0} is not for members to ask for")]
    Extension(ObjectIdentifier),
    /// It wants to be an authority.
    #[error("the request asks for the basic constraints of an authority")]
    Authority,
    /// Not organisation and common name.
    #[error("the subject is not an organisation, {ORGANISATION}, and a common name")]
    Subject,
    /// A name in another spelling, or a wildcard.
    #[error("the name {name} {problem}")]
    Name {
        /// The name, escaped.
        name: String,
        /// What is wrong with it.
        problem: NameError,
    },
    /// The same name or address more than once.
    #[error("{0} is asked for twice")]
    RepeatedName(String),
    /// A name that is neither a DNS name nor an address.
    #[error("the request asks for a name that is neither a DNS name nor an address")]
    NameKind,
    /// Bytes that are no address.
    #[error("an address of {0} bytes, or an IPv4 address written as IPv6")]
    Address(usize),
}

/// A request that is sound by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csr {
    /// The key, which the requester holds.
    pub key: PublicKey,
    /// Common name.
    pub common_name: String,
    /// DNS names.
    pub names: BTreeSet<DnsName>,
    /// Addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Key usages.
    pub(crate) usage: Option<KeyUsage>,
    /// Purposes in their order.
    pub(crate) purposes: Vec<ObjectIdentifier>,
}

impl Csr {
    /// Reads a request in PEM (one section, no headers) or DER.
    pub fn read(bytes: &[u8]) -> Result<Self, CsrError> {
        if bytes.len() > LARGEST {
            return Err(CsrError::TooLarge(bytes.len()));
        }
        let request = decode(bytes)?;
        let key = PublicKey::strong(request.info.public_key.clone())?;
        let signed = request.info.to_der().map_err(malformed)?;
        key.verify(&request.algorithm, &signed, &request.signature).map_err(|_| CsrError::Signature)?;
        let mut csr = Self {
            key,
            common_name: common_name(&request)?,
            names: BTreeSet::new(),
            addresses: BTreeSet::new(),
            usage: None,
            purposes: Vec::new(),
        };
        let mut seen = BTreeSet::new();
        for extension in extensions(&request)? {
            if !seen.insert(extension.extn_id) {
                return Err(CsrError::Repeated(extension.extn_id));
            }
            csr.take(&extension)?;
        }
        Ok(csr)
    }

    fn take(&mut self, extension: &Extension) -> Result<(), CsrError> {
        let value = extension.extn_value.as_bytes();
        match extension.extn_id {
            ID_CE_SUBJECT_ALT_NAME => {
                let SubjectAltName(names) = SubjectAltName::from_der(value).map_err(malformed)?;
                names.iter().try_for_each(|name| self.take_name(name))
            }
            ID_CE_KEY_USAGE => {
                self.usage = Some(KeyUsage::from_der(value).map_err(malformed)?);
                Ok(())
            }
            ID_CE_EXT_KEY_USAGE => {
                self.purposes = ExtendedKeyUsage::from_der(value).map_err(malformed)?.0;
                Ok(())
            }
            ID_CE_BASIC_CONSTRAINTS => Err(CsrError::Authority),
            other => Err(CsrError::Extension(other)),
        }
    }

    fn take_name(&mut self, name: &GeneralName) -> Result<(), CsrError> {
        let repeated = match name {
            GeneralName::DnsName(text) => {
                let name = DnsName::parse(text.as_str())
                    .map_err(|problem| CsrError::Name { name: shown(text.as_str()), problem })?;
                (!self.names.insert(name.clone())).then(|| name.to_string())
            }
            GeneralName::IpAddress(bytes) => {
                let address = address(bytes.as_bytes())?;
                (!self.addresses.insert(address)).then(|| address.to_string())
            }
            _ => return Err(CsrError::NameKind),
        };
        repeated.map_or(Ok(()), |name| Err(CsrError::RepeatedName(name)))
    }
}

fn malformed(error: der::Error) -> CsrError {
    CsrError::Malformed(error.to_string())
}

fn decode(bytes: &[u8]) -> Result<CertReq, CsrError> {
    const DER_SEQUENCE: u8 = 0x30;
    if bytes.first() == Some(&DER_SEQUENCE) {
        return CertReq::from_der(bytes).map_err(malformed);
    }
    let (label, der) = der::pem::decode_vec(bytes).map_err(|e| CsrError::Malformed(e.to_string()))?;
    if label != "CERTIFICATE REQUEST" {
        return Err(CsrError::Malformed(format!("a PEM section named {}", shown(label))));
    }
    CertReq::from_der(&der).map_err(malformed)
}

/// The common name of a subject that has the organisation and a common name, in this order, and no more.
fn common_name(request: &CertReq) -> Result<String, CsrError> {
    let mut parts = Vec::new();
    for rdn in request.info.subject.iter_rdn() {
        let mut attributes = rdn.iter();
        let (Some(attribute), None) = (attributes.next(), attributes.next()) else {
            return Err(CsrError::Subject);
        };
        let text = attribute
            .value
            .decode_as::<String>()
            .or_else(|_| attribute.value.decode_as::<der::asn1::PrintableString>().map(|text| text.to_string()))
            .map_err(|_| CsrError::Subject)?;
        parts.push((attribute.oid, text));
    }
    match <[_; 2]>::try_from(parts) {
        Ok([(ORGANIZATION_NAME, organisation), (COMMON_NAME, name)]) if organisation == ORGANISATION => Ok(name),
        _ => Err(CsrError::Subject),
    }
}

/// The extensions asked for by the one attribute a request may have.
fn extensions(request: &CertReq) -> Result<Vec<Extension>, CsrError> {
    let mut attributes = request.info.attributes.iter();
    let (Some(attribute), None) = (attributes.next(), attributes.next()) else {
        return Err(CsrError::Attributes);
    };
    let mut values = attribute.values.iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(CsrError::Attributes);
    };
    if attribute.oid != ExtensionReq::OID {
        return Err(CsrError::Attributes);
    }
    Ok(value.owned_to_ref().decode_as::<ExtensionReq>().map_err(malformed)?.0)
}

fn address(bytes: &[u8]) -> Result<IpAddr, CsrError> {
    let canonical = |address: &IpAddr| address.to_canonical() == *address;
    crate::certificate::address(bytes).filter(canonical).ok_or(CsrError::Address(bytes.len()))
}
