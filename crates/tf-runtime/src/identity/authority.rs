//! The authority of a namespace: made once, kept in a Secret, published in a ConfigMap, and replaced while members run.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    version::{TLS12, TLS13},
};
use serde_json::json;
use tf_api::{
    Managed,
    contract::Reason,
    names::{ANNOTATION_ISSUER, ANNOTATION_ROTATE, AUTHORITY, LABEL_PART_OF, PART_OF},
};
use tf_pki::{authority::SignError, lifetime::Validity};
use tf_plan::{
    certificates::{self, Issuer},
    observed::Agent,
};
use tokio::time::Instant;

use super::{
    issuer::{Claim, Followed, Issuers},
    participants::participants,
    shared,
    stored::{Stored, Turn, Unusable},
};
use crate::{error::RequestError, events::Events, lock::lock, object::Key, watch::Cache};

/// Keys of the ConfigMap.
const BUNDLE: &str = "ca-bundle.crt";
const SIGNERS: &str = "signers.crt";
const REVISION: &str = "revision";
/// How long what was seen of both objects is believed, unless the Secret is seen to change.
const BELIEVED: Duration = Duration::from_mins(10);
/// The same while one authority replaces another: pods tell nobody what they trust.
pub const ROTATING: Duration = Duration::from_secs(5);
/// The same while an issuer does not sign: what it says is not watched. What it has signed is.
pub const LACKING: Duration = Duration::from_secs(30);
/// How long the operator's own certificate is good for.
const OWN_LIFETIME: Duration = Duration::from_hours(24);

/// There is no authority.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityFailure {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// What is stored cannot be used.
    #[error("Secret {0}: {1}")]
    Stored(Key, Unusable),
    /// Nothing can be signed.
    #[error("the authority of namespace {0} cannot be used: {1}")]
    Unusable(String, SignError),
    /// The first one comes from an issuer, and is not there yet.
    #[error("the authority of the namespace is to come from {0}: {1}")]
    Awaited(Issuer, String),
}

impl AuthorityFailure {
    /// For conditions.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Request(error) => error.reason(),
            Self::Stored(..) => Reason::SecretInvalid,
            Self::Unusable(..) => Reason::CertificateExpired,
            Self::Awaited(..) => Reason::CertificatePending,
        }
    }
}

/// The authorities of a namespace, in use.
pub struct Loaded {
    /// They.
    pub stored: Stored,
    own: Mutex<Option<(Routes, Timestamp)>>,
}

/// How this operator calls others that have certificates of the authority.
#[derive(Clone)]
struct Routes {
    /// Agents speak TLS 1.3.
    agents: Arc<ClientConfig>,
    /// Daemons of Tungsten Fabric may be older.
    daemons: Arc<ClientConfig>,
}

/// What was seen of both objects on behalf of a resource, and until when that is believed.
struct Fresh {
    namespace: String,
    /// What the resource wants.
    issuer: Option<Issuer>,
    /// Why it does not have that.
    lacks: Option<String>,
    until: Instant,
    /// Version of the Secret.
    version: Option<String>,
    /// Whether the watch has shown it since, so that it can tell that it is gone.
    watched: bool,
}

/// The authorities of the namespaces in which this operator has resources.
pub struct Authorities {
    client: Client,
    operator: &'static str,
    /// Versions of their Secrets, as the watch delivers them.
    versions: Arc<Cache<String>>,
    events: Arc<Events>,
    issuers: Issuers,
    loaded: Mutex<HashMap<String, Arc<Loaded>>>,
    /// What rotations wait for, by namespace.
    waits: Mutex<HashMap<String, String>>,
    /// Resources that were found among the owners.
    owners: Mutex<HashMap<String, Fresh>>,
}

impl Authorities {
    /// None is loaded yet.
    pub fn new(client: Client, operator: &'static str, versions: Arc<Cache<String>>, events: Arc<Events>) -> Self {
        let (loaded, waits, owners) = (Mutex::default(), Mutex::default(), Mutex::default());
        let issuers = Issuers::new(client.clone());
        Self { client, operator, versions, events, issuers, loaded, waits, owners }
    }

    /// Of a cluster without any.
    #[cfg(test)]
    pub fn of_nobody() -> Arc<Self> {
        let nothing = |_: http::Request<kube::client::Body>| async {
            Ok::<_, tower::BoxError>(http::Response::new(kube::client::Body::from(b"{}".to_vec())))
        };
        let client = Client::new(tower::service_fn(nothing), "tf");
        let events = Arc::new(Events::new(client.clone(), "test-op", "test"));
        Arc::new(Self::new(client, "test-op", Arc::default(), events))
    }

    /// The authorities of a namespace, if they were seen.
    pub fn of(&self, namespace: &str) -> Option<Arc<Loaded>> {
        lock(&self.loaded).get(namespace).cloned()
    }

    /// For daemons of a namespace, whose certificates its authority signed.
    ///
    /// # Errors
    /// Why there is no such client yet.
    pub fn client_of_daemons(&self, namespace: &str) -> Result<Arc<ClientConfig>, String> {
        let loaded = self.of(namespace).ok_or("the namespace has no authority yet")?;
        loaded.client_of_daemons(self.operator, Timestamp::now()).map_err(|error| error.to_string())
    }

    /// The authorities of a namespace as they are at this moment: what signs must not be what signed a while ago.
    ///
    /// # Errors
    /// [`AuthorityFailure`]
    pub async fn at_once(&self, namespace: &str) -> Result<Option<Stored>, AuthorityFailure> {
        let secret = self.secret(namespace).await?;
        secret.map(|secret| read(namespace, &secret, Timestamp::now())).transpose()
    }

    async fn secret(&self, namespace: &str) -> Result<Option<Secret>, RequestError> {
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let doing = format!("reading Secret {namespace}/{AUTHORITY}");
        api.get_opt(AUTHORITY).await.map_err(RequestError::while_doing(doing))
    }

    /// How long the authorities are good that sign, by namespace.
    pub fn validities(&self) -> BTreeMap<String, Validity> {
        let loaded = lock(&self.loaded);
        loaded.iter().map(|(namespace, loaded)| (namespace.clone(), loaded.stored.signer().validity())).collect()
    }

    /// What the replacement of the namespace's authority waits for, if it is being replaced.
    pub fn waits(&self, namespace: &str) -> Option<String> {
        lock(&self.waits).get(namespace).cloned()
    }

    /// Why the authority does not come from the issuer that a resource names.
    pub fn lacks(&self, uid: &str) -> Option<String> {
        lock(&self.owners).get(uid)?.lacks.clone()
    }

    /// Sees to it that the namespace of a resource has an authority, from where the resource wants it, that it is published, that it
    /// is replaced when that is due, and that both objects live as long as the resource does. `agents` are those of the resource,
    /// by the uids of their pods.
    ///
    /// # Errors
    /// [`AuthorityFailure`]
    pub async fn ensure<Cr: Managed>(&self, cr: &Cr, agents: &BTreeMap<String, Agent>) -> Result<(), AuthorityFailure> {
        let Some(owner) = cr.owner_ref(&()) else { return Ok(()) };
        let namespace = cr.home();
        // One that is none was refused by the plan.
        let issuer = certificates::issuer(cr.common()).ok().flatten();
        if self.is_fresh(namespace, &owner.uid, issuer.as_ref()) {
            return Ok(());
        }
        let claim = Claim { namespace, issuer: issuer.as_ref(), owner: &owner, manager: &self.manager(&owner) };
        let followed = self.issuers.follow(claim).await?;
        let secret = self.stored(namespace, &owner, issuer.as_ref(), &followed).await?;
        let (stored, version) = self.turned(cr, &secret, agents).await?;
        let (bundle, signers, revision) = (stored.bundle().pem(), stored.signers().pem(), stored.revision());
        let lacks = match followed {
            Followed::Lacks(why) => Some(why),
            Followed::Settled | Followed::Unwanted => None,
        };
        let believed = match lacks {
            _ if stored.is_unfinished() => ROTATING,
            Some(_) => LACKING,
            None => BELIEVED,
        };
        self.keep(namespace, stored);
        if !is_owned(&secret.metadata, &owner) {
            self.own(namespace, &owner).await?;
        }
        let published = [(BUNDLE, bundle), (SIGNERS, signers), (REVISION, revision.to_string())];
        self.publish(namespace, &owner, published.map(|(key, text)| (key.to_owned(), text)).into()).await?;
        let until = Instant::now() + believed;
        let fresh = Fresh { namespace: namespace.to_owned(), issuer, lacks, until, version, watched: false };
        lock(&self.owners).insert(owner.uid, fresh);
        Ok(())
    }

    fn is_fresh(&self, namespace: &str, owner: &str, issuer: Option<&Issuer>) -> bool {
        let seen = self.versions.get(&Key::new(namespace, AUTHORITY));
        let mut owners = lock(&self.owners);
        let Some(fresh) = owners.get_mut(owner) else { return false };
        let same = match &seen {
            Some(seen) => fresh.version.as_deref() == Some(seen.as_str()),
            // The watch may not have come to it yet.
            None => !fresh.watched,
        };
        fresh.watched |= seen.is_some();
        same && fresh.issuer.as_ref() == issuer && Instant::now() < fresh.until
    }

    /// What the Secret holds, after the step of a rotation that is due, and the version of the Secret that has it.
    async fn turned<Cr: Managed>(
        &self,
        cr: &Cr,
        secret: &Secret,
        agents: &BTreeMap<String, Agent>,
    ) -> Result<(Stored, Option<String>), AuthorityFailure> {
        let namespace = cr.home();
        let now = Timestamp::now();
        let stored = read(namespace, secret, now)?;
        let request = secret.annotations().get(ANNOTATION_ROTATE).cloned();
        let participants = if stored.is_rotating() {
            participants(&self.client, namespace, &stored.trusted(), agents).await?
        } else {
            Vec::new()
        };
        let turn = stored
            .turn(namespace, &participants, request, now)
            .map_err(|error| AuthorityFailure::Unusable(namespace.to_owned(), error))?;
        let waits = match &turn {
            Turn::Waits(why) => Some(why.clone()),
            Turn::To(next, what) => next.is_unfinished().then(|| (*what).to_owned()),
            Turn::Rests => None,
        };
        match waits {
            Some(why) => lock(&self.waits).insert(namespace.to_owned(), why),
            None => lock(&self.waits).remove(namespace),
        };
        let version = secret.resource_version();
        Ok(match turn {
            Turn::To(next, what) => {
                let version = self.store(namespace, version, &next).await?.resource_version();
                tracing::info!(namespace, revision = next.revision(), what, "the authority is being replaced");
                self.events.authority_turned(cr, what).await;
                (*next, version)
            }
            Turn::Rests | Turn::Waits(_) if stored.is_recorded() => (stored, version),
            Turn::Rests | Turn::Waits(_) => {
                let version = self.store(namespace, version, &stored).await?.resource_version();
                (stored, version)
            }
        })
    }

    /// Writes the Secret if it still has this version. Of an authority that operators made it says no more that it is another's.
    async fn store(&self, namespace: &str, version: Option<String>, stored: &Stored) -> Result<Secret, RequestError> {
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let mut body = json!({"metadata": {"resourceVersion": version}, "data": stored.changes()});
        if stored.wants_generated() {
            body["metadata"]["annotations"] = json!({ANNOTATION_ISSUER: null});
        }
        let answer = api.patch(AUTHORITY, &PatchParams::default(), &Patch::Merge(&body)).await;
        let doing = format!("storing the authorities in Secret {namespace}/{AUTHORITY}");
        answer.map_err(RequestError::while_doing(doing))
    }

    /// Forgets a resource that is gone, and after the last one of a namespace its authorities.
    pub fn forget(&self, uid: &str) {
        let mut owners = lock(&self.owners);
        let Some(Fresh { namespace, .. }) = owners.remove(uid) else { return };
        if owners.values().all(|other| other.namespace != namespace) {
            lock(&self.loaded).remove(&namespace);
            lock(&self.waits).remove(&namespace);
        }
    }

    fn keep(&self, namespace: &str, stored: Stored) {
        let mut loaded = lock(&self.loaded);
        if loaded.get(namespace).is_none_or(|known| !known.stored.is_as(&stored)) {
            loaded.insert(namespace.to_owned(), Arc::new(Loaded { stored, own: Mutex::default() }));
        }
    }

    /// The Secret, made if there is none. One whose authority nobody outside is asked for any more gets one of its own, which takes
    /// over as any other does.
    async fn stored(
        &self,
        namespace: &str,
        owner: &OwnerReference,
        issuer: Option<&Issuer>,
        followed: &Followed,
    ) -> Result<Secret, AuthorityFailure> {
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let key = Key::new(namespace, AUTHORITY);
        let unusable = |error| AuthorityFailure::Unusable(namespace.to_owned(), error);
        loop {
            let now = Timestamp::now();
            if let Some(found) = self.secret(namespace).await? {
                if *followed != Followed::Unwanted || !found.annotations().contains_key(ANNOTATION_ISSUER) {
                    return Ok(found);
                }
                let own = read(namespace, &found, now)?.with_generated(namespace, now).map_err(unusable)?;
                return Ok(self.store(namespace, found.resource_version(), &own).await?);
            }
            let data = match (self.of(namespace), issuer) {
                // Somebody deleted the Secret: what its authorities signed is in use.
                (Some(loaded), _) => loaded.stored.data(),
                (None, Some(issuer)) => {
                    let why = match followed {
                        Followed::Lacks(why) => why,
                        Followed::Settled | Followed::Unwanted => "the Secret is about to be written",
                    };
                    return Err(AuthorityFailure::Awaited(issuer.clone(), why.to_owned()));
                }
                (None, None) => Stored::generated(namespace, now).map_err(unusable)?.data(),
            };
            let secret = Secret {
                metadata: metadata(namespace, owner),
                data: Some(data),
                type_: Some("kubernetes.io/tls".into()),
                ..Secret::default()
            };
            match api.create(&PostParams::default(), &secret).await {
                Ok(created) => return Ok(created),
                // Another operator of the namespace was first: its authority counts.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                Err(source) => return Err(RequestError { doing: format!("creating Secret {key}"), source }.into()),
            }
        }
    }

    /// What members have to trust. Others may add owners; the content is the authority's.
    async fn publish(
        &self,
        namespace: &str,
        owner: &OwnerReference,
        wanted: BTreeMap<String, String>,
    ) -> Result<(), RequestError> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let doing = || format!("publishing ConfigMap {namespace}/{AUTHORITY}");
        let found = api.get_opt(AUTHORITY).await.map_err(RequestError::while_doing(doing()))?;
        let is_current =
            found.as_ref().is_some_and(|map| map.data.as_ref() == Some(&wanted) && is_owned(&map.metadata, owner));
        if is_current {
            return Ok(());
        }
        let map = ConfigMap { metadata: metadata(namespace, owner), data: Some(wanted), ..ConfigMap::default() };
        let parameters = PatchParams::apply(&self.manager(owner)).force();
        api.patch(AUTHORITY, &parameters, &Patch::Apply(&map)).await.map_err(RequestError::while_doing(doing()))?;
        Ok(())
    }

    /// Adds an owner to the Secret, so that it goes with the last resource that uses it.
    async fn own(&self, namespace: &str, owner: &OwnerReference) -> Result<(), RequestError> {
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let body = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": AUTHORITY, "ownerReferences": [shared(owner)]},
        });
        let doing = format!("adding an owner to Secret {namespace}/{AUTHORITY}");
        let parameters = PatchParams::apply(&self.manager(owner));
        api.patch(AUTHORITY, &parameters, &Patch::Apply(&body)).await.map_err(RequestError::while_doing(doing))?;
        Ok(())
    }

    /// Each resource's entry among the owners has a manager of its own, so that one does not remove another's.
    fn manager(&self, owner: &OwnerReference) -> String {
        format!("{}/{}", self.operator, owner.uid)
    }
}

impl Loaded {
    /// How this operator calls the agents of members: with a certificate that names the operator.
    ///
    /// # Errors
    /// When the authority cannot sign.
    pub fn client(&self, operator: &str, now: Timestamp) -> Result<Arc<ClientConfig>, SignError> {
        self.ways(operator, now).map(|ways| ways.agents)
    }

    /// The same for daemons that members run.
    ///
    /// # Errors
    /// When the authority cannot sign.
    pub fn client_of_daemons(&self, operator: &str, now: Timestamp) -> Result<Arc<ClientConfig>, SignError> {
        self.ways(operator, now).map(|ways| ways.daemons)
    }

    fn ways(&self, operator: &str, now: Timestamp) -> Result<Routes, SignError> {
        let mut own = lock(&self.own);
        if let Some((ways, renewal)) = &*own
            && now < *renewal
        {
            return Ok(ways.clone());
        }
        let pair = self.stored.signer().operator(operator, OWN_LIFETIME, now)?;
        let validity = pair.issued.certificate.validity();
        let unsound = |what: &str| SignError::Unsound(what.to_owned());
        let mut roots = RootCertStore::empty();
        for certificate in self.stored.signers().certificates() {
            let certificate = CertificateDer::from(certificate.der().to_vec());
            roots.add(certificate).map_err(|_| unsound("the authority is no trust anchor"))?;
        }
        let config = |versions: &[&'static SupportedProtocolVersion]| {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pair.issued.pem.as_bytes()).collect();
            let chain = chain.map_err(|_| unsound("the certificate cannot be read"))?;
            let key =
                PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|_| unsound("the key cannot be read"))?;
            ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_protocol_versions(versions)
                .map_err(|error| unsound(&error.to_string()))?
                .with_root_certificates(roots.clone())
                .with_client_auth_cert(chain, key)
                .map(Arc::new)
                .map_err(|error| unsound(&error.to_string()))
        };
        let ways = Routes { agents: config(&[&TLS13])?, daemons: config(&[&TLS13, &TLS12])? };
        *own = Some((ways.clone(), validity.renewal(operator)));
        Ok(ways)
    }
}

fn read(namespace: &str, secret: &Secret, now: Timestamp) -> Result<Stored, AuthorityFailure> {
    let unusable = |error| AuthorityFailure::Stored(Key::new(namespace, AUTHORITY), error);
    let empty = BTreeMap::new();
    Stored::read(secret.data.as_ref().unwrap_or(&empty), now).map_err(unusable)
}

fn metadata(namespace: &str, owner: &OwnerReference) -> ObjectMeta {
    ObjectMeta {
        name: Some(AUTHORITY.into()),
        namespace: Some(namespace.to_owned()),
        labels: Some(BTreeMap::from([(LABEL_PART_OF.to_owned(), PART_OF.to_owned())])),
        owner_references: Some(vec![shared(owner)]),
        ..ObjectMeta::default()
    }
}

fn is_owned(metadata: &ObjectMeta, owner: &OwnerReference) -> bool {
    metadata.owner_references.iter().flatten().any(|present| present.uid == owner.uid)
}
