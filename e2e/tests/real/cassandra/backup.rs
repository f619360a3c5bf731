//! A backup that is made while a client writes, and another ring that begins with it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tf_api::kinds::CASSANDRA;
use tf_api::names::ANNOTATION_BACKUP;
use tf_testing::resources::{self, Resource};
use tf_testing::{Lab, RealNode};

use super::writer::Writer;
use super::{Long, NAME, STORE, good, on_a_small_machine, ring, table};
use crate::{
    store::{BRING_UP, NAMESPACE, Store},
    tls::Access,
};

/// The ring that begins with the backup.
const COPY: Store = Store { name: "configdb2", ..STORE };
/// On each node.
const VOLUME: &str = "/var/lib/tf-backups";
const BACKUP: &str = "before-it-all";
/// For a backup of little data: Java starts for its snapshots.
const MADE: Duration = Duration::from_mins(3);
/// A table with everything that has a word of its own in a schema.
const ODD: &str =
    "CREATE TABLE lab.\"Odd\" (\"Key\" text PRIMARY KEY, it frozen<lab.pair>, gone int) WITH comment = 'it''s; odd'";

fn spec(restored: Option<&str>) -> Value {
    let mut spec = on_a_small_machine(json!({}));
    spec["serviceConfiguration"]["backup"] = json!({"hostPath": {"path": VOLUME}});
    if let Some(name) = restored {
        spec["serviceConfiguration"]["restoreFrom"] = json!({"name": name, "backup": BACKUP});
    }
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_made_under_a_writer_is_what_another_ring_begins_with() -> Result<()> {
    if !Long::Backup.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let rows = backed_up(lab, client).await?;
            let nodes = lab.real_nodes()?.all()?;
            let damaged = damaged(nodes.get(1).context("no node")?).await?;
            let begun = Instant::now();
            resources::apply(client, CASSANDRA, NAMESPACE, COPY.name, spec(Some(NAME))).await?;
            let is_refused = |it: &Resource| ready(it).contains("Data.db is damaged");
            let refused = COPY.until(client, "told which file is damaged", BRING_UP, is_refused).await?;
            println!("refused after {:.0?}: {}", begun.elapsed(), ready(&refused));
            ensure!(refused.object.data["status"]["initialized"] != json!(true), "{refused:?}");
            mended(&nodes[1], &damaged).await?;
            disturbed(lab, client).await?;
            let restored = COPY.through(client, "the backup").await?;
            println!("Ready with the backup {:.0?} after the manifest", begun.elapsed());
            let status = &restored.object.data["status"]["restored"];
            ensure!(status["backup"] == BACKUP && status["of"] == format!("{NAMESPACE}/{NAME}"), "{status}");
            same(lab, client, &rows).await
        })
        .await
}

/// What the resource says of why it is not Ready.
fn ready(resource: &Resource) -> String {
    let conditions = resource.object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.into_iter().find(|it| it["type"] == "Ready" && it["status"] == "False");
    ready.and_then(|it| Some(it["message"].as_str()?.to_owned())).unwrap_or_default()
}

/// Rows that were acknowledged before a backup was asked for, of a ring that is gone with all its data.
async fn backed_up(lab: &Lab, client: &Client) -> Result<Vec<i64>> {
    resources::apply(client, CASSANDRA, NAMESPACE, NAME, spec(None)).await?;
    STORE.certified(client).await?;
    STORE.through(client, "the bring-up").await?;
    let (access, addresses) = (Access::of(client).await?, lab.real_nodes()?.addresses()?);
    table(&access, &addresses).await?;
    let mut session = access.connect(addresses[0]).await?;
    session.define("CREATE TYPE lab.pair (one int, other int)").await?;
    session.define(ODD).await?;
    session.define("ALTER TABLE lab.\"Odd\" DROP gone").await?;
    // Every server knows of them then.
    table(&access, &addresses).await?;
    session.execute("INSERT INTO lab.\"Odd\" (\"Key\", it) VALUES ('k', {one: 1, other: 2})").await?;

    let writer = Writer::begin(&access, &addresses);
    writer.goes_on(200).await?;
    let before = writer.acknowledged();
    let begun = Instant::now();
    let wish = json!({"metadata": {"annotations": {ANNOTATION_BACKUP: BACKUP}}});
    resources::api(client, CASSANDRA, NAMESPACE).patch(NAME, &PatchParams::default(), &Patch::Merge(wish)).await?;
    // Whoever is killed goes on.
    let is_begun = |it: &Resource| it.object.data["status"]["backups"][0]["name"] == BACKUP;
    STORE.until(client, "making a backup", MADE, is_begun).await?;
    STORE.kill_operator(lab)?;
    let is_made = |it: &Resource| it.object.data["status"]["backups"][0]["state"] == "Complete";
    let made = STORE.until(client, "backed up", MADE, is_made).await?;
    println!("backed up after {:.1?}: {}", begun.elapsed(), made.object.data["status"]["backups"][0]);
    ensure!(made.is_ready() && made.is("Progressing", "False"), "a backup is no roll-out: {made:?}");
    good("under a backup", &writer.end().await?)?;
    let folders = STORE.directory(client).await?.context("no directory")?;
    let nodes = lab.real_nodes()?.all()?;
    for node in &nodes {
        let left = node.run("find", &[&folders, "-path", "*/snapshots/tf-backup"]).await?;
        ensure!(left.is_empty(), "snapshots are left: {left}");
        // The list is what sha256sum writes.
        let check = format!("cd {VOLUME}/{NAMESPACE}/{NAME}/{BACKUP}/* && sha256sum -c --quiet SHA256SUMS");
        node.run("sh", &["-c", &check]).await?;
    }
    STORE.deleted::<cassandra_op::Component>(client).await?;
    for node in &nodes {
        node.run("find", &[&folders, "-mindepth", "1", "-delete"]).await?;
    }
    Ok(before)
}

/// Changes the first byte of a file of the backup. Gives back where it is.
async fn damaged(node: &RealNode) -> Result<String> {
    let path = format!("{VOLUME}/{NAMESPACE}/{NAME}/{BACKUP}");
    let found = node.run("find", &[&path, "-path", "*/journal-*", "-name", "*Data.db"]).await?;
    let file = found.lines().next().context("no file of the table")?.to_owned();
    node.run(
        "sh",
        &["-c", &format!("cp -p {file} {VOLUME}/whole && printf '\\377' | dd of={file} conv=notrunc status=none")],
    )
    .await?;
    Ok(file)
}

async fn mended(node: &RealNode, file: &str) -> Result<()> {
    node.run("sh", &["-c", &format!("mv {VOLUME}/whole {file}")]).await.map(drop)
}

/// Ends an agent, with its server, and the operator, while the backup is taken in.
async fn disturbed(lab: &Lab, client: &Client) -> Result<()> {
    let nodes = lab.real_nodes()?.all()?;
    nodes.first().context("no node")?.kill("tf-node")?;
    COPY.until(client, "told that a server is lost", BRING_UP, |it| !it.is_ready()).await?;
    STORE.kill_operator(lab)
}

/// The rows are in the ring, on every member, and what else its tables were.
async fn same(lab: &Lab, client: &Client, rows: &[i64]) -> Result<()> {
    let members: Vec<IpAddr> = ring(lab, client, 3).await?;
    let access = Access::of(client).await?;
    for address in &members {
        let mut session = access.connect(*address).await?;
        let count = session.count("lab.\"Odd\" WHERE \"Key\" = 'k'").await?;
        ensure!(count == 1, "{address}: lab.\"Odd\" has {count} rows");
    }
    let mut lost = 0;
    for (turn, number) in rows.iter().enumerate() {
        let mut session = access.connect(members[turn % members.len()]).await?;
        lost += usize::from(session.count(&format!("lab.journal WHERE number = {number}")).await? != 1);
    }
    println!("{} rows were acknowledged before the backup, {lost} lost", rows.len());
    ensure!(lost == 0, "{lost} of {} rows are lost", rows.len());
    good("the other ring", &Writer::begin(&access, &members).end().await?)
}
