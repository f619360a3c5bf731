//! Whether pods of ours can go on in the place of another operator's: with the release that wrote the data, on that data, and trusted by the
//! servers that are replaced later, or by their clients.
//!
//! Servers that know each other by certificates trust the one authority that signed theirs, and so do clients (docs/upstream/go-operator.md#ca). They
//! get no other: the former operator is stopped, and its pods build their stores from the chain of their own certificate. So it is ours that has
//! to be of that authority until the last of them is replaced.

use std::collections::BTreeSet;

use tf_api::{common::Storage, contract::Reason, names};
use tf_pki::{
    bundle::Bundle,
    certificate::{Certificate, CertificateError},
};

use crate::{
    not_ready::{NotReady, Obstacle},
    observed::{Legacy, Observed, Pod},
    references::References,
    takeover::{self, is_legacy, refused},
};

/// ConfigMap with the authority that the Go tf-operator's pods trust, in every installation.
pub const AUTHORITY: &str = "csr-signer-ca";
/// Its key, and that of our own.
pub const BUNDLE: &str = "ca-bundle.crt";
/// Key of our ConfigMap with the authorities that sign, the one in use first.
const SIGNERS: &str = "signers.crt";
/// Keys of our Secret: the authority, and the root that cert-manager writes beside it.
const CHAIN: [&str; 2] = ["tls.crt", "ca.crt"];
/// So many authorities there are at most between a member's certificate and its root.
const DEPTH: usize = 8;

/// Who trusts an authority of the former operator and no other, for people.
#[derive(Clone, Copy, Debug)]
pub struct Trusting {
    /// What they refuse, as a sentence that goes on with "whose certificate does not lead to".
    pub refuse: &'static str,
    /// The page that says what to do.
    pub page: &'static str,
}

/// Where new pods look for their data, and where those of the Go tf-operator have it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The directory as a container sees it.
    pub mount: &'a str,
    /// The directory of the node, if new pods have it in one.
    pub ours: Option<&'a str>,
    /// What the spec says of it.
    pub storage: Option<&'a Storage>,
    /// Whether it is the one that is used where the spec names none.
    pub is_usual: bool,
    /// The directory that the Go tf-operator uses where pods do not show it.
    pub legacy: &'a str,
}

/// Sees to it that new pods find the data of the former ones.
///
/// # Errors
/// When they would look elsewhere.
pub fn finds_data(pods: &[Pod], place: &Place<'_>) -> Result<(), NotReady> {
    match keeps_directory(pods, place.mount, place.ours)? {
        Some(()) => Ok(()),
        None => takeover::finds_data(place.storage, place.is_usual, place.legacy),
    }
}

/// What [`trusts`] looks at.
pub fn references() -> References {
    References { secrets: vec![names::AUTHORITY.into()], config_maps: vec![AUTHORITY.into(), names::AUTHORITY.into()] }
}

/// Sees to it that a container has the image that it has in the pods of the other operator. Which release an image holds is not known before it
/// runs, and what a later one has written the former one cannot read.
///
/// # Errors
/// When it has another one.
pub fn keeps_image(pods: &[Pod], container: &str, image: &str) -> Result<(), NotReady> {
    let mut legacy = pods.iter().filter(|pod| is_legacy(pod));
    let theirs = legacy.find_map(|pod| Some((&pod.name, pod.images.get(container)?)));
    match theirs.filter(|(_, theirs)| *theirs != image) {
        None => Ok(()),
        Some((pod, theirs)) => Err(invalid(&format!(
            "container {container} of pod {pod} runs image {theirs}, and new ones would run {image}, maybe of a release that leaves no way back; name \
             {theirs} in serviceConfiguration.containers, and another one when every pod is this operator's"
        ))),
    }
}

/// Whether new pods look for their data where the former ones have it, at `mount` in a container: none if these do not show it. `ours`: the directory of the node, if
/// it is in one.
///
/// # Errors
/// When they look elsewhere.
fn keeps_directory(pods: &[Pod], mount: &str, ours: Option<&str>) -> Result<Option<()>, NotReady> {
    let theirs: BTreeSet<&str> =
        legacies(pods).filter_map(|(_, legacy)| Some(legacy.directories.get(mount)?.trim_end_matches('/'))).collect();
    match theirs.iter().find(|theirs| ours != Some(**theirs)) {
        None if theirs.is_empty() => Ok(None),
        None => Ok(Some(())),
        Some(theirs) => Err(invalid(&format!(
            "they have their data in {theirs} of their nodes, and new ones would look for it {}; set storage.hostPath.path to {theirs}, and no \
             other storage",
            ours.map_or_else(|| "elsewhere".to_owned(), |ours| format!("in {ours}"))
        ))),
    }
}

/// Sees to it that the certificates of new members are of the authority that the former servers or their clients trust, and that their authority is trusted by
/// the new ones.
///
/// # Errors
/// When they are not, or it cannot be known.
pub fn trusts<Cr>(observed: &Observed<Cr>, trusting: Trusting) -> Result<(), NotReady> {
    let Trusting { refuse, page } = trusting;
    let cure = format!("put that authority with its key into Secret tf-ca ({page} says how)");
    let map = |name: &str, key: &str| Some(observed.config_maps.get(name)?.get(key)?.as_str());
    let Some(theirs) = map(AUTHORITY, BUNDLE) else {
        return Err(invalid(&format!(
            "ConfigMap {AUTHORITY} with {BUNDLE} does not exist, so the authority that they trust is unknown; create it with that one, and {cure}"
        )));
    };
    let unreadable = |place: &str, error: CertificateError| invalid(&format!("{place}: {error}"));
    let theirs = Bundle::from_pem(theirs).map_err(|error| unreadable(&format!("ConfigMap {AUTHORITY}"), error))?;
    let (signers, above) = if let Some(signers) = map(names::AUTHORITY, SIGNERS) {
        (signers.to_owned(), map(names::AUTHORITY, BUNDLE).unwrap_or_default().to_owned())
    } else {
        // Taken as it is when the first member needs it.
        let secret = observed.secrets.get(names::AUTHORITY);
        let part = |key| secret.and_then(|secret| secret.get(key)).unwrap_or_default();
        (part(CHAIN[0]).to_owned(), CHAIN.map(part).join("\n"))
    };
    let read = |pem: &str| Bundle::from_pem(pem).map_err(|error| unreadable("authority tf-ca", error));
    let (signers, above) = (read(&signers)?, read(&above)?);
    if leads_to(&signers, &above, &theirs) {
        return Ok(());
    }
    let named: Vec<String> = theirs.certificates().iter().map(Certificate::subject).collect();
    let ours = signers
        .certificates()
        .first()
        .map_or_else(|| "there is none yet".to_owned(), |signer| format!("the one in use is {}", signer.subject()));
    Err(invalid(&format!(
        "{refuse} whose certificate does not lead to {} (ConfigMap {AUTHORITY}), and certificates of new ones would not: {ours}; {cure}",
        named.join(", ")
    )))
}

/// Whether certificates of the first of these authorities lead to a trusted one. `above`: authorities that may be between them.
fn leads_to(signers: &Bundle, above: &Bundle, trusted: &Bundle) -> bool {
    let known = trusted.fingerprints();
    let Some(signer) = signers.certificates().first() else { return false };
    let issuer = |authority: &&Certificate| above.issuer_of(authority);
    let chain: Vec<_> = std::iter::successors(Some(signer), issuer).take(DEPTH).collect();
    chain.iter().any(|it| known.contains(&it.fingerprint()) || trusted.issuer_of(it).is_some())
}

fn legacies(pods: &[Pod]) -> impl Iterator<Item = (&str, &Legacy)> {
    pods.iter().filter(|pod| is_legacy(pod)).filter_map(|pod| Some((pod.name.as_str(), pod.legacy.as_ref()?)))
}

/// Nothing is taken over until the user changes something, because of this.
pub fn invalid(why: &str) -> NotReady {
    NotReady { obstacle: Obstacle::Invalid, ..refused(Reason::InvalidSpec, why) }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use jiff::Timestamp;
    use tf_pki::authority::{Authority, Curve};

    use super::*;

    fn pod(image: &str, directory: Option<&str>) -> Pod {
        let directories = directory.map(|path| ("/data".to_owned(), path.to_owned())).into_iter().collect();
        let images = BTreeMap::from([("server".to_owned(), image.to_owned())]);
        Pod { name: "set-0".into(), images, legacy: Some(Legacy { directories }), ..Pod::default() }
    }

    fn message(refused: Result<impl std::fmt::Debug, NotReady>) -> String {
        let refused = refused.unwrap_err();
        assert!(refused.message.starts_with("cannot take over its pods: "), "{}", refused.message);
        refused.message
    }

    #[test]
    fn another_image_is_refused_while_a_pod_of_another_operator_is_there() {
        let theirs = [pod("registry/theirs:1", None)];
        assert!(keeps_image(&theirs, "server", "registry/theirs:1").is_ok());
        assert!(keeps_image(&theirs, "another", "registry/ours:2").is_ok());
        let refused = message(keeps_image(&theirs, "server", "registry/ours:2"));
        assert!(refused.contains("name registry/theirs:1 in"), "{refused}");
        let [theirs] = theirs;
        let ours = Pod { template: Some("hash".into()), ..theirs };
        assert!(keeps_image(&[ours, Pod::default()], "server", "registry/ours:2").is_ok());
    }

    #[test]
    fn another_directory_is_refused_and_nothing_is_said_where_none_is_known() {
        let theirs = [pod("image", Some("/var/lib/theirs/"))];
        let keeps = |ours| keeps_directory(&theirs, "/data", ours);
        assert_eq!(keeps(Some("/var/lib/theirs")), Ok(Some(())));
        assert!(message(keeps(Some("/var/lib/ours"))).contains("set storage.hostPath.path to /var/lib/theirs"));
        assert!(message(keeps(None)).contains("would look for it elsewhere"));
        assert_eq!(keeps_directory(&[pod("image", None)], "/data", None), Ok(None));
    }

    fn authority(name: &str) -> Authority {
        let now = "2026-11-21T10:00:00Z".parse::<Timestamp>().unwrap();
        Authority::generate(name, Curve::P256, Duration::from_hours(1), now).unwrap()
    }

    const SERVERS: Trusting = Trusting { refuse: "they reject members", page: "docs/store.md" };

    fn trusts(observed: &Observed<()>) -> Result<(), NotReady> {
        super::trusts(observed, SERVERS)
    }

    fn observed(maps: &[(&str, &[(&str, &str)])], secret: Option<&str>) -> Observed<()> {
        let text = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let map = |(name, data): &(&str, &[(&str, &str)])| ((*name).to_owned(), data.iter().map(text).collect());
        let secret =
            secret.map(|pem| ("tf-ca".to_owned(), [("tls.crt".to_owned(), pem.to_owned())].into_iter().collect()));
        Observed {
            config_maps: maps.iter().map(map).collect(),
            secrets: secret.into_iter().collect(),
            ..Observed::default()
        }
    }

    #[test]
    fn new_servers_are_signed_by_whom_the_former_ones_trust_or_nothing_begins() {
        let (theirs, ours) = (authority("theirs").certificates_pem(), authority("ours").certificates_pem());
        let published: (&str, &[(&str, &str)]) = (AUTHORITY, &[(BUNDLE, theirs.as_str())]);
        assert_eq!(trusts(&observed(&[published], Some(&theirs))), Ok(()));
        assert!(message(trusts(&observed(&[published], Some(&ours)))).contains("the one in use is "));
        assert!(message(trusts(&observed(&[published], None))).contains("there is none yet"));
        let unknown = trusts(&observed(&[], Some(&theirs)));
        assert_eq!(unknown.as_ref().unwrap_err().obstacle, Obstacle::Invalid);
        assert!(message(unknown).contains("the authority that they trust is unknown"));
        // Theirs is wanted and trusted, and ours still signs.
        let both = format!("{ours}{theirs}");
        let turning: (&str, &[(&str, &str)]) = ("tf-ca", &[(SIGNERS, both.as_str()), (BUNDLE, both.as_str())]);
        assert!(trusts(&observed(&[published, turning], Some(&theirs))).is_err());
        let both = format!("{theirs}{ours}");
        let turned: (&str, &[(&str, &str)]) = ("tf-ca", &[(SIGNERS, both.as_str()), (BUNDLE, both.as_str())]);
        assert_eq!(trusts(&observed(&[published, turned], Some(&theirs))), Ok(()));
    }
}
