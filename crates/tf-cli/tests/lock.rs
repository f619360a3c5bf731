//! Values that pin what pods run, and images that cannot be pinned.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

use std::{collections::BTreeSet, fs, path::Path};

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tf_cli::{
    lock::{Cause, Lock},
    plan::{self, Given, Preview},
};
use tf_plan::images::{self, ImageOverrides};

const ZOOKEEPER: &str = "opensdn/opensdn-external-zookeeper:24.1";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A digest that is easy to tell from others.
fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

/// What containerd reports of an image that it pulled from Docker Hub.
fn pulled(repository: &str, digit: char) -> String {
    format!("docker.io/{repository}@{}", digest(digit))
}

/// A pod of a ZooKeeper on a node of the same number; what its node reports of its server.
fn pod(number: u8, id: &str) -> Value {
    let status = |name: &str, image: &str, id: &str| json!({"name": name, "image": image, "imageID": id, "ready": true, "restartCount": 0});
    json!({
        "metadata": {"name": format!("zk-{number}"), "labels": {
            "tf_manager": "zookeeper",
            "app.kubernetes.io/managed-by": "zookeeper-op",
        }},
        "spec": {
            "nodeName": format!("node{number}"),
            "initContainers": [{"name": "tf-node", "image": "tungstenfabric/tf-node:0.1.0"}],
            "containers": [{"name": "zookeeper", "image": ZOOKEEPER}, {"name": "istio-proxy", "image": "istio/proxyv2:1"}],
        },
        "status": {
            "phase": "Running",
            "initContainerStatuses": [status("tf-node", "tungstenfabric/tf-node:0.1.0", &pulled("tungstenfabric/tf-node", 'f'))],
            "containerStatuses": [
                status("zookeeper", ZOOKEEPER, id),
                status("istio-proxy", "istio/proxyv2:1", &pulled("istio/proxyv2", 'e')),
            ],
        },
    })
}

fn lock(pods: impl IntoIterator<Item = Value>) -> Lock {
    let pods: Vec<Pod> = pods.into_iter().map(|pod| serde_json::from_value(pod).unwrap()).collect();
    Lock::of(&pods)
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const NAME: &str = "opensdn/opensdn-external-zookeeper";

#[test]
fn what_all_nodes_run_is_pinned_and_containers_of_others_are_not() {
    let lock = lock([1, 2, 3].map(|number| pod(number, &pulled(NAME, 'a'))));
    assert_eq!(lock.problems, []);
    insta::assert_snapshot!(lock.yaml().unwrap());
}

#[test]
fn two_digests_of_one_image_are_named_with_their_nodes_and_neither_is_pinned() {
    let [one, other] = [pulled(NAME, 'a'), pulled(NAME, 'b')];
    let lock = lock([pod(1, &one), pod(2, &other), pod(3, &one)]);
    let Cause::Different(digests) = &lock.problems[0].cause else { panic!("{lock:?}") };
    assert_eq!((&digests[&one], &digests[&other]), (&set(&["node1", "node3"]), &set(&["node2"])));
    assert!(lock.images.is_empty() && lock.tf_node.is_some(), "{lock:?}");
    insta::assert_snapshot!(lock.yaml().unwrap());
}

#[test]
fn an_image_that_was_loaded_into_a_node_is_named_with_the_node() {
    let lock = lock([pod(1, &pulled(NAME, 'a')), pod(2, &digest('c'))]);
    assert_eq!(lock.problems[0].cause, Cause::Loaded { references: set(&[ZOOKEEPER]), nodes: set(&["node2"]) });
    assert!(lock.images.is_empty(), "{lock:?}");
    let message = lock.problems[0].to_string();
    assert!(
        message.starts_with(
            "image external-zookeeper is not pinned: opensdn/opensdn-external-zookeeper:24.1 on node2 was loaded"
        ),
        "{message}"
    );
}

#[test]
fn pods_that_wait_go_or_have_ended_do_not_count_while_others_run() {
    let running = pod(1, &pulled(NAME, 'a'));
    let waiting = pod(2, "");
    let mut going = pod(3, &pulled(NAME, 'b'));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut ended = pod(4, &pulled(NAME, 'c'));
    ended["status"]["phase"] = json!("Failed");
    let mut strange = pod(5, &pulled(NAME, 'd'));
    strange["metadata"]["labels"].as_object_mut().unwrap().remove("app.kubernetes.io/managed-by");
    let all = lock([running, waiting.clone(), going.clone(), ended, strange.clone()]);
    assert_eq!((all.problems.as_slice(), &all.images["external-zookeeper"]), (&[][..], &pulled(NAME, 'a')));

    assert_eq!(lock([waiting]).problems[0].cause, Cause::NotStarted(set(&["zk-2"])));
    assert!(lock([going, strange]).is_empty(), "no pod of ours runs");
}

#[test]
fn one_digest_from_two_registries_and_the_words_of_docker_are_one_image() {
    let mirrored = format!("mirror.example:5000/external-zookeeper@{}", digest('a'));
    let docker = format!("docker-pullable://{NAME}@{}", digest('a'));
    let lock = lock([pod(1, &docker), pod(2, &mirrored)]);
    assert_eq!((lock.problems.as_slice(), &lock.images["external-zookeeper"]), (&[][..], &mirrored));
}

#[test]
fn the_installer_of_the_kernel_module_is_known_by_its_image() {
    let installer = |image: &str| {
        let id = format!("{}@{}", image.rsplit_once(':').unwrap().0, digest('a'));
        let mut pod = pod(1, "");
        pod["metadata"]["labels"] = json!({"tf_manager": "vrouter", "app.kubernetes.io/managed-by": "vrouter-op"});
        pod["spec"]["initContainers"] = json!([{"name": "vrouterkernelinit", "image": image}]);
        pod["status"]["initContainerStatuses"] =
            json!([{"name": "vrouterkernelinit", "image": image, "imageID": id, "ready": true, "restartCount": 0}]);
        let [name] = lock([pod]).images.into_keys().collect::<Vec<_>>().try_into().unwrap();
        name
    };
    assert_eq!(installer("registry:5000/opensdn-vrouter-kernel-init:24.1"), "vrouter-kernel-init");
    assert_eq!(installer("registry:5000/opensdn-vrouter-kernel-build-init:24.1"), "vrouter-kernel-build-init");
    assert_eq!(installer("registry:5000/own:1"), "vrouter-kernel-init");
}

/// Everything of the example as pods, on nodes that have pulled all of it.
fn example() -> Vec<Value> {
    let mut given = Given::new("cluster.local");
    let manifest = fs::read_to_string(root().join("examples/manager.yaml")).unwrap();
    for object in plan::read(&manifest, "tf").unwrap() {
        assert!(given.take(plan::seen(object)).unwrap());
    }
    given.suppose_nodes(plan::usual_nodes());
    let made = async |_: &Preview, object: &_| plan::made(object);
    let previews = plan::all(&mut given, Timestamp::UNIX_EPOCH, made).now_or_never().unwrap().unwrap();
    let templates = previews.iter().flat_map(Preview::objects).filter_map(|object| {
        let mut pod = object.body.pointer("/spec/template")?.clone();
        let status = |container: &Value| {
            let image = container["image"].as_str().unwrap();
            let id = format!("docker.io/{}@{}", image.rsplit_once(':').unwrap().0, digest('0'));
            json!({"name": container["name"], "image": image, "imageID": id, "ready": true, "restartCount": 0})
        };
        let statuses = |key: &str| pod["spec"][key].as_array().into_iter().flatten().map(status).collect::<Value>();
        let status =
            json!({"initContainerStatuses": statuses("initContainers"), "containerStatuses": statuses("containers")});
        pod["status"] = status;
        pod["spec"]["nodeName"] = json!("node1");
        Some(pod)
    });
    templates.collect()
}

#[test]
fn every_container_of_the_example_is_pinned_under_the_name_by_which_its_operator_asks_for_it() {
    let pods = example();
    let lock = lock(pods.clone());
    assert_eq!(lock.problems, []);
    let overrides =
        ImageOverrides { references: lock.images.clone(), tf_node: lock.tf_node.clone(), ..ImageOverrides::default() };
    let release = images::release(None).unwrap();
    let mut operands = 0;
    for pod in &pods {
        for key in ["initContainers", "containers"] {
            for container in pod["spec"][key].as_array().into_iter().flatten() {
                let image = container["image"].as_str().unwrap();
                let (repository, _) = image.rsplit_once(':').unwrap();
                let becomes = match repository.strip_prefix(release.prefix) {
                    Some(name) => images::reference(name, &release, &overrides),
                    None => images::tf_node(&overrides, "0"),
                };
                assert_eq!(becomes, format!("docker.io/{repository}@{}", digest('0')), "{container}");
                operands += 1;
            }
        }
    }
    assert!(operands > 30, "{operands}");
}

#[test]
fn every_chart_accepts_the_values() {
    let values: Value = serde_saphyr::from_str(&lock(example()).yaml().unwrap()).unwrap();
    let values = values.as_object().unwrap();
    let mut charts = 0;
    for chart in fs::read_dir(root().join("charts")).unwrap() {
        let schema = fs::read_to_string(chart.unwrap().path().join("values.schema.json")).unwrap();
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let operands = &schema["properties"]["operands"]["properties"];
        assert_eq!(operands["images"]["additionalProperties"]["type"], "string");
        assert_eq!(operands["tfNodeImage"]["type"], "string");
        charts += 1;
    }
    assert_eq!(charts, 11);
    assert_eq!(values.keys().collect::<Vec<_>>(), ["operands"]);
    let operands = values["operands"].as_object().unwrap();
    assert_eq!(operands.keys().collect::<Vec<_>>(), ["images", "tfNodeImage"]);
    assert!(operands["images"].as_object().unwrap().values().all(Value::is_string), "{operands:?}");
    assert!(operands["tfNodeImage"].is_string(), "{operands:?}");
}
