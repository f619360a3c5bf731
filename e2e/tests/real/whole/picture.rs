//! Everything is as documented (see [`crate::picture`]): three of each service, each daemon of them well as the status tells it, and shown by `kubectl tf status`.

use tf_api::contract::DaemonStatus;

use super::*;
use crate::picture::{PICTURE, nothing_is_told, one_tree_is_shown, pods_are_as_documented};

/// Members of each service, on as many nodes.
const MEMBERS: usize = NODES;
/// For statuses to follow each other, one resource at a time.
const FOLLOWS: Duration = Duration::from_secs(10);
/// Daemons of which one member is at work and the others wait.
const ELECTED: [&str; 4] = ["devicemanager", "kubemanager", "schematransformer", "servicemonitor"];

/// As the pods have it, as the status of each resource tells it, and as it is shown.
pub async fn is_as_documented(client: &Client) -> Result<()> {
    pods_are_as_documented(client, NAMESPACE, MEMBERS, NODES).await?;
    for (kind, name, containers) in PICTURE {
        let is_told = |it: &Resource| daemons(it).iter().all(is_well) && daemons(it).len() == containers.len();
        let told = resources::until(client, kind, NAMESPACE, name, "well in each daemon", RECOVERY, is_told).await;
        let told = told.with_context(|| format!("{} {name}", kind.kind))?;
        let names: Vec<String> = daemons(&told).into_iter().map(|daemon| daemon.name).collect();
        ensure!(names == containers, "{} {name}: {names:?}", kind.kind);
    }
    // The service that came up last is Ready a moment before those that need it have read it.
    let mut last = Ok(());
    let read = eventually("every condition to be well", FOLLOWS, async || {
        last = nothing_is_told(&resources::all(client, NAMESPACE).await?, &[]);
        Ok(last.is_ok().then_some(()))
    })
    .await;
    last?;
    read?;
    let (all, unwell) = one_tree_is_shown(client, NAMESPACE).await?;
    println!("{all}");
    ensure!(!unwell.contains(" serve"), "a daemon is told of that is well: {unwell}");
    Ok(())
}

/// Every resource is Ready, and says that each of its daemons is well.
pub async fn are_well(client: &Client) -> Result<()> {
    let is_well = |it: &Resource| it.is_ready() && daemons(it).iter().all(DaemonStatus::is_well);
    for resource in resources::all(client, NAMESPACE).await? {
        resources::until(client, resource.kind, NAMESPACE, &resource.name, "well", RECOVERY, is_well).await?;
    }
    Ok(())
}

/// What a resource tells of its daemons.
fn daemons(resource: &Resource) -> Vec<DaemonStatus> {
    serde_json::from_value(resource.object.data["status"]["daemons"].clone()).unwrap_or_default()
}

fn is_well(daemon: &DaemonStatus) -> bool {
    let members = MEMBERS as i32;
    let waiting = if ELECTED.contains(&daemon.name.as_str()) { Some(members - 1) } else { None };
    daemon.is_well()
        && (daemon.serving, daemon.wanted, daemon.standby) == (members, members, waiting)
        && (daemon.versions.len(), daemon.troubles.len()) == (1, 0)
}
