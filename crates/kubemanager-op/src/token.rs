//! The daemon's own account in the cluster: its token and what it may do (ADR 0039).
//!
//! The token is that of a ServiceAccount which no pod runs as, and it does not end: contrail-kube-manager reads it when it starts and never again
//! (docs/upstream/kube-manager.md#token). Kubernetes' controller puts it into a Secret of the operator's; from there it gets into the file of each
//! member, which is a Secret, too. Whoever deletes the Secret gets another token, and each member is given it, one after the other.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use tf_api::{Kubemanager, Managed as _, contract::Reason, schema::Sensitive};
use tf_plan::{
    build::identity::Identity,
    declaration::Grant,
    not_ready::NotReady,
    object::{Object, SECRET, SERVICE_ACCOUNT},
    observed::Observed,
    rule::{Reach, Rule},
};

use crate::OPERATOR;

/// Name of the ServiceAccount, which the chart gives its rights to. There is one daemon in a cluster, so there is one in a namespace.
pub const ACCOUNT: &str = "kube-manager";
/// Key of the Secret.
const KEY: &str = "token";
/// The file in which the node agent finds the token by itself.
pub const FILE: &str = "kubernetes.token";
/// Type of a Secret that Kubernetes' controller puts a token into, and the annotation that says whose.
const TYPE: &str = "kubernetes.io/service-account-token";
const OF: &str = "kubernetes.io/service-account.name";

/// Name of the Secret.
pub fn secret(cr: &Kubemanager) -> String {
    Identity::of(OPERATOR, cr).object_name("token")
}

/// The ServiceAccount, and the Secret that a token is put into.
pub fn objects(cr: &Kubemanager) -> [Object; 2] {
    let identity = Identity::of(OPERATOR, cr);
    let account = ServiceAccount {
        metadata: identity.meta(ACCOUNT),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    };
    let mut metadata = identity.meta(secret(cr));
    metadata.annotations = Some([(OF.to_owned(), ACCOUNT.to_owned())].into());
    let secret = Secret { metadata, type_: Some(TYPE.into()), ..Secret::default() };
    [Object::new(SERVICE_ACCOUNT, &account), Object::new(SECRET, &secret)]
}

/// The token.
///
/// # Errors
/// As long as there is none. What it is made from is made meanwhile.
pub fn of(cr: &Kubemanager, observed: &Observed<Kubemanager>) -> Result<Sensitive, NotReady> {
    let name = secret(cr);
    if let Some(token) = observed.secrets.get(&name).and_then(|data| data.get(KEY)).filter(|token| !token.is_empty()) {
        return Ok(Sensitive::new(token));
    }
    let message = format!(
        "Secret {}/{name} has no {KEY} yet; Kubernetes' token controller puts that of ServiceAccount {ACCOUNT} into it",
        cr.home()
    );
    let mut not_ready = NotReady::input(Reason::SecretNotFound, message);
    not_ready.prepared = objects(cr).into();
    Err(not_ready)
}

/// What the daemon asks of the Kubernetes API (upstream `kube/*_monitor.py`, `vnc_pod.py`, `vnc_service.py`, `vnc_ingress.py`). The API's
/// description at `/openapi/v2` is everybody's (`system:discovery`).
pub fn grant() -> Grant {
    const FOLLOW: [&str; 3] = ["get", "list", "watch"];
    let rule = |group, resource: &str, verbs: &[&'static str], reason: &str| Rule {
        reach: Reach::Cluster,
        group,
        resource: resource.into(),
        names: Vec::new(),
        verbs: verbs.to_vec(),
        reason: reason.into(),
    };
    let follow = |group, resource: &str, reason: &str| rule(group, resource, &FOLLOW, reason);
    let networking = "networking.k8s.io";
    let definitions = "apiextensions.k8s.io";
    Grant {
        account: ACCOUNT,
        rules: vec![
            follow("", "namespaces", "a project, or networks of its own, for each"),
            follow("", "endpoints", "members of load balancers"),
            rule("", "pods", &["get", "list", "watch", "patch"], "ports of each, in its annotations"),
            rule("", "services", &["get", "list", "watch", "patch"], "load balancers, and external addresses of each"),
            follow(networking, "ingresses", "load balancers for HTTP"),
            rule(networking, "ingresses/status", &["patch"], "the address of each"),
            follow(networking, "networkpolicies", "firewall policies"),
            follow("k8s.cni.cncf.io", "network-attachment-definitions", "further networks of pods"),
            Rule {
                names: vec!["network-attachment-definitions.k8s.cni.cncf.io"],
                ..rule(definitions, "customresourcedefinitions", &["get"], "whether the definition of those is there")
            },
            rule(definitions, "customresourcedefinitions", &["create"], "the definition, where it is not there"),
        ],
    }
}

/// Paths of what the daemon lists.
pub fn lists() -> BTreeSet<String> {
    let is_listed = |rule: &Rule| rule.verbs.contains(&"list");
    let path = |Rule { group, resource, .. }: Rule| match group {
        "" => format!("/api/v1/{resource}"),
        group => format!("/apis/{group}/v1/{resource}"),
    };
    grant().rules.into_iter().filter(is_listed).map(path).collect()
}
