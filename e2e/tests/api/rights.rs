//! What the API server lets each operator do, asked with the operator's own token.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, Result, bail, ensure};
use http::Method;
use k8s_openapi::api::authorization::v1::ResourceRule;
use kube::Client;
use serde_json::{Value, json};
use tf_api::kinds;
use tf_plan::declaration::Declaration;
use tf_testing::{
    Lab, lab,
    rights::{Right, Scope},
    wait::eventually,
};

use crate::{
    declarations,
    rules::{Watch, declared},
    support::{APPLY, JSON, MERGE, SOON, collection, defined, get, namespace, objects, path_of, send},
};

/// An operator with the account and roles of its chart, and no Deployment.
struct Installed {
    declaration: Declaration,
    release: &'static str,
    watch: Watch<'static>,
    /// With its token.
    client: Client,
}

impl Installed {
    fn rights(&self) -> BTreeSet<Right> {
        declared(&self.declaration, self.release, self.watch)
    }

    fn told(&self) -> String {
        format!("{} {:?}", self.declaration.operator, self.watch)
    }
}

/// Every operator, in `release`.
async fn install(release: &'static str, watch: Watch<'static>) -> Result<(Arc<Lab>, Vec<Installed>)> {
    let lab = defined().await?;
    let admin = lab.client().await?;
    let namespaces = match watch {
        Watch::Listed(namespaces) => namespaces,
        Watch::Own | Watch::Cluster => &[],
    };
    for name in namespaces.iter().chain([&release]) {
        namespace(&admin, name, json!({})).await?;
    }
    let mut installed = Vec::new();
    for declaration in declarations::all() {
        let operator = declaration.operator;
        let rendering = watch.rendering(operator, release);
        for object in objects(operator, &rendering).await?.iter().filter(|object| object["kind"] != "Deployment") {
            let path = format!("{}?fieldManager=lab&force=true", path_of(object)?);
            send(&admin, Method::PATCH, &path, APPLY, object.to_string()).await?.accepted()?;
        }
        let client = lab::client(&lab.service_account_kubeconfig(release, operator).await?).await?;
        let operator = Installed { declaration, release, watch, client };
        // Roles hold a moment after they are written.
        let places: BTreeSet<&str> = namespaces.iter().copied().chain([release, "kube-system"]).collect();
        for place in places {
            let expected = within(&operator.rights(), place);
            let holds = eventually("roles to hold", SOON, async || {
                Ok(expected.is_subset(&review(&operator.client, place).await?).then_some(()))
            });
            if holds.await.is_err() {
                let has = review(&operator.client, place).await?;
                let missing: Vec<String> = expected.difference(&has).map(ToString::to_string).collect();
                bail!("{} in {place} lacks: {}", operator.told(), missing.join(", "));
            }
        }
        installed.push(operator);
    }
    Ok((lab, installed))
}

/// The rights that matter in a namespace, with their scope left out.
fn within(rights: &BTreeSet<Right>, namespace: &str) -> BTreeSet<Right> {
    let there = |right: &&Right| match &right.scope {
        Scope::Cluster => true,
        Scope::Namespace(name) => name == namespace,
    };
    rights.iter().filter(there).map(|right| Right { scope: Scope::Cluster, ..right.clone() }).collect()
}

/// What the caller may do in a namespace, as the API server sees it.
async fn review(client: &Client, namespace: &str) -> Result<BTreeSet<Right>> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = send(client, Method::POST, path, JSON, review.to_string()).await?;
    answer.accepted()?;
    let rules: Vec<ResourceRule> = serde_json::from_value(answer.body["status"]["resourceRules"].clone())?;
    let mut rights = BTreeSet::new();
    for rule in rules {
        let names = rule.resource_names.unwrap_or_default();
        let names: Vec<Option<String>> =
            if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for name in &names {
                    rights.extend(rule.verbs.iter().map(|verb| Right {
                        scope: Scope::Cluster,
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                        verb: verb.clone(),
                    }));
                }
            }
        }
    }
    Ok(rights)
}

/// Somebody who is known to the API server and whom nobody grants anything.
async fn anybody(lab: &Lab, home: &str) -> Result<Client> {
    let admin = lab.client().await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}});
    let path = format!("/api/v1/namespaces/{home}/serviceaccounts/nobody?fieldManager=lab");
    send(&admin, Method::PATCH, &path, APPLY, account.to_string()).await?.accepted()?;
    lab::client(&lab.service_account_kubeconfig(home, "nobody").await?).await
}

/// What everybody may do: ask about themselves, and for a certificate.
async fn anybodys(anybody: &Client, home: &str) -> Result<BTreeSet<Right>> {
    let rights = review(anybody, home).await?;
    let asks_for_itself = |right: &Right| right.group.ends_with(".k8s.io") && right.verb == "create";
    // Members are among the accounts of the namespace.
    let asks_for_certificate = |right: &Right| right.resource == "certificatesigningrequests" && right.verb == "get";
    ensure!(rights.iter().all(|right| asks_for_itself(right) || asks_for_certificate(right)), "{rights:?}");
    Ok(rights)
}

async fn are_exact(release: &'static str, watch: Watch<'static>, places: &[&str]) -> Result<()> {
    let (lab, operators) = install(release, watch).await?;
    let anybody = anybody(&lab, release).await?;
    for operator in operators {
        let rights = operator.rights();
        for place in places {
            let has = review(&operator.client, place).await?;
            // Asked afterwards: a test beside this one may just have let every account ask for certificates.
            let has: BTreeSet<Right> = has.difference(&anybodys(&anybody, release).await?).cloned().collect();
            assert_eq!(has, within(&rights, place), "{} in {place}", operator.told());
        }
    }
    Ok(())
}

/// Of all resources that the API server knows, not only of those somebody thought of.
#[tokio::test]
async fn an_operator_may_do_in_its_namespace_what_it_declares_and_elsewhere_nothing() -> Result<()> {
    are_exact("rights-own", Watch::Own, &["rights-own", "default", "kube-system"]).await
}

#[tokio::test]
async fn an_operator_for_listed_namespaces_has_only_its_lease_in_the_namespace_of_its_release() -> Result<()> {
    const LISTED: [&str; 2] = ["rights-a", "rights-b"];
    are_exact("rights-listed", Watch::Listed(&LISTED), &["rights-listed", "rights-a", "rights-b", "default"]).await
}

#[tokio::test]
async fn an_operator_for_the_cluster_may_do_everywhere_what_it_declares_and_no_more() -> Result<()> {
    are_exact("rights-cluster", Watch::Cluster, &["rights-cluster", "default", "kube-system"]).await
}

async fn may(client: &Client, method: Method, path: &str) -> Result<bool> {
    let answer = send(client, method.clone(), path, JSON, "").await?;
    match answer.code {
        200 => Ok(true),
        403 => Ok(false),
        code => bail!("{method} {path}: {code} {}", answer.message()),
    }
}

#[tokio::test]
async fn no_operator_can_read_a_secret_outside_of_its_namespaces() -> Result<()> {
    const PLACES: [&str; 4] = ["secrets-own", "secrets-listed", "secrets-a", "secrets-foreign"];
    let lab = defined().await?;
    let admin = lab.client().await?;
    for place in PLACES {
        namespace(&admin, place, json!({})).await?;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs"}, "stringData": {"password": "x"}});
        let path = format!("/api/v1/namespaces/{place}/secrets/theirs?fieldManager=user");
        send(&admin, Method::PATCH, &path, APPLY, secret.to_string()).await?.accepted()?;
    }
    let mut readers = BTreeSet::new();
    for (release, watch) in [("secrets-own", Watch::Own), ("secrets-listed", Watch::Listed(&["secrets-a"]))] {
        for operator in install(release, watch).await?.1 {
            let declares = declarations::reads_secrets(&operator.declaration);
            for place in PLACES {
                let expected = declares && watch.covers(release, place);
                let collection = format!("/api/v1/namespaces/{place}/secrets");
                let one = format!("{collection}/theirs");
                for (method, path) in [
                    (Method::GET, one.clone()),
                    (Method::GET, collection.clone()),
                    (Method::GET, format!("{collection}?watch=true&timeoutSeconds=1&resourceVersion=0")),
                    (Method::DELETE, format!("{one}?dryRun=All")),
                ] {
                    // A watch that is let in lasts until its time is over; whether it is, is told by the list.
                    if expected && path.contains("watch=true") {
                        continue;
                    }
                    let allowed = may(&operator.client, method.clone(), &path).await?;
                    assert_eq!(allowed, expected, "{}: {method} {path}", operator.told());
                }
            }
            assert!(!may(&operator.client, Method::GET, "/api/v1/secrets").await?, "{} lists all", operator.told());
            readers.extend(declares.then_some(operator.declaration.operator));
        }
    }
    // The same would hold if nobody could read anything.
    assert_eq!(readers, BTreeSet::from(tf_testing::operators::ALL));
    Ok(())
}

#[tokio::test]
async fn no_operator_can_write_the_kinds_of_another_but_the_manager_its_children() -> Result<()> {
    const HOME: &str = "writes";
    let (lab, operators) = install(HOME, Watch::Own).await?;
    let admin = lab.client().await?;
    for kind in kinds::ALL {
        let object =
            json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": kind.kind, "metadata": {"name": "theirs"}});
        let path = collection(HOME, kind.plural);
        send(&admin, Method::POST, &path, JSON, object.to_string()).await?.accepted().context(kind.kind)?;
    }
    for operator in &operators {
        let name = operator.declaration.operator;
        for kind in kinds::ALL {
            let collection = collection(HOME, kind.plural);
            let theirs = format!("{collection}/theirs");
            let new = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": kind.kind, "metadata": {"name": "new"}});
            let label = json!({"metadata": {"labels": {"a": "b"}}});
            let status = json!({"status": {"observedGeneration": 1}});
            // Deletions of a whole collection are nobody's; a dry run says as much as a run.
            let requests = [
                ("create", Method::POST, collection.clone(), JSON, new),
                ("patch", Method::PATCH, theirs.clone(), MERGE, label),
                ("delete", Method::DELETE, theirs.clone(), JSON, Value::Null),
                ("deletecollection", Method::DELETE, collection.clone(), JSON, Value::Null),
                ("patch status", Method::PATCH, format!("{theirs}/status"), MERGE, status),
            ];
            for (verb, method, path, content, body) in requests {
                let body = if body.is_null() { String::new() } else { body.to_string() };
                let answer = send(&operator.client, method, &format!("{path}?dryRun=All"), content, body).await?;
                let child = name == "manager-op" && kind.operator != name;
                let own = operator.declaration.reconciled().any(|it| it.plural == kind.plural);
                let deregisters = operator.declaration.deregistered().any(|it| it.plural == kind.plural);
                let expected = match verb {
                    "patch status" => own,
                    "deletecollection" => false,
                    // Its finalizer.
                    "patch" if deregisters => true,
                    _ => child,
                };
                assert_eq!(answer.code != 403, expected, "{name}: {verb} {}: {}", kind.plural, answer.message());
                if expected {
                    answer.accepted().with_context(|| format!("{name}: {verb} {}", kind.plural))?;
                }
            }
        }
    }
    // All of it is still there.
    for kind in kinds::ALL {
        get(&admin, &format!("{}/theirs", collection(HOME, kind.plural))).await?.accepted().context(kind.kind)?;
    }
    Ok(())
}
