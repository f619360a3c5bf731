//! The life of a cluster, from the first object to the last, recorded once for the tests that look at it.
//!
//! Everything an operator has a right for happens in it: bring-up, a new release of the images, leftovers of an older
//! operator, a lost race for the lease, restarts of the operators, components that come and go, deletion. Secret values are
//! in every place where a user may put one, and what the operators showed to anybody meanwhile is kept. They log as much
//! as they can.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::DynamicObject};
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds};
use tf_plan::{
    component::Component,
    declaration::Declaration,
    object::{self, Kind},
};
use tf_testing::{
    Cluster, Entry, Lab, Options, Proxy, Verb,
    audit::service_account,
    cluster::define,
    openshift,
    operators::{self, Operator, Run},
    proxy::{Answer, Fault, Match, Which},
    wait::eventually,
};
use tokio::sync::OnceCell;

use crate::{
    access,
    credentials::generated,
    support::{Chronicle, list, manifest, settled},
};

/// Namespace of the cluster.
pub const NAMESPACE: &str = "tf";

/// A namespace that the operators have nothing to do with.
pub const ELSEWHERE: &str = "elsewhere";

const NAME: &str = "cluster1";

/// A resource beside the Manager's whose credentials are all generated; the Manager's has some of a user's.
const SECOND: &str = "rabbitmq2";

/// Keys of generated credentials that are no secret: names that clients show.
const PUBLIC: [&str; 2] = ["user", "vhost"];

/// With characters that URLs and forms write in another way.
const KEYSTONE: &str = "sentinel-keystone+admin%password";

/// Secret values that the user of this story chose, with the kinds whose own `spec` states them.
pub const CHOSEN: [(&str, &[&str]); 6] = [
    (KEYSTONE, &["Manager"]),
    ("sentinel-metadata-proxy-secret", &["Manager", "Vrouter"]),
    ("sentinel-barbican-password", &["Manager", "Vrouter"]),
    ("sentinel-rabbitmq-password", &[]),
    ("sentinel-erlang-cookie", &["Manager", "Rabbitmq"]),
    ("sentinel-foreign-password", &[]),
];

/// Something that people who may not read Secrets can read.
pub struct Page {
    /// What it is.
    pub name: String,
    /// The kind, for objects.
    pub kind: String,
    /// Its text.
    pub text: String,
}

const EVENT: Kind = Kind {
    group: "events.k8s.io",
    version: "v1",
    kind: "Event",
    plural: "events",
    namespaced: true,
    counts_generations: false,
};

/// What was recorded.
pub struct Story {
    /// Every request from before the operators began until after the last object was gone.
    pub entries: Vec<Entry>,
    /// What could be read, at every stop of the story.
    pub pages: Vec<Page>,
    /// Secret values that the operators made, with the key and the Secret they are kept in.
    pub generated: BTreeMap<String, String>,
    /// What the operators may do and should not.
    pub excess: Vec<String>,
}

/// AgentReport once, also when it does not come to its end.
static STORY: OnceCell<Result<Story>> = OnceCell::const_new();

/// The story, told on first request.
pub async fn story() -> Result<&'static Story> {
    let told = STORY.get_or_init(tell).await;
    told.as_ref().map_err(|error| anyhow::anyhow!("the story did not come to its end: {error:#}"))
}

/// The user of an operator.
pub fn user(operator: &str) -> String {
    service_account(NAMESPACE, operator)
}

/// What the operators own and read, with a resource of the story that each has.
pub fn declarations() -> [(Declaration, &'static str); 11] {
    [
        (analytics_op::declared(), "analytics1"),
        (cassandra_op::Component::declaration(), "configdb1"),
        (config_op::Component::declaration(), "config1"),
        (control_op::Component::declaration(), "control1"),
        (kubemanager_op::Component::declaration(), "kubemanager1"),
        (manager_op::Component::declaration(), NAME),
        (rabbitmq_op::Component::declaration(), "rabbitmq1"),
        (redis_op::Component::declaration(), "redis1"),
        (vrouter_op::Component::declaration(), "vrouter1"),
        (webui_op::Component::declaration(), "webui1"),
        (zookeeper_op::Component::declaration(), "zookeeper1"),
    ]
}

async fn tell() -> Result<Story> {
    let lab = Arc::new(Lab::start(Options::fleet(3, 2)).await?);
    define(&lab, &kinds::ALL).await?;
    let before = lab.audit_mark().await?;
    prepare(&lab).await?;
    let run = Run { env: vec![("LOG_LEVEL".into(), "debug".into())], ..Run::default() };
    let (mut cluster, proxies) = Cluster::start_behind_proxies(&lab, NAMESPACE, &run).await?;
    let mut pages = Vec::new();
    let manager = first_manager()?;
    let mut chronicle = Chronicle::begin(&cluster.client, NAMESPACE, legible()).await?;

    lose_the_lease_once(&proxies);
    bring_up(&cluster, &manager).await.context("bring-up")?;
    read_all(&cluster, "after the bring-up", &mut pages).await?;
    let generated = passwords(&cluster).await?;
    let manager = new_images(&cluster, &manager).await.context("new images")?;
    leftovers(&cluster).await.context("leftovers")?;
    every_kind(&cluster, &manager).await.context("every kind")?;
    // With everything there: what was not made by this process is read before it is left alone.
    for operator in &mut cluster.operators {
        restart(operator).await?;
    }
    settled(&cluster, Duration::from_secs(1)).await?;
    read_all(&cluster, "with every kind", &mut pages).await?;
    crate::support::delete(&cluster, kinds::RABBITMQ, SECOND).await?;
    few_kinds(&cluster, &manager).await.context("few kinds")?;
    crate::support::delete(&cluster, kinds::MANAGER, NAME).await?;
    gone(&cluster.client).await?;
    settled(&cluster, Duration::from_secs(1)).await?;

    read_all(&cluster, "after the end", &mut pages).await?;
    for version in chronicle.versions()? {
        let text = serde_json::to_string(&version.object)?;
        pages.push(Page { name: format!("a former state of {}", version.label()), kind: version.kind.into(), text });
    }
    let entries = lab.audit().window(before, lab.audit_mark().await?)?;
    Ok(Story { entries, pages, generated, excess: access::excess(&cluster).await? })
}

/// Kinds that people may read who may not read Secrets, and that could repeat one.
fn legible() -> Vec<Kind> {
    let made = [object::CONFIG_MAP, object::STATEFUL_SET, object::DAEMON_SET, EVENT];
    made.into_iter().chain(Chronicle::resources()).collect()
}

/// As if another process of each operator had written the lease first.
fn lose_the_lease_once(proxies: &[Proxy]) {
    for proxy in proxies {
        let renewals = Match::resource("leases").and(Match::verb(Verb::Update));
        proxy.add(renewals, Which::First(1), Fault::Answer(Answer::conflict()));
    }
}

/// What is there before the operators: facts about the cluster, and Secrets of users.
async fn prepare(lab: &Lab) -> Result<()> {
    let secret = |namespace: &str, name: &str, data: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": namespace, "name": name },
            "stringData": data,
        })
    };
    let fact = |name: &str, key: &str, text: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "kube-system", "name": name },
            "data": { key: text },
        })
    };
    let kubeadm = "clusterName: story\nnetworking: {podSubnet: 10.32.0.0/12, serviceSubnet: 10.96.0.0/16}\n";
    let openshift = "metadata: {name: story}\nnetworking: {clusterNetwork: [{cidr: 10.32.0.0/12}]}\n";
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name }});
    let rabbitmq = json!({ "user": "clients", "password": "sentinel-rabbitmq-password", "vhost": "sdn" });
    let objects = [
        namespace(NAMESPACE),
        namespace(ELSEWHERE),
        secret(NAMESPACE, "rabbitmq-clients", rabbitmq),
        secret(NAMESPACE, "nobodys", json!({ "password": "sentinel-foreign-password" })),
        secret(ELSEWHERE, "nobodys", json!({ "password": "sentinel-foreign-password" })),
        fact("kubeadm-config", "ClusterConfiguration", kubeadm),
        fact("cluster-config-v1", "install-config", openshift),
    ];
    // JSON is YAML.
    lab.apply(&json!({ "kind": "List", "items": objects }).to_string()).await?;
    openshift::define(lab).await?;
    for object in [
        openshift::network(&["10.32.0.0/12"], &["10.96.0.0/16"]),
        openshift::infrastructure("https://api-int.story.example.org:6443"),
    ] {
        lab.apply(&object.to_string()).await?;
    }
    Ok(())
}

/// The Go tf-operator's default Manager, reduced to what has an operator, with secrets in all places.
fn first_manager() -> Result<Value> {
    let mut manager = manifest("crates/tf-api/testdata/go-tf-operator/default-manager.yaml")?;
    manager["spec"]["commonConfiguration"]["authParameters"] = json!({
        "authMode": "keystone",
        "keystoneAuthParameters": { "address": "192.0.2.1", "adminPassword": KEYSTONE },
    });
    let kept = [
        "analytics",
        "analyticsAlarm",
        "analyticsSnmp",
        "cassandras",
        "config",
        "controls",
        "kubemanager",
        "queryengine",
        "rabbitmq",
        "redis",
        "vrouters",
        "webui",
        "zookeeper",
    ];
    let services = manager["spec"]["services"].as_object_mut().context("no services")?;
    services.retain(|key, _| kept.contains(&key.as_str()));
    let rabbitmq = &mut services["rabbitmq"]["spec"]["serviceConfiguration"];
    rabbitmq["secret"] = json!("rabbitmq-clients");
    rabbitmq["erlangCookie"] = json!("sentinel-erlang-cookie");
    let vrouter = &mut services["vrouters"][0]["spec"]["serviceConfiguration"];
    vrouter["metadataProxySecret"] = json!("sentinel-metadata-proxy-secret");
    vrouter["barbicanPassword"] = json!("sentinel-barbican-password");
    Ok(manager)
}

async fn bring_up(cluster: &Cluster, manager: &Value) -> Result<()> {
    cluster.apply_object(manager).await?;
    // Beside the Manager's on the same nodes, and with the images that all will have.
    let spec = json!({
        "commonConfiguration": { "nodeSelector": { "node-role.kubernetes.io/master": "" } },
        "serviceConfiguration": {
            "port": 5683, "erlEpmdPort": 4370,
            "containers": [{ "name": "rabbitmq", "image": "registry.example/rabbitmq:next" }],
        },
    });
    tf_testing::resources::apply(&cluster.client, kinds::RABBITMQ, NAMESPACE, SECOND, spec).await?;
    cluster.ready(kinds::RABBITMQ, SECOND).await?;
    cluster.manager_ready(NAME).await?;
    settled(cluster, Duration::from_secs(1)).await?;
    Ok(())
}

/// Every pod is replaced, member by member.
async fn new_images(cluster: &Cluster, manager: &Value) -> Result<Value> {
    let manager: Value = serde_json::from_str(&manager.to_string().replace(":latest\"", ":next\""))?;
    cluster.apply_object(&manager).await?;
    let mut old = Vec::new();
    let replaced = eventually("every pod to have the new images", Duration::from_mins(2), async || {
        let pods = list(&cluster.client, object::POD, NAMESPACE).await?;
        let is_old = |pod: &&DynamicObject| pod.data["spec"]["containers"].to_string().contains(":latest\"");
        old = pods.iter().filter(is_old).filter_map(|pod| pod.metadata.name.clone()).collect();
        Ok(old.is_empty().then_some(()))
    });
    replaced.await.with_context(|| format!("these have the old ones: {old:?}"))?;
    cluster.manager_ready(NAME).await?;
    settled(cluster, Duration::from_secs(1)).await?;
    Ok(manager)
}

/// Objects that an older operator made and the present one does not plan are removed, of every kind that it may remove.
async fn leftovers(cluster: &Cluster) -> Result<()> {
    for (declaration, name) in declarations() {
        if declaration.operator == manager_op::OPERATOR {
            continue; // It owns resources, which come and go below.
        }
        let kind = KindInfo::of(declaration.primary.kind).context("not a kind of ours")?;
        let owner = cluster.get(kind, name).await?.object.metadata.uid.context("no uid")?;
        let leftover = format!("leftover-{}", declaration.operator);
        let removed: Vec<Kind> =
            declaration.owned.iter().map(|owned| owned.kind).filter(|kind| !kind.is_kept()).collect();
        for kind in &removed {
            cluster.apply_object(&object_of(*kind, &leftover, &declaration, name, &owner)).await?;
        }
        for kind in removed {
            let what = format!("{} {leftover} to be removed", kind.kind);
            eventually(&what, Duration::from_secs(20), async || {
                let found = tf_testing::resources::objects(&cluster.client, kind, NAMESPACE).get_opt(&leftover).await?;
                Ok(found.is_none().then_some(()))
            })
            .await?;
        }
    }
    Ok(())
}

fn object_of(kind: Kind, name: &str, declaration: &Declaration, owner: &str, uid: &str) -> Value {
    let selector = json!({ "matchLabels": { "leftover": name } });
    let template = json!({
        "metadata": { "labels": { "leftover": name } },
        "spec": { "nodeSelector": { "no-node": "has-this" }, "containers": [{ "name": "none", "image": "none" }] },
    });
    let spec = match kind.kind {
        "StatefulSet" => json!({ "replicas": 0, "serviceName": name, "selector": selector, "template": template }),
        "DaemonSet" => json!({ "selector": selector, "template": template }),
        "Service" => json!({ "clusterIP": "None", "ports": [{ "port": 1 }] }),
        "PodDisruptionBudget" => json!({ "maxUnavailable": 1, "selector": selector }),
        _ => Value::Null,
    };
    let mut object = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": { tf_api::names::LABEL_MANAGED_BY: declaration.operator },
            "ownerReferences": [{
                "apiVersion": declaration.primary.api_version(), "kind": declaration.primary.kind,
                "name": owner, "uid": uid, "controller": true,
            }],
        },
    });
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

/// As a kubelet does it: by request.
async fn restart(operator: &mut Operator) -> Result<()> {
    operator.process.stop()?;
    operator.process.restart()?;
    operator.ready().await
}

/// The Manager lists one of every kind.
async fn every_kind(cluster: &Cluster, manager: &Value) -> Result<()> {
    let all = manifest("crates/tf-api/testdata/go-tf-operator/default-manager.yaml")?;
    let mut manager = manager.clone();
    for (key, entry) in all["spec"]["services"].as_object().context("no services")? {
        let services = &mut manager["spec"]["services"];
        if services[key].is_null() {
            services[key] = entry.clone();
        }
    }
    manager["spec"]["services"]["vrouterProfiles"] = json!([{ "metadata": { "name": "profile1" } }]);
    cluster.apply_object(&manager).await?;
    eventually("one resource of every kind", Duration::from_secs(30), async || {
        let found = tf_testing::resources::all(&cluster.client, NAMESPACE).await?;
        Ok(kinds::ALL.iter().all(|kind| found.iter().any(|resource| resource.kind == *kind)).then_some(()))
    })
    .await?;
    settled(cluster, Duration::from_secs(1)).await?;
    Ok(())
}

/// The Manager lists ZooKeeper only, then RabbitMQ only; and no password.
async fn few_kinds(cluster: &Cluster, manager: &Value) -> Result<()> {
    for key in ["zookeeper", "rabbitmq"] {
        let mut few = manager.clone();
        few["spec"]["commonConfiguration"] = json!({});
        few["spec"]["services"] = json!({ key: manager["spec"]["services"][key] });
        // Not by server-side apply: other managers' fields of the same object would stay.
        let managers = tf_testing::resources::api(&cluster.client, kinds::MANAGER, NAMESPACE);
        let present = managers.get(NAME).await?;
        few["metadata"]["resourceVersion"] = json!(present.metadata.resource_version);
        let replacement: DynamicObject = serde_json::from_value(few)?;
        managers.replace(NAME, &kube::api::PostParams::default(), &replacement).await?;
        eventually(&format!("{key} to be the only component"), Duration::from_mins(1), async || {
            let found = tf_testing::resources::all(&cluster.client, NAMESPACE).await?;
            Ok((found.len() == 2).then_some(()))
        })
        .await?;
    }
    settled(cluster, Duration::from_secs(1)).await?;
    Ok(())
}

/// Waits until no resource of ours and no pod is left.
async fn gone(client: &Client) -> Result<()> {
    let kinds: Vec<Kind> =
        kinds::ALL.map(Kind::custom).into_iter().chain([object::POD, object::STATEFUL_SET]).collect();
    crate::support::emptied(client, NAMESPACE, &kinds, Duration::from_mins(1)).await
}

/// Keeps what anybody can read who may not read Secrets.
async fn read_all(cluster: &Cluster, when: &str, pages: &mut Vec<Page>) -> Result<()> {
    for object in tf_testing::resources::everything_in(&cluster.client, NAMESPACE).await? {
        let kind = object.types.as_ref().context("an object without a kind")?.kind.clone();
        if kind != "Secret" {
            let name = format!("{kind} {} {when}", object.metadata.name.as_deref().unwrap_or_default());
            pages.push(Page { name, kind, text: serde_json::to_string(&object)? });
        }
    }
    for operator in &cluster.operators {
        for path in ["/metrics", "/readyz", "/healthz"] {
            let (_, text) = operator.get(path).await?;
            pages.push(Page { name: format!("{path} of {} {when}", operator.name), kind: String::new(), text });
        }
        let path = operator.process.log();
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        ensure!(!text.is_empty(), "{} logs nothing", operator.name);
        pages.push(Page { name: format!("log of {} {when}", operator.name), kind: String::new(), text });
        let pid = operator.process.identity().pid;
        let arguments = fs::read(format!("/proc/{pid}/cmdline"))?;
        let text = String::from_utf8_lossy(&arguments).into_owned();
        pages.push(Page { name: format!("arguments of {}", operator.name), kind: String::new(), text });
    }
    ensure!(cluster.operators.len() == operators::ALL.len());
    Ok(())
}

/// What the components say they generate, without what the user chose instead.
async fn passwords(cluster: &Cluster) -> Result<BTreeMap<String, String>> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let mut found = BTreeMap::new();
    // Kubernetes makes that one.
    let token = ("kubemanager1-kubemanager-token".to_owned(), "token".to_owned());
    for (name, key) in
        generated(&tf_testing::resources::all(&cluster.client, NAMESPACE).await?)?.into_iter().chain([token])
    {
        let data = secrets.get(&name).await?.data.unwrap_or_default();
        let value = data.get(&key).with_context(|| format!("Secret {name} has no {key}"))?;
        let text = String::from_utf8(value.0.clone()).context("a credential is text")?;
        ensure!(text.len() >= 8, "{key} of {name} can be guessed");
        if !PUBLIC.contains(&key.as_str()) && CHOSEN.iter().all(|(chosen, _)| *chosen != text) {
            found.insert(text, format!("{name} {key}"));
        }
    }
    Ok(found)
}
