//! A whole cluster of ours in a lab: a namespace with operators, nodes that only it selects, and a Manager.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tf_testing::{Cluster, Lab, Options};
//!
//! # async fn test() -> anyhow::Result<()> {
//! let lab = Arc::new(Lab::start(Options::fleet(0, 0)).await?);
//! let cluster = Cluster::start(&lab, "tf").await?; // definitions, nine charts, nine processes, all ready to work
//! cluster.nodes(3, 3).await?; // labelled for this cluster: host ports of two clusters on one node would collide
//! cluster.example().await?; // examples/manager.yaml, in this namespace and on these nodes
//! cluster.manager_ready("sdn").await?;
//! # Ok(()) }
//! ```

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use kube::Client;
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds};

use crate::{
    Lab, Proxy,
    kubeconfig::Endpoint,
    manifests::documents,
    nodes::{Role, Simulated},
    operators::{self, Install, Operator, Run, repository},
    resources::{self, Resource},
};

/// Label of the nodes of one cluster; the value is its namespace.
pub const NODE_LABEL: &str = "lab.tungsten.io/cluster";

/// Longer than any bring-up on simulated nodes takes.
pub const BRING_UP: Duration = Duration::from_mins(3);

/// Numbers of nodes, and so their addresses, unique in a lab that clusters share. They begin behind those of
/// [`Options::fleet`](crate::Options::fleet).
static CONTROL_PLANE: AtomicU32 = AtomicU32::new(50);
static WORKERS: AtomicU32 = AtomicU32::new(5_000);

/// A namespace with operators in it.
pub struct Cluster {
    /// The lab it is in.
    pub lab: Arc<Lab>,
    /// A client of the administrator.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
    /// The operators that were started, in the order they were asked for.
    pub operators: Vec<Operator>,
}

impl Cluster {
    /// All operators in a namespace, watching only it, ready to work.
    ///
    /// # Errors
    /// When a chart cannot be installed or an operator does not become ready.
    pub async fn start(lab: &Arc<Lab>, namespace: &str) -> Result<Self> {
        let mut cluster = Self::empty(lab, namespace).await?;
        define_all(lab).await?;
        cluster.add(&operators::ALL, &Install::default(), &Run::default()).await?;
        Ok(cluster)
    }

    /// Like [`start`](Self::start), with a proxy between each operator and the API server: one each, in the order of
    /// [`operators::ALL`]. `run` says the rest.
    ///
    /// # Errors
    /// When a chart cannot be installed or an operator does not become ready.
    pub async fn start_behind_proxies(lab: &Arc<Lab>, namespace: &str, run: &Run) -> Result<(Self, Vec<Proxy>)> {
        let mut cluster = Self::empty(lab, namespace).await?;
        define_all(lab).await?;
        let install = Install::default();
        let started = try_join_all(operators::ALL.map(async |name| {
            let proxy = lab.proxy().await?;
            let endpoint = Some(Endpoint { url: proxy.url(), ca: None });
            let operator = cluster.begin(name, &install, &Run { endpoint, ..run.clone() }).await?;
            anyhow::Ok((operator, proxy))
        }))
        .await?;
        let (operators, proxies) = started.into_iter().unzip();
        cluster.operators = operators;
        Ok((cluster, proxies))
    }

    /// The namespace, without definitions and operators.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn empty(lab: &Arc<Lab>, namespace: &str) -> Result<Self> {
        lab.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}")).await?;
        let client = lab.client().await?;
        Ok(Self { lab: Arc::clone(lab), client, namespace: namespace.to_owned(), operators: Vec::new() })
    }

    /// Installs operators from their charts (without definitions, which the releases of several namespaces cannot
    /// share), starts them all at once and waits until they are ready to work.
    ///
    /// # Errors
    /// When a chart cannot be installed or an operator does not become ready.
    pub async fn add(&mut self, names: &[&'static str], install: &Install, run: &Run) -> Result<()> {
        let started = try_join_all(names.iter().map(|name| self.begin(name, install, run))).await?;
        self.operators.extend(started);
        Ok(())
    }

    async fn begin(&self, name: &'static str, install: &Install, run: &Run) -> Result<Operator> {
        let install = Install { without_definitions: true, ..install.clone() };
        self.lab.install(name, &self.namespace, &install).await?;
        let operator = self.lab.operate(name, &self.namespace, run).await?;
        operator.ready().await?;
        Ok(operator)
    }

    /// Nodes that only this cluster selects, by [`NODE_LABEL`], with the roles of [`Role`]. Returns their names,
    /// those of the control plane first.
    ///
    /// # Errors
    /// When they do not become Ready.
    pub async fn nodes(&self, control_plane: u32, workers: u32) -> Result<Vec<String>> {
        let family = self.lab.options().ip_family;
        let of = |role, counter: &AtomicU32, count| {
            let first = counter.fetch_add(count, Ordering::Relaxed);
            (first..first + count).map(move |index| Simulated::new(role, index, family))
        };
        let mut nodes: Vec<Simulated> = of(Role::ControlPlane, &CONTROL_PLANE, control_plane).collect();
        nodes.extend(of(Role::Worker, &WORKERS, workers));
        for node in &mut nodes {
            // The name is also a label, of at most 63 characters.
            let prefix: String = self.namespace.chars().take(40).collect();
            node.name = format!("{prefix}-{}", node.name);
            node.labels.insert(NODE_LABEL.into(), self.namespace.clone());
        }
        let api = self.lab.nodes().await?;
        api.create(&nodes).await?;
        api.wait_ready().await?;
        Ok(nodes.into_iter().map(|node| node.name).collect())
    }

    /// The selector of [the nodes of this cluster](Self::nodes) with a control-plane role.
    pub fn control_plane(&self) -> Value {
        json!({ NODE_LABEL: self.namespace, "node-role.kubernetes.io/control-plane": "" })
    }

    /// The selector of all [nodes of this cluster](Self::nodes).
    pub fn everywhere(&self) -> Value {
        json!({ NODE_LABEL: self.namespace })
    }

    /// Confines a Manager to this cluster: its namespace, and nodes with [`NODE_LABEL`] for every entry that a node
    /// is selected for.
    pub fn confine(&self, manager: &mut Value) {
        manager["metadata"]["namespace"] = json!(self.namespace);
        let vrouters = &mut manager["spec"]["services"]["vrouters"];
        for vrouter in vrouters.as_array_mut().into_iter().flatten() {
            vrouter["spec"]["commonConfiguration"]["nodeSelector"] = self.everywhere();
        }
        manager["spec"]["commonConfiguration"]["nodeSelector"] = self.control_plane();
    }

    /// `examples/manager.yaml`, [confined](Self::confine).
    ///
    /// # Errors
    /// When the file is not there.
    pub fn example_manager(&self) -> Result<Value> {
        let path = repository().join("examples/manager.yaml");
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        let mut manager = documents(&text)?.into_iter().next().context("an empty example")?;
        self.confine(&mut manager);
        Ok(manager)
    }

    /// Applies [`example_manager`](Self::example_manager), whose name is `sdn`.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn example(&self) -> Result<()> {
        self.apply_object(&self.example_manager()?).await
    }

    /// Applies an object.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn apply_object(&self, object: &Value) -> Result<()> {
        // JSON is YAML.
        self.lab.apply(&object.to_string()).await?;
        Ok(())
    }

    /// Waits until a Manager is Ready; on failure the error says how every resource in the namespace is.
    ///
    /// # Errors
    /// When it is not after [`BRING_UP`].
    pub async fn manager_ready(&self, name: &str) -> Result<Resource> {
        self.ready(kinds::MANAGER, name).await
    }

    /// Waits until a resource is Ready; on failure the error says how every resource in the namespace is.
    ///
    /// # Errors
    /// When it is not after [`BRING_UP`].
    pub async fn ready(&self, kind: KindInfo, name: &str) -> Result<Resource> {
        let waited = resources::ready(&self.client, kind, &self.namespace, name, BRING_UP).await;
        if let Err(error) = waited {
            let all = resources::all(&self.client, &self.namespace).await?;
            let lines: Vec<String> = all
                .iter()
                .map(|resource| format!("{} {}: {}", resource.kind.kind, resource.name, resource.explain("Ready")))
                .collect();
            return Err(error.context(lines.join("\n")));
        }
        waited
    }

    /// Waits until a resource is as wanted; on failure the error says what its conditions were.
    ///
    /// # Errors
    /// When it is not after [`BRING_UP`].
    pub async fn until(
        &self,
        kind: KindInfo,
        name: &str,
        what: &str,
        wanted: impl Fn(&Resource) -> bool,
    ) -> Result<Resource> {
        resources::until(&self.client, kind, &self.namespace, name, what, BRING_UP, wanted).await
    }

    /// A resource, which has to exist.
    ///
    /// # Errors
    /// When it does not.
    pub async fn get(&self, kind: KindInfo, name: &str) -> Result<Resource> {
        let found = resources::get(&self.client, kind, &self.namespace, name).await?;
        found.with_context(|| format!("{} {}/{name} does not exist", kind.kind, self.namespace))
    }

    /// A running operator.
    ///
    /// # Errors
    /// When it was not started.
    pub fn operator(&self, name: &str) -> Result<&Operator> {
        self.operators.iter().find(|operator| operator.name == name).with_context(|| format!("no {name} runs here"))
    }

    /// A running operator, to stop and start it.
    ///
    /// # Errors
    /// When it was not started.
    pub fn operator_mut(&mut self, name: &str) -> Result<&mut Operator> {
        self.operators.iter_mut().find(|operator| operator.name == name).with_context(|| format!("no {name} runs here"))
    }

    /// The users of the operators, as the audit log names them.
    pub fn users(&self) -> Vec<&str> {
        self.operators.iter().map(|operator| operator.user.as_str()).collect()
    }
}

/// Installs the definitions of kinds.
///
/// # Errors
/// When the API server refuses one.
pub async fn define(lab: &Lab, kinds: &[KindInfo]) -> Result<()> {
    for kind in kinds {
        let path = repository().join(format!("crds/{}.yaml", kind.plural));
        let definition = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        lab.apply(&definition).await?;
    }
    Ok(())
}

/// Installs the definitions that all charts would bring.
///
/// # Errors
/// When the API server refuses one.
pub async fn define_all(lab: &Lab) -> Result<()> {
    let owned = kinds::ALL.into_iter().filter(|kind| operators::ALL.contains(&kind.operator));
    define(lab, &owned.collect::<Vec<_>>()).await
}
