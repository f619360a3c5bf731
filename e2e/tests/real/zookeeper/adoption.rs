//! An ensemble that the Go tf-operator made changes hands: its pods are replaced one at a time, its servers go on.
//!
//! Besides what [`crate::former`] has: links to the files in its ConfigMap, members
//! listed by the names of their nodes, no restriction of who may do what (`controller/zookeeper`, `templates/zookeeper_config.go`). The probe asks for a connection,
//! since the lab's image has no `nc` for `ruok`.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use tf_api::contract::MemberStatus;
use zookeeper_client::EnsembleUpdate;

use super::journal::{Journal, connect};
use super::*;
use crate::former::{self, Former};

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

/// The disruption budget.
fn budget(former: &Former<'_>) -> serde_json::Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": former.metadata("zookeeper1-zookeeper"),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": former.labels()}},
    })
}

/// The StatefulSet.
fn workload(former: &Former<'_>) -> serde_json::Value {
    let container = json!({
        "name": "zookeeper", "image": "tungstenfabric/lab-zookeeper:3.9.4", "command": ["sh", "-c", WRAPPER],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "securityContext": {"runAsUser": 0, "runAsGroup": 0},
        "readinessProbe": {"tcpSocket": {"port": CLIENT_PORT}, "periodSeconds": 3},
        "volumeMounts": [
            {"name": "files", "mountPath": "/etc/contrailconfigmaps"},
            {"name": "zookeeper-data", "mountPath": "/var/lib/zookeeper"},
        ],
    });
    let volumes = json!([
        {"name": "files", "configMap": {"name": former.files_name()}},
        {"name": "zookeeper-data", "hostPath": {"path": "/var/lib/contrail/zookeeper"}},
    ]);
    former.workload(&container, &volumes)
}

/// Files: the identity of each server is its pod's ordinal and one.
fn files(members: &[MemberStatus]) -> serde_json::Value {
    let servers: Vec<String> = members.iter().map(|it| format!("server.{}={}\n", it.id, server(&it.node))).collect();
    let servers = servers.concat();
    let mut data = BTreeMap::from([("zoo.cfg".to_owned(), STATIC.to_owned())]);
    for member in members {
        data.insert(format!("zoo.cfg.dynamic.{}", member.address), servers.clone());
        data.insert(format!("myid.{}", member.address), member.id.to_string());
    }
    json!(data)
}

fn server(node: &str) -> String {
    format!("{node}:2888:3888:participant;{node}:{CLIENT_PORT}")
}

/// The list of members by which a server goes.
async fn listed(address: IpAddr) -> Result<String> {
    let answer = ask(address, "conf").await?;
    Ok(answer.split_once("membership:").with_context(|| format!("{address} answered {answer:?}"))?.1.trim().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_of_the_go_tf_operator_is_taken_over_one_pod_at_a_time_under_a_writer() -> Result<()> {
    if !Long::Adoption.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        former::scale(client, 0).await?;
        let nodes = lab.real_nodes()?;
        let (all, addresses) = (nodes.all()?, nodes.addresses()?);
        former::find_each_other(&all, str::to_owned).await?;
        let resource = resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
        let uid = resource.uid().context("no uid")?;
        let former = Former { store: &STORE, uid: &uid };
        for object in [workload(&former), budget(&former)] {
            lab.apply(&object.to_string()).await?;
        }
        let members = former.placed(client, &all).await?;
        lab.apply(&former.files(&files(&members)).to_string()).await?;
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
        former::scale(client, 1).await?;
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

        former::are_replaced(&STORE, client, &before).await?;
        let resource = resources::get(client, ZOOKEEPER, NAMESPACE, NAME).await?.context("no resource")?;
        let recorded = &resource.object.data["status"]["members"];
        ensure!(*recorded == json!(members), "{recorded:#}");
        let workloads: Api<StatefulSet> = Api::namespaced(client.clone(), NAMESPACE);
        let spec = workloads.get(&former.workload_name()).await?.spec.context("no spec")?;
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
