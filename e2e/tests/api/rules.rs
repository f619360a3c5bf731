//! The roles that charts render: nothing but what the component declares, where it declares it, and why.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, Subject};
use serde_json::{Value, json};
use tf_api::kinds;
use tf_plan::{declaration::Declaration, rbac, rule::Reach};
use tf_testing::{
    helm::{self, Rendering},
    operators,
    rights::{self, Right, Scope},
};

use crate::{
    declarations,
    support::{self, objects},
};

/// Definitions are large and hold no right.
const WITHOUT_DEFINITIONS: &str = "crds.install=false";

/// Where an operator looks for resources.
#[derive(Clone, Copy, Debug)]
pub enum Watch<'a> {
    /// The namespace of its release.
    Own,
    /// These.
    Listed(&'a [&'a str]),
    /// All.
    Cluster,
}

impl Watch<'_> {
    /// A chart rendered for it.
    pub fn rendering(self, operator: &str, release: &str) -> Rendering {
        let rendering = Rendering::new(operator, release).value(WITHOUT_DEFINITIONS);
        match self {
            Self::Own => rendering,
            Self::Listed(namespaces) => rendering
                .value("watch.scope=namespaces")
                .value(format!("watch.namespaces={{{}}}", namespaces.join(","))),
            Self::Cluster => rendering.value("watch.scope=cluster"),
        }
    }

    /// Whether a namespace is among them.
    pub fn covers(self, release: &str, namespace: &str) -> bool {
        match self {
            Self::Own => namespace == release,
            Self::Listed(namespaces) => namespaces.contains(&namespace),
            Self::Cluster => true,
        }
    }

    fn scopes(self, release: &str) -> Vec<Scope> {
        match self {
            Self::Own => vec![Scope::Namespace(release.to_owned())],
            Self::Listed(namespaces) => namespaces.iter().map(|name| Scope::Namespace((*name).to_owned())).collect(),
            Self::Cluster => vec![Scope::Cluster],
        }
    }
}

/// The rights that follow from a declaration.
pub fn declared(declaration: &Declaration, release: &str, watch: Watch<'_>) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in rbac::rules(declaration) {
        let scopes = match rule.reach {
            Reach::Watched => watch.scopes(release),
            Reach::Release => vec![Scope::Namespace(release.to_owned())],
            Reach::Namespace(namespace) => vec![Scope::Namespace(namespace.to_owned())],
            Reach::Cluster => vec![Scope::Cluster],
        };
        let names: Vec<Option<String>> = match rule.names.as_slice() {
            [] => vec![None],
            names => names.iter().map(|name| Some((*name).to_owned())).collect(),
        };
        for scope in &scopes {
            for name in &names {
                rights.extend(rule.verbs.iter().map(|verb| Right {
                    scope: scope.clone(),
                    group: rule.group.to_owned(),
                    resource: rule.resource.clone(),
                    name: name.clone(),
                    verb: (*verb).to_owned(),
                }));
            }
        }
    }
    rights
}

#[tokio::test]
async fn a_chart_grants_what_its_component_declares_in_the_namespaces_it_watches_and_nothing_else() -> Result<()> {
    for declaration in declarations::all() {
        for watch in [Watch::Own, Watch::Listed(&["a", "b"]), Watch::Cluster] {
            let operator = declaration.operator;
            let granted = rights::of_chart(operator, &watch.rendering(operator, "tf")).await?;
            assert_eq!(granted, declared(&declaration, "tf", watch), "{operator} {watch:?}");
        }
    }
    Ok(())
}

fn modes(operator: &str, namespace: &str) -> Result<BTreeMap<String, Rendering>> {
    let modes = support::modes(operator, namespace)?;
    Ok(modes.into_iter().map(|(mode, rendering)| (mode, rendering.value(WITHOUT_DEFINITIONS))).collect())
}

fn is(object: &Value, kind: &str) -> bool {
    object["kind"] == kind
}

/// Roles for people: for the cluster's `view`, `edit` and `admin`.
fn is_for_people(role: &Value) -> bool {
    let labels = role["metadata"]["labels"].as_object();
    labels.is_some_and(|labels| labels.keys().any(|label| label.starts_with("rbac.authorization.k8s.io/aggregate-to-")))
}

/// Every rule of every role, of those for people, too.
fn rules(objects: &[Value]) -> Result<Vec<PolicyRule>> {
    let mut rules = Vec::new();
    for object in objects {
        if is(object, "Role") {
            rules.extend(serde_json::from_value::<Role>(object.clone())?.rules.unwrap_or_default());
        } else if is(object, "ClusterRole") {
            rules.extend(serde_json::from_value::<ClusterRole>(object.clone())?.rules.unwrap_or_default());
        }
    }
    Ok(rules)
}

#[tokio::test]
async fn no_rule_has_a_wildcard_or_lets_an_operator_get_at_more_rights() -> Result<()> {
    /// Rights that are worth any other: identities, programs in other pods, roles.
    const DANGEROUS: [&str; 7] = [
        "serviceaccounts/token",
        "pods/exec",
        "pods/attach",
        "pods/ephemeralcontainers",
        "nodes/proxy",
        "roles",
        "clusterroles",
    ];
    for operator in operators::ALL {
        for (mode, rendering) in modes(operator, "tf")? {
            let rules = rules(&objects(operator, &rendering).await?)?;
            ensure!(!rules.is_empty(), "{operator} {mode}");
            for rule in rules {
                let words = || {
                    let lists = [&rule.api_groups, &rule.resources, &rule.resource_names, &rule.non_resource_urls];
                    lists.into_iter().flatten().flatten().chain(&rule.verbs)
                };
                assert!(!words().any(|word| word.contains('*')), "{operator} {mode}: {rule:?}");
                let harmful = |word: &String| DANGEROUS.contains(&word.as_str()) || word == "rbac.authorization.k8s.io";
                assert!(!words().any(harmful), "{operator} {mode}: {rule:?}");
                let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
                // The API server asks for these beside the right to approve a request: they bound it to our own signer.
                if rule.resources.as_ref().is_some_and(|resources| resources == &["signers"]) {
                    assert_eq!(
                        rule.resource_names,
                        Some(vec!["tf.tungsten.io/member".to_owned()]),
                        "{operator} {mode}"
                    );
                    assert_eq!(rule.verbs, ["approve", "sign"], "{operator} {mode}");
                    continue;
                }
                assert!(rule.verbs.iter().all(|verb| verbs.contains(&verb.as_str())), "{operator} {mode}: {rule:?}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn each_rule_of_an_operator_stands_below_its_reason() -> Result<()> {
    for operator in operators::ALL {
        let text = helm::template(operator, &Watch::Own.rendering(operator, "tf")).await?;
        let mut seen = 0;
        // Of those of a policy are requests that it judges.
        let is_role =
            |text: &&str| !text.contains("/aggregate-to-") && !text.contains("kind: ValidatingAdmissionPolicy");
        for document in text.split("\n---\n").filter(is_role) {
            let lines: Vec<&str> = document.lines().map(str::trim).collect();
            for pair in lines.windows(2).filter(|pair| pair[1].starts_with("- apiGroups:")) {
                let reason =
                    pair[0].strip_prefix("# ").with_context(|| format!("{operator}: no reason:\n{document}"))?;
                ensure!(reason.split_whitespace().count() > 1, "{operator}: {reason:?} explains nothing");
                seen += 1;
            }
        }
        let declared = declarations::all().into_iter().find(|declaration| declaration.operator == operator);
        let declared = declared.context(operator)?;
        // One more is the members', and further ones are the daemon's.
        let others = usize::from(declared.calls_agents) + declared.grant.as_ref().map_or(0, |grant| grant.rules.len());
        assert_eq!(seen, rbac::rules(&declared).len() + others, "{operator}");
    }
    Ok(())
}

#[tokio::test]
async fn an_operator_for_namespaces_has_no_right_in_the_cluster_but_to_watch_nodes_mark_those_it_changes_and_sign_for_members()
-> Result<()> {
    for declaration in declarations::all() {
        let operator = declaration.operator;
        for watch in [Watch::Own, Watch::Listed(&["a", "b"])] {
            let objects = objects(operator, &watch.rendering(operator, "tf")).await?;
            let roles: BTreeMap<&str, &Value> = objects
                .iter()
                .filter(|object| is(object, "ClusterRole") && !is_for_people(object))
                .filter_map(|role| Some((role["metadata"]["name"].as_str()?, &role["rules"])))
                .collect();
            let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
            let certificates = |resource: &str, verbs: &[&str]| rule("certificates.k8s.io", resource, verbs);
            let mut operators = Vec::new();
            let nodes: &[&str] = if declaration.marks_nodes { &["list", "watch", "patch"] } else { &["list", "watch"] };
            operators.extend(declaration.reads_nodes().then(|| rule("", "nodes", nodes)));
            operators.extend(declaration.foreign().map(|(kind, name)| {
                let mut named = rule(kind.group, kind.plural, &["list", "watch"]);
                named["resourceNames"] = json!([name]);
                named
            }));
            if declaration.calls_agents {
                operators.push(certificates("certificatesigningrequests", &["list", "watch"]));
                operators.push(certificates("certificatesigningrequests/approval", &["patch"]));
                operators.push(certificates("certificatesigningrequests/status", &["patch"]));
                let mut signers = certificates("signers", &["approve", "sign"]);
                signers["resourceNames"] = json!(["tf.tungsten.io/member"]);
                operators.push(signers);
            }
            let members = [certificates("certificatesigningrequests", &["get", "create"])];
            let (name, members_name) = (format!("tf-{operator}-cluster"), format!("tf-{operator}-members"));
            let (operators, members) = (json!(operators), json!(members));
            let mut expected = BTreeMap::new();
            expected.extend((operators != json!([])).then_some((name.as_str(), &operators)));
            expected.extend(declaration.calls_agents.then_some((members_name.as_str(), &members)));
            let daemon = roles.get_key_value(format!("tf-{operator}-daemon").as_str());
            assert_eq!(daemon.is_some(), declaration.grant.is_some(), "{operator} {watch:?}");
            expected.extend(daemon);
            assert_eq!(roles, expected, "{operator} {watch:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn roles_for_people_are_about_the_operators_own_kinds_and_bound_to_nobody() -> Result<()> {
    for operator in operators::ALL {
        let objects = objects(operator, &Watch::Own.rendering(operator, "tf")).await?;
        let roles: Vec<&Value> = objects.iter().filter(|object| is_for_people(object)).collect();
        let own: BTreeSet<&str> =
            kinds::ALL.iter().filter(|info| info.operator == operator).map(|info| info.plural).collect();
        let mut told = Vec::new();
        for role in roles {
            let rule: PolicyRule = serde_json::from_value(role["rules"][0].clone())?;
            assert_eq!(role["rules"].as_array().map(Vec::len), Some(1), "{operator}");
            assert_eq!(rule.api_groups, Some(vec!["tf.tungsten.io".to_owned()]), "{operator}");
            // Neither status nor scale: the status is the operator's word.
            let resources = rule.resources.unwrap_or_default();
            assert_eq!(resources.iter().map(String::as_str).collect::<BTreeSet<_>>(), own, "{operator}");
            told.push(rule.verbs.join(" "));
            let name = &role["metadata"]["name"];
            let bound = |object: &&Value| object["roleRef"]["name"] == *name;
            assert!(!objects.iter().any(|object| bound(&object)), "{operator}: {name} is bound");
        }
        assert_eq!(told, ["create update patch delete deletecollection", "get list watch"], "{operator}");
    }
    Ok(())
}

#[tokio::test]
async fn bindings_name_the_account_of_the_operator_and_those_of_members_and_nobody_else() -> Result<()> {
    for operator in operators::ALL {
        for (mode, rendering) in modes(operator, "tf")? {
            let objects = objects(operator, &rendering).await?;
            let account = json!([{"kind": "ServiceAccount", "name": operator, "namespace": "tf"}]);
            let mut bindings = objects.iter().filter(|object| !object["roleRef"].is_null()).peekable();
            assert!(bindings.peek().is_some(), "{operator} {mode}");
            for binding in bindings {
                if binding["metadata"]["name"] == format!("tf-{operator}-members") {
                    // Their accounts are made later, by the operator.
                    let accounts = |subject: &Value| {
                        let name = subject["name"].as_str().unwrap_or_default();
                        subject["kind"] == "Group" && name.starts_with("system:serviceaccounts")
                    };
                    assert!(binding["subjects"].as_array().is_some_and(|them| them.iter().all(accounts)), "{binding}");
                    continue;
                }
                let name = &binding["metadata"]["name"];
                let grant = declarations::all().into_iter().find(|it| it.operator == operator).and_then(|it| it.grant);
                if let Some(grant) = grant.filter(|_| *name == format!("tf-{operator}-daemon")) {
                    let subjects: Vec<Subject> = serde_json::from_value(binding["subjects"].clone())?;
                    let ours = |it: &Subject| {
                        it.kind == "ServiceAccount" && it.name == grant.account && it.namespace.is_some()
                    };
                    assert!(!subjects.is_empty() && subjects.iter().all(ours), "{binding}");
                    continue;
                }
                assert_eq!(binding["subjects"], account, "{operator} {mode}: {name}");
            }
        }
    }
    Ok(())
}

/// Objects outside of namespaces have one name in the whole cluster.
#[tokio::test]
async fn two_releases_have_no_object_in_common_but_the_definitions() -> Result<()> {
    let identities = async |operator: &str, mode: &str, namespace: &str| {
        let rendering = modes(operator, namespace)?.remove(mode).context(mode.to_owned())?;
        let objects = objects(operator, &rendering).await?;
        let identity = |object: &Value| {
            let metadata = &object["metadata"];
            format!("{} {} in {}", object["kind"], metadata["name"], metadata["namespace"])
        };
        anyhow::Ok(objects.iter().map(identity).collect::<BTreeSet<String>>())
    };
    for operator in operators::ALL {
        for mode in ["default", "cluster"] {
            let (left, right) = (identities(operator, mode, "left").await?, identities(operator, mode, "right").await?);
            let common: Vec<_> = left.intersection(&right).collect();
            assert!(common.is_empty(), "{operator} {mode}: {common:?}");
        }
    }
    Ok(())
}
