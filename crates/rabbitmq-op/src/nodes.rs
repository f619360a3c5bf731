//! Who the members are to each other: Erlang nodes with names that last.
//!
//! Node names are long ones, `rabbit@<node>.<cluster domain>`, as the Go tf-operator's: all members have to use either
//! long or short names, and a Kubernetes node may have dots in its name. No DNS server needs to know them. Every member gets
//! a hosts file of its own with the addresses of all (Erlang/OTP, "Inet Configuration"), and `/etc/hosts`, where some distributions
//! map a host's own name to 127.0.1.1, is not looked at. So a member's address may change and its name stays.

use std::net::IpAddr;

use tf_api::contract::{MemberStatus, Reason};
use tf_plan::not_ready::NotReady;

use crate::pinned::PinnedFiles;

/// What stands before the host part of every node's name.
pub const PREFIX: &str = "rabbit@";
/// Longest node name: files are called `<name>-plugins-expand`, and a file name has at most 255 bytes.
const LONGEST: usize = 255 - "-plugins-expand".len();

/// A member as an Erlang node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Host part of the name.
    pub host: String,
    /// Address of the member.
    pub address: IpAddr,
}

impl Node {
    /// The whole name.
    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.host)
    }
}

/// The nodes of the members, in their order.
///
/// # Errors
/// When addresses are none or of both families, or a name is too long.
pub fn nodes(members: &[MemberStatus], domain: &str, pinned_files: &PinnedFiles<'_>) -> Result<Vec<Node>, NotReady> {
    let mut nodes: Vec<Node> = Vec::new();
    for member in members {
        let mut host = host_of(member, domain, pinned_files);
        while nodes.iter().any(|node| node.host == host) {
            host = format!("{host}.{domain}");
        }
        let address: IpAddr = member.address.parse().map_err(|_| {
            invalid(format!("address {:?} of node {} is not an IP address", member.address, member.node))
        })?;
        if nodes.iter().any(|node| node.address.is_ipv6() != address.is_ipv6()) {
            return Err(invalid(format!(
                "node {} has address {address}, and members before it have addresses of the other IP family, which \
                 RabbitMQ cannot join to one cluster; give all nodes an internal address of one family first",
                member.node
            )));
        }
        let node = Node { host, address };
        if node.name().len() > LONGEST {
            return Err(invalid(format!(
                "the name of node {} is too long: RabbitMQ would call the member {}, and {LONGEST} characters are the \
                 limit; choose other nodes by nodeSelector",
                member.node,
                node.name()
            )));
        }
        nodes.push(node);
    }
    Ok(nodes)
}

/// Whether a text can be the host part of a node's name in every file it stands in.
pub fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b))
}

/// The host part the member has been told; for a new one its node's name in the cluster's domain.
fn host_of(member: &MemberStatus, domain: &str, pinned_files: &PinnedFiles<'_>) -> String {
    let inside = member.node.ends_with(&format!(".{domain}"));
    let fresh = if inside { member.node.clone() } else { format!("{}.{domain}", member.node) };
    if pinned_files.hosts().any(|host| host == fresh) {
        return fresh;
    }
    pinned_files.host(member).map_or(fresh, str::to_owned)
}

fn invalid(message: String) -> NotReady {
    NotReady::invalid(Reason::InvalidSpec, message)
}
