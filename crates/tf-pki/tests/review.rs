//! Which certificate requests are approved, and which forgeries are denied with which reason.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod support;

use std::time::Duration;

use rcgen::{
    Attribute, BasicConstraints, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType,
};
use support::{Case, der, dns, extra, params, signed};
use tf_pki::{
    key::KeyKind,
    review::{Decision, DenialReason},
};

fn reason(case: &Case) -> DenialReason {
    match case.review() {
        Decision::Deny(denial) => {
            assert!(denial.message.len() < 600, "{}", denial.message);
            assert!(!denial.message.contains(char::is_control), "{:?}", denial.message);
            denial.reason
        }
        other => panic!("{other:?}"),
    }
}

fn changed(change: impl FnOnce(&mut Case)) -> Case {
    let mut case = Case::honest();
    change(&mut case);
    case
}

fn key(pem: &str) -> KeyPair {
    KeyPair::from_pem(pem).unwrap()
}

const RSA_2048: &str = include_str!("../testdata/rsa2048.key");
const RSA_3072: &str = include_str!("../testdata/rsa3072.key");

#[test]
fn a_pod_that_asks_for_what_was_planned_for_it_is_approved() {
    let approved = Case::honest().approved();
    assert_eq!(approved.identity(), &support::identity());
    assert_eq!(approved.key().kind(), KeyKind::P256);
    assert_eq!(approved.lifetime(), Duration::from_secs(support::LIFETIME.into()));
}

#[test]
fn honest_variants_are_approved() {
    let rsa = signed(
        &{
            let mut params = params();
            params.key_usages.push(KeyUsagePurpose::KeyEncipherment);
            params
        },
        &key(RSA_3072),
    );
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let plain_der = der(&Case::honest());
    let variants = [
        ("no lifetime stated", changed(|case| case.expiration_seconds = None)),
        ("a shorter lifetime", changed(|case| case.expiration_seconds = Some(600))),
        ("usages in another order", changed(|case| case.usages.reverse())),
        ("names in another order", Case::with_params(|params| params.subject_alt_names.reverse())),
        ("purposes in another order", Case::with_params(|params| params.extended_key_usages.reverse())),
        ("DER", Case::with_csr(plain_der)),
        ("P-384", Case::with_csr(signed(&params(), &p384))),
        ("RSA 3072", Case::with_csr(signed(&params(), &key(RSA_3072)))),
        ("RSA 3072 that enciphers keys", {
            let mut case = Case::with_csr(rsa);
            case.usages.push("key encipherment".into());
            case
        }),
        (
            "the node's uid was not looked up",
            changed(|case| {
                case.roster.pods.get_mut("zk-0").unwrap().node_uid = None;
            }),
        ),
        (
            "further facts about the requester",
            changed(|case| {
                case.requester.extra.insert("authentication.kubernetes.io/credential-id".into(), vec!["JTI=1".into()]);
            }),
        ),
    ];
    for (what, case) in variants {
        assert!(matches!(case.review(), Decision::Approve(_)), "{what}: {:?}", case.review());
    }
}

#[test]
fn what_is_merely_early_waits() {
    let cases = [
        changed(|case| _ = case.roster.pods.remove("zk-0")),
        changed(|case| case.roster.pods.clear()),
        changed(|case| case.roster.pods.get_mut("zk-0").unwrap().uid = "the one before".into()),
    ];
    for case in cases {
        assert!(matches!(case.review(), Decision::Wait(_)), "{:?}", case.review());
    }
}

#[test]
fn another_signers_request_is_left_alone() {
    let case = changed(|case| case.signer = "kubernetes.io/kubelet-serving".into());
    assert_eq!(case.review(), Decision::NotOurs);
}

#[test]
fn a_forged_requester_is_denied() {
    use DenialReason::{ForeignNode, ForeignRequester, ForeignSubject, UnboundToken};
    let forged: Vec<(&str, DenialReason, Case)> = vec![
        (
            "another account",
            ForeignRequester,
            changed(|c| c.requester.username = "system:serviceaccount:tf:default".into()),
        ),
        (
            "another namespace",
            ForeignRequester,
            changed(|c| {
                c.requester.username = "system:serviceaccount:evil:zk-zookeeper-service-account".into();
            }),
        ),
        ("a person", ForeignRequester, changed(|c| c.requester.username = "zk-zookeeper-service-account".into())),
        ("a longer name", ForeignRequester, changed(|c| c.requester.username.push_str(":x"))),
        ("no name", ForeignRequester, changed(|c| c.requester.username.clear())),
        ("control characters", ForeignRequester, changed(|c| c.requester.username = "\u{1b}[31m\n".repeat(1000))),
        (
            "groups of another namespace",
            ForeignRequester,
            changed(|c| {
                c.requester.groups = vec!["system:serviceaccounts:evil".into()];
            }),
        ),
        ("no bound token", UnboundToken, changed(|c| c.requester.extra.clear())),
        ("no pod", UnboundToken, changed(|c| extra(c, "pod-name").clear())),
        ("two pods", UnboundToken, changed(|c| extra(c, "pod-name").push("zk-1".into()))),
        ("an empty uid", UnboundToken, changed(|c| extra(c, "pod-uid")[0].clear())),
        ("no node", UnboundToken, changed(|c| _ = c.requester.extra.remove("authentication.kubernetes.io/node-name"))),
        (
            "no node's uid",
            UnboundToken,
            changed(|c| _ = c.requester.extra.remove("authentication.kubernetes.io/node-uid")),
        ),
        ("another node", ForeignNode, changed(|c| extra(c, "node-name")[0] = "node2".into())),
        ("another node of the same name", ForeignNode, changed(|c| extra(c, "node-uid")[0] = "node-uid-9".into())),
        ("another pod's request", ForeignSubject, changed(|c| extra(c, "pod-name")[0] = "zk-1".into())),
    ];
    for (what, expected, case) in forged {
        assert_eq!(reason(&case), expected, "{what}");
    }
}

#[test]
fn a_forged_name_is_denied() {
    use DenialReason::{ForeignName, ForeignSubject, MissingName};
    let with_name = |name: &str| {
        let name = dns(name);
        Case::with_params(|params| params.subject_alt_names.push(name))
    };
    let subject = |kind: DnType, value: &str| {
        let value = value.to_owned();
        Case::with_params(|params| params.distinguished_name.push(kind, value))
    };
    let forged: Vec<(&str, DenialReason, Case)> = vec![
        ("another pod's name", ForeignName, with_name("zk-1")),
        ("another node's name", ForeignName, with_name("node2")),
        ("the API server's name", ForeignName, with_name("kubernetes.default.svc")),
        ("an operator's name", ForeignName, with_name("zookeeper.operator.tf.tungsten.io")),
        ("its own name twice", ForeignName, with_name("zk-0")),
        ("its own name in capitals", ForeignName, with_name("ZK-0")),
        ("its own name with a final dot", ForeignName, with_name("zk-0.")),
        ("a wildcard", ForeignName, with_name("*.tf.svc.cluster.local")),
        ("an empty name", ForeignName, with_name("")),
        ("a null character", ForeignName, with_name("zk-0\0.evil")),
        ("an address as a name", ForeignName, with_name("10.0.0.1")),
        (
            "another address",
            ForeignName,
            Case::with_params(|p| p.subject_alt_names.push(SanType::IpAddress([10, 0, 0, 2].into()))),
        ),
        (
            "its own address twice",
            ForeignName,
            Case::with_params(|p| p.subject_alt_names.push(SanType::IpAddress([10, 0, 0, 1].into()))),
        ),
        (
            "its own address as IPv6",
            ForeignName,
            Case::with_params(|p| {
                p.subject_alt_names.push(SanType::IpAddress("::ffff:10.0.0.1".parse().unwrap()));
            }),
        ),
        (
            "a mail address",
            ForeignName,
            Case::with_params(|p| p.subject_alt_names.push(SanType::Rfc822Name("a@b".try_into().unwrap()))),
        ),
        (
            "a URI",
            ForeignName,
            Case::with_params(|p| p.subject_alt_names.push(SanType::URI("spiffe://tf/zk-0".try_into().unwrap()))),
        ),
        (
            "a principal's name",
            ForeignName,
            Case::with_params(|p| {
                p.subject_alt_names.push(SanType::OtherName((vec![1, 3, 6, 1, 4, 1, 311, 20, 2, 3], "admin".into())));
            }),
        ),
        ("a name less", MissingName, Case::with_params(|p| _ = p.subject_alt_names.remove(0))),
        ("an address less", MissingName, Case::with_params(|p| _ = p.subject_alt_names.pop())),
        ("no names", MissingName, Case::with_params(|p| p.subject_alt_names.clear())),
        ("another pod's subject", ForeignSubject, subject(DnType::CommonName, "zk-1")),
        ("a kubelet's subject", ForeignSubject, subject(DnType::OrganizationName, "system:nodes")),
        ("an administrator's subject", ForeignSubject, subject(DnType::OrganizationName, "system:masters")),
        ("a further part of the subject", ForeignSubject, subject(DnType::OrganizationalUnitName, "operator")),
        ("no subject", ForeignSubject, Case::with_params(|p| p.distinguished_name = rcgen::DistinguishedName::new())),
    ];
    for (what, expected, case) in forged {
        assert_eq!(reason(&case), expected, "{what}");
    }
}

#[test]
fn a_forged_purpose_is_denied() {
    use DenialReason::{AuthorityRequested, ForbiddenExtension, WrongLifetime, WrongUsage};
    let extension = |oid: &'static [u64], content: &'static [u8]| {
        Case::with_params(|p| p.custom_extensions.push(CustomExtension::from_oid_content(oid, content.to_vec())))
    };
    let purposes = |purposes: &[ExtendedKeyUsagePurpose]| {
        let purposes = purposes.to_vec();
        Case::with_params(|p| p.extended_key_usages = purposes)
    };
    let usages = |usages: &[&str]| {
        let usages = usages.iter().map(|usage| (*usage).to_owned()).collect();
        changed(|case| case.usages = usages)
    };
    let password = || {
        // challengePassword, a UTF8String in a SET.
        let attribute = Attribute { oid: &[1, 2, 840, 113_549, 1, 9, 7], values: vec![0x31, 0x03, 0x0c, 0x01, b'x'] };
        let request = params().serialize_request_with_attributes(&KeyPair::generate().unwrap(), vec![attribute]);
        Case::with_csr(request.unwrap().pem().unwrap().into_bytes())
    };
    let forged: Vec<(&str, DenialReason, Case)> = vec![
        (
            "an authority",
            AuthorityRequested,
            Case::with_params(|p| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
        ),
        ("basic constraints that say no", AuthorityRequested, Case::with_params(|p| p.is_ca = IsCa::ExplicitNoCa)),
        ("name constraints", ForbiddenExtension, extension(&[2, 5, 29, 30], &[0x30, 0x00])),
        ("policies", ForbiddenExtension, extension(&[2, 5, 29, 32], &[0x30, 0x00])),
        ("an unknown extension", ForbiddenExtension, extension(&[1, 3, 6, 1, 4, 1, 99999, 1], &[0x05, 0x00])),
        ("key usage twice", ForbiddenExtension, extension(&[2, 5, 29, 15], &[0x03, 0x02, 0x07, 0x80])),
        (
            "names twice",
            ForbiddenExtension,
            extension(&[2, 5, 29, 17], &[0x30, 0x06, 0x82, 0x04, b'e', b'v', b'i', b'l']),
        ),
        ("a password", ForbiddenExtension, password()),
        ("signing of certificates", WrongUsage, Case::with_params(|p| p.key_usages.push(KeyUsagePurpose::KeyCertSign))),
        (
            "encipherment with a key that cannot",
            WrongUsage,
            Case::with_params(|p| p.key_usages.push(KeyUsagePurpose::KeyEncipherment)),
        ),
        ("no key usage", WrongUsage, Case::with_params(|p| p.key_usages.clear())),
        ("key agreement only", WrongUsage, Case::with_params(|p| p.key_usages = vec![KeyUsagePurpose::KeyAgreement])),
        ("server only", WrongUsage, purposes(&[ExtendedKeyUsagePurpose::ServerAuth])),
        (
            "a purpose twice",
            WrongUsage,
            purposes(&[
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ]),
        ),
        ("any purpose", WrongUsage, purposes(&[ExtendedKeyUsagePurpose::Any])),
        (
            "code signing too",
            WrongUsage,
            purposes(&[
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
                ExtendedKeyUsagePurpose::CodeSigning,
            ]),
        ),
        ("no purpose", WrongUsage, purposes(&[])),
        ("the object lists client only", WrongUsage, usages(&["digital signature", "client auth"])),
        (
            "the object lists signing",
            WrongUsage,
            usages(&["digital signature", "server auth", "client auth", "cert sign"]),
        ),
        (
            "the object lists encipherment for a key that cannot",
            WrongUsage,
            usages(&["digital signature", "server auth", "client auth", "key encipherment"]),
        ),
        (
            "the object lists one twice",
            WrongUsage,
            usages(&["digital signature", "server auth", "client auth", "client auth"]),
        ),
        ("the object lists nothing", WrongUsage, usages(&[])),
        ("ten years", WrongLifetime, changed(|case| case.expiration_seconds = Some(315_360_000))),
        (
            "a second more than planned",
            WrongLifetime,
            changed(|case| case.expiration_seconds = Some(support::LIFETIME as i32 + 1)),
        ),
        ("a minute", WrongLifetime, changed(|case| case.expiration_seconds = Some(60))),
        ("less than nothing", WrongLifetime, changed(|case| case.expiration_seconds = Some(i32::MIN))),
    ];
    for (what, expected, case) in forged {
        assert_eq!(reason(&case), expected, "{what}");
    }
}

#[test]
fn a_weak_key_or_a_bad_signature_is_denied() {
    use DenialReason::{BadSignature, WeakKey};
    let with_key = |key: &KeyPair| Case::with_csr(signed(&params(), key));
    assert_eq!(reason(&with_key(&key(RSA_2048))), WeakKey);
    assert_eq!(reason(&with_key(&KeyPair::generate_for(&PKCS_ED25519).unwrap())), WeakKey);
    assert_eq!(reason(&Case::with_csr(include_bytes!("../testdata/secp521r1.csr").to_vec())), WeakKey);
    assert_eq!(reason(&Case::with_csr(include_bytes!("../testdata/secp256k1.csr").to_vec())), WeakKey);

    // Somebody else's key: the request of one with the signature of another.
    let (mine, other) = (der(&Case::honest()), der(&Case::honest()));
    let position = |der: &[u8]| der.windows(2).rposition(|pair| pair == [0x30, 0x0a]).unwrap();
    let swapped = [&mine[..position(&mine)], &other[position(&other)..]].concat();
    let length = u16::try_from(swapped.len() - 4).unwrap().to_be_bytes();
    let swapped = [&[0x30, 0x82], length.as_slice(), &swapped[4..]].concat();
    assert_eq!(reason(&Case::with_csr(swapped)), BadSignature);
}

#[test]
fn garbage_is_denied_and_not_read_far() {
    use DenialReason::Malformed;
    let honest = Case::honest();
    let pem = String::from_utf8(honest.csr.clone()).unwrap();
    let mut trailing = der(&honest);
    trailing.push(0);
    let garbage: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("text", b"hello".to_vec()),
        ("zeroes", vec![0; 100]),
        ("DER with a byte more", trailing),
        ("DER that ends early", der(&honest)[..100].to_vec()),
        ("a length of four gigabytes", vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0x00]),
        ("depth without end", [0x30, 0x80].repeat(4000)),
        ("a certificate's label", pem.replace("CERTIFICATE REQUEST", "CERTIFICATE").into_bytes()),
        ("two requests", pem.repeat(2).into_bytes()),
        ("headers", pem.replacen("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n\n", 1).into_bytes()),
        ("too much", [honest.csr.clone(), vec![b'\n'; 20_000]].concat()),
    ];
    for (what, csr) in garbage {
        assert_eq!(reason(&Case::with_csr(csr)), Malformed, "{what}");
    }
}
