//! What is told of a manifest before anything is applied, without a cluster.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

use std::{fs, path::Path};

use futures::FutureExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tf_api::kinds;
use tf_cli::plan::{self, Change, Changed, Given, Outcome, Preview, Report};
use tf_plan::object::{CONFIG_MAP, SECRET, STATEFUL_SET};

fn previews(manifests: &[&str]) -> Vec<Preview> {
    let mut given = Given::new("cluster.local");
    for manifest in manifests {
        for object in plan::read(manifest, "tf").unwrap() {
            assert!(given.take(plan::seen(object)).unwrap());
        }
    }
    given.suppose_nodes(plan::usual_nodes());
    let made = async |_: &Preview, object: &_| plan::made(object);
    // Nothing is waited for.
    plan::all(&mut given, Timestamp::UNIX_EPOCH, made).now_or_never().unwrap().unwrap()
}

fn example() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join("examples/manager.yaml")).unwrap()
}

/// What kubeadm leaves behind.
const KUBEADM: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: kubeadm-config, namespace: kube-system}
data:
  ClusterConfiguration: |
    clusterName: kubernetes
    networking: {podSubnet: 10.32.0.0/12, serviceSubnet: 10.96.0.0/12}
";

fn told(previews: Vec<Preview>) -> String {
    plan::text(&previews.into_iter().map(Report::anew).collect::<Vec<_>>(), &[])
}

#[test]
fn of_the_example_everything_is_planned_as_if_what_it_needs_served() {
    let previews = previews(&[&example(), KUBEADM]);
    let open: Vec<_> = previews.iter().filter(|preview| !preview.is_whole()).collect();
    assert!(open.is_empty(), "{open:?}");
    insta::assert_snapshot!(told(previews));
}

#[test]
fn what_stands_in_for_a_generated_credential_is_shown_no_more_than_one_that_is_given() {
    let given = "apiVersion: v1\nkind: Secret\nmetadata: {name: rabbitmq1-secret}\nstringData: {user: mallory, password: Hunter2Hunter2}";
    let previews = previews(&[&example(), given]);
    let yaml = plan::yaml(&previews);
    assert!(yaml.contains("kind: Secret") && yaml.contains("bytes)"));
    for secret in ["mallory", "Hunter2Hunter2", "xxxxxxxx", "SHVudGVy"] {
        assert!(!yaml.contains(secret), "{secret}");
    }
}

#[test]
fn what_cannot_be_carried_out_is_told_with_what_to_do() {
    let zookeeper = "apiVersion: tf.tungsten.io/v1alpha1\nkind: Zookeeper\nmetadata: {name: zk}\nspec:";
    let ports = format!("{zookeeper} {{serviceConfiguration: {{agentPort: 2181}}}}");
    assert!(
        told(previews(&[&ports])).starts_with("Zookeeper tf/zk is refused, InvalidSpec: "),
        "{}",
        told(previews(&[&ports]))
    );
    let text = format!("{zookeeper} {{serviceConfiguration: {{clientPort: many}}}}");
    assert!(
        told(previews(&[&text])).starts_with("Zookeeper tf/zk is not valid: spec.serviceConfiguration.clientPort: ")
    );
    let config = "apiVersion: tf.tungsten.io/v1alpha1\nkind: Config\nmetadata: {name: config1}\nspec: {}";
    let told = told(previews(&[config]));
    assert!(told.starts_with("Config tf/config1 waits, "), "{told}");
}

#[test]
fn the_order_of_a_manifest_does_not_matter() {
    let documents = ["Zookeeper", "Rabbitmq", "Cassandra", "Redis", "Config"].map(|kind| {
        let name = if kind == "Cassandra" { "configdb1".into() } else { format!("{}1", kind.to_lowercase()) };
        format!("apiVersion: tf.tungsten.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{}}\n")
    });
    let forwards = documents.join("---\n");
    let backwards = documents.iter().rev().cloned().collect::<Vec<_>>().join("---\n");
    assert_eq!(plan::yaml(&previews(&[&forwards])), plan::yaml(&previews(&[&backwards])));
    let all = previews(&[&forwards]);
    assert!(all.iter().all(|preview| matches!(preview.outcome, Outcome::Planned(_))), "{}", told(all));
}

#[test]
fn nodes_and_facts_of_the_files_are_used() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: alpha, labels: {node-role.kubernetes.io/control-plane: ''}}\nstatus: {addresses: [{type: InternalIP, address: 10.9.8.7}]}";
    let zookeeper = "apiVersion: tf.tungsten.io/v1alpha1\nkind: Zookeeper\nmetadata: {name: zk}\nspec: {}";
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [serde_saphyr::from_str::<serde_json::Value>(node).unwrap()]});
    for nodes in [node.to_owned(), list.to_string()] {
        let told = told(previews(&[zookeeper, &nodes]));
        assert!(told.starts_with("Zookeeper tf/zk: members on alpha\n"), "{told}");
    }
}

#[test]
fn what_openshift_says_of_itself_in_the_files_is_used() {
    let network = "apiVersion: config.openshift.io/v1\nkind: Network\nmetadata: {name: cluster}\nstatus: {clusterNetwork: [{cidr: 10.128.0.0/14}], serviceNetwork: [172.30.0.0/16]}\n";
    let previews = previews(&[&example(), network, KUBEADM]);
    let kubemanager = previews.iter().find(|preview| preview.kind == kinds::KUBEMANAGER).unwrap();
    let Outcome::Planned(plan) = &kubemanager.outcome else { panic!("{:?}", kubemanager.outcome) };
    let told = "pods are in 10.128.0.0/14 by status.clusterNetwork of Network cluster";
    assert!(plan.drafts.iter().any(|draft| draft.message.contains(told)), "{:?}", plan.drafts);
    let another = plan::read(&network.replace("name: cluster", "name: other"), "tf").unwrap().remove(0);
    assert!(!Given::new("cluster.local").take(another).unwrap());
}

#[test]
fn a_manifest_that_is_none_is_refused_with_the_document() {
    let refused = |text: &str| plan::read(text, "tf").unwrap_err().to_string();
    assert_eq!(refused("a: 1"), "document 1: apiVersion and kind are missing");
    assert_eq!(
        refused("apiVersion: v1\nkind: Node\n---\napiVersion: v1\nkind: Pod\nmetadata: {}"),
        "document 1: Node without metadata.name"
    );
    assert!(!refused("{").is_empty());
}

/// The Go tf-operator's manifest with every option of its templates, beside what it refers to. One node has no address in the data subnet.
const OPTIONS: &str = include_str!("cases/go-operator-every-option.yaml");
const BESIDE: &str = include_str!("cases/go-operator-beside.yaml");

/// Leaves of a value with their JSON pointers.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(field, value)| leaves(value, &format!("{path}/{}", field.replace('/', "~1")), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| leaves(item, &format!("{path}/{index}"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

/// Another value of the same kind.
fn another(value: &Value) -> Value {
    match value {
        Value::Bool(is) => json!(!is),
        Value::Number(number) => json!(number.as_u64().unwrap() + 1),
        Value::String(text) => match text.rfind(|it: char| it.is_ascii_digit() && it != '9') {
            Some(at) => {
                let next = char::from(text.as_bytes()[at] + 1);
                json!(format!("{}{next}{}", &text[..at], &text[at + 1..]))
            }
            None => json!(format!("{text}x")),
        },
        other => panic!("{other}"),
    }
}

/// What operators would make of it in the end: all but the resources of our own kinds. What is refused counts, too.
fn made(manifest: &Value) -> (Vec<String>, String) {
    let previews = previews(&[&manifest.to_string(), BESIDE, KUBEADM]);
    let ignored = previews.iter().filter_map(|preview| match &preview.outcome {
        Outcome::Planned(plan) => Some(plan.ignored.iter().map(|it| format!("{} {it}", preview.name))),
        _ => None,
    });
    let ignored = ignored.flatten().collect();
    let outcome = |preview: &Preview| {
        let objects = preview.objects().iter().filter(|object| object.kind.group != tf_api::GROUP);
        let bodies: Vec<String> = objects.map(|object| object.body.to_string()).collect();
        let refused = match &preview.outcome {
            Outcome::Planned(plan) => format!("{:?} {:?}", plan.held, plan.registration),
            other => format!("{other:?}"),
        };
        format!("{} {refused} {}", preview.name, bodies.concat())
    };
    (ignored, previews.iter().map(outcome).collect())
}

/// Names and labels of the entries, and what a container is called, are no options.
fn is_option(path: &str) -> bool {
    !(path.contains("/metadata/") || path.contains("/containers/") && path.ends_with("/name"))
}

#[test]
fn every_option_of_the_go_operator_has_an_effect_or_is_named_and_no_component_names_what_it_inherits() {
    let manifest: Value = serde_saphyr::from_str(OPTIONS).unwrap();
    let (ignored, before) = made(&manifest);
    let mut options = Vec::new();
    leaves(&manifest["spec"], "/spec", &mut options);
    options.retain(|path| is_option(path));
    assert!(options.len() > 75, "{}", options.len());
    let silent = options.iter().filter(|path| {
        let mut changed = manifest.clone();
        let value = changed.pointer_mut(path).unwrap();
        *value = another(value);
        let parts: Vec<&str> = path.split('/').collect();
        let field = match manifest.pointer(&path.replace("/image", "/name")).and_then(Value::as_str) {
            Some(container) if path.contains("/containers/") => format!("containers[{container}]"),
            _ => parts.iter().rev().find(|part| part.parse::<usize>().is_err()).unwrap().to_string(),
        };
        let (named, after) = made(&changed);
        !ignored.iter().chain(&named).any(|it| it.contains(&field)) && after == before
    });
    let silent: Vec<&String> = silent.collect();
    assert!(silent.is_empty(), "{silent:#?}");

    let passed_down =
        ignored.iter().filter(|it| !it.starts_with("cluster1 ") && it.contains(" spec.commonConfiguration"));
    assert_eq!(passed_down.collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(!before.contains("not-a-real-password"), "a password is in no object but by its base64 in Secrets");
}

#[test]
fn a_vrouter_with_dpdk_has_forwarders_beside_one_of_the_kernel_and_a_profile_of_both_modes_is_refused() {
    let manifest = include_str!("cases/dpdk-beside-kernel.yaml");
    let both = previews(&[manifest, KUBEADM]);
    let of = |name: &str| both.iter().find(|preview| preview.name == name).unwrap();
    let Outcome::NotReady(refused) = &of("vrouter-dpdk").outcome else { panic!("{:?}", of("vrouter-dpdk")) };
    let expected =
        "VrouterProfile forwarding has dpdk and kernelMode; a node forwards in one of both, so make two profiles";
    assert_eq!(refused.message, expected);
    assert!(of("vrouter-dpdk").objects().is_empty() && of("vrouter-kernel").is_whole());

    let one = manifest.replace("        kernelMode: {moreConfig: {FLOW_EXPORT_RATE: \"0\"}}\n", "");
    let planned = previews(&[&one, KUBEADM]);
    for (name, forwarders) in [("vrouter-dpdk", 2), ("vrouter-kernel", 0)] {
        let preview = planned.iter().find(|preview| preview.name == name).unwrap();
        assert!(preview.is_whole(), "{preview:?}");
        let sets = preview.objects().iter().filter(|object| object.kind.kind == "DaemonSet");
        let has_one = |body: &Value| body.to_string().contains("vrouteragentdpdk");
        assert_eq!(sets.filter(|object| has_one(&object.body)).count(), forwarders, "{name}");
    }
}

#[test]
fn groups_of_the_example_with_profiles_are_planned_with_what_their_profiles_state() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vrouter-profiles.yaml");
    let example = fs::read_to_string(example).unwrap();
    let of =
        |manifest: &str, name: &str| previews(&[manifest, KUBEADM]).into_iter().find(|it| it.name == name).unwrap();
    let vrouter = of(&example, "vrouter1");
    let listed = |group: &str| {
        let map = vrouter.objects().iter().find(|object| object.name == "vrouter1-parameters").unwrap();
        map.body["data"][group].as_str().unwrap().to_owned()
    };
    for (group, gateway) in [("dpdk", "192.0.2.1"), ("sriov", "192.0.2.2"), ("kernel", "192.0.2.3")] {
        let listed = listed(group);
        assert_eq!(
            listed.contains("CPU_CORE_MASK=0xF  # VrouterProfile dpdk: dpdk.coreMask"),
            group == "dpdk",
            "{listed}"
        );
        assert!(
            listed.contains(&format!("VROUTER_GATEWAY={gateway}  # spec.groups[{group}].vrouterGateway")),
            "{listed}"
        );
        let options = "VROUTER_MODULE_OPTIONS  # VrouterProfile flows: kernelMode.moreConfig";
        assert_eq!(listed.contains(options), group != "dpdk", "{listed}");
        assert_eq!(listed.contains("SRIOV_VF=8  # VrouterProfile sriov"), group == "sriov", "{listed}");
    }
    assert!(told(previews(&[&example])).contains("VrouterProfile tf/flows: Vrouters whose groups name it read it"));
    // As in the design of 2019: a profile that is not there, a name with a blank, two groups that want the same nodes.
    let refused = |manifest: &str| match of(manifest, "vrouter1").outcome {
        Outcome::NotReady(refused) => refused.message,
        other => panic!("{other:?}"),
    };
    let missing = refused(&example.replace("    - sriov\n", "    - other-profile1\n"));
    assert!(
        missing.starts_with("VrouterProfile tf/other-profile1 does not exist, and spec.groups[sriov].profiles"),
        "{missing}"
    );
    let same = refused(&example.replace("nic: plain", "nic: sriov"));
    assert!(same.starts_with("groups sriov and kernel of spec.groups take the same nodes"), "{same}");
    let single = refused(&example.replace("coreMask: \"0xF\"", "coreMask: \"2\""));
    assert!(single.starts_with("VrouterProfile dpdk: dpdk.coreMask: write a mask with 0x, or a list"), "{single}");
}

#[test]
fn workers_of_the_api_have_a_queue_of_1024_and_ports_that_nothing_else_has() {
    let manifest = include_str!("cases/several-workers.yaml");
    let config = |manifest: &str| {
        let previews = previews(&[manifest, KUBEADM]);
        previews.into_iter().find(|preview| preview.name == "config1").unwrap()
    };
    let four = config(manifest);
    let files: String = four.objects().iter().map(|object| object.body.to_string()).collect();
    assert!(files.contains("workers = 4\\n") && files.contains("listen = 1024\\n"), "{files}");
    let refused = |manifest: &str| match config(manifest).outcome {
        Outcome::NotReady(refused) => refused.message,
        other => panic!("{other:?}"),
    };
    let many = refused(&manifest.replace("apiWorkerCount: 4", "apiWorkerCount: 64"));
    assert!(many.starts_with("the port 19102 of node agents would be that of an API worker"), "{many}");
    let high = refused(&manifest.replace("apiIntrospectPort: 9084", "apiIntrospectPort: 55534"));
    assert!(high.contains("apiIntrospectPort + 10000 + 4 must be at most 65535"), "{high}");
}

#[test]
fn a_change_is_shown_by_its_lines_and_what_a_secret_holds_by_its_length() {
    let map = |level: &str| json!({"kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": level}, "data": {"level": level}});
    assert_eq!(Change::between(CONFIG_MAP, &map("info"), &map("info")), Change::Same);
    let Change::Changed(Changed { lines, replaces_pods }) = Change::between(CONFIG_MAP, &map("info"), &map("debug"))
    else {
        panic!("no change")
    };
    assert!(
        lines.contains("-  level: info\n+  level: debug\n") && !lines.contains("resourceVersion") && !replaces_pods,
        "{lines}"
    );

    let secret = |value: &str| json!({"kind": "Secret", "data": {"password": value, "user": "dXNlcg=="}});
    let Change::Changed(Changed { lines, .. }) =
        Change::between(SECRET, &secret("aHVudGVyMg=="), &secret("aHVudGVyMw=="))
    else {
        panic!("no change")
    };
    assert!(lines.contains("+  password: (7 bytes, another one)") && !lines.contains("aHVu"), "{lines}");

    let set = |image: &str| json!({"kind": "StatefulSet", "spec": {"replicas": 3, "template": {"image": image}}});
    let Change::Changed(changed) = Change::between(STATEFUL_SET, &set("a:1"), &set("a:2")) else { panic!("no change") };
    assert!(changed.replaces_pods);
}
