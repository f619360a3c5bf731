//! An SDN without analytics whose services are on other ports than the usual ones: clients find each of them, and nothing is left of what is not there.

use tf_testing::real::sim::NodeStatus;

use super::picture::are_well;
use super::*;
use crate::picture::{nothing_is_told, one_tree_is_shown};

/// The Manager, one ring, and eight other services.
const RESOURCES: usize = 10;
/// Where control nodes speak BGP then.
const BGP: u16 = 1179;
/// Introspection of the daemons of Config, where the spec moves it.
const INTROSPECTION: [(&str, u16); 4] = [
    ("contrail-api", 9184),
    ("contrail-schema", 9187),
    ("contrail-svc-monitor", 9188),
    ("contrail-device-manager", 9196),
];

#[tokio::test(flavor = "multi_thread")]
async fn without_analytics_and_on_moved_ports_every_daemon_serves_and_nothing_is_told() -> Result<()> {
    Long::Moved.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let found = resources::all(client, NAMESPACE).await?;
    ensure!(found.len() == RESOURCES, "{:?}", found.iter().map(|it| &it.name).collect::<Vec<_>>());
    are_well(client).await?;
    nothing_is_told(&resources::all(client, NAMESPACE).await?, &[])?;
    println!("{}", one_tree_is_shown(client, NAMESPACE).await?.0);

    let visitor = Visitor::of(client, NAMESPACE).await?.at(whole::MOVED_API);
    let addresses = lab.real_nodes()?.addresses()?;
    are_introspected(&visitor, &addresses).await?;
    one_writes_and_all_read(&visitor, &addresses, "moved").await?;
    control_nodes_are_registered_with_their_ports(&visitor, &addresses).await
}

/// One of each daemon, and each API, answers there, connected to all that it uses: a collector is not among that.
async fn are_introspected(visitor: &Visitor, addresses: &[IpAddr]) -> Result<()> {
    for (daemon, port) in INTROSPECTION {
        let mut answers = Vec::new();
        for address in addresses {
            answers.extend(visitor.status(*address, port).await?);
        }
        let expected = if daemon == "contrail-api" { addresses.len() } else { 1 };
        let are_well = answers.iter().all(NodeStatus::is_functional);
        let collectors = answers.iter().any(|answer| answer.connections.keys().any(|name| name == "Collector"));
        ensure!(answers.len() == expected && are_well && !collectors, "{daemon}: {answers:#?}");
    }
    Ok(())
}

/// Agents and other control nodes go by it.
async fn control_nodes_are_registered_with_their_ports(visitor: &Visitor, addresses: &[IpAddr]) -> Result<()> {
    let routers = visitor.routers(addresses[0]).await?;
    ensure!(routers.len() == addresses.len() && routers.iter().all(|router| router["port"] == BGP), "{routers:#?}");
    Ok(())
}
