//! What a program or the kernel did to the interface below `vhost0`, after which the node has to be set up again.

use std::fs;

use crate::{
    HostFacts, Root, Wanted,
    facts::{
        network::{Network, VHOST0},
        observe_network,
    },
    uplink::choose,
};

/// The interface below `vhost0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// Its name; of several that of the first.
    pub name: String,
    /// The kernel's numbers of all: others after one was made again.
    pub indexes: Vec<u32>,
    /// Addresses that it has and `vhost0` should have.
    pub addresses: Vec<String>,
    /// Whether `vhost0` is down.
    pub is_down: bool,
    /// Whether the reverse-path filter of `vhost0` is the strict one.
    pub is_strict: bool,
}

/// Looks at it. None: there is no `vhost0`, or it has none below it.
pub fn look(root: &Root, wanted: &Wanted) -> Option<Below> {
    let filter = fs::read_to_string(root.at(format!("/proc/sys/net/ipv4/conf/{VHOST0}/rp_filter")));
    let is_strict = filter.is_ok_and(|value| value.trim() == "1");
    below(observe_network(root), wanted).map(|below| Below { is_strict, ..below })
}

fn below(network: Network, wanted: &Wanted) -> Option<Below> {
    let is_down = !network.link(VHOST0)?.up;
    let facts = HostFacts { network, ..HostFacts::default() };
    let uplinks = choose(&facts, wanted).ok()?;
    let link = uplinks.first()?.link;
    // Several keep theirs.
    let addresses = facts.network.addresses_of(&link.name).filter(|address| address.is_global() && !wanted.multihomed);
    Some(Below {
        name: link.name.clone(),
        indexes: uplinks.iter().map(|uplink| uplink.link.index).collect(),
        addresses: addresses.map(|address| address.address.to_string()).collect(),
        is_down,
        is_strict: false,
    })
}

/// Why the node has to be set up again. `before`: as it was when it was set up.
pub fn cause(before: &Below, now: &Below) -> Option<String> {
    let Below { name, indexes, addresses, is_down, is_strict } = now;
    if (name, indexes) != (&before.name, &before.indexes) {
        return Some(format!("{name} was made again"));
    }
    if *is_down {
        return Some("vhost0 is down".to_owned());
    }
    if *is_strict {
        return Some("rp_filter of vhost0 is 1".to_owned());
    }
    (!addresses.is_empty()).then(|| format!("{name} has addresses that vhost0 has: {}", addresses.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{addresses::Address, links::Link};

    fn network(index: u32, addresses: &[&str]) -> Network {
        let link =
            |name: &str, index| Link { name: name.into(), index, mac: Some("a".into()), up: true, ..Link::default() };
        let address =
            |text: &&str| Address { link: "eth0".into(), address: text.parse().unwrap(), ..Address::default() };
        Network {
            links: vec![link("eth0", index), link(VHOST0, 9)],
            addresses: addresses.iter().map(address).collect(),
            ..Network::default()
        }
    }

    #[test]
    fn an_interface_that_was_made_again_or_has_an_address_again_is_noticed() {
        let wanted = Wanted { physical_interfaces: vec!["eth0".into()], ..Wanted::default() };
        let seen = |index, addresses: &[&str]| below(network(index, addresses), &wanted).unwrap();
        let before = seen(2, &[]);
        assert_eq!(cause(&before, &seen(2, &["fe80::1/64"])), None);
        assert_eq!(cause(&before, &seen(7, &[])).as_deref(), Some("eth0 was made again"));
        let again = cause(&before, &seen(2, &["10.0.0.7/24"]));
        assert_eq!(again.as_deref(), Some("eth0 has addresses that vhost0 has: 10.0.0.7/24"));
        let down = Below { is_down: true, ..seen(2, &[]) };
        assert_eq!(cause(&before, &down).as_deref(), Some("vhost0 is down"));
        let strict = Below { is_strict: true, ..seen(2, &[]) };
        assert_eq!(cause(&before, &strict).as_deref(), Some("rp_filter of vhost0 is 1"));
        assert_eq!(below(Network::default(), &wanted), None);
    }
}
