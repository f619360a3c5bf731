//! An SDN of five control nodes: each list of servers that a file has is one of five, and each daemon is connected to what it lists.

use super::picture::are_well;
use super::world::calm;
use super::*;
use crate::picture::nothing_is_told;

#[tokio::test(flavor = "multi_thread")]
async fn of_five_control_nodes_every_service_has_five_members_that_are_connected_to_everything() -> Result<()> {
    Long::Five.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let addresses = lab.real_nodes()?.addresses()?;
    ensure!(addresses.len() == Long::Five.nodes(), "{addresses:?}");
    // Analytics is told of Kafka when the Manager is Ready already.
    calm(client).await?;
    are_well(client).await?;
    let found = resources::all(client, NAMESPACE).await?;
    nothing_is_told(&found, &[])?;
    for resource in found.iter().filter(|it| it.kind != MANAGER) {
        let said = resource.explain("Ready");
        ensure!(said.contains("5 of 5 members are ready"), "{} {}: {said}", resource.kind.kind, resource.name);
    }
    let visitor = Visitor::of(client, NAMESPACE).await?;
    functional(&visitor, &addresses).await?;
    one_writes_and_all_read(&visitor, &addresses, "five").await?;
    alarm_generators_read_what_collectors_tell(client, &addresses).await?;
    nodes::registered(lab, client).await
}
