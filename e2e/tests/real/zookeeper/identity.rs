//! Who gets a member's certificate: the member, and nobody who only says so.

use std::collections::BTreeSet;
use std::fs;

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestStatus};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::events::v1::Event;
use kube::api::PostParams;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use tf_api::names::ANNOTATION_BUNDLE_REVISION;
use tf_pki::member::{Identity, Member, ORGANISATION, SIGNER, USAGES, request};
use tf_testing::operators::repository;

use super::*;

const ACCOUNT: &str = "zookeeper1-zookeeper-service-account";
const POD: &str = "zookeeper1-zookeeper-statefulset-0";
/// For a verdict that takes a moment.
const VERDICT: Duration = Duration::from_secs(20);

/// A client with a token of the members' account, bound to a pod or to none.
async fn with_token(lab: &Lab, pod: Option<&Pod>) -> Result<Client> {
    let bound = pod.map(|pod| BoundObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
    });
    let spec = TokenRequestSpec { bound_object_ref: bound, ..TokenRequestSpec::default() };
    let accounts: Api<ServiceAccount> = Api::namespaced(lab.client().await?, NAMESPACE);
    let asked = TokenRequest { spec, ..TokenRequest::default() };
    let answer = accounts.create_token_request(ACCOUNT, &PostParams::default(), &asked).await?;
    let token = answer.status.context("no token")?.token;
    let mut config = tf_testing::lab::client_config(lab.kubeconfig()).await?;
    config.auth_info = kube::config::AuthInfo::default();
    config.headers.push((http::header::AUTHORIZATION, format!("Bearer {token}").parse()?));
    Ok(Client::try_from(config)?)
}

/// Asks for a certificate and waits for the verdict.
async fn ask_for(
    client: &Client,
    name: &str,
    request: String,
    usages: &[&str],
    seconds: i32,
) -> Result<CertificateSigningRequestStatus> {
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let mut asked = CertificateSigningRequest::default();
    asked.metadata.name = Some(name.into());
    // The only bundle there ever was.
    asked.metadata.annotations = Some([(ANNOTATION_BUNDLE_REVISION.to_owned(), "1".to_owned())].into());
    asked.spec.signer_name = SIGNER.into();
    asked.spec.usages = Some(usages.iter().map(ToString::to_string).collect());
    asked.spec.expiration_seconds = Some(seconds);
    asked.spec.request = ByteString(request.into_bytes());
    api.create(&PostParams::default(), &asked).await.with_context(|| name.to_owned())?;
    eventually(&format!("a verdict on {name}"), VERDICT, async || {
        let status = api.get(name).await?.status.unwrap_or_default();
        let denied = status.conditions.iter().flatten().any(|condition| condition.type_ == "Denied");
        Ok((denied || status.certificate.is_some()).then_some(status))
    })
    .await
}

/// What a member's agent would ask with.
fn request_of(member: &Member) -> Result<String> {
    Ok(request(&Identity::member(member)?)?.request)
}

/// The same, to be changed.
fn parameters(member: &Member) -> Result<CertificateParams> {
    let identity = Identity::member(member)?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationName, ORGANISATION);
    parameters.distinguished_name.push(DnType::CommonName, identity.common_name());
    for name in identity.names() {
        parameters.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
    }
    parameters.subject_alt_names.extend(identity.addresses().iter().copied().map(SanType::IpAddress));
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(parameters)
}

/// A request of an authority.
fn authority_request(member: &Member) -> Result<String> {
    let mut parameters = parameters(member)?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(parameters.serialize_request(&KeyPair::generate()?)?.pem()?)
}

/// A request for an RSA key of 2048 bits, where new ones need 3072; the library makes no signature with a shorter one.
fn weak_request(member: &Member) -> Result<String> {
    let key = fs::read_to_string(repository().join("crates/tf-pki/testdata/rsa2048.key"))?;
    Ok(parameters(member)?.serialize_request(&KeyPair::from_pem(&key)?)?.pem()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_gets_its_certificate_and_forged_requests_are_denied_with_an_event() -> Result<()> {
    with_lab(1, async |lab, client| {
        let object = resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        certified(client).await?;

        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let pod = pods.get(POD).await?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("no node")?;
        let address = lab.real_nodes()?.node(&node)?.address();
        let cr: tf_api::Zookeeper = object.try_parse()?;
        let agents = zookeeper_op::plan::agents(&cr, "cluster.local");
        let (lifetime, seconds) = (agents.lifetime_seconds, agents.lifetime_seconds as i32);
        let own = Member {
            pod: POD.into(),
            node,
            addresses: BTreeSet::from([address]),
            services: agents.services,
            lifetime_seconds: lifetime,
        };

        let member = with_token(lab, Some(&pod)).await?;
        let status = ask_for(&member, "own", request_of(&own)?, &USAGES, seconds).await?;
        assert!(status.certificate.is_some(), "{status:?}");

        let other_pod = Member { pod: "zookeeper1-zookeeper-statefulset-1".into(), ..own.clone() };
        let other_node = Member { addresses: BTreeSet::from([[10, 9, 9, 9].into()]), ..own.clone() };
        let mut other_node_too = own.clone();
        other_node_too.services.insert(format!("{}0", own.node));
        let mut more_names = own.clone();
        more_names.services.insert("config.tf.svc".into());
        let mut fewer_names = own.clone();
        fewer_names.services.pop_first();
        let stranger = with_token(lab, None).await?;
        let forged = [
            ("other-pod", &member, request_of(&other_pod)?, &USAGES[..], seconds, "ForeignSubject"),
            ("other-node", &member, request_of(&other_node)?, &USAGES[..], seconds, "ForeignName"),
            ("other-node-too", &member, request_of(&other_node_too)?, &USAGES[..], seconds, "ForeignName"),
            ("more-names", &member, request_of(&more_names)?, &USAGES[..], seconds, "ForeignName"),
            ("fewer-names", &member, request_of(&fewer_names)?, &USAGES[..], seconds, "MissingName"),
            ("usages", &member, request_of(&own)?, &USAGES[..2], seconds, "WrongUsage"),
            ("lifetime", &member, request_of(&own)?, &USAGES[..], seconds + 1, "WrongLifetime"),
            ("authority", &member, authority_request(&own)?, &USAGES[..], seconds, "AuthorityRequested"),
            ("weak-key", &member, weak_request(&own)?, &USAGES[..], seconds, "WeakKey"),
            ("no-pod", &stranger, request_of(&own)?, &USAGES[..], seconds, "UnboundToken"),
        ];
        let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
        for (name, client, request, usages, seconds, reason) in forged {
            let status = ask_for(client, name, request, usages, seconds).await?;
            let denied = status.conditions.iter().flatten().find(|condition| condition.type_ == "Denied");
            assert_eq!(denied.and_then(|condition| condition.reason.as_deref()), Some(reason), "{name}: {status:?}");
            assert!(status.certificate.is_none(), "{name}");
            eventually(&format!("an event about {name}"), VERDICT, async || {
                let told = |event: &Event| {
                    let text = event.note.clone().unwrap_or_default();
                    event.reason.as_deref() == Some("CertificateDenied") && text.contains(&format!("{name} ({reason})"))
                };
                Ok(events.list(&ListParams::default()).await?.items.iter().any(told).then_some(()))
            })
            .await?;
        }
        Ok(())
    })
    .await
}
