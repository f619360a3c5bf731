//! Files of the device manager and of the Ansible jobs it starts (docs/upstream/config.md#device-manager).

use tf_api::contract::MemberStatus;
use tf_config_files::{
    Ini,
    Separator::{Blank, Comma},
    Settings as _, Unrepresentable,
};

use super::{Cluster, DEFAULTS, LOG_DIR, dnsmasq};
use crate::services;

/// The configuration of the device manager.
pub const FILE: &str = "contrail-device-manager.conf";
/// The configuration of its jobs.
pub const ANSIBLE_FILE: &str = "contrail-fabric-ansible.conf";

impl Cluster<'_> {
    /// [`FILE`], which holds passwords. Without dnsmasq beside it, it gives no addresses to new devices.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn device_manager(&self, member: &MemberStatus, with_dnsmasq: bool) -> Result<String, Unrepresentable> {
        let fabric = self.spec.fabric_mgmt_ip.as_deref().filter(|address| !address.is_empty());
        let mut file = Ini::python(FILE);
        let defaults = file.section(DEFAULTS);
        defaults
            .set("host_ip", fabric.unwrap_or(&member.address))
            // Configuration is pushed by Ansible.
            .set("push_mode", 1);
        self.common(defaults, self.spec.device_manager_introspect_port.get());
        self.api_client(defaults);
        self.stores(defaults, member);
        if let Some((hosts, port, _)) = services::analytics_api(self.services.analytics.as_ref()) {
            defaults.list("analytics_server_ip", Comma, hosts).set("analytics_server_port", port);
        }
        if with_dnsmasq {
            defaults
                .set("dnsmasq_conf_dir", dnsmasq::DIR)
                .set("dhcp_leases_file", dnsmasq::LEASES)
                .set("tftp_dir", dnsmasq::TFTP_DIR)
                // It ends dnsmasq, and the node agent starts it again; else it would ask Docker for it.
                .set("dnsmasq_reload_by_signal", true);
        }
        self.sections(&mut file);
        file.render()
    }

    /// [`ANSIBLE_FILE`].
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn fabric_ansible(&self) -> Result<String, Unrepresentable> {
        let mut file = Ini::python(ANSIBLE_FILE);
        file.section(DEFAULTS)
            // Standard output belongs to the jobs: the device manager reads it.
            .set("log_file", format!("{LOG_DIR}/contrail-fabric-ansible.log"))
            .set("log_level", tf_plan::ensemble::sys_log_level(self.log_level))
            .set("log_local", 1)
            .list_unless_empty("collectors", Blank, self.collectors());
        self.sandesh(&mut file);
        file.render()
    }
}
