//! `cargo xtask lab node`: what can happen to real nodes.

use anyhow::Result;
use clap::{Args, Subcommand};
use tf_testing::{Lab, RealNode, RealNodes};

use super::DEFAULT_NAME;

#[derive(Subcommand)]
pub enum Command {
    /// Add nodes, and wait until they are Ready
    Add {
        #[command(flatten)]
        lab: Name,
        /// How many
        #[arg(default_value_t = 1)]
        count: u32,
    },
    /// Cut their power: everything on them ends at once
    Stop(Nodes),
    /// Switch them on again, with the disks they had
    Start(Nodes),
    /// Take them away for good, and add as many with other names and addresses
    Replace(Nodes),
    /// Cut them from the network
    Cut(Ends),
    /// Heal cuts
    Heal(Ends),
    /// Fill their disks
    Fill(Nodes),
    /// Free what was filled
    Free(Nodes),
    /// Kill their kubelets; containers run on
    KillKubelet(Nodes),
    /// Start kubelets that were killed
    StartKubelet(Nodes),
}

#[derive(Args)]
pub struct Name {
    /// Which lab
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
}

#[derive(Args)]
pub struct Nodes {
    #[command(flatten)]
    lab: Name,
    /// Which nodes
    #[arg(required = true)]
    nodes: Vec<String>,
}

#[derive(Args)]
pub struct Ends {
    #[command(flatten)]
    nodes: Nodes,
    /// From what: a node, or `api` for the API server; may be repeated. From everything but each other if it is not given
    #[arg(long, value_name = "NODE")]
    from: Vec<String>,
}

impl Name {
    fn find(&self) -> Result<RealNodes> {
        Lab::attach(&self.name)?.real_nodes()
    }
}

impl Nodes {
    /// Does something to each of them, one after the other.
    async fn each(&self, act: impl AsyncFn(&RealNodes, &RealNode) -> Result<()>) -> Result<()> {
        let all = self.lab.find()?;
        for name in &self.nodes {
            act(&all, &all.node(name)?).await?;
        }
        Ok(())
    }
}

impl Ends {
    fn others(&self, all: &RealNodes) -> Result<Vec<String>> {
        if self.from.is_empty() { all.others(&self.nodes.nodes) } else { Ok(self.from.clone()) }
    }
}

pub async fn run(command: &Command) -> Result<()> {
    match command {
        Command::Add { lab, count } => {
            lab.find()?.add(*count).await?.iter().for_each(announce);
        }
        Command::Cut(ends) => {
            let all = ends.nodes.lab.find()?;
            all.cut(&ends.nodes.nodes, &ends.others(&all)?).await?;
        }
        Command::Heal(ends) => {
            let all = ends.nodes.lab.find()?;
            all.heal(&ends.nodes.nodes, &ends.others(&all)?).await?;
        }
        Command::Stop(nodes) => nodes.each(async |all, node| all.stop(node.name()).await).await?,
        Command::Start(nodes) => nodes.each(async |all, node| all.start(node.name()).await).await?,
        Command::Replace(nodes) => {
            let replace = async |all: &RealNodes, node: &RealNode| {
                announce(&all.replace(node.name()).await?);
                Ok(())
            };
            nodes.each(replace).await?;
        }
        Command::Fill(nodes) => nodes.each(async |_, node| node.fill_disk()).await?,
        Command::Free(nodes) => nodes.each(async |_, node| node.free_disk()).await?,
        Command::KillKubelet(nodes) => nodes.each(async |_, node| node.kill_kubelet()).await?,
        Command::StartKubelet(nodes) => nodes.each(async |_, node| node.start_kubelet()).await?,
    }
    Ok(())
}

fn announce(node: &RealNode) {
    println!("{} {}", node.name(), node.address());
}
