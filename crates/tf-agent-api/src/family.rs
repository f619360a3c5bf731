//! One IP family for all members of a component.
//!
//! Nodes of a dual-stack cluster list their addresses in an order of their own, and the kubelet gives `status.podIP` the first. Servers that form a cluster
//! need addresses of one family (RabbitMQ's distribution listens on one, ZooKeeper and Cassandra compare addresses as text), and many daemons of
//! Tungsten Fabric know IPv4 alone. So the family is chosen here and not taken from an order.

use std::net::IpAddr;

use strum::{Display, EnumString};
use tf_api::contract::MemberStatus;

/// Variable of a pod's containers with the pod's addresses of both families, separated by commas (`status.podIPs`).
pub const POD_IPS: &str = "POD_IPS";
/// Variable with the [`IpFamily`] of the component's members. It is not set where that is IPv4.
pub const POD_IP_FAMILY: &str = "POD_IP_FAMILY";

/// A family of addresses, by its name in Services (`spec.ipFamilies`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString)]
pub enum IpFamily {
    /// Version 4.
    #[default]
    IPv4,
    /// Version 6.
    IPv6,
}

impl IpFamily {
    /// That of an address. None for what is no address.
    pub fn of(address: &str) -> Option<Self> {
        let address: IpAddr = address.parse().ok()?;
        Some(if address.is_ipv4() { Self::IPv4 } else { Self::IPv6 })
    }

    /// That of a component that has members: of the first.
    pub fn of_members(members: &[MemberStatus]) -> Option<Self> {
        members.iter().find_map(|member| Self::of(&member.address))
    }

    /// The one that it is not.
    #[must_use]
    pub fn other(self) -> Self {
        if self == Self::IPv4 { Self::IPv6 } else { Self::IPv4 }
    }

    /// The first of a pod's addresses that is of this family, else its first.
    pub fn first_of<'a>(self, addresses: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
        addresses.clone().find(|address| Self::of(address) == Some(self)).or_else(|| addresses.clone().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_an_address_of_the_family_or_its_first() {
        let both = ["fd00::1", "10.0.0.1"];
        assert_eq!(IpFamily::IPv4.first_of(both.into_iter()), Some("10.0.0.1"));
        assert_eq!(IpFamily::IPv6.first_of(both.into_iter()), Some("fd00::1"));
        assert_eq!(IpFamily::IPv4.first_of(["fd00::1"].into_iter()), Some("fd00::1"));
        assert_eq!(IpFamily::IPv4.first_of([].into_iter()), None);
    }
}
