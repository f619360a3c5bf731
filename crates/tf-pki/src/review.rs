//! Whether a CertificateSigningRequest is signed: a pure decision over the request and what the operator knows.
//!
//! A request is approved when a pod that was seen asks, with a token bound to it, for exactly the certificate that was
//! planned for it, with a key that is strong and its own. What is merely too early waits; everything else is denied with a
//! reason. Only what was approved here can be signed ([`Approved`] is made nowhere else), so an approval that somebody else
//! wrote into the object leads to nothing: the operator reviews again before it signs.

mod requester;

use std::{collections::BTreeMap, time::Duration};

use der::oid::db::rfc5280::{ID_KP_CLIENT_AUTH, ID_KP_SERVER_AUTH};
use strum::IntoStaticStr;
use x509_cert::ext::pkix::KeyUsages;

pub use self::requester::{PodToken, Requester, ServiceAccount};
use crate::{
    csr::{Csr, CsrError},
    key::{KeyKind, PublicKey},
    member::{Identity, SHORTEST_LIFETIME, SIGNER, USAGES, common_name},
    name::shown,
};

/// The parts of a CertificateSigningRequest that matter.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// `spec.signerName`.
    pub signer: &'a str,
    /// `spec.request`: PEM, or DER.
    pub csr: &'a [u8],
    /// `spec.usages`.
    pub usages: &'a [String],
    /// `spec.expirationSeconds`.
    pub expiration_seconds: Option<i32>,
    /// Who asks, as the API server recorded it.
    pub requester: &'a Requester,
}

/// A pod that was seen and that has a place in the plan. Pods that lack a node, an address or a place are left out: their
/// requests wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Uid of the pod.
    pub uid: String,
    /// Name of the node it runs on.
    pub node: String,
    /// Uid of that node, where it was looked up.
    pub node_uid: Option<String>,
    /// What was planned for it.
    pub identity: Identity,
}

/// What the operator knows about the pods of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// The account its pods use.
    pub account: ServiceAccount,
    /// Pods by name.
    pub pods: BTreeMap<String, Candidate>,
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Approve and sign it.
    Approve(Approved),
    /// Deny it.
    Deny(Denial),
    /// Look again when the pods change; the reason is for people.
    Wait(String),
    /// It is for another signer.
    NotOurs,
}

/// A request that was approved: what [`crate::authority::Authority::sign`] takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approved {
    identity: Identity,
    key: PublicKey,
    lifetime: Duration,
}

impl Approved {
    /// Whose certificate it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The key it is for.
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// How long it is good for: what was asked for, which is not more than what was planned.
    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }
}

/// Why a request is denied, for the condition's reason and the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
pub enum DenialReason {
    /// Not the service account of the resource's pods.
    ForeignRequester,
    /// The token is not bound to a pod on a node, or says so in two ways.
    UnboundToken,
    /// The token was issued on another node than the pod's.
    ForeignNode,
    /// The request cannot be read, or is too large.
    Malformed,
    /// The key is too weak, or of another kind.
    WeakKey,
    /// The requester does not hold the key.
    BadSignature,
    /// An authority was asked for.
    AuthorityRequested,
    /// Another extension or attribute was asked for.
    ForbiddenExtension,
    /// Another subject than the pod's.
    ForeignSubject,
    /// A name or an address that is not the pod's, or written otherwise, or twice.
    ForeignName,
    /// A name or an address of the pod is not asked for: the pod knows another plan than the operator.
    MissingName,
    /// Other usages than those of members.
    WrongUsage,
    /// Longer than planned, or shorter than Kubernetes takes.
    WrongLifetime,
}

impl DenialReason {
    /// The reason as a condition carries it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// For machines.
    pub reason: DenialReason,
    /// For people. Text from the request is escaped and cut.
    pub message: String,
}

impl Denial {
    fn new(reason: DenialReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl From<CsrError> for Denial {
    fn from(error: CsrError) -> Self {
        let reason = match error {
            CsrError::TooLarge(_) | CsrError::Malformed(_) => DenialReason::Malformed,
            CsrError::Signature => DenialReason::BadSignature,
            CsrError::Key(_) => DenialReason::WeakKey,
            CsrError::Authority => DenialReason::AuthorityRequested,
            CsrError::Attributes | CsrError::Repeated(_) | CsrError::Extension(_) => DenialReason::ForbiddenExtension,
            CsrError::Subject => DenialReason::ForeignSubject,
            CsrError::Name { .. } | CsrError::RepeatedName(_) | CsrError::NameKind | CsrError::Address(_) => {
                DenialReason::ForeignName
            }
        };
        Self::new(reason, error.to_string())
    }
}

/// Decides about a request.
pub fn review(request: &Request<'_>, roster: &Roster) -> Decision {
    if request.signer != SIGNER {
        return Decision::NotOurs;
    }
    match judge(request, roster) {
        Ok(Ok(approved)) => Decision::Approve(approved),
        Ok(Err(wait)) => Decision::Wait(wait),
        Err(denial) => Decision::Deny(denial),
    }
}

/// Whether it is granted now (inner result), unless it never will be (outer result).
fn judge(request: &Request<'_>, roster: &Roster) -> Result<Result<Approved, String>, Denial> {
    let token = request.requester.pod(&roster.account)?;
    let csr = Csr::read(request.csr)?;
    if csr.common_name != common_name(&token.pod) {
        let message = format!("pod {} asks for the certificate of {}", shown(&token.pod), shown(&csr.common_name));
        return Err(Denial::new(DenialReason::ForeignSubject, message));
    }
    check_usages(&csr, request.usages)?;
    let Some(candidate) = roster.pods.get(&token.pod) else {
        return Ok(Err(format!("pod {} is not known yet, or has no place in the plan", shown(&token.pod))));
    };
    // Which of the two is the older one cannot be told from here: what was observed may be behind.
    if candidate.uid != token.pod_uid {
        return Ok(Err(format!("pod {} is known with another uid", shown(&token.pod))));
    }
    check_node(&token, candidate)?;
    check_names(&csr, &candidate.identity)?;
    let lifetime = lifetime(request.expiration_seconds, candidate.identity.lifetime())?;
    Ok(Ok(Approved { identity: candidate.identity.clone(), key: csr.key, lifetime }))
}

fn check_node(token: &PodToken, candidate: &Candidate) -> Result<(), Denial> {
    let other_uid = candidate.node_uid.as_ref().is_some_and(|uid| *uid != token.node_uid);
    if token.node == candidate.node && !other_uid {
        return Ok(());
    }
    let message = format!(
        "the token is of node {} (uid {}); the pod runs on {}",
        shown(&token.node),
        shown(&token.node_uid),
        shown(&candidate.node)
    );
    Err(Denial::new(DenialReason::ForeignNode, message))
}

/// Usages of the request and of the object, each exactly those of members. RSA keys may encipher keys (TLS 1.2).
fn check_usages(csr: &Csr, listed: &[String]) -> Result<(), Denial> {
    const KEY_ENCIPHERMENT: &str = "key encipherment";
    let rsa = matches!(csr.key.kind(), KeyKind::Rsa(_));
    let denied = |message: String| Err(Denial::new(DenialReason::WrongUsage, message));

    let Some(usage) = csr.usage else {
        return denied("the request names no key usage".into());
    };
    let allowed =
        if rsa { KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment } else { KeyUsages::DigitalSignature.into() };
    if !usage.digital_signature() || !allowed.contains(usage.0) {
        return denied("the key usage asked for is not digital signature".into());
    }
    let mut purposes = csr.purposes.clone();
    purposes.sort();
    if purposes != [ID_KP_SERVER_AUTH, ID_KP_CLIENT_AUTH] {
        return denied("the extended key usages asked for are not server and client authentication".into());
    }
    let mut listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    if rsa && let Some(position) = listed.iter().position(|usage| *usage == KEY_ENCIPHERMENT) {
        listed.remove(position);
    }
    let mut wanted = USAGES;
    listed.sort_unstable();
    wanted.sort_unstable();
    if listed != wanted {
        return denied(format!("the usages of the object are not {}", USAGES.join(", ")));
    }
    Ok(())
}

fn check_names(csr: &Csr, identity: &Identity) -> Result<(), Denial> {
    let foreign = csr
        .names
        .difference(identity.names())
        .map(ToString::to_string)
        .chain(csr.addresses.difference(identity.addresses()).map(ToString::to_string))
        .next();
    if let Some(name) = foreign {
        let message = format!("{} is not a name or an address of {}", shown(&name), shown(identity.name()));
        return Err(Denial::new(DenialReason::ForeignName, message));
    }
    let missing = identity
        .names()
        .difference(&csr.names)
        .map(ToString::to_string)
        .chain(identity.addresses().difference(&csr.addresses).map(ToString::to_string))
        .next();
    if let Some(name) = missing {
        let message = format!("{} is planned for {} and not asked for", shown(&name), shown(identity.name()));
        return Err(Denial::new(DenialReason::MissingName, message));
    }
    Ok(())
}

fn lifetime(asked: Option<i32>, planned: Duration) -> Result<Duration, Denial> {
    let Some(asked) = asked else {
        return Ok(planned);
    };
    let seconds = Duration::from_secs(u64::try_from(asked).unwrap_or_default());
    if seconds < SHORTEST_LIFETIME || seconds > planned {
        let message = format!("{asked} s are asked for; 600 s to {} s are planned", planned.as_secs());
        return Err(Denial::new(DenialReason::WrongLifetime, message));
    }
    Ok(seconds)
}
