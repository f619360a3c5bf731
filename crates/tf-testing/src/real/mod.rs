//! Real nodes: containerd, a kubelet and kube-proxy each, in namespaces of this machine.
//!
//! ```no_run
//! use tf_testing::{Lab, Options};
//!
//! # async fn test() -> anyhow::Result<()> {
//! let lab = Lab::start(Options::real(3)).await?; // node-1, node-2 and node-3 are Ready
//! let nodes = lab.real_nodes()?;
//! nodes.load(&["zookeeper.tar".into()]).await?; // no image is pulled
//! nodes.node("node-2")?.run("ip", &["address"]).await?;
//! # Ok(()) }
//! ```
//!
//! | To find | look at |
//! | --- | --- |
//! | where the programs come from | [`packages`], [`assets`](crate::assets) |
//! | who has which address | [`network`] |
//! | how Services are found by name | [`dns`] |
//! | what a test can do to nodes | [`power`], [`partition`], [`disk`] |
//! | what a node has of its own, and what is the machine's | [`machine`], `e2e/lab/node/root.sh` |
//! | every operator at once, and who asks daemons that are played | [`whole`], [`sim`] |
//! | who knows users | [`keystone`] |
//! | where nodes pull images from | [`registry`] |
//! | how all of it is found and ended | [`cgroup`] |
//!
//! All that a lab makes ends with its processes, but for empty control groups, which are removed with its folder.
//! What it needs: root, a Linux with namespaces, control groups, overlayfs and nf_tables, and the programs of iproute2
//! and util-linux.

pub mod cgroup;
pub mod config;
pub mod disk;
pub mod dns;
pub mod image;
pub mod keystone;
pub mod machine;
pub mod network;
pub mod node;
pub mod operator;
pub mod packages;
pub mod partition;
pub mod power;
pub mod registry;
pub mod sim;
pub mod whole;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::future::{join_all, try_join_all};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;

use crate::{
    assets::{self, Tool},
    folder::{Folder, LabRecord, write_atomically},
    kubeconfig,
    options::IpFamily,
    pki::Authority,
    wait::eventually,
};

use machine::Machine;
use network::Network;
use node::{NodeRecord, RealNode, ip, ip_batch};

/// How long a node may take from its start to Ready. It needs 10 s when the machine is not otherwise busy.
const READY_WITHIN: Duration = Duration::from_mins(3);

/// Name of the machine that is the network.
const ROUTER: &str = "router";

/// The executables.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The binary with kubelet and kube-proxy.
    pub control_plane: PathBuf,
    /// What is laid over the machine's own `/usr`; `None` when that has everything.
    pub packages: Option<PathBuf>,
}

impl Programs {
    /// Finds, downloads or builds them. Blocks.
    pub fn find() -> Result<Self> {
        node::supported()?;
        Ok(Self { control_plane: assets::find(Tool::ControlPlane)?, packages: packages::find()? })
    }
}

/// The real nodes of a lab.
#[derive(Clone, Debug)]
pub struct RealNodes {
    folder: Folder,
    network: Network,
    record: LabRecord,
}

impl RealNodes {
    /// Those of the lab of `folder`. An error when it is of another tier.
    pub fn of(folder: &Folder, record: &LabRecord) -> Result<Self> {
        let network = record.network.with_context(|| format!("lab {} has no real nodes", record.name))?;
        Ok(Self { folder: folder.clone(), network, record: record.clone() })
    }

    /// The network.
    pub fn network(&self) -> Network {
        self.network
    }

    /// The nodes there are, running or not, in the order they were added.
    pub fn all(&self) -> Result<Vec<RealNode>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(self.folder.path().join("nodes")).context("reading the nodes of the lab")? {
            match fs::read(entry?.path().join("node.json")) {
                Ok(bytes) => records.push(serde_json::from_slice::<NodeRecord>(&bytes)?),
                // The router's folder, or one in the making.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        records.sort_by_key(|record| record.number);
        Ok(records.into_iter().map(|record| self.with(record)).collect())
    }

    /// Addresses of all nodes, in the same order.
    pub fn addresses(&self) -> Result<Vec<IpAddr>> {
        Ok(self.all()?.iter().map(RealNode::address).collect())
    }

    /// The node called `name`.
    pub fn node(&self, name: &str) -> Result<RealNode> {
        self.all()?.into_iter().find(|node| node.name() == name).with_context(|| format!("there is no node {name:?}"))
    }

    /// Adds `count` nodes, numbered on from the last, with the images of [`Options`](crate::Options::images). On return they
    /// run and are Ready.
    pub async fn add(&self, count: u32) -> Result<Vec<RealNode>> {
        let authority = Authority::load(&self.folder)?;
        let endpoint = kubeconfig::endpoint(&self.folder.kubeconfig("admin"))?;
        let mut images = vec![image::pause(self.folder.path())?];
        images.extend(self.record.options.images.iter().cloned());
        let mut nodes = Vec::new();
        for _ in 0..count {
            let node = self.with(self.claim()?);
            node.configure(&authority, &endpoint)?;
            nodes.push(node);
        }
        self.boot(&nodes, &images).await?;
        Ok(nodes)
    }

    /// Switches nodes on. On return they have told the cluster that they are Ready.
    async fn boot(&self, nodes: &[RealNode], images: &[PathBuf]) -> Result<()> {
        let programs = tokio::task::spawn_blocking(Programs::find).await??;
        let router = self.router();
        let begun = Timestamp::now();
        try_join_all(nodes.iter().map(|node| {
            let (programs, router) = (&programs, &router);
            async move { node.boot(programs, router, images).await.with_context(|| format!("starting {}", node.name())) }
        }))
        .await?;
        // Until then the cluster may not have noticed that one was off.
        self.wait_ready_since(nodes, begun).await?;
        try_join_all(nodes.iter().map(RealNode::start_kube_proxy)).await?;
        Ok(())
    }

    /// Loads the images of archives into every node that runs, into all of them at the same time.
    pub async fn load(&self, archives: &[PathBuf]) -> Result<()> {
        let mut nodes = self.all()?;
        nodes.retain(|node| node.is_running().unwrap_or(false));
        try_join_all(nodes.iter().map(|node| async move {
            for archive in archives {
                node.load(archive).await?;
            }
            anyhow::Ok(())
        }))
        .await?;
        Ok(())
    }

    /// Waits until nodes are Ready, as the cluster sees them.
    pub async fn wait_ready(&self, nodes: &[RealNode]) -> Result<()> {
        self.wait_ready_since(nodes, Timestamp::MIN).await
    }

    async fn wait_ready_since(&self, nodes: &[RealNode], since: Timestamp) -> Result<()> {
        let api: Api<Node> = Api::all(crate::lab::client(&self.folder.kubeconfig("admin")).await?);
        let api = &api;
        let waits = nodes.iter().map(|node| async move {
            eventually(&format!("{} to be Ready", node.name()), READY_WITHIN, async || {
                node.restart_kubelet()?;
                node.check()?;
                Ok(api.get_opt(node.name()).await?.is_some_and(|found| is_ready(&found, since)).then_some(()))
            })
            .await
            .with_context(|| node.tail())
        });
        join_all(waits).await.into_iter().collect()
    }

    /// The machine that is the network.
    pub fn router(&self) -> Machine {
        router(&self.folder, &self.record)
    }

    fn with(&self, record: NodeRecord) -> RealNode {
        let options = &self.record.options;
        let machine = Machine::new(&self.folder, &record.name, options.background);
        RealNode::new(machine, record, self.network, options.node_lease_seconds)
    }

    /// Takes the next number, which nobody else can take then.
    fn claim(&self) -> Result<NodeRecord> {
        let folder = self.folder.path().join("nodes");
        for number in 1..=Network::MAX_NODES {
            let name = format!("node-{number}");
            match fs::create_dir(folder.join(&name)) {
                Ok(()) => {
                    let record = NodeRecord { address: self.network.node(number), name, number };
                    let file = folder.join(&record.name).join("node.json");
                    write_atomically(&file, &serde_json::to_vec(&record)?)?;
                    return Ok(record);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| format!("making {}", folder.join(name).display())),
            }
        }
        bail!("a lab has {} nodes at most", Network::MAX_NODES)
    }
}

/// Makes the network of a new lab.
pub async fn start_network(folder: &Folder, record: &LabRecord) -> Result<Network> {
    let programs = tokio::task::spawn_blocking(Programs::find).await??;
    let router = router(folder, record);
    router.boot(programs.packages.as_ref(), &programs.control_plane, None).await?;
    let network = claim(router.pid()?, record.options.ip_family).await?;
    ip_batch(&router, &network.on_router()).await?;
    ip(&["-batch", "-"], &network.on_machine()).await?;
    Ok(network)
}

async fn claim(router: i32, family: IpFamily) -> Result<Network> {
    ensure!(network::has(family), "this machine has no addresses of IPv6");
    let table = fs::read_to_string(network::routes(family)).context("reading the routes of the machine")?;
    for network in Network::unused(family, &table) {
        let arguments = network.claim(router);
        match ip(&arguments.each_ref().map(String::as_str), "").await {
            Ok(()) => return Ok(network),
            // Of another lab that is just starting, or is just ending.
            Err(_) if Path::new("/sys/class/net").join(network.device()).exists() => {}
            Err(error) => return Err(error),
        }
    }
    bail!("no range with N from 200 to 254 is unused on this machine, of 10.N.0.0/16 or with IPv6 of fd10:N::/32")
}

fn router(folder: &Folder, record: &LabRecord) -> Machine {
    Machine::new(folder, ROUTER, record.options.background)
}

/// Whether a node is Ready by what its kubelet has reported after `since`.
fn is_ready(node: &Node, since: Timestamp) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "Ready"
            && condition.status == "True"
            && condition.last_heartbeat_time.as_ref().is_some_and(|time| time.0 > since)
    })
}
