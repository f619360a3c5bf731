//! The life of a real ensemble, in seconds and requests: as many nodes as members, the operator a pod of its chart.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    net::Ipv4Addr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use tf_api::{kinds::ZOOKEEPER, names};
use tf_testing::{
    Lab, RealNode,
    audit::service_account,
    real::{image, operator},
    resources::{self, Resource},
    wait::eventually,
    work,
};

const OPERATOR: &str = "zookeeper-op";
const NAMESPACE: &str = "tf";
/// More than anything here takes on a machine that does nothing else.
const LIMIT: Duration = Duration::from_mins(5);
const NODES: u32 = 5;

/// One thing that was done.
pub struct Figure {
    what: String,
    seconds: f64,
    /// Of the operator, while it was done: all, and mutating ones without the lease.
    requests: u64,
    writes: u64,
}

/// Measures everything, one after the other, with images from this folder.
pub async fn measure(images: &Path) -> Result<Vec<Figure>> {
    let archives = image::archives_in(images, &[OPERATOR, "tf-node", image::ZOOKEEPER_ARCHIVE])?;
    let lab = operator::installed(NODES, OPERATOR, NAMESPACE, &archives, &[image::ZOOKEEPER]).await?;
    let client = lab.client().await?;
    let mut bench = Bench { lab, client, name: String::new(), figures: Vec::new() };
    // Each in a directory of its own; the last one stays.
    for members in [1, 5, 3] {
        bench.name = format!("zookeeper-of-{members}");
        bench.timed(&format!("apply to Ready, {members} members"), async |bench| bench.resize(members).await).await?;
        bench.certified().await?;
        if members != 3 {
            bench.delete().await?;
        }
    }
    bench.timed("change of configuration, each of 3 members", Bench::configure).await?;
    bench.each(3);
    bench.timed("replacement of pods, each of 3 members", Bench::restart).await?;
    bench.each(3);
    bench.timed("3 to 5 members", async |bench| bench.resize(5).await).await?;
    bench.timed("5 to 3 members", async |bench| bench.resize(3).await).await?;
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
    name: String,
    figures: Vec<Figure>,
}

impl Bench {
    async fn timed(&mut self, what: &str, deed: impl AsyncFnOnce(&Self) -> Result<()>) -> Result<()> {
        println!("{what} ...");
        let (mark, begun) = (self.lab.audit_mark().await?, Instant::now());
        deed(self).await.with_context(|| what.to_owned())?;
        let seconds = begun.elapsed().as_secs_f64();
        let entries = self.lab.audit().window(mark, self.lab.audit_mark().await?)?;
        let used = work::of(&entries, &service_account(NAMESPACE, OPERATOR));
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
        resources::until(&self.client, ZOOKEEPER, NAMESPACE, &self.name, what, LIMIT, wanted).await.map(drop)
    }

    async fn resize(&self, members: usize) -> Result<()> {
        let spec = json!({"commonConfiguration": {"replicas": members}});
        resources::apply(&self.client, ZOOKEEPER, NAMESPACE, &self.name, spec).await?;
        self.until("as wished", |zookeeper| zookeeper.is_ready_with(members)).await
    }

    /// Then the operator asks the members themselves.
    async fn certified(&self) -> Result<()> {
        self.until("certified", |zookeeper| zookeeper.is("CertificatesReady", "True") && zookeeper.is_ready()).await
    }

    async fn delete(&self) -> Result<()> {
        let zookeepers = resources::api(&self.client, ZOOKEEPER, NAMESPACE);
        zookeepers.delete(&self.name, &DeleteParams::default()).await?;
        eventually("all pods to be gone", LIMIT, async || Ok(self.pods().await?.is_empty().then_some(()))).await
    }

    async fn pods(&self) -> Result<Vec<Pod>> {
        resources::pods(&self.client, ZOOKEEPER, NAMESPACE).await
    }

    async fn configure(&self) -> Result<()> {
        let spec = json!({"commonConfiguration": {"replicas": 3, "logLevel": "debug"}});
        resources::apply(&self.client, ZOOKEEPER, NAMESPACE, &self.name, spec).await?;
        self.until("Ready", Resource::is_ready).await
    }

    async fn restart(&self) -> Result<()> {
        let uids = async || anyhow::Ok(self.pods().await?.iter().filter_map(Pod::uid).collect::<BTreeSet<_>>());
        let before = uids().await?;
        let wish = json!({"metadata": {"annotations": {names::ANNOTATION_RESTART: "bench"}}});
        let zookeepers = resources::api(&self.client, ZOOKEEPER, NAMESPACE);
        zookeepers.patch(&self.name, &PatchParams::default(), &Patch::Merge(&wish)).await?;
        eventually("other pods", LIMIT, async || Ok(uids().await?.is_disjoint(&before).then_some(()))).await?;
        self.until("Ready", Resource::is_ready).await
    }

    /// A member cannot reach the others, nor they it.
    async fn fail(&mut self) -> Result<()> {
        let beside = operator::node_of(&self.client, OPERATOR, NAMESPACE).await?;
        let carrying: BTreeSet<String> = self.pods().await?.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
        let nodes = self.lab.real_nodes()?;
        let victim = nodes.all()?.into_iter().find(|node| node.name() != beside && carrying.contains(node.name()));
        let victim = victim.context("a member on another node than the operator")?;
        let others: Vec<String> =
            nodes.all()?.iter().map(RealNode::name).filter(|name| *name != victim.name()).map(str::to_owned).collect();
        let victim_name = [victim.name().to_owned()];
        self.timed("cut of a member to its being told", async |bench| {
            bench.lab.real_nodes()?.cut(&victim_name, &others).await?;
            bench.until("not Ready", |zookeeper| !zookeeper.is_ready()).await
        })
        .await?;
        nodes.heal(&victim_name, &others).await?;
        serves(victim.address()).await?;
        self.timed("a member that serves again to its being told", async |bench| {
            bench.until("Ready", Resource::is_ready).await
        })
        .await
    }
}

/// Waits until a server is part of a quorum.
async fn serves(server: Ipv4Addr) -> Result<()> {
    let look = format!("exec 3<>/dev/tcp/{server}/2181; printf srvr >&3; grep -q Mode <&3");
    eventually("the server to serve", LIMIT, async || {
        let outcome = tokio::process::Command::new("timeout").args(["2", "bash", "-c", &look]).status().await?;
        Ok(outcome.success().then_some(()))
    })
    .await
}
