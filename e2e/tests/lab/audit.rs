//! The audit log tells who asked for what.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchParams};
use serde_json::json;
use tf_testing::Verb;
use tf_testing::audit::{count_by_user, service_account};
use tf_testing::wait::eventually;

use crate::{API, SOON, config_map, impatient, writer};

#[tokio::test]
async fn the_audit_log_tells_which_service_account_did_what() -> Result<()> {
    let lab = API.get().await?;
    let kubeconfig = writer(&lab, "audited").await?;
    assert_eq!(fs::metadata(&kubeconfig)?.permissions().mode() & 0o777, 0o600);
    let client = impatient(&kubeconfig).await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    assert_eq!(client.default_namespace(), "audited");

    let before = lab.audit_mark().await?;
    maps.create(&PostParams::default(), &config_map("a")).await?;
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({ "data": { "k": "v" } }))).await?;
    assert!(maps.create(&PostParams::default(), &config_map("a")).await.is_err(), "409");
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "op" } });
    Api::<k8s_openapi::api::coordination::v1::Lease>::default_namespaced(client.clone())
        .create(&PostParams::default(), &serde_json::from_value(lease)?)
        .await?;
    let denied = Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default()).await;
    assert!(matches!(denied, Err(kube::Error::Api(status)) if status.is_forbidden()), "no right beyond the role");
    let mut watch = maps.watch(&WatchParams::default(), "0").await?.boxed();
    watch.try_next().await?.context("an event")?;
    let after = lab.audit_mark().await?;
    drop(watch);

    let entries = lab.audit().window(before, after)?;
    let user = service_account("audited", "op");
    let count = count_by_user(&entries)[&user];
    assert_eq!((count.total, count.mutating, count.lease_writes, count.failed), (6, 4, 1, 2));
    assert_eq!(count.writes(), 3);
    let created = entries.iter().find(|entry| entry.user == user && entry.code == 201).context("the create")?;
    assert_eq!(
        (created.verb, created.resource.as_str(), created.namespace.as_str()),
        (Verb::Create, "configmaps", "audited")
    );

    // The watch that ends after the window does not count a second time.
    let ended = eventually("the end of the watch to be logged", SOON, async || {
        let (later, _) = lab.audit().entries_since(after)?;
        let mine: Vec<_> = later.into_iter().filter(|entry| entry.user == user).collect();
        Ok((!mine.is_empty()).then_some(mine))
    })
    .await?;
    assert!(count_by_user(&ended).is_empty());
    Ok(())
}
