//! PKCS #12 stores for Java daemons.
//!
//! Salts and initialisation vectors are random, so two stores of the same content differ: whoever writes them compares the
//! content they were made of, not the bytes. Encryption is PBES2 with AES-256, what Java writes itself since version 18;
//! Java 8 reads it from 8u301 on.

use p12_keystore::{
    Certificate as StoredCertificate, KeyStore, KeyStoreEntry, Pkcs12ImportPolicy, PrivateKey, PrivateKeyChain,
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};

use crate::{
    bundle::Bundle,
    certificate::{Certificate, CertificateError},
};

/// Alias of the member's key.
pub const KEY_ALIAS: &str = "member";
/// Digits of a fingerprint that are an authority's alias: tells which it is and stays when others come and go.
const AUTHORITY_ALIAS: usize = 16;
/// Rounds of key derivation, for the encryption and for the integrity code (Java's own default).
const ITERATIONS: u32 = 10_000;
/// Shortest password that keytool opens a store with.
const SHORTEST_PASSWORD: usize = 6;

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The key.
    #[error("the private key is not PKCS #8 in PEM")]
    Key,
    /// A password that Java's tools refuse.
    #[error("the password of a store needs 6 characters, ASCII without control characters")]
    Password,
    /// A key of another certificate.
    #[error("the private key is not that of the certificate")]
    OtherKey,
    /// Nothing to put in.
    #[error("there is no certificate to put into the store")]
    Empty,
    /// Encoding.
    #[error("the store cannot be written: {0}")]
    Write(#[from] p12_keystore::error::Error),
}

/// A store with the member's key and its certificates, `certificates` being the member's own and those between it and the root.
pub fn key_store(key: &str, certificates: &str, password: &str) -> Result<Vec<u8>, StoreError> {
    let secret = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).map_err(|_| StoreError::Key)?;
    let chain = Certificate::all_from_pem(certificates)?;
    let own = chain.first().ok_or(StoreError::Empty)?;
    if !own.is_for_key(key) {
        return Err(StoreError::OtherKey);
    }
    let own = own.fingerprint();
    let chain = chain.iter().map(stored).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKey::from_der(secret.secret_pkcs8_der()).map_err(|_| StoreError::Key)?;
    let mut store = KeyStore::new();
    let entry = PrivateKeyChain::new(own.to_string().as_bytes(), key, chain);
    store.add_entry(KEY_ALIAS, KeyStoreEntry::PrivateKeyChain(entry));
    write(&store, password)
}

/// A store with what the member trusts.
pub fn trust_store(bundle: &Bundle, password: &str) -> Result<Vec<u8>, StoreError> {
    if bundle.certificates().is_empty() {
        return Err(StoreError::Empty);
    }
    let mut store = KeyStore::new();
    for certificate in bundle.certificates() {
        store.add_entry(
            &certificate.fingerprint().short(AUTHORITY_ALIAS),
            KeyStoreEntry::Certificate(stored(certificate)?),
        );
    }
    write(&store, password)
}

/// Whether two stores hold the same under this password, whatever their bytes are.
pub fn are_alike(one: &[u8], other: &[u8], password: &str) -> bool {
    let read = |store| KeyStore::from_pkcs12(store, password, Pkcs12ImportPolicy::Strict).ok();
    read(one).zip(read(other)).is_some_and(|(one, other)| one.entries().eq(other.entries()))
}

fn stored(certificate: &Certificate) -> Result<StoredCertificate, StoreError> {
    Ok(StoredCertificate::from_der(certificate.der())?)
}

fn write(store: &KeyStore, password: &str) -> Result<Vec<u8>, StoreError> {
    if password.len() < SHORTEST_PASSWORD || !password.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(StoreError::Password);
    }
    Ok(store.writer(password).encryption_iterations(ITERATIONS).mac_iterations(ITERATIONS).write()?)
}
