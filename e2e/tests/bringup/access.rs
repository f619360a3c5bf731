//! What the API server's authorizer says operators may do, beyond what they should.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use tf_api::kinds;
use tf_testing::Cluster;

use crate::story::{ELSEWHERE, NAMESPACE, declarations, user};

struct Question {
    operator: &'static str,
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    /// All of them if empty.
    namespace: &'static str,
}

impl Question {
    async fn is_allowed(&self, client: &Client) -> Result<bool> {
        let text = |text: &str| Some(text.to_owned());
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user(self.operator)),
                groups: Some(vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{NAMESPACE}")]),
                resource_attributes: Some(ResourceAttributes {
                    verb: text(self.verb),
                    group: text(self.group),
                    resource: text(self.resource),
                    subresource: text(self.subresource),
                    namespace: text(self.namespace),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.context("a review without an answer")?.allowed)
    }

    fn describe(&self) -> String {
        let place = if self.namespace.is_empty() { "all namespaces" } else { self.namespace };
        format!("{} may {} {}/{} in {place}", self.operator, self.verb, self.resource, self.subresource)
    }
}

/// What is allowed and should not be: Secrets elsewhere, kinds of others, and their status.
pub async fn excess(cluster: &Cluster) -> Result<Vec<String>> {
    let mut questions = Vec::new();
    let tf = tf_api::GROUP;
    for (declaration, _) in declarations() {
        let operator = declaration.operator;
        for namespace in [ELSEWHERE, "kube-system", ""] {
            for verb in ["get", "list", "watch"] {
                questions.push(Question { operator, verb, group: "", resource: "secrets", subresource: "", namespace });
            }
        }
        for kind in kinds::ALL.into_iter().filter(|kind| declaration.reconciled().all(|own| own.kind != kind.kind)) {
            let owned = declaration.owned.iter().any(|owned| owned.kind.kind == kind.kind);
            let resource = kind.plural;
            for verb in ["create", "update", "patch", "delete", "deletecollection"].into_iter().filter(|_| !owned) {
                questions.push(Question { operator, verb, group: tf, resource, subresource: "", namespace: NAMESPACE });
            }
            for verb in ["update", "patch"] {
                questions.push(Question {
                    operator,
                    verb,
                    group: tf,
                    resource,
                    subresource: "status",
                    namespace: NAMESPACE,
                });
            }
        }
        // And that the questions are asked in the right way: its own status it may write.
        let resource = declaration.primary.plural;
        let own =
            Question { operator, verb: "patch", group: tf, resource, subresource: "status", namespace: NAMESPACE };
        ensure!(own.is_allowed(&cluster.client).await?, "the authorizer does not know {operator}");
    }
    let answered = stream::iter(&questions)
        .map(async |question| anyhow::Ok((question, question.is_allowed(&cluster.client).await?)))
        .buffer_unordered(16)
        .try_collect::<Vec<_>>()
        .await?;
    Ok(answered.into_iter().filter(|(_, allowed)| *allowed).map(|(question, _)| question.describe()).collect())
}
