//! What a member's certificate must say, and the request by which a pod asks for it.
//!
//! Both sides derive an [`Identity`] from the same plan: the node agent to ask, the operator to judge the request and to
//! sign. Nothing in a certificate comes from the request but the public key.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType,
    string::Ia5String,
};
use serde::{Deserialize, Serialize};

use crate::{
    fingerprint::Fingerprint,
    name::{DnsName, NameError, shown},
};

/// The signer of members' certificate requests.
pub const SIGNER: &str = "tf.tungsten.io/member";
/// Organisation in every subject.
pub const ORGANISATION: &str = "Tungsten Fabric";
/// Operators show themselves to members with a name below this domain, which no member can get.
pub const OPERATOR_DOMAIN: &str = "operator.tf.tungsten.io";
/// Usages of a member's request as the Kubernetes API spells them: most daemons use one pair for both roles
/// (docs/upstream/daemons.md#tls).
pub const USAGES: [&str; 3] = ["digital signature", "server auth", "client auth"];
/// Shortest lifetime: the least `expirationSeconds` the Kubernetes API takes.
pub const SHORTEST_LIFETIME: Duration = Duration::from_mins(10);
/// Lifetime where the resource states none.
pub const DEFAULT_LIFETIME: Duration = Duration::from_hours(90 * 24);

/// Longest common name (RFC 5280, A.1, ub-common-name).
const LONGEST_COMMON_NAME: usize = 64;

/// A planned member, as far as its certificate goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Name of the pod.
    pub pod: String,
    /// Name of its node. Where nodes are named by address it counts as an address.
    pub node: String,
    /// Addresses others reach it by: the node's, and those of data networks.
    pub addresses: BTreeSet<IpAddr>,
    /// Names of the services it is part of, in every form that clients use, see [`service_names`].
    #[serde(default)]
    pub services: BTreeSet<String>,
    /// Seconds a certificate is good for.
    pub lifetime_seconds: u32,
}

/// Who holds a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A member, in both roles of TLS.
    Member,
    /// An operator, as a client of members.
    Operator,
}

/// Everything a certificate says about its holder; checked, so that it can be signed as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    role: Role,
    name: String,
    names: BTreeSet<DnsName>,
    addresses: BTreeSet<IpAddr>,
    lifetime: Duration,
}

/// Why no certificate can be made for a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A name does not fit.
    #[error("name {name} {problem}")]
    Name {
        /// The name, escaped.
        name: String,
        /// What is wrong with it.
        problem: NameError,
    },
    /// An IPv4 address in the clothes of IPv6: clients would look for the other form.
    #[error("address {0} is an IPv4 address written as IPv6")]
    Mapped(IpAddr),
    /// An address that is nobody's in particular.
    #[error("address {0} is not one host's address")]
    Anybody(IpAddr),
    /// Too short to be requested from Kubernetes.
    #[error("lifetime of {0} s is shorter than 600 s")]
    Lifetime(u64),
}

/// Why no request could be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a key and a request: {0}")]
pub struct RequestError(#[from] rcgen::Error);

/// A new private key and the request that goes with it.
pub struct KeyAndRequest {
    /// The private key, PKCS #8 in PEM. Never leaves the pod.
    pub key: String,
    /// The request, PKCS #10 in PEM.
    pub request: String,
}

impl std::fmt::Debug for KeyAndRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyAndRequest").field("request", &self.request).finish_non_exhaustive()
    }
}

impl Identity {
    /// The identity of a planned member.
    pub fn member(member: &Member) -> Result<Self, IdentityError> {
        let mut addresses = member.addresses.clone();
        let mut names = BTreeSet::new();
        let node = match member.node.parse::<IpAddr>() {
            Ok(address) => {
                addresses.insert(address);
                None
            }
            Err(_) => Some(&member.node),
        };
        for text in node.into_iter().chain([&member.pod]).chain(&member.services) {
            let name = dns_name(text)?;
            if name.is_below(OPERATOR_DOMAIN) {
                return Err(IdentityError::Name { name: shown(text), problem: NameError::Reserved });
            }
            names.insert(name);
        }
        for address in &addresses {
            check_address(*address)?;
        }
        let lifetime = Duration::from_secs(member.lifetime_seconds.into());
        Self { role: Role::Member, name: member.pod.clone(), names, addresses, lifetime }.check_lifetime()
    }

    /// The identity with which the operator of a component calls members. `component` is a DNS label.
    pub fn operator(component: &str, lifetime: Duration) -> Result<Self, IdentityError> {
        let names = BTreeSet::from([dns_name(&format!("{component}.{OPERATOR_DOMAIN}"))?]);
        Self { role: Role::Operator, name: component.to_owned(), names, addresses: BTreeSet::new(), lifetime }
            .check_lifetime()
    }

    fn check_lifetime(self) -> Result<Self, IdentityError> {
        if self.lifetime < SHORTEST_LIFETIME {
            return Err(IdentityError::Lifetime(self.lifetime.as_secs()));
        }
        Ok(self)
    }

    /// Who holds the certificate.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Name of the pod, or of the operator's component.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// DNS names.
    pub fn names(&self) -> &BTreeSet<DnsName> {
        &self.names
    }

    /// Addresses.
    pub fn addresses(&self) -> &BTreeSet<IpAddr> {
        &self.addresses
    }

    /// How long a certificate is good for.
    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// The common name: the name itself, or its beginning and a hash when it is longer than X.509 takes.
    pub fn common_name(&self) -> String {
        common_name(&self.name)
    }

    /// What the holder may use the key for.
    pub(crate) fn purposes(&self) -> &'static [ExtendedKeyUsagePurpose] {
        match self.role {
            Role::Member => &[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            Role::Operator => &[ExtendedKeyUsagePurpose::ClientAuth],
        }
    }
}

/// The common name for the name of a pod.
pub fn common_name(name: &str) -> String {
    const HASH: usize = 12;
    if name.len() <= LONGEST_COMMON_NAME {
        return name.to_owned();
    }
    let hash = Fingerprint::of(name.as_bytes()).short(HASH);
    let beginning: String = name.chars().take(LONGEST_COMMON_NAME - HASH - 1).collect();
    format!("{beginning}-{hash}")
}

fn dns_name(text: &str) -> Result<DnsName, IdentityError> {
    DnsName::parse(text).map_err(|problem| IdentityError::Name { name: shown(text), problem })
}

fn check_address(address: IpAddr) -> Result<(), IdentityError> {
    if address.to_canonical() != address {
        return Err(IdentityError::Mapped(address));
    }
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err(IdentityError::Anybody(address));
    }
    Ok(())
}

/// The forms in which clients in the cluster name a service.
pub fn service_names(service: &str, namespace: &str, cluster_domain: &str) -> [String; 4] {
    [
        service.to_owned(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.{cluster_domain}"),
    ]
}

/// Makes a key (ECDSA P-256) and the request for its certificate.
pub fn request(identity: &Identity) -> Result<KeyAndRequest, RequestError> {
    let key = KeyPair::generate()?;
    let request = request_with(identity, &key)?;
    Ok(KeyAndRequest { key: key.serialize_pem(), request })
}

/// The request for the certificate of a key that exists.
pub(crate) fn request_with(identity: &Identity, key: &KeyPair) -> Result<String, RequestError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, ORGANISATION);
    params.distinguished_name.push(DnType::CommonName, identity.common_name());
    for name in identity.names() {
        params.subject_alt_names.push(SanType::DnsName(Ia5String::try_from(name.as_str())?));
    }
    params.subject_alt_names.extend(identity.addresses().iter().copied().map(SanType::IpAddress));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = identity.purposes().to_vec();
    Ok(params.serialize_request(key)?.pem()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        Member {
            pod: "zk-0".into(),
            node: "node1.example.com".into(),
            addresses: BTreeSet::from([[10, 0, 0, 1].into()]),
            services: service_names("zk", "tf", "cluster.local").into_iter().collect(),
            lifetime_seconds: 7_776_000,
        }
    }

    #[test]
    fn a_member_is_known_by_pod_node_services_and_addresses() {
        let identity = Identity::member(&member()).unwrap();
        let names: Vec<&str> = identity.names().iter().map(DnsName::as_str).collect();
        assert_eq!(names, ["node1.example.com", "zk", "zk-0", "zk.tf", "zk.tf.svc", "zk.tf.svc.cluster.local"]);
        assert_eq!(identity.addresses(), &member().addresses);
        assert_eq!(identity.common_name(), "zk-0");
        assert_eq!(identity.lifetime(), DEFAULT_LIFETIME);
    }

    #[test]
    fn a_node_named_by_its_address_gives_an_address_and_no_name() {
        let identity = Identity::member(&Member { node: "10.0.0.1".into(), ..member() }).unwrap();
        assert_eq!(identity.addresses().len(), 1);
        assert!(identity.names().iter().all(|name| !name.as_str().starts_with("10.")));
    }

    #[test]
    fn a_pod_with_a_long_name_gets_a_common_name_that_fits_and_is_its_own() {
        let [one, other] = ["x".repeat(63) + ".a1", "x".repeat(63) + ".b1"]
            .map(|pod| Identity::member(&Member { pod, ..member() }).unwrap().common_name());
        assert_eq!(one.len(), LONGEST_COMMON_NAME);
        assert_ne!(one, other);
    }

    #[test]
    fn what_cannot_stand_in_a_certificate_is_refused_with_the_reason() {
        let refused = |change: fn(&mut Member)| {
            let mut member = member();
            change(&mut member);
            Identity::member(&member).unwrap_err().to_string()
        };
        assert_eq!(refused(|m| m.pod = "*".into()), r#"name "*" is a wildcard"#);
        assert!(refused(|m| m.node = "Node1".into()).contains("lower-case"));
        assert!(
            refused(|m| _ = m.addresses.insert("::ffff:10.0.0.1".parse().unwrap())).contains("IPv4 address written")
        );
        assert!(refused(|m| _ = m.addresses.insert("127.0.0.1".parse().unwrap())).contains("one host's"));
        assert!(refused(|m| m.lifetime_seconds = 599).contains("shorter than 600 s"));
        assert!(refused(|m| m.node = "zookeeper.operator.tf.tungsten.io".into()).contains("kept for operators"));
    }

    #[test]
    fn keys_are_new_each_time_and_not_in_debug_output() {
        let identity = Identity::member(&member()).unwrap();
        let (one, other) = (request(&identity).unwrap(), request(&identity).unwrap());
        assert_ne!(one.key, other.key);
        assert!(one.key.starts_with("-----BEGIN PRIVATE KEY-----\n"));
        assert!(!format!("{one:?}").contains("PRIVATE"));
    }
}
