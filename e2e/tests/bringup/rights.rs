//! The rights that the charts grant: none is missing, none is idle, none reaches further than it has to.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use tf_testing::{
    Entry,
    helm::Rendering,
    operators,
    rights::{self, Right},
};

use crate::{
    story::{NAMESPACE, declarations, story, user},
    support::lines,
};

fn of<'a>(entries: &'a [Entry], user: &'a str) -> impl Iterator<Item = &'a Entry> + Clone {
    entries.iter().filter(move |entry| entry.user == user)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operator_was_ever_refused() -> Result<()> {
    let story = story().await?;
    for operator in operators::ALL {
        let user = user(operator);
        ensure!(of(&story.entries, &user).count() > 20, "{operator} took no part");
        let refused: Vec<&Entry> = of(&story.entries, &user).filter(|entry| matches!(entry.code, 401 | 403)).collect();
        ensure!(refused.is_empty(), "{operator} was refused:\n{}", lines(refused));
    }
    Ok(())
}

/// So that whoever takes a rule away sees a test fail: a right that nothing uses would not be missed.
#[tokio::test(flavor = "multi_thread")]
async fn every_right_of_every_chart_was_used() -> Result<()> {
    let story = story().await?;
    let mut idle: Vec<String> = Vec::new();
    for operator in operators::ALL {
        let granted: BTreeSet<Right> = rights::of_chart(operator, &Rendering::new(operator, NAMESPACE)).await?;
        ensure!(granted.len() > 20, "the chart of {operator} grants only {} rights", granted.len());
        let unused = rights::idle(&granted, of(&story.entries, &user(operator)));
        idle.extend(unused.iter().filter(|right| !needs_more(right)).map(|right| format!("{operator}: {right}")));
    }
    ensure!(idle.is_empty(), "granted and never used:\n{}", idle.join("\n"));
    Ok(())
}

/// Simulated pods ask for no certificate and have no agent: these rights are used on real nodes (`e2e/tests/real/zookeeper`), where
/// members would stay without certificates if one were missing. And there is no cert-manager here, as there is in
/// `e2e/tests/inputs/issuer.rs`. Nor does its example ask for volume claims, as `e2e/tests/inputs/volumes.rs` does.
fn needs_more(right: &Right) -> bool {
    let follows = right.resource == "certificatesigningrequests" && ["list", "watch"].contains(&right.verb.as_str());
    right.group == "certificates.k8s.io" && !follows
        || right.group == tf_plan::certificates::CERT_MANAGER
        || right.resource == "pods" && right.verb == "patch"
        || right.resource == "persistentvolumeclaims" && !["list", "watch"].contains(&right.verb.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operator_looked_at_a_secret_of_another_namespace_or_wrote_a_kind_of_another() -> Result<()> {
    let story = story().await?;
    for (declaration, _) in declarations() {
        let user = user(declaration.operator);
        let mut stray = Vec::new();
        for entry in of(&story.entries, &user).filter(|entry| entry.counts()) {
            let foreign_secret = entry.resource == "secrets" && entry.namespace != NAMESPACE;
            let owned = declaration.owned.iter().any(|owned| owned.kind.plural == entry.resource);
            let its_own = declaration.reconciled().any(|kind| kind.plural == entry.resource)
                || (owned && entry.subresource.is_empty());
            let foreign_kind = entry.group == tf_api::GROUP && entry.is_mutating() && !its_own;
            if foreign_secret || foreign_kind {
                stray.push(entry);
            }
        }
        ensure!(stray.is_empty(), "{} went too far:\n{}", declaration.operator, lines(stray));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operator_could_look_at_a_secret_of_another_namespace_or_write_a_kind_of_another() -> Result<()> {
    let story = story().await?;
    ensure!(story.excess.is_empty(), "{}", story.excess.join("\n"));
    Ok(())
}
