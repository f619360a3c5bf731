//! Nodes of a ring fail for a while: it is told what fails, clients with a quorum go on, and in the end all is as before by itself.

use kube::ResourceExt as _;
use tf_testing::RealNode;

use super::*;
use crate::store::HONEST_WITHIN;

/// How long a member is cut off: long enough for a roll-out to be asked for, and held.
const CUT: Duration = Duration::from_secs(30);

/// Three members in a ring with a table, of which one shall suffer.
struct Scene<'a> {
    client: &'a Client,
    access: Access,
    addresses: Vec<IpAddr>,
    victim: RealNode,
    /// The pod of its member.
    pod: String,
}

impl<'a> Scene<'a> {
    /// The one that suffers is not beside the operator, which would see what it sees.
    async fn set(lab: &Lab, client: &'a Client) -> Result<Self> {
        let (access, addresses) = whole(lab, client).await?;
        let victim = STORE.node_without_operator(lab, client).await?;
        let pod = STORE.pod_on(client, &victim).await?.name_any();
        Ok(Self { client, access, addresses, victim, pod })
    }

    fn others(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied().filter(|address| *address != self.victim.address())
    }

    /// Waits until it is told that the member fails, by the name of its pod, and this of the reason.
    async fn told(&self, reason: &str) -> Result<String> {
        let begun = Instant::now();
        let cause = |resource: &Resource| {
            let told = resource.status.conditions.iter().filter(|_| !resource.is_ready());
            told.map(|condition| condition.message.clone())
                .find(|message| message.contains(&self.pod) && message.contains(reason))
        };
        let tells = |resource: &Resource| cause(resource).is_some();
        let what = format!("told that {} fails", self.pod);
        let told = STORE.until(self.client, &what, HONEST_WITHIN, tells).await?;
        Ok(format!("told after {:.1?}: {}", begun.elapsed(), cause(&told).unwrap_or_default()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_power_is_told_and_comes_back_with_every_row() -> Result<()> {
    if !Long::NodeOff.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let scene = Scene::set(lab, client).await?;
            let writer = Writer::begin(&scene.access, &scene.addresses);
            lab.real_nodes()?.stop(scene.victim.name()).await?;
            let told = scene.told("").await?;
            lab.real_nodes()?.start(scene.victim.name()).await?;
            let begun = Instant::now();
            STORE.through(client, "the server's return").await?;
            good(&format!("without power, {told}; whole {:.1?} after its node", begun.elapsed()), &writer.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_its_server_is_back_by_itself_when_there_is_room() -> Result<()> {
    if !Long::DiskFull.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let scene = Scene::set(lab, client).await?;
            let writer = Writer::begin(&scene.access, &scene.addresses);
            scene.victim.fill_disk()?;
            // What is in memory is to be written now, not when there is more of it.
            let flushed = STORE.exec(lab, &scene.pod, &["nodetool", "-p", JMX_PORT, "flush", "lab"]);
            ensure!(flushed.is_err(), "a full disk took {flushed:?}");
            let told = scene.told("/cassandra is full").await;
            scene.victim.free_disk()?;
            let begun = Instant::now();
            STORE.through(client, "there is room").await?;
            let summary = writer.end().await?;
            good(&format!("a full disk, {}; whole {:.1?} after it had room", told?, begun.elapsed()), &summary)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_cut_off_holds_a_change_up_until_all_agree_on_the_schema_again() -> Result<()> {
    if !Long::CutOff.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let scene = Scene::set(lab, client).await?;
            let nodes = lab.real_nodes()?;
            let names: Vec<String> = nodes.all()?.iter().map(|node| node.name().to_owned()).collect();
            let others: Vec<&String> = names.iter().filter(|name| *name != scene.victim.name()).collect();
            let writer = Writer::begin(&scene.access, &scene.addresses);
            nodes.cut(&[scene.victim.name()], &others).await?;
            let told = scene.told("").await?;

            // Each side learns of a table that the other one does not know.
            let there = scene.others().next().context("no other member")?;
            for (address, table) in [(scene.victim.address(), "alone"), (there, "together")] {
                let definition = format!("CREATE TABLE lab.{table} (number bigint PRIMARY KEY)");
                scene.access.connect(address).await?.define(&definition).await.with_context(|| definition)?;
            }
            ensure!(schemas(&scene).await?.len() > 1, "both sides know the same");

            resources::apply(client, CASSANDRA, NAMESPACE, NAME, with_compactors(spec(), 1)).await?;
            tokio::time::sleep(CUT).await;
            let held = resources::get(client, CASSANDRA, NAMESPACE, NAME).await?.context("it is gone")?;
            ensure!(!held.is_ready() && held.is("Progressing", "True"), "{}", resources::conditions(&held));
            println!("held: {}", held.explain("Progressing"));
            for address in scene.others() {
                ensure!(scene.access.connect(address).await.is_ok(), "{address} was restarted beside a lost member");
            }

            nodes.heal(&[scene.victim.name()], &others).await?;
            let begun = Instant::now();
            STORE.through(client, "the change").await?;
            ensure!(schemas(&scene).await?.len() == 1, "servers disagree on the schema");
            for table in ["alone", "together"] {
                scene.access.connect(there).await?.count(&format!("lab.{table}")).await?;
            }
            let summary = writer.end().await?;
            good(&format!("cut off, {told}; changed {:.1?} after the end of the cut", begun.elapsed()), &summary)
        })
        .await
}

/// The versions of the schema that servers have.
async fn schemas(scene: &Scene<'_>) -> Result<BTreeSet<[u8; 16]>> {
    let mut versions = BTreeSet::new();
    for address in &scene.addresses {
        versions.insert(scene.access.connect(*address).await?.schema().await?);
    }
    Ok(versions)
}
