//! Keys as other programs write them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::{env, fs, io, process, process::Command, time::Duration};

use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};
use tf_pki::{
    authority::Authority,
    key_file::{KeyFileError, pkcs8},
};

/// What `openssl` prints; none where there is no `openssl`.
fn openssl(arguments: &str) -> Option<String> {
    match Command::new("openssl").args(arguments.split(' ')).output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: openssl is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_form_of_a_key_is_taken_and_becomes_pkcs8() {
    for arguments in [
        "genrsa -traditional 2048",
        "genrsa 3072",
        "ecparam -genkey -name prime256v1",
        "ecparam -genkey -noout -name secp384r1",
        "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256",
    ] {
        let Some(text) = openssl(arguments) else { return };
        let key = pkcs8(&text).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        assert!(key.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{arguments}");
        assert_eq!(pkcs8(&key).as_ref(), Ok(&key), "{arguments}: PKCS #8 stays as it is");
    }
}

#[test]
fn an_authority_as_the_go_tf_operator_makes_it_signs_for_members() {
    let Some(key) = openssl("genrsa -traditional 4096") else { return };
    let file = env::temp_dir().join(format!("tf-pki-{}.key", process::id()));
    fs::write(&file, &key).unwrap();
    let usage = "keyUsage=critical,keyEncipherment,digitalSignature,keyCertSign";
    let subject = "/C=US/ST=CA/L=Sunnyvale/O=LFN/OU=TF/CN=tf_csr_singer";
    let certificate =
        openssl(&format!("req -x509 -days 3650 -key {} -subj {subject} -addext {usage}", file.display())).unwrap();
    fs::remove_file(&file).unwrap();
    let authority = Authority::from_pem(&certificate, &key).unwrap();
    let signed = authority.operator("some-op", Duration::from_hours(1), Timestamp::now()).unwrap();
    assert!(signed.issued.certificate.is_issued_by(authority.certificate()));
}

#[test]
fn the_key_is_the_same_in_another_form() {
    let own = KeyPair::generate().unwrap();
    let key = pkcs8(&own.serialize_pem()).unwrap();
    let read = KeyPair::from_pem(&key).unwrap();
    assert_eq!(read.subject_public_key_info(), own.subject_public_key_info());
}

#[test]
fn what_is_no_key_that_can_be_used_is_refused() {
    for text in ["", "hunter2", "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"] {
        assert_eq!(pkcs8(text).map_err(|_| ()), Err(()), "{text:?}");
    }
    let refused = [
        ("ecparam -genkey -noout -name secp521r1", KeyFileError::Kind),
        ("genrsa -traditional 1024", KeyFileError::Kind),
        ("genrsa -aes256 -passout pass:hunter2 2048", KeyFileError::Encrypted),
        ("genrsa -traditional -aes256 -passout pass:hunter2 2048", KeyFileError::Encrypted),
    ];
    for (arguments, error) in refused {
        let Some(text) = openssl(arguments) else { return };
        assert_eq!(pkcs8(&text), Err(error), "{arguments}");
    }
}
