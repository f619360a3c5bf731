//! What the API server lets a daemon do to which a chart gives rights: what it was seen to ask for in its sources, and no more.

use anyhow::{Result, ensure};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tf_testing::helm::Rendering;

use crate::support::{defined, objects};

const OPERATOR: &str = "kubemanager-op";
const RELEASE: &str = "daemon";
/// Upstream `kube/*_monitor.py`, `vnc_pod.py`, `vnc_service.py`, `vnc_ingress.py`: verb, group, resource, name.
const ASKED: [(&str, &str, &str, &str); 14] = [
    ("list", "", "namespaces", ""),
    ("watch", "", "pods", ""),
    ("get", "", "pods", "any"),
    ("patch", "", "pods", "any"),
    ("watch", "", "services", ""),
    ("patch", "", "services", "any"),
    ("watch", "", "endpoints", ""),
    ("watch", "networking.k8s.io", "ingresses", ""),
    ("patch", "networking.k8s.io", "ingresses/status", "any"),
    ("watch", "networking.k8s.io", "networkpolicies", ""),
    ("watch", "k8s.cni.cncf.io", "network-attachment-definitions", ""),
    ("get", "apiextensions.k8s.io", "customresourcedefinitions", "network-attachment-definitions.k8s.cni.cncf.io"),
    ("create", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("get", "k8s.cni.cncf.io", "network-attachment-definitions", "any"),
];
/// What would be worth more than that.
const NEVER: [(&str, &str, &str, &str); 11] = [
    ("list", "", "secrets", ""),
    ("get", "", "configmaps", "any"),
    ("create", "", "pods", ""),
    ("delete", "", "pods", "any"),
    ("create", "", "pods/exec", "any"),
    ("create", "", "serviceaccounts/token", "any"),
    ("patch", "", "nodes", "any"),
    ("patch", "", "namespaces", "any"),
    ("patch", "networking.k8s.io", "ingresses", "any"),
    ("patch", "apiextensions.k8s.io", "customresourcedefinitions", "any"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", "any"),
];

/// Whether a ServiceAccount may do something in the namespace `elsewhere`.
async fn may(client: &Client, namespace: &str, account: &str, asked: (&str, &str, &str, &str)) -> Result<bool> {
    let (verb, group, resource, name) = asked;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let attributes = ResourceAttributes {
        namespace: given("elsewhere"),
        verb: given(verb),
        group: given(group),
        resource: given(resource),
        subresource: given(subresource),
        name: given(name),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SubjectAccessReviewSpec::default() };
    review(client, namespace, account, spec).await
}

async fn review(client: &Client, namespace: &str, account: &str, spec: SubjectAccessReviewSpec) -> Result<bool> {
    let spec = SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{namespace}:{account}")),
        groups: Some(["system:authenticated", "system:serviceaccounts"].map(str::to_owned).to_vec()),
        ..spec
    };
    let asked = SubjectAccessReview { metadata: ObjectMeta::default(), spec, status: None };
    let answer = Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &asked).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[tokio::test]
async fn the_account_of_kube_manager_may_do_what_the_daemon_does_and_its_operator_may_not() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    let rendering = Rendering::new(OPERATOR, RELEASE).value("crds.install=false");
    let roles = ["ClusterRole", "ClusterRoleBinding"];
    for object in objects(OPERATOR, &rendering).await? {
        if roles.iter().any(|kind| object["kind"] == *kind) {
            lab.apply(&object.to_string()).await?;
        }
    }
    for asked in ASKED {
        ensure!(may(&client, RELEASE, "kube-manager", asked).await?, "the daemon may not {asked:?}");
    }
    for asked in NEVER {
        ensure!(!may(&client, RELEASE, "kube-manager", asked).await?, "the daemon may {asked:?}");
    }
    // One of that name in a namespace that is not watched, members of one that is, and the operator itself.
    for (namespace, account) in
        [("elsewhere", "kube-manager"), (RELEASE, "kubemanager1-kubemanager-service-account"), (RELEASE, OPERATOR)]
    {
        for asked in ASKED {
            ensure!(!may(&client, namespace, account, asked).await?, "{namespace}/{account} may {asked:?}");
        }
    }
    let description = NonResourceAttributes { path: Some("/openapi/v2".into()), verb: Some("get".into()) };
    let spec =
        SubjectAccessReviewSpec { non_resource_attributes: Some(description), ..SubjectAccessReviewSpec::default() };
    ensure!(review(&client, RELEASE, "kube-manager", spec).await?, "the API's description is not everybody's");
    Ok(())
}
