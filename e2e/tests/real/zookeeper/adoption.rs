//! An ensemble that the Go tf-operator made changes hands: its pods are replaced one at a time, its servers go on.
//!
//! That operator itself cannot run here. What it leaves behind is made as its sources have it (`controller/zookeeper`,
//! `templates/zookeeper_config.go`): names, labels, owner, no headless Service, links to the files in its ConfigMap, members
//! listed by the names of their nodes, no restriction of who may do what. The probe asks for a connection, since the lab's image
//! has no `nc` for `ruok`.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Patch, PatchParams};
use tf_api::contract::MemberStatus;
use tf_testing::real::node::RealNode;
use zookeeper_client::EnsembleUpdate;

use super::journal::{Journal, connect};
use super::*;

/// Its StatefulSet.
const WORKLOAD: &str = "zookeeper1-zookeeper-statefulset";
/// Its ConfigMap.
const FILES: &str = "zookeeper1-zookeeper-configmap";
/// What its wrapper around a daemon comes to.
const WRAPPER: &str = "
for file in zoo.cfg zoo.cfg.dynamic.$POD_IP myid.$POD_IP; do
  until [ -e /etc/contrailconfigmaps/$file ]; do sleep 1; done
  ln -sf /etc/contrailconfigmaps/$file /var/lib/zookeeper/${file%.$POD_IP}
done
exec zkServer.sh start-foreground /var/lib/zookeeper/zoo.cfg";
/// Its static configuration.
const STATIC: &str = "dataDir=/var/lib/zookeeper
tickTime=2000
initLimit=5
syncLimit=2
maxClientCnxns=60
maxSessionTimeout=120000
admin.enableServer=true
admin.serverPort=2182
standaloneEnabled=false
4lw.commands.whitelist=stat,ruok,conf,isro,srvr
reconfigEnabled=true
skipACL=yes
dynamicConfigFile=/var/lib/zookeeper/zoo.cfg.dynamic
";

/// Says how many pods of the operator there shall be.
async fn scale(client: &Client, replicas: i32) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let name = deployments.list(&ListParams::default()).await?.items.pop().context("no Deployment")?.name_any();
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments.patch(&name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Labels of everything of it, by which it selects pods, too.
fn labels() -> serde_json::Value {
    json!({"tf_manager": "zookeeper", "zookeeper": NAME})
}

fn metadata(name: &str, owner: &str) -> serde_json::Value {
    json!({
        "name": name, "namespace": NAMESPACE, "labels": labels(),
        "ownerReferences": [{
            "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "name": NAME, "uid": owner,
            "controller": true, "blockOwnerDeletion": true,
        }],
    })
}

/// The disruption budget, made for the resource of this uid.
fn budget(uid: &str) -> serde_json::Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata("zookeeper1-zookeeper", uid),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels()}},
    })
}

/// The StatefulSet, made for the resource of this uid.
fn workload(uid: &str) -> serde_json::Value {
    let labels = labels();
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(WORKLOAD, uid),
        "spec": {
            "replicas": 3, "podManagementPolicy": "Parallel", "serviceName": "", "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet",
                    "priorityClassName": "system-node-critical",
                    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
                    "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists", "effect": "NoExecute"}],
                    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                        "labelSelector": {"matchExpressions": [{"key": "zookeeper", "operator": "In", "values": [NAME]}]},
                        "topologyKey": "kubernetes.io/hostname",
                    }]}},
                    "containers": [{
                        "name": "zookeeper", "image": "tungstenfabric/lab-zookeeper:3.9.4", "command": ["sh", "-c", WRAPPER],
                        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                        "securityContext": {"runAsUser": 0, "runAsGroup": 0},
                        "readinessProbe": {"tcpSocket": {"port": CLIENT_PORT}, "periodSeconds": 3},
                        "volumeMounts": [
                            {"name": "files", "mountPath": "/etc/contrailconfigmaps"},
                            {"name": "zookeeper-data", "mountPath": "/var/lib/zookeeper"},
                        ],
                    }],
                    "volumes": [
                        {"name": "files", "configMap": {"name": FILES}},
                        {"name": "zookeeper-data", "hostPath": {"path": "/var/lib/contrail/zookeeper"}},
                    ],
                },
            },
        },
    })
}

/// The ConfigMap: the identity of each server is its pod's ordinal and one.
fn files(members: &[MemberStatus]) -> serde_json::Value {
    let servers: Vec<String> = members.iter().map(|it| format!("server.{}={}\n", it.id, server(&it.node))).collect();
    let servers = servers.concat();
    let mut data = BTreeMap::from([("zoo.cfg".to_owned(), STATIC.to_owned())]);
    for member in members {
        data.insert(format!("zoo.cfg.dynamic.{}", member.address), servers.clone());
        data.insert(format!("myid.{}", member.address), member.id.to_string());
    }
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": FILES, "namespace": NAMESPACE}, "data": data})
}

fn server(node: &str) -> String {
    format!("{node}:2888:3888:participant;{node}:{CLIENT_PORT}")
}

/// Servers by the ordinals of pods, when each has a node.
async fn placed(client: &Client, nodes: &[&RealNode]) -> Result<Vec<MemberStatus>> {
    eventually("every pod to have a node", BRING_UP, async || {
        let mut members = Vec::new();
        for (name, pod) in pods(client).await? {
            let Some(name_of_node) = pod.spec.and_then(|spec| spec.node_name) else { return Ok(None) };
            let node = nodes.iter().find(|node| node.name() == name_of_node).context("another node")?;
            let ordinal: u32 = name.rsplit_once('-').context("no ordinal")?.1.parse()?;
            members.push(MemberStatus { id: ordinal + 1, node: name_of_node, address: node.address().to_string() });
        }
        Ok((members.len() == 3).then_some(members))
    })
    .await
}

/// The list of members by which a server goes.
async fn listed(address: Ipv4Addr) -> Result<String> {
    let answer = ask(address, "conf").await?;
    Ok(answer.split_once("membership:").with_context(|| format!("{address} answered {answer:?}"))?.1.trim().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_of_the_go_tf_operator_is_taken_over_one_pod_at_a_time_under_a_writer() -> Result<()> {
    if !Long::Adoption.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        scale(client, 0).await?;
        let nodes = lab.real_nodes()?;
        let (all, addresses) = (nodes.all()?, nodes.addresses()?);
        let hosts: Vec<String> = all.iter().map(|node| format!("{} {}", node.address(), node.name())).collect();
        for node in &all {
            node.run("sh", &["-c", &format!("echo '{}' >>/etc/hosts", hosts.join("\n"))]).await?;
        }
        let resource = resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        let uid = resource.uid().context("no uid")?;
        for object in [workload(&uid), budget(&uid)] {
            lab.apply(&object.to_string()).await?;
        }
        let members = placed(client, &all.iter().collect::<Vec<_>>()).await?;
        lab.apply(&files(&members).to_string()).await?;
        eventually("its ensemble to serve", BRING_UP, async || {
            Ok(modes(&addresses).await.ok().filter(|modes| modes == &["follower", "follower", "leader"]))
        })
        .await?;
        // As it does for a pod that it takes for a new one. From then on the list has a version.
        let entry = format!("server.{}={}", members[1].id, server(&members[1].node));
        let joins =
            EnsembleUpdate::Incremental { joinings: Some(entry.as_str()).into_iter(), leavings: None.into_iter() };
        connect(&addresses).await?.update_ensemble(joins, None).await?;
        let by_name = listed(addresses[0]).await?;
        ensure!(all.iter().all(|node| by_name.contains(&format!("={}:2888", node.name()))), "{by_name}");

        let journal = Journal::begin(&addresses).await?;
        let before = pods(client).await?;
        scale(client, 1).await?;
        certified(client).await?;
        let is_by_address = async || {
            let mut lists = Vec::new();
            for address in &addresses {
                lists.push(listed(*address).await?);
            }
            let known =
                |list: &String| members.iter().all(|it| list.contains(&format!("server.{}={}:", it.id, it.address)));
            Ok((lists.iter().all(known) && lists.windows(2).all(|pair| pair[0] == pair[1])).then_some(()))
        };
        eventually("every server to list the others by address", BRING_UP, is_by_address).await?;
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, BRING_UP).await?;

        let after = pods(client).await?;
        ensure!(after.keys().eq(before.keys()), "{:?}", after.keys());
        for (name, pod) in &after {
            ensure!(pod.uid() != before[name].uid(), "{name} is the former pod");
            ensure!(
                pod.spec.as_ref().map(|it| &it.node_name) == before[name].spec.as_ref().map(|it| &it.node_name),
                "{name} moved"
            );
        }
        let resource = resources::get(client, ZOOKEEPER, NAMESPACE, NAME).await?.context("no resource")?;
        let recorded = &resource.object.data["status"]["members"];
        ensure!(*recorded == json!(members), "{recorded:#}");
        let workloads: Api<StatefulSet> = Api::namespaced(client.clone(), NAMESPACE);
        let spec = workloads.get(WORKLOAD).await?.spec.context("no spec")?;
        let containers = spec.template.spec.context("no spec")?.containers;
        ensure!(
            containers.iter().all(|it| it.volume_mounts.iter().flatten().all(|it| it.name != "zookeeper-data")),
            "{containers:?}"
        );
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), NAMESPACE);
        let budgets = budgets.list(&ListParams::default()).await?.items;
        ensure!(budgets.len() == 1 && budgets[0].name_any() == "zookeeper1-zookeeper", "{budgets:?}");

        let account = journal.end(&addresses).await?;
        ensure!(account.lost_sessions == 0, "{:?}", account.longest_pause);
        println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);
        Ok(())
    })
    .await
}
