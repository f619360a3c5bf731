//! What a chart lets its operator do, as a set that can be compared with the audit log.
//!
//! Counted are the roles that the chart binds to the operator's own ServiceAccount. Roles for people (those that are
//! aggregated into the cluster's `view` and `edit`) are bound to nobody by the chart and so are not in the set.

use std::{collections::BTreeSet, fmt};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use serde_json::Value;

use crate::{
    audit::Entry,
    helm::{self, Rendering},
    manifests::documents,
    request::Verb,
};

/// Where a right holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In all namespaces, and for objects outside of namespaces.
    Cluster,
    /// In this namespace.
    Namespace(String),
}

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// Where.
    pub scope: Scope,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural name of the kind, and its subresource behind a slash.
    pub resource: String,
    /// The one object it is about; none for all.
    pub name: Option<String>,
    /// Verb.
    pub verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.scope {
            Scope::Cluster => write!(f, " in the cluster"),
            Scope::Namespace(namespace) => write!(f, " in {namespace}"),
        }
    }
}

impl Right {
    /// Whether a request that was let in needed this right. Server-side apply of an object that does not exist yet needs
    /// two: `patch` and `create`.
    pub fn used_by(&self, entry: &Entry) -> bool {
        let verb = self.verb == name_of(entry.verb)
            || (self.verb == "create" && entry.verb == Verb::Patch && entry.code == 201);
        let resource = if entry.subresource.is_empty() {
            self.resource == entry.resource
        } else {
            self.resource.split_once('/') == Some((&entry.resource, &entry.subresource))
        };
        let scope = match &self.scope {
            Scope::Cluster => true,
            Scope::Namespace(namespace) => *namespace == entry.namespace,
        };
        let name = self.name.as_ref().is_none_or(|name| *name == entry.name);
        entry.code < 400 && self.group == entry.group && verb && resource && scope && name
    }
}

fn name_of(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
        Verb::DeleteCollection => "deletecollection",
        Verb::Other => "",
    }
}

/// The rights that `entries` do not show to be needed.
pub fn idle<'a>(rights: &BTreeSet<Right>, entries: impl Iterator<Item = &'a Entry> + Clone) -> BTreeSet<Right> {
    let idle = |right: &&Right| !entries.clone().any(|entry| right.used_by(entry));
    rights.iter().filter(idle).cloned().collect()
}

/// The rights of the operator when its chart is installed like this.
pub async fn of_chart(operator: &str, rendering: &Rendering) -> Result<BTreeSet<Right>> {
    let objects = documents(&helm::template(operator, rendering).await?)?;
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").context("no Deployment")?;
    let account = deployment.pointer("/spec/template/spec/serviceAccountName").and_then(Value::as_str);
    of_objects(&objects, &rendering.namespace, account.context("a Deployment without a ServiceAccount")?)
}

/// The rights that roles and bindings among `objects` give to a ServiceAccount.
pub fn of_objects(objects: &[Value], namespace: &str, account: &str) -> Result<BTreeSet<Right>> {
    let mut rights = BTreeSet::new();
    for binding in objects.iter().filter(|object| matches!(kind(object), "RoleBinding" | "ClusterRoleBinding")) {
        let subjects: Vec<Subject> = serde_json::from_value(binding["subjects"].clone()).context("subjects")?;
        let ours = |subject: &Subject| {
            subject.kind == "ServiceAccount"
                && subject.name == account
                && subject.namespace.as_deref() == Some(namespace)
        };
        if !subjects.iter().any(ours) {
            continue;
        }
        let within = binding["metadata"]["namespace"].as_str();
        let scope = match (kind(binding), within) {
            ("ClusterRoleBinding", _) => Scope::Cluster,
            (_, within) => Scope::Namespace(within.unwrap_or(namespace).to_owned()),
        };
        let reference: RoleRef = serde_json::from_value(binding["roleRef"].clone()).context("roleRef")?;
        for rule in rules_of(objects, &reference, within)? {
            expand(&rule, &scope, &mut rights)?;
        }
    }
    Ok(rights)
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

fn rules_of(objects: &[Value], reference: &RoleRef, namespace: Option<&str>) -> Result<Vec<PolicyRule>> {
    let role = objects.iter().find(|object| {
        kind(object) == reference.kind
            && object["metadata"]["name"] == reference.name.as_str()
            && (reference.kind == "ClusterRole" || object["metadata"]["namespace"].as_str() == namespace)
    });
    let role = role.with_context(|| format!("{} {} is bound but not rendered", reference.kind, reference.name))?;
    serde_json::from_value(role["rules"].clone()).with_context(|| format!("rules of {}", reference.name))
}

fn expand(rule: &PolicyRule, scope: &Scope, rights: &mut BTreeSet<Right>) -> Result<()> {
    ensure!(rule.non_resource_urls.is_none(), "paths are not resources: {rule:?}");
    let names = rule.resource_names.iter().flatten().cloned().map(Some).collect::<Vec<_>>();
    let names = if names.is_empty() { vec![None] } else { names };
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for name in &names {
                rights.extend(rule.verbs.iter().map(|verb| Right {
                    scope: scope.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name: name.clone(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTS: &str = "
kind: Role
metadata: {name: op, namespace: a}
rules:
- {apiGroups: [apps], resources: [statefulsets], verbs: [create, patch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [op], verbs: [update]}
---
kind: RoleBinding
metadata: {name: op, namespace: a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: op}
subjects: [{kind: ServiceAccount, name: op, namespace: tf}]
---
kind: ClusterRole
metadata: {name: op}
rules: [{apiGroups: [''], resources: [pods/log], verbs: [get]}]
---
kind: ClusterRoleBinding
metadata: {name: op}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: op}
subjects: [{kind: ServiceAccount, name: op, namespace: tf}]
---
kind: ClusterRole
metadata: {name: people}
rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]
";

    fn rights() -> BTreeSet<Right> {
        of_objects(&documents(OBJECTS).unwrap(), "tf", "op").unwrap()
    }

    fn entry(verb: Verb, group: &str, resource: &str, subresource: &str, name: &str, code: u16) -> Entry {
        let path = [group, resource, subresource, name];
        Entry { namespace: "a".into(), ..crate::audit::tests::entry(0, "", verb, path, code) }
    }

    #[test]
    fn what_is_bound_to_the_account_counts_and_nothing_else() {
        let told: Vec<String> = rights().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "get pods/log in the cluster",
                "create statefulsets.apps in a",
                "patch statefulsets.apps in a",
                "update leases.coordination.k8s.io op in a"
            ]
        );
        assert!(of_objects(&documents(OBJECTS).unwrap(), "tf", "another").unwrap().is_empty());
    }

    #[test]
    fn a_role_that_is_bound_but_not_rendered_is_an_error() {
        let objects = documents(OBJECTS).unwrap();
        assert!(of_objects(&objects[1..], "tf", "op").is_err());
    }

    #[test]
    fn an_apply_that_creates_uses_two_rights_and_a_refused_request_none() {
        let idle_after = |entries: &[Entry]| idle(&rights(), entries.iter()).len();
        assert_eq!(idle_after(&[]), 4);
        assert_eq!(idle_after(&[entry(Verb::Patch, "apps", "statefulsets", "", "x", 200)]), 3);
        assert_eq!(idle_after(&[entry(Verb::Patch, "apps", "statefulsets", "", "x", 201)]), 2);
        assert_eq!(idle_after(&[entry(Verb::Patch, "apps", "statefulsets", "", "x", 403)]), 4);
        assert_eq!(idle_after(&[entry(Verb::Patch, "apps", "statefulsets", "status", "x", 200)]), 4);
        let lease = |name| entry(Verb::Update, "coordination.k8s.io", "leases", "", name, 200);
        assert_eq!((idle_after(&[lease("op")]), idle_after(&[lease("other")])), (3, 4));
        assert_eq!(idle_after(&[entry(Verb::Get, "", "pods", "log", "p", 200)]), 3);
    }
}
