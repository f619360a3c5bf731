//! Pods that the Go tf-operator made, and whose members go on under this operator.
//!
//! Its workloads have the names and selectors of ours, so its pods can be ours without a restart. A server's identity is its
//! pod's ordinal plus one, and its data is on the node where the pod is (docs/upstream/go-operator.md#identities). So the members are read from
//! its pods, once; from then on they are in the status. Its pods lack the annotation that every template of ours has.
//!
//! They are replaced as in every roll-out. Members that keep data stay who they are until the last of them is.

pub mod data;

use std::collections::BTreeSet;

use tf_api::{
    common::Storage,
    contract::{MemberStatus, Reason},
};

use crate::{
    members::{self, DesiredMembers, Membership},
    not_ready::{NotReady, Obstacle},
    observed::{Node, Pod},
};

/// Whether another operator made this pod. It has no node agent.
pub fn is_legacy(pod: &Pod) -> bool {
    pod.template.is_none()
}

/// Members as the pods of a workload have them, if another operator made any of these; none if not.
///
/// # Errors
/// When the pods do not say who they are.
pub fn members(pods: &[Pod], nodes: &[Node], workload: &str) -> Result<Vec<MemberStatus>, NotReady> {
    let own: Vec<&Pod> = pods.iter().filter(|pod| pod.workload() == workload).collect();
    if !own.iter().any(|pod| is_legacy(pod)) {
        return Ok(Vec::new());
    }
    of_pods(&own, nodes).map_err(|why| refused(Reason::ReplicasUnavailable, &why))
}

/// Sees to it that new pods find the data of the former ones, which is in a directory of the node. `usual`: whether it is the one that is
/// used where the spec names none; `directory`: which one the Go tf-operator used.
///
/// # Errors
/// When they would begin without data.
pub fn finds_data(storage: Option<&Storage>, usual: bool, directory: &str) -> Result<(), NotReady> {
    let elsewhere = |storage: &Storage| storage.persistent_volume_claim.is_some() || storage.empty_dir.is_some();
    let stated = storage.and_then(|storage| storage.host_path.as_ref()?.path.as_ref()).is_some();
    if (stated || usual) && !storage.is_some_and(elsewhere) {
        return Ok(());
    }
    let why = format!(
        "new ones would not find their data; say by storage.hostPath.path alone in which directory of the nodes it is, {directory} with \
         the Go tf-operator"
    );
    Err(NotReady { obstacle: Obstacle::Invalid, ..refused(Reason::InvalidSpec, &why) })
}

/// Its pods stay as they are, because of this.
pub(crate) fn refused(reason: Reason, why: &str) -> NotReady {
    NotReady::waiting(reason, format!("cannot take over its pods: {why}"))
}

/// Members that keep data, while another operator's pods are among theirs: the same ones, wherever their nodes are reached now.
pub fn membership(members: &[MemberStatus], nodes: &[Node], desired: &DesiredMembers<'_>) -> Membership {
    let now = |member: &MemberStatus| {
        let node = nodes.iter().find(|node| node.name == member.node);
        let address = node.and_then(|node| node.address.clone()).unwrap_or_else(|| member.address.clone());
        MemberStatus { address, ..member.clone() }
    };
    let members: Vec<MemberStatus> = members.iter().map(now).collect();
    members::unchanged(&members, nodes, desired, "every pod is this operator's")
}

/// Members by the ordinals of their pods.
fn of_pods(pods: &[&Pod], nodes: &[Node]) -> Result<Vec<MemberStatus>, String> {
    let mut members: Vec<MemberStatus> = pods.iter().map(|pod| member(pod, nodes)).collect::<Result<_, _>>()?;
    members.sort_by_key(|member| member.id);
    // A StatefulSet of so many pods removes every other one.
    if let Some((_, gap)) = (1..).zip(&members).find(|(id, member)| *id != member.id) {
        let ordinals: Vec<String> = members.iter().map(|member| (member.id - 1).to_string()).collect();
        let id = gap.id;
        return Err(format!("there are ordinals {} and none before that of member {id}", ordinals.join(", ")));
    }
    let places: BTreeSet<&str> = members.iter().map(|member| member.node.as_str()).collect();
    if places.len() < members.len() {
        return Err("two of them are on one node".to_owned());
    }
    Ok(members)
}

fn member(pod: &Pod, nodes: &[Node]) -> Result<MemberStatus, String> {
    let name = &pod.name;
    let ordinal = pod.ordinal().ok_or_else(|| format!("the name of pod {name} ends in no ordinal"))?;
    let node = pod.node.as_ref().ok_or_else(|| format!("pod {name} has no node yet"))?;
    let address = nodes.iter().find(|other| other.name == *node).and_then(|node| node.address.clone());
    let address = address.ok_or_else(|| format!("node {node} of pod {name} is gone or has no address"))?;
    Ok(MemberStatus { id: ordinal + 1, node: node.clone(), address })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        members::{Identities, Joining, Leaving, SizeRule},
        placement::Placement,
    };

    fn pod(ordinal: u32, node: Option<&str>) -> Pod {
        Pod { name: format!("set-{ordinal}"), node: node.map(str::to_owned), ..Pod::default() }
    }

    fn found(pods: &[Pod]) -> Result<Vec<MemberStatus>, String> {
        let node = |name: &str| Node { name: name.into(), address: Some(format!("10.0.0.{name}")), ..Node::default() };
        of_pods(&pods.iter().collect::<Vec<_>>(), &["7", "8", "9"].map(node))
    }

    #[test]
    fn members_are_numbered_by_ordinals_wherever_their_pods_are() {
        let members = found(&[pod(1, Some("7")), pod(0, Some("9")), pod(2, Some("8"))]).unwrap();
        let seen: Vec<_> = members.iter().map(|it| (it.id, it.node.as_str(), it.address.as_str())).collect();
        assert_eq!(seen, [(1, "9", "10.0.0.9"), (2, "7", "10.0.0.7"), (3, "8", "10.0.0.8")]);
    }

    #[test]
    fn members_stay_the_same_for_every_wish_and_every_address_of_their_nodes() {
        let before = found(&[pod(0, Some("7")), pod(1, Some("8"))]).unwrap();
        let node =
            |name: &str, address: &str| Node { name: name.into(), address: Some(address.into()), ..Node::default() };
        let desired = DesiredMembers {
            placement: &Placement::Everywhere,
            replicas: Some(3),
            rule: SizeRule::OddUpTo(5),
            joining: Joining::Anytime,
            leaving: Leaving::Released,
            identities: Identities::New { highest: 0 },
        };
        let after = membership(&before, &[node("7", "10.0.0.70"), node("9", "10.0.0.9")], &desired);
        let addresses: Vec<_> = after.members.iter().map(|it| (it.id, it.address.as_str())).collect();
        assert_eq!(addresses, [(1, "10.0.0.70"), (2, "10.0.0.8")]);
        assert_eq!((after.wanted, after.held), (2, None));
        let [asked, lost] = after.notes.as_slice() else { panic!("{:?}", after.notes) };
        assert!(asked.starts_with("3 members are asked for and there are 2"), "{asked}");
        assert!(lost.starts_with("node 8 of member 2 is gone"), "{lost}");
    }

    #[test]
    fn who_would_not_find_the_data_is_refused() {
        let storage = |json: serde_json::Value| serde_json::from_value::<Storage>(json).unwrap();
        let finds = |storage: Option<&Storage>, usual| finds_data(storage, usual, "/data").is_ok();
        let (stated, unstated) = (storage(json!({"hostPath": {"path": "/data"}})), storage(json!({"hostPath": {}})));
        assert!(finds(Some(&stated), false) && finds(Some(&stated), true));
        assert!(finds(None, true) && finds(Some(&unstated), true));
        assert!(!finds(None, false) && !finds(Some(&unstated), false));
        for elsewhere in [json!({"emptyDir": {}}), json!({"persistentVolumeClaim": {"size": "1Gi"}})] {
            assert!(!finds(Some(&storage(elsewhere)), true));
        }
        let refused = finds_data(None, false, "/data").unwrap_err();
        assert_eq!((refused.obstacle, refused.reason), (Obstacle::Invalid, Reason::InvalidSpec));
    }

    #[test]
    fn a_pod_that_cannot_be_identified_is_named() {
        let refused = |pods: &[Pod], why: &str| assert_eq!(found(pods).unwrap_err(), why);
        refused(&[pod(0, Some("7")), pod(1, None)], "pod set-1 has no node yet");
        refused(&[pod(0, Some("6"))], "node 6 of pod set-0 is gone or has no address");
        let gap = "there are ordinals 0, 2 and none before that of member 3";
        refused(&[pod(0, Some("7")), pod(2, Some("8"))], gap);
        refused(&[pod(0, Some("7")), pod(1, Some("7"))], "two of them are on one node");
        let odd = Pod { name: "set-x".into(), ..pod(0, Some("7")) };
        refused(&[odd], "the name of pod set-x ends in no ordinal");
    }
}
