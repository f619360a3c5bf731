//! What the operators tell the config API, and the vRouter's agents of the same nodes.

use super::*;
use crate::store::{Server, processes};

/// The process of an agent of the vRouter.
const AGENT: &str = "contrail-vrouter-agent";

/// Control nodes are in the API by the names of their nodes, whichever member is asked; one that leaves is taken out, is in it again when it
/// comes back, and a router that somebody else made is there throughout. Agents of the vRouter read the list again each time and run on.
pub async fn follows_control_nodes(lab: &Lab, client: &Client, visitor: &Visitor, addresses: &[IpAddr]) -> Result<()> {
    const FOREIGN: &str = "gateway";
    let nodes: Vec<String> = lab.real_nodes()?.all()?.iter().map(|node| node.name().to_owned()).collect();
    let registered = async |what: &str, count: usize, foreign: usize| {
        let begun = std::time::Instant::now();
        eventually(what, RECOVERY, async || {
            for address in addresses {
                let names = visitor.names(*address, "bgp-routers").await?;
                let ours = names.iter().filter(|name| nodes.contains(name)).count();
                if ours != count || names.len() != count + foreign {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await?;
        println!("{what}: {:.1?}", begun.elapsed());
        anyhow::Ok(())
    };
    registered("control nodes in the API", nodes.len(), 0).await?;
    visitor.make_router(addresses[1], FOREIGN).await?;
    let agents = processes(lab, Server::named(AGENT))?;
    let heard = read_again(client).await?;
    lab.apply(&whole::manifest_of_control_nodes(2)?).await?;
    registered("one less", nodes.len() - 1, 1).await?;
    agents_read_again(client, heard + nodes.len()).await?;
    lab.apply(&whole::manifest()?).await?;
    registered("all of them again", nodes.len(), 1).await?;
    agents_read_again(client, heard + 2 * nodes.len()).await?;
    let is_ready = |it: &Resource| it.is_ready() && it.is("Provisioned", "True") && it.is("Progressing", "False");
    resources::until(client, CONTROL, NAMESPACE, CONTROL_NODES, "ready again", RECOVERY, is_ready).await?;
    let now = processes(lab, Server::named(AGENT))?;
    ensure!(now == agents, "agents were started anew: {agents:?} and {now:?}");
    Ok(())
}

/// How often agents read lists of servers again, all of them together.
async fn read_again(client: &Client) -> Result<usize> {
    let said = logs(client, VROUTER, "vrouteragent").await?;
    Ok(said.matches("Received SIGHUP, lists of servers are read again").count())
}

async fn agents_read_again(client: &Client, times: usize) -> Result<()> {
    let what = format!("agents to read lists again, {times} times in all");
    eventually(&what, RECOVERY, async || Ok((read_again(client).await? >= times).then_some(()))).await
}
