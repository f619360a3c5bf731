//! Pods that the Go tf-operator made, and whose members go on under this operator.
//!
//! Its workloads have the names and selectors of ours, so its pods can be ours without a restart. A server's identity is its
//! pod's ordinal plus one, and its data is on the node where the pod is (peer-operator 1.2, 1.3). So the members are read from
//! its pods, once; from then on they are in the status. Its pods lack the annotation that every template of ours has.

use std::collections::BTreeSet;

use tf_api::contract::{MemberStatus, Reason};

use crate::{
    observed::{Node, Pod},
    plan::NotReady,
};

/// Whether another operator made this pod. It has no node agent.
pub fn is_foreign(pod: &Pod) -> bool {
    pod.template.is_none()
}

/// Members as the pods of a workload have them, if another operator made any of these; none if not.
///
/// # Errors
/// When the pods do not say who they are.
pub fn members(pods: &[Pod], nodes: &[Node], workload: &str) -> Result<Vec<MemberStatus>, NotReady> {
    let own: Vec<&Pod> = pods.iter().filter(|pod| pod.workload() == workload).collect();
    if !own.iter().any(|pod| is_foreign(pod)) {
        return Ok(Vec::new());
    }
    let refused = |why| NotReady::waiting(Reason::ReplicasUnavailable, format!("cannot take over its pods: {why}"));
    of_pods(&own, nodes).map_err(refused)
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
    use super::*;

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
    fn who_cannot_be_told_is_named() {
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
