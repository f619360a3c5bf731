//! The data of a majority is gone. The status says so, nothing is done, and the procedure of docs/zookeeper.md brings the
//! ensemble back with what the survivor has.

use anyhow::ensure;
use kube::api::DeleteParams;
use tf_testing::wait::gone;

use super::journal::Journal;
use super::membership::{place, resize};
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_whose_majority_is_lost_is_brought_back_from_a_survivor_by_the_documented_procedure() -> Result<()>
{
    if !Long::Disaster.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        let (servers, _) = resize(client, 3, BRING_UP).await?;
        certified(client).await?;
        let journal = Journal::begin(&servers).await?;
        eventually("100 writes", BRING_UP, async || Ok((journal.written() >= 100).then_some(()))).await?;
        let account = journal.stop();

        // The survivor is member 1, who will have its number again, and so finds itself in the old list, which must not count.
        let nodes = lab.real_nodes()?;
        let zookeeper = resources::get(client, ZOOKEEPER, NAMESPACE, NAME).await?.context("it is gone")?;
        let first = members(&zookeeper).into_iter().find(|member| member.id == 1).context("no member 1")?;
        let survivor = nodes.node(&first.node)?;
        let lost: Vec<_> = nodes.all()?.into_iter().filter(|node| node.name() != survivor.name()).collect();
        let before = pods(client).await?;
        let directory = STORE.directory(client).await?.context("no directory")?;
        // Whatever the operator is beside: who stays is asked until it has moved there.
        for node in &lost {
            nodes.stop(node.name()).await?;
        }
        let told = |zookeeper: &Resource| {
            let explained = zookeeper.explain("Available");
            explained.starts_with("Available=False") && explained.contains("docs/zookeeper.md")
        };
        resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "not Available", 2 * NOTICED, told).await?;
        ensure!(modes(&[survivor.address()]).await.is_err(), "the survivor serves alone");

        resources::api(client, ZOOKEEPER, NAMESPACE).delete(NAME, &DeleteParams::default()).await?;
        for node in &lost {
            nodes.start(node.name()).await?;
        }
        let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        for pod in before.values() {
            gone(&api, pod, BRING_UP).await?;
        }
        for node in &lost {
            node.run("rm", &["-rf", &directory]).await?;
        }

        let on_survivor = json!({"replicas": 1, "nodeSelector": {"kubernetes.io/hostname": survivor.name()}});
        let (one, _) = place(client, on_survivor, 1, BRING_UP).await?;
        ensure!(one == [survivor.address()], "{one:?}");
        account.is_kept_by(&one).await?;
        let (three, _) = resize(client, 3, BRING_UP).await?;
        account.is_kept_by(&three).await?;
        println!("{} writes were brought back", account.acknowledged.len());
        Ok(())
    })
    .await
}
