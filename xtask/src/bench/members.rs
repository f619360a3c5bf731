//! The life of a real store, in seconds and requests: as many nodes as members, the operator a pod of its chart.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tf_api::{
    KindInfo,
    kinds::{CASSANDRA, RABBITMQ, REDIS, ZOOKEEPER},
    names,
};
use tf_testing::{
    Lab, Options,
    audit::service_account,
    real::{image, operator, whole},
    resources::{self, Resource},
    wait::eventually,
    work,
};

const NAMESPACE: &str = "tf";
/// More than anything here takes on a machine that does nothing else.
const LIMIT: Duration = Duration::from_mins(10);

/// A store that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Store {
    Zookeeper,
    Rabbitmq,
    Cassandra,
    Redis,
}

impl Store {
    const fn kind(self) -> KindInfo {
        match self {
            Self::Zookeeper => ZOOKEEPER,
            Self::Rabbitmq => RABBITMQ,
            Self::Cassandra => CASSANDRA,
            Self::Redis => REDIS,
        }
    }

    /// The archive of its image, and the value of the chart that names the image.
    const fn image(self) -> (&'static str, &'static str) {
        match self {
            Self::Zookeeper => (image::ZOOKEEPER_ARCHIVE, image::ZOOKEEPER),
            Self::Rabbitmq => (image::RABBITMQ_ARCHIVE, image::RABBITMQ),
            Self::Cassandra => (image::CASSANDRA_ARCHIVE, image::CASSANDRA),
            Self::Redis => (image::REDIS_ARCHIVE, image::REDIS),
        }
    }

    /// How many members it begins with, one store after the other; the last one stays, grows to the largest number and
    /// shrinks again. Five servers of Cassandra have no room on a small machine.
    const fn members(self) -> &'static [u32] {
        match self {
            Self::Cassandra => &[1, 3, 2],
            Self::Zookeeper | Self::Rabbitmq | Self::Redis => &[1, 5, 3],
        }
    }

    /// So many members that log as much as this, on a small machine.
    fn spec(self, members: u32, level: &str) -> Value {
        let mut spec = json!({"commonConfiguration": {"replicas": members, "logLevel": level}});
        if self == Self::Cassandra {
            spec["serviceConfiguration"] = json!(BTreeMap::from(whole::SMALL_HEAP));
        }
        spec
    }
}

/// One thing that was done.
pub struct Figure {
    what: String,
    seconds: f64,
    /// Of the operator, while it was done: all, and mutating ones without the lease.
    requests: u64,
    writes: u64,
}

/// Measures everything, one after the other, with images from this folder.
pub async fn measure(store: Store, images: &Path) -> Result<Vec<Figure>> {
    let (kind, (archive, value), sizes) = (store.kind(), store.image(), store.members());
    let (most, last) = (sizes.iter().copied().max().unwrap_or(1), sizes.last().copied().unwrap_or(1));
    let archives = image::archives_in(images, &[kind.operator, "tf-node", archive])?;
    let lab = operator::installed(Options::real(most), kind.operator, NAMESPACE, &archives, &[value]).await?;
    let client = lab.client().await?;
    let mut bench = Bench { lab, client, store, kind, name: String::new(), level: "info", figures: Vec::new() };
    // Each in a directory of its own; the last one stays.
    for members in sizes.iter().copied() {
        bench.name = format!("{}-of-{members}", kind.kind.to_lowercase());
        let what = format!("apply to Ready, members: {members}");
        bench.timed(&what, async |bench| bench.resize(members).await).await?;
        bench.certified().await?;
        if members != last {
            bench.delete().await?;
        }
    }
    bench.level = "debug";
    let what = format!("change of configuration, each of {last} members");
    bench.timed(&what, async |bench| bench.resize(last).await).await?;
    bench.each(last);
    bench.timed(&format!("replacement of pods, each of {last} members"), Bench::restart).await?;
    bench.each(last);
    bench.timed(&format!("{last} to {most} members"), async |bench| bench.resize(most).await).await?;
    bench.timed(&format!("{most} to {last} members"), async |bench| bench.resize(last).await).await?;
    bench.fail().await?;
    Ok(bench.figures)
}

/// The figures as text.
pub fn table(figures: &[Figure]) -> String {
    let mut text = format!("{:<62}{:>8}{:>10}{:>8}\n", "", "seconds", "requests", "writes");
    for Figure { what, seconds, requests, writes } in figures {
        let _ = writeln!(text, "{what:<62}{seconds:>8.1}{requests:>10}{writes:>8}");
    }
    text
}

struct Bench {
    lab: Lab,
    client: Client,
    store: Store,
    kind: KindInfo,
    name: String,
    level: &'static str,
    figures: Vec<Figure>,
}

impl Bench {
    async fn timed(&mut self, what: &str, deed: impl AsyncFnOnce(&Self) -> Result<()>) -> Result<()> {
        println!("{what} ...");
        let (mark, begun) = (self.lab.audit_mark().await?, Instant::now());
        deed(self).await.with_context(|| what.to_owned())?;
        let seconds = begun.elapsed().as_secs_f64();
        let entries = self.lab.audit().window(mark, self.lab.audit_mark().await?)?;
        let used = work::of(&entries, &service_account(NAMESPACE, self.kind.operator));
        self.figures.push(Figure { what: what.to_owned(), seconds, requests: used.requests, writes: used.writes });
        Ok(())
    }

    /// The last figure is that of so many.
    fn each(&mut self, count: u32) {
        if let Some(last) = self.figures.last_mut() {
            last.seconds /= f64::from(count);
            last.requests /= u64::from(count);
            last.writes /= u64::from(count);
        }
    }

    async fn until(&self, what: &str, wanted: impl Fn(&Resource) -> bool) -> Result<()> {
        resources::until(&self.client, self.kind, NAMESPACE, &self.name, what, LIMIT, wanted).await.map(drop)
    }

    /// Wishes for so many members, with the level of logs that is theirs by now.
    async fn resize(&self, members: u32) -> Result<()> {
        let spec = self.store.spec(members, self.level);
        resources::apply(&self.client, self.kind, NAMESPACE, &self.name, spec).await?;
        let members = usize::try_from(members)?;
        self.until("as wished", |store| store.is_ready_with(members) && store.is("Progressing", "False")).await
    }

    /// Then the operator asks the members themselves.
    async fn certified(&self) -> Result<()> {
        self.until("certified", |store| store.is("CertificatesReady", "True") && store.is_ready()).await
    }

    async fn delete(&self) -> Result<()> {
        let stores = resources::api(&self.client, self.kind, NAMESPACE);
        stores.delete(&self.name, &DeleteParams::default()).await?;
        eventually("all pods to be gone", LIMIT, async || Ok(self.pods().await?.is_empty().then_some(()))).await
    }

    async fn pods(&self) -> Result<Vec<Pod>> {
        resources::pods(&self.client, self.kind, NAMESPACE).await
    }

    async fn restart(&self) -> Result<()> {
        let uids = async || anyhow::Ok(self.pods().await?.iter().filter_map(Pod::uid).collect::<BTreeSet<_>>());
        let before = uids().await?;
        let wish = json!({"metadata": {"annotations": {names::ANNOTATION_RESTART: "bench"}}});
        let stores = resources::api(&self.client, self.kind, NAMESPACE);
        stores.patch(&self.name, &PatchParams::default(), &Patch::Merge(&wish)).await?;
        eventually("other pods", LIMIT, async || Ok(uids().await?.is_disjoint(&before).then_some(()))).await?;
        self.until("Ready", Resource::is_ready).await
    }

    /// A member's node loses its power, and comes back with its disk.
    async fn fail(&mut self) -> Result<()> {
        let victim = operator::node_without(&self.lab, &self.client, self.kind.operator, NAMESPACE).await?;
        self.timed("a node without power to its status", async |bench| {
            bench.lab.real_nodes()?.stop(victim.name()).await?;
            bench.until("not Ready", |store| !store.is_ready()).await
        })
        .await?;
        self.lab.real_nodes()?.start(victim.name()).await?;
        self.timed("its power back, the node Ready, to Ready", async |bench| {
            bench.until("Ready", Resource::is_ready).await
        })
        .await
    }
}
