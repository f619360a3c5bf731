//! Wherever in taking over pods of the Go tf-operator the operator is killed, each pod is replaced once, one at a time, and the
//! members are those that the pods were.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _, api::DeleteParams};
use serde_json::json;
use tf_api::kinds::{CASSANDRA, KindInfo, RABBITMQ, REDIS, ZOOKEEPER};
use tf_testing::{
    Cluster, Entry, Lab, Options, Verb,
    cluster::define_all,
    operators::Operator,
    proxy::{Match, Point, Proxy},
    resources::{self, Resource},
    sample::{Sample, has_turn},
    wait::eventually,
};

use crate::{
    former::{self, members, pods, running},
    stage::{HOME, start},
};

/// Points if nothing else is said.
const DEFAULT: usize = 2;
/// Of so many writes the last one is drawn of which there are always enough.
const DRAWN_FROM: usize = 15;
/// For all three pods.
const LIMIT: Duration = Duration::from_secs(90);

struct Scene {
    kind: KindInfo,
    lab: Arc<Lab>,
    nodes: Cluster,
    proxy: Proxy,
    operator: Arc<Mutex<Operator>>,
    user: String,
}

impl Scene {
    async fn set(operator: &'static str, kind: KindInfo) -> Result<Self> {
        let lab = Arc::new(Lab::start(Options::fleet(0, 0)).await?);
        define_all(&lab).await?;
        Cluster::empty(&lab, HOME).await?;
        let nodes = Cluster::empty(&lab, "nodes").await?;
        nodes.nodes(3, 0).await?;
        let running = start(&lab, operator).await?;
        Ok(Self { kind, lab, nodes, proxy: running.proxy, operator: running.operator, user: running.user })
    }

    /// Takes a store over, with the operator killed after so many writes. Whether there were so many.
    async fn take_over(&self, after: u64) -> Result<bool> {
        let (client, kind, namespace) = (&self.nodes.client, self.kind, format!("former-{after}"));
        let namespace = namespace.as_str();
        let owner = former::owner(kind);
        Cluster::empty(&self.lab, namespace).await?;
        let selector = self.nodes.control_plane();
        // The operator is away while the other one makes its pods.
        self.operator().process.kill()?;
        let mut spec = former::spec(namespace, &selector);
        if kind == CASSANDRA || kind == RABBITMQ {
            let (authority, published) = former::authority(namespace)?;
            for object in [published, former::signed_by(&authority, namespace)] {
                self.lab.apply(&object.to_string()).await?;
            }
            let container = former::kind_of(kind);
            spec["serviceConfiguration"] = json!({"containers": [{"name": container, "image": former::IMAGE}]});
        }
        let uid = resources::apply(client, kind, namespace, &owner, spec).await?.uid().context("no uid")?;
        if kind == RABBITMQ {
            for object in former::of_rabbitmq(client, namespace, &uid).await? {
                self.lab.apply(&object.to_string()).await?;
            }
            former::state_release(client, namespace, "3.10").await?;
        }
        self.lab.apply(&former::workload(kind, namespace, &selector, &uid, 3).to_string()).await?;
        let before = running(client, kind, namespace, 3, 3).await?;
        let mark = self.lab.audit_mark().await?;
        let killed = self.trap(namespace, after);
        self.operator().process.restart()?;

        let mut restarted = false;
        eventually("every pod to be ours", LIMIT, async || {
            if killed.load(Ordering::SeqCst) && !restarted {
                self.operator().process.restart()?;
                restarted = true;
            }
            let are_replaced = former::are_replaced(client, kind, namespace, &before).await?;
            let resource = resources::get(client, kind, namespace, &owner).await?;
            let is_ready = resource.as_ref().is_some_and(Resource::is_ready);
            Ok((are_replaced && is_ready).then_some(()))
        })
        .await?;
        let resource = resources::get(client, kind, namespace, &owner).await?.context("no resource")?;
        let recorded = former::recorded(&resource)?;
        ensure!(recorded == members(&before)?, "the members are {recorded:?}");
        let (entries, _) = self.lab.audit().entries_since(mark)?;
        let is_deletion = |entry: &&Entry| {
            entry.namespace == namespace && entry.resource == "pods" && entry.verb == Verb::Delete && entry.code < 300
        };
        let deletions: Vec<_> = entries.iter().filter(is_deletion).map(|it| (&it.user, &it.name)).collect();
        let by_operator = deletions.iter().filter(|(user, _)| **user == self.user).count();
        ensure!(by_operator == 3, "{deletions:?}");
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.delete(namespace, &DeleteParams::default()).await?;
        // The next one's pods use the same ports of the same nodes.
        let are_gone = async || Ok(pods(client, kind, namespace).await?.is_empty().then_some(()));
        eventually("the pods to be gone", LIMIT, are_gone).await?;
        Ok(restarted)
    }

    /// Kills the operator when it has made its last request; tells then.
    fn trap(&self, namespace: &str, after: u64) -> Arc<AtomicBool> {
        let killed = Arc::new(AtomicBool::new(false));
        let (told, victim, namespace) = (Arc::clone(&killed), Arc::clone(&self.operator), namespace.to_owned());
        let here = Match::when(move |request| request.namespace == namespace);
        self.proxy.after_nth(Match::writes().and(here), after, Point::BeforeDelivery, move |_| async move {
            let killed = victim.lock().unwrap_or_else(PoisonError::into_inner).process.kill();
            told.store(killed.is_ok(), Ordering::SeqCst);
        });
        killed
    }

    fn operator(&self) -> std::sync::MutexGuard<'_, Operator> {
        self.operator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_zookeeper_are_taken_over_once_each_wherever_the_operator_is_killed() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    wherever_it_is_killed("zookeeper-op", ZOOKEEPER).await
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_redis_are_taken_over_once_each_wherever_the_operator_is_killed() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    wherever_it_is_killed("redis-op", REDIS).await
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_cassandra_are_taken_over_once_each_wherever_the_operator_is_killed() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    wherever_it_is_killed("cassandra-op", CASSANDRA).await
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_rabbitmq_are_taken_over_once_each_wherever_the_operator_is_killed() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    wherever_it_is_killed("rabbitmq-op", RABBITMQ).await
}

async fn wherever_it_is_killed(operator: &'static str, kind: KindInfo) -> Result<()> {
    let sample = Sample::from_environment(DEFAULT)?;
    let scene = Scene::set(operator, kind).await?;
    let points: Vec<u64> = match sample {
        // Until there is no such write.
        Sample::All => (1..100).collect(),
        Sample::Some { .. } => sample.draw(DRAWN_FROM, 3).into_iter().map(|index| index as u64 + 1).collect(),
    };
    let mut reached = 0;
    for after in points {
        let label = || format!("killed after write {after}{sample}");
        let is_killed = scene.take_over(after).await.with_context(label)?;
        println!("{operator}: {}: {}", label(), if is_killed { "the same members" } else { "there is no such write" });
        reached += u64::from(is_killed);
        if !is_killed {
            break;
        }
    }
    println!("{operator}: {reached} crash points of a take-over");
    ensure!(reached > 0, "the operator was never killed{sample}");
    Ok(())
}
