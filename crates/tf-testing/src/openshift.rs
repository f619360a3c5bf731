//! What a cluster of OpenShift has to say of itself, in a lab: the definitions of `config.openshift.io` and their objects, as OpenShift 4.14
//! shows them. Nothing acts on them, and whoever writes an object writes its status, too.

use anyhow::Result;
use serde_json::{Value, json};
use tf_plan::{
    cluster::{INFRASTRUCTURE, NETWORK},
    object::Kind,
};

use crate::Lab;

/// Installs the definitions.
///
/// # Errors
/// When the API server does not take them.
pub async fn define(lab: &Lab) -> Result<()> {
    let definitions = [NETWORK, INFRASTRUCTURE].map(definition);
    // JSON is YAML.
    lab.apply(&json!({"kind": "List", "items": definitions}).to_string()).await?;
    Ok(())
}

fn definition(kind: Kind) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let properties = json!({"spec": schema, "status": schema});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural, kind.group)},
        "spec": {
            "group": kind.group,
            "scope": "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": format!("{}List", kind.kind),
                "plural": kind.plural,
                "singular": kind.kind.to_lowercase(),
            },
            "versions": [{
                "name": kind.version,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            }],
        },
    })
}

/// The Network, with these subnets deployed, and others wished for.
pub fn network(pods: &[&str], services: &[&str]) -> Value {
    let deployed: Vec<Value> = pods.iter().map(|cidr| json!({"cidr": cidr, "hostPrefix": 23})).collect();
    json!({
        "apiVersion": NETWORK.api_version(),
        "kind": NETWORK.kind,
        "metadata": {"name": "cluster"},
        "spec": {
            "clusterNetwork": [{"cidr": "10.196.0.0/14", "hostPrefix": 23}],
            "externalIP": {"policy": {}},
            "networkType": "TF",
            "serviceNetwork": ["172.29.0.0/16"],
        },
        "status": {
            "clusterNetwork": deployed, "clusterNetworkMTU": 1450, "networkType": "TF", "serviceNetwork": services,
        },
    })
}

/// What the cluster stands on, with its API server at this address.
pub fn infrastructure(server: &str) -> Value {
    json!({
        "apiVersion": INFRASTRUCTURE.api_version(),
        "kind": INFRASTRUCTURE.kind,
        "metadata": {"name": "cluster"},
        "spec": {"cloudConfig": {"name": ""}, "platformSpec": {"type": "BareMetal"}},
        "status": {
            "apiServerInternalURI": server,
            "apiServerURL": "https://api.ocp.example.org:6443",
            "controlPlaneTopology": "HighlyAvailable",
            "etcdDiscoveryDomain": "",
            "infrastructureName": "ocp-x7k2p",
            "infrastructureTopology": "HighlyAvailable",
            "platform": "BareMetal",
            "platformStatus": {"type": "BareMetal"},
        },
    })
}
