//! An operator with several components: they share the process, its lease, its health and its page of metrics, and none waits for another.
//! With analytics-op, whose four kinds have nothing here that they depend on: each pass ends in a condition that says so.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use tf_api::{
    KindInfo,
    kinds::{ANALYTICS, ANALYTICS_ALARM, ANALYTICS_SNMP, QUERY_ENGINE},
};
use tf_plan::object::Kind;
use tf_testing::{
    Lab, Options,
    operators::{Install, Operator, Run},
    resources::Resource,
    wait::eventually,
};

use crate::support::{API, DEFINITION, FOUND, PROMPT, SOON, Stage, define, level, terminate};

const OPERATOR: &str = "analytics-op";
const KINDS: [KindInfo; 4] = [ANALYTICS, ANALYTICS_ALARM, ANALYTICS_SNMP, QUERY_ENGINE];
/// Name of the resource of each kind.
const NAME: &str = "a";

/// Changes the spec of each resource and waits until its operator has looked at it.
async fn acted(stage: &Stage, kinds: &[KindInfo], wanted: &str, limit: Duration) -> Result<()> {
    for kind in kinds {
        stage.apply(*kind, NAME, level(wanted)).await?;
    }
    for kind in kinds {
        stage.until(*kind, NAME, "told of its generation", limit, is_told).await?;
    }
    Ok(())
}

/// Whether the status describes the spec as it is, and says what is waited for.
fn is_told(resource: &Resource) -> bool {
    let observed = resource.object.data["status"]["observedGeneration"].as_i64();
    observed == resource.object.metadata.generation && resource.is("DependenciesReady", "False")
}

/// Starts the operator, which is installed, as this pod.
async fn start(stage: &Stage, pod: &str) -> Result<Operator> {
    let env = vec![("POD_NAME".to_owned(), pod.to_owned())];
    stage.lab.operate(OPERATOR, &stage.namespace, &Run { env, ..Run::default() }).await
}

async fn install(stage: &Stage) -> Result<()> {
    let install = Install { without_definitions: true, ..Install::default() };
    stage.lab.install(OPERATOR, &stage.namespace, &install).await?;
    Ok(())
}

/// Who holds which lease.
async fn leases(stage: &Stage) -> Result<Vec<(String, Option<String>)>> {
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let all = leases.list(&ListParams::default()).await?.items.into_iter();
    let holder = |lease: Lease| {
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        let pod = holder.and_then(|holder| Some(holder.rsplit_once('-')?.0.to_owned()));
        (lease.metadata.name.unwrap_or_default(), pod)
    };
    Ok(all.map(holder).collect())
}

/// Kinds of ours that a page of metrics has a series of this name for, each of which has to have the value 1.
async fn synced(operator: &Operator) -> Result<BTreeSet<String>> {
    let (code, page) = operator.get("/metrics").await?;
    ensure!(code == 200, "{page}");
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("tf_watch_synced{")).collect();
    let is_of = |line: &&&str, kind: &KindInfo| line.contains(&format!("kind=\"{}\"", kind.kind));
    let of = |kind: &KindInfo| lines.iter().filter(|line| is_of(line, kind)).collect::<Vec<_>>();
    let is_synced = |kind: &&KindInfo| matches!(of(kind).as_slice(), [line] if line.ends_with(" 1"));
    Ok(KINDS.iter().filter(is_synced).map(|kind| kind.kind.to_owned()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_components_have_one_lease_one_health_and_one_page_and_stop_together() -> Result<()> {
    let stage = Stage::set(API.get().await?, "parts", &KINDS).await?;
    install(&stage).await?;
    let mut leader = start(&stage, "one").await?;
    leader.ready().await?;
    eventually("one to lead", SOON, async || Ok((leader.metric("tf_leader", &[]).await? > 0.0).then_some(()))).await?;
    let mut standby = start(&stage, "two").await?;
    standby.ready().await.context("a standby sees the resources of all components")?;
    acted(&stage, &KINDS, "info", SOON).await?;

    assert_eq!(leases(&stage).await?, [(OPERATOR.to_owned(), Some("one".to_owned()))]);
    ensure!(standby.metric("tf_leader", &[]).await? < 1.0);
    for process in [&leader, &standby] {
        assert_eq!(process.get("/healthz").await?.0, 200);
        let all = KINDS.map(|kind| kind.kind.to_owned());
        eventually("watches of all kinds", SOON, async || {
            Ok((synced(process).await? == all.clone().into()).then_some(()))
        })
        .await?;
    }
    for kind in KINDS {
        let kind = format!("kind=\"{}\"", kind.kind);
        let of = [kind.as_str(), "type=\"Ready\"", "status=\"False\""];
        let told = async |process: &Operator| process.metric("tf_condition", &of).await;
        eventually("its resource to be told of", SOON, async || Ok((told(&leader).await? > 0.0).then_some(()))).await?;
        ensure!(told(&standby).await? < 1.0, "who does not lead knows nothing that counts");
    }

    // Of no component anything is left at work, and the next process goes on with all of them.
    let took = terminate(&mut leader, SOON).await?;
    ensure!(took < Duration::from_secs(5), "it took {took:?} to end");
    eventually("two to lead", PROMPT, async || {
        Ok((leases(&stage).await? == [(OPERATOR.to_owned(), Some("two".to_owned()))]).then_some(()))
    })
    .await?;
    acted(&stage, &KINDS, "debug", PROMPT).await?;
    terminate(&mut standby, SOON).await?;
    assert_eq!(leases(&stage).await?, [(OPERATOR.to_owned(), None)]);
    Ok(())
}

/// A lab of its own: other tests need the same definitions to stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_without_its_definition_is_told_of_by_readiness_and_holds_up_no_other() -> Result<()> {
    let others = [ANALYTICS, ANALYTICS_SNMP, QUERY_ENGINE];
    let lab = Arc::new(Lab::start(Options::api()).await?);
    let stage = Stage::set(lab, "part-missing", &others).await?;
    install(&stage).await?;
    let operator = start(&stage, "one").await?;
    eventually("the process to say how it is", SOON, async || Ok(operator.get("/healthz").await.ok())).await?;
    acted(&stage, &others, "info", SOON).await?;
    assert_eq!(operator.get("/healthz").await?.0, 200, "there is nothing to restart for");
    assert_eq!(operator.get("/readyz").await?.0, 503, "a process is as well as each of its components");

    define(&stage.lab, ANALYTICS_ALARM).await?;
    operator.ready().await?;
    acted(&stage, &[ANALYTICS_ALARM], "info", FOUND).await?;
    assert_eq!(operator.get("/readyz").await?.0, 200);

    let definitions = stage.api(DEFINITION);
    let name = format!("{}.{}", ANALYTICS_ALARM.plural, tf_api::GROUP);
    definitions.delete(&name, &DeleteParams::default()).await?;
    eventually("the definition to go", SOON, async || Ok(definitions.get_opt(&name).await?.is_none().then_some(())))
        .await?;
    eventually("the operator to notice", SOON, async || Ok((operator.get("/readyz").await?.0 == 503).then_some(())))
        .await?;
    acted(&stage, &others, "debug", PROMPT).await?;
    assert_eq!(operator.get("/healthz").await?.0, 200);
    ensure!(operator.process.is_running(), "it ended");
    ensure!(stage.api(Kind::custom(QUERY_ENGINE)).get_opt(NAME).await?.is_some());
    Ok(())
}
