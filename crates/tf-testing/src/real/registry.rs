//! A registry of images without TLS, from which the nodes of a lab pull. It listens where the lab's API server does.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::{
    Lab, assets,
    process::{Process, Spec},
    real::machine::run,
    wait::eventually,
};

/// It needs tenths of a second when the machine is not otherwise busy.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);

/// A registry that ends with its lab, or when it is dropped.
#[derive(Debug)]
pub struct Registry {
    crane: PathBuf,
    address: SocketAddr,
    _process: Process,
}

impl Registry {
    /// Starts one and has every node reach it without TLS, as `/etc/containerd/certs.d` states.
    ///
    /// # Errors
    /// When it cannot be built, does not listen, or a node is switched off.
    pub async fn start(lab: &Lab) -> Result<Self> {
        let crane = tokio::task::spawn_blocking(assets::crane).await??;
        let host = lab.real_nodes()?.network().api_server();
        // Free until the registry takes it, a moment later.
        let address = TcpListener::bind((host, 0)).await?.local_addr()?;
        let disk = lab.folder().path().join("registry");
        fs::create_dir_all(&disk).with_context(|| format!("making {}", disk.display()))?;
        let arguments = ["registry", "serve", "--address", &address.to_string(), "--disk", &disk.display().to_string()]
            .map(str::to_owned);
        let process = lab.spawn(Spec::new("registry", &crane).args(arguments))?;
        eventually("the registry to listen", LISTENS_WITHIN, async || Ok(TcpStream::connect(address).await.ok()))
            .await
            .with_context(|| process.tail(15))?;
        for node in lab.real_nodes()?.all()? {
            let folder = node.machine().path(&format!("/etc/containerd/certs.d/{address}"))?;
            fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
            fs::write(folder.join("hosts.toml"), format!("[host.\"http://{address}\"]\n"))?;
        }
        Ok(Self { crane, address, _process: process })
    }

    /// Its name in references: `HOST:PORT`.
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// Pushes the image of an archive under this name, without the registry's: `opensdn/opensdn-nodemgr:latest`.
    ///
    /// # Errors
    /// When the registry does not take it.
    pub async fn push(&self, archive: &Path, name: &str) -> Result<()> {
        let mut push = Command::new(&self.crane);
        push.arg("push").arg(archive).arg(format!("{}/{name}", self.address)).arg("--insecure");
        run(push, "").await.map(drop)
    }
}
