//! No change of a request that was approved is approved, save those that mean the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod support;

use proptest::prelude::*;
use rcgen::{CustomExtension, DnType, SanType};
use support::{Case, der, dns, extra};
use tf_pki::review::Decision;

/// One change of an honest case, each of which has to end the approval.
#[derive(Clone, Debug)]
enum Mutation {
    FlipBit(usize, u8),
    Truncate(usize),
    Insert(usize, u8),
    Username(String),
    Groups(Vec<String>),
    Extra(usize, Vec<String>),
    Usages(Vec<String>),
    Lifetime(i32),
    Name(String),
    Address([u8; 4]),
    CommonName(String),
    Extension(u64, Vec<u8>),
    Swap(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let usage = prop::sample::select(vec![
        "digital signature",
        "server auth",
        "client auth",
        "cert sign",
        "any",
        "key encipherment",
    ]);
    prop_oneof![
        (any::<usize>(), 0u8..8).prop_map(|(at, bit)| Mutation::FlipBit(at, bit)),
        any::<usize>().prop_map(Mutation::Truncate),
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        "(system:serviceaccount:)?[a-z:-]{0,40}".prop_map(Mutation::Username),
        prop::collection::vec("[a-z:]{0,30}", 0..3).prop_map(Mutation::Groups),
        (0usize..4, prop::collection::vec("[a-z0-9-]{0,12}", 0..3))
            .prop_map(|(key, values)| Mutation::Extra(key, values)),
        prop::collection::vec(usage.prop_map(str::to_owned), 0..5).prop_map(Mutation::Usages),
        any::<i32>().prop_map(Mutation::Lifetime),
        "[a-zA-Z0-9.*-]{0,20}".prop_map(Mutation::Name),
        any::<[u8; 4]>().prop_map(Mutation::Address),
        "[a-z0-9-]{0,20}".prop_map(Mutation::CommonName),
        (0u64..80, prop::collection::vec(any::<u8>(), 0..8)).prop_map(|(arc, bytes)| Mutation::Extension(arc, bytes)),
        (0usize..3).prop_map(Mutation::Swap),
    ]
}

/// The case after a mutation; none when the mutation changes nothing that matters.
fn mutated(mutation: &Mutation) -> Option<Case> {
    let mut case = Case::honest();
    let keys = ["pod-name", "pod-uid", "node-name", "node-uid"];
    match mutation.clone() {
        Mutation::FlipBit(at, bit) => {
            case.csr = der(&case);
            let at = at % case.csr.len();
            case.csr[at] ^= 1 << bit;
        }
        Mutation::Truncate(to) => {
            case.csr = der(&case);
            let to = to % case.csr.len();
            case.csr.truncate(to);
        }
        Mutation::Insert(at, byte) => {
            case.csr = der(&case);
            let at = at % (case.csr.len() + 1);
            case.csr.insert(at, byte);
        }
        Mutation::Username(name) => case.requester.username = name,
        Mutation::Groups(groups) => case.requester.groups = groups,
        Mutation::Extra(key, values) => *extra(&mut case, keys[key]) = values,
        Mutation::Usages(mut usages) => {
            case.usages.clone_from(&usages);
            usages.sort();
            if usages == ["client auth", "digital signature", "server auth"] {
                return None;
            }
        }
        Mutation::Lifetime(seconds) => {
            case.expiration_seconds = Some(seconds);
            if (600..=support::LIFETIME as i32).contains(&seconds) {
                return None;
            }
        }
        Mutation::Name(name) => return Some(Case::with_params(|params| params.subject_alt_names.push(dns(&name)))),
        Mutation::Address(address) => {
            return Some(Case::with_params(|params| params.subject_alt_names.push(SanType::IpAddress(address.into()))));
        }
        Mutation::CommonName(name) if name == "zk-0" => return None,
        Mutation::CommonName(name) => {
            return Some(Case::with_params(|params| params.distinguished_name.push(DnType::CommonName, name)));
        }
        Mutation::Extension(arc, bytes) => {
            return Some(Case::with_params(|params| {
                params.custom_extensions.push(CustomExtension::from_oid_content(
                    &[2, 5, 29, arc],
                    [vec![0x04, bytes.len() as u8], bytes].concat(),
                ));
            }));
        }
        Mutation::Swap(pod) => {
            // What one pod may have is handed in by another one.
            let number = pod + 1;
            *extra(&mut case, "pod-name") = vec![format!("zk-{pod}")];
            *extra(&mut case, "pod-uid") = vec![format!("pod-uid-{number}")];
            *extra(&mut case, "node-name") = vec![format!("node{number}")];
            *extra(&mut case, "node-uid") = vec![format!("node-uid-{number}")];
            if pod == 0 {
                return None;
            }
        }
    }
    Some(case)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_an_approved_request_is_approved(mutation in mutation()) {
        let Some(case) = mutated(&mutation) else { return Ok(()) };
        prop_assert!(!matches!(case.review(), Decision::Approve(_)), "{mutation:?}");
        // What a waiting request waits for is the pod, and the pod is known here unless its uid is another.
        let waits = matches!(case.review(), Decision::Wait(_));
        prop_assert!(!waits || matches!(mutation, Mutation::Extra(..)), "{mutation:?}");
    }

    #[test]
    fn no_bytes_make_a_review_panic(csr in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(matches!(Case::with_csr(csr).review(), Decision::Deny(_)));
    }
}
