//! The CNI configuration (docs/upstream/cni.md#configuration). It says nothing about a node.

use serde::Serialize;
use tf_api::VrouterConfiguration;
use tf_config_files::{Unrepresentable, json};
use tf_plan::cluster::Platform;

/// Name of the file; the plugin looks for one that ends so.
pub const FILE: &str = "10-tf-cni.conf";
/// Executable of the plugin, and its name on the node.
pub const PLUGIN: &str = "contrail-k8s-cni";
/// Where agent and plugin keep one file for each port of a pod.
pub const PORTS_DIR: &str = "/var/lib/contrail/ports/vm";
/// Where the plugin writes its log.
pub const LOG_DIR: &str = "/var/log/contrail/cni";

#[derive(Serialize)]
struct Configuration<'a> {
    #[serde(rename = "cniVersion")]
    version: &'static str,
    name: &'static str,
    #[serde(rename = "type")]
    plugin: &'static str,
    contrail: Contrail<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Contrail<'a> {
    cluster_name: &'a str,
    meta_plugin: &'a str,
    vrouter_ip: &'static str,
    vrouter_port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
    config_dir: &'static str,
    poll_timeout: u8,
    poll_retries: u8,
    log_file: String,
    log_level: &'static str,
}

/// The file. `name`: that of the cluster, which has to be the one that Kubemanager uses. The meta plugin is called like the process that calls the
/// plugin: OpenShift runs Multus as a daemon. The agent adds the MTU where the spec states none.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn file(name: &str, platform: Platform, spec: &VrouterConfiguration) -> Result<String, Unrepresentable> {
    let meta_plugin = spec.cni_meta_plugin.as_deref().unwrap_or(match platform {
        Platform::Kubernetes => "multus",
        Platform::OpenShift => "multus-daemon",
    });
    json::render(
        FILE,
        &Configuration {
            version: "0.3.1",
            name: PLUGIN,
            plugin: PLUGIN,
            contrail: Contrail {
                cluster_name: name,
                meta_plugin,
                vrouter_ip: "127.0.0.1",
                vrouter_port: tf_api::ports::AGENT_PORT_API.get(),
                mtu: spec.cni_mtu,
                config_dir: PORTS_DIR,
                poll_timeout: 5,
                poll_retries: 15,
                log_file: format!("{LOG_DIR}/opencontrail.log"),
                log_level: "4",
            },
        },
    )
}
