//! Everything at once on real nodes: real stores, operators as pods of their charts, and the daemons of Config, Control, analytics, Kubemanager, Webui and
//! the vRouter, which `tf-sim` plays: it reads their files as strictly as they do and connects to every store that is named there. Of the vRouter that is the
//! agent, without the kernel module (see [`tf_testing::real::whole`]).

mod agents;
mod changes;
mod daemons;
mod elected;
mod faults;
mod five;
mod foreign;
mod growth;
pub mod images;
mod kept;
mod losses;
mod mistakes;
mod moved;
mod named;
mod nodes;
mod page;
mod picture;
mod quiet;
mod registration;
mod secret;
mod settings;
mod together;
mod traffic;
mod turns;
mod users;
mod world;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use tf_api::kinds::{
    ANALYTICS_ALARM, CASSANDRA, CONFIG as CONFIG_KIND, CONTROL, KUBEMANAGER, KindInfo, MANAGER, VROUTER, WEBUI,
};
use tf_testing::real::sim::{ANALYTICS, DAEMONS, NodeStatus, Visitor};
use tf_testing::real::{image, operator, whole};
use tf_testing::resources::{self, Resource};
use tf_testing::sample::Sample;
use tf_testing::skip;
use tf_testing::wait::eventually;
use tf_testing::{Lab, RealNode};

use self::daemons::{Daemon, Daemons};
use crate::{
    secrets,
    store::{HONEST_WITHIN, NAMESPACE, Store, Turn},
};

/// Config, as the other tests see a store.
pub const CONFIG: Store = Store { operator: "config-op", kind: CONFIG_KIND, name: "config1", images: &[], values: &[] };
/// kube-manager.
const LINK: &str = "kubemanager1";
/// Control.
const CONTROL_NODES: &str = "control1";
/// The web user interface.
const WEB: &str = "webui1";
/// The vRouter.
const AGENTS: &str = "vrouter1";
/// Nodes of the lab, where a test needs no others.
const NODES: usize = 3;
/// Those of this file that take minutes.
#[derive(Clone, Copy)]
pub enum Long {
    /// It comes up and is silent.
    Story,
    /// Everything but analytics is changed under a client.
    Changes,
    /// So are the credentials that it leaves out.
    Credentials,
    /// A ring begins to ask for a password, and gets another one.
    Ring,
    /// The authority of all certificates changes.
    Authority,
    /// One daemon after the other hangs.
    Faults,
    /// What daemons are connected to is lost.
    Losses,
    /// Each service gets other images.
    Images,
    /// A setting of each service changes.
    Settings,
    /// One container after the other gets an image that cannot work.
    Mistakes,
    /// A node is lost for good.
    Nodes,
    /// A node is lost for a while.
    Lost,
    /// One control node becomes three.
    Growth,
    /// It comes up without analytics on ports of its own.
    Moved,
    /// It comes up where Keystone knows users.
    Users,
    /// It comes up on five control nodes.
    Five,
    /// A client makes and deletes networks for ten minutes.
    Churn,
    /// Changes one after the other in one cluster.
    Together,
}

impl Long {
    /// How many of these a run may try. The others come after them and are for soaks alone.
    pub const ALL: usize = Self::Story as usize + 1;

    /// Nodes of the lab.
    const fn nodes(self) -> usize {
        match self {
            Self::Five => 5,
            _ => NODES,
        }
    }

    /// Nodes of the control plane that it begins with.
    const fn control_nodes(self) -> usize {
        match self {
            Self::Growth => 1,
            _ => self.nodes(),
        }
    }

    /// What is to come up.
    async fn manifest(self, lab: &Lab) -> Result<String> {
        match self {
            Self::Changes => Ok(whole::manifest_without_analytics()?.to_string()),
            Self::Moved => Ok(whole::manifest_on_moved_ports()?.to_string()),
            Self::Users => Ok(whole::manifest_with_users(users::keystone(lab).await?.parameters())?.to_string()),
            _ => whole::manifest(),
        }
    }

    /// A lab in which everything has come up, or none where it cannot be had or this run leaves the test out.
    async fn ready(self) -> Result<Option<(Turn, Client)>> {
        let index = self as usize;
        if index >= Self::ALL && Sample::from_environment(0)? != Sample::All {
            skip::this_test("takes longer than a run has time; cargo xtask soak life runs it")?;
            return Ok(None);
        }
        if index < Self::ALL && !CONFIG.is_drawn(index)? {
            return Ok(None);
        }
        let Some(archives) = image::archives(whole::archives())? else { return Ok(None) };
        let lab = Turn::take(whole::installed(self.nodes() as u32, NAMESPACE, &archives)).await?;
        for node in lab.real_nodes()?.all()?.iter().skip(self.control_nodes()) {
            operator::unlabel_control_plane(&lab, node.name()).await?;
        }
        let client = lab.client().await?;
        let begun = Instant::now();
        lab.apply(&self.manifest(&lab).await?).await?;
        match resources::ready(&client, MANAGER, NAMESPACE, "sdn", BRING_UP).await {
            Ok(_) => println!("Ready after {:.0?}", begun.elapsed()),
            Err(error) => return Err(CONFIG.with_testimony(error, &client).await),
        }
        Ok(Some((lab, client)))
    }

    /// A test where everything has come up.
    async fn run(self, test: impl AsyncFnOnce(&Lab, &Client) -> Result<()>) -> Result<()> {
        let Some((lab, client)) = self.ready().await? else { return Ok(()) };
        match test(&lab, &client).await {
            Ok(()) => Ok(()),
            Err(error) => Err(CONFIG.with_testimony(error, &client).await),
        }
    }
}

/// Six Java servers, three of Erlang and the rest on two cores that others use, too.
const BRING_UP: Duration = Duration::from_mins(15);
/// For daemons to connect anew. A killed server is back within seconds.
const RECOVERY: Duration = Duration::from_mins(2);
/// For somebody to be elected: whoever ended while it waited stays in line before the others until its session is over.
const ELECTED: Duration = Duration::from_mins(5);
/// Servers that are killed on one node, with the peer that an API loses then, and the containers that they are in.
const LOST: [(&str, &str, &[&str]); 3] = [
    ("beam.smp", "RabbitMQ", &["rabbitmq"]),
    ("redis-server", "", &["redis"]),
    ("java", "Cassandra", &["cassandra", "kafka", "zookeeper"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn daemons_that_tf_sim_plays_use_every_real_store_and_agents_without_a_kernel_module_change_one_node_at_a_time()
-> Result<()> {
    Long::Story.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    everything_is_well(client).await?;

    let visitor = Visitor::of(client, NAMESPACE).await?;
    let addresses = lab.real_nodes()?.addresses()?;
    functional(&visitor, &addresses).await?;
    one_writes_and_all_read(&visitor, &addresses, "first").await?;
    alarm_generators_read_what_collectors_tell(client, &addresses).await?;
    secret::nothing_is_told(lab, client).await?;
    quiet::nothing_happens(lab, client).await?;
    registration::follows_control_nodes(lab, client, &visitor, &addresses).await?;
    agents::change_one_node_at_a_time(lab, client, &visitor, &addresses).await?;

    for lost in LOST {
        loss(lab, client, &visitor, &addresses, lost).await?;
    }
    one_writes_and_all_read(&visitor, &addresses, "second").await?;
    resources::ready(client, MANAGER, NAMESPACE, "sdn", BRING_UP).await.map(drop)
}

/// Every resource says so in every condition that promises something.
async fn everything_is_well(client: &Client) -> Result<()> {
    let found = resources::all(client, NAMESPACE).await?;
    let names: Vec<_> = found.iter().map(|resource| format!("{} {}", resource.kind.kind, resource.name)).collect();
    ensure!(found.len() == 15, "{names:?}");
    for resource in &found {
        for kind in ["Available", "ConfigReady", "InputsReady", "Provisioned", "Ready"] {
            let is_well = resource.condition(kind).is_none() || resource.is(kind, "True");
            ensure!(is_well, "{} {}: {}", resource.kind.kind, resource.name, resource.explain(kind));
        }
    }
    let is_certified = |it: &Resource| it.is("CertificatesReady", "True") && it.is("Progressing", "False");
    let ours =
        [(CONFIG_KIND, CONFIG.name), (CONTROL, CONTROL_NODES), (KUBEMANAGER, LINK), (WEBUI, WEB), (VROUTER, AGENTS)];
    for (kind, name) in ours {
        resources::until(client, kind, NAMESPACE, name, "certified", RECOVERY, is_certified).await?;
    }
    picture::is_as_documented(client).await
}

/// Every daemon at work says that it is connected to everything: each API, each of analytics, and one of each other.
async fn functional(visitor: &Visitor, addresses: &[IpAddr]) -> Result<()> {
    functional_with(visitor, addresses, ANALYTICS.len()).await
}

/// The same with so many daemons of analytics on each node.
async fn functional_with(visitor: &Visitor, addresses: &[IpAddr], analytics: usize) -> Result<()> {
    let mut last = BTreeMap::new();
    eventually("every daemon to be Functional", ELECTED, async || {
        last = visitor.statuses(addresses).await?;
        let at_work = addresses.len() * (1 + analytics) + DAEMONS.len() - 1;
        Ok((last.len() == at_work && last.values().all(NodeStatus::is_functional)).then_some(()))
    })
    .await
    .with_context(|| format!("{last:#?}"))
}

async fn one_writes_and_all_read(visitor: &Visitor, addresses: &[IpAddr], name: &str) -> Result<()> {
    let id = visitor.create(addresses[0], name).await?;
    for address in addresses {
        eventually(&format!("{address} to be told"), RECOVERY, async || {
            let (object, told) = visitor.read(*address, &id).await?;
            ensure!(object["fq_name"][2] == name, "{address}: {object}");
            Ok(told.then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// What each collector tells to Kafka comes to every alarm generator, so the brokers are one cluster.
async fn alarm_generators_read_what_collectors_tell(client: &Client, addresses: &[IpAddr]) -> Result<()> {
    for collector in addresses {
        eventually(&format!("alarm generators to read of {collector}"), RECOVERY, async || {
            let read = format!("reads what the collector {collector} tells");
            let said = logs(client, ANALYTICS_ALARM, "analytics-alarm-gen").await?;
            Ok((said.matches(&read).count() >= addresses.len()).then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// Kills a store's servers on one node. Daemons that use one of them say so, and are well again afterwards; nobody else is started anew.
async fn loss(
    lab: &Lab,
    client: &Client,
    visitor: &Visitor,
    addresses: &[IpAddr],
    (server, peer, containers): (&str, &str, &[&str]),
) -> Result<()> {
    let before = Daemons::of(lab, client).await?;
    let statuses = visitor.statuses(addresses).await?;
    let api = &statuses.get(&("contrail-api", addresses[0])).context("no API")?.connections;
    // A server that an API is connected to.
    let used = api.get(peer).and_then(|(_, server)| server.split(':').next()?.parse().ok()).unwrap_or(addresses[0]);
    let nodes = lab.real_nodes()?.all()?;
    let node = nodes.iter().find(|node| node.address() == used).context("no such node")?;
    let lost = format!("{peer}: connection down");
    let told = logs(client, CONFIG_KIND, "api").await?.matches(&lost).count();
    node.kill(server)?;
    if !peer.is_empty() {
        eventually(&format!("{lost} in a log"), RECOVERY, async || {
            Ok((logs(client, CONFIG_KIND, "api").await?.matches(&lost).count() > told).then_some(()))
        })
        .await?;
    }
    let begun = Instant::now();
    functional(visitor, addresses).await?;
    println!("{server} of {}: daemons are Functional {:.1?} after it was told", node.name(), begun.elapsed());
    let is_victim = |it: &Daemon| it.node == node.name() && containers.contains(&it.container.as_str());
    before.have_stayed_but(is_victim, containers)
}

/// Kills processes of this name on these nodes for as long as something takes.
async fn kept_down<T>(nodes: &[RealNode], process: &str, meanwhile: impl Future<Output = Result<T>>) -> Result<T> {
    let kills = async {
        loop {
            for node in nodes {
                // There is none until it is started again.
                let _ = node.kill(process);
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    };
    tokio::select! {
        outcome = meanwhile => outcome,
        () = kills => unreachable!("it goes on"),
    }
}

/// What a container of all members says.
async fn logs(client: &Client, kind: KindInfo, container: &str) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut all = String::new();
    for pod in resources::pods(client, kind, NAMESPACE).await? {
        let parameters = kube::api::LogParams { container: Some(container.into()), ..kube::api::LogParams::default() };
        all.push_str(&pods.logs(&pod.name_any(), &parameters).await?);
    }
    Ok(all)
}

/// Waits until keyspaces that clients have made are repaired for the first time.
async fn repaired(client: &Client) -> Result<()> {
    let is_repaired = |it: &Resource| it.object.data["status"]["repairedSince"].is_string();
    resources::until(client, CASSANDRA, NAMESPACE, "configdb1", "repaired", RECOVERY, is_repaired).await.map(drop)
}
