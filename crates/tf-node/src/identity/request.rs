//! The request for a certificate: the object that is created, and what becomes of it. Pure but for the key.

use anyhow::{Context as _, Result};
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject as _};
use serde::{Deserialize, Serialize};
use tf_api::names::{ANNOTATION_BUNDLE_REVISION, LABEL_MANAGED_BY};
use tf_pki::{
    fingerprint::Fingerprint,
    member::{self, Identity, Member, SIGNER, USAGES},
};

/// Who made the object, on its label.
const MANAGER: &str = "tf-node";
/// Longest name of an object.
const LONGEST_NAME: usize = 253;
/// Digits of the request's hash in the name.
const HASH: usize = 10;

/// A request that was made, with its key: kept until it is answered, across restarts of the agent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// Who asks.
    pub member: Member,
    /// Number of the bundle of authorities that the member goes by.
    pub revision: u64,
    /// The private key, PKCS #8 in PEM.
    pub key: String,
    /// The request, PKCS #10 in PEM.
    pub request: String,
}

/// Without the key.
impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending")
            .field("member", &self.member)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// What has become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    Pending,
    /// It led to nothing, for this reason, and never will to anything.
    Over(String),
    /// Certificates in PEM, the member's own first.
    Issued(String),
}

impl Pending {
    /// A new key and its request.
    pub fn new(member: &Member, identity: &Identity, revision: u64) -> Result<Self> {
        let made = member::request(identity)?;
        Ok(Self { member: member.clone(), revision, key: made.key, request: made.request })
    }

    /// Name of the object: the pod's, and the beginning of the SHA-256 of the request.
    pub fn name(&self) -> Result<String> {
        let der = CertificateSigningRequestDer::from_pem_slice(self.request.as_bytes()).ok();
        let hash = Fingerprint::of(&der.context("the request is not readable")?).short(HASH);
        let pod: String = self.member.pod.chars().take(LONGEST_NAME - "tf--".len() - HASH).collect();
        Ok(format!("tf-{}-{hash}", pod.trim_end_matches(['.', '-'])))
    }

    /// The object.
    pub fn object(&self) -> Result<CertificateSigningRequest> {
        let text = |text: &str| text.to_owned();
        let lifetime = i32::try_from(self.member.lifetime_seconds).unwrap_or(i32::MAX);
        Ok(CertificateSigningRequest {
            metadata: ObjectMeta {
                name: Some(self.name()?),
                labels: Some([(text(LABEL_MANAGED_BY), text(MANAGER))].into()),
                annotations: Some([(text(ANNOTATION_BUNDLE_REVISION), self.revision.to_string())].into()),
                ..ObjectMeta::default()
            },
            spec: CertificateSigningRequestSpec {
                signer_name: text(SIGNER),
                usages: Some(USAGES.map(text).into()),
                expiration_seconds: Some(lifetime),
                request: ByteString(self.request.clone().into_bytes()),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        })
    }
}

/// Reads an answer.
pub fn answer(object: &CertificateSigningRequest) -> Answer {
    let Some(status) = &object.status else { return Answer::Pending };
    let certificate = status.certificate.as_ref().filter(|certificate| !certificate.0.is_empty());
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let over = conditions.iter().find(|condition| ["Denied", "Failed"].contains(&condition.type_.as_str()));
    match (over, certificate) {
        (Some(over), _) => {
            let said = |text: &Option<String>| text.clone().unwrap_or_else(|| "nothing said".into());
            let word = over.type_.to_lowercase();
            Answer::Over(format!("the request was {word}: {}: {}", said(&over.reason), said(&over.message)))
        }
        (None, Some(certificate)) => match String::from_utf8(certificate.0.clone()) {
            Ok(text) => Answer::Issued(text),
            Err(_) => Answer::Over("the certificate is not PEM".into()),
        },
        (None, None) => Answer::Pending,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pending(pod: &str) -> Pending {
        let member = Member {
            pod: pod.into(),
            node: "node-0".into(),
            addresses: [[10, 0, 0, 1].into()].into(),
            services: ["zk.tf.svc".to_owned()].into(),
            lifetime_seconds: 7_776_000,
        };
        Pending::new(&member, &Identity::member(&member).unwrap(), 3).unwrap()
    }

    #[test]
    fn the_object_is_what_both_sides_agreed_on() {
        let pending = pending("zk-0");
        let name = pending.name().unwrap();
        let object = serde_json::to_value(pending.object().unwrap()).unwrap();
        let request = object["spec"]["request"].clone();
        assert!(request.as_str().unwrap().starts_with("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNU"), "base64 of the PEM");
        assert_eq!(
            object,
            json!({
                "apiVersion": "certificates.k8s.io/v1",
                "kind": "CertificateSigningRequest",
                "metadata": {
                    "name": name,
                    "labels": {"app.kubernetes.io/managed-by": "tf-node"},
                    "annotations": {"tf.tungsten.io/bundle-revision": "3"},
                },
                "spec": {
                    "signerName": "tf.tungsten.io/member",
                    "usages": ["digital signature", "server auth", "client auth"],
                    "expirationSeconds": 7_776_000,
                    "request": request,
                },
            })
        );
        assert!(!format!("{pending:?}").contains("PRIVATE"));
    }

    fn read(status: &Value) -> Answer {
        let mut object = serde_json::to_value(pending("zk-0").object().unwrap()).unwrap();
        object["status"] = status.clone();
        answer(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn an_answer_is_read() {
        let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "WrongUsage", "message": "no"});
        assert_eq!(read(&json!({})), Answer::Pending);
        assert_eq!(read(&json!({"conditions": [condition("Approved")]})), Answer::Pending, "not signed yet");
        let denied = Answer::Over("the request was denied: WrongUsage: no".into());
        assert_eq!(read(&json!({"conditions": [condition("Denied")]})), denied);
        let failed = Answer::Over("the request was failed: WrongUsage: no".into());
        assert_eq!(read(&json!({"conditions": [condition("Approved"), condition("Failed")]})), failed);
        let issued = json!({"conditions": [condition("Approved")], "certificate": "YQ=="});
        assert_eq!(read(&issued), Answer::Issued("a".into()));
    }

    proptest! {
        #[test]
        fn names_are_names(labels in prop::collection::vec("[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", 1..9)) {
            let mut pending = pending("zk-0");
            pending.member.pod = labels.join(".");
            let name = pending.name().unwrap();
            let ends_well = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
            prop_assert!(name.len() <= LONGEST_NAME && name.starts_with("tf-") && name.split('.').all(ends_well), "{}", name);
            prop_assert_eq!(name.rsplit_once('-').unwrap().1.len(), HASH);
        }
    }
}
