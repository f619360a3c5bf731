//! Waiting for what a test expects, with a limit and a name for the error message.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use kube::api::Api;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

/// Pause between two looks, at first. It grows by a quarter each time, since what takes long can be looked at rarely.
const FIRST_INTERVAL: Duration = Duration::from_millis(50);

/// Longest pause between two looks.
const LAST_INTERVAL: Duration = Duration::from_millis(500);

/// Looks again and again until `look` finds something, at most for `limit`. An error of `look` ends the wait at once.
pub async fn eventually<T>(what: &str, limit: Duration, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    let mut interval = FIRST_INTERVAL;
    loop {
        if let Some(found) = look().await.with_context(|| format!("waiting for {what}"))? {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "waited {} s in vain for {what}", limit.as_secs());
        sleep(interval).await;
        interval = (interval * 5 / 4).min(LAST_INTERVAL);
    }
}

/// A workload whose pods are replaced by its controller.
pub trait Workload {
    /// How many pods it wants, and how many of the current revision are Ready; `None` while its controller has not
    /// seen the current generation.
    fn progress(&self) -> Option<(i32, i32)>;
}

impl Workload for StatefulSet {
    fn progress(&self) -> Option<(i32, i32)> {
        let wanted = self.spec.as_ref()?.replicas.unwrap_or(1);
        let status = self.status.as_ref().filter(|status| status.observed_generation == self.metadata.generation)?;
        let current = status.updated_replicas.unwrap_or(0);
        Some((wanted, status.ready_replicas.unwrap_or(0).min(current)))
    }
}

impl Workload for Deployment {
    fn progress(&self) -> Option<(i32, i32)> {
        let wanted = self.spec.as_ref()?.replicas.unwrap_or(1);
        let status = self.status.as_ref().filter(|status| status.observed_generation == self.metadata.generation)?;
        let current = status.updated_replicas.unwrap_or(0);
        Some((wanted, status.ready_replicas.unwrap_or(0).min(current)))
    }
}

impl Workload for DaemonSet {
    fn progress(&self) -> Option<(i32, i32)> {
        let status = self.status.as_ref().filter(|status| status.observed_generation == self.metadata.generation)?;
        let current = status.updated_number_scheduled.unwrap_or(0);
        Some((status.desired_number_scheduled, status.number_ready.min(current)))
    }
}

/// Waits until exactly `pods` pods of the workload are wanted and all are Ready.
pub async fn rolled_out<K>(api: &Api<K>, name: &str, pods: i32, limit: Duration) -> Result<()>
where
    K: Workload + Resource + Clone + DeserializeOwned + Debug,
    K::DynamicType: Default,
{
    let mut last = None;
    let outcome = eventually(&format!("{pods} Ready pods of {name}"), limit, async || {
        last = api.get(name).await?.progress();
        Ok((last == Some((pods, pods))).then_some(()))
    })
    .await;
    outcome.with_context(|| match last {
        Some((wanted, ready)) => format!("{ready} of {wanted} wanted pods are Ready"),
        None => "its controller has not acted".to_owned(),
    })
}

/// Waits until an object is gone. One of the same name with another uid counts as gone.
pub async fn gone<K>(api: &Api<K>, object: &K, limit: Duration) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let Some(uid) = object.uid() else { bail!("{} was never stored", object.name_any()) };
    let name = object.name_any();
    eventually(&format!("{name} to be gone"), limit, async || {
        let same = api.get_opt(&name).await?.is_some_and(|found| found.uid().as_ref() == Some(&uid));
        Ok((!same).then_some(()))
    })
    .await
}
