//! The watches that fill the caches, and whom a change wakes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, StatefulSet},
    certificates::v1::CertificateSigningRequest,
    core::v1::{Event, PersistentVolumeClaim, Pod},
};
use kube::{
    Api, Client,
    core::{DynamicObject, NamespaceResourceScope, PartialObjectMeta},
};
use tf_api::{Managed, names};
use tf_plan::{
    object::{
        CERTIFICATE_SIGNING_REQUEST, CONFIG_MAP, DAEMON_SET, EVENT, NODE, PERSISTENT_VOLUME_CLAIM, POD, SECRET,
        STATEFUL_SET,
    },
    observed::Spec,
};
use tokio::{sync::mpsc, task::JoinSet};

use super::{Caches, Trigger, belongs, dynamic};
use crate::{
    identity::Pending,
    object::Key,
    referenced_objects::InputSink,
    watch::{
        Cache, Changed, Child, Context, Kept, LeanNode, PodEntry, Primary, Purpose, Refusal, Selector, Subject, Watch,
        child, claim, node, part, pod, primary, refusal, service, unbound, workload,
    },
};

/// Watches of one operator, being started.
pub(super) struct Watches<'a, Cr> {
    pub(super) caches: &'a Caches<Cr>,
    pub(super) client: &'a Client,
    pub(super) context: &'a Context,
    pub(super) triggers: &'a mpsc::UnboundedSender<Trigger>,
    pub(super) tasks: JoinSet<()>,
}

impl<Cr: Managed> Watches<'_, Cr> {
    /// Starts all of them.
    pub(super) fn start(mut self) -> JoinSet<()> {
        let caches = self.caches;
        for namespace in caches.scope.watches() {
            let namespace = namespace.as_deref();
            self.primaries(namespace);
            self.children(namespace);
            self.peers(namespace);
            if caches.declaration.watches_pods() {
                self.pods(namespace);
            }
            self.specs(namespace);
            self.inputs(namespace);
            self.refusals(namespace);
            self.unbound(namespace);
            if caches.declaration.calls_agents {
                self.authorities(namespace);
            }
        }
        if caches.declaration.calls_agents {
            self.requests();
        }
        if caches.declaration.reads_nodes() {
            self.nodes();
        }
        self.foreign();
        self.tasks
    }

    fn primaries(&mut self, namespace: Option<&str>) {
        let triggers = self.triggers.clone();
        let metrics = self.context.metrics.clone();
        let kind = self.caches.declaration.primary.kind;
        let changed: Changed<Primary<Cr>> = Arc::new(move |key, before, after| {
            let bad = |primary: Option<&Primary<Cr>>| matches!(primary, Some(Primary::Undecodable { .. }));
            metrics.undecodable.with_label_values(&[kind]).add(i64::from(bad(after)) - i64::from(bad(before)));
            for trigger in triggers_of(key, before, after) {
                let _ = triggers.send(trigger);
            }
        });
        let watch = Watch {
            subject: Subject::work(self.caches.declaration.primary, namespace),
            api: dynamic::<DynamicObject>(self.client, self.caches.declaration.primary, namespace),
            selector: Selector::All,
            reduce: primary::<Cr>,
            sink: Kept::new(self.caches.primaries.clone(), changed),
        };
        watch.start(self.context, &mut self.tasks);
    }

    fn children(&mut self, namespace: Option<&str>) {
        for (kind, cache) in &self.caches.children {
            if !kind.namespaced && namespace != self.caches.scope.watches().first().and_then(|first| first.as_deref()) {
                continue; // One watch is enough for what has no namespace.
            }
            let namespace = namespace.filter(|_| kind.namespaced);
            let subject = Subject::work(*kind, namespace);
            let selector = self.managed();
            let sink = Kept::new(cache.clone(), self.wakes_owner());
            match *kind {
                STATEFUL_SET => {
                    let api = scoped::<StatefulSet>(self.client, namespace);
                    let watch = Watch { subject, api, selector, reduce: workload::<StatefulSet>, sink };
                    watch.start(self.context, &mut self.tasks);
                }
                DAEMON_SET => {
                    let api = scoped::<DaemonSet>(self.client, namespace);
                    let watch = Watch { subject, api, selector, reduce: workload::<DaemonSet>, sink };
                    watch.start(self.context, &mut self.tasks);
                }
                PERSISTENT_VOLUME_CLAIM => {
                    let api = scoped::<PersistentVolumeClaim>(self.client, namespace);
                    let sink = Kept::new(cache.clone(), self.wakes_named(|child: &Child| &child.labels));
                    Watch { subject, api, selector, reduce: claim, sink }.start(self.context, &mut self.tasks);
                }
                _ => {
                    let api = dynamic::<PartialObjectMeta<DynamicObject>>(self.client, *kind, namespace);
                    let watch = Watch { subject, api, selector, reduce: child, sink };
                    watch.start(self.context, &mut self.tasks);
                }
            }
        }
    }

    /// Members' requests for certificates, of all operators: they have no namespace. The requester says to which member a request belongs.
    fn requests(&mut self) {
        let wake = self.caches.requests.clone();
        let watch = Watch {
            subject: Subject::work(CERTIFICATE_SIGNING_REQUEST, None),
            api: Api::<CertificateSigningRequest>::all(self.client.clone()),
            selector: Selector::Fields(format!("spec.signerName={}", names::MEMBER_SIGNER)),
            reduce: |request| (Key::of(&request.metadata), Pending::of(request)),
            sink: Kept::new(self.caches.requests.pending.clone(), Arc::new(move |_, _, _| wake.changed.notify_one())),
        };
        watch.start(self.context, &mut self.tasks);
    }

    /// Users put another authority there, other operators turn it: all resources look.
    fn authorities(&mut self, namespace: Option<&str>) {
        let purpose = Purpose::Authority;
        let watch = Watch {
            subject: Subject { kind: SECRET, purpose, namespace: namespace.map(str::to_owned) },
            api: dynamic::<PartialObjectMeta<DynamicObject>>(self.client, SECRET, namespace),
            selector: Selector::Fields(format!("metadata.name={}", names::AUTHORITY)),
            reduce: |object| (Key::of(&object.metadata), object.metadata.resource_version.unwrap_or_default()),
            sink: Kept::new(self.caches.authorities.clone(), self.wakes_all()),
        };
        watch.start(self.context, &mut self.tasks);
    }

    /// Pods that the API server refuses: only the events of the workloads' controllers have the cause.
    fn refusals(&mut self, namespace: Option<&str>) {
        let kinds = self.caches.declaration.workload_kinds();
        let workloads = kinds.filter_map(|kind| self.caches.children.get(&kind).cloned()).collect();
        let (subject, wake) = (Subject::work(EVENT, namespace), self.wakes_owner());
        self.events(subject, "reason=FailedCreate", refusal, &self.caches.refusals, workloads, wake);
    }

    /// Claims without a volume: only events say why.
    fn unbound(&mut self, namespace: Option<&str>) {
        let claims = self.caches.children.get(&PERSISTENT_VOLUME_CLAIM).cloned().into_iter().collect();
        let subject = Subject { purpose: Purpose::Claims, ..Subject::work(EVENT, namespace) };
        let wake = self.wakes_named(|child: &Child| &child.labels);
        let fields = "involvedObject.kind=PersistentVolumeClaim";
        self.events(subject, fields, unbound, &self.caches.unbound, claims, wake);
    }

    /// Events with these fields. One about an object in `about` wakes the resource that `wake` knows of it.
    fn events(
        &mut self,
        subject: Subject,
        fields: &str,
        reduce: fn(Event) -> (Key, Refusal),
        kept: &Arc<Cache<Refusal>>,
        about: Vec<Arc<Cache<Child>>>,
        wake: Changed<Child>,
    ) {
        if about.is_empty() {
            return;
        }
        let changed: Changed<Refusal> = Arc::new(move |_, before, after| {
            let Some(said) = after.or(before) else { return };
            for (key, child) in about.iter().flat_map(|cache| cache.select(|_, child| child.uid == said.about)) {
                wake(&key, None, Some(&child));
            }
        });
        let watch = Watch {
            api: scoped::<Event>(self.client, subject.namespace.as_deref()),
            subject,
            selector: Selector::Fields(fields.into()),
            reduce,
            sink: Kept::new(kept.clone(), changed),
        };
        watch.start(self.context, &mut self.tasks);
    }

    fn managed(&self) -> Selector {
        Selector::Labels(format!("{}={}", names::LABEL_MANAGED_BY, self.caches.declaration.operator))
    }

    /// A change of an owned object wakes its owner, and only it.
    fn wakes_owner(&self) -> Changed<Child> {
        let triggers = self.triggers.clone();
        let primaries = self.caches.primaries.clone();
        Arc::new(move |_, before, after| {
            let owners: BTreeSet<&str> =
                [before, after].into_iter().flatten().filter_map(|c| c.owner.as_deref()).collect();
            for (key, _) in
                primaries.select(|_, primary| primary.metadata().uid.as_deref().is_some_and(|uid| owners.contains(uid)))
            {
                let _ = triggers.send(Trigger::One(key));
            }
        })
    }

    /// A change of what carries the label that names a resource wakes that.
    fn wakes_named<T>(&self, labels: fn(&T) -> &BTreeMap<String, String>) -> Changed<T>
    where
        T: 'static,
    {
        let triggers = self.triggers.clone();
        let primaries = self.caches.primaries.clone();
        Arc::new(move |key, before, after| {
            let Some(labels) = after.or(before).map(labels) else { return };
            let is_its = |owner: &Key| owner.namespace == key.namespace && belongs::<Cr>(labels, owner);
            for (owner, _) in primaries.select(|owner, _| is_its(owner)) {
                let _ = triggers.send(Trigger::One(owner));
            }
        })
    }

    fn peers(&mut self, namespace: Option<&str>) {
        for (kind, cache) in &self.caches.peers {
            let watch = Watch {
                subject: Subject::work(*kind, namespace),
                api: dynamic::<DynamicObject>(self.client, *kind, namespace),
                selector: Selector::All,
                reduce: if self.caches.declaration.owns(*kind) { part } else { service },
                // A reference may cross namespaces, and there are few resources: all of them look.
                sink: Kept::new(cache.clone(), self.wakes_all()),
            };
            watch.start(self.context, &mut self.tasks);
        }
    }

    fn pods(&mut self, namespace: Option<&str>) {
        let watch = Watch {
            subject: Subject::work(POD, namespace),
            api: scoped::<Pod>(self.client, namespace),
            // As workloads select them: pods that the Go tf-operator made are among them.
            selector: Selector::Labels(format!("{}={}", names::LABEL_TYPE, Cr::type_name())),
            reduce: pod,
            sink: Kept::new(self.caches.pods.clone(), self.wakes_named(|entry: &PodEntry| &entry.labels)),
        };
        watch.start(self.context, &mut self.tasks);
    }

    fn nodes(&mut self) {
        let watch = Watch {
            subject: Subject::work(NODE, None),
            api: Api::<LeanNode>::all(self.client.clone()),
            selector: Selector::All,
            reduce: node,
            sink: Kept::new(self.caches.nodes.clone(), self.wakes_all()),
        };
        watch.start(self.context, &mut self.tasks);
    }

    /// What describes the cluster: one object each, and all resources look.
    fn foreign(&mut self) {
        for (kind, name) in self.caches.declaration.foreign() {
            let Some(cache) = self.caches.foreign.get(&kind) else { continue };
            let watch = Watch {
                subject: Subject::work(kind, None),
                api: dynamic::<DynamicObject>(self.client, kind, None),
                selector: Selector::Fields(format!("metadata.name={name}")),
                reduce: |object: DynamicObject| (Key::of(&object.metadata), object.data),
                sink: Kept::new(cache.clone(), self.wakes_all()),
            };
            watch.start(self.context, &mut self.tasks);
        }
    }

    /// Resources that others name, and that no operator reconciles.
    fn specs(&mut self, namespace: Option<&str>) {
        for (kind, cache) in &self.caches.specs {
            let watch = Watch {
                subject: Subject::work(*kind, namespace),
                api: dynamic::<DynamicObject>(self.client, *kind, namespace),
                selector: Selector::All,
                reduce: |mut object: DynamicObject| (Key::of(&object.metadata), Spec::new(object.data["spec"].take())),
                sink: Kept::new(cache.clone(), self.wakes_all()),
            };
            watch.start(self.context, &mut self.tasks);
        }
    }

    /// Secrets and ConfigMaps of users: nothing of them is kept, a change only wakes the resources of its namespace, and
    /// only if one of them refers to the name.
    fn inputs(&mut self, namespace: Option<&str>) {
        let mut kinds = Vec::new();
        for read in &self.caches.declaration.reads {
            match read {
                tf_plan::declaration::Read::Secrets { .. } => kinds.push(SECRET),
                tf_plan::declaration::Read::ConfigMaps { .. } => kinds.push(CONFIG_MAP),
                _ => {}
            }
        }
        for kind in kinds {
            let watch = Watch {
                subject: Subject { kind, purpose: Purpose::Input, namespace: namespace.map(str::to_owned) },
                api: dynamic::<PartialObjectMeta<DynamicObject>>(self.client, kind, namespace),
                selector: Selector::All,
                reduce: |object| (Key::of(&object.metadata), ()),
                sink: Arc::new(InputSink { kind, inputs: self.caches.inputs.clone(), triggers: self.triggers.clone() }),
            };
            watch.start(self.context, &mut self.tasks);
        }
    }

    fn wakes_all<T>(&self) -> Changed<T> {
        let triggers = self.triggers.clone();
        Arc::new(move |_, _, _| {
            let _ = triggers.send(Trigger::All);
        })
    }
}

/// Whom a change of a resource of our own kind wakes. Our own status writes come back as events; only what others can change
/// is worth a pass.
fn triggers_of<Cr: Managed>(key: &Key, before: Option<&Primary<Cr>>, after: Option<&Primary<Cr>>) -> Vec<Trigger> {
    let uid = |primary: &Primary<Cr>| primary.metadata().uid.clone().unwrap_or_default();
    let mut triggers = Vec::new();
    // A watch that was away for a while may deliver a new resource of the same name in place of the old one.
    if let Some(before) = before.filter(|before| after.is_none_or(|after| uid(after) != uid(before))) {
        triggers.push(Trigger::Gone(key.clone(), uid(before)));
    }
    if after.is_some() && substance(before) != substance(after) {
        // What this one takes no longer, another of its kind may have waited for.
        triggers.push(if before.is_some() { Trigger::All } else { Trigger::One(key.clone()) });
    }
    triggers
}

/// What of a resource is worth a pass when it changes: everything but status and other managers' bookkeeping. Of the status
/// only that the resource was brought up, since plans rest on it: what is planned from then on has to be carried out
/// now and not whenever something else happens.
fn substance<Cr: Managed>(primary: Option<&Primary<Cr>>) -> Option<impl PartialEq + use<Cr>> {
    primary.map(|primary| {
        let metadata = primary.metadata();
        let initialized = match primary {
            Primary::Valid(cr) => cr.contract().and_then(|contract| contract.initialized),
            Primary::Undecodable { .. } => None,
        };
        (
            metadata.uid.clone(),
            metadata.generation,
            metadata.deletion_timestamp.is_some(),
            metadata.finalizers.clone(),
            metadata.annotations.clone(),
            matches!(primary, Primary::Undecodable { .. }),
            initialized,
        )
    })
}

fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tf_api::Zookeeper;

    use super::*;

    fn primary(status: Value) -> Primary<Zookeeper> {
        let zookeeper = json!({
            "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "metadata": {"name": "a"}, "spec": {}, "status": status,
        });
        Primary::Valid(Arc::new(serde_json::from_value(zookeeper).unwrap()))
    }

    #[test]
    fn of_the_status_only_that_a_resource_was_brought_up_is_worth_a_pass() {
        let wakes = |before, after| substance(Some(&primary(before))) != substance(Some(&primary(after)));
        assert!(wakes(json!({}), json!({"initialized": true})));
        assert!(!wakes(json!({"membersReady": "1/3"}), json!({"membersReady": "2/3"})));
    }
    fn versioned(uid: &str, version: &str) -> Primary<Zookeeper> {
        let Primary::Valid(cr) = primary(json!({})) else { unreachable!() };
        let mut cr = (*cr).clone();
        cr.metadata.uid = Some(uid.into());
        cr.metadata.resource_version = Some(version.into());
        Primary::Valid(Arc::new(cr))
    }

    #[test]
    fn a_resource_that_took_the_name_of_another_unseen_reports_both() {
        let key = Key::new("tf", "a");
        let (old, moved, new) = (versioned("1", "5"), versioned("1", "6"), versioned("2", "7"));
        let gone = Trigger::Gone(key.clone(), "1".into());
        assert_eq!(triggers_of(&key, Some(&old), Some(&new)), [gone.clone(), Trigger::All]);
        assert_eq!(triggers_of(&key, Some(&old), None), [gone]);
        assert_eq!(triggers_of(&key, None, Some(&new)), [Trigger::One(key.clone())]);
        assert_eq!(triggers_of(&key, Some(&old), Some(&moved)), [], "a write of ours");
    }
}
