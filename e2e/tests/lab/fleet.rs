//! Simulated nodes and their pods behave as the tests of operators need it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use tf_testing::audit::service_account;
use tf_testing::nodes::{READY_ANNOTATION, Role, is_ready};
use tf_testing::wait::{eventually, gone, rolled_out};
use tf_testing::{IpFamily, Lab, Options, Verb};

use crate::SOON;

/// A StatefulSet of three on distinct control-plane nodes, as the stores of the control plane are placed.
const STORE: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  replicas: 3
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec:
      hostNetwork: true
      nodeSelector: {node-role.kubernetes.io/control-plane: ''}
      tolerations: [{operator: Exists}]
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: store}}}
      initContainers: [{name: init, image: none}]
      containers: [{name: store, image: none}]
";

/// A DaemonSet on every node, and a Deployment whose pods are not on the host network.
const OTHERS: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      containers: [{name: agent, image: none}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {lab.tungsten.io/ready-after: 1s}}
    spec: {containers: [{name: web, image: none}]}
";

struct Workloads {
    stores: Api<StatefulSet>,
    agents: Api<DaemonSet>,
    webs: Api<Deployment>,
    pods: Api<Pod>,
}

impl Workloads {
    async fn of(lab: &Lab) -> Result<Self> {
        let client = lab.client().await?;
        Ok(Self {
            stores: Api::default_namespaced(client.clone()),
            agents: Api::default_namespaced(client.clone()),
            webs: Api::default_namespaced(client.clone()),
            pods: Api::default_namespaced(client),
        })
    }

    async fn pods(&self, app: &str) -> Result<Vec<Pod>> {
        Ok(self.pods.list(&ListParams::default().labels(&format!("app={app}"))).await?.items)
    }
}

fn addresses(pods: &[Pod]) -> BTreeSet<IpAddr> {
    pods.iter().map(|pod| pod.status.as_ref().unwrap().pod_ip.as_ref().unwrap().parse().unwrap()).collect()
}

#[tokio::test]
async fn workloads_of_a_fleet_become_ready_on_the_addresses_of_their_nodes() -> Result<()> {
    let lab = Lab::start(Options::fleet(3, 3)).await?;
    let workloads = Workloads::of(&lab).await?;
    lab.apply(STORE).await?;
    lab.apply(OTHERS).await?;
    rolled_out(&workloads.stores, "store", 3, SOON).await?;
    rolled_out(&workloads.agents, "agent", 6, SOON).await?;
    rolled_out(&workloads.webs, "web", 2, SOON).await?;

    let nodes = lab.nodes().await?;
    let mut control_plane = BTreeSet::new();
    for index in 1..=3 {
        control_plane.insert(nodes.address(&format!("control-plane-{index}")).await?);
    }
    let stores = workloads.pods("store").await?;
    assert_eq!(addresses(&stores), control_plane);
    for pod in &stores {
        let (spec, status) = (pod.spec.as_ref().unwrap(), pod.status.as_ref().unwrap());
        assert_eq!(status.pod_ip, status.host_ip);
        assert_eq!(
            nodes.address(spec.node_name.as_ref().unwrap()).await?.to_string(),
            *status.pod_ip.as_ref().unwrap()
        );
    }
    assert_eq!(addresses(&workloads.pods("agent").await?).len(), 6);
    assert!(addresses(&workloads.pods("web").await?).iter().all(|address| address.to_string().starts_with("10.244.")));

    every_pod_is_replaced_once_by_a_rolling_restart(&lab, &workloads).await?;
    readiness_follows_the_annotation(&workloads).await?;
    nodes_come_and_go(&lab, &workloads).await?;
    deleted_workloads_leave_no_pod(&workloads).await
}

/// kwok deletes pods by name: were it to delete twice, it would hit the successor (see `e2e/lab/stages/pod.yaml`).
async fn every_pod_is_replaced_once_by_a_rolling_restart(lab: &Lab, workloads: &Workloads) -> Result<()> {
    let before = lab.audit_mark().await?;
    for round in 0..3 {
        let restart =
            json!({ "spec": { "template": { "metadata": { "annotations": { "round": round.to_string() } } } } });
        workloads.stores.patch("store", &PatchParams::default(), &Patch::Merge(&restart)).await?;
        workloads.agents.patch("agent", &PatchParams::default(), &Patch::Merge(&restart)).await?;
        rolled_out(&workloads.stores, "store", 3, SOON).await?;
        rolled_out(&workloads.agents, "agent", 6, SOON).await?;
    }
    let entries = lab.audit().window(before, lab.audit_mark().await?)?;
    // A controller with an old cache may try to create what exists, hence only what succeeded.
    let created = |user: &str| {
        let user = service_account("kube-system", user);
        let of_pods = |entry: &&tf_testing::Entry| entry.resource == "pods" && entry.subresource.is_empty();
        entries
            .iter()
            .filter(of_pods)
            .filter(|entry| entry.user == user && entry.verb == Verb::Create && entry.code == 201)
            .count()
    };
    assert_eq!((created("statefulset-controller"), created("daemon-set-controller")), (3 * 3, 3 * 6));
    Ok(())
}

async fn readiness_follows_the_annotation(workloads: &Workloads) -> Result<()> {
    let annotate = async |value: Option<&str>| {
        let patch = json!({ "metadata": { "annotations": { READY_ANNOTATION: value } } });
        workloads.pods.patch("store-1", &PatchParams::default(), &Patch::Merge(patch)).await
    };
    let ready = async || {
        anyhow::Ok(workloads.stores.get("store").await?.status.unwrap_or_default().ready_replicas.unwrap_or(0))
    };
    let address = annotate(Some("false")).await?.status.unwrap().pod_ip;
    eventually("store-1 not Ready", SOON, async || Ok((ready().await? == 2).then_some(()))).await?;
    annotate(None).await?;
    eventually("store-1 Ready again", SOON, async || Ok((ready().await? == 3).then_some(()))).await?;
    assert_eq!(workloads.pods.get("store-1").await?.status.unwrap().pod_ip, address);
    Ok(())
}

async fn nodes_come_and_go(lab: &Lab, workloads: &Workloads) -> Result<()> {
    let nodes = lab.nodes().await?;
    assert_eq!(nodes.add(Role::Worker, 1).await?, ["worker-4"]);
    rolled_out(&workloads.agents, "agent", 7, SOON).await?;

    nodes.label("worker-4", "rack", Some("r1")).await?;
    let racked = nodes.api().list(&ListParams::default().labels("rack=r1")).await?;
    assert_eq!(racked.items.iter().map(Node::name_any).collect::<Vec<_>>(), ["worker-4"]);

    nodes.set_ready("worker-4", false).await?;
    let is = async |ready| Ok((is_ready(&nodes.api().get("worker-4").await?) == ready).then_some(()));
    eventually("worker-4 not Ready", SOON, async || is(false).await).await?;
    nodes.set_ready("worker-4", true).await?;
    eventually("worker-4 Ready", SOON, async || is(true).await).await?;

    nodes.cordon("worker-4", true).await?;
    nodes.wait_ready().await?;
    nodes.delete("worker-4").await?;
    let left_behind = workloads.pods.list(&ListParams::default().fields("spec.nodeName=worker-4")).await?;
    for pod in &left_behind {
        workloads.pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
    }
    rolled_out(&workloads.agents, "agent", 6, SOON).await
}

async fn deleted_workloads_leave_no_pod(workloads: &Workloads) -> Result<()> {
    let pod = workloads.pods.get("store-0").await?;
    workloads.pods.delete("store-0", &DeleteParams::default()).await?;
    gone(&workloads.pods, &pod, SOON).await?;
    rolled_out(&workloads.stores, "store", 3, SOON).await?;

    workloads.stores.delete("store", &DeleteParams::default()).await?;
    workloads.agents.delete("agent", &DeleteParams::default()).await?;
    workloads.webs.delete("web", &DeleteParams::default()).await?;
    eventually("all pods to be gone", SOON, async || {
        Ok(workloads.pods.list(&ListParams::default()).await?.items.is_empty().then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_silent_node_is_found_out_and_recovers() -> Result<()> {
    let lab = Lab::start(Options { node_lease_seconds: 8, ..Options::fleet(1, 1) }).await?;
    let nodes = lab.nodes().await?;
    let unreachable = async || {
        let taints = nodes.api().get("worker-1").await?.spec.unwrap_or_default().taints.unwrap_or_default();
        anyhow::Ok(taints.iter().any(|taint| taint.key == "node.kubernetes.io/unreachable"))
    };
    let begun = Instant::now();
    nodes.silence("worker-1", true).await?;
    eventually("worker-1 to be missed", Duration::from_mins(1), async || Ok(unreachable().await?.then_some(())))
        .await?;
    assert!(begun.elapsed() >= Duration::from_secs(5), "a lease that is valid is not doubted");
    assert!(is_ready(&nodes.api().get("control-plane-1").await?));
    nodes.silence("worker-1", false).await?;
    nodes.wait_ready().await
}

#[tokio::test]
async fn a_fleet_can_be_ipv6_only() -> Result<()> {
    let lab = Lab::start(Options { ip_family: IpFamily::V6, ..Options::fleet(3, 0) }).await?;
    let workloads = Workloads::of(&lab).await?;
    lab.apply(STORE).await?;
    rolled_out(&workloads.stores, "store", 3, SOON).await?;
    let addresses = addresses(&workloads.pods("store").await?);
    assert_eq!(addresses, ["fd77::1", "fd77::2", "fd77::3"].map(|address| address.parse().unwrap()).into());
    let service = lab.apply("{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 1}]}}").await?;
    assert!(service[0].data["spec"]["clusterIP"].as_str().is_some_and(|address| address.starts_with("fd96::")));
    Ok(())
}
