//! A table of the nodes of a vRouter, from what their pods report.

#![cfg(test)]

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tf_agent_api::host::{Finding, SUMMARY_LIMIT, Summary};
use tf_cli::nodes::{Row, rows, text};

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

/// A pod on a node that reported this, whose agent serves.
fn pod(node: &str, message: &str) -> Value {
    let terminated = json!({"exitCode": 0, "message": message, "finishedAt": "2026-11-30T09:00:00Z"});
    json!({
        "metadata": {
            "name": format!("vrouter1-{node}"),
            "namespace": "tf",
            "creationTimestamp": "2026-11-30T08:59:00Z",
            "labels": {"app.kubernetes.io/instance": "vrouter1"},
        },
        "spec": {"nodeName": node, "containers": []},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "initContainerStatuses": [{
                "name": "preflight", "image": "a", "imageID": "a", "ready": true, "restartCount": 0, "state": {"terminated": terminated},
            }],
        },
    })
}

fn summary() -> Summary {
    Summary {
        uplinks: vec!["eth0".into()],
        vhost0: Some("10.0.0.7/24".into()),
        kernel: "6.1.0-18-amd64".into(),
        module: Some("loaded".into()),
        cni: Some("10-tf-cni.conf".into()),
        ..Summary::default()
    }
}

fn of(pods: impl IntoIterator<Item = Value>) -> Vec<Row> {
    let pods: Vec<Pod> = pods.into_iter().map(|pod| serde_json::from_value(pod).unwrap()).collect();
    rows(&pods)
}

#[test]
fn each_node_is_a_line_and_what_stands_in_its_way_is_below_the_table() {
    let finding = |id: &str, blocks, text: &str| Finding { id: id.into(), blocks, text: text.into() };
    let leased = Summary {
        vhost0: None,
        module: None,
        cni: None,
        findings: vec![
            finding("uplink-address-leased", true, "10.0.0.8/24 of eth0 is leased; give eth0 a static address"),
            finding("uplink-mtu-small", false, "eth0 has an MTU of 1500; raise the MTU"),
        ],
        left_out: 2,
        ..summary()
    };
    let mut blocked = pod("worker-2", &leased.message(SUMMARY_LIMIT));
    blocked["metadata"]["labels"]["tf.tungsten.io/group"] = "edge".into();
    let failed = json!({"exitCode": 3, "message": "10.0.0.8/24 is leased; nothing was touched", "reason": "Error"});
    let failing = json!({
        "name": "vhost0", "image": "a", "imageID": "a", "ready": false, "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": failed},
    });
    blocked["status"]["initContainerStatuses"].as_array_mut().unwrap().push(failing);
    blocked["status"]["conditions"][0]["status"] = "False".into();

    let unscheduled = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["worker-3"]}]});
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [unscheduled]}});
    let mut pending = pod("worker-3", "");
    pending["spec"] = json!({"containers": [], "affinity": {"nodeAffinity": affinity}});
    pending["status"] =
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "1 Insufficient hugepages-2Mi"}]});

    let mut removal = pod("worker-9", "");
    removal["metadata"]["labels"]["tf.tungsten.io/group"] = "tf-removal".into();

    let found = of([pending, blocked, pod("worker-1", &summary().message(SUMMARY_LIMIT)), removal]);
    let expected = "\
NODE      VROUTER        AGENT      INTERFACE  VHOST0       MODULE      KERNEL          CNI             FINDINGS
worker-1  vrouter1       Ready      eth0       10.0.0.7/24  loaded      6.1.0-18-amd64  10-tf-cni.conf  none
worker-2  vrouter1/edge  not ready  eth0       none         not loaded  6.1.0-18-amd64  none            1 blocking, 3 warning
worker-3  vrouter1       not ready  ?          ?            ?           ?               ?               ?

worker-2 (as of 3h ago)
  agent   container vhost0: CrashLoopBackOff after exit code 3: 10.0.0.8/24 is leased; nothing was touched
  blocks  uplink-address-leased: 10.0.0.8/24 of eth0 is leased; give eth0 a static address
  warns   uplink-mtu-small: eth0 has an MTU of 1500; raise the MTU
  and 2 more: kubectl tf nodes worker-2

worker-3
  agent   not scheduled on node worker-3: 1 Insufficient hugepages-2Mi
  nothing was reported of the node yet
";
    assert_eq!(text(&found, now()), expected);
    assert_eq!(found.iter().map(Row::is_well).collect::<Vec<_>>(), [true, false, false]);
}

#[test]
fn a_report_that_the_kubelet_cut_counts_as_none_and_of_two_pods_on_a_node_the_newest_counts() {
    let message = summary().message(SUMMARY_LIMIT);
    let cut = of([pod("worker-1", &message[..40])]);
    assert_eq!((cut[0].ready, &cut[0].summary), (true, &None));

    let mut former = pod("worker-1", &message);
    former["metadata"]["deletionTimestamp"] = "2026-11-30T11:00:00Z".into();
    let mut newest = pod("worker-1", "");
    newest["metadata"]["name"] = "newest".into();
    let found = of([newest.clone(), former.clone()]);
    assert_eq!(found.iter().map(|row| row.pod.as_str()).collect::<Vec<_>>(), ["newest"]);
    assert_eq!(of([former, newest]), found);
    assert_eq!(text(&[], now()), "no pods of a Vrouter\n");
}

#[test]
fn after_a_boot_the_former_report_stands_until_there_is_another_one() {
    let mut booted = pod("worker-1", &summary().message(SUMMARY_LIMIT));
    let status = &mut booted["status"]["initContainerStatuses"][0];
    status["lastState"] = status["state"].take();
    status["state"] = json!({"waiting": {"reason": "PodInitializing"}});
    assert_eq!(of([booted])[0].summary, Some(summary()));
}
