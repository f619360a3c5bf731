//! Events: what people see with `kubectl describe`, beside conditions.

mod series;

use std::sync::Mutex;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tf_agent_api::{cassandra::Change, rabbitmq::Membership, redis, zookeeper::Reconfigure};
use tf_api::{
    Managed,
    contract::{ConditionStatus, ConditionType, Contract, Draft, Reason},
};
use tf_pki::review::Denial;
use tf_plan::{
    object::{CERTIFICATE_SIGNING_REQUEST, Object, POD},
    plan::News,
    status,
    step::{Request, Step, Target},
};

use tokio::time::Instant;

use self::series::Series;
use crate::{error::in_words, lock::lock};

/// Longest note the events API accepts.
const NOTE_LIMIT: usize = 1024;

/// What an event is. Those that are alike in all of it are merged, as [`series`] says.
struct What<'a> {
    type_: EventType,
    reason: &'a str,
    action: &'a str,
    secondary: Option<ObjectReference>,
}

impl<'a> What<'a> {
    fn warning(reason: &'a str) -> Self {
        Self { type_: EventType::Warning, reason, action: "Reconcile", secondary: None }
    }
}

/// A change of who is a member, in a word.
fn action(request: &Request) -> String {
    match request {
        Request::Reconfigure(Reconfigure::Add { id, .. }) => format!("AddMember{id}"),
        Request::Reconfigure(Reconfigure::Remove { id, .. }) => format!("RemoveMember{id}"),
        Request::Ring(Change::Replicate { keyspace, to, .. }) => format!("Replicate{keyspace}To{to}"),
        Request::Ring(Change::Repair { keyspace, .. } | Change::RepairWithout { keyspace, .. }) => {
            format!("Repair{keyspace}")
        }
        Request::Ring(Change::UpgradeSstables) => "UpgradeSstables".to_owned(),
        Request::Ring(Change::Decommission) => "Decommission".to_owned(),
        Request::Ring(Change::Remove { .. }) => "Remove".to_owned(),
        Request::Ring(Change::Backup { of, .. }) => format!("Backup{}", of.name),
        Request::Ring(Change::Look { of }) => format!("LookFor{}", of.name),
        Request::Ring(Change::RestoreSchema { .. }) => "RestoreSchema".to_owned(),
        Request::Ring(Change::RestoreRows { .. }) => "RestoreRows".to_owned(),
        Request::Redis(redis::Change::StepDown) => "StepDown".to_owned(),
        Request::Redis(redis::Change::Recount) => "Recount".to_owned(),
        Request::Membership(Membership::Leave) => "Leave".to_owned(),
        Request::Membership(Membership::Forget { .. }) => "Forget".to_owned(),
        Request::Membership(Membership::ImportDefinitions) => "ImportDefinitions".to_owned(),
        Request::Membership(Membership::Grow) => "Grow".to_owned(),
        Request::Membership(Membership::EnableFlags) => "EnableFlags".to_owned(),
    }
}

/// What keeps objects from being as planned since this change of a status, where no other condition has the same cause.
fn held(before: Option<&Contract>, after: &Contract) -> Option<Draft> {
    let failing = |contract: &Contract| {
        let config = status::draft(contract, ConditionType::ConfigReady)?;
        let waits = matches!(config.reason, Reason::Progressing | Reason::Paused);
        (config.status == ConditionStatus::False && !waits).then_some(config)
    };
    let now = failing(after)?;
    let was = before.and_then(failing);
    let said = [ConditionType::Stalled, ConditionType::Degraded]
        .into_iter()
        .any(|kind| status::draft(after, kind).is_some_and(|other| other.is_true() && other.reason == now.reason));
    (!said && was.is_none_or(|was| was.reason != now.reason)).then_some(now)
}

/// Publishes events as one reporter; repeated ones are merged.
pub struct Events {
    client: Client,
    reporter: Reporter,
    series: Mutex<Series<Recorder>>,
}

impl Events {
    /// A reporter with the operator's name.
    pub fn new(client: Client, operator: &str, identity: &str) -> Self {
        let reporter = Reporter { controller: operator.into(), instance: Some(identity.into()) };
        Self { client, reporter, series: Mutex::default() }
    }

    /// Reports that a resource became Ready, or stopped being so for a reason that asks for attention.
    pub async fn conditions_changed<Cr: Managed>(&self, cr: &Cr, before: Option<&Contract>, after: &Contract) {
        let holds = |kind: ConditionType, contract: &Contract| status::draft(contract, kind).filter(Draft::is_true);
        let is_new = |kind: ConditionType| {
            let now = holds(kind, after)?;
            let was = before.and_then(|before| holds(kind, before));
            was.is_none_or(|was| was.reason != now.reason).then_some(now)
        };
        if let Some(ready) = is_new(ConditionType::Ready) {
            self.publish(cr, EventType::Normal, "Ready", &ready.message).await;
        }
        for kind in [ConditionType::Stalled, ConditionType::Degraded] {
            if let Some(bad) = is_new(kind) {
                self.publish(cr, EventType::Warning, bad.reason.as_ref(), &bad.message).await;
            }
        }
        if let Some(held) = held(before, after) {
            self.publish(cr, EventType::Warning, held.reason.as_ref(), &held.message).await;
        }
    }

    /// A workload or a component that had been deleted was created again: the garbage collector has deleted its pods with it.
    pub async fn recreated<Cr: Managed>(&self, cr: &Cr, object: &Object) {
        let reason = if object.kind.group == tf_api::GROUP { "ComponentRecreated" } else { "WorkloadRecreated" };
        let what = object.describe();
        let note =
            format!("{what} had been deleted and is created again; all of its pods start again at the same time");
        self.publish(cr, EventType::Warning, reason, &note).await;
    }

    /// A step was taken, and so many beside it.
    pub async fn stepped<Cr: Managed>(&self, cr: &Cr, step: &Step, beside: usize) {
        // A question is no news.
        if matches!(step, Step::Ask(_, Request::Ring(Change::Look { .. }))) {
            return;
        }
        let Target { pod, uid, why } = step.target();
        let (reason, action, note) = match step {
            Step::Restart(_) => ("DisruptionAllowed", "RestartPod".to_owned(), format!("restarting pod {pod}: {why}")),
            Step::Activate(..) => (
                "DisruptionAllowed",
                "ActivateConfiguration".to_owned(),
                format!("pod {pod} takes its new configuration"),
            ),
            Step::Renew(..) => {
                ("DisruptionAllowed", "RenewCertificate".to_owned(), format!("pod {pod} restarts its daemons: {why}"))
            }
            Step::Ask(_, request @ Request::Ring(Change::Repair { routine: true, .. })) => {
                ("RepairStarted", action(request), why.clone())
            }
            Step::Ask(_, request @ Request::Membership(Membership::ImportDefinitions)) => {
                ("DefinitionsImported", action(request), why.clone())
            }
            Step::Ask(_, request @ Request::Membership(Membership::EnableFlags)) => {
                ("FeatureFlagsEnabled", action(request), why.clone())
            }
            Step::Ask(_, request @ Request::Membership(Membership::Grow)) => {
                ("QuorumQueuesGrown", action(request), why.clone())
            }
            Step::Ask(_, request @ Request::Ring(Change::UpgradeSstables)) => {
                ("UpgradeSstablesStarted", action(request), why.clone())
            }
            Step::Ask(_, request @ Request::Ring(Change::Backup { .. })) => {
                ("BackupStarted", action(request), why.clone())
            }
            Step::Ask(_, request @ Request::Ring(change)) if change.is_restore() => {
                ("RestoreStarted", action(request), why.clone())
            }
            Step::Ask(_, request) => ("MembershipChanged", action(request), why.clone()),
        };
        let note = if beside > 0 { format!("{note}; so do {beside} more pods at the same time") } else { note };
        // Pod and action tell one step from another, which is not to be merged with it.
        let pod = ObjectReference {
            api_version: Some(POD.api_version()),
            kind: Some(POD.kind.into()),
            namespace: Some(cr.home().to_owned()),
            name: Some(pod.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        };
        let what = What { type_: EventType::Normal, reason, action: &action, secondary: Some(pod) };
        self.send(&cr.object_ref(&()), what, &note).await;
    }

    /// Something that the plan reports.
    pub async fn told<Cr: Managed>(&self, cr: &Cr, news: &News) {
        let type_ = if news.is_bad { EventType::Warning } else { EventType::Normal };
        self.publish(cr, type_, news.reason, &news.note).await;
    }

    /// A step was refused by the member that it was for.
    pub async fn refused<Cr: Managed>(&self, cr: &Cr, step: &Step, why: &str) {
        let note = format!("pod {} was asked ({}) and refused: {why}", step.target().pod, step.target().why);
        self.publish(cr, EventType::Warning, "StepRefused", &note).await;
    }

    /// A certificate was denied.
    pub async fn denied<Cr: Managed>(&self, cr: &Cr, request: &str, denial: &Denial) {
        let note = format!("certificate request {request} ({}): {}", denial.reason.as_str(), denial.message);
        // Events about the same are merged; the request tells them apart.
        let request = ObjectReference {
            api_version: Some(CERTIFICATE_SIGNING_REQUEST.api_version()),
            kind: Some(CERTIFICATE_SIGNING_REQUEST.kind.into()),
            name: Some(request.into()),
            ..ObjectReference::default()
        };
        let what = What { secondary: Some(request), ..What::warning("CertificateDenied") };
        self.send(&cr.object_ref(&()), what, &note).await;
    }

    /// A step towards another authority was taken.
    pub async fn authority_turned<Cr: Managed>(&self, cr: &Cr, what: &str) {
        self.publish(cr, EventType::Normal, "AuthorityRotated", what).await;
    }

    /// Objects were left behind because they could not be removed in time.
    pub async fn abandoned(&self, object: &ObjectReference, left: &str) {
        self.publish_about(object, EventType::Warning, "Abandoned", left).await;
    }

    /// A stored object does not parse.
    pub async fn undecodable(&self, object: &ObjectReference, note: &str) {
        self.publish_about(object, EventType::Warning, Reason::InvalidSpec.as_ref(), note).await;
    }

    async fn publish<Cr: Managed>(&self, cr: &Cr, type_: EventType, reason: &str, note: &str) {
        self.publish_about(&cr.object_ref(&()), type_, reason, note).await;
    }

    async fn publish_about(&self, object: &ObjectReference, type_: EventType, reason: &str, note: &str) {
        self.send(object, What { type_, ..What::warning(reason) }, note).await;
    }

    async fn send(&self, object: &ObjectReference, what: What<'_>, note: &str) {
        let What { type_, reason, action, secondary } = what;
        let note = &note[..note.floor_char_boundary(NOTE_LIMIT)];
        let begin = || Recorder::new(self.client.clone(), self.reporter.clone());
        // Versions of the objects do not count.
        let who = |it: &ObjectReference| format!("{:?}", (&it.kind, &it.namespace, &it.name, &it.uid));
        let alike = format!("{} {type_:?} {reason} {action} {:?}", who(object), secondary.as_ref().map(who));
        let recorder = lock(&self.series).recorder(alike, note, Instant::now(), begin);
        let event =
            Event { type_, reason: reason.into(), note: Some(note.to_owned()), action: action.into(), secondary };
        // An event that gets lost is a pity and nothing more: conditions carry the truth.
        if let Err(error) = recorder.publish(&event, object).await {
            tracing::debug!(error = in_words(&error), reason, "an event was not published");
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn with(drafts: &[Draft]) -> Contract {
        let conditions = status::merge(&[], drafts.to_vec(), 1, Timestamp::UNIX_EPOCH);
        Contract { conditions, ..Contract::default() }
    }

    #[test]
    fn what_holds_objects_up_is_an_event_once_and_what_is_only_awaited_is_none() {
        use ConditionType::{ConfigReady, Degraded};
        let conflict = Draft::fails(ConfigReady, Reason::FieldConflict, "kubectl has changed spec.replicas");
        let unknown = Draft::unknown(ConfigReady, Reason::NotYetReported, "not looked at yet");
        let degraded = Draft::holds(Degraded, Reason::FieldConflict, "kubectl has changed spec.replicas");
        assert_eq!(held(None, &with(std::slice::from_ref(&unknown))), None);
        assert_eq!(held(Some(&with(&[unknown])), &with(std::slice::from_ref(&conflict))), Some(conflict.clone()));
        assert_eq!(held(Some(&with(std::slice::from_ref(&conflict))), &with(std::slice::from_ref(&conflict))), None);
        assert_eq!(held(None, &with(&[conflict, degraded])), None, "the other condition has an event of its own");
    }
}
