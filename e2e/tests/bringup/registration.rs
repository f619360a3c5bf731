//! What control nodes are in the config API, in the life of a cluster: the API is played, the operators and everything else are not.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::{Value, json};
use tf_api::kinds::{CONFIG, CONTROL};
use tf_sim::rest::{Memory, Rest};
use tf_testing::{Cluster, resources, wait::eventually};

use crate::support::{FLEET, settled};

/// For what takes an attempt or two.
const SOON: Duration = Duration::from_secs(30);
const FOREIGN: &str = "gateway";
const ROUTERS: [&str; 4] = ["default-domain", "default-project", "ip-fabric", "__default__"];

/// The API of the cluster's Config.
struct Api(Arc<Rest<Memory>>);

impl Api {
    async fn of(cluster: &Cluster) -> Result<Self> {
        let uid = cluster.get(CONFIG, "config1").await?.object.uid().context("a uid")?;
        Ok(Self(cluster.lab.config_apis()?.of(&uid).context("nobody has asked the API")?))
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Result<Value> {
        let (status, text) = self.0.answer(method, path, body.to_string().as_bytes()).await;
        ensure!(status.is_success(), "{method} {path}: {status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }

    async fn routers(&self) -> Result<Vec<Value>> {
        let list = self.ask("GET", "/bgp-routers?detail=true", Value::Null).await?;
        let list = list["bgp-routers"].as_array().cloned().unwrap_or_default();
        Ok(list.into_iter().map(|mut router| router["bgp-router"].take()).collect())
    }

    async fn names(&self) -> Result<BTreeSet<String>> {
        Ok(self.routers().await?.iter().filter_map(|router| router["fq_name"][4].as_str().map(str::to_owned)).collect())
    }

    /// Waits until exactly these are there.
    async fn has(&self, what: &str, names: &BTreeSet<String>) -> Result<()> {
        eventually(what, SOON, async || Ok((self.names().await? == *names).then_some(()))).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_in_the_config_api_while_they_are_members_and_others_objects_are_left_alone() -> Result<()> {
    let lab = FLEET.get().await?;
    let cluster = Cluster::start(&lab, "registered").await?;
    let nodes = cluster.nodes(3, 1).await?;
    cluster.example().await?;
    cluster.manager_ready("sdn").await?;
    let control = cluster.ready(CONTROL, "control1").await?;
    ensure!(control.is("Provisioned", "True"), "{}", control.explain("Provisioned"));
    let api = Api::of(&cluster).await?;
    let members: BTreeSet<String> = nodes[..3].iter().cloned().collect();
    ensure!(api.names().await? == members, "{:?}", api.names().await?);

    // Somebody adds a router of his own, and changes what the operator made where the spec says nothing.
    let parameters = json!({"address": "192.0.2.1", "identifier": "192.0.2.1", "autonomous_system": 64513});
    let name: Vec<&str> = ROUTERS.into_iter().chain([FOREIGN]).collect();
    let router = json!({"bgp-router": {"fq_name": name, "bgp_router_parameters": parameters}});
    api.ask("POST", "/bgp-routers", router).await?;
    let changed =
        api.routers().await?.into_iter().find(|it| it["fq_name"][4] == nodes[0].as_str()).context("no router")?;
    let mut parameters = changed["bgp_router_parameters"].clone();
    parameters["vendor"] = json!("mine");
    let path = format!("/bgp-router/{}", changed["uuid"].as_str().context("no uuid")?);
    api.ask("PUT", &path, json!({"bgp-router": {"bgp_router_parameters": parameters}})).await?;

    settled(&cluster, Duration::from_secs(1)).await?;
    lab.nodes().await?.delete(&nodes[2]).await?;
    let left: BTreeSet<String> = [nodes[0].clone(), nodes[1].clone(), FOREIGN.to_owned()].into();
    eventually("the lost node to be taken out", Duration::from_mins(3), async || {
        Ok((api.names().await? == left).then_some(()))
    })
    .await?;
    let kept = api.ask("GET", &path, Value::Null).await?;
    ensure!(kept["bgp-router"]["bgp_router_parameters"]["vendor"] == "mine", "{kept}");

    // A Control that goes takes its routers along.
    let controls = resources::api(&cluster.client, CONTROL, &cluster.namespace);
    let manager = json!({"spec": {"services": {"controls": null}}});
    let without = kube::api::Patch::Merge(&manager);
    let managers = resources::api(&cluster.client, tf_api::kinds::MANAGER, &cluster.namespace);
    managers.patch("sdn", &kube::api::PatchParams::default(), &without).await?;
    api.has("the routers to be gone", &[FOREIGN.to_owned()].into()).await?;
    eventually("the Control to be gone", SOON, async || Ok(controls.get_opt("control1").await?.is_none().then_some(())))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_whose_config_api_is_gone_is_not_held() -> Result<()> {
    let lab = FLEET.get().await?;
    let cluster = Cluster::start(&lab, "registered-nowhere").await?;
    cluster.nodes(1, 0).await?;
    let mut manager = cluster.example_manager()?;
    manager["spec"]["services"].as_object_mut().context("services")?.remove("vrouters");
    cluster.apply_object(&manager).await?;
    cluster.ready(CONTROL, "control1").await?;
    let managers = resources::api(&cluster.client, tf_api::kinds::MANAGER, &cluster.namespace);
    let orphans =
        DeleteParams { propagation_policy: Some(kube::api::PropagationPolicy::Orphan), ..DeleteParams::default() };
    managers.delete("sdn", &orphans).await?;
    eventually("the Manager to be gone", SOON, async || Ok(managers.get_opt("sdn").await?.is_none().then_some(())))
        .await?;
    for (kind, name) in [(CONFIG, "config1"), (CONTROL, "control1")] {
        let api = resources::api(&cluster.client, kind, &cluster.namespace);
        api.delete(name, &DeleteParams::default()).await?;
        eventually(&format!("{name} to be gone"), SOON, async || Ok(api.get_opt(name).await?.is_none().then_some(())))
            .await?;
    }
    Ok(())
}
