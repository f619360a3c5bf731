//! Who gets a member's certificate: the member, and nobody who only says so.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestStatus};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::events::v1::Event;
use kube::api::PostParams;
use tf_api::names::ANNOTATION_BUNDLE_REVISION;
use tf_pki::member::{Identity, Member, SIGNER, USAGES, request};

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
    member: &Member,
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
    asked.spec.request = ByteString(request(&Identity::member(member)?)?.request.into_bytes());
    api.create(&PostParams::default(), &asked).await.with_context(|| name.to_owned())?;
    eventually(&format!("a verdict on {name}"), VERDICT, async || {
        let status = api.get(name).await?.status.unwrap_or_default();
        let denied = status.conditions.iter().flatten().any(|condition| condition.type_ == "Denied");
        Ok((denied || status.certificate.is_some()).then_some(status))
    })
    .await
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
            addresses: BTreeSet::from([address.into()]),
            services: agents.services,
            lifetime_seconds: lifetime,
        };

        let member = with_token(lab, Some(&pod)).await?;
        let status = ask_for(&member, "own", &own, &USAGES, seconds).await?;
        assert!(status.certificate.is_some(), "{status:?}");

        let other_pod = Member { pod: "zookeeper1-zookeeper-statefulset-1".into(), ..own.clone() };
        let other_node = Member { addresses: BTreeSet::from([[10, 9, 9, 9].into()]), ..own.clone() };
        let mut more_names = own.clone();
        more_names.services.insert("config.tf.svc".into());
        let mut fewer_names = own.clone();
        fewer_names.services.pop_first();
        let stranger = with_token(lab, None).await?;
        let forged = [
            ("other-pod", &member, &other_pod, &USAGES[..], seconds, "ForeignSubject"),
            ("other-node", &member, &other_node, &USAGES[..], seconds, "ForeignName"),
            ("more-names", &member, &more_names, &USAGES[..], seconds, "ForeignName"),
            ("fewer-names", &member, &fewer_names, &USAGES[..], seconds, "MissingName"),
            ("usages", &member, &own, &USAGES[..2], seconds, "WrongUsage"),
            ("lifetime", &member, &own, &USAGES[..], seconds + 1, "WrongLifetime"),
            ("no-pod", &stranger, &own, &USAGES[..], seconds, "UnboundToken"),
        ];
        let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
        for (name, client, member, usages, seconds, reason) in forged {
            let status = ask_for(client, name, member, usages, seconds).await?;
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
