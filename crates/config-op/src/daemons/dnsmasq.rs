//! dnsmasq, which gives addresses and images to new devices (docs/upstream/config.md#dnsmasq).
//!
//! The device manager writes further files into the same directory, and before that removes all of them but [`BASE_FILE`]
//! (upstream `device_ztp_manager.py`). The node agent puts that file there, and [`FILE`] is what dnsmasq is started with.

use k8s_openapi::api::core::v1::{Volume, VolumeMount};
use tf_agent_api::launch::{Launch, OnChange, Place, When};
use tf_api::kinds::CONFIG;
use tf_contrail::daemon::{Daemon, path, python};
use tf_plan::{
    build::{
        configuration::Files,
        identity::Identity,
        pod::{DaemonContainer, Privileges, mount},
        storage::{self, host_path},
    },
    images::Builtin,
    not_ready::NotReady,
};

use crate::cluster::Cluster;

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "dnsmasq", image: "controller-config-dnsmasq", default: true };
/// What dnsmasq is started with.
const FILE: &str = "dnsmasq.conf";
/// The operator's own file in [`DIR`].
const BASE_FILE: &str = "base.conf";
/// Directory of configuration and leases, shared with the device manager; the Go tf-operator's.
pub const DIR: &str = "/var/lib/dnsmasq";
/// The leases. The device manager removes what has a dot in its name.
pub const LEASES: &str = "/var/lib/dnsmasq/leases";
/// Directory of images for devices. The files that the device manager writes name it (upstream role `ztp_dhcp_config`), so
/// it cannot be chosen.
pub const TFTP_DIR: &str = "/etc/tftp";

/// Volumes of [`DIR`] and [`TFTP_DIR`].
const DNSMASQ: &str = "dnsmasq";
const TFTP: &str = "tftp";

/// dnsmasq, for DHCP and TFTP only: without a port for DNS, and in the foreground.
///
/// # Errors
/// Never; the table of daemons has one shape.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let mut container = DaemonContainer {
        // DHCP needs the first two (docs/upstream/images.md#privileges) and TFTP the third, the next two are for changing to an unprivileged user, and
        // the last is for the node agent, which has to end it then (measured with dnsmasq 2.90).
        privileges: Privileges::Root(&["NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE", "SETGID", "SETUID", "KILL"]),
        ..python(container)
    };
    container.mounts.extend(mounts());
    // The script that stores leases fails without the variable, and uses it only beside a login in further ones;
    // else it takes server and login from the library's file (upstream `dnsmasq_lease_processing.py`).
    container.env.push(("CONTROLLER_NODES".into(), String::new()));
    let mut launch =
        Launch::new(vec!["dnsmasq".into(), "-k".into(), "-p0".into(), format!("--conf-file={}", path(FILE))]);
    launch.files.insert(FILE.into(), OnChange::Restart);
    // It reads its directory at its start alone.
    launch.files.insert(BASE_FILE.into(), OnChange::Restart);
    launch.place.push(Place {
        file: BASE_FILE.into(),
        to: format!("{DIR}/{BASE_FILE}"),
        when: When::Always,
        private: false,
    });
    let mut files = Files::default();
    files.shared(FILE, file());
    for (position, member) in cluster.members.iter().enumerate() {
        files.member(BASE_FILE, &member.address, base(position, cluster.spec.use_external_tftp));
    }
    Ok(Daemon { volumes: volumes(cluster.identity), ..Daemon::new(container, launch, files) })
}

/// Directories of device manager and dnsmasq. They belong to root, as both containers do.
pub fn mounts() -> [VolumeMount; 2] {
    [mount(DNSMASQ, DIR), mount(TFTP, TFTP_DIR)]
}

/// Where these directories are on the node: `/var/lib/<name>`, as with the Go tf-operator, for the resource that takes over from it.
pub fn volumes(identity: &Identity) -> Vec<Volume> {
    let legacy = [CONFIG.default_name];
    let directory = |name| {
        if storage::adopts(&legacy, identity) {
            format!("/var/lib/{name}")
        } else {
            format!("{}/{name}", storage::node_directory("/var/lib/contrail", "config", &legacy, identity))
        }
    };
    [DNSMASQ, TFTP].map(|name| host_path(name, &directory(name))).into()
}

/// [`FILE`].
fn file() -> String {
    format!("conf-dir={DIR}/,*.conf\n")
}

/// [`BASE_FILE`]. Members answer one after the other: `position` counts them from 0.
fn base(position: usize, external_tftp: bool) -> String {
    let mut lines = vec![
        "log-facility=-".to_owned(),
        "bogus-priv".to_owned(),
        "log-dhcp".to_owned(),
        format!("dhcp-reply-delay={}", 2 * position),
        // The built-in place of the leases differs between images.
        format!("dhcp-leasefile={LEASES}"),
    ];
    if !external_tftp {
        lines.extend(["enable-tftp".to_owned(), format!("tftp-root={TFTP_DIR}")]);
    }
    lines.join("\n") + "\n"
}
