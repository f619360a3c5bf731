//! A control node is lost for good, with all that ran there, and another one takes its place.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use tf_testing::real::operator;

use super::traffic::Traffic;
use super::world::{World, calm};
use super::*;

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

/// How long clients of ZooKeeper may look for a server that is silent, two fifths of their session of two minutes, and some more for those who
/// look for them.
const DISTURBED: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
async fn a_control_node_that_is_lost_is_replaced_by_another_one_and_those_that_stay_serve_on() -> Result<()> {
    Long::Nodes.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    let nodes = lab.real_nodes()?;
    let lost = nodes.all()?.pop().context("no node")?;
    let stay: Vec<Ipv4Addr> = world.addresses.iter().copied().filter(|address| *address != lost.address()).collect();
    let before = restarts(client).await?;

    let traffic = Traffic::begin(client, &stay, "lost");
    let replaced = replace(lab, client, lost.name()).await;
    let told = traffic.end_with("lost", DISTURBED).await;
    replaced.with_context(|| format!("{told:?}"))?;
    told?;

    // What ran where nothing was lost runs on, in the pods and containers it had.
    let after = restarts(client).await?;
    let others: Vec<_> = before.iter().filter(|(container, _)| after.contains_key(*container)).collect();
    ensure!(others.len() * 3 > before.len(), "only {} of {} containers are left", others.len(), before.len());
    let again: Vec<_> = others.iter().filter(|(container, count)| after.get(*container) != Some(*count)).collect();
    ensure!(again.is_empty(), "started again: {again:?}");
    World::of(lab, client).await.map(drop)
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

/// Waits until the config API knows the nodes there are and no others.
async fn registered(lab: &Lab, client: &Client) -> Result<()> {
    let nodes = lab.real_nodes()?.all()?;
    let wanted: BTreeSet<String> = nodes.iter().map(|node| node.name().to_owned()).collect();
    let mut last = BTreeMap::new();
    eventually("the API to know the nodes", BRING_UP, async || {
        let visitor = Visitor::of(client, NAMESPACE).await?;
        for kind in REGISTERED {
            let names = visitor.names(nodes[0].address(), kind).await;
            last.insert(kind, names.unwrap_or_default().into_iter().collect::<BTreeSet<_>>());
        }
        Ok(last.values().all(|names| *names == wanted).then_some(()))
    })
    .await
    .with_context(|| format!("{last:#?}"))
}
