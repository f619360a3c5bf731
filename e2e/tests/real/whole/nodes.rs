//! A control node is lost for good, with all that ran there, and another one takes its place; or it is lost for a while, and changes of the others go on.
//! What somebody else made in the config API stays as it is.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tf_api::names::ANNOTATION_RESTART;

use super::foreign::{self, Foreign};
use super::images::SERVICES;
use super::traffic::Traffic;
use super::world::{World, calm};
use super::*;
use crate::store::{Running, running};

/// What the config API has an object of for each node.
const REGISTERED: [&str; 8] = [
    "analytics-alarm-nodes",
    "analytics-nodes",
    "analytics-snmp-nodes",
    "bgp-routers",
    "config-database-nodes",
    "config-nodes",
    "database-nodes",
    "virtual-routers",
];

/// How long clients of ZooKeeper may look for a server that is silent, which kazoo makes of the session it asked for, and some more for those that
/// use them.
const DISTURBED: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
async fn a_control_node_that_is_lost_is_replaced_by_another_one_and_those_that_stay_serve_on() -> Result<()> {
    Long::Nodes.run(story).await
}

pub async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    let nodes = lab.real_nodes()?;
    let lost = nodes.all()?.pop().context("no node")?;
    let stay: Vec<IpAddr> = world.addresses.iter().copied().filter(|address| *address != lost.address()).collect();
    let foreign = Foreign::make(client, stay[0]).await?;
    let (before, told_before) = (Daemons::of(lab, client).await?, everybody(client).await?);

    let traffic = Traffic::begin(client, &stay, "lost");
    let replaced = replace(lab, client, lost.name()).await;
    let told = traffic.end_with("lost", DISTURBED).await;
    replaced.with_context(|| format!("{told:?}"))?;
    told?;

    // What ran where nothing was lost runs on, in the pods that it had; those that were told another configuration, with the new node in it, may be other
    // processes there.
    let told_after = everybody(client).await?;
    let moved: Vec<_> =
        told_before.iter().filter(|(pod, (uid, _))| told_after.get(*pod).is_none_or(|it| it.0 != *uid)).collect();
    let other: Vec<_> = moved.iter().map(|it| it.0).filter(|pod| !before.is_on(pod, lost.name())).collect();
    ensure!(other.is_empty(), "pods that were not on {} were made anew: {other:?}", lost.name());
    let is_told = |it: &Daemon| told_before.get(&it.pod).is_some_and(|told| told_after.get(&it.pod) != Some(told));
    before.have_stayed_but(|it| it.node == lost.name() || is_told(it), &["rabbitmq"])?;
    // The broker that is new has the number of the one that is gone, and gets its copies.
    let world = World::of(lab, client).await?;
    alarm_generators_read_what_collectors_tell(client, &world.addresses).await?;
    foreign.are_as_they_were(client, &world.addresses).await
}

/// What the pods of all services run with.
pub async fn everybody(client: &Client) -> Result<Running> {
    let mut all = Running::new();
    for (_, kind) in SERVICES {
        all.extend(running(client, kind).await?);
    }
    Ok(all)
}

/// Cuts a node's power for good, adds another one and deletes what the cluster knows of the former.
async fn replace(lab: &Lab, client: &Client, lost: &str) -> Result<()> {
    let begun = Instant::now();
    let nodes = lab.real_nodes()?;
    let new = nodes.replace(lost).await?;
    nodes.load(&image::archives(whole::archives())?.context("no images")?).await?;
    new.stand_in_for_vhost0().await?;
    operator::label_control_plane(lab, new.name()).await?;
    Api::<Node>::all(client.clone()).delete(lost, &DeleteParams::default()).await?;
    println!("{} is there after {:.0?}", new.name(), begun.elapsed());
    registered(lab, client).await?;
    println!("it is registered and {lost} is not, after {:.0?}", begun.elapsed());
    calm(client).await?;
    println!("all is well after {:.0?}", begun.elapsed());
    Ok(())
}

/// Waits until the config API knows the nodes there are and no others, but for what somebody else made.
pub async fn registered(lab: &Lab, client: &Client) -> Result<()> {
    let nodes = lab.real_nodes()?.all()?;
    let wanted: BTreeSet<String> = nodes.iter().map(|node| node.name().to_owned()).collect();
    let mut last = BTreeMap::new();
    eventually("the API to know the nodes", BRING_UP, async || {
        let visitor = Visitor::of(client, NAMESPACE).await?;
        for kind in REGISTERED {
            let names = visitor.names(nodes[0].address(), kind).await;
            let names = names.unwrap_or_default().into_iter().filter(|name| name != foreign::NAME);
            last.insert(kind, names.collect::<BTreeSet<_>>());
        }
        Ok(last.values().all(|names| *names == wanted).then_some(()))
    })
    .await
    .with_context(|| format!("{last:#?}"))
}

/// Who is made anew meanwhile.
const CHANGED: [(KindInfo, &str); 5] =
    [(CONFIG_KIND, CONFIG.name), (CONTROL, CONTROL_NODES), (KUBEMANAGER, LINK), (WEBUI, WEB), (VROUTER, AGENTS)];

/// Those of whom somebody deletes the pod of the lost node by force, as people do who want it elsewhere: it is made anew, and waits.
const ABANDONED: [KindInfo; 3] = [CONTROL, WEBUI, VROUTER];

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_node_holds_no_change_of_the_others_and_takes_it_when_it_is_back() -> Result<()> {
    Long::Lost.run(lost_for_a_while).await
}

pub async fn lost_for_a_while(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    let nodes = lab.real_nodes()?;
    let lost = nodes.all()?.pop().context("no node")?;
    let foreign = Foreign::make(client, world.addresses[0]).await?;
    let daemons = Daemons::of(lab, client).await?;
    let mut before = Vec::new();
    for (kind, _) in CHANGED {
        before.push(uids(client, kind).await?);
    }
    nodes.stop(lost.name()).await?;
    eventually("the node to be given up", RECOVERY, async || {
        let node = Api::<Node>::all(client.clone()).get(lost.name()).await?;
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        Ok(conditions.iter().any(|it| it.type_ == "Ready" && it.status == "Unknown").then_some(()))
    })
    .await?;
    for kind in ABANDONED {
        abandoned(client, kind, lost.name()).await?;
    }

    let begun = Instant::now();
    let wish = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION_RESTART: "now"}}}));
    for (kind, name) in CHANGED {
        resources::api(client, kind, NAMESPACE).patch(name, &PatchParams::default(), &wish).await?;
    }
    for ((kind, name), before) in CHANGED.iter().zip(&before) {
        let what = format!("the others of {} {name} to be made anew", kind.kind);
        eventually(&what, BRING_UP, async || {
            let now = uids(client, *kind).await?;
            let is_changed = |(node, uid): (&String, &Uid)| before.get(node).map(|it| &it.0) != Some(&uid.0) && uid.1;
            let (there, gone): (Vec<_>, Vec<_>) = now.iter().partition(|(node, _)| *node != lost.name());
            let is_kept = ABANDONED.contains(kind)
                || gone.iter().all(|(node, uid)| before.get(*node).map(|it| &it.0) == Some(&uid.0));
            ensure!(is_kept, "what nobody can reach was touched: {gone:?}");
            Ok((there.len() == 2 && there.into_iter().all(is_changed)).then_some(()))
        })
        .await?;
        println!("{} {name}: changed without {} after {:.0?}", kind.kind, lost.name(), begun.elapsed());
    }

    // Nobody else was started anew for it.
    let is_changed = |it: &Daemon| CHANGED.iter().any(|(_, name)| it.pod.starts_with(&format!("{name}-")));
    daemons.have_stayed_but(|it| it.node == lost.name() || is_changed(it), &["rabbitmq"])?;
    nodes.start(lost.name()).await?;
    lost.stand_in_for_vhost0().await?;
    for ((kind, name), before) in CHANGED.iter().zip(&before) {
        let what = format!("every pod of {} {name} to be made anew", kind.kind);
        eventually(&what, BRING_UP, async || {
            let now = uids(client, *kind).await?;
            let is_changed = |(node, uid): (&String, &Uid)| before.get(node).map(|it| &it.0) != Some(&uid.0);
            Ok((now.len() == before.len() && now.iter().all(is_changed)).then_some(()))
        })
        .await?;
    }
    calm(client).await?;
    println!("all is well {:.0?} after the change was asked for", begun.elapsed());
    world.is_functional().await?;
    foreign.are_as_they_were(client, &world.addresses).await
}

/// Deletes the pods of a kind on a lost node by force, and waits until one is there in the place of each, which cannot begin.
async fn abandoned(client: &Client, kind: KindInfo, node: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let is_there = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
    let all = resources::pods(client, kind, NAMESPACE).await?;
    let (gone, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_there);
    ensure!(!gone.is_empty(), "{} has no pod on {node}", kind.kind);
    for pod in &gone {
        pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
    }
    let known: BTreeSet<_> = gone.iter().chain(&others).map(Pod::uid).collect();
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    eventually(&format!("a pod of {} that waits", kind.kind), RECOVERY, async || {
        let all = resources::pods(client, kind, NAMESPACE).await?;
        let new = all.iter().filter(|pod| !known.contains(&pod.uid()));
        let waiting = new.filter(|pod| phase(pod).as_deref() == Some("Pending")).count();
        Ok((waiting == gone.len()).then_some(()))
    })
    .await
}

/// Of a pod its uid, and whether it is Ready.
type Uid = (String, bool);

/// Pods of a kind, by their nodes. One that has none yet is not among them.
async fn uids(client: &Client, kind: KindInfo) -> Result<BTreeMap<String, Uid>> {
    let pods = resources::pods(client, kind, NAMESPACE).await?;
    let of = |pod: Pod| Some((pod.spec.as_ref()?.node_name.clone()?, (pod.uid()?, resources::is_pod_ready(&pod))));
    Ok(pods.into_iter().filter_map(of).collect())
}
