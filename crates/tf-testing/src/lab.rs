//! A laboratory: one Kubernetes of its own, started for a test or kept in the background.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::{
    audit::{Audit, Mark},
    bring_up,
    components::Component,
    config_api::ConfigApis,
    folder::{self, Folder, LabRecord},
    identity::{Identity, Usage},
    kubeconfig::{self, Credential, Endpoint},
    manifests,
    nodes::Nodes,
    options::{IpFamily, Options, Tier},
    process::{self, Process, Spec},
    proxy::Proxy,
    real::{self, RealNodes},
};

/// How long a token of [`Lab::service_account_kubeconfig`] is valid, in seconds: longer than any test.
const TOKEN_SECONDS: i64 = 24 * 3600;

/// A running laboratory. Dropping it ends all of it, unless it runs in the background or was attached to.
#[derive(Debug)]
pub struct Lab {
    folder: Folder,
    record: LabRecord,
    admin: PathBuf,
    processes: Mutex<BTreeMap<Component, Process>>,
    config_apis: Option<ConfigApis>,
    ends_with_guard: bool,
}

/// What `kubeadm init` stores of a cluster with one API server, where operators look for its name and subnets.
fn kubeadm(family: IpFamily) -> String {
    let (pods, services) = (family.pod_range(), family.service_range());
    let networking = format!("networking: {{dnsDomain: cluster.local, podSubnet: {pods}, serviceSubnet: {services}}}");
    let document = format!(
        "{{apiVersion: kubeadm.k8s.io/v1beta4, kind: ClusterConfiguration, clusterName: kubernetes, {networking}}}"
    );
    // The API server makes the namespace itself, a moment after it is ready.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}});
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "kube-system", "name": "kubeadm-config"},
        "data": {"ClusterConfiguration": document},
    });
    json!({"kind": "List", "items": [namespace, map]}).to_string()
}

impl Lab {
    /// Starts a lab and returns when its API server answers and its nodes are Ready.
    ///
    /// The first start on a machine may build the programs, which takes minutes and says so on standard error.
    pub async fn start(options: Options) -> Result<Self> {
        let programs = bring_up::programs(options.tier).await?;
        let name = options.name.clone().unwrap_or_else(|| format!("lab-{:08x}", rand::random::<u32>()));
        let record = LabRecord { name, owner: Some(Identity::own()?), options, network: None };
        let folder = {
            let (root, record) = (folder::root()?, record.clone());
            tokio::task::spawn_blocking(move || folder::reserve(&root, &record)).await??
        };
        let admin = folder.kubeconfig("admin");
        let mut lab =
            Self { folder, record, admin, processes: Mutex::default(), config_apis: None, ends_with_guard: true };
        // From here on dropping `lab` cleans up, whatever fails.
        let mut address = IpAddr::from(Ipv4Addr::LOCALHOST);
        if lab.record.options.tier == Tier::Real {
            let network = real::start_network(&lab.folder, &lab.record).await?;
            address = network.api_server();
            lab.record.network = Some(network);
            lab.folder.write_record(&lab.record)?;
        }
        let processes = bring_up::control_plane(&lab.folder, &programs, &lab.record.options, address).await?;
        *lab.processes() = processes;
        let options = &lab.record.options;
        lab.apply(&kubeadm(options.ip_family)).await?;
        if options.tier == Tier::Fleet {
            let nodes = lab.nodes().await?;
            nodes.add(crate::nodes::Role::ControlPlane, options.control_plane_nodes).await?;
            nodes.add(crate::nodes::Role::Worker, options.worker_nodes).await?;
            nodes.wait_ready().await.with_context(|| lab.tail(Component::Kwok))?;
            lab.config_apis = Some(ConfigApis::start(&lab.admin)?);
        }
        if options.tier == Tier::Real {
            let nodes = lab.real_nodes()?;
            lab.apply(&real::dns::manifest(nodes.network())).await?;
            nodes.add(options.real_nodes).await?;
        }
        if lab.record.options.background {
            lab.record.owner = None;
            lab.folder.write_record(&lab.record)?;
            lab.ends_with_guard = false;
            lab.processes().values_mut().for_each(Process::outlive_guard);
        }
        Ok(lab)
    }

    /// A handle to a lab somebody else started. Dropping the handle leaves the lab alone.
    pub fn attach(name: &str) -> Result<Self> {
        let (folder, record) = folder::find(&folder::root()?, name)?;
        let mut processes = BTreeMap::new();
        for component in Component::of(record.options.tier) {
            processes.insert(*component, Process::adopt(&folder, component.name())?);
        }
        let admin = folder.kubeconfig("admin");
        let processes = Mutex::new(processes);
        Ok(Self { folder, record, admin, processes, config_apis: None, ends_with_guard: false })
    }

    /// Ends the lab, also one that runs in the background, and removes its folder.
    pub fn down(mut self) -> Result<()> {
        self.ends_with_guard = false;
        folder::destroy(&self.folder)
    }

    /// [`down`](Self::down) by name, for a lab in any state.
    pub fn remove(name: &str) -> Result<()> {
        let (folder, _) = folder::find(&folder::root()?, name)?;
        folder::destroy(&folder)
    }

    /// Name, for [`Lab::attach`].
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// What was asked for.
    pub fn options(&self) -> &Options {
        &self.record.options
    }

    /// Where its state is.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Kubeconfig of the administrator (user `lab-admin`, who may do everything).
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// The API server.
    pub fn endpoint(&self) -> Result<Endpoint> {
        kubeconfig::endpoint(&self.admin)
    }

    /// A client of the administrator. A client belongs to the tokio runtime it was made in, so make one per test.
    pub async fn client(&self) -> Result<kube::Client> {
        client(&self.admin).await
    }

    /// Applies manifests (YAML, any number of documents) as server-side apply with force, field manager `lab`.
    /// Objects of namespaced kinds without a namespace go to `default`. Waits for CRDs to be served.
    pub async fn apply(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        manifests::apply(&self.client().await?, yaml).await
    }

    /// The simulated nodes.
    pub async fn nodes(&self) -> Result<Nodes> {
        Ok(Nodes::new(self.client().await?, self.record.options.ip_family))
    }

    /// The real nodes. An error in another tier.
    pub fn real_nodes(&self) -> Result<RealNodes> {
        RealNodes::of(&self.folder, &self.record)
    }

    /// A kubeconfig of an existing ServiceAccount, with a token valid for 24 hours, readable by its owner only.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let request = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("a token for ServiceAccount {namespace}/{name}"))?;
        let token = answer.status.context("TokenRequest without an answer")?.token;
        let path = self.folder.kubeconfig(&format!("{namespace}.{name}"));
        kubeconfig::write(&path, &self.endpoint()?, &Credential::Token(&token), namespace)?;
        Ok(path)
    }

    /// A proxy in front of the API server that injects faults; plain HTTP on a port of its own.
    pub async fn proxy(&self) -> Result<Proxy> {
        Proxy::start(&self.endpoint()?).await
    }

    /// The config APIs of simulated nodes. An error in another tier, and in a lab somebody else started.
    pub fn config_apis(&self) -> Result<&ConfigApis> {
        self.config_apis.as_ref().context("this lab plays no config API")
    }

    /// The audit log.
    pub fn audit(&self) -> Audit {
        Audit::new(self.folder.audit_log())
    }

    /// The position in the audit log behind everything that was answered before this call.
    pub async fn audit_mark(&self) -> Result<Mark> {
        self.audit().mark_after_barrier(&self.client().await?).await
    }

    /// Starts another program (an operator, say) that ends with the lab at the latest.
    pub fn spawn(&self, spec: Spec) -> Result<Process> {
        Process::spawn(&self.folder, spec)
    }

    /// Freezes a component: its connections stay open and nothing answers.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.with(component, |process| process.pause())
    }

    /// Ends [a pause](Self::pause).
    pub fn resume(&self, component: Component) -> Result<()> {
        self.with(component, |process| process.resume())
    }

    /// Kills a component without warning; connections to it break and new ones are refused.
    pub fn kill(&self, component: Component) -> Result<()> {
        self.with(component, Process::kill)
    }

    /// Starts a component that had ended, on the same port and data. For the API server, returns when it answers.
    pub async fn restart(&self, component: Component) -> Result<()> {
        self.with(component, Process::restart)?;
        if component == Component::ApiServer {
            let running = || self.with(component, |process| Ok(process.is_running())).unwrap_or(false);
            bring_up::until_ready(&self.client().await?, running)
                .await
                .with_context(|| format!("restarting the API server; its log ends with\n{}", self.tail(component)))?;
        }
        Ok(())
    }

    /// The last lines a component has logged; empty when there are none.
    pub fn tail(&self, component: Component) -> String {
        process::tail(&self.folder.log(component.name()), 15).unwrap_or_default()
    }

    /// Memory and processor time of each component that runs.
    pub fn usage(&self) -> BTreeMap<Component, Usage> {
        self.processes().iter().filter_map(|(component, process)| Some((*component, process.usage()?))).collect()
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        // A panic while the lock is held leaves the map as it was: every change is one call.
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, component: Component, act: impl FnOnce(&mut Process) -> Result<T>) -> Result<T> {
        let mut processes = self.processes();
        let process = processes.get_mut(&component).with_context(|| format!("no {} in this tier", component.name()))?;
        act(process)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.ends_with_guard {
            return;
        }
        let ended = if std::thread::panicking() {
            // The next lab of this user removes what is kept here.
            eprintln!("the logs of lab {} are kept in {}", self.name(), self.folder.path().display());
            self.folder.end_processes()
        } else {
            folder::destroy(&self.folder)
        };
        if let Err(error) = ended {
            tracing::error!(lab = self.name(), "{error:#}");
        }
    }
}

/// A client with the identity of a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    Ok(kube::Client::try_from(client_config(kubeconfig).await?)?)
}

/// The configuration of such a client, to change before use (retries, timeouts).
pub async fn client_config(kubeconfig: &Path) -> Result<kube::Config> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    Ok(kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?)
}

/// A lab that tests of one program share: the first to ask starts it, the last to let go ends it.
///
/// ```no_run
/// use tf_testing::{Options, SharedLab};
///
/// static LAB: SharedLab = SharedLab::new(Options::api);
///
/// # async fn test() -> anyhow::Result<()> {
/// let lab = LAB.get().await?;
/// # Ok(()) }
/// ```
pub struct SharedLab {
    options: fn() -> Options,
    lab: tokio::sync::Mutex<Weak<Lab>>,
}

impl SharedLab {
    /// Nothing runs until the first [`get`](Self::get).
    pub const fn new(options: fn() -> Options) -> Self {
        Self { options, lab: tokio::sync::Mutex::const_new(Weak::new()) }
    }

    /// The lab, started if nobody holds it at the moment.
    pub async fn get(&self) -> Result<Arc<Lab>> {
        let mut shared = self.lab.lock().await;
        if let Some(lab) = shared.upgrade() {
            return Ok(lab);
        }
        let lab = Arc::new(Lab::start((self.options)()).await?);
        *shared = Arc::downgrade(&lab);
        Ok(lab)
    }
}
