//! Directories of the nodes: where a ring keeps its data, and that no other ring keeps its data there.
//!
//! Two servers on one directory destroy each other's data, and nothing in Cassandra prevents it. Usual names have directories
//! of their own; a path in the spec may name another ring's.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tf_api::{
    Cassandra, Managed as _,
    contract::{MemberStatus, Reason},
};
use tf_plan::{build::identity::Identity, observed::Observed, plan::NotReady};

use crate::{OPERATOR, role::Role};

/// Below this are the directories of all data.
pub const DATA_BASE: &str = "/var/lib/contrail";

/// The ring's directory if the spec names none.
pub fn usual(cr: &Cassandra) -> String {
    Role::of(cr.title()).directory(DATA_BASE, &Identity::of(OPERATOR, cr))
}

/// The ring's directory on its nodes; none if its data is elsewhere.
fn used(cr: &Cassandra) -> Option<String> {
    let storage = cr.common().storage.clone().unwrap_or_default();
    if storage.persistent_volume_claim.is_some() || storage.empty_dir.is_some() {
        return None;
    }
    let named = storage.host_path.and_then(|host| host.path);
    Some(named.map_or_else(|| usual(cr), |path| path.trim_end_matches('/').to_owned()))
}

/// Makes sure that `members` have the ring's directory on their nodes to themselves. Of two rings the one that was brought
/// up keeps it, of two equal ones the older.
///
/// # Errors
/// `InvalidSpec` if another ring keeps it.
pub fn claim(cr: &Cassandra, members: &[MemberStatus], observed: &Observed<Cassandra>) -> Result<(), NotReady> {
    let Some(directory) = used(cr) else { return Ok(()) };
    let stronger = observed.siblings.iter().filter(|sibling| claim_of(sibling) < claim_of(cr));
    let holder = stronger
        .filter(|sibling| used(sibling).as_ref() == Some(&directory) && shares_a_node(sibling, members))
        .min_by_key(|sibling| claim_of(sibling));
    match holder {
        None => Ok(()),
        Some(holder) => Err(NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "directory {directory} of the nodes belongs to Cassandra {}/{}; set another storage.hostPath.path, or \
                 a nodeSelector for other nodes",
                holder.home(),
                holder.title()
            ),
        )),
    }
}

/// How good the claim of a ring is: less is better.
fn claim_of(cr: &Cassandra) -> (bool, Option<&Time>, &str, &str) {
    let brought_up = cr.contract().is_some_and(|contract| contract.initialized == Some(true));
    (!brought_up, cr.metadata.creation_timestamp.as_ref(), cr.home(), cr.title())
}

/// A ring that has no members yet may get any.
fn shares_a_node(sibling: &Cassandra, members: &[MemberStatus]) -> bool {
    let theirs = sibling.contract().map(|contract| contract.members.as_slice()).unwrap_or_default();
    theirs.is_empty() || theirs.iter().any(|their| members.iter().any(|our| our.node == their.node))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ring(name: &str, path: Option<&str>, brought_up: bool, nodes: &[&str]) -> Cassandra {
        let members: Vec<_> = nodes.iter().map(|node| json!({"id": 1, "node": node, "address": "10.0.0.1"})).collect();
        serde_json::from_value(json!({
            "apiVersion": "tf.tungsten.io/v1alpha1",
            "kind": "Cassandra",
            "metadata": {"name": name, "namespace": "tf"},
            "spec": {"commonConfiguration": {"storage": {"hostPath": {"path": path}}}},
            "status": {"initialized": brought_up, "members": members},
        }))
        .unwrap()
    }

    fn refused(cr: &Cassandra, sibling: &Cassandra) -> bool {
        let members = &cr.contract().unwrap().members;
        claim(cr, members, &Observed { siblings: vec![sibling.clone()], ..Observed::default() }).is_err()
    }

    #[test]
    fn usual_names_do_not_meet() {
        let (config, analytics) = (ring("configdb1", None, true, &["a"]), ring("analyticsdb1", None, true, &["a"]));
        assert!(!refused(&config, &analytics) && !refused(&analytics, &config));
    }

    #[test]
    fn the_ring_that_was_brought_up_keeps_its_directory() {
        let config = ring("configdb1", Some("/var/lib/contrail/database/"), true, &["a", "b"]);
        let analytics = ring("analyticsdb1", None, false, &["b"]);
        assert!(refused(&analytics, &config));
        assert!(!refused(&config, &analytics));
    }

    #[test]
    fn of_two_new_rings_exactly_one_gives_way_even_before_the_other_has_members() {
        let (a, b) = (ring("a", Some("/d"), false, &[]), ring("b", Some("/d"), false, &["n"]));
        assert!(refused(&a, &b) ^ refused(&b, &a));
    }

    #[test]
    fn rings_on_different_nodes_may_use_the_same_path() {
        let (a, b) = (ring("a", Some("/d"), true, &["n"]), ring("b", Some("/d"), false, &["m"]));
        assert!(!refused(&b, &a));
    }
}
