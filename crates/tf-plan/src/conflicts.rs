//! What a resource has to itself on its nodes: its directory and its ports.
//!
//! Two servers on one directory destroy each other's data, and nothing in them prevents it. Of two servers with one port the second is never scheduled, and
//! nothing says whose it is. Usual names have directories of their own; a path in the spec may name another resource's, and ports of two resources
//! are the same unless the spec moves them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tf_api::{
    Managed,
    contract::{MemberStatus, Reason},
    schema::Port,
};

use crate::{not_ready::NotReady, placement::Placement};

/// What a resource uses on its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeResources {
    /// Directory of its data; none where that is elsewhere.
    pub directory: Option<String>,
    /// Ports that it opens, loopback ones included.
    pub ports: Vec<Port>,
}

/// What distinguishes one kind from another.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive<Cr> {
    /// What a resource uses.
    pub resources: fn(&Cr) -> NodeResources,
    /// Whether it holds something already.
    pub is_founded: fn(&Cr) -> bool,
}

impl<Cr: Managed> Exclusive<Cr> {
    /// Makes sure that `members` have directory and ports of the resource on their nodes to themselves. Of two resources the one that holds something keeps
    /// them, of two equal ones the older.
    ///
    /// # Errors
    /// `InvalidSpec` if another one keeps them.
    pub fn check(&self, cr: &Cr, members: &[MemberStatus], siblings: &[Cr]) -> Result<(), NotReady> {
        let mut stronger: Vec<&Cr> =
            siblings.iter().filter(|sibling| self.strength(sibling) < self.strength(cr)).collect();
        stronger.sort_by_key(|sibling| self.strength(sibling));
        let ours = (self.resources)(cr);
        for holder in stronger {
            let theirs = holder.contract().map(|contract| contract.members.as_slice()).unwrap_or_default();
            let shares = theirs.iter().any(|their| members.iter().any(|our| our.node == their.node));
            // One that has no members yet may get any. For the directory that is reason enough to wait.
            let may_share = theirs.is_empty()
                && Placement::of_members(holder.common()).covers_or_is_covered(&Placement::of_members(cr.common()));
            let refused = |what: &str, cure: &str| {
                let (kind, home, name) = (Cr::INFO.kind, holder.home(), holder.title());
                let message = format!(
                    "{what} of the nodes belongs to {kind} {home}/{name}; {cure}, or a nodeSelector for other nodes"
                );
                Err(NotReady::invalid(Reason::InvalidSpec, message))
            };
            let NodeResources { directory, ports } = (self.resources)(holder);
            if let Some(ours) = &ours.directory
                && (shares || theirs.is_empty())
                && directory.as_ref() == Some(ours)
            {
                return refused(&format!("directory {ours}"), "set another storage.hostPath.path");
            }
            let is_theirs = |port: &&Port| ports.contains(port);
            if let Some(port) = ours.ports.iter().find(is_theirs).filter(|_| shares || may_share) {
                return refused(&format!("port {port}"), "set other ports in serviceConfiguration");
            }
        }
        Ok(())
    }

    /// Which of two resources keeps what both use: less is stronger.
    fn strength<'a>(&self, cr: &'a Cr) -> (bool, Option<&'a Time>, &'a str, &'a str) {
        (!(self.is_founded)(cr), cr.meta().creation_timestamp.as_ref(), cr.home(), cr.title())
    }
}
