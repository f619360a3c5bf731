//! The machine and its distribution: cloud, operating system, SELinux, other data planes.

use serde::{Deserialize, Serialize};

use crate::root::Reader;

/// Modules of other data planes, which met kernel panics beside the vRouter (Juniper/contrail-kubernetes issue 113).
const DATA_PLANES: [&str; 2] = ["openvswitch", "vport_vxlan"];

/// The machine and its distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Platform {
    /// As `/etc/os-release` names it.
    pub system: Option<String>,
    /// The cloud that the firmware names.
    pub cloud: Option<Cloud>,
    /// Whether SELinux enforces its policy. None without SELinux.
    pub selinux_enforces: Option<bool>,
    /// Loaded modules of other data planes.
    pub data_planes: Vec<String>,
}

/// Clouds whose DHCP servers have rules of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
pub enum Cloud {
    /// Microsoft Azure, Hyper-V.
    Microsoft,
    /// Google Cloud.
    Google,
    /// Amazon EC2.
    Amazon,
}

impl Platform {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        Self {
            system: reader.text("/etc/os-release").as_deref().and_then(pretty_name),
            cloud: cloud(reader),
            selinux_enforces: reader.value("/sys/fs/selinux/enforce").map(|value| value == "1"),
            data_planes: DATA_PLANES
                .into_iter()
                .filter(|module| reader.exists(&format!("/sys/module/{module}")))
                .map(str::to_owned)
                .collect(),
        }
    }
}

fn pretty_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// As the vRouter's images find it: the vendor of the chassis or the product's version.
fn cloud(reader: &Reader<'_>) -> Option<Cloud> {
    let read = |name: &str| reader.value(&format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
    let text = ["chassis_vendor", "product_version"].map(read).join(" ").to_ascii_lowercase();
    let clouds = [("microsoft", Cloud::Microsoft), ("google", Cloud::Google), ("amazon", Cloud::Amazon)];
    clouds.into_iter().find(|(name, _)| text.contains(name)).map(|(_, cloud)| cloud)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    #[test]
    fn the_machine_is_read_with_its_cloud() {
        let platform = tree::read(
            &[
                ("/etc/os-release", "NAME=\"Rocky Linux\"\nPRETTY_NAME=\"Rocky Linux 9.3 (Blue Onyx)\"\n"),
                ("/sys/class/dmi/id/chassis_vendor", "Amazon EC2\n"),
                ("/sys/fs/selinux/enforce", "1"),
                ("/sys/module/openvswitch/refcnt", "0\n"),
            ],
            Platform::read,
        );
        let expected = Platform {
            system: Some("Rocky Linux 9.3 (Blue Onyx)".into()),
            cloud: Some(Cloud::Amazon),
            selinux_enforces: Some(true),
            data_planes: vec!["openvswitch".into()],
        };
        assert_eq!(platform, expected);
        assert_eq!(tree::read(&[], Platform::read), Platform::default());
    }
}
