//! What a resource leaves in the cluster goes before the resource does, and what cannot go holds nobody up for ever.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::probe::{OPERATOR, cluster_role_name};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use tf_api::kinds::ZOOKEEPER;
use tf_plan::object::{CLUSTER_ROLE, CONFIG_MAP, Kind};
use tf_testing::{
    Verb,
    operators::Run,
    proxy::{Answer, Fault, Match, Which},
    wait::{eventually, gone},
};

use crate::support::{FLEET, PROBE, PROMPT, SOON, Stage, about, level, settings, through};

/// How long the runtime waits for leftovers.
const PATIENCE: Duration = Duration::from_mins(2);

async fn delete(stage: &Stage, name: &str, limit: Duration) -> Result<()> {
    let api = stage.api(Kind::custom(PROBE));
    let object = api.get(name).await?;
    api.delete(name, &DeleteParams::default()).await?;
    gone(&api, &object, limit).await
}

#[tokio::test]
async fn what_has_no_namespace_is_guarded_before_it_exists_and_gone_when_the_resource_is() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "leftover", &[PROBE, ZOOKEEPER]).await?;
    stage.install_probe(&["leftover"]).await?;
    let operator = stage.probe(Run::default()).await?;
    let mark = stage.mark().await?;
    stage.apply(PROBE, "a", level("info")).await?;
    stage.apply(PROBE, "b", level("info")).await?;
    stage.ready(PROBE, "a").await?;
    stage.ready(PROBE, "b").await?;
    let role = cluster_role_name("leftover", "a");
    let writes = stage.writes_since(mark, &operator.user).await?;
    let first = |what: &dyn Fn(&tf_testing::Entry) -> bool| writes.iter().position(what);
    let guarded = first(&|write| write.resource == PROBE.plural && write.subresource.is_empty() && write.name == "a");
    let made = first(&|write| write.resource == "clusterroles" && write.name == role);
    assert!(guarded.context("no finalizer")? < made.context("no ClusterRole")?);

    delete(&stage, "a", PROMPT).await?;
    assert!(stage.api(CLUSTER_ROLE).get_opt(&role).await?.is_none(), "it was left behind");
    eventually("what is in the namespace to be collected", SOON, async || {
        Ok(stage.api(CONFIG_MAP).get_opt(&settings("a")).await?.is_none().then_some(()))
    })
    .await?;
    stage.api(CLUSTER_ROLE).get(&cluster_role_name("leftover", "b")).await?;
    assert!(stage.get(PROBE, "b").await?.is_ready());

    // Without anything to guard there is no finalizer, so the operator need not run for a resource to go.
    stage.apply(ZOOKEEPER, "zookeeper1", serde_json::json!({})).await?;
    let stored = stage.get(ZOOKEEPER, "zookeeper1").await?;
    assert!(stored.object.metadata.finalizers.is_none());
    Ok(())
}

/// Two minutes long, which is how long the runtime is patient.
#[tokio::test]
async fn a_leftover_that_cannot_be_removed_is_named_and_given_up_after_two_minutes() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "stuck", &[PROBE]).await?;
    stage.install_probe(&["stuck"]).await?;
    let proxy = stage.lab.proxy().await?;
    let operator = stage.probe(through(&proxy)).await?;
    for name in ["a", "b"] {
        stage.apply(PROBE, name, level("info")).await?;
        stage.ready(PROBE, name).await?;
    }
    let role = cluster_role_name("stuck", "a");
    let deletes = Match::verb(Verb::Delete).and(about("a"));
    proxy.add(deletes, Which::Every, Fault::Answer(Answer::forbidden()));
    let api = stage.api(Kind::custom(PROBE));
    let doomed = api.get("a").await?;
    api.delete("a", &DeleteParams::default()).await?;
    let told = stage.until(PROBE, "a", "said to be stuck", SOON, |a| a.is("Deleting", "True")).await?;
    let message = told.explain("Deleting");
    assert!(message.contains(&role) && message.contains("forbidden by the lab's proxy"), "{message}");
    delete(&stage, "b", PROMPT).await.context("another resource is held up")?;

    // Patience is counted from the deletion; the resource is looked at every five seconds.
    gone(&api, &doomed, PATIENCE + Duration::from_secs(10)).await?;
    stage.api(CLUSTER_ROLE).get(&role).await.context("the proxy let it go")?;
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "stuck");
    let left = eventually("an event about what is left", SOON, async || {
        let events = events.list(&ListParams::default()).await?.items;
        Ok(events.into_iter().find(|event| event.reason.as_deref() == Some("Abandoned")))
    })
    .await?;
    let note = left.note.unwrap_or_default();
    assert!(note.contains(&role) && note.contains("by hand"), "{note}");
    assert_eq!(left.reporting_controller.as_deref(), Some(OPERATOR));
    ensure!(operator.process.is_running(), "it ended");
    stage.api(CLUSTER_ROLE).delete(&role, &DeleteParams::default()).await?;
    Ok(())
}
