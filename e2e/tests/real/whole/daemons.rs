//! Which processes the daemons on all nodes are. Agents start daemons again inside of their containers, so no count that Kubernetes has tells whether
//! one was disturbed: it was when its process is another one.

use std::collections::BTreeSet;
use std::{fmt, fs};

use tf_api::names::LABEL_TYPE;
use tf_testing::identity::Identity;
use tf_testing::operators;

use super::*;

/// The program of the agents, and its command that runs a daemon.
const AGENT: &str = "tf-node";
const RUN: &str = "run";

/// Who may end by itself when servers in this container are lost, and why (docs/testing.md, "Daemons that are played"). A session with ZooKeeper is lost by
/// nobody: it lasts for as long as the ensemble allows, and no test takes that away for so long.
const ENDS: [(&str, &[&str], &str); 2] = [
    (
        "rabbitmq",
        &["api", "devicemanager", "kubemanager", "schematransformer", "servicemonitor"],
        "it ends when a broker does not let it in, as one may that has just begun",
    ),
    (
        "zookeeper",
        &["devicemanager", "kubemanager", "schematransformer", "servicemonitor"],
        "one that waits to be elected ends when its connection comes back",
    ),
];

/// A daemon in a container of a pod; of an operator both are its own name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Daemon {
    /// The node that it is on.
    pub node: String,
    /// Its pod.
    pub pod: String,
    /// Its container.
    pub container: String,
}

impl fmt::Display for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} on {}", self.container, self.pod, self.node)
    }
}

/// Processes of daemons at a moment.
#[derive(Clone, Debug, Default)]
pub struct Daemons(BTreeMap<Daemon, Vec<Identity>>);

impl Daemons {
    /// Those of all nodes and the operators', once every container of ours has one.
    pub async fn of(lab: &Lab, client: &Client) -> Result<Self> {
        let nodes = lab.real_nodes()?.all()?;
        let mut missing = BTreeSet::new();
        let found = eventually("every daemon to run", RECOVERY, async || {
            let found = Self::on(&nodes)?;
            missing = wanted(client).await?;
            missing.retain(|(pod, container)| !found.0.keys().any(|it| it.pod == *pod && it.container == *container));
            Ok(missing.is_empty().then_some(found))
        })
        .await;
        let mut found = found.with_context(|| format!("there are none of {missing:?}"))?;
        for node in &nodes {
            for operator in operators::ALL {
                found.add(node, operator, operator, node.processes(operator)?);
            }
        }
        Ok(found)
    }

    /// Those that agents on these nodes run now. A node without power has none.
    pub fn on(nodes: &[RealNode]) -> Result<Self> {
        let all = processes()?;
        let mut found = Self::default();
        for node in nodes {
            for agent in node.processes(AGENT)? {
                let Some((pod, container)) = supervised(agent.pid) else { continue };
                let Some(own) = all.iter().find(|it| it.pid == agent.pid) else { continue };
                // A daemon leads a group of its own, and what an agent runs beside it stands back behind it.
                let is_daemon = |it: &&Process| it.parent == agent.pid && it.group == it.pid && it.nice == own.nice;
                let identities =
                    all.iter().filter(is_daemon).filter_map(|it| Identity::of(it.pid.unsigned_abs()).ok()?);
                found.add(node, &pod, &container, identities.collect());
            }
        }
        Ok(found)
    }

    fn add(&mut self, node: &RealNode, pod: &str, container: &str, identities: Vec<Identity>) {
        if !identities.is_empty() {
            let daemon = Daemon { node: node.name().into(), pod: pod.into(), container: container.into() };
            self.0.entry(daemon).or_default().extend(identities);
        }
    }

    /// Those of one pod, by their containers.
    pub fn of_pod(&self, pod: &str) -> BTreeMap<&str, &[Identity]> {
        let its = self.0.iter().filter(|(daemon, _)| daemon.pod == pod);
        its.map(|(daemon, identities)| (daemon.container.as_str(), identities.as_slice())).collect()
    }

    /// Whether a pod was on a node.
    pub fn is_on(&self, pod: &str, node: &str) -> bool {
        self.0.keys().any(|daemon| daemon.pod == pod && daemon.node == node)
    }

    /// Those of which a process has ended since.
    pub fn ended(&self) -> BTreeSet<&Daemon> {
        self.0.iter().filter(|(_, identities)| !identities.iter().all(Identity::is_alive)).map(|it| it.0).collect()
    }

    /// Fails unless there are daemons of these and each is another process than it was.
    pub fn are_others(&self, is_meant: impl Fn(&Daemon) -> bool) -> Result<()> {
        let ended = self.ended();
        let meant: Vec<&Daemon> = self.0.keys().filter(|daemon| is_meant(daemon)).collect();
        ensure!(!meant.is_empty(), "there was no such daemon");
        let stayed: Vec<String> = meant.into_iter().filter(|it| !ended.contains(it)).map(Daemon::to_string).collect();
        ensure!(stayed.is_empty(), "not started anew: {}", stayed.join(", "));
        Ok(())
    }

    /// Fails where another daemon than a victim, or one that [`ENDS`] without servers in these containers, is no longer the process that it was.
    pub fn have_stayed_but(&self, is_victim: impl Fn(&Daemon) -> bool, lost: &[&str]) -> Result<()> {
        let mut disturbed = Vec::new();
        for daemon in self.ended().into_iter().filter(|daemon| !is_victim(daemon)) {
            let container = daemon.container.as_str();
            match ENDS.iter().find(|(store, clients, _)| lost.contains(store) && clients.contains(&container)) {
                Some((store, _, why)) => println!("{daemon} ended without {store}: {why}"),
                None => disturbed.push(daemon.to_string()),
            }
        }
        ensure!(disturbed.is_empty(), "started anew: {}", disturbed.join(", "));
        Ok(())
    }
}

/// Pods of ours and containers of each in which a daemon has to run.
async fn wanted(client: &Client) -> Result<BTreeSet<(String, String)>> {
    let pods =
        Api::<Pod>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default().labels(LABEL_TYPE)).await?;
    let staying = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let of = |pod: Pod| {
        let name = pod.name_any();
        let containers = pod.spec.into_iter().flat_map(|spec| spec.containers);
        containers.map(|container| (name.clone(), container.name)).collect::<Vec<_>>()
    };
    Ok(staying.flat_map(of).collect())
}

/// The pod and the container whose daemon an agent runs.
fn supervised(agent: i32) -> Option<(String, String)> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{agent}/{file}")).ok();
    let arguments = read("cmdline")?;
    let (environment, mut arguments) = (read("environ")?, arguments.split('\0').skip(1));
    let container = (arguments.next()? == RUN).then(|| arguments.next()).flatten()?;
    let pod = environment.split('\0').find_map(|variable| variable.strip_prefix("POD_NAME="))?;
    Some((pod.to_owned(), container.to_owned()))
}

/// A process of the machine, as `/proc/<pid>/stat` has it (proc_pid_stat(5)).
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    nice: i32,
}

/// All that have not ended.
fn processes() -> Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended meanwhile.
        let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        found.extend(line.rsplit_once(") ").and_then(|(_, fields)| process(pid, fields)));
    }
    Ok(found)
}

/// From the fields after the name, of which the first one is the state.
fn process(pid: i32, fields: &str) -> Option<Process> {
    const PARENT: usize = 1;
    const GROUP: usize = 2;
    const NICE: usize = 16;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse().ok();
    let (parent, group, nice) = (number(PARENT)?, number(GROUP)?, number(NICE)?);
    (!matches!(*fields.first()?, "Z" | "X")).then_some(Process { pid, parent, group, nice })
}
