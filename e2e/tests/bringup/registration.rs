//! What control nodes and vRouters are in the config API, in the life of a cluster: the API is played, the operators and everything else are not.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use http::StatusCode;
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::{Value, json};
use tf_api::kinds::{CONFIG, CONTROL, VROUTER};
use tf_sim::rest::{Memory, Rest};
use tf_testing::{
    Cluster,
    resources::{self, Resource},
    sample::has_turn,
    wait::eventually,
};

use crate::support::{FLEET, known_to_the_collector, lines, settled};

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

    /// Names of the vRouters, each with an interface in it, whose names end with theirs.
    async fn vrouters(&self) -> Result<BTreeSet<String>> {
        let names = async |collection: &str| -> Result<BTreeSet<Vec<String>>> {
            let list = self.ask("GET", &format!("/{collection}"), Value::Null).await?;
            let names = list[collection].as_array().into_iter().flatten();
            names.map(|it| Ok(serde_json::from_value(it["fq_name"].clone())?)).collect()
        };
        let routers: BTreeSet<String> =
            names("virtual-routers").await?.into_iter().filter_map(|name| name.get(1).cloned()).collect();
        let interfaces: BTreeSet<String> =
            names("virtual-machine-interfaces").await?.into_iter().filter_map(|name| name.get(1).cloned()).collect();
        ensure!(interfaces.is_subset(&routers), "{interfaces:?} without {routers:?}");
        Ok(routers)
    }

    /// Waits until exactly these vRouters are there.
    async fn has_vrouters(&self, what: &str, names: &BTreeSet<String>) -> Result<()> {
        eventually(what, Duration::from_mins(3), async || Ok((self.vrouters().await? == *names).then_some(()))).await
    }

    /// The identifier of a vRouter.
    async fn vrouter(&self, name: &str) -> Result<String> {
        let name = json!({"type": "virtual-router", "fq_name": ["default-global-system-config", name]});
        let found = self.ask("POST", "/fqname-to-id", name).await?;
        Ok(found["uuid"].as_str().context("no uuid")?.to_owned())
    }

    /// Waits until exactly these are there.
    async fn has(&self, what: &str, names: &BTreeSet<String>) -> Result<()> {
        eventually(what, SOON, async || Ok((self.names().await? == *names).then_some(()))).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_in_the_config_api_while_they_are_members_and_others_objects_are_left_alone() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
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
async fn workers_are_in_the_config_api_until_they_leave_and_one_with_machines_stays() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let lab = FLEET.get().await?;
    let cluster = Cluster::start(&lab, "registered-workers").await?;
    let nodes = cluster.nodes(3, 2).await?;
    cluster.example().await?;
    cluster.manager_ready("sdn").await?;
    let vrouter = cluster.ready(VROUTER, "vrouter1").await?;
    ensure!(vrouter.is("Provisioned", "True"), "{}", vrouter.explain("Provisioned"));
    let api = Api::of(&cluster).await?;
    let workers = api.vrouters().await?;
    ensure!(nodes.iter().all(|node| workers.contains(node)), "{workers:?} of {nodes:?}");

    // A router of somebody else, and one with a machine.
    let system = "default-global-system-config";
    let router = json!({"virtual-router": {"fq_name": [system, FOREIGN], "virtual_router_ip_address": "192.0.2.1"}});
    api.ask("POST", "/virtual-routers", router).await?;
    api.ask("POST", "/virtual-machines", json!({"virtual-machine": {"fq_name": ["machine"]}})).await?;
    let busy = api.vrouter(&nodes[3]).await?;
    let machine = |operation: &str| {
        json!({
            "type": "virtual-router", "uuid": busy, "ref-type": "virtual-machine", "ref-fq-name": ["machine"],
            "operation": operation, "attr": null,
        })
    };
    api.ask("POST", "/ref-update", machine("ADD")).await?;
    let mut left = workers.clone();
    left.insert(FOREIGN.to_owned());

    settled(&cluster, Duration::from_secs(1)).await?;
    lab.nodes().await?.delete(&nodes[4]).await?;
    left.remove(&nodes[4]);
    api.has_vrouters("the lost worker to be taken out", &left).await?;
    let journal = api.0.journal();
    let at = |kind: &str, end: &str| {
        let is_it = |line: &String| line.starts_with(&format!("DELETE /{kind}/")) && line.ends_with(end);
        journal.iter().position(is_it).with_context(|| format!("{kind} {end} was not deleted"))
    };
    let (interface, gone) =
        (at("virtual-machine-interface", &format!("{}:vhost0", nodes[4]))?, at("virtual-router", &nodes[4])?);
    ensure!(interface < gone, "{journal:#?}");

    // One that others use stays, which is told and is in nobody's way.
    lab.nodes().await?.delete(&nodes[3]).await?;
    eventually("the busy worker to be told of", Duration::from_mins(3), async || {
        let vrouter = cluster.get(VROUTER, "vrouter1").await?;
        let told = vrouter.condition("Provisioned").map(|it| it.message.clone()).unwrap_or_default();
        let is_told = told.contains(&nodes[3]) && told.contains("stays while others use it");
        Ok((is_told && vrouter.is("Provisioned", "True")).then_some(()))
    })
    .await?;
    ensure!(api.vrouters().await? == left, "{:?}", api.vrouters().await?);

    // A Vrouter that goes takes along what it can.
    api.ask("POST", "/ref-update", machine("DELETE")).await?;
    let managers = resources::api(&cluster.client, tf_api::kinds::MANAGER, &cluster.namespace);
    let without = kube::api::Patch::Merge(json!({"spec": {"services": {"vrouters": null}}}));
    managers.patch("sdn", &kube::api::PatchParams::default(), &without).await?;
    api.has_vrouters("the routers to be gone", &[FOREIGN.to_owned()].into()).await?;
    let vrouters = resources::api(&cluster.client, VROUTER, &cluster.namespace);
    eventually("the Vrouter to be gone", SOON, async || Ok(vrouters.get_opt("vrouter1").await?.is_none().then_some(())))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_whose_config_api_is_gone_is_not_held() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let lab = FLEET.get().await?;
    let cluster = Cluster::start(&lab, "registered-nowhere").await?;
    cluster.nodes(1, 0).await?;
    let mut manager = cluster.example_manager()?;
    manager["spec"]["services"].as_object_mut().context("services")?.remove("vrouters");
    cluster.apply_object(&manager).await?;
    cluster.ready(CONTROL, "control1").await?;
    known_to_the_collector(&cluster).await?;
    let managers = resources::api(&cluster.client, tf_api::kinds::MANAGER, &cluster.namespace);
    let orphans =
        DeleteParams { propagation_policy: Some(kube::api::PropagationPolicy::Orphan), ..DeleteParams::default() };
    let begin = lab.audit_mark().await?;
    managers.delete("sdn", &orphans).await?;
    eventually("the Manager to be gone", SOON, async || Ok(managers.get_opt("sdn").await?.is_none().then_some(())))
        .await?;
    for (kind, name) in [(CONFIG, "config1"), (CONTROL, "control1")] {
        let api = resources::api(&cluster.client, kind, &cluster.namespace);
        if let Err(error) = api.delete(name, &DeleteParams::default()).await {
            let entries = lab.audit().window(begin, lab.audit_mark().await?)?;
            let own = entries.iter().filter(|entry| entry.is_mutating() && entry.namespace == cluster.namespace);
            bail!("{error}\n{}", lines(own));
        }
        eventually(&format!("{name} to be gone"), SOON, async || Ok(api.get_opt(name).await?.is_none().then_some(())))
            .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_api_that_lets_the_operator_in_no_more_is_named_with_the_call_within_ten_seconds() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let lab = FLEET.get().await?;
    let cluster = Cluster::start(&lab, "registered-no-more").await?;
    cluster.nodes(1, 0).await?;
    let mut manager = cluster.example_manager()?;
    manager["spec"]["services"].as_object_mut().context("services")?.remove("vrouters");
    cluster.apply_object(&manager).await?;
    cluster.manager_ready("sdn").await?;
    let api = Api::of(&cluster).await?;
    for (number, status) in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].into_iter().enumerate() {
        api.0.refuse(Some(status));
        manager["spec"]["services"]["controls"][0]["spec"]["serviceConfiguration"] =
            json!({"asnNumber": 64513 + number});
        let begun = Instant::now();
        cluster.apply_object(&manager).await?;
        let is_told = |control: &Resource| {
            let told = control.explain("Provisioned");
            control.is("Provisioned", "False") && told.contains("GET https://") && told.contains(status.as_str())
        };
        cluster.until(CONTROL, "control1", "refused by the API", is_told).await?;
        ensure!(begun.elapsed() < Duration::from_secs(10), "{status}: told after {:?}", begun.elapsed());
        api.0.refuse(None);
        cluster.until(CONTROL, "control1", "registered", |control| control.is("Provisioned", "True")).await?;
    }
    Ok(())
}
