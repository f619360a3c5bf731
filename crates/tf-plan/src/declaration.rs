//! What a component owns and reads: one list that drives watches, pruning, generated rights, charts and documents.

use tf_api::contract::ConditionType;

use crate::{
    object::{Kind, NODE, POD},
    rule::Rule,
};

/// A kind whose objects the component creates, changes and deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The kind.
    pub kind: Kind,
    /// Why, for the generated role.
    pub reason: &'static str,
}

/// Another operator's kind whose status the component reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerKind {
    /// The kind.
    pub kind: Kind,
    /// The condition that mirrors it.
    pub condition: ConditionType,
    /// Why, for the generated role.
    pub reason: &'static str,
}

/// Something else the component reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Nodes of the cluster: the only cluster-wide read.
    Nodes {
        /// Why.
        reason: &'static str,
    },
    /// Secrets named by the spec or by a dependency's status, in the watched namespaces.
    Secrets {
        /// Why.
        reason: &'static str,
    },
    /// ConfigMaps named by the spec, in the watched namespaces.
    ConfigMaps {
        /// Why.
        reason: &'static str,
    },
    /// Specs of resources that no operator reconciles, in the watched namespaces.
    Specs {
        /// The kind.
        kind: Kind,
        /// Why.
        reason: &'static str,
    },
    /// One ConfigMap of a given namespace that describes the cluster.
    Fact {
        /// Namespace.
        namespace: &'static str,
        /// Name.
        name: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// One object without namespace of somebody else's kind that describes the cluster. That its definition is not installed is the normal
    /// state of most clusters.
    Foreign {
        /// The kind.
        kind: Kind,
        /// Name.
        name: &'static str,
        /// Why.
        reason: &'static str,
    },
}

/// How snapshots call an object of somebody else's kind: `plural.group/name`.
pub fn foreign_key(kind: Kind, name: &str) -> String {
    format!("{}.{}/{name}", kind.plural, kind.group)
}

/// What the daemons of the component's pods may do in the whole cluster. The chart gives it to one ServiceAccount of each watched namespace,
/// which the component makes; the operator itself gets nothing of it, and no right to give rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Name of the ServiceAccount.
    pub account: &'static str,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// What a component declares about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Name of the operator: field manager, lease, `app.kubernetes.io/managed-by`, metric label.
    pub operator: &'static str,
    /// The custom resource it reconciles.
    pub primary: Kind,
    /// Kinds it owns, in the order they are applied.
    pub owned: Vec<Owned>,
    /// Kinds of other operators it reads the status of.
    pub peers: Vec<PeerKind>,
    /// What else it reads.
    pub reads: Vec<Read>,
    /// Whether it restarts single pods by deleting them.
    pub restarts_pods: bool,
    /// Whether it signs its pods' certificates, and calls and tells their agents.
    pub calls_agents: bool,
    /// What its daemons may do in the cluster, where they talk to its API.
    pub grant: Option<Grant>,
    /// Whether what its resources have in the config API is removed before they go.
    pub deregisters: bool,
    /// Whether it labels nodes on which its pods change something that has to be undone when they go.
    pub marks_nodes: bool,
    /// Further custom resources, which other components of the operator reconcile; see [`Declaration::joined`].
    pub further: Vec<Further>,
}

/// A custom resource that another component of the same operator reconciles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Further {
    /// The kind.
    pub kind: Kind,
    /// As [`Declaration::deregisters`].
    pub deregisters: bool,
}

impl Declaration {
    /// What the components of one operator declare together, the first one's kind before the others. For what is said of an operator as a
    /// whole: its rights, chart and documents.
    ///
    /// # Panics
    /// When there is no component.
    #[expect(clippy::expect_used, reason = "an operator without a component is none")]
    pub fn joined(components: impl IntoIterator<Item = Self>) -> Self {
        components.into_iter().reduce(Self::with).expect("a component")
    }

    fn with(mut self, other: Self) -> Self {
        for owned in other.owned {
            if self.owned.iter().all(|present| present.kind != owned.kind) {
                self.owned.push(owned);
            }
        }
        let peers = other.peers.into_iter().filter(|peer| !self.peers.contains(peer));
        self.peers = self.peers.iter().copied().chain(peers).collect();
        let reads = other.reads.into_iter().filter(|read| !self.reads.contains(read));
        self.reads = self.reads.iter().copied().chain(reads).collect();
        self.restarts_pods |= other.restarts_pods;
        self.calls_agents |= other.calls_agents;
        self.marks_nodes |= other.marks_nodes;
        self.grant = self.grant.or(other.grant);
        self.further.push(Further { kind: other.primary, deregisters: other.deregisters });
        self.further.extend(other.further);
        self
    }

    /// The custom resources it reconciles.
    pub fn reconciled(&self) -> impl Iterator<Item = Kind> {
        std::iter::once(self.primary).chain(self.further.iter().map(|further| further.kind))
    }

    /// Those of them that are kept until what they have in the config API is removed.
    pub fn deregistered(&self) -> impl Iterator<Item = Kind> {
        let own = self.deregisters.then_some(self.primary);
        own.into_iter().chain(self.further.iter().filter(|further| further.deregisters).map(|further| further.kind))
    }

    /// Whether it makes objects of this kind.
    pub fn owns(&self, kind: Kind) -> bool {
        self.owned.iter().any(|owned| owned.kind == kind)
    }

    /// Whether the component reads nodes.
    pub fn reads_nodes(&self) -> bool {
        self.reads.iter().any(|read| matches!(read, Read::Nodes { .. }))
    }

    /// Whether the component watches its own pods: it does when it owns a workload.
    pub fn watches_pods(&self) -> bool {
        self.workload_kinds().next().is_some()
    }

    /// The owned kinds that make pods.
    pub fn workload_kinds(&self) -> impl Iterator<Item = Kind> {
        use crate::object::{DAEMON_SET, STATEFUL_SET};
        self.owned.iter().map(|owned| owned.kind).filter(|kind| matches!(*kind, STATEFUL_SET | DAEMON_SET))
    }

    /// The owned kinds that have no namespace, and so no owner who takes them along.
    pub fn cluster_kinds(&self) -> Vec<Kind> {
        self.owned.iter().map(|owned| owned.kind).filter(|kind| !kind.namespaced).collect()
    }

    /// Kinds and names of the objects of somebody else's kinds that it reads.
    pub fn foreign(&self) -> impl Iterator<Item = (Kind, &'static str)> {
        self.reads.iter().filter_map(|read| match read {
            Read::Foreign { kind, name, .. } => Some((*kind, *name)),
            _ => None,
        })
    }

    /// Kinds of resources whose specs it reads.
    pub fn specs(&self) -> impl Iterator<Item = Kind> {
        self.reads.iter().filter_map(|read| match read {
            Read::Specs { kind, .. } => Some(*kind),
            _ => None,
        })
    }

    /// The watched kinds that are there only if somebody has installed their definitions.
    pub fn defined_kinds(&self) -> Vec<Kind> {
        let foreign: Vec<Kind> = self.foreign().map(|(kind, _)| kind).collect();
        let is_defined = |kind: &Kind| kind.group == tf_api::GROUP || foreign.contains(kind);
        self.watched_kinds().into_iter().filter(is_defined).collect()
    }

    /// Every kind the operator watches, the primary first.
    pub fn watched_kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self.reconciled().collect();
        kinds.extend(self.owned.iter().map(|owned| owned.kind));
        kinds.extend(self.peers.iter().map(|peer| peer.kind));
        kinds.extend(self.foreign().map(|(kind, _)| kind));
        kinds.extend(self.specs());
        if self.watches_pods() {
            kinds.push(POD);
        }
        if self.reads_nodes() {
            kinds.push(NODE);
        }
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tf_api::{KindInfo, kinds};

    use super::*;
    use crate::{
        object::{CLUSTER_ROLE, CONFIG_MAP, SECRET, STATEFUL_SET},
        rbac::rules,
        rule::Reach,
    };

    fn peer(kind: KindInfo, reason: &'static str) -> PeerKind {
        PeerKind { kind: Kind::custom(kind), condition: ConditionType::ZookeeperReady, reason }
    }

    /// A component that does as little as one can.
    fn component(kind: KindInfo, owned: &[(Kind, &'static str)]) -> Declaration {
        Declaration {
            operator: "test-op",
            primary: Kind::custom(kind),
            owned: owned.iter().map(|(kind, reason)| Owned { kind: *kind, reason }).collect(),
            peers: Vec::new(),
            reads: Vec::new(),
            restarts_pods: false,
            calls_agents: false,
            grant: None,
            deregisters: false,
            marks_nodes: false,
            further: Vec::new(),
        }
    }

    fn three() -> [Declaration; 3] {
        [
            Declaration {
                peers: vec![peer(kinds::ZOOKEEPER, "work is shared out in it")],
                reads: vec![Read::Secrets { reason: "passwords" }],
                deregisters: true,
                ..component(kinds::ANALYTICS, &[(SECRET, "files with passwords"), (CONFIG_MAP, "files")])
            },
            Declaration {
                peers: vec![peer(kinds::ZOOKEEPER, "work is shared out in it"), peer(kinds::ANALYTICS, "collectors")],
                reads: vec![Read::Secrets { reason: "passwords" }, Read::Nodes { reason: "members" }],
                calls_agents: true,
                restarts_pods: true,
                ..component(kinds::QUERY_ENGINE, &[(CONFIG_MAP, "other files"), (STATEFUL_SET, "members")])
            },
            Declaration {
                peers: vec![peer(kinds::ZOOKEEPER, "brokers meet in it")],
                reads: vec![Read::Nodes { reason: "members" }],
                grant: Some(Grant { account: "alarm", rules: Vec::new() }),
                deregisters: true,
                ..component(kinds::ANALYTICS_ALARM, &[(STATEFUL_SET, "members")])
            },
        ]
    }

    #[test]
    fn one_component_is_what_it_declares() {
        let [alone, ..] = three();
        assert_eq!(Declaration::joined([alone.clone()]), alone);
    }

    #[test]
    fn everything_of_all_is_there_once_in_the_order_of_the_components() {
        let joined = Declaration::joined(three());
        let owned: Vec<Kind> = joined.owned.iter().map(|owned| owned.kind).collect();
        assert_eq!(owned, [SECRET, CONFIG_MAP, STATEFUL_SET]);
        assert_eq!(joined.owned[1].reason, "files", "what the first one says of a kind counts");
        // One kind is read for several reasons, each of which is told.
        let peers: Vec<&str> = joined.peers.iter().map(|peer| peer.reason).collect();
        assert_eq!(peers, ["work is shared out in it", "collectors", "brokers meet in it"]);
        assert_eq!(joined.reads, [Read::Secrets { reason: "passwords" }, Read::Nodes { reason: "members" }]);
        assert!(joined.calls_agents && joined.restarts_pods && joined.reads_nodes() && joined.watches_pods());
        assert_eq!(joined.grant.map(|grant| grant.account), Some("alarm"));
    }

    #[test]
    fn every_kind_is_reconciled_and_each_deregisters_for_itself() {
        let joined = Declaration::joined(three());
        let kinds = [kinds::ANALYTICS, kinds::QUERY_ENGINE, kinds::ANALYTICS_ALARM].map(Kind::custom);
        assert_eq!(joined.reconciled().collect::<Vec<_>>(), kinds);
        assert!(joined.deregisters, "the first one's");
        let further = joined.further.iter().map(|further| (further.kind, further.deregisters));
        assert_eq!(further.collect::<Vec<_>>(), [(kinds[1], false), (kinds[2], true)]);
        // Joined in steps, nobody is lost.
        let [one, two, three] = three();
        assert_eq!(
            Declaration::joined([one, Declaration::joined([two, three])]).reconciled().collect::<Vec<_>>(),
            kinds
        );
    }

    #[test]
    fn a_kind_that_one_reconciles_and_another_one_reads_is_watched_once() {
        let watched = Declaration::joined(three()).watched_kinds();
        assert_eq!(watched.iter().collect::<BTreeSet<_>>().len(), watched.len());
        let all = three().into_iter().flat_map(|each| each.watched_kinds()).collect::<BTreeSet<_>>();
        assert_eq!(watched.into_iter().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn rights_are_those_of_each_component_and_are_given_once() {
        type Right = (Reach, &'static str, String, Vec<&'static str>, &'static str);
        let rights = |declaration: &Declaration| -> Vec<Right> {
            let each = |rule: crate::rule::Rule| {
                let verbs = rule.verbs.clone().into_iter();
                let right = move |verb| (rule.reach, rule.group, rule.resource.clone(), rule.names.clone(), verb);
                verbs.map(right).collect::<Vec<_>>()
            };
            rules(declaration).into_iter().flat_map(each).collect()
        };
        let joined = rights(&Declaration::joined(three()));
        let once: BTreeSet<Right> = joined.iter().cloned().collect();
        assert_eq!(once.len(), joined.len(), "no right is given twice");
        let mut all: BTreeSet<Right> = three().iter().flat_map(rights).collect();
        // Who calls agents patches pods, and here all have pods through the one that has.
        all.retain(|right| right.2 != "pods");
        assert_eq!(once.into_iter().filter(|right| right.2 != "pods").collect::<BTreeSet<_>>(), all);
        // The finalizer is for those kinds alone whose nodes are registered.
        let patches =
            |kind: KindInfo| joined.iter().any(|(_, _, resource, _, verb)| resource == kind.plural && *verb == "patch");
        assert!(patches(kinds::ANALYTICS) && patches(kinds::ANALYTICS_ALARM) && !patches(kinds::QUERY_ENGINE));
    }

    /// Finalizers are for what has no namespace, too: then every kind of the operator may get one.
    #[test]
    fn what_has_no_namespace_is_the_business_of_every_kind() {
        let [one, two, three] = three();
        let two = Declaration { owned: vec![Owned { kind: CLUSTER_ROLE, reason: "for the daemons" }], ..two };
        let joined = Declaration::joined([one, two, three]);
        assert_eq!(joined.cluster_kinds(), [CLUSTER_ROLE]);
        let patched = rules(&joined).into_iter().filter(|rule| rule.verbs == ["list", "watch", "patch"]);
        let patched: Vec<String> = patched.map(|rule| rule.resource).collect();
        assert_eq!(patched, ["analytics", "queryengine", "analyticsalarm"]);
    }
}
