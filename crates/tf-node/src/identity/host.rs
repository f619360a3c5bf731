//! The files of the node, put there by its administrator: whether the daemon can use them. Pure.

use std::{net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use rustls::{
    CertificateError, Error, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::WebPkiClientVerifier,
};
use serde::{Deserialize, Serialize};
use tf_agent_api::{launch, node};
use tf_pki::{bundle::Bundle, certificate::Certificate, key_file, lifetime::Validity};

use super::decide::Pair;

/// What is in a file of the node.
pub type Content = Result<String, Unreadable>;

/// Why a file shows nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// There is none.
    #[error("is missing")]
    Missing,
    /// It is the administrator's alone.
    #[error("may not be read by the group {}; let the group read it and enter its directory", node::USER)]
    Denied,
    /// Nothing that a certificate could be in.
    #[error("is no file of up to 1 MiB of text")]
    Odd,
    /// Something else.
    #[error("cannot be read: {0}")]
    Failed(String),
}

/// What the node has for one address.
#[derive(Clone)]
pub struct Files {
    /// Private key.
    pub key: Content,
    /// The certificate, and those between it and the root.
    pub certificate: Content,
    /// The authorities.
    pub bundle: Content,
}

/// Files that were good when they were taken.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Private key, PKCS #8 in PEM.
    key: String,
    /// The certificate, and those between it and the root, in PEM.
    certificates: String,
    /// The authorities in PEM.
    bundle: String,
}

/// Which files cannot be used, and why. Their content is not quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(String);

impl Unfit {
    fn new(path: &str, why: impl std::fmt::Display) -> Self {
        Self(format!("{path} {why}"))
    }
}

/// Where the administrator has the files: key, certificate, authorities.
fn paths(address: IpAddr) -> [String; 3] {
    let own = |name| format!("{}/{}/{name}", node::HOST_FILES, node::HOST_CERTIFICATES);
    let bundle = format!("{}/{}/{}", node::HOST_FILES, node::HOST_AUTHORITIES, node::HOST_BUNDLE);
    [own(node::host_key(address)), own(node::host_certificate(address)), bundle]
}

/// Checks the files for the member at an address.
///
/// # Errors
/// When the daemon or those it meets could not use them.
pub fn accept(files: &Files, address: IpAddr, now: Timestamp) -> Result<Taken, Unfit> {
    let paths = paths(address);
    let [key_path, certificate_path, bundle_path] = &paths;
    let (Ok(key), Ok(certificate), Ok(bundle)) = (&files.key, &files.certificate, &files.bundle) else {
        let contents = [&files.key, &files.certificate, &files.bundle];
        let unread = paths.iter().zip(contents).filter_map(|(path, content)| {
            let why = content.as_ref().err()?;
            Some(format!("{path} {why}"))
        });
        return Err(Unfit(unread.collect::<Vec<_>>().join(", ")));
    };
    let key = key_file::pkcs8(key).map_err(|why| Unfit::new(key_path, why))?;
    let chain = certificates(certificate).map_err(|why| Unfit::new(certificate_path, why))?;
    let authorities = certificates(bundle).map_err(|why| Unfit::new(bundle_path, why))?;
    check_own(&chain, &key, address, now).map_err(|why| Unfit::new(certificate_path, why))?;
    let bundle: Bundle = authorities.into_iter().collect();
    verify(&chain, &bundle, address, now).map_err(|why| match why {
        Untrusted::Authority => Unfit::new(bundle_path, "has an authority that cannot be trusted"),
        Untrusted::Chain => Unfit::new(certificate_path, format!("is not issued by an authority of {bundle_path}")),
        Untrusted::Otherwise(why) => Unfit::new(certificate_path, format!("is refused with {bundle_path}: {why}")),
    })?;
    Ok(Taken { key, certificates: chain.iter().map(Certificate::pem).collect(), bundle: bundle.pem() })
}

/// The authorities alone, for a member that has no certificate of theirs to show and meets those that have. None where they
/// cannot be read.
pub fn authorities(files: &Files) -> Bundle {
    let authorities = files.bundle.as_ref().ok().and_then(|bundle| certificates(bundle).ok());
    authorities.into_iter().flatten().collect()
}

fn certificates(pem: &str) -> Result<Vec<Certificate>, String> {
    use tf_pki::certificate::CertificateError::Pem;
    match Certificate::all_from_pem(pem) {
        Ok(chain) if chain.is_empty() => Err("has no certificate in PEM".into()),
        Ok(chain) => Ok(chain),
        // What cannot be read may be anything.
        Err(Pem(_)) => Err("is not PEM".into()),
        Err(error) => Err(format!("has a certificate that cannot be used: {error}")),
    }
}

/// What the certificate says of itself.
fn check_own(chain: &[Certificate], key: &str, address: IpAddr, now: Timestamp) -> Result<(), String> {
    let own = chain.first().ok_or("has no certificate")?;
    if !own.is_for_key(key) {
        return Err(format!("is for another key than that of {}", node::host_key(address)));
    }
    if !own.addresses().contains(&address) {
        return Err(format!("lacks the address {address} among its alternative names"));
    }
    let Validity { not_before, not_after } = own.validity();
    if now > not_after {
        return Err(format!("has expired at {not_after}"));
    }
    if now < not_before {
        return Err(format!("is not good before {not_before}; is this node's clock right?"));
    }
    if !own.serves_both_roles() {
        return Err("is not for digital signatures of both servers and clients of TLS".into());
    }
    Ok(())
}

enum Untrusted {
    Authority,
    Chain,
    Otherwise(String),
}

impl From<Error> for Untrusted {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => Self::Chain,
            other => Self::Otherwise(other.to_string()),
        }
    }
}

/// The look of those whom the daemon meets, as its server and as its client.
fn verify(chain: &[Certificate], bundle: &Bundle, address: IpAddr, now: Timestamp) -> Result<(), Untrusted> {
    let mut roots = RootCertStore::empty();
    for authority in bundle.certificates() {
        roots.add(CertificateDer::from(authority.der().to_vec())).map_err(|_| Untrusted::Authority)?;
    }
    let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
    let mut chain = chain.iter().map(|certificate| CertificateDer::from(certificate.der()));
    let own = chain.next().ok_or(Untrusted::Chain)?;
    let between: Vec<_> = chain.collect();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default()));
    let server = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider)).build();
    let server = server.map_err(|_| Untrusted::Authority)?;
    server.verify_server_cert(&own, &between, &ServerName::from(address), &[], now)?;
    let client = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
    client.map_err(|_| Untrusted::Authority)?.verify_client_cert(&own, &between, now)?;
    Ok(())
}

impl Taken {
    /// Key and certificates.
    pub fn pair(&self) -> Pair<'_> {
        Pair { key: &self.key, certificates: &self.certificates }
    }

    /// The authorities.
    pub fn bundle(&self) -> Bundle {
        Bundle::from_pem(&self.bundle).unwrap_or_default()
    }

    /// When the certificate is good.
    pub fn validity(&self) -> Option<Validity> {
        Some(Certificate::first_from_pem(&self.certificates).ok()?.validity())
    }

    fn is_good(&self, now: Timestamp) -> bool {
        self.validity().is_some_and(|validity| (validity.not_before..=validity.not_after).contains(&now))
    }
}

/// Which of the node's certificates the daemon shows instead of the member's own, which every other one trusts as well: what
/// is over gives way to it.
pub fn shown(taken: Option<&Taken>, wish: launch::HostFiles, now: Timestamp) -> Option<&Taken> {
    taken.filter(|taken| wish == launch::HostFiles::Shown && taken.is_good(now))
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
        SanType, date_time_ymd,
    };

    use super::*;

    const KEY: &str = "/etc/contrail/ssl/certs/server-key-10.0.0.1.pem";
    const CERTIFICATE: &str = "/etc/contrail/ssl/certs/server-10.0.0.1.crt";
    const BUNDLE: &str = "/etc/contrail/ssl/ca-certs/ca-bundle.crt";

    fn address() -> IpAddr {
        [10, 0, 0, 1].into()
    }

    fn at(date: &str) -> Timestamp {
        format!("{date}T00:00:00Z").parse().unwrap()
    }

    fn now() -> Timestamp {
        at("2027-06-01")
    }

    struct Authority {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    fn ca(name: &str) -> (CertificateParams, KeyPair) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        (params, KeyPair::generate().unwrap())
    }

    impl Authority {
        fn new(name: &str) -> Self {
            let (params, key) = ca(name);
            let pem = params.self_signed(&key).unwrap().pem();
            Self { pem, issuer: Issuer::new(params, key) }
        }

        fn below(&self, name: &str) -> Self {
            let (params, key) = ca(name);
            let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
            Self { pem, issuer: Issuer::new(params, key) }
        }

        /// What an administrator makes with it for the member, in one way other than usual.
        fn files(&self, change: impl FnOnce(&mut CertificateParams)) -> Files {
            let mut params = CertificateParams::default();
            params.subject_alt_names = vec![SanType::IpAddress(address())];
            (params.not_before, params.not_after) = (date_time_ymd(2027, 1, 1), date_time_ymd(2027, 12, 1));
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            change(&mut params);
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
            Files { key: Ok(key.serialize_pem()), certificate: Ok(certificate), bundle: Ok(self.pem.clone()) }
        }
    }

    fn usual(authority: &Authority) -> Files {
        authority.files(|_| {})
    }

    fn refused(files: &Files, now: Timestamp) -> String {
        accept(files, address(), now).err().map(|unfit| unfit.to_string()).unwrap_or_default()
    }

    #[test]
    fn good_files_are_taken_as_they_are_without_what_else_stands_in_them() {
        let authority = Authority::new("a");
        let mut files = usual(&authority);
        let certificate = files.certificate.clone().unwrap();
        files.certificate = Ok(format!("for node 1\n{certificate}\n{}", files.key.clone().unwrap()));
        let taken = accept(&files, address(), now()).unwrap();
        assert_eq!((&taken.key, &taken.certificates), (files.key.as_ref().unwrap(), &certificate));
        assert_eq!(taken.bundle().certificates().len(), 1);
        assert_eq!(taken.validity().unwrap().not_after, at("2027-12-01"));
        let silent = |params: &mut CertificateParams| {
            params.key_usages.clear();
            params.extended_key_usages.clear();
        };
        assert_eq!(refused(&authority.files(silent), now()), "", "one that names no usages may be used for all");
    }

    #[test]
    fn an_authority_between_stands_beside_the_certificate_or_in_the_bundle() {
        let root = Authority::new("root");
        let between = root.below("between");
        let files = usual(&between);
        assert_eq!(refused(&files, now()), "", "trusted itself");
        let alone = Files { bundle: Ok(root.pem.clone()), ..files.clone() };
        assert_eq!(refused(&alone, now()), format!("{CERTIFICATE} is not issued by an authority of {BUNDLE}"));
        let chain = files.certificate.unwrap() + &between.pem;
        assert_eq!(refused(&Files { certificate: Ok(chain), ..alone }, now()), "");
    }

    #[test]
    fn what_cannot_be_used_is_named_with_the_file_and_not_quoted() {
        let (authority, other) = (Authority::new("a"), Authority::new("b"));
        let good = usual(&authority);
        let text = |text: &str| Ok::<_, Unreadable>(text.to_owned());
        let is = |path: &str, why: &str| format!("{path} {why}");
        let cases = [
            (Files { key: Err(Unreadable::Missing), ..good.clone() }, is(KEY, "is missing")),
            (
                Files { key: Err(Unreadable::Denied), bundle: Err(Unreadable::Missing), ..good.clone() },
                format!(
                    "{KEY} may not be read by the group 1999; let the group read it and enter its directory, {BUNDLE} is missing"
                ),
            ),
            (Files { key: text("hunter2"), ..good.clone() }, is(KEY, "has no private key in PEM")),
            (Files { certificate: text("hunter2"), ..good.clone() }, is(CERTIFICATE, "has no certificate in PEM")),
            (
                Files { certificate: text("-----BEGIN CERTIFICATE----- hunter2"), ..good.clone() },
                is(CERTIFICATE, "is not PEM"),
            ),
            (Files { bundle: text(""), ..good.clone() }, is(BUNDLE, "has no certificate in PEM")),
            (
                Files { key: usual(&authority).key, ..good.clone() },
                is(CERTIFICATE, "is for another key than that of server-key-10.0.0.1.pem"),
            ),
            (
                authority.files(|params| params.subject_alt_names = vec![SanType::IpAddress([10, 0, 0, 2].into())]),
                is(CERTIFICATE, "lacks the address 10.0.0.1 among its alternative names"),
            ),
            (
                authority.files(|params| params.not_after = date_time_ymd(2027, 5, 1)),
                is(CERTIFICATE, "has expired at 2027-05-01T00:00:00Z"),
            ),
            (
                authority.files(|params| params.not_before = date_time_ymd(2027, 7, 1)),
                is(CERTIFICATE, "is not good before 2027-07-01T00:00:00Z; is this node's clock right?"),
            ),
            (
                authority.files(|params| params.extended_key_usages.truncate(1)),
                is(CERTIFICATE, "is not for digital signatures of both servers and clients of TLS"),
            ),
            (
                authority.files(|params| params.key_usages = vec![KeyUsagePurpose::KeyEncipherment]),
                is(CERTIFICATE, "is not for digital signatures of both servers and clients of TLS"),
            ),
            (
                Files { bundle: Ok(other.pem.clone()), ..good.clone() },
                format!("{CERTIFICATE} is not issued by an authority of {BUNDLE}"),
            ),
        ];
        for (files, expected) in cases {
            assert_eq!(refused(&files, now()), expected);
        }
    }

    #[test]
    fn the_authorities_are_trusted_without_a_certificate_of_theirs() {
        let good = usual(&Authority::new("a"));
        let alone = Files { key: Err(Unreadable::Missing), certificate: Err(Unreadable::Missing), ..good.clone() };
        assert_eq!(authorities(&alone), accept(&good, address(), now()).unwrap().bundle());
        for bundle in [Err(Unreadable::Missing), Ok("hunter2".to_owned())] {
            assert_eq!(authorities(&Files { bundle, ..alone.clone() }), Bundle::default());
        }
    }

    #[test]
    fn a_chain_through_something_that_is_no_authority_is_refused() {
        let root = Authority::new("root");
        let (mut params, key) = ca("none");
        params.is_ca = IsCa::ExplicitNoCa;
        let pem = params.signed_by(&key, &root.issuer).unwrap().pem();
        let none = Authority { pem: pem.clone(), issuer: Issuer::new(params, key) };
        let files = usual(&none);
        let files =
            Files { certificate: files.certificate.map(|own| own + &pem), bundle: Ok(root.pem.clone()), ..files };
        let why = refused(&files, now());
        assert!(why.starts_with(&format!("{CERTIFICATE} is ")) && why.contains(BUNDLE), "{why}");
    }

    #[test]
    fn a_certificate_is_shown_where_that_is_wished_until_it_is_over() {
        let taken = accept(&usual(&Authority::new("a")), address(), now()).unwrap();
        let is_shown = |wish, date| shown(Some(&taken), wish, at(date)).is_some();
        assert!(is_shown(launch::HostFiles::Shown, "2027-11-30"));
        assert!(!is_shown(launch::HostFiles::Shown, "2027-12-02"), "the member's own is better");
        assert!(!is_shown(launch::HostFiles::Trusted, "2027-06-01"));
    }
}
