//! An authority that an issuer outside signs: what is asked of cert-manager, and what has become of it.
//!
//! cert-manager writes the authority into the Secret of the namespace ([`AUTHORITY`]) as a user would, and from there on it
//! takes the same way: members trust it before anybody shows a certificate of it. One object asks for it, a `Certificate` of the
//! same name, on behalf of all resources that own it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};
use tf_api::names::{ANNOTATION_ISSUER, AUTHORITY, LABEL_PART_OF, PART_OF};
use tf_pki::member::ORGANISATION;
use tf_plan::certificates::{CERT_MANAGER, Issuer};

use super::shared;
use crate::error::RequestError;

/// Lifetime of the authority: certificates of members, of 90 days by default, are not cut short by its end. Issuers may give less.
const LIFETIME: &str = "8760h";

/// What a resource wants of an issuer.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    /// Namespace of the resource.
    pub namespace: &'a str,
    /// Who is to sign the authority, if the resource names somebody.
    pub issuer: Option<&'a Issuer>,
    /// The resource.
    pub owner: &'a OwnerReference,
    /// Field manager of the resource's own entries.
    pub manager: &'a str,
}

/// What came of following an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Nothing is to be told.
    Settled,
    /// The authority does not come from the issuer that the resource names, for this reason.
    Lacks(String),
    /// Nobody asks for an authority from outside.
    Unwanted,
}

/// What there is of the object that asks for the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// Whether operators made it.
    ours: bool,
    issuer: Option<Issuer>,
    /// UIDs.
    owners: Vec<String>,
    /// What keeps it from being Ready.
    trouble: Option<String>,
    /// The request for the next certificate, by its name.
    request: String,
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Act<'a> {
    /// Nothing: it is as wanted, and what becomes of it is told.
    Await,
    /// Nothing: this resource has no part in it.
    Rest,
    /// This issuer is to be asked, and this resource to be one of the owners.
    Apply(&'a Issuer),
    /// This resource is to be none of its owners any more.
    LetGo,
    /// It is to go.
    Delete,
    /// It cannot be as wanted.
    Refuse(String),
}

fn decide<'a>(wanted: Option<&'a Issuer>, seen: Option<&Seen>, owner: &str) -> Act<'a> {
    let owns = |seen: &Seen| seen.owners.iter().any(|present| present == owner);
    let alone = |seen: &Seen| seen.owners.iter().all(|present| present == owner);
    match (wanted, seen) {
        (None, None) => Act::Rest,
        (None, Some(seen)) if !seen.ours || !owns(seen) => Act::Rest,
        (None, Some(seen)) if alone(seen) => Act::Delete,
        (None, Some(_)) => Act::LetGo,
        (Some(wanted), None) => Act::Apply(wanted),
        (Some(_), Some(seen)) if !seen.ours => Act::Refuse(format!(
            "Certificate {AUTHORITY} was created by another client; remove it, or name no issuer and let it fill Secret {AUTHORITY}"
        )),
        (Some(wanted), Some(seen)) if seen.issuer.as_ref() == Some(wanted) => {
            if owns(seen) {
                Act::Await
            } else {
                Act::Apply(wanted)
            }
        }
        (Some(wanted), Some(seen)) if alone(seen) => Act::Apply(wanted),
        (Some(_), Some(seen)) => {
            let other = seen.issuer.as_ref().map(ToString::to_string).unwrap_or_default();
            Act::Refuse(format!(
                "another resource of the namespace has its authority signed by {other}, and there is one authority in a namespace; \
                 name the same issuer"
            ))
        }
    }
}

/// Reads what cert-manager tells (`CertificateStatus`).
fn read(object: &DynamicObject) -> Seen {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let issuer = &object.data["spec"]["issuerRef"];
    let issuer = text(&issuer["name"]).map(|name| Issuer {
        group: text(&issuer["group"]).unwrap_or_else(|| CERT_MANAGER.to_owned()),
        kind: text(&issuer["kind"]).unwrap_or_else(|| "Issuer".to_owned()),
        name,
    });
    let labels = object.metadata.labels.as_ref();
    let revision = object.data["status"]["revision"].as_i64().unwrap_or_default();
    Seen {
        ours: labels.and_then(|labels| labels.get(LABEL_PART_OF)).is_some_and(|value| value == PART_OF),
        issuer,
        owners: object.metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect(),
        trouble: trouble(object),
        request: format!("{AUTHORITY}-{}", revision + 1),
    }
}

fn trouble(object: &DynamicObject) -> Option<String> {
    let condition = |kind: &str| condition(&object.data, kind);
    let Some(ready) = condition("Ready") else {
        return Some(format!("cert-manager has not looked at Certificate {AUTHORITY} yet; is it running?"));
    };
    if ready["observedGeneration"].as_i64() < object.metadata.generation {
        return Some(format!("cert-manager has not looked at the latest Certificate {AUTHORITY} yet"));
    }
    if ready["status"] == "True" {
        return None;
    }
    let failed = condition("Issuing").filter(|issuing| issuing["status"] == "False");
    Some(format!("Certificate {AUTHORITY}: {}", said(failed.unwrap_or(ready))))
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn said(condition: &Value) -> String {
    let text = |key: &str| condition[key].as_str().unwrap_or_default();
    format!("{}: {}", text("reason"), text("message"))
}

/// The object that asks for an authority.
fn certificate(namespace: &str, issuer: &Issuer, owner: &OwnerReference) -> Value {
    let Issuer { group, kind, name } = issuer;
    let mut object = mention(namespace);
    object["metadata"]["labels"] = json!({LABEL_PART_OF: PART_OF});
    object["metadata"]["ownerReferences"] = json!([shared(owner)]);
    object["spec"] = json!({
        "secretName": AUTHORITY,
        "secretTemplate": {"annotations": {ANNOTATION_ISSUER: issuer.to_string()}},
        "issuerRef": {"group": group, "kind": kind, "name": name},
        "isCA": true,
        "commonName": tf_pki::member::common_name(&format!("members of {namespace}")),
        "subject": {"organizations": [ORGANISATION]},
        "usages": ["cert sign", "crl sign"],
        "duration": LIFETIME,
        "privateKey": {"algorithm": "ECDSA", "size": 256, "encoding": "PKCS8", "rotationPolicy": "Always"},
    });
    object
}

/// The object without anything that is to be so: applied, it takes back what the same manager applied before.
fn mention(namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{CERT_MANAGER}/v1"),
        "kind": "Certificate",
        "metadata": {"name": AUTHORITY, "namespace": namespace},
    })
}

/// Asks for authorities.
pub struct Issuers {
    client: Client,
}

impl Issuers {
    /// Nothing is asked for yet.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Sees to it that an authority is asked for as a resource wants it. What goes wrong with an issuer is told and keeps nobody from the
    /// authority that is there.
    ///
    /// # Errors
    /// When a request fails and may succeed a moment later.
    pub async fn follow(&self, claim: Claim<'_>) -> Result<Followed, RequestError> {
        match self.try_to_follow(claim).await {
            Err(error) if !error.is_transient() && claim.issuer.is_some() => Ok(Followed::Lacks(error.to_string())),
            Err(error) if !error.is_transient() => {
                tracing::warn!(namespace = claim.namespace, %error, "whether an issuer is asked for the authority is not known");
                Ok(Followed::Settled)
            }
            followed => followed,
        }
    }

    async fn try_to_follow(&self, claim: Claim<'_>) -> Result<Followed, RequestError> {
        let Claim { namespace, issuer, owner, manager } = claim;
        let api = self.api(namespace, "Certificate", "certificates");
        let doing = |doing: &str| RequestError::while_doing(format!("{doing} Certificate {namespace}/{AUTHORITY}"));
        let apply = async |body: &Value| {
            let answer = api.patch(AUTHORITY, &PatchParams::apply(manager).force(), &Patch::Apply(body)).await;
            answer.map_err(doing("applying"))
        };
        let found = get(&api, AUTHORITY).await.map_err(doing("reading"))?;
        let seen = found.as_ref().map(read);
        let asked = match decide(issuer, seen.as_ref(), &owner.uid) {
            Act::Rest if seen.is_none() => return Ok(Followed::Unwanted),
            Act::Rest => return Ok(Followed::Settled),
            Act::Refuse(why) => return Ok(Followed::Lacks(why)),
            Act::Await => seen,
            Act::LetGo => {
                apply(&mention(namespace)).await?;
                return Ok(Followed::Settled);
            }
            Act::Delete => {
                tracing::info!(namespace, "no issuer is wanted for the authority any more");
                match api.delete(AUTHORITY, &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.is_not_found() => {}
                    answer => drop(answer.map_err(doing("deleting"))?),
                }
                return Ok(Followed::Unwanted);
            }
            Act::Apply(issuer) => {
                match apply(&certificate(namespace, issuer, owner)).await {
                    Ok(applied) => {
                        tracing::info!(namespace, %issuer, "an issuer is asked for the authority");
                        Some(read(&applied))
                    }
                    // Nobody serves the kind.
                    Err(RequestError { source: kube::Error::Api(status), .. }) if status.code == 404 => {
                        let why = "cert-manager is not installed; install it, or name no issuer";
                        return Ok(Followed::Lacks(why.to_owned()));
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let Some(Seen { trouble: Some(trouble), request, .. }) = asked else { return Ok(Followed::Settled) };
        let requests = self.api(namespace, "CertificateRequest", "certificaterequests");
        let doing = RequestError::while_doing(format!("reading CertificateRequest {namespace}/{request}"));
        let request = get(&requests, &request).await.map_err(doing)?;
        let why = request.as_ref().and_then(|request| condition(&request.data, "Ready")).map(said);
        Ok(Followed::Lacks(why.map_or_else(|| trouble.clone(), |why| format!("{trouble} ({why})"))))
    }

    fn api(&self, namespace: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(CERT_MANAGER, "v1", kind);
        Api::namespaced_with(self.client.clone(), namespace, &ApiResource::from_gvk_with_plural(&kind, plural))
    }
}

/// An object, if it is there and somebody serves its kind.
async fn get(api: &Api<DynamicObject>, name: &str) -> Result<Option<DynamicObject>, kube::Error> {
    match api.get(name).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(name: &str) -> Issuer {
        Issuer { group: CERT_MANAGER.into(), kind: "ClusterIssuer".into(), name: name.into() }
    }

    fn owner(uid: &str) -> OwnerReference {
        OwnerReference { uid: uid.into(), ..OwnerReference::default() }
    }

    /// As it is applied, and what cert-manager adds.
    fn object(by: &str, owners: &[&str], status: &Value) -> DynamicObject {
        let mut object = certificate("tf", &issuer(by), &owner("none"));
        object["metadata"]["ownerReferences"] = owners.iter().map(|uid| json!(owner(uid))).collect();
        object["metadata"]["generation"] = json!(2);
        object["status"] = status.clone();
        serde_json::from_value(object).unwrap()
    }

    fn seen(by: &str, owners: &[&str]) -> Seen {
        read(&object(by, owners, &json!({})))
    }

    #[test]
    fn who_wants_an_issuer_owns_the_certificate_and_the_last_one_to_want_none_takes_it_away() {
        let [corp, other] = [&issuer("corp"), &issuer("other")];
        let act = |wanted, seen: &Seen| decide(wanted, Some(seen), "me");
        assert_eq!(decide(None, None, "me"), Act::Rest);
        assert_eq!(decide(Some(corp), None, "me"), Act::Apply(corp));
        assert_eq!(act(Some(corp), &seen("corp", &["me"])), Act::Await);
        assert_eq!(act(Some(corp), &seen("corp", &["you"])), Act::Apply(corp));
        assert_eq!(act(Some(corp), &seen("corp", &[])), Act::Apply(corp), "its owners are gone");
        assert_eq!(act(Some(other), &seen("corp", &["me"])), Act::Apply(other), "another issuer");
        assert_eq!(act(None, &seen("corp", &["you"])), Act::Rest);
        assert_eq!(act(None, &seen("corp", &["me", "you"])), Act::LetGo);
        assert_eq!(act(None, &seen("corp", &["me"])), Act::Delete);
    }

    #[test]
    fn neither_what_others_want_nor_what_others_made_is_touched() {
        let refused = |wanted: &Issuer, seen: &Seen| match decide(Some(wanted), Some(seen), "me") {
            Act::Refuse(why) => why,
            act => panic!("{act:?}"),
        };
        let conflict = refused(&issuer("other"), &seen("corp", &["me", "you"]));
        assert!(conflict.contains("ClusterIssuer/corp") && conflict.contains("name the same issuer"), "{conflict}");
        let theirs = Seen { ours: false, ..seen("corp", &["me"]) };
        assert!(refused(&issuer("corp"), &theirs).contains("was created by another client"));
        assert_eq!(decide(None, Some(&theirs), "me"), Act::Rest);
    }

    #[test]
    fn what_cert_manager_says_is_told_and_not_before_it_is_about_the_present() {
        let trouble = |conditions: Value| read(&object("corp", &[], &json!({"conditions": conditions}))).trouble;
        let condition = |kind: &str, status: &str, generation: u8| json!({"type": kind, "status": status, "reason": "R", "message": kind, "observedGeneration": generation});
        assert!(trouble(json!([])).unwrap().contains("is it running?"));
        assert!(trouble(json!([condition("Ready", "True", 1)])).unwrap().contains("the latest"));
        assert_eq!(trouble(json!([condition("Ready", "True", 2)])), None);
        let issuing = json!([condition("Ready", "False", 2), condition("Issuing", "True", 2)]);
        assert_eq!(trouble(issuing).unwrap(), "Certificate tf-ca: R: Ready");
        let failed = json!([condition("Ready", "False", 2), condition("Issuing", "False", 2)]);
        assert_eq!(trouble(failed).unwrap(), "Certificate tf-ca: R: Issuing");
        assert_eq!(read(&object("corp", &[], &json!({"revision": 3}))).request, "tf-ca-4");
    }
}
