//! Files of dnsmasq, which gives addresses and images to new devices (docs/upstream/config.md#dnsmasq).
//!
//! The device manager writes further files into the same directory, and before that removes all of them but [`BASE_FILE`]
//! (upstream `device_ztp_manager.py`). The node agent puts that file there, and [`FILE`] is what dnsmasq is started with.

/// What dnsmasq is started with.
pub const FILE: &str = "dnsmasq.conf";
/// The operator's own file in [`DIR`].
pub const BASE_FILE: &str = "base.conf";
/// Directory of configuration and leases, shared with the device manager; the Go tf-operator's.
pub const DIR: &str = "/var/lib/dnsmasq";
/// The leases. The device manager removes what has a dot in its name.
pub const LEASES: &str = "/var/lib/dnsmasq/leases";
/// Directory of images for devices. The files that the device manager writes name it (upstream role `ztp_dhcp_config`), so
/// it cannot be chosen.
pub const TFTP_DIR: &str = "/etc/tftp";

/// [`FILE`].
pub fn file() -> String {
    format!("conf-dir={DIR}/,*.conf\n")
}

/// [`BASE_FILE`]. Members answer one after the other: `position` counts them from 0.
pub fn base(position: usize, external_tftp: bool) -> String {
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
