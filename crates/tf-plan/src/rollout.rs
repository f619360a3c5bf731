//! Which pod may be restarted now, if any.
//!
//! StatefulSets use `OnDelete`, so a changed template replaces no pod by itself: the operator deletes outdated pods one
//! at a time, a broken one first, the others only while every pod is ready. The decision looks at what is observed and
//! nothing else, so killing the operator between two restarts changes nothing.

use crate::{
    observed::{Pod, Workload},
    step::Target,
};

/// State of a roll-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Every pod runs the current template.
    Done,
    /// Restart this pod now.
    Restart(Target),
    /// Pods are outdated and none may be restarted now, because of this.
    Hold(String),
}

/// Decides for one workload. `template` is the hash the live workload's pods should carry.
pub fn next(pods: &[Pod], workload: Option<&Workload>, template: &str) -> Decision {
    let outdated = |pod: &&Pod| pod.template.as_deref() != Some(template);
    let outdated: Vec<&Pod> = pods.iter().filter(outdated).collect();
    if outdated.is_empty() {
        return Decision::Done;
    }
    let Some(workload) = workload.filter(|workload| workload.current) else {
        return Decision::Hold("the controller of the workload has not seen the new template yet".into());
    };
    if let Some(pod) = pods.iter().find(|pod| pod.terminating) {
        return Decision::Hold(format!("pod {} is terminating", pod.name));
    }
    // A pod that is down already cannot be made worse by a restart, and the old template may be what breaks it.
    if let Some(pod) = outdated.iter().find(|pod| !pod.ready) {
        return Decision::Restart(restart(pod, "it is not ready and runs an older template"));
    }
    if let Some(pod) = pods.iter().find(|pod| !pod.ready) {
        return Decision::Hold(format!("pod {} is not ready", pod.name));
    }
    let existing = pods.len() as i32;
    if existing < workload.wanted {
        return Decision::Hold(format!("{existing} of {} pods exist", workload.wanted));
    }
    // The highest ordinal first, as a StatefulSet's own rolling update does.
    match outdated.last() {
        Some(pod) => Decision::Restart(restart(pod, "it runs an older template")),
        None => Decision::Done,
    }
}

fn restart(pod: &Pod, why: &str) -> Target {
    Target { pod: pod.name.clone(), uid: pod.uid.clone(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pod(index: usize, ready: bool, template: &str) -> Pod {
        Pod {
            name: format!("pod-{index}"),
            uid: format!("uid-{index}"),
            ready,
            template: Some(template.into()),
            ..Pod::default()
        }
    }

    fn workload(wanted: i32) -> Workload {
        Workload { current: true, wanted, ..Workload::default() }
    }

    #[test]
    fn nothing_to_do_when_every_pod_is_current() {
        let pods = [pod(0, true, "new"), pod(1, false, "new")];
        assert_eq!(next(&pods, Some(&workload(2)), "new"), Decision::Done);
    }

    #[test]
    fn the_highest_ordinal_goes_first() {
        let pods = [pod(0, true, "old"), pod(1, true, "old"), pod(2, true, "old")];
        assert!(matches!(next(&pods, Some(&workload(3)), "new"), Decision::Restart(r) if r.pod == "pod-2"));
    }

    #[test]
    fn a_broken_outdated_pod_goes_before_healthy_ones() {
        let pods = [pod(0, false, "old"), pod(1, true, "old")];
        assert!(matches!(next(&pods, Some(&workload(2)), "new"), Decision::Restart(r) if r.pod == "pod-0"));
    }

    #[test]
    fn a_pod_on_its_way_back_holds_the_rest() {
        let pods = [pod(0, true, "old"), pod(1, false, "new")];
        assert!(matches!(next(&pods, Some(&workload(2)), "new"), Decision::Hold(why) if why.contains("pod-1")));
    }

    #[test]
    fn a_template_its_controller_has_not_seen_restarts_nothing() {
        let pods = [pod(0, true, "old")];
        let unseen = Workload { current: false, ..workload(1) };
        assert!(matches!(next(&pods, Some(&unseen), "new"), Decision::Hold(_)));
        assert!(matches!(next(&pods, None, "new"), Decision::Hold(_)));
    }

    proptest! {
        /// By our own action at most one pod is away, unless it was away before.
        #[test]
        fn never_takes_a_second_healthy_pod_down(
            states in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 1..7),
        ) {
            let pods: Vec<Pod> = states
                .iter()
                .enumerate()
                .map(|(index, (ready, current, terminating))| Pod {
                    terminating: *terminating,
                    ..pod(index, *ready, if *current { "new" } else { "old" })
                })
                .collect();
            if let Decision::Restart(restart) = next(&pods, Some(&workload(pods.len() as i32)), "new") {
                let target = pods.iter().find(|pod| pod.name == restart.pod).unwrap();
                prop_assert!(target.template.as_deref() == Some("old"));
                prop_assert!(pods.iter().all(|pod| !pod.terminating));
                if target.ready {
                    prop_assert!(pods.iter().all(|pod| pod.ready));
                }
            }
        }
    }
}
