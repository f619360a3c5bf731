//! Nodes lose their power, come back, and are replaced.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::real::{
    RealNodes,
    machine::run,
    node::{PROGRAMS, RealNode},
};

impl RealNodes {
    /// Cuts a node's power: all that runs on it ends at the same moment, its containers, too, and nothing says goodbye. What it
    /// has on its disk stays. The cluster is not told: it notices when the node's lease has run out.
    pub async fn stop(&self, name: &str) -> Result<()> {
        let node = self.node(name)?;
        ensure!(node.is_running()?, "{name} is switched off");
        let group = node.machine().group();
        tokio::task::spawn_blocking(move || group.kill().and_then(|()| group.remove())).await??;
        node.machine().forget(&PROGRAMS)?;
        // The kernel takes the link down some time after the node's namespace has lost its last process.
        let mut unplug = self.router().command("ip")?;
        unplug.args(["link", "delete", name]);
        if run(unplug, "").await.is_err() {
            let mut look = self.router().command("ip")?;
            look.args(["link", "show", name]);
            ensure!(run(look, "").await.is_err(), "the link to {name} cannot be removed");
        }
        Ok(())
    }

    /// Switches a node on again, with the disk it had. On return it has told the cluster that it is Ready. Its pods are
    /// started anew by its kubelet, then or later.
    pub async fn start(&self, name: &str) -> Result<()> {
        let node = self.node(name)?;
        ensure!(!node.is_running()?, "{name} is switched on");
        self.boot(&[node], &[]).await
    }

    /// Takes a node away for good, with its disk. Its name and address are not used again. Its Node stays until somebody
    /// deletes it, as after the loss of a machine.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let node = self.node(name)?;
        self.heal(&[name], &self.others(&[name])?).await?;
        if node.is_running()? {
            self.stop(name).await?;
        }
        let folder = node.machine().folder();
        // Empty, it keeps the number.
        fs::remove_dir_all(&folder).and_then(|()| fs::create_dir(&folder)).context("removing what was on its disk")
    }

    /// [Removes](Self::remove) a node and adds one with another name and address.
    pub async fn replace(&self, name: &str) -> Result<RealNode> {
        self.remove(name).await?;
        self.add(1).await?.pop().context("one node was added")
    }
}
