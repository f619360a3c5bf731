//! What the operators tell the config API.

use super::*;

/// Control nodes are in the API by the names of their nodes, whichever member is asked; one that leaves is taken out, is in it again when it
/// comes back, and a router that somebody else made is there throughout.
pub async fn follows_control_nodes(
    lab: &Lab,
    client: &Client,
    visitor: &Visitor,
    addresses: &[Ipv4Addr],
) -> Result<()> {
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
    lab.apply(&whole::manifest_of_control_nodes(2)?).await?;
    registered("one less", nodes.len() - 1, 1).await?;
    lab.apply(&whole::manifest()?).await?;
    registered("all of them again", nodes.len(), 1).await?;
    let is_ready = |it: &Resource| it.is_ready() && it.is("Provisioned", "True") && it.is("Progressing", "False");
    resources::until(client, CONTROL, NAMESPACE, CONTROL_NODES, "ready again", RECOVERY, is_ready).await.map(drop)
}
