//! Hardware of interfaces: bus address, driver, IOMMU group, virtual functions; and what the kernel has for handing devices to
//! programs (DPDK).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::links::Link;
use crate::root::{Reader, Root};

const PCI: &str = "/sys/bus/pci";

/// The hardware below an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    /// PCI address. None for hardware that is not on PCI.
    pub pci: Option<String>,
    /// The kernel's driver.
    pub driver: Option<String>,
    /// The driver that a program wants instead.
    pub driver_override: Option<String>,
    /// Vendor and device, as in `8086:1572`.
    pub model: Option<String>,
    /// NUMA node. None where there is only one.
    pub numa_node: Option<u32>,
    /// IOMMU group and the drivers of the other devices in it, by their PCI addresses. None without IOMMU.
    pub iommu: Option<IommuGroup>,
    /// Virtual functions. None where the hardware has none.
    pub virtual_functions: Option<VirtualFunctions>,
}

/// Devices that only one owner can have together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IommuGroup {
    /// Its number.
    pub number: String,
    /// Drivers of its other devices, by their PCI addresses. None where no driver is bound.
    pub others: BTreeMap<String, Option<String>>,
}

/// Virtual functions of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualFunctions {
    /// How many it can have.
    pub total: u32,
    /// How many there are.
    pub configured: u32,
    /// Whether sriov-network-operator manages them.
    pub managed: bool,
    /// Each that there is.
    pub functions: Vec<VirtualFunction>,
}

/// A virtual function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualFunction {
    /// PCI address.
    pub pci: String,
    /// The kernel's driver. None where none is bound.
    pub driver: Option<String>,
    /// Interfaces that it is in this network namespace.
    pub links: Vec<String>,
}

/// What the kernel has for handing devices to programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Passthrough {
    /// Whether there are IOMMU groups.
    pub iommu: bool,
    /// Whether vfio works without one, without protection of memory.
    pub unsafe_no_iommu: bool,
}

impl Passthrough {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let mode = reader.value("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
        Self {
            iommu: !reader.names("/sys/kernel/iommu_groups").is_empty(),
            unsafe_no_iommu: matches!(mode.as_deref(), Some("Y" | "1")),
        }
    }
}

/// Hardware below interfaces, by their names.
pub(super) fn read(reader: &Reader<'_>, links: &[Link]) -> BTreeMap<String, Device> {
    links.iter().filter_map(|link| Some((link.name.clone(), device(reader, &link.name)?))).collect()
}

/// PCI address of an interface's hardware, and nothing else of a node. None where it is not on PCI.
pub fn pci_of(root: &Root, link: &str) -> Option<String> {
    device(&Reader::new(root), link)?.pci
}

fn device(reader: &Reader<'_>, link: &str) -> Option<Device> {
    let path = reader.real_path(&format!("/sys/class/net/{link}/device"))?;
    // A virtio interface is below the PCI device: .../0000:00:03.0/virtio0.
    let pci = path.split('/').rev().find(|name| is_pci_address(name)).map(str::to_owned);
    let Some(address) = &pci else {
        return Some(Device { driver: reader.link_name(&format!("{path}/driver")), ..Device::default() });
    };
    let directory = format!("{PCI}/devices/{address}");
    let value = |name: &str| reader.value(&format!("{directory}/{name}"));
    let id = |name: &str| value(name).map(|id| id.trim_start_matches("0x").to_owned());
    Some(Device {
        driver: reader.link_name(&format!("{directory}/driver")),
        driver_override: value("driver_override").filter(|name| name != "(null)"),
        model: id("vendor").zip(id("device")).map(|(vendor, device)| format!("{vendor}:{device}")),
        numa_node: value("numa_node").and_then(|node| node.parse().ok()),
        iommu: iommu_group(reader, &directory, address),
        virtual_functions: reader.number(&format!("{directory}/sriov_totalvfs")).map(|total| VirtualFunctions {
            total,
            configured: reader.number(&format!("{directory}/sriov_numvfs")).unwrap_or_default(),
            managed: reader.exists(&format!("/etc/sriov-operator/pci/{address}")),
            functions: functions(reader, &directory),
        }),
        pci,
    })
}

/// Functions of a device: links `virtfn0`, `virtfn1` and so on to theirs.
fn functions(reader: &Reader<'_>, directory: &str) -> Vec<VirtualFunction> {
    let number = |name: &String| name.strip_prefix("virtfn").and_then(|number| number.parse::<u32>().ok());
    let mut names: Vec<(u32, String)> =
        reader.names(directory).into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    names.sort();
    let function = |(_, name): (u32, String)| {
        let own = format!("{directory}/{name}");
        Some(VirtualFunction {
            pci: reader.link_name(&own)?,
            driver: reader.link_name(&format!("{own}/driver")),
            links: reader.names(&format!("{own}/net")),
        })
    };
    names.into_iter().filter_map(function).collect()
}

fn iommu_group(reader: &Reader<'_>, directory: &str, own: &str) -> Option<IommuGroup> {
    let number = reader.link_name(&format!("{directory}/iommu_group"))?;
    let devices = reader.names(&format!("{directory}/iommu_group/devices"));
    let driver = |address: String| {
        let driver = reader.link_name(&format!("{PCI}/devices/{address}/driver"));
        (address, driver)
    };
    Some(IommuGroup { number, others: devices.into_iter().filter(|address| address != own).map(driver).collect() })
}

/// `0000:03:00.0`.
fn is_pci_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split([':', '.']).collect();
    let is_hex = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    parts.iter().all(is_hex) && matches!(lengths[..], [domain, 2, 2, 1] if domain >= 4) && name.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    fn links(names: &[&str]) -> Vec<Link> {
        names.iter().map(|name| Link { name: (*name).into(), ..Link::default() }).collect()
    }

    #[test]
    fn an_interface_is_read_with_its_driver_and_iommu_group() {
        let nic = "/sys/devices/pci0000:00/0000:03:00.0";
        let mut files = vec![
            ("/sys/class/net/ens1".to_owned(), format!("->..{}/net/ens1", &nic[4..])),
            ("/sys/bus/pci/devices/0000:03:00.0".to_owned(), format!("->../../../{}", &nic[5..])),
            ("/sys/bus/pci/devices/0000:03:00.1/driver".to_owned(), "->../../drivers/vfio-pci".to_owned()),
            ("/etc/sriov-operator/pci/0000:03:00.0".to_owned(), String::new()),
            ("/sys/kernel/iommu_groups/12/type".to_owned(), "DMA\n".to_owned()),
        ];
        files[0].1 = "->../../devices/pci0000:00/0000:03:00.0/net/ens1".to_owned();
        for (file, content) in [
            ("net/ens1/device", "->../../../0000:03:00.0"),
            ("driver", "->../../../bus/pci/drivers/i40e"),
            ("vendor", "0x8086\n"),
            ("device", "0x1572\n"),
            ("numa_node", "1\n"),
            ("driver_override", "(null)\n"),
            ("iommu_group", "->../../../kernel/iommu_groups/12"),
            ("sriov_totalvfs", "64\n"),
            ("sriov_numvfs", "4\n"),
            ("virtfn0", "->../0000:03:02.0"),
            ("../0000:03:02.0/driver", "->../../../bus/pci/drivers/iavf"),
            ("../0000:03:02.0/net/ens1v0/type", "1\n"),
        ] {
            files.push((format!("{nic}/{file}"), content.to_owned()));
        }
        for device in ["0000:03:00.0", "0000:03:00.1"] {
            files.push((
                format!("/sys/kernel/iommu_groups/12/devices/{device}"),
                format!("->../../../../bus/pci/devices/{device}"),
            ));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
        let (devices, passthrough) =
            tree::read(&files, |reader| (read(reader, &links(&["ens1", "br0"])), Passthrough::read(reader)));
        let expected = Device {
            pci: Some("0000:03:00.0".into()),
            driver: Some("i40e".into()),
            driver_override: None,
            model: Some("8086:1572".into()),
            numa_node: Some(1),
            iommu: Some(IommuGroup {
                number: "12".into(),
                others: [("0000:03:00.1".to_owned(), Some("vfio-pci".to_owned()))].into(),
            }),
            virtual_functions: Some(VirtualFunctions {
                total: 64,
                configured: 4,
                managed: true,
                functions: vec![VirtualFunction {
                    pci: "0000:03:02.0".into(),
                    driver: Some("iavf".into()),
                    links: vec!["ens1v0".into()],
                }],
            }),
        };
        assert_eq!(devices, [("ens1".to_owned(), expected)].into());
        assert_eq!(passthrough, Passthrough { iommu: true, unsafe_no_iommu: false });
    }

    #[test]
    fn a_virtio_interface_has_the_pci_device_above_it_and_mmio_has_none() {
        let devices = tree::read(
            &[
                ("/sys/class/net/eth0/device", "->../../../devices/pci0000:00/0000:00:03.0/virtio0"),
                ("/sys/devices/pci0000:00/0000:00:03.0/virtio0/vendor", "0x1af4\n"),
                ("/sys/bus/pci/devices/0000:00:03.0/driver", "->../../drivers/virtio-pci"),
                ("/sys/class/net/eth1/device", "->../../../devices/platform/virtio1"),
                ("/sys/devices/platform/virtio1/driver", "->../../../bus/virtio/drivers/virtio_net"),
            ],
            |reader| read(reader, &links(&["eth0", "eth1"])),
        );
        let told = |name: &str| (devices[name].pci.as_deref(), devices[name].driver.as_deref());
        assert_eq!(told("eth0"), (Some("0000:00:03.0"), Some("virtio-pci")));
        assert_eq!(told("eth1"), (None, Some("virtio_net")));
    }

    #[test]
    fn addresses_of_pci_are_known() {
        let told = ["0000:03:00.0", "10000:e1:00.1", "virtio0", "0000:03", "pci0000:00", "a.b"].map(is_pci_address);
        assert_eq!(told, [true, true, false, false, false, false]);
    }
}
