//! Values of the charts: each does what its comment says, and a mistake is told before anything is installed.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Map, Value, json};
use tf_testing::{
    helm::{self, Rendering},
    operators,
};

use crate::support::{PARALLEL, objects};

/// All charts have the values of this one.
const CHART: &str = "zookeeper-op";

fn rendering() -> Rendering {
    Rendering::new(CHART, "tf").kind("monitoring.coreos.com/v1/PrometheusRule")
}

fn defaults(operator: &str) -> Result<Value> {
    let text = fs::read_to_string(operators::chart(operator).join("values.yaml"))?;
    serde_saphyr::from_str(&text).with_context(|| operator.to_owned())
}

/// The values that a user can set one by one, with their defaults. A map that is empty by default is one value.
fn leaves(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() && path != "resources" => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(&format!("{path}{dot}{name}"), value, found);
            }
        }
        leaf => found.push((path.to_owned(), leaf.clone())),
    }
}

fn all_leaves() -> Result<Vec<(String, Value)>> {
    let mut found = Vec::new();
    leaves("", &defaults(CHART)?, &mut found);
    Ok(found)
}

/// What Helm has against a file of values.
async fn refusal(name: &str, values: &Value) -> Result<String> {
    let file: PathBuf = env::temp_dir().join(format!("tf-values-{name}-{}.yaml", std::process::id()));
    fs::write(&file, values.to_string())?;
    let rendered = helm::template(CHART, &rendering().file(&file)).await;
    fs::remove_file(&file)?;
    let Err(error) = rendered else { anyhow::bail!("was rendered: {values}") };
    Ok(format!("{error:#}"))
}

#[test]
fn all_charts_have_the_same_values_but_for_repository_and_port() {
    let schema = |operator: &str| fs::read_to_string(operators::chart(operator).join("values.schema.json")).unwrap();
    for operator in operators::ALL {
        assert_eq!(schema(operator), schema(CHART), "{operator}");
        let mut values = defaults(operator).unwrap();
        values["image"]["repository"] = json!(format!("tungstenfabric/{CHART}"));
        let expected = defaults(CHART).unwrap();
        // Two operators on one node need two ports, which the test of their scheduling looks at.
        values["bootstrapPort"] = expected["bootstrapPort"].clone();
        assert_eq!(values, expected, "{operator}");
    }
}

#[tokio::test]
async fn a_value_of_a_wrong_type_is_refused_by_its_name() -> Result<()> {
    let mut wrong = Value::Object(Map::new());
    let leaves = all_leaves()?;
    for (path, default) in &leaves {
        let mistake = match default {
            Value::String(_) | Value::Bool(_) => json!(7),
            _ => json!("text"),
        };
        let place = path.split('.').fold(&mut wrong, |at, step| &mut at[step]);
        *place = mistake;
    }
    let said = refusal("types", &wrong).await?;
    for (path, _) in &leaves {
        let named = format!("'/{}'", path.replace('.', "/"));
        assert!(said.contains(&named), "{path} is not named:\n{said}");
    }
    Ok(())
}

/// The objects among the values whose fields are all known.
const CLOSED: [&str; 10] =
    ["", "image", "crds", "watch", "rbac", "serviceAccount", "operands", "logging", "metrics", "apiServer"];

#[tokio::test]
async fn an_unknown_value_is_refused_by_its_name() -> Result<()> {
    let mut wrong = json!({});
    for parent in CLOSED {
        let place = if parent.is_empty() { &mut wrong } else { &mut wrong[parent] };
        place[format!("surprise{parent}")] = json!(true);
    }
    let said = refusal("unknown", &wrong).await?;
    for parent in CLOSED {
        assert!(said.contains(&format!("'surprise{parent}'")), "{parent:?}:\n{said}");
    }
    // Every object of the defaults is either closed or the user's own.
    let open = ["resources", "nodeSelector", "affinity", "podLabels", "podAnnotations"];
    let defaults = defaults(CHART)?;
    for (name, _) in defaults.as_object().into_iter().flatten().filter(|(_, value)| value.is_object()) {
        assert!(CLOSED.contains(&name.as_str()) || open.contains(&name.as_str()), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_value_out_of_its_range_is_refused_with_what_is_possible() -> Result<()> {
    let cases = [
        ("port=0", "'/port': minimum: got 0, want 1"),
        ("port=65536", "'/port': maximum: got 65,536, want 65,535"),
        ("replicaCount=-1", "'/replicaCount': minimum: got -1, want 0"),
        ("watch.scope=everything", "'/watch/scope': value must be one of 'namespace', 'namespaces', 'cluster'"),
        ("image.pullPolicy=Sometimes", "'/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'"),
        ("image.digest=sha256:12", "'/image/digest': 'sha256:12' does not match pattern"),
        ("image.repository=", "'/image/repository': minLength: got 0, want 1"),
        ("logging.format=xml", "'/logging/format': value must be one of 'json', 'text'"),
        ("watch.scope=namespaces", "watch.namespaces is empty; list namespaces or use another watch.scope"),
        ("serviceAccount.create=false", "serviceAccount.name is needed when serviceAccount.create is false"),
    ];
    let judge = |(value, expected): (&'static str, &'static str)| async move {
        let said = helm::template(CHART, &rendering().value(value)).await.err().map(|error| format!("{error:#}"));
        let said = said.with_context(|| format!("{value} was rendered"))?;
        ensure!(said.contains(expected), "{value}: {said}");
        Ok(())
    };
    stream::iter(cases).map(judge).buffer_unordered(PARALLEL).try_collect().await
}

/// A value of the chart and what becomes of it.
struct Effect {
    key: &'static str,
    /// As `--set` takes it; what else has to be set for it comes first.
    set: &'static [&'static str],
    /// A kind and a place in it: a JSON pointer, or `env NAME` for a variable of the operator.
    place: (&'static str, &'static str),
    /// What is there then; `null` for nothing, be it the place or the whole object.
    shows: Value,
}

fn effect(
    key: &'static str,
    set: &'static [&'static str],
    place: (&'static str, &'static str),
    shows: Value,
) -> Effect {
    Effect { key, set, place, shows }
}

fn in_deployment(key: &'static str, set: &'static [&'static str], place: &'static str, shows: Value) -> Effect {
    effect(key, set, ("Deployment", place), shows)
}

#[rustfmt::skip]
fn effects() -> Vec<Effect> {
    const DIGEST: &str = "image.digest=sha256:1111111111111111111111111111111111111111111111111111111111111111";
    vec![
        in_deployment("nameOverride", &["nameOverride=zk"], "/spec/selector/matchLabels/app.kubernetes.io~1name", json!("zk")),
        in_deployment("fullnameOverride", &["fullnameOverride=zk"], "/metadata/name", json!("zk")),
        in_deployment("registry", &["registry=mirror.example"], "/spec/template/spec/containers/0/image",
            json!(concat!("mirror.example/tungstenfabric/zookeeper-op:", env!("CARGO_PKG_VERSION")))),
        in_deployment("registry", &["registry=mirror.example"], "env IMAGE_REGISTRY", json!("mirror.example")),
        in_deployment("image.registry", &["image.registry=mirror.example"], "/spec/template/spec/containers/0/image",
            json!(concat!("mirror.example/tungstenfabric/zookeeper-op:", env!("CARGO_PKG_VERSION")))),
        in_deployment("image.repository", &["image.repository=mine"], "/spec/template/spec/containers/0/image",
            json!(concat!("mine:", env!("CARGO_PKG_VERSION")))),
        in_deployment("image.tag", &["image.tag=R1"], "/spec/template/spec/containers/0/image", json!("tungstenfabric/zookeeper-op:R1")),
        in_deployment("image.digest", &["image.tag=R1", DIGEST], "/spec/template/spec/containers/0/image",
            json!("tungstenfabric/zookeeper-op@sha256:1111111111111111111111111111111111111111111111111111111111111111")),
        in_deployment("image.pullPolicy", &["image.pullPolicy=Always"], "/spec/template/spec/containers/0/imagePullPolicy", json!("Always")),
        in_deployment("imagePullSecrets", &["imagePullSecrets={one,two}"], "/spec/template/spec/imagePullSecrets", json!([{"name": "one"}, {"name": "two"}])),
        in_deployment("replicaCount", &["replicaCount=2"], "/spec/replicas", json!(2)),
        effect("replicaCount", &["replicaCount=2"], ("PodDisruptionBudget", "/spec/maxUnavailable"), json!(1)),
        effect("crds.install", &["crds.install=false"], ("CustomResourceDefinition", "/kind"), Value::Null),
        effect("crds.keep", &["crds.keep=false"], ("CustomResourceDefinition", "/metadata/annotations/helm.sh~1resource-policy"), Value::Null),
        effect("deletionProtection", &["deletionProtection=false"], ("ValidatingAdmissionPolicy", "/kind"), Value::Null),
        in_deployment("watch.scope", &["watch.scope=cluster"], "env WATCH_NAMESPACE", json!("")),
        in_deployment("watch.namespaces", &["watch.scope=namespaces", "watch.namespaces={a,b}"], "env WATCH_NAMESPACE", json!("a,b")),
        effect("rbac.create", &["rbac.create=false"], ("RoleBinding", "/kind"), Value::Null),
        effect("rbac.create", &["rbac.create=false"], ("ClusterRole", "/kind"), Value::Null),
        effect("rbac.aggregate", &["rbac.aggregate=false"], ("ClusterRole", "/metadata/labels/rbac.authorization.k8s.io~1aggregate-to-edit"), Value::Null),
        effect("serviceAccount.create", &["serviceAccount.name=mine", "serviceAccount.create=false"], ("ServiceAccount", "/kind"), Value::Null),
        in_deployment("serviceAccount.name", &["serviceAccount.name=mine"], "/spec/template/spec/serviceAccountName", json!("mine")),
        effect("serviceAccount.name", &["serviceAccount.name=mine"], ("RoleBinding", "/subjects/0/name"), json!("mine")),
        effect("serviceAccount.annotations", &["serviceAccount.annotations.a=b"], ("ServiceAccount", "/metadata/annotations"), json!({"a": "b"})),
        in_deployment("operands.prefix", &["operands.prefix=mirror.example/tf/"], "env OPERAND_IMAGE_PREFIX", json!("mirror.example/tf/")),
        in_deployment("operands.tag", &["operands.tag=R1"], "env OPERAND_IMAGE_TAG", json!("R1")),
        in_deployment("operands.images", &["operands.images.b=y", "operands.images.a=x/a:1"], "env OPERAND_IMAGES", json!("a=x/a:1,b=y")),
        in_deployment("operands.tfNodeImage", &["operands.tfNodeImage=x/node:1"], "env TF_NODE_IMAGE", json!("x/node:1")),
        in_deployment("clusterDomain", &["clusterDomain=example"], "env CLUSTER_DOMAIN", json!("example")),
        in_deployment("logging.level", &["logging.level=debug"], "env LOG_LEVEL", json!("debug")),
        in_deployment("logging.format", &["logging.format=text"], "env LOG_FORMAT", json!("text")),
        in_deployment("port", &["port=9000"], "env LISTEN_ADDRESS", json!("[::]:9000")),
        in_deployment("port", &["port=9000"], "/spec/template/spec/containers/0/ports/0/containerPort", json!(9000)),
        effect("metrics.service", &["metrics.service=true"], ("Service", "/spec/ports/0/port"), json!(8080)),
        effect("metrics.alerts", &["metrics.alerts=true"], ("PrometheusRule", "/spec/groups/0/name"), json!(CHART)),
        effect("metrics.alertLabels", &["metrics.alerts=true", "metrics.alertLabels.a=b"], ("PrometheusRule", "/metadata/labels/a"), json!("b")),
        effect("metrics.dashboard", &["metrics.dashboard=true"], ("ConfigMap", "/metadata/labels/grafana_dashboard"), json!("1")),
        effect("metrics.operatorsDashboard", &["metrics.operatorsDashboard=true"], ("ConfigMap", "/metadata/labels/grafana_dashboard"), json!("1")),
        in_deployment("bootstrap", &["bootstrap=true"], "/spec/template/spec/hostNetwork", json!(true)),
        in_deployment("bootstrapPort", &["bootstrap=true", "bootstrapPort=9001"], "env LISTEN_ADDRESS", json!("[::]:9001")),
        in_deployment("apiServer.host", &["bootstrap=true", "apiServer.host=10.0.0.1"], "env KUBERNETES_SERVICE_HOST", json!("10.0.0.1")),
        in_deployment("apiServer.port", &["bootstrap=true", "apiServer.host=10.0.0.1", "apiServer.port=443"], "env KUBERNETES_SERVICE_PORT", json!("443")),
        in_deployment("resources", &["resources.limits.memory=1Gi"], "/spec/template/spec/containers/0/resources/limits/memory", json!("1Gi")),
        in_deployment("priorityClassName", &["priorityClassName=high"], "/spec/template/spec/priorityClassName", json!("high")),
        in_deployment("nodeSelector", &["nodeSelector.disk=fast"], "/spec/template/spec/nodeSelector", json!({"disk": "fast"})),
        in_deployment("tolerations", &["tolerations[0].operator=Exists"], "/spec/template/spec/tolerations/0", json!({"operator": "Exists"})),
        in_deployment("lostNodeSeconds", &["lostNodeSeconds=7"], "/spec/template/spec/tolerations/0/tolerationSeconds", json!(7)),
        in_deployment("affinity", &["affinity.nodeAffinity.a=b"], "/spec/template/spec/affinity", json!({"nodeAffinity": {"a": "b"}})),
        in_deployment("podLabels", &["podLabels.a=b"], "/spec/template/metadata/labels/a", json!("b")),
        in_deployment("podAnnotations", &["podAnnotations.a=b"], "/spec/template/metadata/annotations", json!({"a": "b"})),
        in_deployment("extraEnv", &["extraEnv[0].name=MINE", "extraEnv[0].value=x"], "env MINE", json!("x")),
    ]
}

/// What is at a place in the objects: in those of the kind that have it, the first one counts.
fn look(objects: &[Value], (kind, place): (&str, &str)) -> Value {
    let value = |object: &Value| match place.strip_prefix("env ") {
        Some(name) => {
            let variables = object.pointer("/spec/template/spec/containers/0/env")?.as_array()?;
            Some(variables.iter().find(|variable| variable["name"] == name)?["value"].clone())
        }
        None => object.pointer(place).cloned(),
    };
    objects.iter().filter(|object| object["kind"] == kind).find_map(value).unwrap_or_default()
}

#[tokio::test]
async fn each_value_has_the_effect_that_its_comment_states() -> Result<()> {
    let before = objects(CHART, &rendering()).await?;
    let judge = |effect: Effect| {
        let before = &before;
        async move {
            let mut rendering = rendering();
            for value in effect.set {
                rendering = rendering.value(*value);
            }
            let after = objects(CHART, &rendering).await?;
            let (was, is) = (look(before, effect.place), look(&after, effect.place));
            ensure!(was != effect.shows, "{}: {was} is there without it", effect.key);
            ensure!(is == effect.shows, "{}: {is} at {:?}, not {}", effect.key, effect.place, effect.shows);
            Ok(())
        }
    };
    stream::iter(effects()).map(judge).buffer_unordered(PARALLEL).try_collect().await
}

/// What is in the files of a chart, to the letter: braces in alerts are Prometheus', not Helm's.
#[tokio::test]
async fn alerts_and_dashboards_are_those_of_the_charts_files() -> Result<()> {
    let values = ["metrics.alerts=true", "metrics.dashboard=true", "metrics.operatorsDashboard=true"];
    for operator in operators::ALL {
        let file = |name: &str| fs::read_to_string(operators::chart(operator).join("files").join(name));
        let wanted = |name: &str| anyhow::Ok(serde_saphyr::from_str::<Value>(&file(name)?)?);
        let rendering = values.iter().fold(Rendering::new(operator, "tf"), |rendering, value| rendering.value(*value));
        let rendered = objects(operator, &rendering.clone().kind("monitoring.coreos.com/v1/PrometheusRule")).await?;
        assert_eq!(look(&rendered, ("PrometheusRule", "/spec")), wanted("alerts.yaml")?, "{operator}");
        let own = format!("/data/tf-{operator}.json");
        for (place, name) in [(own.as_str(), "dashboard.json"), ("/data/tf-operators.json", "operators.json")] {
            let text = look(&rendered, ("ConfigMap", place));
            let dashboard: Value = serde_json::from_str(text.as_str().context(place.to_owned())?)?;
            assert_eq!(dashboard, wanted(name)?, "{operator}");
        }
        // A cluster without the kind would refuse the whole release.
        let without = objects(operator, &rendering).await?;
        assert_eq!(look(&without, ("PrometheusRule", "/kind")), Value::Null, "{operator}");
    }
    Ok(())
}

#[test]
fn every_value_is_shown_to_have_an_effect_and_has_a_comment() {
    let shown: BTreeSet<&str> = effects().iter().map(|effect| effect.key).collect();
    let leaves = all_leaves().unwrap();
    assert_eq!(shown, leaves.iter().map(|(path, _)| path.as_str()).collect());
    let text = fs::read_to_string(operators::chart(CHART).join("values.yaml")).unwrap();
    for (path, _) in &leaves {
        let name = path.rsplit('.').next().unwrap();
        assert!(text.lines().any(|line| line.trim_start().starts_with(&format!("# {name} "))), "{path} has no comment");
    }
}
