//! The device manager and the Ansible jobs that it starts (docs/upstream/config.md#device-manager).

use tf_agent_api::launch::OnChange;
use tf_api::contract::MemberStatus;
use tf_config_files::{
    Ini,
    Separator::{Blank, Comma},
    Settings as _, Unrepresentable,
};
use tf_contrail::daemon::{Daemon, LOG_DIR, python};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{DaemonContainer, Privileges},
    },
    images::Builtin,
    member_set::sys_log_level,
    not_ready::NotReady,
};

use super::{client, dnsmasq};
use crate::{
    cluster::{Cluster, DEFAULTS},
    services,
};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "devicemanager", image: "controller-config-devicemgr", default: true };
/// The configuration of the device manager.
const FILE: &str = "contrail-device-manager.conf";
/// The configuration of its jobs.
const ANSIBLE_FILE: &str = "contrail-fabric-ansible.conf";

/// The device manager.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let introspect = cluster.spec.device_manager_introspect_port;
    let mut container = DaemonContainer {
        ports: vec![("device-manager", introspect)],
        // It looks at the other processes of the pod and ends dnsmasq, which runs as another user (docs/upstream/images.md#privileges).
        privileges: Privileges::Root(&["KILL", "SYS_PTRACE"]),
        ..python(container)
    };
    container.mounts.extend(dnsmasq::mounts());
    let mut launch = client("contrail-device-manager", FILE, introspect, cluster)?;
    // Each job reads it when it begins.
    launch.files.insert(ANSIBLE_FILE.into(), OnChange::Nothing);
    // SIGTERM ends none of its processes: its handlers only stop their parts (docs/upstream/observed.md#device-manager).
    launch.stop.seconds = 3;
    let mut files = Files::secret_of_each(FILE, cluster.members, |member| cluster.device_manager(member))?;
    files.shared(ANSIBLE_FILE, cluster.fabric_ansible()?);
    Ok(Daemon { volumes: dnsmasq::volumes(cluster.identity), ..Daemon::new(container, launch, files) })
}

impl Cluster<'_> {
    /// [`FILE`], which holds passwords. Without dnsmasq beside it, it gives no addresses to new devices.
    fn device_manager(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
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
        if self.runs(dnsmasq::CONTAINER.name) {
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
    fn fabric_ansible(&self) -> Result<String, Unrepresentable> {
        let mut file = Ini::python(ANSIBLE_FILE);
        file.section(DEFAULTS)
            // Standard output belongs to the jobs: the device manager reads it.
            .set("log_file", format!("{LOG_DIR}/contrail-fabric-ansible.log"))
            .set("log_level", sys_log_level(self.log_level))
            .set("log_local", 1)
            .list_unless_empty("collectors", Blank, self.collectors());
        self.sandesh(&mut file);
        file.render()
    }
}
