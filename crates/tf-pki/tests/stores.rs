//! Stores as Java reads them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod support;

use std::{fs, process::Command};

use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12ImportPolicy};
use support::{Case, identity, now};
use tf_pki::{
    authority::{AUTHORITY_LIFETIME, Authority, Curve, Issued},
    bundle::Bundle,
    member,
    stores::{KEY_ALIAS, StoreError, are_alike, key_store, trust_store},
};

const PASSWORD: &str = "aB3&\"+%<#='$ x";

fn authority() -> Authority {
    Authority::generate("cluster1", Curve::P256, AUTHORITY_LIFETIME, now()).unwrap()
}

fn member(authority: &Authority) -> (String, Issued) {
    let made = member::request(&identity()).unwrap();
    (made.key, authority.sign(&Case::with_csr(made.request.into_bytes()).approved(), now()).unwrap())
}

#[test]
fn a_key_store_holds_the_key_and_its_certificate() {
    let (key, issued) = member(&authority());
    let store = key_store(&key, &issued.pem, PASSWORD).unwrap();
    let read = KeyStore::from_pkcs12(&store, PASSWORD, Pkcs12ImportPolicy::Strict).unwrap();
    let Some((KEY_ALIAS, chain)) = read.private_key_chain() else { panic!("{read:?}") };
    assert_eq!(chain.certs()[0].as_der(), issued.certificate.der());
    assert!(KeyStore::from_pkcs12(&store, "another", Pkcs12ImportPolicy::Strict).is_err());
}

#[test]
fn a_trust_store_holds_all_authorities() {
    let bundle = authority().bundle().merged(&authority().bundle());
    let store = trust_store(&bundle, PASSWORD).unwrap();
    let read = KeyStore::from_pkcs12(&store, PASSWORD, Pkcs12ImportPolicy::Strict).unwrap();
    let mut found: Vec<&[u8]> = read
        .entries()
        .filter_map(|(_, entry)| match entry {
            KeyStoreEntry::Certificate(certificate) => Some(certificate.as_der()),
            _ => None,
        })
        .collect();
    let mut expected: Vec<&[u8]> = bundle.certificates().iter().map(tf_pki::certificate::Certificate::der).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn stores_of_the_same_content_are_alike_though_their_bytes_differ() {
    let authority = authority();
    let (key, issued) = member(&authority);
    let made = |password| key_store(&key, &issued.pem, password).unwrap();
    assert_ne!(made(PASSWORD), made(PASSWORD));
    assert!(are_alike(&made(PASSWORD), &made(PASSWORD), PASSWORD));
    assert!(!are_alike(&made("another"), &made(PASSWORD), PASSWORD));
    let (other_key, other) = member(&authority);
    assert!(!are_alike(&made(PASSWORD), &key_store(&other_key, &other.pem, PASSWORD).unwrap(), PASSWORD));
    assert!(!are_alike(b"", &made(PASSWORD), PASSWORD) && !are_alike(b"", b"", PASSWORD));
    let trust = |bundle: &Bundle| trust_store(bundle, PASSWORD).unwrap();
    assert!(are_alike(&trust(&authority.bundle()), &trust(&authority.bundle()), PASSWORD));
    let more = authority.bundle().merged(&self::authority().bundle());
    assert!(!are_alike(&trust(&authority.bundle()), &trust(&more), PASSWORD));
}

#[test]
fn what_java_would_not_open_is_not_written() {
    let authority = authority();
    let (key, issued) = member(&authority);
    assert!(matches!(key_store(&key, &issued.pem, "short"), Err(StoreError::Password)));
    assert!(matches!(trust_store(&authority.bundle(), "pässwörter"), Err(StoreError::Password)));
    assert!(matches!(trust_store(&Bundle::default(), PASSWORD), Err(StoreError::Empty)));
    assert!(matches!(key_store(&key, "", PASSWORD), Err(StoreError::Empty)));
    assert!(matches!(key_store("", &issued.pem, PASSWORD), Err(StoreError::Key | StoreError::OtherKey)));
    assert!(matches!(key_store(&member(&authority).0, &issued.pem, PASSWORD), Err(StoreError::OtherKey)));
}

/// Skipped where there is no `keytool`.
#[test]
fn keytool_lists_what_was_written() {
    let (one, other) = (authority(), authority());
    let (key, issued) = member(&one);
    let stores = [
        ("key.p12", key_store(&key, &issued.pem, PASSWORD).unwrap(), vec!["PrivateKeyEntry"]),
        (
            "trust.p12",
            trust_store(&one.bundle().merged(&other.bundle()), PASSWORD).unwrap(),
            vec!["trustedCertEntry"; 2],
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, store, entries) in stores {
        let path = folder.path().join(name);
        fs::write(&path, store).unwrap();
        let mut command = Command::new("keytool");
        command
            .args(["-J-Xshare:auto", "-list", "-storetype", "PKCS12", "-storepass", PASSWORD, "-keystore"])
            .arg(path);
        let Ok(output) = command.output() else {
            eprintln!("SKIPPED: keytool is not installed");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        let found: Vec<&str> =
            ["PrivateKeyEntry", "trustedCertEntry"].into_iter().flat_map(|kind| text.matches(kind)).collect();
        assert_eq!(found, entries, "{text}");
    }
}
