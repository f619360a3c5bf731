//! Nodes that leave: what pods of the vRouter changed on a node is undone by a pod of its own (`tf-node host remove`), one DaemonSet for all
//! nodes that leave.
//!
//! Which nodes pods may have changed is known by a label of the Node ([`names::LABEL_VROUTER`]), which survives operator and resource. A node has it
//! from when a group selects it until its removal pod is Ready. Pods of removal and of agents are never on one node at the same time (affinity), so
//! a node that is selected again in between waits for its removal, and the removal for the end of the agent.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use tf_agent_api::{family::IpFamily, node};
use tf_api::{Managed, Vrouter, common::PodConfiguration, names};
use tf_plan::{
    build::{
        identity::{self, LABEL_LIMIT, fit},
        pod::{self, PodShape, Privileges, security_context},
        workload,
    },
    images,
    object::Object,
    observed::{Node, Observed, Pod},
    placement,
    plan::{Finalization, Mark, Plan},
};

use crate::{
    groups::{self, Group},
    plan,
    pods::{GRACE_SECONDS, Pods},
    taint,
};

/// Nodes that one DaemonSet removes the vRouter from at a time: its template names them.
const AT_A_TIME: usize = 100;
/// Nodes named in a message.
const NAMED: usize = 3;
/// The container that shows that the removal is done.
const REMOVED: &str = "removed";

/// Adds to a plan what undoes on nodes that leave what pods changed there; on all nodes, while the resource is being deleted.
/// `changes`: whether pods of a group change anything on a node that lasts.
pub fn complete(
    plan: &mut Plan,
    cr: &Vrouter,
    observed: &Observed<Vrouter>,
    groups: &[Group<'_>],
    pods: &Pods,
    changes: bool,
) {
    let removal = Removal::of(cr, observed, groups, changes, pods.bring_plugin());
    plan.objects.extend(removal.daemon_set(cr, observed, pods));
    plan.notes.extend(removal.waits().map(|nodes| format!("removing {nodes}")));
    plan.marks.extend(removal.marks);
    if cr.metadata.deletion_timestamp.is_some() {
        let all = Removal::of(cr, observed, &[], false, false);
        let objects = all.daemon_set(cr, observed, pods).into_iter().collect();
        let nodes = all.leaving.len();
        let list = format!("kubectl get nodes -l {}={}", names::LABEL_VROUTER, owner(cr));
        let waits = all.waits().map(|waits| if nodes > NAMED { format!("{waits} ({list})") } else { waits });
        plan.finalization = Some(Finalization { objects, waits, marks: all.marks, nodes });
    }
}

/// What is to be done about nodes.
struct Removal<'a> {
    marks: Vec<Mark>,
    /// Nodes that the vRouter is still on, with their removal pods.
    leaving: Vec<(&'a Node, Option<&'a Pod>)>,
}

impl<'a> Removal<'a> {
    /// Of a resource whose groups select these nodes. `changes`: whether its pods change anything on a node that lasts. `brings_plugin`: whether pods of
    /// nodes use the CNI plugin of the vRouter.
    fn of(
        cr: &Vrouter,
        observed: &'a Observed<Vrouter>,
        groups: &[Group<'_>],
        changes: bool,
        brings_plugin: bool,
    ) -> Self {
        let own = owner(cr);
        let mark = |node: &Node, value: Option<String>| Mark {
            node: node.name.clone(),
            labels: BTreeMap::from([(names::LABEL_VROUTER, value)]),
            ..Mark::default()
        };
        let others: Vec<Group<'_>> = observed.siblings.iter().flat_map(groups::of).collect();
        let pods: BTreeMap<&str, &Pod> =
            observed.removals.iter().filter_map(|pod| Some((pod.node.as_deref()?, pod))).collect();
        let agents = observed.pods.known().map(Vec::as_slice).unwrap_or_default();
        let has_agent = |node: &Node| agents.iter().any(|pod| pod.node.as_ref() == Some(&node.name));
        let (mut marks, mut leaving) = (Vec::new(), Vec::new());
        // Where nodes cannot be seen nothing begins.
        for node in observed.nodes.known().map(Vec::as_slice).unwrap_or_default() {
            let is_ours = node.labels.get(names::LABEL_VROUTER).is_some_and(|value| *value == own);
            let is_marked = node.labels.contains_key(names::LABEL_VROUTER);
            match (groups::select(groups, node), is_ours) {
                // A label of another Vrouter is from before where an agent of this one is there: a removal would have kept it away.
                (true, false) if changes && (!is_marked || has_agent(node)) => {
                    let annotations = taint::first_boot(cr, node, brings_plugin);
                    marks.push(Mark { annotations, ..mark(node, Some(own.clone())) });
                }
                (true, _) | (false, false) => {}
                // Its pods go on with what is there.
                (false, true) if groups::select(&others, node) => marks.push(mark(node, None)),
                (false, true) => match pods.get(node.name.as_str()) {
                    Some(pod) if pod.ready && !pod.terminating => {
                        // While the resource is being deleted nothing else takes them away.
                        marks.push(Mark { labels: mark(node, None).labels, ..taint::without(node) });
                    }
                    pod => leaving.push((node, pod.copied())),
                },
            }
        }
        Self { marks, leaving }
    }

    /// The DaemonSet that removes the vRouter from nodes that leave.
    pub fn daemon_set(&self, cr: &Vrouter, observed: &Observed<Vrouter>, pods: &Pods) -> Option<Object> {
        if self.leaving.is_empty() {
            return None;
        }
        let (container, volumes) = pods.removal.clone();
        let names = self.leaving.iter().take(AT_A_TIME).map(|(node, _)| node.name.as_str());
        let identity = plan::identity(cr);
        let service_account = workload::service_account_name(&identity);
        let identity = identity.in_group(identity::REMOVAL);
        let apart = BTreeMap::from([(names::LABEL_TYPE.to_owned(), identity.type_name.clone())]);
        // It goes wherever an agent was.
        let common =
            PodConfiguration { tolerations: Vec::new(), pod_overrides: None, ..cr.spec.common_configuration.clone() };
        let image = images::tf_node(&observed.operator.images, &observed.operator.version);
        let (mut template, _) = pod::template(&PodShape {
            identity: &identity,
            common: &common,
            agent_image: image.clone(),
            service_account,
            init: vec![container],
            daemons: Vec::new(),
            volumes: Vec::new(),
            owned_mounts: Vec::new(),
            offered_mounts: Vec::new(),
            has_secret_files: false,
            affinity: placement::affinity_alone(Some(placement::on_nodes(names)), &apart),
            share_processes: false,
            grace_seconds: GRACE_SECONDS,
            family: IpFamily::default(),
            restart: None,
        });
        if let Some(spec) = &mut template.spec {
            spec.containers = vec![Container {
                name: REMOVED.into(),
                image: Some(image),
                image_pull_policy: Some("IfNotPresent".into()),
                command: Some(node::pause()),
                security_context: Some(security_context(&Privileges::Restricted)),
                ..Container::default()
            }];
            // It has no files of its own.
            let agent = spec.volumes.iter().flatten().find(|volume| volume.name == pod::AGENT).cloned();
            spec.volumes = Some(agent.into_iter().chain(volumes).collect());
        }
        Some(workload::daemon_set(&identity, identity.workload_name("daemonset"), template))
    }

    /// What is left to be done, as the end of a sentence that begins with "removing".
    fn waits(&self) -> Option<String> {
        let cause = |(node, pod): &(&Node, Option<&Pod>)| {
            let trouble = pod.and_then(|pod| pod.trouble.clone());
            let cause =
                trouble.or_else(|| node.unreachable.then(|| "the node does not report to Kubernetes".to_owned()));
            cause.map_or_else(|| node.name.clone(), |why| format!("{} ({why})", node.name))
        };
        // Those with a cause first: they wait for a person.
        let mut nodes: Vec<String> = self.leaving.iter().map(cause).collect();
        nodes.sort_by_key(|node| !node.contains('('));
        groups::few(nodes, NAMED).map(|nodes| format!("the vRouter from {nodes}"))
    }
}

/// What the label of a node says that pods of this resource changed.
pub fn owner(cr: &Vrouter) -> String {
    let name = format!("{}.{}", cr.home(), cr.title());
    if name.len() > LABEL_LIMIT { fit(&name, LABEL_LIMIT) } else { name }
}
