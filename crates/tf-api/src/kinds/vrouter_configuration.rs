//! `Vrouter.spec.serviceConfiguration`: the long list of settings of the agents.
//!
//! The Go tf-operator accepted 45 of these fields without passing them on. They stay; nearly everything is an `Option`,
//! because a profile may set it too, and because the operator has to tell a user which of their settings have no effect.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::Container,
    schema::{Sensitive, addresses, same_setting, subnet, subnets},
};

/// Settings of the vRouters. Condition FieldsIgnored lists those that are set and have no effect.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    same_setting("xmmpSslEnable", "xmppSslEnable"),
    same_setting("fabricSntHashTableSize", "fabricSnatHashTableSize"),
]))]
pub struct VrouterConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Name of the Control that the agents talk to. Default: the only one in the namespace.
    #[schemars(length(max = 253))]
    pub control_instance: Option<String>,
    /// Variables of the agent's parameters and of every container's environment. They win over all other settings.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 512))]
    pub env_variables_config: BTreeMap<String, Sensitive>,

    // Network of the node.
    /// Interface that carries the overlay, or several separated by commas. Default: the one with the default route.
    #[schemars(length(max = 253))]
    pub physical_interface: Option<String>,
    /// Who makes `vhost0` and moves addresses and routes of the interface to it. `Existing`, the default: the host, or a program on it; agents wait for it.
    /// `Managed`: pods, before their agent starts, on nodes with one interface. A node on which that cannot be done is named with the cause and not touched.
    /// This release was not tried with a real kernel module.
    pub vhost0: Option<Vhost0>,
    /// Whether a node has the taint `tf.tungsten.io/agent-not-ready:NoSchedule` from its boot until its agent serves, so that no pod is scheduled
    /// to a node where it would get no network. For nodes whose pods use the CNI plugin of the vRouter. `true`: in each boot, the first one with a vRouter,
    /// too. `false`: never. Default: from the second boot on.
    pub agent_not_ready_taint: Option<bool>,
    /// Gateway in the network of the overlay, or several separated by commas. Default: that of the interface.
    #[schemars(length(max = 256))]
    #[schemars(extend("x-kubernetes-validations" = [addresses()]))]
    pub vrouter_gateway: Option<String>,
    /// Network whose addresses the agents use, for example 10.1.0.0/24. Default: the address of the node.
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-validations" = [subnet()]))]
    pub data_subnet: Option<String>,
    /// Subnet of the loopback addresses of nodes with several uplinks. Default: one uplink.
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-validations" = [subnet()]))]
    pub l3mh_cidr: Option<String>,
    /// MTU of the interfaces of pods. Default: on each node the MTU of `vhost0` less 64, the largest header of the overlay.
    #[serde(rename = "cniMTU")]
    #[schemars(range(min = 576, max = 65535))]
    pub cni_mtu: Option<u32>,
    /// Directory with CNI configurations on the nodes (`conf_dir` of containerd), for example /var/lib/rancher/k3s/agent/etc/cni/net.d. Default: as discovered
    /// in the cluster.
    #[schemars(length(max = 1024), regex(pattern = r"^(/[^/:]+)+$"))]
    pub cni_conf_dir: Option<String>,
    /// Directory with CNI plugins on the nodes (`bin_dir` of containerd), for example /var/lib/rancher/k3s/data/cni. Default: as discovered in the cluster.
    #[schemars(length(max = 1024), regex(pattern = r"^(/[^/:]+)+$"))]
    pub cni_bin_dir: Option<String>,
    /// Name of the process that calls the plugin where Multus does: multus, or multus-daemon of a thick Multus. Default: multus, and multus-daemon on
    /// OpenShift.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"))]
    pub cni_meta_plugin: Option<String>,
    /// Name of the cluster, with which the names of its pods begin in Tungsten Fabric: the one that Kubemanager has. Default: as discovered in the
    /// cluster.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"))]
    pub cluster_name: Option<String>,
    /// Subnets of the pods, separated by commas. Default: as discovered in the cluster.
    #[schemars(length(max = 256))]
    #[schemars(extend("x-kubernetes-validations" = [subnets()]))]
    pub kubernetes_pod_subnet: Option<String>,
    /// Name of the subcluster that the nodes belong to. Default: none.
    #[schemars(length(max = 253))]
    pub subcluster: Option<String>,

    // Forwarding.
    /// Platform that is served, for example kubernetes.
    #[schemars(length(max = 63))]
    pub cloud_orchestrator: String,
    /// Hypervisor of the nodes, for example kvm.
    #[schemars(length(max = 63))]
    pub hypervisor_type: String,
    /// What forwards packets: kernel, the default, or dpdk, a program that has the interface for itself. Groups state it by a profile.
    #[schemars(length(max = 64))]
    pub agent_mode: Option<String>,
    /// Role of a service node: tsn or tsn-no-forwarding. Default: none.
    #[schemars(length(max = 64))]
    pub tsn_agent_mode: Option<String>,
    /// Pages of 2 MiB for the agent, or for the forwarder with agentMode: dpdk. Default 0.
    #[serde(rename = "hugePages2M")]
    #[schemars(range(min = 0, max = 67_108_864))]
    pub hugepages_2m: Option<u32>,
    /// Pages of 1 GiB for the agent, or for the forwarder with agentMode: dpdk. Default 0.
    #[serde(rename = "hugePages1G")]
    #[schemars(range(min = 0, max = 131_072))]
    pub hugepages_1g: Option<u32>,
    /// Driver by which DPDK gets the interface: vfio-pci, the default, uio_pci_generic, or mlnx for cards of Mellanox, which keep theirs.
    #[schemars(length(max = 64))]
    pub dpdk_uio_driver: Option<String>,
    /// Interfaces with virtual functions, separated by commas.
    #[schemars(length(max = 1024))]
    pub sriov_physical_interface: Option<String>,
    /// Names of the networks of these interfaces, separated by commas in the same order.
    #[schemars(length(max = 1024))]
    pub sriov_physical_network: Option<String>,
    /// Numbers of virtual functions of these interfaces, separated by commas in the same order.
    #[schemars(length(max = 253))]
    pub sriov_vf: Option<String>,
    /// Old spelling of fabricSnatHashTableSize.
    #[serde(rename = "fabricSntHashTableSize")]
    #[schemars(length(max = 64))]
    pub fabric_snt_hash_table_size: Option<String>,
    /// Size of the table for source translation. Default 4096.
    #[schemars(length(max = 64))]
    pub fabric_snat_hash_table_size: Option<String>,

    // TLS.
    /// Whether connections use TLS.
    pub ssl_enable: bool,
    /// Whether certificates of peers are accepted unchecked.
    pub ssl_insecure: Option<bool>,
    /// Whether the config API is spoken to with TLS. Default: as sslEnable.
    pub config_api_ssl_enable: Option<bool>,
    /// Old spelling of xmppSslEnable.
    pub xmmp_ssl_enable: Option<bool>,
    /// Whether XMPP uses TLS. Default: as sslEnable.
    pub xmpp_ssl_enable: Option<bool>,
    /// Whether collectors are spoken to with TLS. Default: as sslEnable.
    pub sandesh_ssl_enable: Option<bool>,
    /// Whether introspection is served with TLS. Default: as sslEnable.
    pub introspect_ssl_enable: Option<bool>,
    /// File with certificate authorities. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub server_ca_certfile: Option<String>,
    /// File with the server certificate. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub server_certfile: Option<String>,
    /// File with the key of the server certificate. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub server_keyfile: Option<String>,
    /// File with certificate authorities for the config API. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub config_api_server_ca_certfile: Option<String>,
    /// File with certificate authorities for XMPP. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub xmpp_server_ca_certfile: Option<String>,
    /// File with the certificate for XMPP. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub xmpp_server_certfile: Option<String>,
    /// File with the key of the certificate for XMPP. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub xmpp_server_keyfile: Option<String>,
    /// File with certificate authorities for collectors. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub sandesh_ca_certfile: Option<String>,
    /// File with the client certificate for collectors. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub sandesh_certfile: Option<String>,
    /// File with the key of the client certificate for collectors. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub sandesh_keyfile: Option<String>,
    /// File with the server certificate for introspection. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub sandesh_server_certfile: Option<String>,
    /// File with the key of the server certificate for introspection. Default: as issued to the pod.
    #[schemars(length(max = 1024))]
    pub sandesh_server_keyfile: Option<String>,

    // Metadata service.
    /// Secret shared with the metadata service of OpenStack.
    pub metadata_proxy_secret: Option<Sensitive>,
    /// Whether the metadata service is spoken to with TLS: true or false.
    #[schemars(length(max = 64))]
    pub metadata_ssl_enable: Option<String>,
    /// File with the client certificate for the metadata service.
    #[schemars(length(max = 1024))]
    pub metadata_ssl_certfile: Option<String>,
    /// File with the key of that certificate.
    #[schemars(length(max = 1024))]
    pub metadata_ssl_keyfile: Option<String>,
    /// File with certificate authorities for the metadata service.
    #[schemars(length(max = 1024))]
    pub metadata_ssl_ca_certfile: Option<String>,
    /// Format of that certificate, for example PEM.
    #[schemars(length(max = 64))]
    pub metadata_ssl_cert_type: Option<String>,

    // Logs and samples.
    /// Directory of the log files. Default /var/log/contrail.
    #[schemars(length(max = 1024))]
    pub log_dir: Option<String>,
    /// Whether log messages are written to files: 1 or 0.
    #[schemars(range(min = 0, max = 1))]
    pub log_local: u32,
    /// Where security events go: collector, file or syslog, separated by blanks.
    #[schemars(length(max = 253))]
    pub slo_destination: Option<String>,
    /// Where flow samples go: collector, file or syslog, separated by blanks.
    #[schemars(length(max = 253))]
    pub sample_destination: Option<String>,
    /// Socket that statistics are written to.
    #[schemars(length(max = 1024))]
    pub stats_collector_destination_path: Option<String>,

    // Queues and priorities of the interface.
    /// Numbers of priority groups, separated by commas.
    #[schemars(length(max = 1024))]
    pub priority_id: Option<String>,
    /// Shares of bandwidth of the priority groups, separated by commas.
    #[schemars(length(max = 1024))]
    pub priority_bandwidth: Option<String>,
    /// Scheduling of the priority groups, strict or rr, separated by commas.
    #[schemars(length(max = 1024))]
    pub priority_scheduling: Option<String>,
    /// Whether frames carry a priority tag.
    pub priority_tagging: Option<bool>,
    /// Numbers of hardware queues, separated by commas.
    #[schemars(length(max = 1024))]
    pub qos_queue_id: Option<String>,
    /// Logical queues of the hardware queues, separated by semicolons.
    #[schemars(length(max = 1024))]
    pub qos_logical_queues: Option<String>,
    /// Whether the last hardware queue is the default one.
    pub qos_def_hw_queue: Option<bool>,

    // Encryption between nodes.
    /// Whether traffic between nodes is encrypted. This release does not encrypt it and refuses true.
    pub vrouter_encryption: Option<bool>,
    /// Oldest kernel that encryption works with.
    #[schemars(length(max = 64))]
    pub required_kernel_vrouter_encryption: Option<String>,
    /// Interface that encrypts.
    #[schemars(length(max = 64))]
    pub vrouter_crypt_interface: Option<String>,
    /// Interface that decrypts.
    #[schemars(length(max = 64))]
    pub vrouter_decrypt_interface: Option<String>,
    /// Key of the interface that decrypts.
    pub vrouter_decrypt_key: Option<Sensitive>,

    // Ports of peers. Taken from the peers themselves unless given.
    /// Port of the collectors.
    #[schemars(length(max = 64))]
    pub collector_port: Option<String>,
    /// Port of the config API.
    #[schemars(length(max = 64))]
    pub config_api_port: Option<String>,
    /// Port of the DNS servers.
    #[schemars(length(max = 64))]
    pub dns_server_port: Option<String>,
    /// Port of the control nodes.
    #[schemars(length(max = 64))]
    pub xmpp_server_port: Option<String>,

    // Kubernetes and OpenStack, for load balancers that need their secrets.
    /// Token for the Kubernetes API server.
    #[serde(rename = "k8sToken")]
    pub k8s_token: Option<Sensitive>,
    /// File with the token for the Kubernetes API server.
    #[serde(rename = "k8sTokenFile")]
    #[schemars(length(max = 1024))]
    pub k8s_token_file: Option<String>,
    /// Port of the Kubernetes API server without TLS.
    #[schemars(length(max = 64))]
    pub kubernetes_api_port: Option<String>,
    /// Port of the Kubernetes API server with TLS.
    #[schemars(length(max = 64))]
    pub kubernetes_api_secure_port: Option<String>,
    /// Project of the user of Barbican.
    #[schemars(length(max = 253))]
    pub barbican_tenant_name: Option<String>,
    /// Name of the user of Barbican.
    #[schemars(length(max = 253))]
    pub barbican_user: Option<String>,
    /// Password of the user of Barbican.
    pub barbican_password: Option<Sensitive>,
    /// Address of Keystone.
    #[schemars(length(max = 253))]
    pub keystone_auth_host: Option<String>,
    /// Protocol of Keystone: http or https.
    #[schemars(length(max = 64))]
    pub keystone_auth_proto: Option<String>,
    /// Port of Keystone. Default: the value of `adminPort` of the Keystone parameters.
    #[schemars(length(max = 64))]
    pub keystone_auth_admin_port: Option<String>,
    /// Password of the administrator in Keystone.
    pub keystone_auth_admin_password: Option<Sensitive>,
    /// Whether the certificate of Keystone is accepted unchecked.
    pub keystone_auth_insecure: Option<bool>,
    /// File with certificate authorities for Keystone.
    #[schemars(length(max = 1024))]
    pub keystone_auth_ca_certfile: Option<String>,
    /// File with the client certificate for Keystone.
    #[schemars(length(max = 1024))]
    pub keystone_auth_certfile: Option<String>,
    /// File with the key of that certificate.
    #[schemars(length(max = 1024))]
    pub keystone_auth_keyfile: Option<String>,
    /// Domain of the project in Keystone.
    #[schemars(length(max = 253))]
    pub keystone_auth_project_domain_name: Option<String>,
    /// Domain of the user in Keystone.
    #[schemars(length(max = 253))]
    pub keystone_auth_user_domain_name: Option<String>,
    /// Region in Keystone.
    #[schemars(length(max = 253))]
    pub keystone_auth_region_name: Option<String>,
    /// Path of tokens in Keystone.
    #[schemars(length(max = 1024))]
    pub keystone_auth_url_tokens: Option<String>,
    /// Path of the version of the API of Keystone.
    #[schemars(length(max = 253))]
    pub keystone_auth_url_version: Option<String>,
}

/// Who makes `vhost0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Vhost0 {
    /// The host, or a program on it.
    #[default]
    Existing,
    /// Pods, before their agent starts.
    Managed,
}

impl Default for VrouterConfiguration {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            control_instance: None,
            env_variables_config: BTreeMap::new(),
            physical_interface: None,
            vhost0: None,
            agent_not_ready_taint: None,
            vrouter_gateway: None,
            data_subnet: None,
            l3mh_cidr: None,
            cni_mtu: None,
            cni_conf_dir: None,
            cni_bin_dir: None,
            cni_meta_plugin: None,
            cluster_name: None,
            kubernetes_pod_subnet: None,
            subcluster: None,
            cloud_orchestrator: "kubernetes".into(),
            hypervisor_type: "kvm".into(),
            agent_mode: None,
            tsn_agent_mode: None,
            hugepages_2m: None,
            hugepages_1g: None,
            dpdk_uio_driver: None,
            sriov_physical_interface: None,
            sriov_physical_network: None,
            sriov_vf: None,
            fabric_snt_hash_table_size: None,
            fabric_snat_hash_table_size: None,
            ssl_enable: true,
            ssl_insecure: None,
            config_api_ssl_enable: None,
            xmmp_ssl_enable: None,
            xmpp_ssl_enable: None,
            sandesh_ssl_enable: None,
            introspect_ssl_enable: None,
            server_ca_certfile: None,
            server_certfile: None,
            server_keyfile: None,
            config_api_server_ca_certfile: None,
            xmpp_server_ca_certfile: None,
            xmpp_server_certfile: None,
            xmpp_server_keyfile: None,
            sandesh_ca_certfile: None,
            sandesh_certfile: None,
            sandesh_keyfile: None,
            sandesh_server_certfile: None,
            sandesh_server_keyfile: None,
            metadata_proxy_secret: None,
            metadata_ssl_enable: None,
            metadata_ssl_certfile: None,
            metadata_ssl_keyfile: None,
            metadata_ssl_ca_certfile: None,
            metadata_ssl_cert_type: None,
            log_dir: None,
            log_local: 1,
            slo_destination: None,
            sample_destination: None,
            stats_collector_destination_path: None,
            priority_id: None,
            priority_bandwidth: None,
            priority_scheduling: None,
            priority_tagging: None,
            qos_queue_id: None,
            qos_logical_queues: None,
            qos_def_hw_queue: None,
            vrouter_encryption: None,
            required_kernel_vrouter_encryption: None,
            vrouter_crypt_interface: None,
            vrouter_decrypt_interface: None,
            vrouter_decrypt_key: None,
            collector_port: None,
            config_api_port: None,
            dns_server_port: None,
            xmpp_server_port: None,
            k8s_token: None,
            k8s_token_file: None,
            kubernetes_api_port: None,
            kubernetes_api_secure_port: None,
            barbican_tenant_name: None,
            barbican_user: None,
            barbican_password: None,
            keystone_auth_host: None,
            keystone_auth_proto: None,
            keystone_auth_admin_port: None,
            keystone_auth_admin_password: None,
            keystone_auth_insecure: None,
            keystone_auth_ca_certfile: None,
            keystone_auth_certfile: None,
            keystone_auth_keyfile: None,
            keystone_auth_project_domain_name: None,
            keystone_auth_user_domain_name: None,
            keystone_auth_region_name: None,
            keystone_auth_url_tokens: None,
            keystone_auth_url_version: None,
        }
    }
}
