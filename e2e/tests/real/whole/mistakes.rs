//! One container after the other gets an image that is not there, and one in which its daemon is not: one member tries it and says so within seconds, the
//! others serve on as they are, and all is well again when the mistake is taken back.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerStatus};
use serde_json::Value;
use tf_api::kinds::REDIS;

use super::images::{SERVICES, images, set};
use super::named::{Findings, is_named, told_where};
use super::turns::Turns;
use super::world::{World, calm};
use super::*;
use crate::store::uids;

/// An image that nobody has.
const NOWHERE: &str = "localhost/nowhere:1";
/// For one member to be stopped and its pod to be there with the other image. Servers of Cassandra hand over what they have in memory first.
const TRIED: Duration = Duration::from_mins(3);
/// So long the others may not be touched.
const STAYS: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_work_is_told_by_one_member_and_disturbs_nobody_else() -> Result<()> {
    Long::Mistakes.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    // No server is stopped before that.
    repaired(client).await?;
    let manifest: Value = serde_saphyr::from_str(&whole::manifest()?)?;
    let played = images(client, CONFIG_KIND).await?.remove("api").context("no API")?;
    let redis = images(client, REDIS).await?.remove("redis").context("no Redis")?;
    let mut findings = Findings::default();
    // Stores, whose members take longest, come last.
    for (service, kind) in SERVICES.into_iter().rev() {
        let another = if kind == REDIS { &played } else { &redis };
        let usual = images(client, kind).await?;
        for container in usual.keys() {
            for image in [NOWHERE, another] {
                let what = format!("{service}: {container} of {image}");
                let (mut mistaken, mut images) = (manifest.clone(), usual.clone());
                images.insert(container.clone(), image.to_owned());
                set(&mut mistaken["spec"]["services"][service], &images);
                let before = Pods::of(lab, client, kind).await?;
                let turns = Turns::begin(lab, client).await?;
                lab.apply(&mistaken.to_string()).await?;
                findings.note(&what, is_told(client, kind, container, image, &what, &before).await);
                lab.apply(&manifest.to_string()).await?;
                calm(client).await.with_context(|| what.clone())?;
                findings.note(&what, turns.end().await);
            }
        }
        world.is_functional().await?;
    }
    findings.none()
}

/// Waits until a member has tried an image and its resource tells that it cannot run, and sees that the others stay as they are.
async fn is_told(
    client: &Client,
    kind: KindInfo,
    container: &str,
    image: &str,
    what: &str,
    before: &Pods,
) -> Result<()> {
    let pod = eventually("a member to try it", TRIED, async || {
        let pods = resources::pods(client, kind, NAMESPACE).await?;
        Ok(pods.into_iter().find(|pod| has_tried(pod, container, image)))
    })
    .await?;
    let (pod, begun) = (pod.name_any(), Instant::now());
    let name = pod.split('-').next().unwrap_or_default();
    let is_said = |said: &str| is_named(said, &pod, container) || is_named(said, &pod, image);
    told_where(client, (kind, name), "Ready", is_said, what, begun).await?;
    tokio::time::sleep(STAYS).await;
    before.have_stayed_but_for_one_each(&uids(client, kind).await?, container)
}

/// Whether the kubelet has done what it can for this container with this image, or for what prepares its pod.
fn has_tried(pod: &Pod, container: &str, image: &str) -> bool {
    let is_asked = |it: &Container| it.name == container && it.image.as_deref() == Some(image);
    let reason = |status: &ContainerStatus| status.state.as_ref()?.waiting.as_ref()?.reason.clone();
    let is_begun = |status: &ContainerStatus| match reason(status).as_deref() {
        Some("ContainerCreating" | "PodInitializing") => false,
        Some(_) => true,
        None => status.name == container,
    };
    let status = pod.status.as_ref();
    let every = status.iter().flat_map(|it| it.container_statuses.iter().chain(&it.init_container_statuses)).flatten();
    pod.spec.iter().flat_map(|spec| &spec.containers).any(is_asked) && every.into_iter().any(is_begun)
}

/// Uids of the pods of a kind by their names, and the daemons of everybody.
struct Pods {
    of_kind: BTreeMap<String, Option<String>>,
    daemons: Daemons,
}

impl Pods {
    async fn of(lab: &Lab, client: &Client, kind: KindInfo) -> Result<Self> {
        Ok(Self { of_kind: uids(client, kind).await?, daemons: Daemons::of(lab, client).await? })
    }

    /// Of each workload of the kind one pod, which lacks a container, may be another one; nobody else is, and nobody was started anew.
    fn have_stayed_but_for_one_each(&self, now: &BTreeMap<String, Option<String>>, lacking: &str) -> Result<()> {
        let gone: BTreeSet<_> = self.of_kind.iter().filter(|(name, uid)| now.get(*name) != Some(uid)).collect();
        let workloads: BTreeSet<_> = gone.iter().filter_map(|(name, _)| name.rsplit_once('-')).map(|it| it.0).collect();
        ensure!(gone.len() == workloads.len(), "more than one pod of a workload was replaced: {gone:?}");
        self.daemons.have_stayed_but(|daemon| gone.iter().any(|(pod, _)| **pod == daemon.pod), &[lacking])
    }
}
