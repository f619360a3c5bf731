//! Certificates as they are issued: what they say, who accepts them, and which authorities are refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod support;

use std::{fs, process::Command, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::WebPkiClientVerifier,
};
use support::{Case, identity, now, params, signed};
use tf_pki::{
    accept::{Unfit, accept},
    authority::{AUTHORITY_LIFETIME, Authority, AuthorityError, Curve, Issued, SignError},
    bundle::Bundle,
    certificate::Certificate,
    key::KeyKind,
    member,
};

fn authority() -> Authority {
    Authority::generate("cluster1", Curve::P256, AUTHORITY_LIFETIME, now()).unwrap()
}

/// A member's key and what an authority issued for it.
fn issue(authority: &Authority, now: Timestamp) -> (String, Issued) {
    let made = member::request(&identity()).unwrap();
    let issued = authority.sign(&Case::with_csr(made.request.into_bytes()).approved(), now).unwrap();
    (made.key, issued)
}

#[test]
fn a_certificate_says_what_was_planned_and_nothing_that_was_asked_for() {
    let authority = authority();
    let (key, Issued { pem, certificate }) = issue(&authority, now());
    assert_eq!(certificate.subject(), "CN=zk-0,O=Tungsten Fabric");
    assert_eq!(&certificate.names(), identity().names());
    assert_eq!(&certificate.addresses(), identity().addresses());
    assert_eq!(certificate.validity().not_before, now() - SignedDuration::from_mins(5));
    assert_eq!(certificate.validity().not_after, now() + SignedDuration::from_secs(support::LIFETIME.into()));
    assert_eq!(certificate.operator(), None);
    assert!(certificate.is_for_key(&key));
    assert!(!certificate.is_for_key(&issue(&authority, now()).0));
    assert!(certificate.is_issued_by(authority.certificate()));
    assert_eq!(pem, certificate.pem());
    assert_eq!(accept(&pem, &key, &identity(), &authority.bundle(), now()), Ok(certificate));
}

#[test]
fn serial_numbers_are_new_each_time() {
    let authority = authority();
    let one = x509_cert_serial(&issue(&authority, now()).1.certificate);
    let other = x509_cert_serial(&issue(&authority, now()).1.certificate);
    assert_ne!(one, other);
    assert_eq!((one.len(), other.len()), (16, 16));
}

fn x509_cert_serial(certificate: &Certificate) -> Vec<u8> {
    use der::Decode;
    let certificate = x509_cert::Certificate::from_der(certificate.der()).unwrap();
    certificate.tbs_certificate().serial_number().as_bytes().to_vec()
}

#[test]
fn a_certificate_does_not_outlive_its_authority_nor_begin_before_it() {
    let authority = Authority::generate("short", Curve::P384, Duration::from_hours(1), now()).unwrap();
    let (_, issued) = issue(&authority, now());
    assert_eq!(issued.certificate.validity(), authority.validity());
    let approved = Case::honest().approved();
    let sign = |now| authority.sign(&approved, now);
    assert!(matches!(sign(now() + SignedDuration::from_hours(1)), Err(SignError::Over(_))));
    assert!(matches!(sign(now() - SignedDuration::from_hours(1)), Err(SignError::NotYet(_))));
}

#[test]
fn years_from_2050_on_are_encoded_too() {
    let late: Timestamp = "2049-12-30T00:00:00Z".parse().unwrap();
    let authority = Authority::generate("late", Curve::P256, AUTHORITY_LIFETIME, late).unwrap();
    let (key, issued) = issue(&authority, late);
    assert_eq!(issued.certificate.validity().not_after, late + SignedDuration::from_secs(support::LIFETIME.into()));
    assert!(accept(&issued.pem, &key, &identity(), &authority.bundle(), late).is_ok());
}

#[test]
fn a_generated_authority_can_be_stored_and_read() {
    for curve in [Curve::P256, Curve::P384] {
        let authority = Authority::generate("cluster1", curve, AUTHORITY_LIFETIME, now()).unwrap();
        let read = Authority::from_pem(&authority.certificates_pem(), &authority.key_pem()).unwrap();
        assert_eq!(read.fingerprint(), authority.fingerprint());
        assert!(read.certificate().subject().starts_with("CN=cluster1 "), "{read:?}");
        assert_ne!(read.certificate().subject(), self::authority().certificate().subject());
        assert_eq!(read.check(now()), Ok(()));
        assert!(matches!(read.check(now() + AUTHORITY_LIFETIME * 2), Err(AuthorityError::Expired(_))));
        assert!(matches!(read.check(now() - AUTHORITY_LIFETIME), Err(AuthorityError::NotYetValid(_))));
        assert!(!format!("{read:?}").contains("PRIVATE"));
        issue(&read, now());
    }
}

#[test]
fn an_operator_gets_a_certificate_by_which_members_know_it() {
    let authority = authority();
    let pair = authority.operator("zookeeper", member::DEFAULT_LIFETIME, now()).unwrap();
    assert_eq!(pair.issued.certificate.operator().as_deref(), Some("zookeeper"));
    assert!(pair.issued.certificate.is_for_key(&pair.key));
}

#[test]
fn authorities_of_other_tools_are_taken_with_their_names_and_keys_as_they_are() {
    for (certificate, key, kind) in [
        (
            include_str!("../testdata/domain-components.crt"),
            include_str!("../testdata/domain-components.key"),
            KeyKind::Rsa(2048),
        ),
        (include_str!("../testdata/sec1.crt"), include_str!("../testdata/sec1.key"), KeyKind::P384),
    ] {
        let authority = Authority::from_pem(certificate, key).unwrap();
        assert_eq!(authority.certificate().key().kind(), kind);
        let (key, issued) = issue(&authority, now());
        assert_eq!(accept(&issued.pem, &key, &identity(), &authority.bundle(), now()), Ok(issued.certificate.clone()));
        openssl_accepts(&authority, &issued, false);
    }
}

/// A user's authority made with rcgen.
struct Made {
    pem: String,
    key: KeyPair,
    params: CertificateParams,
}

fn made(issuer: Option<&Made>, change: impl FnOnce(&mut CertificateParams)) -> Made {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, if issuer.is_some() { "intermediate" } else { "root" });
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    change(&mut params);
    let certificate = match issuer {
        None => params.self_signed(&key),
        Some(issuer) => params.signed_by(&key, &Issuer::from_params(&issuer.params, &issuer.key)),
    };
    Made { pem: certificate.unwrap().pem(), key, params }
}

fn read(certificates: &str, made: &Made) -> Result<Authority, AuthorityError> {
    Authority::from_pem(certificates, &made.key.serialize_pem())
}

#[test]
fn an_intermediate_authority_needs_those_above_it_and_hands_itself_out() {
    let root = made(None, |_| ());
    let below = made(Some(&root), |_| ());
    assert!(matches!(read(&below.pem, &below), Err(AuthorityError::NoRoot(_))));
    assert!(matches!(read(&format!("{}{}", below.pem, made(None, |_| ()).pem), &below), Err(AuthorityError::Chain(_))));

    let chain = format!("# ours\n{}\n{}", below.pem, root.pem);
    let authority = read(&chain, &below).unwrap();
    let (key, issued) = issue(&authority, now());
    assert_eq!(issued.pem.matches("BEGIN CERTIFICATE").count(), 2);
    let root_only = Bundle::from_pem(&root.pem).unwrap();
    assert!(accept(&issued.pem, &key, &identity(), &root_only, now()).is_ok());
    assert_eq!(accept(&issued.certificate.pem(), &key, &identity(), &root_only, now()), Err(Unfit::Untrusted));
    openssl_accepts(&authority, &issued, false);
}

#[test]
fn what_cannot_serve_as_an_authority_is_refused_with_the_reason() {
    let refused = |change: fn(&mut CertificateParams)| {
        let made = made(None, change);
        read(&made.pem, &made).unwrap_err()
    };
    assert!(matches!(refused(|p| p.is_ca = IsCa::NoCa), AuthorityError::NotAnAuthority(_)));
    assert!(matches!(refused(|p| p.is_ca = IsCa::ExplicitNoCa), AuthorityError::NotAnAuthority(_)));
    assert!(matches!(refused(|p| p.key_usages = vec![KeyUsagePurpose::CrlSign]), AuthorityError::MayNotSign(_)));
    assert!(matches!(
        refused(|p| {
            let permitted_subtrees = vec![GeneralSubtree::DnsName("example.com".into())];
            p.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
        }),
        AuthorityError::ConstrainsNames(_)
    ));
    // Name constraints nobody can read are constraints, too.
    assert!(matches!(
        refused(|p| p.custom_extensions.push(CustomExtension::from_oid_content(&[2, 5, 29, 30], vec![0x05, 0x00]))),
        AuthorityError::ConstrainsNames(_)
    ));

    let (one, other) = (made(None, |_| ()), made(None, |_| ()));
    assert!(matches!(read(&one.pem, &other), Err(AuthorityError::OtherKey(_))));
    assert!(matches!(read("", &one), Err(AuthorityError::Missing)));
    assert!(matches!(
        read("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &one),
        Err(AuthorityError::Certificate(_))
    ));
    assert!(matches!(Authority::from_pem(&one.pem, ""), Err(AuthorityError::Key)));
    assert!(matches!(
        Authority::from_pem(&one.pem, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        Err(AuthorityError::Key)
    ));

    let narrow = made(None, |p| p.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)));
    let below = made(Some(&narrow), |_| ());
    assert!(matches!(read(&format!("{}{}", below.pem, narrow.pem), &below), Err(AuthorityError::PathLength(_))));
}

#[test]
fn a_member_refuses_a_certificate_that_would_not_serve_it() {
    let authority = authority();
    let (key, issued) = issue(&authority, now());
    let check = |pem: &str, key: &str, bundle: &Bundle, now| accept(pem, key, &identity(), bundle, now).unwrap_err();
    assert_eq!(check("", &key, &authority.bundle(), now()), Unfit::Missing);
    assert_eq!(check(&issued.pem, &issue(&authority, now()).0, &authority.bundle(), now()), Unfit::OtherKey);
    assert_eq!(check(&issued.pem, &key, &self::authority().bundle(), now()), Unfit::Untrusted);
    assert_eq!(check(&issued.pem, &key, &Bundle::default(), now()), Unfit::Untrusted);
    let year = SignedDuration::from_hours(365 * 24);
    assert!(matches!(check(&issued.pem, &key, &authority.bundle(), now() + year), Unfit::NotNow { .. }));
    assert!(matches!(check(&issued.pem, &key, &authority.bundle(), now() - year), Unfit::NotNow { .. }));
    let mut moved = support::member();
    moved.addresses.insert([10, 9, 9, 9].into());
    let moved = tf_pki::member::Identity::member(&moved).unwrap();
    assert_eq!(accept(&issued.pem, &key, &moved, &authority.bundle(), now()), Err(Unfit::Lacks("10.9.9.9".into())));
}

#[test]
fn bundles_keep_their_order_and_nothing_twice() {
    let (one, other) = (authority(), authority());
    let both = one.bundle().merged(&other.bundle()).merged(&one.bundle());
    assert_eq!(both.certificates(), [one.certificate().clone(), other.certificate().clone()]);
    let noisy = format!("a comment\n{}{}{}", one.key_pem(), both.pem(), both.pem().replace('\n', "\r\n"));
    let read = Bundle::from_pem(&noisy).unwrap();
    assert_eq!(read, both);
    assert!(!read.pem().contains("PRIVATE"));
    assert_eq!(read.fingerprints(), [one.fingerprint(), other.fingerprint()].into());
    let (_, issued) = issue(&other, now());
    assert_eq!(read.issuer_of(&issued.certificate).map(Certificate::fingerprint), Some(other.fingerprint()));
}

#[test]
fn members_and_operators_meet_over_mutual_tls_and_strangers_do_not() {
    // rustls looks at the clock of the machine.
    let now = Timestamp::now();
    let authority = Authority::generate("cluster1", Curve::P256, AUTHORITY_LIFETIME, now).unwrap();
    let (key, issued) = issue(&authority, now);
    let rsa_key = include_str!("../testdata/rsa3072.key");
    let rsa = Case::with_csr(signed(&params(), &KeyPair::from_pem(rsa_key).unwrap()));
    let rsa = authority.sign(&rsa.approved(), now).unwrap();
    let operator = authority.operator("zookeeper", member::DEFAULT_LIFETIME, now).unwrap();
    let stranger = Authority::generate("cluster1", Curve::P256, AUTHORITY_LIFETIME, now).unwrap();
    let strangers_member = issue(&stranger, now);
    let stranger = stranger.operator("zookeeper", member::DEFAULT_LIFETIME, now).unwrap();

    let member = (issued.pem.as_str(), key.as_str());
    let rsa = (rsa.pem.as_str(), rsa_key);
    let operator = (operator.issued.pem.as_str(), operator.key.as_str());
    let stranger = (stranger.issued.pem.as_str(), stranger.key.as_str());
    let strangers_member = (strangers_member.1.pem.as_str(), strangers_member.0.as_str());
    for name in ["10.0.0.1", "fd00::1", "zk-0", "node1", "zk.tf.svc.cluster.local"] {
        assert_eq!(handshake(&authority, member, member, name), Ok(()), "{name}");
    }
    assert_eq!(handshake(&authority, rsa, member, "zk-0"), Ok(()));
    assert_eq!(handshake(&authority, member, rsa, "zk-0"), Ok(()));
    assert_eq!(handshake(&authority, member, operator, "zk-0"), Ok(()));
    refused(handshake(&authority, member, stranger, "zk-0"), "UnknownIssuer");
    refused(handshake(&authority, strangers_member, member, "zk-0"), "UnknownIssuer");
    refused(handshake(&authority, operator, member, "zookeeper.operator.tf.tungsten.io"), "InvalidPurpose");
    refused(handshake(&authority, member, member, "zk-1"), "NotValidForName");
    refused(handshake(&authority, member, member, "10.0.0.2"), "NotValidForName");
}

fn refused(outcome: Result<(), String>, why: &str) {
    let error = outcome.unwrap_err();
    assert!(error.contains(why), "{error}");
}

/// A handshake in memory, with certificates and keys in PEM.
fn handshake(authority: &Authority, server: (&str, &str), client: (&str, &str), name: &str) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for certificate in authority.bundle().certificates() {
        roots.add(certificate.der().to_vec().into()).unwrap();
    }
    let (roots, provider) = (Arc::new(roots), Arc::new(rustls::crypto::ring::default_provider()));
    let chain =
        |pem: &str| CertificateDer::pem_slice_iter(pem.as_bytes()).map(|section| section.unwrap()).collect::<Vec<_>>();
    let key = |pem: &str| PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build().unwrap();
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain(server.0), key(server.1))
        .unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain(client.0), key(client.1))
        .unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    for _ in 0..10 {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets().map_err(|error| format!("server: {error:?}"))?;
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets().map_err(|error| format!("client: {error:?}"))?;
        if !client.is_handshaking() && !server.is_handshaking() {
            return Ok(());
        }
    }
    Err("no end".into())
}

/// What OpenSSL, which most daemons use, says to a certificate; strictly by RFC 5280 where the authority is ours. Skipped where
/// there is no `openssl`.
fn openssl_accepts(authority: &Authority, issued: &Issued, strictly: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let roots = authority.bundle().certificates().last().unwrap().pem();
    fs::write(path("root.pem"), roots).unwrap();
    fs::write(path("chain.pem"), &issued.pem).unwrap();
    fs::write(path("leaf.pem"), issued.certificate.pem()).unwrap();
    for purpose in ["sslserver", "sslclient"] {
        let mut command = Command::new("openssl");
        command.args(["verify", "-purpose", purpose, "-verify_ip", "10.0.0.1", "-verify_hostname", "zk-0"]);
        command.args(strictly.then_some("-x509_strict"));
        command.args(["-attime", &now().as_second().to_string()]);
        command.arg("-CAfile").arg(path("root.pem")).arg("-untrusted").arg(path("chain.pem")).arg(path("leaf.pem"));
        let Ok(output) = command.output() else {
            eprintln!("SKIPPED: openssl is not installed");
            return;
        };
        assert!(output.status.success(), "{purpose}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn openssl_accepts_what_a_generated_authority_issues() {
    for curve in [Curve::P256, Curve::P384] {
        let authority = Authority::generate("cluster1", curve, AUTHORITY_LIFETIME, now()).unwrap();
        openssl_accepts(&authority, &issue(&authority, now()).1, true);
    }
}
