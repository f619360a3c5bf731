//! Configuration of the programs on a node. Pure: from addresses and names to files.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::{options::IpFamily, real::network::Network};

/// containerd's, the same on every node.
pub const CONTAINERD: &str = include_str!("../../../../e2e/lab/node/containerd.toml");

/// What containerd runs as runc.
const RUNC: &str = include_str!("../../../../e2e/lab/node/runc.sh");

/// Where a node keeps what its Kubernetes programs read.
pub const FOLDER: &str = "/etc/kubernetes";

/// What tells one node from the others.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name of the node and of its host.
    pub name: String,
    /// Its number in the lab's network.
    pub number: u8,
    /// The network of the lab.
    pub network: Network,
    /// Control group of its pods.
    pub pods_group: String,
    /// Duration of its lease in seconds.
    pub lease_seconds: u32,
    /// DNS servers of pods.
    pub dns: Vec<IpAddr>,
}

impl NodeConfig {
    /// KubeletConfiguration.
    pub fn kubelet(&self) -> Value {
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": format!("{FOLDER}/ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": format!("{FOLDER}/kubelet.crt"),
            "tlsPrivateKeyFile": format!("{FOLDER}/kubelet.key"),
            "clusterDomain": "cluster.local",
            "clusterDNS": self.dns,
            // Groups of version 1 are what a container of CI has. Without those of quality of service the kubelet needs no
            // rights to controllers; e2e/lab/node/runc.sh puts containers where they belong.
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": false,
            "enforceNodeAllocatable": [],
            "failCgroupV1": false,
            "failSwapOn": false,
            "localStorageCapacityIsolation": false,
            // Without rights over the whole machine, as in a container of CI, it cannot set its own score of the OOM killer.
            "featureGates": {"KubeletInUserNamespace": true},
            // The machine's memory and disk are shared with builds and other labs: no node may act on how full they are.
            "evictionHard": {"memory.available": "1Mi"},
            "imageGCHighThresholdPercent": 100,
            // The default is below /usr, which no node may write to.
            "volumePluginDir": "/var/lib/kubelet/volumeplugins",
            "nodeLeaseDurationSeconds": self.lease_seconds,
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "10s",
            // Sizes of volumes, by walking through them, are of no use to a test.
            "volumeStatsAggPeriod": "-1s",
        })
    }

    /// Arguments of kubelet.
    pub fn kubelet_arguments(&self) -> Vec<String> {
        vec![
            "kubelet".into(),
            format!("--config={FOLDER}/kubelet.yaml"),
            format!("--kubeconfig={FOLDER}/kubelet.kubeconfig"),
            format!("--hostname-override={}", self.name),
            format!("--node-ip={}", self.address()),
        ]
    }

    /// KubeProxyConfiguration.
    pub fn kube_proxy(&self) -> Value {
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "hostnameOverride": self.name,
            "clusterCIDR": self.network.all_pods().to_string(),
            "clientConnection": {"kubeconfig": format!("{FOLDER}/kube-proxy.kubeconfig")},
            // The size of the table is the machine's, and a node may not change it.
            "conntrack": {"maxPerCore": 0, "min": 0},
        })
    }

    /// Network configuration: a link to the node for each pod, addresses from the node's own range.
    pub fn cni(&self) -> Value {
        json!({
            "cniVersion": "0.4.0",
            "name": "lab",
            "plugins": [
                {
                    "type": "ptp",
                    "ipMasq": false,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": self.network.pods(self.number).to_string()}]],
                        "routes": [{"dst": self.everywhere()}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": true}},
            ],
        })
    }

    /// The program containerd runs as runc.
    pub fn runc(&self) -> String {
        RUNC.replace("GROUP", &self.pods_group)
    }

    /// Its hosts file.
    pub fn hosts(&self) -> String {
        let own = format!("{} {}\n", self.address(), self.name);
        match self.network.family() {
            IpFamily::V4 => format!("127.0.0.1 localhost\n{own}"),
            IpFamily::V6 => format!("127.0.0.1 localhost\n::1 localhost\n{own}"),
        }
    }

    fn everywhere(&self) -> &'static str {
        match self.network.family() {
            IpFamily::V4 => "0.0.0.0/0",
            IpFamily::V6 => "::/0",
        }
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.network.node(self.number)
    }
}
