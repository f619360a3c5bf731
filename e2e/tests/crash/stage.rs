//! Operators that can be killed, and clusters they bring up one after another.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, mem,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};
use tf_api::kinds::MANAGER;
use tf_testing::{
    Cluster, Component, Entry, Lab, Options, Verb,
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
    snapshot::{Masks, Snapshot, differences, take, without_generations},
};

/// Namespace of the operators, which watch all others.
pub const HOME: &str = "operators";

/// Longest time a bring-up may take, a crash and the start of another process included. A quarter of a minute is usual; what
/// only the next resync would mend takes ten minutes.
const LIMIT: Duration = Duration::from_mins(2);

/// The same where every member is replaced: each of three settles before the next one, in four ranks of components that wait for each other. Beside the
/// other programs of the layer two minutes were too few.
const LIMIT_OF_CHANGE: Duration = Duration::from_mins(4);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// So long nobody may write before a state is looked at as an end state.
const QUIET: Duration = Duration::from_secs(1);

/// So long after the last write nothing is under way any more: the runtime defers a status that tells only of progress,
/// by five seconds at most.
const SILENT: Duration = Duration::from_secs(7);

/// How the API server logs a request whose client is gone.
const CUT_OFF: u16 = 504;

/// What is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// A cluster comes up.
    BringUp,
    /// Every member of one is made anew.
    Change,
}

/// What happens after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happens {
    /// The operator is killed, and started again.
    Killed,
    /// The Manager is set back to what it was; once all is so again, it is set to what is wished.
    SetBack,
    /// The Manager is set to something else, and to what is wished as soon as the operator has done something for that.
    SetAside,
    /// The operator's resources are deleted, and made anew by the Manager. It itself is made anew when nothing of it is left.
    Deleted,
}

impl fmt::Display for Happens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "killed",
            Self::SetBack => "set back",
            Self::SetAside => "set to something else",
            Self::Deleted => "deleted",
        })
    }
}

impl Happens {
    /// The requests after which it happens: between two that merely tell something another wish makes no difference.
    fn counts(self) -> Match {
        if self == Self::Killed { Match::writes() } else { Match::deeds() }
    }
}

/// What happens when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// Name of the operator.
    pub operator: &'static str,
    /// After which of its requests in the namespace, from 1.
    pub after: u64,
    /// What happens.
    pub happens: Happens,
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} after write {}", self.operator, self.happens, self.after)
    }
}

/// How often an operator wrote.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    /// Leases apart.
    all: u64,
    /// Of what is not merely told.
    deeds: u64,
}

/// What came of a course.
pub struct Outcome {
    /// The end state.
    pub snapshot: Snapshot,
    /// The state before, if it was a change.
    former: Option<Snapshot>,
    writes: BTreeMap<&'static str, Writes>,
    /// The request after which it was disturbed; none if the operator did not write so often.
    pub disturbed: Option<Answered>,
    /// From the manifest applied to the end state seen.
    pub took: Duration,
}

impl Outcome {
    /// How often an operator wrote what counts for this.
    pub fn writes_of(&self, operator: &str, happens: Happens) -> u64 {
        let writes = self.writes.get(operator).copied().unwrap_or_default();
        if happens == Happens::Killed { writes.all } else { writes.deeds }
    }
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

/// A cluster that is changed there and back.
struct Standing {
    turn: usize,
    namespace: String,
    snapshot: Snapshot,
    is_changed: bool,
}

/// A lab with the operators.
pub struct Stage {
    lab: Arc<Lab>,
    client: Client,
    running: BTreeMap<&'static str, Running>,
    pools: [Pool; 2],
    clusters: usize,
    standing: Option<Standing>,
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
        let running = operators::ALL.into_iter().zip(running).collect();
        Ok(Self { lab, client, running, pools, clusters: 0, standing: None })
    }

    /// Brings a cluster up and takes it down again, or has every member of one be made anew, and those of the same the next time. It has to become
    /// what came of the `undisturbed` course, if that is known.
    pub async fn play(
        &mut self,
        course: Course,
        disturbance: Option<Disturbance>,
        undisturbed: Option<&Outcome>,
    ) -> Result<Outcome> {
        match course {
            Course::BringUp => {
                let (turn, namespace) = self.room().await?;
                let expected = undisturbed.map(|it| &it.snapshot);
                let outcome = self.bring_up(turn, &namespace, disturbance, expected).await;
                self.leave(&namespace).await?;
                outcome
            }
            Course::Change => {
                let mut standing = match self.standing.take() {
                    Some(standing) => standing,
                    None => self.stand(undisturbed).await.context("the bring-up")?,
                };
                let outcome = self.change(&mut standing, disturbance, undisturbed).await;
                match &outcome {
                    Ok(_) => self.standing = Some(standing),
                    // Whatever it is now, it is no state to begin with.
                    Err(_) => self.leave(&standing.namespace).await?,
                }
                outcome
            }
        }
    }

    /// A cluster that can be changed.
    async fn stand(&mut self, undisturbed: Option<&Outcome>) -> Result<Standing> {
        let (turn, namespace) = self.room().await?;
        let expected = undisturbed.and_then(|it| it.former.as_ref());
        match self.bring_up(turn, &namespace, None, expected).await {
            Ok(Outcome { snapshot, .. }) => Ok(Standing { turn, namespace, snapshot, is_changed: false }),
            Err(error) => {
                self.leave(&namespace).await?;
                Err(error)
            }
        }
    }

    /// A new namespace, and the nodes for it.
    async fn room(&mut self) -> Result<(usize, String)> {
        let turn = self.clusters % self.pools.len();
        let namespace = format!("cluster-{}", self.clusters);
        self.clusters += 1;
        if let Some(last) = self.pools[turn].last.take() {
            self.gone(&last).await?;
        }
        self.pools[turn].last = Some(namespace.clone());
        Cluster::empty(&self.lab, &namespace).await?;
        Ok((turn, namespace))
    }

    async fn leave(&self, namespace: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(namespace, &DeleteParams::default()).await?;
        Ok(())
    }

    async fn bring_up(
        &self,
        turn: usize,
        namespace: &str,
        disturbance: Option<Disturbance>,
        expected: Option<&Snapshot>,
    ) -> Result<Outcome> {
        let pool = &self.pools[turn];
        let recording = Recording::of(&self.client, namespace).await?;
        let scene = Scene { pool, namespace, recording, former: None };
        let (outcome, trail) = self.apply(&scene, &pool.manager(namespace)?, disturbance, expected).await?;
        trail.nothing_was_done_twice(&self.users())?;
        Ok(outcome)
    }

    /// Has every member be made anew. Which way, there or back, depends on where it is.
    async fn change(
        &self,
        standing: &mut Standing,
        disturbance: Option<Disturbance>,
        undisturbed: Option<&Outcome>,
    ) -> Result<Outcome> {
        let Standing { turn, ref namespace, .. } = *standing;
        let pool = &self.pools[turn];
        let manager = pool.manager(namespace)?;
        let (former, wish, expected) = if standing.is_changed {
            (changed(manager.clone()), manager, undisturbed.and_then(|it| it.former.as_ref()))
        } else {
            (manager.clone(), changed(manager), undisturbed.map(|it| &it.snapshot))
        };
        let recording = Recording::of(&self.client, namespace).await?;
        let scene = Scene { pool, namespace, recording, former: Some((former, &standing.snapshot)) };
        let pods = scene.pods(&self.client).await?;
        let (outcome, trail) = self.apply(&scene, &wish, disturbance, expected).await?;
        match disturbance {
            Some(it) if it.happens != Happens::Killed && outcome.disturbed.is_some() => {
                let manager = &self.running["manager-op"].user;
                trail.no_pod_was_replaced_in_vain(&self.users(), manager, &pods, it.happens)?;
            }
            _ => trail.every_pod_was_replaced_once(&self.users(), &pods)?,
        }
        standing.is_changed = !standing.is_changed;
        let former = mem::replace(&mut standing.snapshot, outcome.snapshot.clone());
        Ok(Outcome { former: Some(former), ..outcome })
    }

    /// Applies a Manager and follows what comes of it to the end state. With `expected`, that has to be it.
    async fn apply(
        &self,
        scene: &Scene<'_>,
        manager: &Value,
        disturbance: Option<Disturbance>,
        expected: Option<&Snapshot>,
    ) -> Result<(Outcome, Trail<'_>)> {
        let Scene { pool, namespace, recording, .. } = scene;
        let mut trail = Trail::begin(&self.lab, namespace).await?;
        let mut trap = disturbance.map(|it| self.trap(namespace, it)).transpose()?;
        self.lab.apply(&manager.to_string()).await?;

        let begun = Instant::now();
        let (mut last_write, mut disturbed) = (Instant::now(), None::<Answered>);
        let limit = if scene.former.is_some() { LIMIT_OF_CHANGE } else { LIMIT };
        let limit = |disturbed: bool| if disturbed { 2 * limit } else { limit };
        loop {
            let sprung = if let Some(trap) = &mut trap {
                trap.sprung(LOOK).await
            } else {
                tokio::time::sleep(LOOK).await;
                None
            };
            if let Some(answered) = sprung
                && let (Some(disturbance), Some(trap)) = (disturbance, trap.take())
            {
                self.disturb(scene, disturbance, manager, trap).await.context("the disturbance")?;
                disturbed = Some(answered);
                last_write = Instant::now();
            }
            if trail.read(&self.users())? {
                last_write = Instant::now();
            }
            // Without a state to become, or an expected disturbance that has not come, only time tells that this is the end.
            let quiet = if expected.is_none() || disturbance.is_some() && disturbed.is_none() { SILENT } else { QUIET };
            let is_over = begun.elapsed() > limit(disturbed.is_some());
            if last_write.elapsed() < quiet && !is_over {
                continue;
            }
            let found = resources::all(&self.client, namespace).await?;
            if found.len() > 1 && found.iter().all(Resource::is_ready) {
                let names = generated(&found)?;
                let is_anew = disturbed.is_some() && disturbance.is_some_and(|it| it.happens == Happens::Deleted);
                let credentials = if is_anew {
                    current(&self.client, namespace, &names).await?
                } else {
                    recording.only_values(&names)?
                };
                let snapshot = take(&self.client, namespace, &masks(pool, namespace, &credentials)).await?;
                let differences = expected.map(|it| scene.differences(it, &snapshot)).unwrap_or_default();
                if differences.is_empty() {
                    trail.read(&self.users())?;
                    let took = begun.elapsed();
                    let writes = trail.writes(&self.running);
                    return Ok((Outcome { snapshot, former: None, writes, disturbed, took }, trail));
                }
                if is_over {
                    bail!("Ready, but not as undisturbed:\n{}", differences.join("\n"));
                }
            }
            if is_over {
                let lines: Vec<String> = found
                    .iter()
                    .map(|resource| format!("{} {}: {}", resource.kind.kind, resource.name, resource.explain("Ready")))
                    .collect();
                bail!("not Ready and quiet after {} s:\n{}", begun.elapsed().as_secs(), lines.join("\n"));
            }
        }
    }

    /// Does what happens after a write whose answer is held back. What is wished in the end is wished then.
    async fn disturb(&self, scene: &Scene<'_>, disturbance: Disturbance, manager: &Value, trap: Trap) -> Result<()> {
        let wish = manager.to_string();
        match disturbance.happens {
            Happens::Killed => {
                let running = self.running.get(disturbance.operator).context("no such operator")?;
                let mut operator = running.operator.lock().unwrap_or_else(PoisonError::into_inner);
                operator.process.kill()?;
                drop(trap);
                return operator.process.restart();
            }
            Happens::SetBack => {
                let (manager, snapshot) = scene.former.as_ref().context("there was nothing before")?;
                self.lab.apply(&manager.to_string()).await?;
                drop(trap);
                Box::pin(self.apply(scene, manager, None, Some(*snapshot))).await.context("set back")?;
            }
            Happens::SetAside => {
                let (former, _) = scene.former.as_ref().context("there was nothing before")?;
                let mut next = self.trap(scene.namespace, Disturbance { after: 1, ..disturbance })?;
                self.lab.apply(&changed_otherwise(former.clone()).to_string()).await?;
                drop(trap);
                next.sprung(LIMIT).await.context("nothing was done for something else")?;
            }
            Happens::Deleted => {
                let is_theirs = |it: &Resource| it.kind.operator == disturbance.operator;
                let found = resources::all(&self.client, scene.namespace).await?;
                let deleted: Vec<_> = found.into_iter().filter(is_theirs).collect();
                for it in &deleted {
                    let api = resources::api(&self.client, it.kind, scene.namespace);
                    api.delete(&it.name, &DeleteParams::default()).await?;
                }
                drop(trap);
                let uids: BTreeSet<_> = deleted.iter().filter_map(|it| it.object.uid()).collect();
                let is_manager = deleted.iter().any(|it| it.kind == MANAGER);
                eventually("what was deleted to be gone", LIMIT, async || {
                    let found = resources::all(&self.client, scene.namespace).await?;
                    let is_left = |it: &Resource| is_manager || it.object.uid().is_some_and(|uid| uids.contains(&uid));
                    Ok((!found.iter().any(is_left)).then_some(()))
                })
                .await?;
            }
        }
        self.lab.apply(&wish).await?;
        Ok(())
    }

    /// Waits for the request after which something is to happen.
    fn trap(&self, namespace: &str, disturbance: Disturbance) -> Result<Trap> {
        let running = self.running.get(disturbance.operator).context("no such operator")?;
        let ((send, sprung), (held, release)) = (oneshot::channel(), oneshot::channel::<()>());
        let (namespace, set) = (namespace.to_owned(), Arc::new(()));
        let is_set = Arc::downgrade(&set);
        let here = Match::when(move |request| request.namespace == namespace && is_set.strong_count() > 0);
        let counts = disturbance.happens.counts().and(here);
        running.proxy.after_nth(counts, disturbance.after, Point::BeforeDelivery, move |answered| async move {
            if send.send(answered).is_ok() {
                // Until the trap is dropped.
                let _ = release.await;
            }
        });
        Ok(Trap { sprung, _held: held, _set: set })
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

/// A request that is waited for, and whose answer is held back then until this is dropped.
struct Trap {
    sprung: oneshot::Receiver<Answered>,
    _held: oneshot::Sender<()>,
    /// Requests count as long as this is.
    _set: Arc<()>,
}

impl Trap {
    /// The request, if it comes in this time.
    async fn sprung(&mut self, within: Duration) -> Option<Answered> {
        tokio::time::timeout(within, &mut self.sprung).await.ok()?.ok()
    }
}

/// Has every member be made anew, with images of another release and other files.
fn changed(mut manager: Value) -> Value {
    manager["spec"]["version"] = json!("tungstenfabric-latest");
    manager["spec"]["commonConfiguration"]["logLevel"] = json!("debug");
    manager
}

/// The same in another way.
fn changed_otherwise(mut manager: Value) -> Value {
    manager["spec"]["commonConfiguration"]["imagePullSecrets"] = json!(["other"]);
    manager["spec"]["commonConfiguration"]["logLevel"] = json!("warning");
    manager
}

/// A cluster on its nodes.
struct Scene<'a> {
    pool: &'a Pool,
    namespace: &'a str,
    recording: Recording,
    /// What was wished before, and what came of it.
    former: Option<(Value, &'a Snapshot)>,
}

impl Scene<'_> {
    async fn pods(&self, client: &Client) -> Result<BTreeSet<String>> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), self.namespace);
        Ok(pods.list(&ListParams::default()).await?.into_iter().map(|pod| pod.name_any()).collect())
    }

    fn differences(&self, expected: &Snapshot, found: &Snapshot) -> Vec<String> {
        // Of a cluster that is changed again and again, how often it was says nothing.
        if self.former.is_some() {
            differences(&without_generations(expected), &without_generations(found))
        } else {
            differences(expected, found)
        }
    }
}

/// What the audit log says about a namespace.
struct Trail<'a> {
    lab: &'a Lab,
    namespace: String,
    mark: tf_testing::Mark,
    entries: Vec<Entry>,
}

impl<'a> Trail<'a> {
    async fn begin(lab: &'a Lab, namespace: &str) -> Result<Self> {
        let mark = lab.audit_mark().await?;
        Ok(Self { lab, namespace: namespace.to_owned(), mark, entries: Vec::new() })
    }

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

    fn writes(&self, running: &BTreeMap<&'static str, Running>) -> BTreeMap<&'static str, Writes> {
        let count = |user: &str| {
            let theirs = || self.entries.iter().filter(|entry| entry.user == user);
            Writes { all: theirs().count() as u64, deeds: theirs().filter(|entry| !entry.is_told()).count() as u64 }
        };
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
    /// by who has not heard of it yet: its uid is the same. kwok removes a deleted pod by its name, and at times the next one of that name with it.
    /// The API server logs a time-out, and carries out, what it was asked by who has been killed since.
    fn every_pod_was_replaced_once(&self, users: &BTreeSet<&str>, pods: &BTreeSet<String>) -> Result<()> {
        let (kwok, _) = Component::Kwok.user().context("kwok has no user")?;
        let (mut deleted, mut leaving, mut created) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for entry in self.entries.iter().filter(|entry| entry.code < 300 || entry.code == CUT_OFF) {
            let is_pod = entry.resource == "pods" && entry.subresource.is_empty();
            let is_deletion = entry.verb == Verb::Delete;
            if is_deletion && users.contains(entry.user.as_str()) {
                ensure!(is_pod, "{} {} was deleted by {}", entry.resource, entry.name, entry.user);
                deleted.insert(entry.name.clone());
                leaving.insert(&entry.name);
            } else if is_deletion && is_pod && entry.user == kwok && !leaving.remove(&entry.name) {
                created.remove(&entry.name);
            }
            // The log does not know the names that pods of a DaemonSet were given.
            if is_pod && entry.code == 201 && !entry.name.is_empty() {
                ensure!(created.insert(&entry.name), "pod {} was made twice", entry.name);
            }
        }
        ensure!(deleted == *pods, "deleted: {deleted:?}, of {pods:?}");
        Ok(())
    }

    /// Operators deleted no more pods of each workload than the last wish and those before it need, and nothing else. At most one pod of a workload
    /// is on its way when its resource hears of something else, and it may have to be made anew then.
    fn no_pod_was_replaced_in_vain(
        &self,
        users: &BTreeSet<&str>,
        manager: &str,
        pods: &BTreeSet<String>,
        happens: Happens,
    ) -> Result<()> {
        let workloads: BTreeSet<&str> = pods.iter().map(|pod| workload(pod)).collect();
        for of in workloads {
            let members = pods.iter().filter(|pod| workload(pod) == of).count();
            // For each wish that its resource heard of, one after the other; nothing before the first one.
            let mut deleted = vec![0];
            let mut leaving = BTreeSet::new();
            for entry in self.entries.iter().filter(|entry| entry.code < 300 && !entry.is_told()) {
                let (is_pod, is_deletion) = (entry.resource == "pods", entry.verb == Verb::Delete);
                if entry.user == manager && !entry.name.is_empty() && of.starts_with(&format!("{}-", entry.name)) {
                    deleted.push(0);
                } else if is_deletion && users.contains(entry.user.as_str()) {
                    ensure!(is_pod, "{} {} was deleted by {}", entry.resource, entry.name, entry.user);
                    let is_another = workload(&entry.name) == of && leaving.insert(&entry.name);
                    deleted.last_mut().into_iter().for_each(|count| *count += usize::from(is_another));
                } else if is_pod && entry.code == 201 {
                    leaving.remove(&entry.name);
                }
            }
            let is_needed = match (happens, deleted.as_slice()) {
                (Happens::SetBack, &[.., first, back, last]) => back <= first + 2 && last == members,
                (Happens::SetBack, &[.., last]) => last == members,
                (Happens::SetAside, &[.., aside, _]) => deleted.iter().sum::<usize>() <= members + 2 * aside + 2,
                _ => deleted.iter().sum::<usize>() <= members,
            };
            ensure!(is_needed, "pods of {of}, which has {members}, were deleted {deleted:?} times for each wish");
        }
        Ok(())
    }
}

/// The value of each of these keys now.
async fn current(client: &Client, namespace: &str, names: &BTreeSet<Name>) -> Result<BTreeMap<Name, String>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let list = secrets.list(&ListParams::default()).await?;
    let values = list.items.into_iter().flat_map(|secret| {
        let name = secret.metadata.name.unwrap_or_default();
        secret.data.unwrap_or_default().into_iter().map(move |(key, value)| ((name.clone(), key), value.0))
    });
    let known: BTreeMap<Name, Vec<u8>> = values.collect();
    let value = |name: &Name| {
        let value = known.get(name).with_context(|| format!("key {} of Secret {} has no value", name.1, name.0))?;
        Ok((name.clone(), String::from_utf8(value.clone()).context("a credential is text")?))
    };
    names.iter().map(value).collect()
}

/// The workload of a pod with this name.
fn workload(pod: &str) -> &str {
    pod.rsplit_once('-').map_or(pod, |(workload, _)| workload)
}

impl Pool {
    /// The Manager of a cluster on these nodes.
    fn manager(&self, namespace: &str) -> Result<Value> {
        let mut manager = self.nodes.example_manager()?;
        manager["metadata"]["namespace"] = json!(namespace);
        Ok(manager)
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
