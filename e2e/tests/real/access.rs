//! Pods reach the API server as pods of any cluster do.

use anyhow::Result;
use tf_testing::Lab;

use crate::{NODES, load_tools, run, says};

/// Asks for something that only authenticated users may read, as the pod's ServiceAccount and as nobody. The server must have
/// a certificate of the lab for the name or address it is asked under.
async fn ask(lab: &Lab, name: &str, server: &str, more: &str) -> Result<()> {
    load_tools(lab).await?;
    run(lab, name, "node-2", &format!("client https://{server}/api; sleep 600"), more).await?;
    let log = says(lab, name, "done").await?;
    assert!(log.contains("account: 200 OK {\"kind\":\"APIVersions\""), "{log}");
    assert!(log.contains("nobody: 403 Forbidden"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_pod_on_the_host_network_reaches_the_api_server_through_its_service() -> Result<()> {
    ask(&*NODES.get().await?, "host-asks-address", "10.96.0.1", "hostNetwork: true").await
}

#[tokio::test]
async fn a_pod_with_an_address_of_its_own_reaches_the_api_server_through_its_service() -> Result<()> {
    ask(&*NODES.get().await?, "pod-asks-address", "10.96.0.1", "").await
}

#[tokio::test]
async fn a_pod_on_the_host_network_reaches_the_api_server_by_name() -> Result<()> {
    let more = "hostNetwork: true\n  dnsPolicy: ClusterFirstWithHostNet";
    ask(&*NODES.get().await?, "host-asks-name", "kubernetes.default.svc", more).await
}

#[tokio::test]
async fn a_pod_with_an_address_of_its_own_reaches_the_api_server_by_name() -> Result<()> {
    ask(&*NODES.get().await?, "pod-asks-name", "kubernetes.default.svc", "").await
}

#[tokio::test]
async fn members_of_a_headless_service_are_found_by_name_and_other_names_do_not_exist() -> Result<()> {
    let lab = NODES.get().await?;
    load_tools(&lab).await?;
    lab.apply(
        "
apiVersion: v1
kind: Service
metadata: {name: family}
spec: {clusterIP: None, selector: {in: family}, publishNotReadyAddresses: true}
",
    )
    .await?;
    let script = "\
until nslookup member.family.default.svc.cluster.local; do sleep 1; done
nslookup stranger.family.default.svc.cluster.local
nslookup example.org
echo done; sleep 600";
    let member = run(&lab, "member", "node-3", "sleep 600", "hostname: member\n  subdomain: family").await?;
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::default_namespaced(lab.client().await?);
    let label = serde_json::json!({"metadata": {"labels": {"in": "family"}}});
    pods.patch("member", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(label)).await?;
    run(&lab, "asker", "node-1", script, "").await?;
    let log = says(&lab, "asker", "done").await?;
    let address = member.status.and_then(|status| status.pod_ip).unwrap();
    assert!(log.contains(&address), "{log}");
    assert!(log.matches("NXDOMAIN").count() >= 2, "{log}");
    Ok(())
}
