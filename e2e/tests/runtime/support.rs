//! What the tests of this folder share: namespaces of their own, operators in them, and looking at what happened.

use std::{
    fs,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use e2e::probe::{self, Probe};
use futures::StreamExt as _;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds};
use tf_plan::{
    component::Component as _,
    object::{CONFIG_MAP, Kind},
    rbac::rules,
    rule::{Reach, Rule},
};
use tf_testing::{
    Entry, IpFamily, Lab, Mark, Options, SharedLab,
    nodes::{Role, Simulated},
    operators::{Install, Operator, Run, repository},
    proxy::{Match, Outcome, Proxy},
    resources::{self, Resource},
    wait::eventually,
};
use tokio::sync::RwLock;

/// Controllers, a scheduler and, per test, nodes of its own: for tests in which pods run.
pub static FLEET: SharedLab = SharedLab::new(|| Options::fleet(0, 0));

/// An API server without controllers, for tests with thousands of objects or an operator that sees all namespaces.
pub static API: SharedLab = SharedLab::new(Options::api);

/// Held for writing by a test that keeps both cores of a small machine busy, for reading by one that measures seconds of
/// others: how soon they act then says nothing about them.
pub static QUIET: RwLock<()> = RwLock::const_new(());

/// For what takes a second or two on a machine with nothing else to do.
pub const SOON: Duration = Duration::from_secs(30);

/// A change is acted on within this time, whatever else is wrong. On an idle machine it is well below a second; the rest is
/// for one that runs the other tests at the same time. It is shorter than any wait of the runtime for a single request.
pub const PROMPT: Duration = Duration::from_secs(5);

/// A kind that stays missing is looked for every 20 s, with jitter.
pub const FOUND: Duration = Duration::from_secs(30);

/// Definitions themselves.
pub const DEFINITION: Kind = Kind {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    namespaced: false,
    counts_generations: true,
};

/// Label of the nodes of one test; the value is its namespace.
pub const NODE_LABEL: &str = "e2e.tungsten.io/stage";

/// Numbers of nodes and so their addresses, unique in a lab that several tests share.
static NEXT_NODE: AtomicU32 = AtomicU32::new(1);

/// A namespace for one test.
pub struct Stage {
    /// The lab it is in.
    pub lab: Arc<Lab>,
    /// A client of the administrator.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
}

impl Stage {
    /// A new namespace in a lab, with the definitions of these kinds.
    pub async fn set(lab: Arc<Lab>, namespace: &str, kinds: &[KindInfo]) -> Result<Self> {
        lab.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}")).await?;
        for kind in kinds {
            define(&lab, *kind).await?;
        }
        let client = lab.client().await?;
        Ok(Self { lab, client, namespace: namespace.to_owned() })
    }

    /// Nodes that only this test selects, by [`NODE_LABEL`].
    pub async fn nodes(&self, count: u32) -> Result<()> {
        let first = NEXT_NODE.fetch_add(count, Ordering::Relaxed);
        let mut nodes = Vec::new();
        for (number, index) in (first..first + count).enumerate() {
            let mut node = Simulated::new(Role::Worker, index, IpFamily::V4);
            node.name = format!("{}-{number}", self.namespace);
            node.labels.insert(NODE_LABEL.into(), self.namespace.clone());
            nodes.push(node);
        }
        let api = self.lab.nodes().await?;
        api.create(&nodes).await?;
        api.wait_ready().await
    }

    /// `commonConfiguration` for members on the nodes of this test.
    pub fn placed(&self) -> Value {
        json!({ "nodeSelector": { NODE_LABEL: self.namespace } })
    }

    /// Installs the probe for these namespaces, none for all of the cluster.
    pub async fn install_probe(&self, watched: &[&str]) -> Result<()> {
        self.lab.apply(&probe_manifest(&self.namespace, watched)).await?;
        Ok(())
    }

    /// Starts the probe, which is installed, and waits until it is ready.
    pub async fn probe(&self, how: Run) -> Result<Operator> {
        let operator = self.start_probe(how).await?;
        operator.ready().await?;
        Ok(operator)
    }

    /// Starts the probe.
    pub async fn start_probe(&self, how: Run) -> Result<Operator> {
        let folder = Path::new(env!("CARGO_BIN_EXE_probe-op")).parent().context("no folder")?;
        let how = Run { binaries: Some(folder.to_owned()), ..how };
        self.lab.operate(probe::OPERATOR, &self.namespace, &how).await
    }

    /// Installs an operator from its chart, starts it, and waits until it is ready.
    pub async fn install(&self, name: &'static str, how: Run) -> Result<Operator> {
        let install = Install { without_definitions: true, ..Install::default() };
        self.lab.install(name, &self.namespace, &install).await?;
        let operator = self.lab.operate(name, &self.namespace, &how).await?;
        operator.ready().await?;
        Ok(operator)
    }

    /// Applies a resource, as a user would.
    pub async fn apply(&self, kind: KindInfo, name: &str, spec: Value) -> Result<()> {
        resources::apply(&self.client, kind, &self.namespace, name, spec).await?;
        Ok(())
    }

    /// Waits until a resource is Ready.
    pub async fn ready(&self, kind: KindInfo, name: &str) -> Result<Resource> {
        resources::ready(&self.client, kind, &self.namespace, name, Duration::from_mins(1)).await
    }

    /// Waits until a resource is as wanted.
    pub async fn until(
        &self,
        kind: KindInfo,
        name: &str,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&Resource) -> bool,
    ) -> Result<Resource> {
        resources::until(&self.client, kind, &self.namespace, name, what, limit, wanted).await
    }

    /// A resource, which has to exist.
    pub async fn get(&self, kind: KindInfo, name: &str) -> Result<Resource> {
        let found = resources::get(&self.client, kind, &self.namespace, name).await?;
        found.with_context(|| format!("{} {name} does not exist", kind.kind))
    }

    /// Objects of any kind in the namespace of the test; in the cluster if the kind has none.
    pub fn api(&self, kind: Kind) -> Api<DynamicObject> {
        self.api_in(kind, &self.namespace)
    }

    /// Objects of any kind in another namespace.
    pub fn api_in(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        resources::objects(&self.client, kind, namespace)
    }

    /// Changes an object as somebody else would, by a merge patch.
    pub async fn edit(&self, kind: Kind, name: &str, patch: Value) -> Result<DynamicObject> {
        let parameters = PatchParams { field_manager: Some("somebody-else".into()), ..PatchParams::default() };
        self.api(kind).patch(name, &parameters, &Patch::Merge(patch)).await.with_context(|| format!("editing {name}"))
    }

    /// Waits until an object satisfies `wanted`; on failure the error shows it.
    pub async fn object(
        &self,
        kind: Kind,
        name: &str,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> Result<DynamicObject> {
        let api = self.api(kind);
        let mut last = String::from("it does not exist");
        let found = eventually(&format!("{} {name} {what}", kind.kind), limit, async || {
            let object = api.get_opt(name).await?;
            if let Some(object) = &object {
                last = serde_json::to_string(&object)?;
            }
            Ok(object.filter(&wanted))
        })
        .await;
        found.with_context(|| last)
    }

    /// Waits until the operator has carried out the log level of a resource of the probe's kind.
    pub async fn acted(&self, name: &str, level: &str, limit: Duration) -> Result<DynamicObject> {
        let what = format!("with level {level}");
        self.object(CONFIG_MAP, &settings(name), &what, limit, |map| map.data["data"]["level"] == level).await
    }

    /// A mark in the audit log behind everything so far.
    pub async fn mark(&self) -> Result<Mark> {
        self.lab.audit().mark_after_barrier(&self.client).await
    }

    /// What a user has changed, or tried to, since the mark; leases apart.
    pub async fn writes_since(&self, mark: Mark, user: &str) -> Result<Vec<Entry>> {
        let entries = self.lab.audit().window(mark, self.mark().await?)?;
        Ok(entries
            .into_iter()
            .filter(|entry| entry.user == user && entry.counts() && entry.is_mutating() && !entry.is_lease())
            .collect())
    }
}

/// Spec of a resource of the probe's kind with this log level.
pub fn level(level: &str) -> Value {
    json!({ "commonConfiguration": { "logLevel": level } })
}

/// Name of the ConfigMap of a resource of the probe's kind.
pub fn settings(name: &str) -> String {
    format!("{name}-redis-settings")
}

/// Whether the name of an object is that of a resource of the probe's kind, or of an object it owns.
pub fn is_of(resource: &str, object: &str) -> bool {
    let part = format!("{resource}-redis");
    object == resource || object.starts_with(&part) || object.ends_with(&format!("-{part}"))
}

/// Requests about one resource of the probe's kind and the objects it owns; collections and watches are not among them.
pub fn about(resource: &str) -> Match {
    let resource = resource.to_owned();
    Match::when(move |request| is_of(&resource, &request.name))
}

/// Requests about the settings of one resource of the probe's kind that would change them.
pub fn writes_of_settings(resource: &str) -> Match {
    let name = settings(resource);
    Match::writes().and(Match::when(move |request| request.name == name))
}

/// How often a proxy has seen a request that matches and came to this end.
pub fn times(proxy: &Proxy, when: &Match, outcome: Outcome) -> usize {
    proxy.seen().iter().filter(|seen| seen.outcome == outcome && when.matches(&seen.request)).count()
}

/// Installs the definition of a kind.
pub async fn define(lab: &Lab, kind: KindInfo) -> Result<()> {
    let path = repository().join(format!("crds/{}.yaml", kind.plural));
    let definition = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    lab.apply(&definition).await?;
    // Discovery names a kind a moment before its requests are answered.
    let api: Api<DynamicObject> = Api::all_with(lab.client().await?, &resources::resource_of(Kind::custom(kind)));
    eventually(&format!("{} to be served", kind.plural), SOON, async || {
        match api.list(&ListParams::default().limit(1)).await {
            Ok(_) => Ok(Some(())),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// How a program reaches the API server through a proxy.
pub fn through(proxy: &Proxy) -> Run {
    Run { endpoint: Some(tf_testing::kubeconfig::Endpoint { url: proxy.url(), ca: None }), ..Run::default() }
}

/// Requests as lines, for failure messages.
pub fn lines(entries: &[Entry]) -> Vec<String> {
    let line = |entry: &Entry| {
        let sub = if entry.subresource.is_empty() { String::new() } else { format!("/{}", entry.subresource) };
        format!("{:?} {}{sub} {}/{} {}", entry.verb, entry.resource, entry.namespace, entry.name, entry.code)
    };
    entries.iter().map(line).collect()
}

/// Ends an operator by request, as a kubelet does, and waits until it is gone. The error says how long it took.
pub async fn terminate(operator: &mut Operator, limit: Duration) -> Result<Duration> {
    let begun = Instant::now();
    operator.process.terminate()?;
    eventually("the operator to end", limit, async || Ok((!operator.process.is_running()).then_some(()))).await?;
    Ok(begun.elapsed())
}

/// Every version of one resource, from before its creation on.
pub struct History {
    versions: Arc<Mutex<Vec<DynamicObject>>>,
    task: tokio::task::JoinHandle<()>,
}

impl History {
    /// Begins to watch a resource that does not exist yet.
    pub async fn of(stage: &Stage, kind: KindInfo, name: &str) -> Result<Self> {
        let api = resources::api(&stage.client, kind, &stage.namespace);
        let list = api.list(&ListParams::default()).await?;
        let version = list.metadata.resource_version.context("a list without a version")?;
        let parameters = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(290);
        let mut events = api.watch(&parameters, &version).await?.boxed();
        let versions: Arc<Mutex<Vec<DynamicObject>>> = Arc::default();
        let writer = Arc::clone(&versions);
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match event {
                    Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) => {
                        writer.lock().unwrap_or_else(PoisonError::into_inner).push(object);
                    }
                    Ok(WatchEvent::Bookmark(_)) => {}
                    Ok(WatchEvent::Error(status)) => panic!("the history of a resource ended: {status:?}"),
                    Err(error) => panic!("the history of a resource ended: {error}"),
                }
            }
        });
        Ok(Self { versions, task })
    }

    /// What was seen so far.
    pub fn versions(&self) -> Result<Vec<DynamicObject>> {
        ensure!(!self.task.is_finished(), "the watch has ended");
        Ok(self.versions.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// ServiceAccount, rights and (without replicas) the Deployment of the probe: what a chart would bring.
fn probe_manifest(namespace: &str, watched: &[&str]) -> String {
    let name = probe::OPERATOR;
    let (cluster_name, lease_name) = (format!("{namespace}-{name}"), format!("{name}-lease"));
    let rules = rules(&Probe::declaration());
    let of = |reach: Reach| rules.iter().filter(|rule| rule.reach == reach).map(policy).collect::<Vec<_>>();
    let subjects = json!([{ "kind": "ServiceAccount", "name": name, "namespace": namespace }]);
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": namespace },
    })];
    let mut grant = |place: Option<&str>, name: &str, rules: Vec<Value>| {
        let (role, binding) =
            if place.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
        let metadata = json!({ "name": name, "namespace": place });
        let api_version = "rbac.authorization.k8s.io/v1";
        let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name });
        objects.push(json!({ "apiVersion": api_version, "kind": role, "metadata": metadata, "rules": rules }));
        objects.push(json!({
            "apiVersion": api_version, "kind": binding, "metadata": metadata, "roleRef": reference, "subjects": subjects,
        }));
    };
    for place in watched {
        grant(Some(place), name, of(Reach::Watched));
    }
    if watched.is_empty() {
        grant(None, &cluster_name, of(Reach::Watched));
    }
    grant(Some(namespace), &lease_name, of(Reach::Release));
    grant(None, &format!("{cluster_name}-cluster"), of(Reach::Cluster));
    let environment = json!([
        { "name": "WATCH_NAMESPACE", "value": watched.join(",") },
        { "name": "POD_NAMESPACE", "value": "" },
        { "name": "POD_NAME", "value": "" },
        { "name": "LISTEN_ADDRESS", "value": "" },
    ]);
    let labels = json!({ "app": name });
    objects.push(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": name,
                    "containers": [{ "name": "operator", "image": "none", "env": environment }],
                },
            },
        },
    }));
    // JSON is YAML.
    json!({ "kind": "List", "items": objects }).to_string()
}

fn policy(rule: &Rule) -> Value {
    let mut policy = json!({ "apiGroups": [rule.group], "resources": [rule.resource], "verbs": rule.verbs });
    if !rule.names.is_empty() {
        policy["resourceNames"] = json!(rule.names);
    }
    policy
}

/// The kind most tests of the runtime use: the probe's.
pub const PROBE: KindInfo = kinds::REDIS;
