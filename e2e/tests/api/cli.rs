//! What `kubectl tf status` tells of a cluster, read once and followed; and the program, asked as people and scripts do.

use std::{fs, path::Path, pin::pin};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use http::Method;
use kube::{Client, config::Kubeconfig};
use serde_json::{Value, json};
use tf_cli::cluster::{self, Found};
use tf_cli::plan;
use tf_cli::status::{Daemons, text, trees};
use tf_testing::Lab;
use tokio::time::timeout;

use crate::{
    kubectl_tf::program,
    support::{APPLY, JSON, MERGE, SOON, collection, defined, get, namespace, path_of, send},
};

const NAMESPACE: &str = "told";

#[tokio::test]
async fn status_tells_what_there_is_and_each_change_of_it() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    namespace(&client, NAMESPACE, json!({})).await?;
    let told = |found: &Found| text(&trees(&found.resources), &found.notes, Daemons::All);
    assert_eq!(told(&cluster::read(&client, Some(NAMESPACE)).await?), "no resources of Tungsten Fabric\n");

    let mut changes = pin!(cluster::watch(&client, Some(NAMESPACE)));
    let mut until = async |wanted: &str| {
        timeout(SOON, async {
            while let Some(found) = changes.next().await {
                if told(&found) == wanted {
                    return anyhow::Ok(());
                }
            }
            anyhow::bail!("the watch ended")
        })
        .await
        .with_context(|| format!("not told: {wanted}"))?
    };
    until("no resources of Tungsten Fabric\n").await?;

    let zookeepers = collection(NAMESPACE, "zookeepers");
    let zookeeper = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "metadata": {"name": "zk"}});
    send(&client, Method::POST, &zookeepers, JSON, zookeeper.to_string()).await?.accepted()?;
    until("namespace told\nZookeeper zk  no operator has reported\n").await?;

    report(&client, NAMESPACE, "False", "ReplicasUnavailable", "2/3").await?;
    let expected =
        "namespace told\nZookeeper zk  ReplicasUnavailable  2/3\n    Ready=False ReplicasUnavailable: zk-2 is down\n";
    until(expected).await?;
    assert_eq!(told(&cluster::read(&client, Some(NAMESPACE)).await?), expected);

    send(&client, Method::DELETE, &format!("{zookeepers}/zk"), JSON, String::new()).await?.accepted()?;
    until("no resources of Tungsten Fabric\n").await
}

/// What an operator would say of Zookeeper zk.
async fn report(client: &Client, namespace: &str, ready: &str, reason: &str, members: &str) -> Result<()> {
    let condition = json!({"type": "Ready", "status": ready, "reason": reason, "message": "zk-2 is down",
                           "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"observedGeneration": 1, "membersReady": members, "conditions": [condition]}});
    let path = format!("{}/zk/status", collection(namespace, "zookeepers"));
    send(client, Method::PATCH, &path, MERGE, status.to_string()).await?.accepted()
}

/// What it tells; an error unless it ends with this code and has nothing to complain of.
async fn says(kubeconfig: &Path, code: i32, arguments: &[&str]) -> Result<String> {
    let (ended, out, error) = program(kubeconfig, arguments, "").await?;
    ensure!(ended == code && error.is_empty(), "{arguments:?}: {ended}\n{out}\n{error}");
    Ok(out)
}

/// A kubeconfig of the lab with one context more, which is in another namespace.
fn with_context(lab: &Lab, name: &str, namespace: &str) -> Result<std::path::PathBuf> {
    let mut config = Kubeconfig::read_from(lab.kubeconfig())?;
    let mut context = config.contexts.first().context("no context")?.clone();
    context.name = name.into();
    context.context.as_mut().context("an empty context")?.namespace = Some(namespace.into());
    config.contexts.push(context);
    let file = lab.folder().kubeconfig(name);
    fs::write(&file, serde_json::to_string(&config)?)?;
    Ok(file)
}

#[tokio::test]
async fn the_program_releases_what_is_being_deleted_from_operators_and_from_no_other() -> Result<()> {
    const OWN: &str = "asked-to-release";
    let lab = defined().await?;
    let client = lab.client().await?;
    let here = lab.kubeconfig();
    namespace(&client, OWN, json!({})).await?;
    let nothing = format!("no resource in namespace {OWN} is being deleted and waits for an operator\n");
    assert_eq!(says(here, 0, &["release", "-n", OWN]).await?, nothing);

    for (name, finalizers) in [
        ("kept", json!(["tf.tungsten.io/vrouter-op"])),
        ("stuck", json!(["tf.tungsten.io/vrouter-op"])),
        ("shared", json!(["tf.tungsten.io/vrouter-op", "example.org/other"])),
    ] {
        let metadata = json!({"name": name, "finalizers": finalizers});
        let vrouter = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Vrouter", "metadata": metadata});
        send(&client, Method::POST, &collection(OWN, "vrouters"), JSON, vrouter.to_string()).await?.accepted()?;
    }
    let path = |name: &str| format!("{}/{name}", collection(OWN, "vrouters"));
    for name in ["stuck", "shared"] {
        send(&client, Method::DELETE, &path(name), JSON, String::new()).await?.accepted()?;
    }
    let line =
        |name: &str| format!("Vrouter {OWN}/{name}: finalizer removed; what it has in the config API stays there\n");
    assert_eq!(says(here, 0, &["release", "-n", OWN]).await?, line("shared") + &line("stuck"));
    assert_eq!(says(here, 0, &["release", "-n", OWN]).await?, nothing, "the other finalizer stays");
    let left = says(here, 0, &["status", "-n", OWN, "-o", "json"]).await?;
    let left: Value = serde_json::from_str(&left)?;
    let names: Vec<_> = left.as_array().context("no list")?.iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["kept", "shared"]);
    Ok(())
}

#[tokio::test]
async fn the_program_prints_values_that_pin_what_pods_run_and_names_what_it_cannot_pin() -> Result<()> {
    const OWN: &str = "asked-to-lock";
    const IMAGE: &str = "opensdn/opensdn-external-zookeeper:24.1";
    let lab = defined().await?;
    let client = lab.client().await?;
    let here = lab.kubeconfig();
    namespace(&client, OWN, json!({})).await?;
    let nothing = program(here, &["lock", "-n", OWN], "").await?;
    assert_eq!(nothing, (2, String::new(), format!("error: no component has pods in namespace {OWN}\n")));

    let labels = json!({
        "tf_manager": "zookeeper",
        "app.kubernetes.io/managed-by": "zookeeper-op",
        "app.kubernetes.io/part-of": "tungsten-fabric",
    });
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "zk-0", "labels": labels},
        "spec": {"nodeName": "node1", "containers": [{"name": "zookeeper", "image": IMAGE}]},
    });
    let pods = format!("/api/v1/namespaces/{OWN}/pods");
    send(&client, Method::POST, &pods, JSON, pod.to_string()).await?.accepted()?;
    let report = async |id: &str| {
        let state = json!({"name": "zookeeper", "image": IMAGE, "imageID": id, "ready": true, "restartCount": 0});
        let status = json!({"status": {"phase": "Running", "containerStatuses": [state]}});
        send(&client, Method::PATCH, &format!("{pods}/zk-0/status"), MERGE, status.to_string()).await?.accepted()
    };
    let pinned = format!("docker.io/opensdn/opensdn-external-zookeeper@sha256:{}", "ab".repeat(32));
    report(&pinned).await?;
    let values: Value = serde_saphyr::from_str(&says(here, 0, &["lock", "-n", OWN]).await?)?;
    assert_eq!(values, json!({"operands": {"images": {"external-zookeeper": pinned}}}));
    assert_eq!(
        says(here, 0, &["lock", "-n", OWN, "--operator", "zookeeper-op"]).await?,
        says(here, 0, &["lock", "-n", OWN]).await?
    );
    let (code, _, error) = program(here, &["lock", "-n", OWN, "--operator", "redis-op"], "").await?;
    assert_eq!((code, error), (2, format!("error: no component of redis-op has pods in namespace {OWN}\n")));

    report(&format!("sha256:{}", "ab".repeat(32))).await?;
    let (code, out, error) = program(here, &["lock", "-n", OWN], "").await?;
    let problem = format!("image external-zookeeper is not pinned: {IMAGE} on node1 was loaded into the node");
    assert!(code == 1 && error.starts_with(&format!("error: {problem}")), "{code}\n{out}\n{error}");
    assert!(out.starts_with(&format!("# {problem}")), "{out}");
    assert_eq!(serde_saphyr::from_str::<Value>(&out)?, json!({"operands": {}}));
    Ok(())
}

#[tokio::test]
async fn the_program_tells_the_status_and_ends_with_the_code_that_scripts_wait_for() -> Result<()> {
    const OWN: &str = "asked-for-status";
    let lab = defined().await?;
    let client = lab.client().await?;
    let here = lab.kubeconfig();
    namespace(&client, OWN, json!({})).await?;
    assert_eq!(says(here, 0, &["status", "-n", OWN]).await?, "no resources of Tungsten Fabric\n");
    assert_eq!(says(here, 1, &["status", "-n", OWN, "--check", "-o", "json"]).await?, "[]\n");

    let zookeeper = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "metadata": {"name": "zk"}});
    send(&client, Method::POST, &collection(OWN, "zookeepers"), JSON, zookeeper.to_string()).await?.accepted()?;
    report(&client, OWN, "False", "ReplicasUnavailable", "2/3").await?;
    let expected = format!(
        "namespace {OWN}\nZookeeper zk  ReplicasUnavailable  2/3\n    Ready=False ReplicasUnavailable: zk-2 is down\n"
    );
    assert_eq!(says(here, 0, &["status", "-n", OWN]).await?, expected);
    assert_eq!(says(here, 1, &["status", "-n", OWN, "--check"]).await?, expected);
    let all = says(here, 0, &["status", "-A"]).await?;
    assert!(all.contains(&expected), "{all}");
    let trees: Value = serde_json::from_str(&says(here, 0, &["status", "-n", OWN, "-o", "json"]).await?)?;
    assert_eq!(trees[0]["name"], "zk", "{trees}");
    assert_eq!((&trees[0]["namespace"], &trees[0]["reason"]), (&json!(OWN), &json!("ReplicasUnavailable")), "{trees}");

    report(&client, OWN, "True", "Succeeded", "3/3").await?;
    let expected = format!("namespace {OWN}\nZookeeper zk  Ready  3/3\n");
    assert_eq!(says(here, 0, &["status", "-n", OWN, "--check"]).await?, expected);
    let two = with_context(&lab, "another-context", OWN)?;
    let path = two.to_str().context("a path")?;
    assert_eq!(says(&two, 0, &["status", "--context", "another-context"]).await?, expected);
    let arguments = ["status", "--kubeconfig", path, "--context", "another-context"];
    assert_eq!(says(Path::new("/nonexistent"), 0, &arguments).await?, expected);
    let (code, out, error) = program(&two, &["status", "--context", "a-third-one"], "").await?;
    assert!(code == 2 && out.is_empty() && error.contains("a-third-one"), "{code} {out} {error}");
    Ok(())
}

#[tokio::test]
async fn the_program_plans_against_what_is_there_and_stores_nothing() -> Result<()> {
    const OWN: &str = "asked-for-a-plan";
    let lab = defined().await?;
    let client = lab.client().await?;
    namespace(&client, OWN, json!({})).await?;
    let node = json!({"apiVersion": "v1", "kind": "Node",
                      "metadata": {"name": "cp1", "labels": {"node-role.kubernetes.io/control-plane": ""}},
                      "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
    let zookeeper = |spec: Value| {
        let metadata = json!({"name": "zk"});
        json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "metadata": metadata, "spec": spec})
    };
    let plan = async |spec: Value, options: &[&str]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [node.clone(), zookeeper(spec)]});
        let arguments = [&["plan", "-f", "-", "-n", OWN], options].concat();
        program(lab.kubeconfig(), &arguments, &list.to_string()).await
    };

    let (code, out, error) = plan(json!({"serviceConfiguration": {"clientPort": 2888}}), &[]).await?;
    ensure!(code == 2 && out.is_empty(), "{code}\n{out}\n{error}");
    ensure!(error.starts_with("error: the API server refuses Zookeeper zk: "), "{error}");
    let (code, out, error) = plan(json!({}), &["--check"]).await?;
    ensure!(code == 1 && error.is_empty(), "{code}\n{out}\n{error}");
    ensure!(out.starts_with(&format!("Zookeeper {OWN}/zk: members on cp1\n")), "{out}");
    ensure!(out.ends_with(" objects are made, 0 changed, 0 removed, 0 stay as they are\n"), "{out}");
    let zookeepers = collection(OWN, "zookeepers");
    let stored = get(&client, &zookeepers).await?.body;
    ensure!(stored["items"] == json!([]), "it was stored: {stored}");

    send(&client, Method::POST, &zookeepers, JSON, zookeeper(json!({})).to_string()).await?.accepted()?;
    let (code, out, error) = plan(json!({}), &["-o", "yaml"]).await?;
    ensure!(code == 0 && error.is_empty(), "{code}\n{out}\n{error}");
    let maps = plan::read(&out, "elsewhere")?.into_iter().map(|object| serde_json::to_value(&object));
    let maps = maps.collect::<Result<Vec<_>, _>>()?;
    let files = maps.iter().find(|map| map["metadata"]["name"] == "zk-zookeeper-files").context(out.clone())?;
    let path = path_of(files)? + "?fieldManager=zookeeper-op&force=true";
    send(&client, Method::PATCH, &path, APPLY, files.to_string()).await?.accepted()?;
    let (code, out, error) = plan(json!({"commonConfiguration": {"logLevel": "debug"}}), &[]).await?;
    ensure!(code == 0 && error.is_empty(), "{code}\n{out}\n{error}");
    ensure!(out.contains(&format!("  ~ ConfigMap {OWN}/zk-zookeeper-files\n")) && out.contains("      +"), "{out}");
    ensure!(out.contains(" objects are made, 1 changed, 0 removed, "), "{out}");
    Ok(())
}
