//! A ring of the release that Tungsten Fabric's images have goes to later ones while it serves. For whoever asks for it, and has images of them:
//! `cargo xtask soak life --only cassandra::releases --release cassandra-3.11.19 --release cassandra-4.1.10`.

use anyhow::{Context as _, ensure};
use tf_testing::sample::Sample;
use tf_testing::skip;

use super::*;

/// One after the other, as Cassandra's own rules have it: none is left out that one understands and the next does not.
const RELEASES: [&str; 3] = ["3.11.19", "4.1.10", "5.0.9"];

/// For a server to rewrite what it has, which is little.
const REWRITTEN: Duration = Duration::from_mins(3);

/// A spec with three members of this release.
pub fn of(release: &str) -> Value {
    let mut spec = spec();
    let image = format!("tungstenfabric/lab-cassandra:{release}");
    spec["serviceConfiguration"]["containers"] = json!([{"name": "cassandra", "image": image}]);
    spec
}

/// Whether this run is for whoever asks for it; else it is counted as skipped.
pub fn are_asked_for() -> Result<bool> {
    let are_asked_for = Sample::from_environment(0)? == Sample::All;
    if !are_asked_for {
        skip::this_test("a draw has no images of other releases; see the head of its file")?;
    }
    Ok(are_asked_for)
}

/// What every server says it is.
async fn all_are(lab: &Lab, client: &Client, release: &str) -> Result<()> {
    for pod in STORE.pods(client).await?.keys() {
        let version = STORE.exec(lab, pod, &["nodetool", "-p", JMX_PORT, "version"])?;
        ensure!(version.contains(&format!("ReleaseVersion: {release}")), "{pod}: {version}");
    }
    Ok(())
}

/// Names of a server's data files that a release before 4.0 wrote. Snapshots keep theirs.
fn older(lab: &Lab, pod: &str) -> Result<String> {
    let of_a_table = ["-mindepth", "3", "-maxdepth", "3", "-name", "m*-big-Data.db"];
    STORE.exec(lab, pod, &[&["find", "/var/lib/cassandra/data"], &of_a_table[..]].concat())
}

/// Waits until no server has files of an earlier line.
async fn rewritten(lab: &Lab, client: &Client) -> Result<()> {
    for pod in STORE.pods(client).await?.keys() {
        let is_done = async || Ok(older(lab, pod)?.is_empty().then_some(()));
        eventually(&format!("{pod} to rewrite its files"), REWRITTEN, is_done).await?;
    }
    Ok(())
}

/// Makes the ring smaller and larger under a writer: what one server hands over, the others take.
async fn resized(lab: &Lab, client: &Client, access: &Access, release: &str) -> Result<()> {
    let all = lab.real_nodes()?.addresses()?;
    for size in [2, 3] {
        let (writer, begun) = (Writer::begin(access, &all), Instant::now());
        let mut spec = of(release);
        spec["commonConfiguration"]["replicas"] = json!(size);
        resources::apply(client, CASSANDRA, NAMESPACE, NAME, spec).await?;
        let members = grown(lab, client, size).await?;
        let what = format!("{size} members of {release} after {:.0?}", begun.elapsed());
        good(&what, &writer.among(&members).end().await?)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_goes_from_release_to_release_under_a_writer_and_loses_no_row() -> Result<()> {
    if !are_asked_for()? {
        return Ok(());
    }
    let images = RELEASES.map(|release| format!("cassandra-{release}"));
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    STORE
        .with(3, &[], &images, async |lab, client| {
            let [first, others @ ..] = RELEASES;
            resources::apply(client, CASSANDRA, NAMESPACE, NAME, of(first)).await?;
            STORE.certified(client).await?;
            STORE.through(client, "the bring-up").await?;
            all_are(lab, client, first).await?;
            let (access, addresses) = (Access::of(client).await?, lab.real_nodes()?.addresses()?);
            table(&access, &addresses).await?;
            access.connect(addresses[0]).await?.execute("INSERT INTO lab.journal (number) VALUES (1)").await?;
            for pod in STORE.pods(client).await?.keys() {
                ensure!(!older(lab, pod)?.is_empty(), "{pod} wrote no file of its release");
            }
            for release in others {
                let writer = Writer::begin(&access, &addresses);
                let begun = Instant::now();
                resources::apply(client, CASSANDRA, NAMESPACE, NAME, of(release)).await?;
                STORE.through(client, &format!("the change to {release}")).await?;
                all_are(lab, client, release).await?;
                ring(lab, client, 3).await?;
                good(&format!("{release} after {:.0?}", begun.elapsed()), &writer.end().await?)?;
                rewritten(lab, client).await?;
                if release == others[0] {
                    resized(lab, client, &access, release).await?;
                }
                for address in &addresses {
                    let rows = access.connect(*address).await?.count("lab.journal WHERE number = 1").await?;
                    ensure!(rows == 1, "{address} has lost what was written to {first}");
                }
            }
            Ok(())
        })
        .await
        .context("from release to release")
}
