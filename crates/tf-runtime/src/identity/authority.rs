//! The authority of a namespace: made once, kept in a Secret, published in a ConfigMap.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    version::TLS13,
};
use serde_json::json;
use tf_api::{
    Managed,
    contract::Reason,
    names::{AUTHORITY, LABEL_PART_OF, PART_OF},
};
use tf_pki::authority::{AUTHORITY_LIFETIME, Authority, AuthorityError, Curve, SignError};
use tokio::time::Instant;

use crate::{error::RequestError, lock::lock, object::Key};

/// Keys of the Secret, those of `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";
/// Keys of the ConfigMap.
const BUNDLE: &str = "ca-bundle.crt";
const REVISION: &str = "revision";
/// The bundle of one authority that was never replaced.
const FIRST_REVISION: u64 = 1;
/// How long what was seen of both objects is believed.
const BELIEVED: Duration = Duration::from_mins(10);
/// How long the operator's own certificate is good for.
const OWN_LIFETIME: Duration = Duration::from_hours(24);

/// There is no authority.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityFailure {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// What is stored cannot be used.
    #[error("Secret {0}: {1}; correct it, or delete it to have another authority made")]
    Stored(Key, AuthorityError),
    /// Nothing can be signed.
    #[error("the authority of namespace {0} cannot be used: {1}")]
    Unusable(String, SignError),
}

impl AuthorityFailure {
    /// For conditions.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Request(error) => error.reason(),
            Self::Stored(..) => Reason::SecretInvalid,
            Self::Unusable(..) => Reason::CertificateExpired,
        }
    }
}

/// An authority in use.
pub struct Loaded {
    /// It.
    pub authority: Authority,
    own: Mutex<Option<(Arc<ClientConfig>, Timestamp)>>,
}

/// The authorities of the namespaces in which this operator has resources.
pub struct Authorities {
    client: Client,
    operator: &'static str,
    loaded: Mutex<HashMap<String, Arc<Loaded>>>,
    /// Resources that were found among the owners, and when.
    owners: Mutex<HashMap<String, Instant>>,
}

impl Authorities {
    /// None is loaded yet.
    pub fn new(client: Client, operator: &'static str) -> Self {
        Self { client, operator, loaded: Mutex::default(), owners: Mutex::default() }
    }

    /// The authority of a namespace, if it was seen.
    pub fn of(&self, namespace: &str) -> Option<Arc<Loaded>> {
        lock(&self.loaded).get(namespace).cloned()
    }

    /// Sees to it that the namespace of a resource has an authority, that it is published, and that both objects live as long as
    /// the resource does.
    ///
    /// # Errors
    /// [`AuthorityFailure`]
    pub async fn ensure<Cr: Managed>(&self, cr: &Cr) -> Result<(), AuthorityFailure> {
        let Some(owner) = cr.owner_ref(&()) else { return Ok(()) };
        let is_fresh = lock(&self.owners).get(&owner.uid).is_some_and(|seen| seen.elapsed() < BELIEVED);
        if is_fresh {
            return Ok(());
        }
        let namespace = cr.home();
        let secret = self.stored(namespace, &owner).await?;
        let authority = read(namespace, &secret)?;
        let bundle = authority.bundle().pem();
        self.keep(namespace, authority);
        if !is_owned(&secret.metadata, &owner) {
            self.own(namespace, &owner).await?;
        }
        self.publish(namespace, &owner, &bundle).await?;
        lock(&self.owners).insert(owner.uid, Instant::now());
        Ok(())
    }

    /// Forgets a resource that is gone.
    pub fn forget(&self, uid: &str) {
        lock(&self.owners).remove(uid);
    }

    fn keep(&self, namespace: &str, authority: Authority) {
        let mut loaded = lock(&self.loaded);
        if loaded.get(namespace).is_none_or(|known| known.authority.fingerprint() != authority.fingerprint()) {
            loaded.insert(namespace.to_owned(), Arc::new(Loaded { authority, own: Mutex::default() }));
        }
    }

    /// The Secret, made if there is none.
    async fn stored(&self, namespace: &str, owner: &OwnerReference) -> Result<Secret, AuthorityFailure> {
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let key = Key::new(namespace, AUTHORITY);
        loop {
            let doing = format!("reading Secret {key}");
            if let Some(found) = api.get_opt(AUTHORITY).await.map_err(RequestError::while_doing(doing))? {
                return Ok(found);
            }
            let name = format!("members of {namespace}");
            let made = Authority::generate(&name, Curve::P256, AUTHORITY_LIFETIME, Timestamp::now())
                .map_err(|error| AuthorityFailure::Unusable(namespace.to_owned(), error))?;
            let bytes = |text: String| ByteString(text.into_bytes());
            let data = [(CERTIFICATE, made.certificates_pem()), (PRIVATE_KEY, made.key_pem())];
            let secret = Secret {
                metadata: metadata(namespace, owner),
                data: Some(data.into_iter().map(|(key, text)| (key.to_owned(), bytes(text))).collect()),
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
    async fn publish(&self, namespace: &str, owner: &OwnerReference, bundle: &str) -> Result<(), RequestError> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let wanted =
            BTreeMap::from([(BUNDLE.to_owned(), bundle.to_owned()), (REVISION.to_owned(), FIRST_REVISION.to_string())]);
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
    /// How this operator calls members that have certificates of this authority: with one that names the operator.
    ///
    /// # Errors
    /// When the authority cannot sign.
    pub fn client(&self, operator: &str, now: Timestamp) -> Result<Arc<ClientConfig>, SignError> {
        let mut own = lock(&self.own);
        if let Some((config, renewal)) = &*own
            && now < *renewal
        {
            return Ok(config.clone());
        }
        let pair = self.authority.operator(operator, OWN_LIFETIME, now)?;
        let validity = pair.issued.certificate.validity();
        let unsound = |what: &str| SignError::Unsound(what.to_owned());
        let mut roots = RootCertStore::empty();
        for certificate in self.authority.bundle().certificates() {
            let certificate = CertificateDer::from(certificate.der().to_vec());
            roots.add(certificate).map_err(|_| unsound("the authority is no trust anchor"))?;
        }
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pair.issued.pem.as_bytes()).collect();
        let chain = chain.map_err(|_| unsound("the certificate cannot be read"))?;
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|_| unsound("the key cannot be read"))?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unsound(&error.to_string()))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| unsound(&error.to_string()))?;
        let config = Arc::new(config);
        *own = Some((config.clone(), validity.renewal(operator)));
        Ok(config)
    }
}

fn read(namespace: &str, secret: &Secret) -> Result<Authority, AuthorityFailure> {
    let text = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
    };
    let authority = Authority::from_pem(&text(CERTIFICATE), &text(PRIVATE_KEY));
    let checked = authority.and_then(|authority| authority.check(Timestamp::now()).map(|()| authority));
    checked.map_err(|error| AuthorityFailure::Stored(Key::new(namespace, AUTHORITY), error))
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

/// One owner among others: none of them controls the object.
fn shared(owner: &OwnerReference) -> OwnerReference {
    OwnerReference { controller: None, block_owner_deletion: None, ..owner.clone() }
}

fn is_owned(metadata: &ObjectMeta, owner: &OwnerReference) -> bool {
    metadata.owner_references.iter().flatten().any(|present| present.uid == owner.uid)
}
