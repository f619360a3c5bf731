//! What only a member that is lost, and one of those that stay, had acknowledged.

use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};

use super::*;

/// Rows that one member misses.
const ROWS: i64 = 200;
/// Of what they are counted.
const TABLE: &str = "lab.rare";
/// For a server to be told of what it missed, if anybody kept it.
const HINTS: Duration = Duration::from_secs(30);

/// Whether the operator has had a member taken out of the ring.
async fn is_out(client: &Client) -> Result<bool> {
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let mut events = events.list(&ListParams::default()).await?.items.into_iter();
    Ok(events.any(|event| event.note.is_some_and(|note| note.contains("is taken out of the ring"))))
}

/// Rows that a server finds that asks one for each. All of them at once it would ask of a single one.
async fn found(access: &Access, address: IpAddr) -> Result<i64> {
    let mut session = access.connect(address).await?;
    let mut found = 0;
    for number in 0..ROWS {
        found += session.count_at_one(&format!("{TABLE} WHERE number = {number}")).await?;
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_the_lost_member_and_another_had_is_missed_by_no_reader_once_it_is_out_of_the_ring() -> Result<()> {
    if !Long::HalfKnown.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            // Nobody repairs as is done from time to time.
            let mut spec = spec();
            spec["serviceConfiguration"]["automaticRepair"] = json!(false);
            let (access, addresses) = whole_of(lab, client, spec).await?;
            let mut session = access.connect(addresses[0]).await?;
            session.define(&format!("CREATE TABLE {TABLE} (number bigint PRIMARY KEY)")).await?;
            drop(session);
            eventually("the table to be known", AGREED, async || {
                for address in &addresses {
                    if found(&access, *address).await.is_err() {
                        return Ok(None);
                    }
                }
                Ok(Some(()))
            })
            .await?;
            // Nobody keeps for a server what it misses.
            for pod in STORE.pods(client).await?.keys() {
                STORE.exec(lab, pod, &["nodetool", "-p", JMX_PORT, "disablehandoff"])?;
            }
            let [behind, lost, kept] = <[RealNode; 3]>::try_from(lab.real_nodes()?.all()?)
                .map_err(|nodes| anyhow!("{} nodes", nodes.len()))?;
            behind.kill("java")?;
            let mut session = access.connect(kept.address()).await?;
            let mut number = 0;
            while number < ROWS {
                // One may wait for the server that has just ended.
                if session.execute(&format!("INSERT INTO {TABLE} (number) VALUES ({number})")).await.is_ok() {
                    number += 1;
                } else {
                    session = access.connect(kept.address()).await?;
                }
            }
            let is_back = async || Ok(access.connect(behind.address()).await.is_ok().then_some(()));
            eventually("the server to be back", RESIZED, is_back).await?;
            STORE.through(client, "the server's return").await?;
            tokio::time::sleep(HINTS).await;
            // Whom a server asks is its own affair; one that was just started asks the first in the ring.
            let mut seen = Vec::new();
            for node in [&behind, &lost, &kept] {
                seen.push(found(&access, node.address()).await?);
            }
            ensure!(seen.iter().any(|rows| *rows < ROWS), "no server misses anything: {seen:?}");
            println!("one server misses what is written: readers at ONE find {seen:?} of {ROWS} rows");

            lose_data(client, &lost).await?;
            let begun = Instant::now();
            eventually("the lost member to be taken out", RESIZED, async || Ok(is_out(client).await?.then_some(())))
                .await?;
            let out = begun.elapsed();

            // A new one joins from here on, and has not repaired.
            let (mut looks, is_whole) =
                (0, |resource: &Resource| resource.is_ready_with(3) && resource.is("Progressing", "False"));
            loop {
                for node in [&behind, &kept] {
                    // On a busy machine an answer may come too late.
                    let Ok(found) = found(&access, node.address()).await else { continue };
                    ensure!(found == ROWS, "{} finds {found} of {ROWS} rows at ONE", node.name());
                    looks += 1;
                }
                let resource = resources::get(client, CASSANDRA, NAMESPACE, NAME).await?.context("it is gone")?;
                if is_whole(&resource) {
                    break;
                }
                ensure!(begun.elapsed() < RESIZED, "{}", resources::conditions(&resource));
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            println!("taken out after {out:.0?}, whole after {:.0?}: {looks} looks, each row found", begun.elapsed());
            ensure!(looks > 4, "nobody looked");
            ring(lab, client, 3).await.map(drop)
        })
        .await
}
