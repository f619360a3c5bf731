//! Clusters side by side: in namespaces of their own, under one set of operators, in one namespace; and what is left of one
//! that is deleted.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Node, Secret},
};
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::json;
use tf_api::{kinds, names::LABEL_VROUTER};
use tf_plan::object;
use tf_testing::{
    Cluster, Entry,
    cluster::NODE_LABEL,
    operators::{self, Install, Run},
    resources::{self, Resource},
    sample::has_turn,
    wait::eventually,
};

use crate::{
    credentials::{Name, generated},
    support::{EXAMPLE, FLEET, delete, explain, label, lines, settled, uids, writes},
};

/// Kind and name of everything in the namespace of a cluster, Events apart: they expire.
async fn inventory(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let all = tf_testing::resources::everything_in(&cluster.client, &cluster.namespace).await?;
    Ok(all.iter().map(label).filter(|label| !label.starts_with("Event ")).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_in_two_namespaces_do_not_meet_and_a_deleted_one_leaves_nothing() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let lab = FLEET.get().await?;
    let begin = lab.audit_mark().await?;
    let (east, west) = (Cluster::start(&lab, "two-east").await?, Cluster::start(&lab, "two-west").await?);
    east.nodes(1, 1).await?;
    west.nodes(1, 1).await?;
    let before = inventory(&east).await?;
    east.example().await?;
    west.example().await?;
    east.manager_ready("sdn").await?;
    west.manager_ready("sdn").await?;
    settled(&east, Duration::from_secs(1)).await?;
    settled(&west, Duration::from_secs(1)).await?;
    let during = inventory(&east).await?;
    ensure!(during.len() > before.len() + 30, "a cluster has more than {:?}", during.difference(&before));
    let pods = uids(&west.client, object::POD, "two-west").await?;

    delete(&east, kinds::MANAGER, "sdn").await?;
    let mut left = BTreeSet::new();
    let empty = eventually("two-east to be as before", Duration::from_mins(1), async || {
        left = inventory(&east).await?.difference(&before).cloned().collect();
        Ok(left.is_empty().then_some(()))
    });
    empty.await.with_context(|| format!("there are still {left:?}"))?;
    settled(&east, Duration::from_secs(1)).await?;

    // Its own nodes are as before, too: marked once, and unmarked.
    for node in Api::<Node>::all(east.client.clone()).list(&ListParams::default()).await? {
        let is_marked = node.labels().contains_key(LABEL_VROUTER);
        let name = node.name_any();
        ensure!(!(is_marked && name.starts_with(&east.namespace)), "{name} is marked");
    }
    ensure!(west.manager_ready("sdn").await?.is_ready());
    ensure!(uids(&west.client, object::POD, "two-west").await? == pods, "pods of the other cluster were replaced");
    let entries = lab.audit().window(begin, lab.audit_mark().await?)?;
    for (own, other) in [(&east, "two-west"), (&west, "two-east")] {
        let users = own.users();
        let strays: Vec<&Entry> =
            entries.iter().filter(|entry| users.contains(&entry.user.as_str()) && entry.namespace == other).collect();
        ensure!(strays.is_empty(), "operators of {} asked about {other}:\n{}", own.namespace, lines(strays));
        let is_own_node = |entry: &Entry| entry.resource == "nodes" && entry.name.starts_with(&own.namespace);
        let is_outside = |entry: &Entry| entry.namespace != own.namespace && !is_own_node(entry);
        let outside: Vec<Entry> = writes(entries.clone(), &users).into_iter().filter(is_outside).collect();
        ensure!(outside.is_empty(), "what is outside of the namespace stays behind:\n{}", lines(&outside));
    }
    a_rival_is_refused(&west).await?;
    a_neighbour_is_not(&west).await
}

/// A second Manager in the namespace that lists the same components is told so, and changes nothing.
async fn a_rival_is_refused(cluster: &Cluster) -> Result<()> {
    let before = resources::all(&cluster.client, &cluster.namespace).await?;
    let mut rival = cluster.example_manager()?;
    rival["metadata"]["name"] = json!("rival");
    rival["spec"]["commonConfiguration"]["logLevel"] = json!("debug");
    cluster.apply_object(&rival).await?;
    let refused = |manager: &Resource| manager.condition("Ready").is_some_and(|ready| ready.reason == "ObjectNotOwned");
    let manager = cluster.until(kinds::MANAGER, "rival", "refused", refused).await?;
    ensure!(
        manager.explain("Ready").contains("Manager sdn"),
        "it does not say whose they are: {}",
        manager.explain("Ready")
    );
    settled(cluster, Duration::from_secs(1)).await?;
    for was in before {
        let is = cluster.get(was.kind, &was.name).await?;
        ensure!(
            is.generation == was.generation && is.object.metadata.uid == was.object.metadata.uid,
            "{} was changed",
            was.name
        );
        ensure!(is.is_ready(), "{} {}: {}", is.kind.kind, is.name, is.explain("Ready"));
    }
    delete(cluster, kinds::MANAGER, "rival").await?;
    settled(cluster, Duration::from_secs(1)).await?;
    let all = resources::all(&cluster.client, &cluster.namespace).await?;
    ensure!(
        all.len() == EXAMPLE && all.iter().all(Resource::is_ready),
        "the rival took something with it:\n{}",
        explain(&all)
    );
    Ok(())
}

/// A second Manager in the namespace with names and nodes of its own is as good as the first.
async fn a_neighbour_is_not(cluster: &Cluster) -> Result<()> {
    cluster
        .apply_object(&json!({
            "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Manager",
            "metadata": { "name": "neighbour", "namespace": cluster.namespace },
            "spec": {
                "commonConfiguration": { "nodeSelector": { NODE_LABEL: "two-east" } },
                "services": {
                    "cassandras": [{ "metadata": { "name": "configdb2" } }],
                    "zookeeper": { "metadata": { "name": "zookeeper2" } },
                    "rabbitmq": { "metadata": { "name": "rabbitmq2" } },
                    "config": { "metadata": { "name": "config2" }, "spec": { "dependencies": {
                        "cassandra": { "ref": { "name": "configdb2" } },
                        "zookeeper": { "ref": { "name": "zookeeper2" } },
                        "rabbitmq": { "ref": { "name": "rabbitmq2" } },
                    } } },
                },
            },
        }))
        .await?;
    cluster.manager_ready("neighbour").await?;
    settled(cluster, Duration::from_secs(1)).await?;
    let all = resources::all(&cluster.client, &cluster.namespace).await?;
    ensure!(all.len() == EXAMPLE + 5 && all.iter().all(Resource::is_ready), "{}", explain(&all));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_set_of_operators_serves_two_namespaces() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let lab = FLEET.get().await?;
    let north = Cluster::empty(&lab, "two-north").await?;
    let south = Cluster::empty(&lab, "two-south").await?;
    let mut shared = Cluster::empty(&lab, "two-shared").await?;
    tf_testing::cluster::define_all(&lab).await?;
    let watch = ["watch.scope=namespaces", "watch.namespaces={two-north,two-south}"];
    let install = Install { values: watch.map(str::to_owned).to_vec(), ..Install::default() };
    shared.add(&operators::ALL, &install, &Run::default()).await?;
    for cluster in [&north, &south] {
        cluster.nodes(1, 0).await?;
        cluster.example().await?;
    }
    for cluster in [&north, &south] {
        cluster.manager_ready("sdn").await?;
        let all = resources::all(&cluster.client, &cluster.namespace).await?;
        ensure!(all.len() == EXAMPLE && all.iter().all(Resource::is_ready), "{}", explain(&all));
    }
    // What is generated is generated for each: nothing of one lets anybody into the other.
    let (of_north, of_south) = (credentials(&north).await?, credentials(&south).await?);
    ensure!(of_north.len() >= 8 && of_north.keys().eq(of_south.keys()), "another set: {:?}", of_north.keys());
    let alike: Vec<&Name> = of_north.iter().filter(|(name, value)| of_south[*name] == **value).map(|c| c.0).collect();
    ensure!(alike.is_empty(), "two clusters share {alike:?}");
    Ok(())
}

/// What the components of a cluster generated.
async fn credentials(cluster: &Cluster) -> Result<BTreeMap<Name, ByteString>> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut found = BTreeMap::new();
    for name in generated(&resources::all(&cluster.client, &cluster.namespace).await?)? {
        let data = secrets.get(&name.0).await?.data.unwrap_or_default();
        let value = data.get(&name.1).with_context(|| format!("Secret {} has no {}", name.0, name.1))?;
        found.insert(name, value.clone());
    }
    Ok(found)
}
