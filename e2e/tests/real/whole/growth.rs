//! A cluster begins with one control node and gets two more. What somebody else made in the config API stays as it is.

use kube::api::{Patch, PatchParams};
use serde_json::json;
use tf_testing::real::operator;

use super::foreign::Foreign;
use super::nodes::everybody;
use super::world::calm;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn one_control_node_becomes_three_with_all_that_was_stored_and_told() -> Result<()> {
    Long::Growth.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let nodes = lab.real_nodes()?.all()?;
    let addresses = lab.real_nodes()?.addresses()?;
    let first = &addresses[..1];
    let visitor = Visitor::of(client, NAMESPACE).await?;
    functional(&visitor, first).await?;
    let stored = visitor.create(first[0], "before").await?;
    let foreign = Foreign::make(client, first[0]).await?;
    // Topics are made of one broker, with one copy of each.
    alarm_generators_read_what_collectors_tell(client, first).await?;
    let (before, told_before) = (Daemons::of(lab, client).await?, everybody(client).await?);

    let begun = Instant::now();
    for node in &nodes[1..] {
        operator::label_control_plane(lab, node.name()).await?;
    }
    // Of what takes minutes to move nothing is moved that nobody asked for.
    for name in ["analyticsdb1", "configdb1"] {
        let is_told = |it: &Resource| it.is_ready() && it.explain("Ready").contains("state replicas to have more");
        resources::until(client, CASSANDRA, NAMESPACE, name, "told of nodes that it does not use", RECOVERY, is_told)
            .await?;
        let wish = Patch::Merge(json!({"spec": {"replicas": NODES}}));
        resources::api(client, CASSANDRA, NAMESPACE).patch_scale(name, &PatchParams::default(), &wish).await?;
    }
    nodes::registered(lab, client).await?;
    println!("three control nodes are registered after {:.0?}", begun.elapsed());
    calm(client).await?;
    println!("all is well after {:.0?}", begun.elapsed());

    // Who was told nothing of the others is the process that it was.
    let told_after = everybody(client).await?;
    let is_told = |it: &Daemon| told_before.get(&it.pod).is_some_and(|told| told_after.get(&it.pod) != Some(told));
    before.have_stayed_but(is_told, &["rabbitmq"])?;
    everything_is_well(client).await?;
    functional(&visitor, &addresses).await?;
    for address in &addresses {
        let (object, _) = visitor.read(*address, &stored).await?;
        ensure!(object["fq_name"][2] == "before", "{address}: {object}");
    }
    one_writes_and_all_read(&visitor, &addresses, "after").await?;
    alarm_generators_read_what_collectors_tell(client, &addresses).await?;
    foreign.are_as_they_were(client, &addresses).await
}
