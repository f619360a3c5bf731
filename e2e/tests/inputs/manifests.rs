//! Manifests as people have them: fields that a release has no more, or never had, are named, and what is meant all the same is done.

use std::{io::Write as _, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use tf_api::kinds::{CONFIG, CONTROL, KUBEMANAGER, MANAGER, RABBITMQ, VROUTER, ZOOKEEPER};
use tf_testing::{Cluster, resources::Resource};

use crate::support::{cluster, kubectl};

const R2011: &str = include_str!("../../../crates/tf-cli/tests/cases/r2011-manager.yaml");
const MISSPELT: &str = include_str!("../../../crates/tf-cli/tests/cases/misspelt-manager.yaml");

/// `kubectl apply --validate=ignore` of a manifest, whose objects are in namespace `tf`.
fn apply(cluster: &Cluster, manifest: &str) -> Result<()> {
    let manifest = manifest.replace("namespace: tf", &format!("namespace: {}", cluster.namespace));
    let mut command = kubectl(cluster)?;
    command.args(["apply", "--validate=ignore", "-f", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("no input")?.write_all(manifest.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "kubectl apply: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Waits until the Manager names all of these fields.
async fn names(cluster: &Cluster, name: &str, fields: &[&str]) -> Result<()> {
    let all = |it: &Resource| fields.iter().all(|field| it.explain("FieldsIgnored").contains(field));
    cluster.until(MANAGER, name, &format!("naming {fields:?}"), all).await?;
    Ok(())
}

#[tokio::test]
async fn a_manager_of_r2011_makes_every_component_and_names_the_fields_that_there_are_no_more() -> Result<()> {
    let cluster = cluster("in-r2011", &["manager-op"]).await?;
    cluster.nodes(1, 0).await?;
    apply(&cluster, R2011)?;
    let fields = [
        "spec.commonConfiguration.clusterConfig: Manager has no such field; use clusterName, podSubnet and serviceSubnet in serviceConfiguration of the Kubemanager",
        "spec.commonConfiguration.tuneSysctl: Manager has no such field",
        "spec.serviceConfiguration.zookeeperInstance",
        "spec.serviceConfiguration.logLevel",
        "spec.serviceConfiguration.metaDataSecret",
    ];
    names(&cluster, "cluster1", &fields).await?;
    for (kind, name) in [
        (ZOOKEEPER, "zookeeper1"),
        (RABBITMQ, "rabbitmq1"),
        (CONFIG, "config1"),
        (CONTROL, "control1"),
        (KUBEMANAGER, "kubemanager1"),
        (VROUTER, "vrouter1"),
    ] {
        cluster.get(kind, name).await?;
    }
    Ok(())
}

#[tokio::test]
async fn misspelt_fields_of_components_are_named_until_they_are_spelt_right() -> Result<()> {
    let cluster = cluster("in-misspelt", &["manager-op"]).await?;
    cluster.nodes(1, 0).await?;
    apply(&cluster, MISSPELT)?;
    let wrong = ["globlaASNNumber", "asnNumbr", "cniMtu"];
    names(&cluster, "sdn", &wrong).await?;
    let right = MISSPELT.replace("globlaASNNumber", "globalASNNumber").replace("asnNumbr", "asnNumber");
    apply(&cluster, &right.replace("cniMtu", "cniMTU"))?;
    let none = |it: &Resource| !wrong.iter().any(|field| it.explain("FieldsIgnored").contains(field));
    cluster.until(MANAGER, "sdn", "naming none of them", none).await?;
    let config = cluster.get(CONFIG, "config1").await?;
    ensure!(config.object.data["spec"]["serviceConfiguration"]["globalASNNumber"] == 65201, "{}", config.object.data);
    Ok(())
}
