//! An operator as users have it: a pod of its chart, on real nodes.

use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};
use tf_api::names::NODE_CONTROL_PLANE;

use crate::{Lab, Options, RealNode, operators::Install};

/// A lab of control-plane nodes that have these images, with an operator installed from its chart.
pub async fn installed(
    options: Options,
    operator: &str,
    namespace: &str,
    images: &[PathBuf],
    values: &[&str],
) -> Result<Lab> {
    let lab = Lab::start(options).await?;
    for node in lab.real_nodes()?.all()? {
        label_control_plane(&lab, node.name()).await?;
    }
    lab.real_nodes()?.load(images).await?;
    let values = ["replicaCount=1"].iter().chain(values).map(ToString::to_string).collect();
    lab.install(operator, namespace, &Install { values, ..Install::default() }).await?;
    Ok(lab)
}

/// Labels a node as one of the control plane, which is where stores are placed.
pub async fn label_control_plane(lab: &Lab, node: &str) -> Result<()> {
    lab.nodes().await?.label(node, NODE_CONTROL_PLANE, Some("")).await
}

/// Takes a node out of the control plane.
pub async fn unlabel_control_plane(lab: &Lab, node: &str) -> Result<()> {
    lab.nodes().await?.label(node, NODE_CONTROL_PLANE, None).await
}

/// A node that an operator's pod is not on: what happens to that one would happen to the operator, too.
pub async fn node_without(lab: &Lab, client: &Client, operator: &str, namespace: &str) -> Result<RealNode> {
    let beside = node_of(client, operator, namespace).await?;
    let mut nodes = lab.real_nodes()?.all()?.into_iter();
    nodes.find(|node| node.name() != beside).with_context(|| format!("no node without {operator}"))
}

/// The node that an operator's pod is on.
pub async fn node_of(client: &Client, operator: &str, namespace: &str) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let list = pods.list(&ListParams::default().labels(&format!("app.kubernetes.io/name={operator}"))).await?;
    let pod = list.items.into_iter().find(|pod| pod.metadata.deletion_timestamp.is_none());
    let pod = pod.with_context(|| format!("{operator} has no pod"))?;
    pod.spec.and_then(|spec| spec.node_name).with_context(|| format!("the pod of {operator} has no node"))
}
