//! A resource whose servers are stopped because it asks for that, and which loses nothing by it (ADR 0033).
//!
//! Its StatefulSet has no pods then; every other object, the record of its members and what they have on their nodes stay as they
//! are, so that it wakes as what it was. While nobody can be asked nothing is decided: nobody comes, goes or is replaced. What has
//! begun and would be cut short is ended first. Whether it sleeps is seen from its StatefulSet and remembered nowhere.

use tf_api::{
    Managed,
    common::Storage,
    contract::{ConditionStatus, ConditionType, Draft, MemberStatus, Reason},
    names::ANNOTATION_HIBERNATE,
};

use crate::{
    members::{self, DesiredMembers, Membership},
    observed::{Node, Observed},
    plan::{Hibernation, Plan},
    reports::{AgentCoverage, Reports},
    takeover,
};

/// What a resource that hibernates says of itself.
pub const EXPLANATION: &str = "it hibernates: no server runs, and members with what is on their nodes stay as they are; to wake it remove the \
                               annotation tf.tungsten.io/hibernate";

/// What the decision rests on.
pub struct Inputs<'a, Cr> {
    /// The resource.
    pub cr: &'a Cr,
    /// The snapshot.
    pub observed: &'a Observed<Cr>,
    /// Members as they are recorded.
    pub recorded: &'a [MemberStatus],
    /// Whether members keep data.
    pub has_data: bool,
    /// A change of who is a member that has begun.
    pub changing: Option<&'a str>,
    /// Name of the StatefulSet.
    pub workload: &'a str,
}

impl Hibernation {
    /// Decides.
    pub fn of<Cr: Managed>(inputs: &Inputs<'_, Cr>) -> Self {
        if !inputs.cr.hibernates() {
            return Self::Awake;
        }
        let live = inputs.observed.workloads.get(inputs.workload);
        if live.is_some_and(|live| live.wanted == 0) && !inputs.recorded.is_empty() {
            return Self::Asleep;
        }
        if let Some(why) = inputs.has_data.then(|| loses_data(inputs.cr.common().storage.as_ref())).flatten() {
            return Self::Held(Reason::InvalidSpec, format!("it is not put to sleep: {why}"));
        }
        match inputs.unfinished() {
            Some(why) => Self::Held(Reason::Progressing, format!("it hibernates when this is over: {why}")),
            None => Self::Asleep,
        }
    }
}

impl<Cr: Managed> Inputs<'_, Cr> {
    /// What has begun and is ended first.
    fn unfinished(&self) -> Option<String> {
        let initialized = self.cr.is_initialized();
        if !initialized || self.recorded.is_empty() {
            return Some("its first bring-up is not complete".to_owned());
        }
        let reports = Reports::of_observed(self.observed);
        if let Some(pod) = reports.pods.iter().find(|pod| takeover::is_legacy(pod)) {
            return Some(format!("pod {} of another operator is taken over", pod.name));
        }
        if let Some(change) = self.changing {
            return Some(change.to_owned());
        }
        (reports.clarity() == AgentCoverage::Polling).then(|| "its members are being asked how they are".to_owned())
    }
}

/// Why members would not find their data again.
fn loses_data(storage: Option<&Storage>) -> Option<&'static str> {
    let storage = storage?;
    if storage.empty_dir.is_some() {
        return Some("with storage.emptyDir data goes with the pods; remove the annotation tf.tungsten.io/hibernate");
    }
    // Pods that are made anew together may get each other's nodes, and a claim follows the pod's ordinal.
    storage.persistent_volume_claim.as_ref().map(|_| {
        "with storage.persistentVolumeClaim a pod could come back on the node of another member, with the claim of its own; remove \
         the annotation tf.tungsten.io/hibernate"
    })
}

/// The members of a resource that sleeps: those that are recorded, with what will be done when it is awake.
pub fn membership(recorded: &[MemberStatus], nodes: &[Node], desired: &DesiredMembers<'_>) -> Membership {
    members::unchanged(recorded, nodes, desired, "it is awake")
}

/// Ends the planning of a resource: one that sleeps has nothing done to it, and one that shall and does not says why.
pub fn finish(plan: &mut Plan) {
    match plan.hibernation.clone() {
        Hibernation::Awake => {}
        Hibernation::Held(reason, why) => {
            plan.held = Some(match plan.held.take() {
                Some((Reason::InvalidSpec, other)) => (Reason::InvalidSpec, format!("{why}; {other}")),
                Some((_, other)) => (reason, format!("{why}; {other}")),
                None => (reason, why),
            });
        }
        Hibernation::Asleep => {
            plan.step = None;
            plan.under_way = None;
            plan.held = None;
            plan.troubles.clear();
            plan.outage = None;
            plan.shortages.clear();
            // What an issuer outside refuses is as true as before.
            let is_moot = |draft: &Draft| match draft.kind {
                ConditionType::Available => true,
                ConditionType::CertificatesReady => draft.status != ConditionStatus::False,
                _ => false,
            };
            let has_certificates =
                plan.drafts.iter().any(|draft| draft.kind == ConditionType::CertificatesReady && is_moot(draft));
            plan.drafts.retain(|draft| !is_moot(draft));
            if has_certificates {
                let message = "no server runs; each asks for a new one when it starts";
                plan.drafts.push(Draft::unknown(ConditionType::CertificatesReady, Reason::Hibernated, message));
            }
        }
    }
}

/// What is said of the annotation on a kind whose servers are not stopped by it.
pub fn ignored(cr: &impl Managed, why: &str) -> Option<String> {
    cr.hibernates().then(|| format!("metadata.annotations[{ANNOTATION_HIBERNATE}]: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tf_api::Zookeeper;

    use super::*;
    use crate::observed::{Agent, Certificate, Pod, Source, Workload};

    fn zookeeper(annotation: &str, storage: &serde_json::Value, initialized: bool) -> Zookeeper {
        serde_json::from_value(json!({
            "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper",
            "metadata": {"name": "z", "annotations": {ANNOTATION_HIBERNATE: annotation}},
            "spec": {"commonConfiguration": {"storage": storage}},
            "status": {"observedGeneration": 1, "initialized": initialized},
        }))
        .unwrap()
    }

    fn pod(certified: bool) -> Pod {
        let certificate = Certificate { not_after: jiff::Timestamp::UNIX_EPOCH, issuer: "ca".into() };
        let certificate = certified.then_some(certificate);
        Pod { name: "z-0".into(), uid: "u".into(), template: Some("t".into()), certificate, ..Pod::default() }
    }

    fn decided(cr: &Zookeeper, observed: &Observed<Zookeeper>, changing: Option<&str>) -> Hibernation {
        let recorded = [MemberStatus { id: 1, node: "a".into(), address: "10.0.0.1".into() }];
        Hibernation::of(&Inputs { cr, observed, recorded: &recorded, has_data: true, changing, workload: "z" })
    }

    fn why(hibernation: Hibernation) -> (Reason, String) {
        match hibernation {
            Hibernation::Held(reason, why) => (reason, why),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_has_begun_is_ended_first_and_what_would_lose_data_is_not_done() {
        let none = Observed::default();
        let plain = zookeeper("true", &json!(null), true);
        assert_eq!(decided(&zookeeper("false", &json!(null), true), &none, None), Hibernation::Awake);
        assert_eq!(decided(&plain, &none, None), Hibernation::Asleep);
        assert!(why(decided(&plain, &none, Some("member 3 is leaving"))).1.ends_with("member 3 is leaving"));
        let new = zookeeper("true", &json!(null), false);
        assert!(why(decided(&new, &none, None)).1.contains("first bring-up"));
        for storage in [json!({"emptyDir": {}}), json!({"persistentVolumeClaim": {"size": "1Gi"}})] {
            let (reason, why) = why(decided(&zookeeper("true", &storage, true), &none, None));
            assert!(reason == Reason::InvalidSpec && why.contains(ANNOTATION_HIBERNATE), "{why}");
        }
        let path = zookeeper("true", &json!({"hostPath": {"path": "/data"}}), true);
        assert_eq!(decided(&path, &none, None), Hibernation::Asleep);
    }

    #[test]
    fn nobody_is_put_to_sleep_before_everybody_was_asked_and_a_member_that_is_down_holds_nothing_up() {
        let plain = zookeeper("true", &json!(null), true);
        let mut observed = Observed { pods: Source::Known(vec![pod(true)]), ..Observed::default() };
        assert!(why(decided(&plain, &observed, None)).1.contains("being asked"));
        observed.agents.insert("u".into(), Agent::Silent("no route".into()));
        assert_eq!(decided(&plain, &observed, None), Hibernation::Asleep);
        observed.pods = Source::Known(vec![Pod { template: None, ..pod(false) }]);
        assert!(why(decided(&plain, &observed, None)).1.contains("another operator"));
    }

    #[test]
    fn who_sleeps_sleeps_on_whatever_happens() {
        let asleep = Workload { name: "z".into(), current: true, wanted: 0, ..Workload::default() };
        let observed = Observed { workloads: [("z".to_owned(), asleep)].into(), ..Observed::default() };
        let plain = zookeeper("true", &json!({"emptyDir": {}}), false);
        assert_eq!(decided(&plain, &observed, Some("member 3 is leaving")), Hibernation::Asleep);
    }
}
