//! A real node: a machine with containerd, a kubelet and kube-proxy.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::{
    folder::write_atomically,
    identity::Identity,
    kubeconfig::{self, Credential, Endpoint},
    pki::Authority,
    real::{
        Programs,
        config::{self, NodeConfig},
        disk,
        machine::{Machine, run},
        network::Network,
    },
    wait::eventually,
};

/// How long containerd may take to listen. It needs one second when the machine is not otherwise busy.
const RUNTIME_WITHIN: Duration = Duration::from_secs(60);

/// Where kube-proxy says whether its rules are in place.
const KUBE_PROXY_HEALTH: u16 = 10256;

/// Names of the programs of a node, in the order they are started.
pub const PROGRAMS: [&str; 3] = ["containerd", "kubelet", "kube-proxy"];

/// What the lab remembers of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Name.
    pub name: String,
    /// Its number in the lab's network.
    pub number: u8,
    /// Its address.
    pub address: IpAddr,
}

/// A node of a lab, running or not.
#[derive(Clone, Debug)]
pub struct RealNode {
    machine: Machine,
    record: NodeRecord,
    network: Network,
    lease_seconds: u32,
}

impl RealNode {
    pub(super) fn new(machine: Machine, record: NodeRecord, network: Network, lease_seconds: u32) -> Self {
        Self { machine, record, network, lease_seconds }
    }

    /// Name of the node.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.record.address
    }

    /// The machine it is.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether it is switched on.
    pub fn is_running(&self) -> Result<bool> {
        Ok(self.machine.keeper()?.is_some())
    }

    /// Gives a new node its identity and configuration.
    pub(super) fn configure(&self, authority: &Authority, endpoint: &Endpoint) -> Result<()> {
        let config = self.config();
        let etc = self.machine.folder().join("etc");
        let kubernetes = etc.join("kubernetes");
        for folder in [&kubernetes, &etc.join("containerd"), &etc.join("cni/net.d")] {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let name = self.name();
        let serving = authority.server(&format!("system:node:{name}"), &[self.address()], &[name])?;
        let node = authority.client(&format!("system:node:{name}"), Some("system:nodes"))?;
        let proxy = authority.client("system:kube-proxy", None)?;
        let secret = |file: &str, content: &str| write_atomically(&kubernetes.join(file), content.as_bytes());
        secret("ca.crt", &authority.certificate())?;
        secret("kubelet.crt", &serving.certificate)?;
        secret("kubelet.key", &serving.key)?;
        secret("kubelet.yaml", &serde_saphyr::to_string(&config.kubelet())?)?;
        secret("kube-proxy.yaml", &serde_saphyr::to_string(&config.kube_proxy())?)?;
        for (file, pair) in [("kubelet.kubeconfig", &node), ("kube-proxy.kubeconfig", &proxy)] {
            kubeconfig::write(&kubernetes.join(file), endpoint, &Credential::Certificate(pair), "default")?;
        }
        let public = |file: &str, content: &str| {
            fs::write(etc.join(file), content).with_context(|| format!("writing {file} of {name}"))
        };
        public("containerd/config.toml", config::CONTAINERD)?;
        public("containerd/runc", &config.runc())?;
        fs::set_permissions(etc.join("containerd/runc"), fs::Permissions::from_mode(0o755))?;
        public("cni/net.d/10-lab.conflist", &serde_json::to_string(&config.cni())?)?;
        public("hosts", &config.hosts())?;
        public("hostname", &format!("{name}\n"))?;
        public("machine-id", &format!("{}\n", machine_id(&self.machine.folder())))?;
        // Names of the world outside are of no use to a lab.
        public("resolv.conf", "")
    }

    /// Switches it on. `images` are loaded before its kubelet starts.
    pub(super) async fn boot(&self, programs: &Programs, router: &Machine, images: &[PathBuf]) -> Result<()> {
        self.machine.boot(programs.packages.as_ref(), &programs.control_plane, Some(disk::SIZE)).await?;
        let link = self.network.link(self.name(), self.record.number, self.machine.pid()?);
        ip_batch(router, &link).await?;
        ip_batch(&self.machine, &self.network.on_node(self.record.number)).await?;

        self.machine.spawn("containerd", "containerd", &[])?;
        let socket = self.machine.path("/run/containerd/containerd.sock")?;
        let listens = async || Ok(tokio::net::UnixStream::connect(&socket).await.is_ok().then_some(()));
        eventually("containerd to listen", RUNTIME_WITHIN, listens)
            .await
            .with_context(|| self.machine.tail("containerd"))?;
        for image in images {
            self.load(image).await?;
        }
        self.start_kubelet()
    }

    /// Starts kube-proxy, and returns when it has made its first rules. The Node must exist: without one it waits for long
    /// before it looks again.
    pub(super) async fn start_kube_proxy(&self) -> Result<()> {
        let flags = ["kube-proxy".to_owned(), format!("--config={}/kube-proxy.yaml", config::FOLDER)];
        self.machine.spawn("kube-proxy", CONTROL_PLANE, &flags)?;
        eventually("rules of kube-proxy", RUNTIME_WITHIN, async || Ok(self.kube_proxy_is_healthy().await.ok()))
            .await
            .with_context(|| self.machine.tail("kube-proxy"))
    }

    async fn kube_proxy_is_healthy(&self) -> Result<()> {
        let mut stream = tokio::net::TcpStream::connect((self.address(), KUBE_PROXY_HEALTH)).await?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        ensure!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
        Ok(())
    }

    /// Starts the kubelet, after it was ended on its own.
    pub fn start_kubelet(&self) -> Result<()> {
        self.machine.spawn("kubelet", CONTROL_PLANE, &self.config().kubelet_arguments())?;
        Ok(())
    }

    /// Starts its kubelet again if it has ended, as service managers do: it gives up when containerd listens and does not answer yet,
    /// which looks at what a power failure left first.
    pub(super) fn restart_kubelet(&self) -> Result<()> {
        if self.machine.has_ended("kubelet")? { self.start_kubelet() } else { Ok(()) }
    }

    /// Kills its kubelet and nothing else: containers run on, nobody looks after them. [`start_kubelet`](Self::start_kubelet)
    /// ends that.
    pub fn kill_kubelet(&self) -> Result<()> {
        self.machine.kill("kubelet")
    }

    /// Kills (SIGKILL) every process of this name on it, in containers, too. As in [`hang`](Self::hang) and others the name may have an
    /// argument behind a blank, which tells programs of one interpreter apart: `java kafka.Kafka`.
    pub fn kill(&self, name: &str) -> Result<()> {
        self.signal(name, Signal::KILL)
    }

    /// Stops (SIGSTOP) every process of this name on it, in containers, too: it keeps its ports and does nothing.
    pub fn hang(&self, name: &str) -> Result<()> {
        self.signal(name, Signal::STOP)
    }

    /// Ends [`hang`](Self::hang).
    pub fn go_on(&self, name: &str) -> Result<()> {
        self.signal(name, Signal::CONT)
    }

    fn signal(&self, name: &str, signal: Signal) -> Result<()> {
        let signalled = self.machine.group().signal_named(name, signal)?;
        ensure!(signalled > 0, "no process {name} runs on {}", self.name());
        Ok(())
    }

    /// Its processes of this name, in containers, too.
    pub fn processes(&self, name: &str) -> Result<Vec<Identity>> {
        let ids = self.machine.group().named(name)?;
        ids.into_iter().filter_map(|pid| Identity::of(pid.unsigned_abs()).transpose()).collect()
    }

    /// Loads the images of an archive (of docker save, or an OCI layout; packed with gzip or not).
    pub async fn load(&self, archive: &Path) -> Result<()> {
        let file = fs::File::open(archive).with_context(|| format!("opening {}", archive.display()))?;
        let mut import = self.machine.command("ctr")?;
        import.args(["--namespace", "k8s.io", "images", "import", "-"]).stdin(file);
        let output = import.stdout(Stdio::piped()).stderr(Stdio::piped()).output().await?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("loading {} into {}: {}", archive.display(), self.name(), said.trim());
        }
        Ok(())
    }

    /// Runs a program on it, as someone logged in would. Returns its output; a failure tells what it said.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = self.machine.command(program)?;
        command.args(arguments);
        Ok(String::from_utf8_lossy(&run(command, "").await?.stdout).into_owned())
    }

    /// Gives it an ordinary interface in the place of the one that the vRouter's kernel module makes: `vhost0` with the address and the MAC
    /// address of the node's own. No route leads there, and nothing is forwarded.
    ///
    /// # Errors
    /// When the machine does not take it.
    pub async fn stand_in_for_vhost0(&self) -> Result<()> {
        let mac = self.run("cat", &["/sys/class/net/eth0/address"]).await?;
        let (mac, address) = (mac.trim(), self.address());
        let commands = format!(
            "link add vhost0 type veth peer name vhost0-end\nlink set vhost0 address {mac}\n\
             address add {address}/24 dev vhost0 noprefixroute\nlink set vhost0-end up\nlink set vhost0 up\n"
        );
        ip_batch(&self.machine, &commands).await
    }

    /// An error when one of its programs that was started has ended.
    pub fn check(&self) -> Result<()> {
        for program in PROGRAMS {
            if self.machine.has_ended(program)? {
                bail!("{program} of {} has ended; it logged:\n{}", self.name(), self.machine.tail(program));
            }
        }
        Ok(())
    }

    /// The last lines of its programs' logs.
    pub fn tail(&self) -> String {
        PROGRAMS.map(|name| format!("{name} of {} logged:\n{}", self.name(), self.machine.tail(name))).join("\n")
    }

    fn config(&self) -> NodeConfig {
        NodeConfig {
            name: self.record.name.clone(),
            number: self.record.number,
            network: self.network,
            pods_group: self.machine.group().within("pods").name(),
            lease_seconds: self.lease_seconds,
            dns: vec![self.network.family().dns_service()],
        }
    }
}

/// The binary with kubelet and kube-proxy on a node, where `e2e/lab/node/root.sh` puts it.
const CONTROL_PLANE: &str = "/opt/lab/controlplane";

/// Runs commands of `ip` on a machine.
pub(super) async fn ip_batch(machine: &Machine, commands: &str) -> Result<()> {
    let mut ip = machine.command("ip")?;
    ip.args(["-batch", "-"]);
    run(ip, commands).await.with_context(|| format!("with the commands\n{commands}"))?;
    Ok(())
}

/// Runs commands of `ip` outside of machines.
pub(super) async fn ip(arguments: &[&str], input: &str) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(arguments);
    run(command, input).await?;
    Ok(())
}

/// Differs from node to node: two kubelets with one would be taken for one machine.
fn machine_id(folder: &Path) -> String {
    let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    format!("{:032x}", u128::from_be_bytes(std::array::from_fn(|index| digest[index])))
}

/// Whether this program may make real nodes; the error says what is missing. Blocks for a moment.
pub fn supported() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "real nodes need root: they are made of namespaces and control groups"
    );
    // Root in a container may lack the rights.
    let tried = std::process::Command::new("unshare").args(["--mount", "--net", "--uts", "--", "true"]).output();
    let tried = tried.context("real nodes need the program unshare of util-linux")?;
    ensure!(
        tried.status.success(),
        "real nodes need namespaces, which this root may not make: {}",
        String::from_utf8_lossy(&tried.stderr).trim()
    );
    Ok(())
}
