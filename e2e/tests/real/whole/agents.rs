//! The agents of the vRouter, without its kernel module.

use super::*;

/// The vRouter's agents: control nodes know each by its virtual-router, a changed configuration reaches them in the pods they are in, one that keeps
/// the first node from serving does not reach the second, and one that is killed is told of with its node.
pub async fn change_one_node_at_a_time(
    lab: &Lab,
    client: &Client,
    visitor: &Visitor,
    addresses: &[IpAddr],
) -> Result<()> {
    let uids = async || -> Result<Vec<_>> {
        Ok(resources::pods(client, VROUTER, NAMESPACE).await?.iter().map(Pod::uid).collect())
    };
    let say = async |what: &str, is_said: &dyn Fn(&NodeStatus) -> bool, nodes: usize| {
        let mut last = BTreeMap::new();
        let said = eventually(what, RECOVERY, async || {
            last = visitor.agents(addresses).await?;
            let saying = last.values().filter(|status| is_said(status)).count();
            Ok((last.len() == addresses.len() && saying == nodes).then_some(()))
        });
        said.await.with_context(|| format!("{last:#?}"))
    };
    let nodes = addresses.len();
    say("agents to be Functional", &NodeStatus::is_functional, nodes).await?;
    for (kind, each) in [("virtual-routers", nodes), ("virtual-machine-interfaces", nodes)] {
        let names = visitor.names(addresses[0], kind).await?;
        ensure!(names.len() == each, "{kind}: {names:?}");
    }
    let before = uids().await?;
    ensure!(before.len() == nodes, "{before:?}");

    let begun = std::time::Instant::now();
    let collector = addresses.last().context("no node")?;
    let server = format!("{collector}:8086");
    let is_changed = |status: &NodeStatus| {
        status.is_functional() && status.connections.get("Collector").is_some_and(|(_, with)| *with == server)
    };
    let changed = visitor.agents(addresses).await?.values().filter(|status| is_changed(status)).count();
    ensure!(changed < nodes, "agents are with {server} already");
    lab.apply(&whole::manifest_with(&format!("ANALYTICS_NODES: {collector}"))?).await?;
    say("agents to be with the one collector that is named", &is_changed, nodes).await?;
    settled(client).await?;
    println!("a changed configuration: in use on {nodes} nodes after {:.1?}", begun.elapsed());

    lab.apply(&whole::manifest_with("CONTROL_NODES: 192.0.2.1")?).await?;
    let cause = "connection down";
    let is_told = |vrouter: &Resource| {
        let told = vrouter.condition("WorkloadReady");
        told.is_some_and(|told| {
            told.status == "False" && told.message.contains(cause) && told.message.contains("node ")
        })
    };
    resources::until(client, VROUTER, NAMESPACE, AGENTS, "held back", RECOVERY, is_told).await?;
    tokio::time::sleep(quiet::SETTLED).await;
    let is_lost = |status: &NodeStatus| status.description.contains("XMPP:control-node:192.0.2.1");
    say("one node alone to have what does not work", &is_lost, 1).await?;

    lab.apply(&whole::manifest()?).await?;
    say("agents to be Functional again", &NodeStatus::is_functional, nodes).await?;
    settled(client).await?;

    let node = lab.real_nodes()?.all()?.swap_remove(0);
    let mut killed = 0;
    let is_told = format!("node {}: ", node.name());
    eventually("a killed agent to be told of", RECOVERY, async || {
        // One that is back before anybody asks is not missed.
        killed += usize::from(node.kill("contrail-vroute").is_ok());
        let found = resources::all(client, NAMESPACE).await?;
        let told = found.iter().filter(|it| it.kind == VROUTER).filter_map(|it| it.condition("WorkloadReady"));
        Ok(told.into_iter().any(|told| told.status == "False" && told.message.contains(&is_told)).then_some(()))
    })
    .await?;
    let begun = std::time::Instant::now();
    settled(client).await?;
    println!("an agent that was killed {killed} times: told of, and back {:.1?} later", begun.elapsed());
    ensure!(uids().await? == before, "pods were replaced");
    Ok(())
}

/// Every agent serves, and with what is wanted.
async fn settled(client: &Client) -> Result<()> {
    let is_settled = |it: &Resource| it.is_ready() && it.is("Progressing", "False");
    resources::until(client, VROUTER, NAMESPACE, AGENTS, "settled", RECOVERY, is_settled).await.map(drop)
}
