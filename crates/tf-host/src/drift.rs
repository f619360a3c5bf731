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
}

/// Looks at it. None: there is no `vhost0`, or it has none below it.
pub fn look(root: &Root, wanted: &Wanted) -> Option<Below> {
    below(observe_network(root), wanted)
}

/// Sets the reverse-path filter of `vhost0` to loose where it is strict: udev and programs that apply sysctl.d set it, for all interfaces. That this cannot be
/// done is worth no report, as it is not where the filter was strict before.
pub fn loosen(root: &Root) {
    let file = root.at(format!("/proc/sys/net/ipv4/conf/{VHOST0}/rp_filter"));
    if fs::read_to_string(&file).is_ok_and(|value| value.trim() == "1") {
        let _ = fs::write(&file, "2");
    }
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
    })
}

/// Why the node has to be set up again. `before`: as it was when it was set up.
pub fn cause(before: &Below, now: &Below) -> Option<String> {
    let Below { name, indexes, addresses, is_down } = now;
    if (name, indexes) != (&before.name, &before.indexes) {
        return Some(format!("{name} was made again"));
    }
    if *is_down {
        return Some("vhost0 is down".to_owned());
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
    fn a_strict_reverse_path_filter_is_loosened_and_none_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::below(directory.path());
        loosen(&root);
        let file = root.at("/proc/sys/net/ipv4/conf/vhost0/rp_filter");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (before, after) in [("1\n", "2"), ("0\n", "0\n"), ("2\n", "2\n")] {
            fs::write(&file, before).unwrap();
            loosen(&root);
            assert_eq!(fs::read_to_string(&file).unwrap(), after);
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
        assert_eq!(below(Network::default(), &wanted), None);
    }
}
