//! The certificates of a lab: one CA, valid for a year, ECDSA P-256 throughout.
//!
//! etcd is protected too: on a shared machine an open etcd port would make every local user an administrator of the
//! lab, and in the tier with real nodes that means of the machine.

use std::fs;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::folder::{Folder, write_atomically};

/// The CA of one lab.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS#8.
    pub key: String,
}

impl Authority {
    /// A new CA.
    pub fn new() -> Result<Self> {
        let key = KeyPair::generate()?;
        let params = authority()?;
        Ok(Self { certificate: params.self_signed(&key)?.pem(), issuer: Issuer::new(params, key) })
    }

    /// A new CA. Its files are `ca.crt` and `ca.key`.
    pub fn create(folder: &Folder) -> Result<Self> {
        let authority = Self::new()?;
        write_atomically(&folder.pki("ca.crt"), authority.certificate.as_bytes())?;
        write_atomically(&folder.pki("ca.key"), authority.issuer.key().serialize_pem().as_bytes())?;
        Ok(authority)
    }

    /// The CA of a lab that exists, for nodes that are added to it.
    pub fn load(folder: &Folder) -> Result<Self> {
        let read = |file: &str| fs::read_to_string(folder.pki(file)).with_context(|| format!("reading {file}"));
        let key = KeyPair::from_pem(&read("ca.key")?)?;
        // Of its parameters a signature takes the name, the usages and the way key ids are made: none of them vary.
        Ok(Self { certificate: read("ca.crt")?, issuer: Issuer::new(authority()?, key) })
    }

    /// A CA that somebody else made.
    pub fn of(certificate: &str, key: &str) -> Result<Self> {
        let issuer = Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key)?)?;
        Ok(Self { certificate: certificate.to_owned(), issuer })
    }

    /// The CA's certificate, PEM.
    pub fn certificate(&self) -> String {
        self.certificate.clone()
    }

    /// A client certificate for the Kubernetes user `user` in `group`.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = params(user, group)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    /// A certificate for both ends of a connection to a server on one of `addresses` or under one of `names`.
    pub fn server(&self, common_name: &str, addresses: &[IpAddr], names: &[&str]) -> Result<Pair> {
        let mut params = params(common_name, None)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = addresses.iter().copied().map(SanType::IpAddress).collect();
        for name in names {
            params.subject_alt_names.push(SanType::DnsName((*name).try_into().context("DNS name")?));
        }
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Pair> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// Writes `<name>.crt` and `<name>.key`.
pub fn write_pair(folder: &Folder, name: &str, pair: &Pair) -> Result<()> {
    write_atomically(&folder.pki(&format!("{name}.crt")), pair.certificate.as_bytes())?;
    write_atomically(&folder.pki(&format!("{name}.key")), pair.key.as_bytes())
}

/// Writes the key pair that signs ServiceAccount tokens: `sa.key` and `sa.pub`.
pub fn write_service_account_key(folder: &Folder) -> Result<()> {
    let key = KeyPair::generate()?;
    write_atomically(&folder.pki("sa.key"), key.serialize_pem().as_bytes())?;
    write_atomically(&folder.pki("sa.pub"), key.public_key_pem().as_bytes())
}

fn authority() -> Result<CertificateParams> {
    let mut params = params("tf-lab", None)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn params(common_name: &str, organisation: Option<&str>) -> Result<CertificateParams> {
    const HOUR: Duration = Duration::from_hours(1);
    let mut params = CertificateParams::new(Vec::new())?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    params.distinguished_name = name;
    let now = SystemTime::now();
    params.not_before = (now - HOUR).into();
    params.not_after = (now + 365 * 24 * HOUR).into();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}
