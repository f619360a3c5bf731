//! Members and clients get other certificates while they are in use.

use rustls::pki_types::CertificateDer;

use super::*;
use crate::tls::own_certificate;

/// Until an agent has asked for another certificate and its server shows it.
const SHOWN: Duration = Duration::from_mins(2);

/// What a server shows to a client at its port for messages.
async fn shown(access: &tls::Access, address: IpAddr) -> Result<CertificateDer<'static>> {
    own_certificate(&access.stream(address, AMQP_PORT).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_while_servers_and_clients_use_them_and_no_message_waits() -> Result<()> {
    if !Long::Renewal.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            STORE.through(client, "the bring-up").await?;
            let visitor = access.tls()?;
            let (before, mut former) = (processes(lab, SERVER)?, Vec::new());
            for address in &addresses {
                former.push(shown(&visitor, *address).await?);
            }
            let traffic = Traffic::begin(&access, &addresses).await?;
            // A shorter life than those in use have: members ask for others.
            let shorter = json!({"commonConfiguration": {"certificates": {"duration": "24h"}}});
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, shorter).await?;
            for (address, certificate) in addresses.iter().zip(&former) {
                let is_another = async || Ok((shown(&visitor, *address).await? != *certificate).then_some(()));
                eventually(&format!("another certificate of {address}"), SHOWN, is_another).await?;
            }
            STORE.through(client, "other certificates").await?;
            ensure!(processes(lab, SERVER)? == before, "a server was started anew");
            let summary = traffic.end().await?;
            ensure!(summary.refused == 0, "a client was turned away: {summary}");
            good("renewed certificates", &summary)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_replace_the_authority_of_their_members_together_and_nobody_is_turned_away() -> Result<()> {
    if !Long::Authority.is_drawn()? {
        return Ok(());
    }
    let neighbour = Store { operator: "zookeeper-op", kind: ZOOKEEPER, name: "zookeeper1", images: &[], values: &[] };
    STORE
        .with(3, &[], &[neighbour.operator, image::ZOOKEEPER_ARCHIVE], async |lab, client| {
            let values = vec!["replicaCount=1".to_owned(), image::ZOOKEEPER.to_owned()];
            lab.install(neighbour.operator, NAMESPACE, &Install { values, ..Install::default() }).await?;
            resources::apply(client, ZOOKEEPER, NAMESPACE, neighbour.name, json!({})).await?;
            let (access, addresses) = three(lab, client).await?;
            neighbour.certified(client).await?;
            let before = [STORE.uids(client).await?, neighbour.uids(client).await?];
            let traffic = Traffic::begin(&access, &addresses).await?;

            replace_authority(client).await?;
            // Who begins now trusts the new one alone, and shows what it signed.
            let newcomer = Access::of(client).await?;
            for address in &addresses {
                newcomer.connect(*address).await.with_context(|| format!("{address}, by the new authority alone"))?;
            }
            STORE.certified(client).await?;
            neighbour.certified(client).await?;
            let after = [STORE.uids(client).await?, neighbour.uids(client).await?];
            ensure!(after == before, "pods are the same");
            good("another authority", &traffic.end().await?)
        })
        .await
}
