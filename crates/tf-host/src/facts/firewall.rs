//! Zones of firewalld that name interfaces: `vhost0` has to be in the zone of the interface that it takes the place of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::root::Reader;

const ZONES: &str = "/etc/firewalld/zones";

/// Zones of firewalld.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Firewall {
    /// The permanent zone of each interface that one names.
    pub zones: BTreeMap<String, String>,
}

impl Firewall {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let mut zones = BTreeMap::new();
        for file in reader.names(ZONES) {
            let Some(zone) = file.strip_suffix(".xml") else { continue };
            let text = reader.text(&format!("{ZONES}/{file}")).unwrap_or_default();
            zones.extend(interfaces(&text).map(|link| (link.to_owned(), zone.to_owned())));
        }
        Self { zones }
    }
}

/// Values of `<interface name="..."/>`.
fn interfaces(zone: &str) -> impl Iterator<Item = &str> {
    zone.split("<interface").skip(1).filter_map(|rest| {
        let (_, value) = rest.split('>').next()?.split_once("name=")?;
        value.split(['"', '\'']).nth(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    #[test]
    fn interfaces_are_read_with_their_zones() {
        let zone = "<zone><short>Public</short><interface name=\"eth0\"/>\n<interface name='bond0.100' /><service name=\"ssh\"/></zone>";
        let firewall = tree::read(
            &[
                ("/etc/firewalld/zones/public.xml", zone),
                ("/etc/firewalld/zones/public.xml.old", "<interface name=\"x\"/>"),
            ],
            Firewall::read,
        );
        let public = || "public".to_owned();
        assert_eq!(firewall.zones, [("bond0.100".to_owned(), public()), ("eth0".to_owned(), public())].into());
    }
}
