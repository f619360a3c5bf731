//! Members' requests for certificates: reviewed, noted at the pod, approved and signed, or denied with the reason.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
        core::v1::Pod,
    },
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tf_api::{Resource as _, names};
use tf_pki::{
    authority::Issued,
    member::Identity,
    review::{Candidate, Decision, Denial, Request, Requester, Roster, ServiceAccount, review},
};
use tf_plan::{
    build::{identity, workload::service_account_name},
    component::Component,
    observed,
};
use tokio::{sync::Notify, time::Instant};

use super::{Authorities, AuthorityFailure};
use crate::{
    caches::Caches,
    error::RequestError,
    events::Events,
    object::Key,
    watch::{Cache, Primary},
};

/// Between two looks at requests that wait for something, and after a failure.
const PAUSE: Duration = Duration::from_secs(2);

/// A request that is not decided, or not signed. Others are kept as nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending(Option<Box<Open>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    csr: Vec<u8>,
    signer: String,
    usages: Vec<String>,
    expiration_seconds: Option<i32>,
    requester: Requester,
    /// Number of the bundle of authorities that the member goes by.
    trusts: u64,
    approved: bool,
    version: String,
    /// When it was made, by the API server's clock.
    made: Option<Timestamp>,
}

impl Pending {
    /// What of a request matters here.
    pub fn of(request: CertificateSigningRequest) -> Self {
        let status = request.status.unwrap_or_default();
        let has = |kind: &str| status.conditions.iter().flatten().any(|condition| condition.type_ == kind);
        if has("Denied") || has("Failed") || status.certificate.is_some() {
            return Self(None);
        }
        let revision = request.metadata.annotations.as_ref().and_then(|all| all.get(names::ANNOTATION_BUNDLE_REVISION));
        let trusts = revision.and_then(|revision| revision.parse().ok()).unwrap_or_default();
        let spec = request.spec;
        Self(Some(Box::new(Open {
            csr: spec.request.0,
            signer: spec.signer_name,
            usages: spec.usages.unwrap_or_default(),
            expiration_seconds: spec.expiration_seconds,
            requester: Requester {
                username: spec.username.unwrap_or_default(),
                groups: spec.groups.unwrap_or_default(),
                extra: spec.extra.unwrap_or_default(),
            },
            trusts,
            approved: has("Approved"),
            version: request.metadata.resource_version.unwrap_or_default(),
            made: request.metadata.creation_timestamp.map(|time| time.0),
        })))
    }
}

impl Open {
    /// From when on its certificate is good: from when it was made, so that an operator that noted the certificate and died before
    /// it handed it out makes the same one again. A request that has been waiting for long is good from now on, and so is one that
    /// is older than the authority.
    fn good_from(&self, lifetime: Duration, authority: Timestamp, now: Timestamp) -> Timestamp {
        let is_fresh = |made: &Timestamp| (authority..=now).contains(made) && *made + lifetime / 100 > now;
        self.made.filter(is_fresh).unwrap_or(now)
    }
}

/// Requests as the watch delivers them.
#[derive(Debug, Default)]
pub struct Requests {
    /// By name.
    pub pending: Arc<Cache<Pending>>,
    /// Something is new.
    pub changed: Notify,
}

/// Signs for one operator.
pub struct Signer<C: Component> {
    /// What was seen.
    pub caches: Arc<Caches<C::Cr>>,
    /// The authorities.
    pub authorities: Arc<Authorities>,
    /// For writing.
    pub client: Client,
    /// Tells people of denials.
    pub events: Arc<Events>,
    /// Domain of cluster services.
    pub cluster_domain: String,
}

impl<C: Component> Signer<C> {
    /// Works until it is dropped.
    pub async fn run(self) {
        let mut retry: HashMap<Key, Instant> = HashMap::new();
        loop {
            let open = self.caches.requests.pending.select(|_, pending| pending.0.is_some());
            retry.retain(|key, _| open.iter().any(|(other, _)| other == key));
            for (key, pending) in open {
                let Some(open) = &pending.0 else { continue };
                if retry.get(&key).is_some_and(|at| Instant::now() < *at) {
                    continue;
                }
                retry.insert(key.clone(), Instant::now() + PAUSE);
                match self.decide(&key, open).await {
                    Ok(()) => {}
                    Err(AuthorityFailure::Request(error)) if error.is_not_leader() => {}
                    Err(error) => tracing::warn!(request = %key, %error, "a certificate was not issued"),
                }
            }
            tokio::select! {
                () = self.caches.requests.changed.notified() => {}
                () = tokio::time::sleep(PAUSE), if !retry.is_empty() => {}
            }
        }
    }

    async fn decide(&self, key: &Key, open: &Open) -> Result<(), AuthorityFailure> {
        // Of several operators with one signer, that one answers whose pod asks.
        let Some((owner, cr, account)) = self.resource(open) else { return Ok(()) };
        let roster = Roster { account, pods: self.candidate(&owner, &cr, &open.requester) };
        let request = Request {
            signer: &open.signer,
            csr: &open.csr,
            usages: &open.usages,
            expiration_seconds: open.expiration_seconds,
            requester: &open.requester,
        };
        match review(&request, &roster) {
            Decision::Approve(approved) => {
                let Some(stored) = self.authorities.at_once(&owner.namespace).await? else { return Ok(()) };
                let authority = match stored.issuer_for(open.trusts) {
                    Ok(authority) => authority,
                    // The member asks again once it has read the bundle.
                    Err(behind) => {
                        tracing::debug!(request = %key, %behind, "a certificate request waits");
                        return Ok(());
                    }
                };
                let good_from = open.good_from(approved.lifetime(), authority.validity().not_before, Timestamp::now());
                let issued = match authority.sign(&approved, good_from) {
                    Ok(issued) => issued,
                    Err(error) => {
                        tracing::warn!(request = %key, %error, "a certificate was not signed");
                        return Ok(());
                    }
                };
                let pod = approved.identity().name().to_owned();
                let uid = roster.pods.get(&pod).map(|candidate| candidate.uid.as_str()).unwrap_or_default();
                let note = observed::Certificate {
                    not_after: issued.certificate.validity().not_after,
                    issuer: authority.fingerprint().to_string(),
                };
                self.note(&owner, &pod, uid, &note).await?;
                Ok(self.issue(key, open, &pod, &issued).await?)
            }
            Decision::Deny(denial) => Ok(self.deny(key, open, &*cr, &denial).await?),
            Decision::Wait(why) => {
                tracing::debug!(request = %key, why, "a certificate request waits");
                Ok(())
            }
            Decision::NotOurs => Ok(()),
        }
    }

    /// The resource whose pods have the account that asks.
    fn resource(&self, open: &Open) -> Option<(Key, Arc<C::Cr>, ServiceAccount)> {
        let account = open.requester.account()?;
        let operator = self.caches.declaration.operator;
        let found = self.caches.primaries.select(|key, primary| match primary {
            Primary::Valid(cr) => {
                let name = service_account_name(&identity::Identity::of(operator, &**cr));
                key.namespace == account.namespace && name == account.name
            }
            Primary::Undecodable { .. } => false,
        });
        found.into_iter().find_map(|(key, primary)| match &*primary {
            Primary::Valid(cr) => Some((key, cr.clone(), account.clone())),
            Primary::Undecodable { .. } => None,
        })
    }

    /// The pod that asks, if it is one of the resource's own workloads, with what its certificate says. Others need not be looked at, and
    /// may be thousands.
    fn candidate(&self, owner: &Key, cr: &C::Cr, requester: &Requester) -> BTreeMap<String, Candidate> {
        let Some(agents) = C::agents(cr, &self.cluster_domain) else { return BTreeMap::new() };
        let uid = cr.meta().uid.clone().unwrap_or_default();
        let kinds = self.caches.declaration.workload_kinds();
        let workloads: BTreeSet<String> =
            kinds.flat_map(|kind| self.caches.children_of(kind, &uid)).map(|(key, _)| key.name).collect();
        let asks = |pod: &observed::Pod| requester.is_of(&pod.name);
        let candidate = |pod: observed::Pod| {
            let node = pod.node.clone().filter(|_| workloads.contains(pod.workload()) && !pod.terminating)?;
            let address = pod.address.as_ref()?.parse().ok()?;
            let identity = Identity::member(&agents.member(&pod.name, &node, address));
            let identity =
                identity.inspect_err(|error| tracing::warn!(pod = pod.name, %error, "no certificate")).ok()?;
            Some((pod.name, Candidate { uid: pod.uid, node, node_uid: None, identity }))
        };
        self.caches.pods_of(owner).into_iter().filter(asks).filter_map(candidate).collect()
    }

    /// Notes the certificate at the pod, before it is handed out: whoever holds one is known from then on.
    async fn note(&self, owner: &Key, pod: &str, uid: &str, note: &observed::Certificate) -> Result<(), RequestError> {
        if self.caches.pods_of(owner).iter().any(|known| known.uid == uid && known.certificate.as_ref() == Some(note)) {
            return Ok(());
        }
        let pods = Api::<Pod>::namespaced(self.client.clone(), &owner.namespace);
        let note = format!("{} {}", note.not_after, note.issuer);
        let body = json!({"metadata": {"uid": uid, "annotations": {names::ANNOTATION_CERTIFICATE: note}}});
        let answer = pods.patch(pod, &PatchParams::default(), &Patch::Merge(&body)).await;
        answer.map_err(RequestError::while_doing(format!("noting the certificate of pod {pod}")))?;
        Ok(())
    }

    /// Approves the request and hands the certificate out. The former may have been done before.
    async fn issue(&self, key: &Key, open: &Open, pod: &str, issued: &Issued) -> Result<(), RequestError> {
        if !open.approved {
            self.conclude(key, open, "Approved", "Planned", &format!("pod {pod} is a planned member")).await?;
        }
        let api = Api::<CertificateSigningRequest>::all(self.client.clone());
        let body = json!({"status": {"certificate": ByteString(issued.pem.clone().into_bytes())}});
        api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(&body))
            .await
            .map_err(RequestError::while_doing(format!("signing request {key}")))?;
        tracing::info!(request = %key, pod, not_after = %issued.certificate.validity().not_after, "issued a certificate");
        Ok(())
    }

    async fn deny(&self, key: &Key, open: &Open, cr: &C::Cr, denial: &Denial) -> Result<(), RequestError> {
        tracing::warn!(request = %key, reason = denial.reason.as_str(), denial.message, "denied a certificate");
        if open.approved {
            // Somebody approved what must not be signed: it stays unsigned.
            return Ok(());
        }
        self.conclude(key, open, "Denied", denial.reason.as_str(), &denial.message).await?;
        self.events.denied(cr, &key.name, denial).await;
        Ok(())
    }

    async fn conclude(
        &self,
        key: &Key,
        open: &Open,
        verdict: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), RequestError> {
        let api = Api::<CertificateSigningRequest>::all(self.client.clone());
        let condition = CertificateSigningRequestCondition {
            type_: verdict.into(),
            status: "True".into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            ..CertificateSigningRequestCondition::default()
        };
        // The version that was reviewed: what changed meanwhile is looked at again.
        let body = json!({"metadata": {"resourceVersion": open.version}, "status": {"conditions": [condition]}});
        let answer = api.patch_approval(&key.name, &PatchParams::default(), &Patch::Merge(&body)).await;
        answer.map_err(RequestError::while_doing(format!("deciding request {key}")))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

    fn made(at: Timestamp) -> Open {
        let metadata = ObjectMeta { creation_timestamp: Some(Time(at)), ..ObjectMeta::default() };
        let request = CertificateSigningRequest { metadata, ..CertificateSigningRequest::default() };
        *Pending::of(request).0.unwrap()
    }

    #[test]
    fn a_request_that_is_answered_again_gets_the_same_certificate() {
        let (begun, day) = (Timestamp::UNIX_EPOCH, SignedDuration::from_hours(24));
        let at = begun + day;
        let open = made(at);
        for seconds in [0, 1, 600] {
            assert_eq!(open.good_from(LIFETIME, begun, at + SignedDuration::from_secs(seconds)), at);
        }
        let late = at + day;
        assert_eq!(open.good_from(LIFETIME, begun, late), late, "it has been waiting for more than a hundredth");
        let now = at + SignedDuration::from_secs(2);
        assert_eq!(open.good_from(LIFETIME, now, now), now, "the authority is younger than the request");
        let behind = at - SignedDuration::from_secs(2);
        assert_eq!(open.good_from(LIFETIME, begun, behind), behind, "the API server's clock is ahead");
    }
}
