//! The rights an operator needs, derived from what its component declares.
//!
//! One rule per resource, each with its reason, no wildcard, nothing the runtime does not use. Charts render them; a test
//! over the audit log shows that none is missing and none is idle.

use tf_api::names;

use crate::{
    declaration::{Declaration, Read},
    object::{CONFIG_MAP, EVENT, Kind, SECRET},
    rule::{Reach, Rule},
};

/// What server-side apply, pruning and repair of owned objects use. Apply asks for both `create` and `patch`.
const OWN: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];
/// The same for what outlives its resource: nothing of it is ever removed.
const KEEP: [&str; 5] = ["get", "list", "watch", "create", "patch"];
const FOLLOW: [&str; 2] = ["list", "watch"];

/// All rules of a component, sorted by reach.
pub fn rules(declaration: &Declaration) -> Vec<Rule> {
    let mut rules = primaries(declaration);
    for owned in &declaration.owned {
        let reach = if owned.kind.namespaced { Reach::Watched } else { Reach::Cluster };
        let verbs: &[&str] = if owned.kind.is_kept() { &KEEP } else { &OWN };
        rules.push(rule(reach, owned.kind, verbs, format!("owned: {}", owned.reason)));
    }
    for peer in &declaration.peers {
        rules.push(rule(Reach::Watched, peer.kind, &FOLLOW, format!("read: {}", peer.reason)));
    }
    for read in &declaration.reads {
        rules.push(match read {
            Read::Nodes { reason } => rule(Reach::Cluster, crate::object::NODE, &FOLLOW, format!("read: {reason}")),
            Read::Secrets { reason } => {
                rule(Reach::Watched, SECRET, &["get", "list", "watch"], format!("read: {reason}"))
            }
            Read::ConfigMaps { reason } => {
                rule(Reach::Watched, CONFIG_MAP, &["get", "list", "watch"], format!("read: {reason}"))
            }
            Read::Specs { kind, reason } => rule(Reach::Watched, *kind, &FOLLOW, format!("read: {reason}")),
            Read::Fact { namespace, name, reason } => Rule {
                names: vec![*name],
                ..rule(Reach::Namespace(namespace), CONFIG_MAP, &["get"], format!("read: {reason}"))
            },
            // A list or a watch of one name needs the right on that name alone (Kubernetes, "Using RBAC Authorization").
            Read::Foreign { kind, name, reason } => {
                Rule { names: vec![*name], ..rule(Reach::Cluster, *kind, &FOLLOW, format!("read: {reason}")) }
            }
        });
    }
    if declaration.marks_nodes {
        let (label, waits, drain) = (names::LABEL_VROUTER, names::TAINT_AGENT_NOT_READY, names::TAINT_DRAIN);
        let reason = format!(
            "written: the label {label} of nodes that the vRouter changed, and on demand the taints {waits} and {drain}"
        );
        rules.push(rule(Reach::Cluster, crate::object::NODE, &["patch"], reason));
    }
    if declaration.watches_pods() {
        let mut verbs = FOLLOW.to_vec();
        verbs.extend(declaration.restarts_pods.then_some("delete"));
        verbs.extend(declaration.calls_agents.then_some("patch"));
        rules.push(rule(
            Reach::Watched,
            crate::object::POD,
            &verbs,
            "members: their state, and changes of one at a time".into(),
        ));
    }
    if declaration.workload_kinds().next().is_some() {
        rules.push(rule(Reach::Watched, EVENT, &FOLLOW, "why the API server refuses members' pods".into()));
    }
    if declaration.calls_agents {
        rules.extend(identity());
        rules.extend(outside());
    }
    merge(rules)
}

/// What signing the certificates of members takes (Kubernetes, "Certificates and Certificate Signing Requests"). Requests have no
/// namespace.
fn identity() -> [Rule; 4] {
    let rule = rules_of(Reach::Cluster, "certificates.k8s.io");
    [
        rule("certificatesigningrequests", &[], &FOLLOW, "members' requests for certificates"),
        rule("certificatesigningrequests/approval", &[], &["patch"], "the verdict on a member's request"),
        rule("certificatesigningrequests/status", &[], &["patch"], "the certificate of a member"),
        rule("signers", &[names::MEMBER_SIGNER], &["approve", "sign"], "no other signer's requests"),
    ]
}

/// What it takes to have an authority signed outside (cert-manager, "Certificate resource").
fn outside() -> [Rule; 3] {
    let rule = rules_of(Reach::Watched, crate::certificates::CERT_MANAGER);
    [
        rule(
            "certificates",
            &[names::AUTHORITY],
            &["get", "patch", "delete"],
            "the authority, where a resource names an issuer",
        ),
        rule("certificates", &[], &["create"], "the authority: apply of what is not there yet"),
        rule("certificaterequests", &[], &["get"], "why an issuer signs no authority"),
    ]
}

/// Makes rules about resources of a group, some of which are no kinds.
fn rules_of(reach: Reach, group: &'static str) -> impl Fn(&str, &[&'static str], &[&'static str], &str) -> Rule {
    move |resource, names, verbs, reason| Rule {
        reach,
        group,
        resource: resource.into(),
        names: names.to_vec(),
        verbs: verbs.to_vec(),
        reason: reason.into(),
    }
}

fn primaries(declaration: &Declaration) -> Vec<Rule> {
    let deregistered: Vec<Kind> = declaration.deregistered().collect();
    let has_cluster_kinds = !declaration.cluster_kinds().is_empty();
    let rules = |kind: Kind| primary(kind, deregistered.contains(&kind), has_cluster_kinds);
    let mut rules: Vec<Rule> = declaration.reconciled().flat_map(rules).collect();
    rules.extend([
        Rule {
            reach: Reach::Watched,
            group: "events.k8s.io",
            resource: "events".into(),
            names: Vec::new(),
            verbs: vec!["create", "patch"],
            reason: "events about the resources".into(),
        },
        lease(&[], &["create"], "leader election: the first lease"),
        lease(&[declaration.operator], &["get", "list", "watch", "update"], "leader election: the lease"),
    ]);
    rules
}

fn primary(kind: Kind, deregisters: bool, has_cluster_kinds: bool) -> Vec<Rule> {
    let sub = |resource: &str, verbs: &[&'static str], reason: &str| Rule {
        resource: format!("{}/{resource}", kind.plural),
        ..rule(Reach::Watched, kind, verbs, reason.to_owned())
    };
    let mut rules = vec![
        rule(Reach::Watched, kind, &FOLLOW, "the resources this operator reconciles".into()),
        sub("status", &["patch"], "their status"),
    ];
    let reasons = [
        (has_cluster_kinds, "the finalizer that removes cluster-scoped objects"),
        (deregisters, "the finalizer that removes what is registered in the config API"),
    ];
    for (_, reason) in reasons.into_iter().filter(|(is_needed, _)| *is_needed) {
        rules.push(rule(Reach::Watched, kind, &["patch"], reason.into()));
    }
    rules
}

fn lease(names: &[&'static str], verbs: &[&'static str], reason: &str) -> Rule {
    Rule {
        reach: Reach::Release,
        group: "coordination.k8s.io",
        resource: "leases".into(),
        names: names.to_vec(),
        verbs: verbs.to_vec(),
        reason: reason.to_owned(),
    }
}

fn rule(reach: Reach, kind: Kind, verbs: &[&'static str], reason: String) -> Rule {
    Rule {
        reach,
        group: kind.group,
        resource: kind.plural.to_owned(),
        names: Vec::new(),
        verbs: verbs.to_vec(),
        reason,
    }
}

/// One rule per resource, names and reach: verbs are united, reasons joined.
fn merge(rules: Vec<Rule>) -> Vec<Rule> {
    let mut merged: Vec<Rule> = Vec::new();
    for rule in rules {
        let same = |other: &&mut Rule| {
            other.reach == rule.reach
                && other.group == rule.group
                && other.resource == rule.resource
                && other.names == rule.names
        };
        match merged.iter_mut().find(same) {
            Some(present) => {
                present.verbs.extend(rule.verbs);
                present.reason = format!("{}; {}", present.reason, rule.reason);
            }
            None => merged.push(rule),
        }
    }
    for rule in &mut merged {
        let order = ["get", "list", "watch", "create", "update", "patch", "delete", "approve", "sign"];
        rule.verbs.sort_by_key(|verb| order.iter().position(|known| known == verb));
        rule.verbs.dedup();
    }
    merged.sort_by_key(|rule| rule.reach);
    merged
}

#[cfg(test)]
mod tests {
    use tf_api::{contract::ConditionType, kinds};

    use super::*;
    use crate::declaration::{Owned, PeerKind};

    fn declaration() -> Declaration {
        Declaration {
            operator: "test-op",
            primary: Kind::custom(kinds::ZOOKEEPER),
            owned: vec![
                Owned { kind: SECRET, reason: "credentials" },
                Owned { kind: crate::object::STATEFUL_SET, reason: "members" },
            ],
            peers: vec![PeerKind {
                kind: Kind::custom(kinds::CASSANDRA),
                condition: ConditionType::CassandraReady,
                reason: "endpoints",
            }],
            reads: vec![Read::Secrets { reason: "passwords" }, Read::Nodes { reason: "members" }],
            restarts_pods: true,
            calls_agents: false,
            grant: None,
            deregisters: false,
            marks_nodes: false,
            further: Vec::new(),
        }
    }

    #[test]
    fn no_rule_has_a_wildcard_and_each_has_a_reason() {
        for rule in rules(&declaration()) {
            assert!(!rule.group.contains('*') && !rule.resource.contains('*'), "{rule:?}");
            assert!(!rule.verbs.is_empty() && rule.verbs.iter().all(|verb| *verb != "*"), "{rule:?}");
            assert!(!rule.reason.is_empty(), "{rule:?}");
        }
    }

    #[test]
    fn a_peer_is_only_read_and_a_resource_appears_once() {
        let rules = rules(&declaration());
        let of = |resource: &str| rules.iter().filter(|rule| rule.resource == resource).collect::<Vec<_>>();
        assert_eq!(of("cassandras")[0].verbs, ["list", "watch"]);
        assert_eq!(of("secrets").len(), 1);
        assert_eq!(of("secrets")[0].reason, "owned: credentials; read: passwords");
        assert_eq!(of("pods")[0].verbs, ["list", "watch", "delete"]);
    }

    #[test]
    fn of_somebody_elses_kind_one_object_is_read() {
        let foreign = Read::Foreign { kind: crate::cluster::NETWORK, name: "cluster", reason: "subnets" };
        let rules = rules(&Declaration { reads: vec![foreign], ..declaration() });
        let of: Vec<_> = rules.iter().filter(|rule| rule.group == "config.openshift.io").collect();
        let [rule] = of.as_slice() else { panic!("{of:?}") };
        assert_eq!((rule.reach, rule.resource.as_str()), (Reach::Cluster, "networks"));
        assert_eq!((rule.names.as_slice(), rule.verbs.as_slice()), (["cluster"].as_slice(), FOLLOW.as_slice()));
    }

    #[test]
    fn only_nodes_reach_beyond_the_watched_namespaces() {
        let cluster: Vec<_> = rules(&declaration()).into_iter().filter(|rule| rule.reach == Reach::Cluster).collect();
        assert_eq!(cluster.iter().map(|rule| rule.resource.as_str()).collect::<Vec<_>>(), ["nodes"]);
    }
}
