//! Each operator works alone, and what is missing can be installed later.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds};
use tf_plan::object::{self, Kind};
use tf_testing::{
    Cluster, Lab, Options, SharedLab,
    operators::{self, Install, Run},
    resources::{self, Resource, resource_of},
    sample::has_turn,
    wait::eventually,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    external::{self, on},
    support::{label, settled, uids},
};

/// Definitions are of the whole cluster, so tests that change them have a lab of their own and take turns in it.
static LAB: SharedLab = SharedLab::new(|| Options::fleet(0, 0));
static TURN: Mutex<()> = Mutex::const_new(());
/// For the API server to remove definitions with all their resources, beside other tests.
const UNDEFINED: Duration = Duration::from_mins(7);
/// Between two reminders. What the API server missed it does by itself only when it looks at all definitions again, every 5
/// minutes (`NewSharedInformerFactory` in apiextensions' `apiserver.go`), or when a definition changes.
const REMIND: Duration = Duration::from_secs(10);

/// The lab without any definition of ours, however the test before it ended, for as long as the guard is held.
pub async fn turn() -> Result<(Arc<Lab>, MutexGuard<'static, ()>)> {
    let lab = LAB.get().await?;
    let turn = TURN.lock().await;
    release(&lab).await?;
    undefine(&lab).await?;
    Ok((lab, turn))
}

/// Installs an operator with the definitions that its chart brings, and starts it.
async fn install(cluster: &mut Cluster, operator: &'static str) -> Result<()> {
    cluster.lab.install(operator, &cluster.namespace, &Install::default()).await?;
    let running = cluster.lab.operate(operator, &cluster.namespace, &Run::default()).await?;
    running.ready().await?;
    cluster.operators.push(running);
    Ok(())
}

/// The definitions of our kinds.
async fn definitions(lab: &Lab) -> Result<Vec<CustomResourceDefinition>> {
    let definitions: Api<CustomResourceDefinition> = Api::all(lab.client().await?);
    let all = definitions.list(&ListParams::default()).await?.items;
    Ok(all.into_iter().filter(|definition| definition.spec.group == tf_api::GROUP).collect())
}

/// Plural names of our kinds that are defined.
async fn defined(lab: &Lab) -> Result<Vec<String>> {
    Ok(definitions(lab).await?.into_iter().map(|definition| definition.spec.names.plural).collect())
}

/// Takes all definitions away, and with them all resources.
async fn undefine(lab: &Lab) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(lab.client().await?);
    for plural in defined(lab).await? {
        api.delete(&format!("{plural}.{}", tf_api::GROUP), &DeleteParams::default()).await?;
    }
    let (mut left, mut reminders, begun) = (Vec::new(), 0, Instant::now());
    let gone = eventually("the definitions to be gone", UNDEFINED, async || {
        left = definitions(lab).await?;
        if begun.elapsed() > REMIND * (reminders + 1) {
            reminders += 1;
            let reminder = json!({ "metadata": { "annotations": { "reminders": reminders.to_string() } } });
            for definition in &left {
                let name = definition.metadata.name.as_deref().unwrap_or_default();
                let changed = api.patch(name, &PatchParams::default(), &Patch::Merge(&reminder)).await;
                ensure!(changed.is_ok() || api.get_opt(name).await?.is_none(), "{name} takes no reminder");
            }
        }
        Ok(left.is_empty().then_some(()))
    })
    .await;
    gone.with_context(|| format!("left: {}", left.iter().map(explained).collect::<Vec<_>>().join("; ")))
}

/// Lets those go whose operator has ended before it took them out of a config API.
async fn release(lab: &Lab) -> Result<()> {
    let (client, defined) = (lab.client().await?, defined(lab).await?);
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let registered = [kinds::ANALYTICS, kinds::ANALYTICS_ALARM, kinds::ANALYTICS_SNMP, kinds::CONTROL, kinds::VROUTER];
    for kind in registered.into_iter().filter(|kind| defined.contains(&kind.plural.to_owned())) {
        let resource = resource_of(Kind::custom(kind));
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for held in all.list(&ListParams::default()).await? {
            let home = held.metadata.namespace.unwrap_or_default();
            let there: Api<DynamicObject> = Api::namespaced_with(client.clone(), &home, &resource);
            there.patch(&held.metadata.name.unwrap_or_default(), &PatchParams::default(), &free).await?;
        }
    }
    Ok(())
}

/// A definition with what the API server says of its deletion.
fn explained(definition: &CustomResourceDefinition) -> String {
    let of = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let terminating =
        of.filter(|condition| condition.type_ == "Terminating").filter_map(|told| told.message.as_deref());
    let told: Vec<_> = terminating.collect();
    format!(
        "{} ({}; deleted: {:?})",
        definition.spec.names.plural,
        told.join(", "),
        definition.metadata.deletion_timestamp
    )
}

/// A resource of each kind that needs no other, on one node.
fn specs() -> [(KindInfo, &'static str, Value); 13] {
    let analytics = on(&["configDatabase", "zookeeper", "rabbitmq", "redis", "config"]);
    let alarm = on(&["cassandra", "zookeeper", "rabbitmq", "redis", "config", "analytics"]);
    let snmp = on(&["cassandra", "zookeeper", "rabbitmq", "config", "analytics"]);
    [
        (kinds::ANALYTICS, "analytics1", analytics),
        (kinds::ANALYTICS_ALARM, "analyticsalarm1", alarm),
        (kinds::ANALYTICS_SNMP, "analyticssnmp1", snmp),
        (kinds::CASSANDRA, "configdb1", json!({})),
        (kinds::CONFIG, "config1", on(&["cassandra", "zookeeper", "rabbitmq"])),
        (kinds::CONTROL, "control1", on(&["cassandra", "rabbitmq", "config"])),
        (kinds::KUBEMANAGER, "kubemanager1", on(&["cassandra", "zookeeper", "rabbitmq", "config"])),
        (kinds::QUERY_ENGINE, "queryengine1", on(&["cassandra", "redis", "analytics"])),
        (kinds::RABBITMQ, "rabbitmq1", json!({})),
        (kinds::REDIS, "redis1", json!({})),
        (
            kinds::VROUTER,
            "vrouter1",
            json!({"serviceConfiguration": {"envVariablesConfig": {"CONTROL_NODES": "192.0.2.1"}}}),
        ),
        (kinds::WEBUI, "webui1", on(&["config", "cassandra", "redis", "control"])),
        (kinds::ZOOKEEPER, "zookeeper1", json!({})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_works_alone_with_only_the_definitions_of_its_operator() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let (lab, _turn) = turn().await?;
    for (kind, name, mut spec) in specs() {
        let mut cluster = Cluster::empty(&lab, &format!("only-{}", kind.plural)).await?;
        cluster.nodes(1, 0).await?;
        install(&mut cluster, kind.operator).await?;
        let own: Vec<&str> =
            kinds::ALL.iter().filter(|other| other.operator == kind.operator).map(|own| own.plural).collect();
        ensure!(defined(&lab).await? == own, "the chart of {} defines {:?}", kind.operator, defined(&lab).await?);
        spec["commonConfiguration"] = json!({ "nodeSelector": cluster.everywhere() });
        cluster.apply_object(&external::login(&cluster.namespace)).await?;
        resources::apply(&cluster.client, kind, &cluster.namespace, name, spec).await?;
        let brought_up = match kind {
            // The config API that it is told of does not answer, and it is not Ready before that knows it.
            kinds::CONTROL => cluster.until(kind, name, "running unregistered", is_unregistered).await,
            _ => cluster.ready(kind, name).await,
        };
        let ready = brought_up.with_context(|| format!("{} alone", kind.kind))?;
        ensure!(ready.status.members_ready.as_deref() == Some("1/1"), "{:?}", ready.status.members_ready);
        // Its operator ends with it: it would hold its resource for the two minutes that it tries to reach the config API.
        drop(cluster);
        release(&lab).await?;
        undefine(&lab).await?;
    }

    let mut cluster = Cluster::empty(&lab, "only-manager-op").await?;
    install(&mut cluster, "manager-op").await?;
    ensure!(defined(&lab).await? == ["managers"]);
    cluster.example().await?;
    let tells = |manager: &Resource| manager.condition("Ready").is_some_and(|ready| ready.reason == "CRDMissing");
    let manager = cluster.until(kinds::MANAGER, "sdn", "telling what is missing", tells).await?;
    for (kind, ..) in specs() {
        let shown = manager.explain(kind.shown_as.as_ref());
        ensure!(shown.contains("CRDMissing") && shown.contains(kind.operator), "{shown}");
    }
    Ok(())
}

/// Whether all members run, and the resource says that the config API does not know them.
fn is_unregistered(resource: &Resource) -> bool {
    let is_told = resource.condition("Provisioned").is_some_and(|it| it.reason.starts_with("Provisioning"));
    is_told && resource.is("WorkloadReady", "True") && !resource.is_ready()
}

/// What identifies an object and its content, as far as its operator decides it: uid, generation, resource version.
type Substance = (Option<String>, Option<i64>, Option<String>);

fn substance(object: &DynamicObject) -> Substance {
    let meta = &object.metadata;
    // What has no status changes only if somebody writes it.
    let plain = matches!(label(object).split(' ').next(), Some("ConfigMap" | "Secret" | "Service" | "ServiceAccount"));
    (meta.uid.clone(), meta.generation, meta.resource_version.clone().filter(|_| plain))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_installed_later_completes_the_cluster_and_nothing_else_is_touched() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let (lab, _turn) = turn().await?;
    for late in [kinds::RABBITMQ, kinds::CONFIG, kinds::CASSANDRA] {
        installed_later(&lab, late).await.with_context(|| format!("{} installed later", late.operator))?;
    }
    Ok(())
}

async fn installed_later(lab: &Arc<Lab>, late: KindInfo) -> Result<()> {
    let mut cluster = Cluster::empty(lab, &format!("later-{}", late.operator)).await?;
    cluster.nodes(1, 1).await?;
    for operator in operators::ALL.into_iter().filter(|operator| *operator != late.operator) {
        install(&mut cluster, operator).await?;
    }
    cluster.example().await?;
    // What needs no other component; Config needs all stores, Control and Kubemanager need Config, and Webui needs Control.
    let independent = [
        (kinds::CASSANDRA, "analyticsdb1"),
        (kinds::CASSANDRA, "configdb1"),
        (kinds::RABBITMQ, "rabbitmq1"),
        (kinds::REDIS, "redis1"),
        (kinds::VROUTER, "vrouter1"),
        (kinds::ZOOKEEPER, "zookeeper1"),
    ];
    let present = || independent.into_iter().filter(|(kind, _)| *kind != late);
    for (kind, name) in present() {
        match kind {
            // It is not Ready before a config API knows it.
            kinds::VROUTER => {
                cluster.until(kind, name, "running", |it| it.is("WorkloadReady", "True")).await?;
            }
            _ => {
                cluster.ready(kind, name).await?;
            }
        }
    }
    let shown = late.shown_as;
    let missing =
        |resource: &Resource| resource.condition(shown.as_ref()).is_some_and(|shown| shown.reason == "CRDMissing");
    if late != kinds::CONFIG {
        cluster.until(kinds::CONFIG, "config1", "waiting for it", missing).await?;
    }
    let manager = cluster.until(kinds::MANAGER, "sdn", "waiting for it", missing).await?;
    ensure!(
        !manager.is_ready() && manager.explain(shown.as_ref()).contains(late.operator),
        "{}",
        manager.explain(shown.as_ref())
    );
    settled(&cluster, Duration::from_secs(1)).await?;

    // Agents may learn of new servers, in files that they read again; their pods stay.
    let stores: Vec<&str> = present().filter(|(kind, _)| *kind != kinds::VROUTER).map(|(_, name)| name).collect();
    let before = snapshot(&cluster, &stores).await?;
    ensure!(before.len() > stores.len() * 6, "only {:?}", before.keys());
    let pods = uids(&cluster.client, object::POD, &cluster.namespace).await?;
    ensure!(pods.len() == stores.len() + 2, "a pod of each store and two agents: {:?}", pods.keys());

    install(&mut cluster, late.operator).await?;
    cluster.manager_ready("sdn").await?;
    settled(&cluster, Duration::from_secs(1)).await?;
    let after = snapshot(&cluster, &stores).await?;
    let touched: Vec<_> =
        before.iter().filter(|(label, was)| after.get(*label) != Some(*was)).map(|(label, _)| label).collect();
    ensure!(touched.is_empty(), "these were changed or replaced: {touched:?}");
    ensure!(after.len() == before.len(), "new: {:?}", after.keys().filter(|label| !before.contains_key(*label)));
    let now = uids(&cluster.client, object::POD, &cluster.namespace).await?;
    let replaced: Vec<&String> = pods.iter().filter(|(name, uid)| now.get(*name) != Some(*uid)).map(|p| p.0).collect();
    ensure!(replaced.is_empty(), "these pods are gone or others by now: {replaced:?}");
    // While there is somebody who takes control nodes and vRouters out of the config API.
    undefine(lab).await
}

/// Everything of these resources, Events apart.
async fn snapshot(cluster: &Cluster, names: &[&str]) -> Result<BTreeMap<String, Substance>> {
    let of_them = |object: &&DynamicObject| {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        names.iter().any(|prefix| name.starts_with(prefix)) && !label(object).starts_with("Event ")
    };
    let all = tf_testing::resources::everything_in(&cluster.client, &cluster.namespace).await?;
    Ok(all.iter().filter(of_them).map(|object| (label(object), substance(object))).collect())
}
