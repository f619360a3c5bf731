//! Operators that can be killed, and clusters they bring up one after another.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};
use tf_testing::{
    Cluster, Entry, Lab, Options, Verb,
    cluster::define_all,
    kubeconfig::Endpoint,
    operators::{self, Install, Operator, Run},
    proxy::{Answered, Match, Point, Proxy},
    resources::{self, Resource},
    wait::eventually,
};
use tokio::sync::oneshot;

use crate::{
    credentials::{Name, Recording, generated},
    snapshot::{Masks, Snapshot, differences, take},
};

/// Namespace of the operators, which watch all others.
pub const HOME: &str = "operators";

/// Longest time a bring-up may take, a crash and the start of another process included. A quarter of a minute is usual; what
/// only the next resync would mend takes ten minutes.
const LIMIT: Duration = Duration::from_mins(2);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// So long nobody may write before a state is looked at as an end state.
const QUIET: Duration = Duration::from_secs(1);

/// So long after the last write nothing is under way any more: the runtime defers a status that tells only of progress,
/// by five seconds at most.
const SILENT: Duration = Duration::from_secs(7);

/// Where in a bring-up which operator is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Name of the operator.
    pub operator: &'static str,
    /// After which of its mutating requests in the namespace, from 1.
    pub after: u64,
}

/// What came of a bring-up.
pub struct Outcome {
    /// The end state.
    pub snapshot: Snapshot,
    /// How often each operator wrote, leases apart.
    pub writes: BTreeMap<&'static str, u64>,
    /// The request after which the operator was killed; none if it did not write so often.
    pub killed: Option<Answered>,
    /// From the manifest applied to the end state seen.
    pub took: Duration,
}

/// An operator behind a proxy.
pub struct Running {
    /// The proxy.
    pub proxy: Proxy,
    /// The operator.
    pub operator: Arc<Mutex<Operator>>,
    /// Who it is to the API server.
    pub user: String,
}

/// Nodes that one cluster at a time is on, so that the next need not wait until the last is gone.
struct Pool {
    nodes: Cluster,
    masks: Vec<(String, String)>,
    last: Option<String>,
}

/// A lab with the operators.
pub struct Stage {
    lab: Arc<Lab>,
    client: Client,
    running: BTreeMap<&'static str, Running>,
    pools: [Pool; 2],
    clusters: usize,
}

impl Stage {
    /// Starts all of it.
    pub async fn set() -> Result<Self> {
        let lab = Arc::new(Lab::start(Options::fleet(0, 0)).await?);
        let client = lab.client().await?;
        define_all(&lab).await?;
        Cluster::empty(&lab, HOME).await?;
        let running = try_join_all(operators::ALL.map(|name| start(&lab, name))).await?;
        let pools = [pool(&lab, "pool-a").await?, pool(&lab, "pool-b").await?];
        Ok(Self { lab, client, running: operators::ALL.into_iter().zip(running).collect(), pools, clusters: 0 })
    }

    /// Brings a cluster up and takes it down again. With `expected`, it has to become that.
    pub async fn bring_up(&mut self, crash: Option<Crash>, expected: Option<&Snapshot>) -> Result<Outcome> {
        self.play(None, crash, expected).await
    }

    /// Brings a cluster up, has every member be made anew, and takes it down again. With `expected`, it has to become that; a crash comes during the
    /// change.
    pub async fn change(&mut self, crash: Option<Crash>, expected: Option<&Snapshot>) -> Result<Outcome> {
        self.play(Some(changed), crash, expected).await
    }

    async fn play(
        &mut self,
        change: Option<fn(&mut Value)>,
        crash: Option<Crash>,
        expected: Option<&Snapshot>,
    ) -> Result<Outcome> {
        let turn = self.clusters % self.pools.len();
        let namespace = format!("cluster-{}", self.clusters);
        self.clusters += 1;
        if let Some(last) = self.pools[turn].last.take() {
            self.gone(&last).await?;
        }
        self.pools[turn].last = Some(namespace.clone());
        let outcome = self.run(&self.pools[turn], &namespace, change, crash, expected).await;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&namespace, &DeleteParams::default()).await?;
        outcome
    }

    async fn run(
        &self,
        pool: &Pool,
        namespace: &str,
        change: Option<fn(&mut Value)>,
        crash: Option<Crash>,
        expected: Option<&Snapshot>,
    ) -> Result<Outcome> {
        Cluster::empty(&self.lab, namespace).await?;
        let scene = Scene { pool, namespace, recording: Recording::of(&self.client, namespace).await? };
        let mut manager = pool.nodes.example_manager()?;
        manager["metadata"]["namespace"] = json!(namespace);
        let Some(change) = change else {
            let (outcome, trail) = self.apply(&scene, &manager, crash, expected).await?;
            trail.nothing_was_done_twice(&self.users())?;
            return Ok(outcome);
        };
        self.apply(&scene, &manager, None, None).await.context("the bring-up")?;
        let pods = scene.pods(&self.client).await?;
        change(&mut manager);
        let (outcome, trail) = self.apply(&scene, &manager, crash, expected).await?;
        trail.every_pod_was_replaced_once(&self.users(), &pods)?;
        Ok(outcome)
    }

    /// Applies a Manager and follows what comes of it to the end state. With `expected`, that has to be it.
    async fn apply(
        &self,
        scene: &Scene<'_>,
        manager: &Value,
        crash: Option<Crash>,
        expected: Option<&Snapshot>,
    ) -> Result<(Outcome, Trail<'_>)> {
        let Scene { pool, namespace, recording } = scene;
        let mark = self.lab.audit_mark().await?;
        let mut trail = Trail { lab: &self.lab, namespace: (*namespace).to_owned(), mark, entries: Vec::new() };
        let mut trap = crash.map(|crash| self.trap(namespace, crash)).transpose()?;
        self.lab.apply(&manager.to_string()).await?;

        let begun = Instant::now();
        let (mut last_write, mut killed) = (Instant::now(), None);
        loop {
            if let Some(answered) = trap.as_mut().and_then(Trap::sprung) {
                self.restart(crash)?;
                killed = Some(answered);
                last_write = Instant::now();
            }
            if trail.read(&self.users())? {
                last_write = Instant::now();
            }
            // Without a state to become, or an expected crash that has not come, only time tells that this is the end.
            let quiet = if expected.is_none() || crash.is_some() && killed.is_none() { SILENT } else { QUIET };
            if last_write.elapsed() < quiet && begun.elapsed() < LIMIT {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let found = resources::all(&self.client, namespace).await?;
            if found.len() > 1 && found.iter().all(Resource::is_ready) {
                let credentials = recording.only_values(&generated(&found)?)?;
                let snapshot = take(&self.client, namespace, &masks(pool, namespace, &credentials)).await?;
                let differences = expected.map(|expected| differences(expected, &snapshot)).unwrap_or_default();
                if differences.is_empty() {
                    trail.read(&self.users())?;
                    let took = begun.elapsed();
                    let writes = trail.writes(&self.running);
                    return Ok((Outcome { snapshot, writes, killed, took }, trail));
                }
                if begun.elapsed() > LIMIT {
                    bail!("Ready, but not as undisturbed:\n{}", differences.join("\n"));
                }
            }
            if begun.elapsed() > LIMIT {
                let lines: Vec<String> = found
                    .iter()
                    .map(|resource| format!("{} {}: {}", resource.kind.kind, resource.name, resource.explain("Ready")))
                    .collect();
                bail!("not Ready and quiet after {} s:\n{}", LIMIT.as_secs(), lines.join("\n"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Kills an operator when it has made its last request.
    fn trap(&self, namespace: &str, crash: Crash) -> Result<Trap> {
        let running = self.running.get(crash.operator).context("no such operator")?;
        let (send, receive) = oneshot::channel();
        let trap = Trap { armed: Arc::new(AtomicBool::new(true)), sprung: receive };
        let (armed, victim) = (Arc::clone(&trap.armed), Arc::clone(&running.operator));
        let namespace = namespace.to_owned();
        let here = Match::when(move |request| request.namespace == namespace);
        running.proxy.after_nth(
            Match::writes().and(here),
            crash.after,
            Point::BeforeDelivery,
            move |answered| async move {
                if armed.load(Ordering::SeqCst) {
                    let killed = victim.lock().unwrap_or_else(PoisonError::into_inner).process.kill();
                    if killed.is_ok() {
                        let _ = send.send(answered);
                    }
                }
            },
        );
        Ok(trap)
    }

    fn restart(&self, crash: Option<Crash>) -> Result<()> {
        let running = crash.and_then(|crash| self.running.get(crash.operator)).context("no such operator")?;
        running.operator.lock().unwrap_or_else(PoisonError::into_inner).process.restart()
    }

    fn users(&self) -> BTreeSet<&str> {
        self.running.values().map(|running| running.user.as_str()).collect()
    }

    async fn gone(&self, namespace: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        eventually(&format!("namespace {namespace} to be gone"), LIMIT, async || {
            Ok(namespaces.get_opt(namespace).await?.is_none().then_some(()))
        })
        .await
    }
}

/// A crash that may come. Dropped, it does not come any more: the end of a namespace makes writes, too.
struct Trap {
    armed: Arc<AtomicBool>,
    sprung: oneshot::Receiver<Answered>,
}

impl Trap {
    /// The request it came after, once.
    fn sprung(&mut self) -> Option<Answered> {
        self.sprung.try_recv().ok()
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        self.armed.store(false, Ordering::SeqCst);
    }
}

/// Has every member be made anew, with images of another release and other files.
fn changed(manager: &mut Value) {
    manager["spec"]["version"] = json!("tungstenfabric-latest");
    manager["spec"]["commonConfiguration"]["logLevel"] = json!("debug");
}

/// A cluster on its nodes.
struct Scene<'a> {
    pool: &'a Pool,
    namespace: &'a str,
    recording: Recording,
}

impl Scene<'_> {
    async fn pods(&self, client: &Client) -> Result<BTreeSet<String>> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), self.namespace);
        Ok(pods.list(&ListParams::default()).await?.into_iter().map(|pod| pod.name_any()).collect())
    }
}

/// What the audit log says about a namespace.
struct Trail<'a> {
    lab: &'a Lab,
    namespace: String,
    mark: tf_testing::Mark,
    entries: Vec<Entry>,
}

impl Trail<'_> {
    /// Reads on; true if one of the users has written.
    fn read(&mut self, users: &BTreeSet<&str>) -> Result<bool> {
        let (entries, mark) = self.lab.audit().entries_since(self.mark)?;
        self.mark = mark;
        let before = self.entries.len();
        self.entries.extend(
            entries
                .into_iter()
                .filter(|entry| entry.namespace == self.namespace && entry.counts() && entry.is_mutating()),
        );
        Ok(self.entries[before..].iter().any(|entry| users.contains(entry.user.as_str())))
    }

    fn writes(&self, running: &BTreeMap<&'static str, Running>) -> BTreeMap<&'static str, u64> {
        let count = |user: &str| self.entries.iter().filter(|entry| entry.user == user).count() as u64;
        running.iter().map(|(name, running)| (*name, count(&running.user))).collect()
    }

    /// Nothing was created twice, nothing of ours deleted, and no pod replaced.
    fn nothing_was_done_twice(&self, users: &BTreeSet<&str>) -> Result<()> {
        let mut created = BTreeSet::new();
        for entry in self.entries.iter().filter(|entry| entry.code < 300 && entry.resource != "events") {
            let object = format!("{}/{} {}", entry.group, entry.resource, entry.name);
            let ours = users.contains(entry.user.as_str());
            let pod = entry.resource == "pods" && entry.subresource.is_empty();
            // The log does not know the names that pods of a DaemonSet were given; that none is deleted holds for them, too.
            if (ours || pod) && entry.code == 201 && !entry.name.is_empty() {
                ensure!(created.insert(object.clone()), "{object} was created twice");
            }
            let deletes = matches!(entry.verb, Verb::Delete | Verb::DeleteCollection);
            ensure!(!deletes || !(ours || pod), "{object} was deleted by {}", entry.user);
        }
        Ok(())
    }

    /// Operators deleted each of these pods, and nothing else, and none was made twice in its place. One that is being deleted may be deleted once more
    /// by who has not heard of it yet: its uid is the same.
    fn every_pod_was_replaced_once(&self, users: &BTreeSet<&str>, pods: &BTreeSet<String>) -> Result<()> {
        let (mut deleted, mut created) = (BTreeSet::new(), BTreeSet::new());
        for entry in self.entries.iter().filter(|entry| entry.code < 300) {
            let is_pod = entry.resource == "pods" && entry.subresource.is_empty();
            let ours = users.contains(entry.user.as_str());
            if ours && entry.verb == Verb::Delete {
                ensure!(is_pod, "{} {} was deleted by {}", entry.resource, entry.name, entry.user);
                deleted.insert(entry.name.clone());
            }
            // The log does not know the names that pods of a DaemonSet were given.
            if is_pod && entry.code == 201 && !entry.name.is_empty() {
                ensure!(created.insert(&entry.name), "pod {} was made twice", entry.name);
            }
        }
        ensure!(deleted == *pods, "deleted: {deleted:?}, of {pods:?}");
        Ok(())
    }
}

/// Starts one that watches all namespaces.
pub async fn start(lab: &Lab, name: &'static str) -> Result<Running> {
    let install = Install { values: vec!["watch.scope=cluster".into()], without_definitions: true };
    lab.install(name, HOME, &install).await?;
    let proxy = lab.proxy().await?;
    let endpoint = Endpoint { url: proxy.url(), ca: None };
    let how = Run { endpoint: Some(endpoint), env: vec![("LEADER_ELECTION".into(), "false".into())], ..Run::default() };
    let operator = lab.operate(name, HOME, &how).await?;
    operator.ready().await?;
    let user = operator.user.clone();
    Ok(Running { proxy, operator: Arc::new(Mutex::new(operator)), user })
}

async fn pool(lab: &Arc<Lab>, name: &str) -> Result<Pool> {
    let nodes = Cluster::empty(lab, name).await?;
    let api = lab.nodes().await?;
    let mut masks = vec![(name.to_owned(), "<pool>".to_owned())];
    for (number, node) in nodes.nodes(3, 1).await?.into_iter().enumerate() {
        let address = api.address(&node).await?.to_string();
        // As Erlang writes it.
        masks.push((address.replace('.', ","), format!("<address {number}>")));
        masks.push((address, format!("<address {number}>")));
        masks.push((node, format!("<node {number}>")));
    }
    Ok(Pool { nodes, masks, last: None })
}

fn masks(pool: &Pool, namespace: &str, credentials: &BTreeMap<Name, String>) -> Masks {
    let credentials =
        credentials.iter().map(|((secret, key), value)| (value.clone(), format!("<key {key} of {secret}>")));
    let namespace = (namespace.to_owned(), "<namespace>".to_owned());
    Masks::new(pool.masks.iter().cloned().chain(credentials).chain([namespace]))
}
