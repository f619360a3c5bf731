//! Real programs that set addresses of a node's interface: NetworkManager and systemd-networkd leave the interface and `vhost0` alone while `vhost0` has
//! the interface's place, also when they are started again, and set the interface up as before when it has its place back.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tf_testing::RealNode;
use tf_testing::wait::eventually;

use crate::vhost0::addresses;

/// For a program to start, or to do what it was asked for.
const DONE: Duration = Duration::from_secs(30);
/// In which a program that was started again would have set addresses.
const CALM: Duration = Duration::from_secs(3);

/// A bus without policies: root alone is on it.
const BUS: &str = r#"<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
"#;

/// A program that sets addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    NetworkManager,
    Networkd,
}

impl Manager {
    /// Starts it on a node, whose interface it then manages with the address that there is.
    pub async fn start(self, node: &RealNode) -> Result<()> {
        let own = node.address();
        let gateway = node.run("sh", &["-c", "ip route show default | cut -d' ' -f3"]).await?;
        let gateway = gateway.trim();
        let (file, text) = match self {
            Self::NetworkManager => (
                "/etc/NetworkManager/system-connections/eth0.nmconnection",
                format!(
                    "[connection]\nid=eth0\nuuid=11111111-1111-1111-1111-111111111111\ntype=ethernet\ninterface-name=eth0\n\n\
                     [ipv4]\nmethod=manual\naddress1={own}/32,{gateway}\n\n[ipv6]\nmethod=link-local\n"
                ),
            ),
            // By the MAC address, which vhost0 has, too.
            Self::Networkd => {
                let mac = node.run("cat", &["/sys/class/net/eth0/address"]).await?;
                (
                    "/run/systemd/network/50-eth0.network",
                    format!(
                        "[Match]\nMACAddress={}\n\n[Network]\nAddress={own}/32\nIPv6AcceptRA=no\n\n\
                         [Route]\nGateway={gateway}\nGatewayOnLink=yes\n",
                        mac.trim()
                    ),
                )
            }
        };
        write(node, "/etc/tf-bus.conf", BUS, "644").await?;
        let mode = if self == Self::NetworkManager { "600" } else { "644" };
        write(node, file, &text, mode).await?;
        // Elsewhere a rule of udev has it leave those of pods alone (85-nm-unmanaged.rules).
        let settings = "[main]\nplugins=keyfile\nauth-polkit=false\nno-auto-default=*\nrc-manager=unmanaged\n\n\
                        [keyfile]\nunmanaged-devices=interface-name:veth*\n";
        write(node, "/etc/NetworkManager/NetworkManager.conf", settings, "644").await?;
        // As udev is not there, programs take the node for a container by its /sys.
        let folders = match self {
            Self::NetworkManager => "mkdir -p /run/dbus /var/lib/NetworkManager",
            Self::Networkd => {
                "mkdir -p /run/dbus /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp && \
                 chown -R systemd-network: /run/systemd/netif"
            }
        };
        node.run("sh", &["-c", &format!("{folders} && mount -o remount,bind,ro /sys")]).await?;
        let words = ["--config-file=/etc/tf-bus.conf", "--nofork", "--nopidfile"].map(str::to_owned);
        node.machine().spawn("dbus-daemon", "dbus-daemon", &words)?;
        eventually("the bus", DONE, async || {
            Ok(node.machine().path("/run/dbus/system_bus_socket")?.exists().then_some(()))
        })
        .await?;
        self.spawn(node)?;
        self.has(node, self.managed()).await
    }

    fn spawn(self, node: &RealNode) -> Result<()> {
        match self {
            Self::NetworkManager => {
                node.machine().spawn("NetworkManager", "NetworkManager", &["--no-daemon".to_owned()])
            }
            Self::Networkd => node.machine().spawn("networkd", "/usr/lib/systemd/systemd-networkd", &[]),
        }
        .map(drop)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::NetworkManager => "NetworkManager",
            Self::Networkd => "networkd",
        }
    }

    /// The state of an interface that it manages.
    const fn managed(self) -> &'static str {
        match self {
            Self::NetworkManager => "connected",
            Self::Networkd => "configured",
        }
    }

    /// It leaves both interfaces alone, also when it is started again.
    pub async fn stays_away(self, node: &RealNode) -> Result<()> {
        self.has(node, "unmanaged").await?;
        let before = seen(node).await?;
        node.machine().kill(self.name())?;
        self.spawn(node)?;
        self.has(node, "unmanaged").await?;
        tokio::time::sleep(CALM).await;
        let after = seen(node).await?;
        ensure!(after == before, "{} set addresses: {before}\nand then {after}", self.name());
        let all = self.states(node).await?;
        ensure!(state(&all, "vhost0") == Some("unmanaged"), "{}: {all}", self.name());
        Ok(())
    }

    /// It manages the interface again, which has one address as before.
    pub async fn is_back(self, node: &RealNode) -> Result<()> {
        self.has(node, self.managed()).await?;
        tokio::time::sleep(CALM).await;
        let own = addresses(node, "eth0").await?;
        ensure!(own.lines().count() == 1 && own.contains(&node.address().to_string()), "{}: {own}", self.name());
        let left =
            node.run("sh", &["-c", "ls -d /run/systemd/network/00-tf* /run/NetworkManager/conf.d/00-tf* || true"]);
        let left = left.await?;
        ensure!(left.is_empty(), "files of {} are left: {left}", node.name());
        Ok(())
    }

    async fn has(self, node: &RealNode, wanted: &str) -> Result<()> {
        let mut last = String::new();
        eventually(&format!("eth0 to be {wanted}"), DONE, async || {
            // It may be starting.
            last = self.states(node).await.unwrap_or_default();
            Ok((state(&last, "eth0") == Some(wanted)).then_some(()))
        })
        .await
        .with_context(|| format!("{last}\n{}", node.machine().tail(self.name())))
    }

    /// Interfaces with their states, one a line.
    async fn states(self, node: &RealNode) -> Result<String> {
        match self {
            Self::NetworkManager => node.run("nmcli", &["-t", "-f", "DEVICE,STATE", "device"]).await,
            Self::Networkd => {
                let list = node.run("networkctl", &["--no-legend", "--no-pager", "list"]).await?;
                let words = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
                Ok(words.filter_map(|words| Some(format!("{}:{}\n", words.get(1)?, words.last()?))).collect())
            }
        }
    }
}

fn state<'a>(states: &'a str, link: &str) -> Option<&'a str> {
    states.lines().find_map(|line| line.strip_prefix(link)?.strip_prefix(':'))
}

/// Addresses and routes of a node, but those of pods.
async fn seen(node: &RealNode) -> Result<String> {
    let addresses = addresses(node, "eth0").await? + &addresses(node, "vhost0").await?;
    let routes = node.run("sh", &["-c", "ip route show | grep -v veth | sort"]).await?;
    Ok(addresses + &routes)
}

async fn write(node: &RealNode, path: &str, text: &str, mode: &str) -> Result<()> {
    let script = r#"mkdir -p "$(dirname "$1")" && printf '%s' "$2" > "$1" && chmod "$3" "$1""#;
    node.run("sh", &["-c", script, "sh", path, text, mode]).await.map(drop)
}
