//! An honest pod, its operator, and requests that differ from the honest one in a single way.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use tf_pki::{
    member::{Identity, Member, SIGNER, USAGES, service_names},
    review::{Candidate, Decision, Request, Requester, Roster, ServiceAccount, review},
};

pub const LIFETIME: u32 = 90 * 24 * 3600;

/// A moment at which everything in testdata is valid.
pub fn now() -> Timestamp {
    "2027-03-01T12:00:00Z".parse().unwrap()
}

pub fn member() -> Member {
    member_named("zk-0", 1)
}

pub fn member_named(pod: &str, number: u8) -> Member {
    Member {
        pod: pod.into(),
        node: format!("node{number}"),
        addresses: BTreeSet::from([[10, 0, 0, number].into(), format!("fd00::{number}").parse().unwrap()]),
        services: service_names("zk", "tf", "cluster.local").into_iter().collect(),
        lifetime_seconds: LIFETIME,
    }
}

pub fn identity() -> Identity {
    Identity::member(&member()).unwrap()
}

pub fn candidate(number: u8) -> Candidate {
    Candidate {
        uid: format!("pod-uid-{number}"),
        node: format!("node{number}"),
        node_uid: Some(format!("node-uid-{number}")),
        identity: Identity::member(&member_named(&format!("zk-{}", number - 1), number)).unwrap(),
    }
}

pub fn roster() -> Roster {
    Roster {
        account: ServiceAccount { namespace: "tf".into(), name: "zk-zookeeper-service-account".into() },
        pods: (1..=3).map(|number| (format!("zk-{}", number - 1), candidate(number))).collect(),
    }
}

pub fn requester() -> Requester {
    let extra = [("pod-name", "zk-0"), ("pod-uid", "pod-uid-1"), ("node-name", "node1"), ("node-uid", "node-uid-1")];
    Requester {
        username: "system:serviceaccount:tf:zk-zookeeper-service-account".into(),
        groups: ["system:serviceaccounts", "system:serviceaccounts:tf", "system:authenticated"].map(Into::into).into(),
        extra: extra
            .into_iter()
            .map(|(key, value)| (format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]))
            .collect::<BTreeMap<_, _>>(),
    }
}

/// What the honest pod puts into its request, before it is signed.
pub fn params() -> CertificateParams {
    let identity = identity();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Tungsten Fabric");
    params.distinguished_name.push(DnType::CommonName, "zk-0");
    params.subject_alt_names =
        identity.names().iter().map(|name| SanType::DnsName(name.as_str().try_into().unwrap())).collect();
    params.subject_alt_names.extend(identity.addresses().iter().copied().map(SanType::IpAddress));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

pub fn signed(params: &CertificateParams, key: &KeyPair) -> Vec<u8> {
    params.serialize_request(key).unwrap().pem().unwrap().into_bytes()
}

/// Everything a review looks at, owned, to be changed at will.
#[derive(Clone, Debug)]
pub struct Case {
    pub signer: String,
    pub csr: Vec<u8>,
    pub usages: Vec<String>,
    pub expiration_seconds: Option<i32>,
    pub requester: Requester,
    pub roster: Roster,
}

impl Case {
    pub fn honest() -> Self {
        Self::with_csr(tf_pki::member::request(&identity()).unwrap().request.into_bytes())
    }

    pub fn with_csr(csr: Vec<u8>) -> Self {
        Self {
            signer: SIGNER.into(),
            csr,
            usages: USAGES.map(Into::into).into(),
            expiration_seconds: Some(LIFETIME as i32),
            requester: requester(),
            roster: roster(),
        }
    }

    /// The honest request with other parameters, signed with a new P-256 key.
    pub fn with_params(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = params();
        change(&mut params);
        Self::with_csr(signed(&params, &KeyPair::generate().unwrap()))
    }

    pub fn review(&self) -> Decision {
        let request = Request {
            signer: &self.signer,
            csr: &self.csr,
            usages: &self.usages,
            expiration_seconds: self.expiration_seconds,
            requester: &self.requester,
        };
        review(&request, &self.roster)
    }

    pub fn approved(&self) -> tf_pki::review::Approved {
        match self.review() {
            Decision::Approve(approved) => approved,
            other => panic!("{other:?}"),
        }
    }
}

pub fn extra<'a>(case: &'a mut Case, key: &str) -> &'a mut Vec<String> {
    case.requester.extra.get_mut(&format!("authentication.kubernetes.io/{key}")).unwrap()
}

pub fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

pub fn der(case: &Case) -> Vec<u8> {
    let pem = String::from_utf8(case.csr.clone()).unwrap();
    der::pem::decode_vec(pem.as_bytes()).unwrap().1
}
