//! Members' numbers as their volumes have them.
//!
//! A member that keeps data has its number on its volume, and its server goes by that. `status.members` is a copy of these numbers: where both differ, since
//! `status` was edited or emptied, the volumes are right. The answer is a pure function of the status and of what the agents report.

use std::collections::{BTreeMap, BTreeSet};

use tf_api::contract::{MemberStatus, Reason};

use crate::{not_ready::NotReady, observed::Pod, plan::News, reports::Reports, takeover};

/// The members of the status with the numbers that their volumes have. `workload`: the StatefulSet of the resource, if there is one.
///
/// A volume whose number no recorded member has is that of a former member, and says nothing of the present ones.
///
/// # Errors
/// `MembersUnclear` while an agent that has to answer first does not, or where the volumes contradict each other. Nothing may be changed then.
pub fn of_volumes(
    recorded: Vec<MemberStatus>,
    reports: &Reports<'_>,
    workload: Option<&str>,
) -> Result<Vec<MemberStatus>, NotReady> {
    if recorded.is_empty() {
        return workload.map_or(Ok(Vec::new()), |workload| recovered(reports, workload));
    }
    let volumes: BTreeMap<u32, u32> =
        recorded.iter().filter_map(|member| Some((member.id, reports.of_member(member)?.volume_of()?))).collect();
    let holder = |id: u32| recorded.iter().find(|member| member.id == id);
    // A volume has the number of another member, whose own volume does not have it.
    let swapped = |member: &MemberStatus| {
        let number = *volumes.get(&member.id)?;
        let other = holder(number).filter(|other| other.id != member.id)?;
        (volumes.get(&number) != Some(&number)).then_some((number, other))
    };
    let Some((member, (number, other))) = recorded.iter().find_map(|member| Some((member, swapped(member)?))) else {
        return Ok(recorded);
    };
    let corrected: Vec<MemberStatus> = recorded
        .iter()
        .map(|member| MemberStatus { id: swapped(member).map_or(member.id, |(number, _)| number), ..member.clone() })
        .collect();
    let numbers: BTreeSet<u32> = corrected.iter().map(|member| member.id).collect();
    if numbers.len() == recorded.len() {
        return Ok(in_order_of(&recorded, corrected));
    }
    Err(unclear(format!(
        "status.members has member {} on node {}, and the volume there is that of member {number}, which status.members has on node {}; \
         the agent on node {} does not say whose its volume is. Nothing is changed until it does, or until status.members is as the volumes are \
         (kubectl edit --subresource=status)",
        member.id, member.node, other.node, other.node
    )))
}

/// An event about members whose numbers are corrected.
pub fn news(recorded: &[MemberStatus], confirmed: &[MemberStatus]) -> Option<News> {
    let names = |members: &[MemberStatus]| {
        let names: Vec<String> = members.iter().map(|member| format!("{} on {}", member.id, member.node)).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    (recorded != confirmed).then(|| News {
        is_bad: true,
        reason: "MembersCorrected",
        note: format!(
            "status.members had {} and is corrected to what the members' volumes have: {}",
            names(recorded),
            names(confirmed)
        ),
    })
}

/// The order in which members joined stays with their numbers: lists in configuration files have it.
fn in_order_of(recorded: &[MemberStatus], corrected: Vec<MemberStatus>) -> Vec<MemberStatus> {
    let mut by_number: BTreeMap<u32, MemberStatus> = corrected.into_iter().map(|member| (member.id, member)).collect();
    recorded.iter().filter_map(|member| by_number.remove(&member.id)).collect()
}

/// Members of a status that was emptied: they are recorded before their StatefulSet is created, so there were some.
fn recovered(reports: &Reports<'_>, workload: &str) -> Result<Vec<MemberStatus>, NotReady> {
    let is_meant = |pod: &&Pod| pod.workload() == workload && !pod.terminating;
    let pods: Vec<&Pod> = reports.pods.iter().filter(is_meant).collect();
    if pods.iter().any(|pod| takeover::is_legacy(pod)) {
        return Ok(Vec::new());
    }
    let member = |pod: &Pod| {
        let id = reports.of(pod)?.volume_of()?;
        Some(MemberStatus { id, node: pod.node.clone()?, address: pod.address.clone()? })
    };
    let mut members = BTreeMap::new();
    for pod in pods {
        let Some(found) = member(pod) else {
            return Err(unclear(format!(
                "status.members is empty although StatefulSet {workload} has pods, and the agent of pod {} does not say yet which member its \
                 volume is of. Nothing is changed until it does, or until status.members is restored (kubectl edit --subresource=status)",
                pod.name
            )));
        };
        if let Some(other) = members.insert(found.id, found.clone()) {
            return Err(unclear(format!(
                "status.members is empty, and the volumes on nodes {} and {} are both of member {}. Nothing is changed until status.members is \
                 restored (kubectl edit --subresource=status)",
                other.node, found.node, found.id
            )));
        }
    }
    Ok(members.into_values().collect())
}

fn unclear(message: String) -> NotReady {
    NotReady::waiting(Reason::MembersUnclear, message)
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::subsequence};
    use tf_agent_api::{cassandra::Facts, state::Status};

    use super::*;
    use crate::observed::Agent;

    const SET: &str = "ring-cassandra-statefulset";

    fn member(id: u32, node: &str) -> MemberStatus {
        MemberStatus { id, node: node.to_owned(), address: format!("10.0.0.{node}") }
    }

    /// Pods on nodes, with the number that each volume has; none where the agent does not answer.
    fn seen(volumes: &[(&str, Option<u32>)]) -> (Vec<Pod>, BTreeMap<String, Agent>) {
        let pod = |(ordinal, (node, _)): (usize, &(&str, Option<u32>))| Pod {
            name: format!("{SET}-{ordinal}"),
            uid: (*node).to_owned(),
            node: Some((*node).to_owned()),
            address: Some(format!("10.0.0.{node}")),
            template: Some("hash".to_owned()),
            ..Pod::default()
        };
        let agent = |(node, number): &(&str, Option<u32>)| {
            let facts = Facts { owner: Some((*number)?), ..Facts::default() };
            let status = Status { cassandra: Some(facts), ..Status::default() };
            Some(((*node).to_owned(), Agent::Says(Box::new(status))))
        };
        (volumes.iter().enumerate().map(pod).collect(), volumes.iter().filter_map(agent).collect())
    }

    fn numbered(recorded: &[MemberStatus], volumes: &[(&str, Option<u32>)]) -> Result<Vec<MemberStatus>, NotReady> {
        let (pods, agents) = seen(volumes);
        of_volumes(recorded.to_vec(), &Reports { pods: &pods, agents: &agents }, Some(SET))
    }

    #[test]
    fn swapped_numbers_are_those_of_the_volumes_again() {
        let swapped = [member(1, "a"), member(2, "b"), member(3, "c")];
        let right = numbered(&swapped, &[("a", Some(2)), ("b", Some(1)), ("c", Some(3))]).unwrap();
        assert_eq!(right, [member(1, "b"), member(2, "a"), member(3, "c")]);
        let note = news(&swapped, &right).unwrap().note;
        let expected = "status.members had 1 on a, 2 on b, 3 on c and is corrected to what the members' volumes have: 1 on b, 2 on a, 3 on c";
        assert_eq!(note, expected);
        assert_eq!(news(&right, &right), None);
        let held = numbered(&swapped, &[("a", Some(2)), ("b", None), ("c", Some(3))]).unwrap_err();
        assert_eq!(held.reason, Reason::MembersUnclear);
        assert!(
            held.message.starts_with("status.members has member 1 on node a, and the volume there is that of member 2")
        );
    }

    #[test]
    fn a_volume_of_a_former_member_changes_nothing() {
        let recorded = [member(1, "a"), member(4, "b")];
        for former in [Some(2), None, Some(1), Some(4)] {
            assert_eq!(numbered(&recorded, &[("a", Some(1)), ("b", former)]).unwrap(), recorded, "{former:?}");
        }
    }

    #[test]
    fn an_emptied_status_is_what_the_volumes_say_once_all_do() {
        let volumes = [("a", Some(4)), ("b", Some(2))];
        assert_eq!(numbered(&[], &volumes).unwrap(), [member(2, "b"), member(4, "a")]);
        for unclear in [[("a", Some(4)), ("b", None)], [("a", Some(4)), ("b", Some(4))]] {
            assert_eq!(numbered(&[], &unclear).unwrap_err().reason, Reason::MembersUnclear);
        }
        let (pods, agents) = seen(&volumes);
        let reports = Reports { pods: &pods, agents: &agents };
        assert_eq!(of_volumes(Vec::new(), &reports, None).unwrap(), [], "pods of a former resource of the same name");
        assert_eq!(numbered(&[], &[]).unwrap(), []);
    }

    proptest! {
        #[test]
        fn any_order_of_numbers_heals_or_waits(
            order in Just(vec![1_u32, 2, 3, 4, 5]).prop_shuffle(),
            answering in subsequence(vec![0_usize, 1, 2, 3, 4], 0..=5),
        ) {
            let nodes = ["a", "b", "c", "d", "e"];
            let recorded: Vec<_> = (1..).zip(nodes).map(|(id, node)| member(id, node)).collect();
            let volumes: Vec<_> =
                (0..5).map(|at| (nodes[at], answering.contains(&at).then_some(order[at]))).collect();
            if let Ok(members) = numbered(&recorded, &volumes) {
                for (node, number) in &volumes {
                    let found = members.iter().find(|member| member.node == *node).unwrap();
                    prop_assert!(number.is_none_or(|number| number == found.id), "{members:?}");
                }
                let numbers: BTreeSet<u32> = members.iter().map(|member| member.id).collect();
                prop_assert_eq!(numbers.len(), 5);
            } else {
                prop_assert!(answering.len() < 5);
            }
        }
    }
}
