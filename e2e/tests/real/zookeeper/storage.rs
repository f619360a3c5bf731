//! Where the data is: a claimed volume outlives the pod, an empty directory outlives the container.

use kube::api::DeleteParams;
use tf_testing::wait::gone;

use super::journal::Journal;
use super::*;

/// A volume that somebody has made by hand, for a claim of class `lab`.
const VOLUME: &str = "
apiVersion: v1
kind: PersistentVolume
metadata: {name: lab}
spec:
  storageClassName: lab
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: /var/lib/lab-volume, type: DirectoryOrCreate}
";

struct Scene<'a> {
    client: &'a Client,
    server: IpAddr,
}

impl Scene<'_> {
    /// A server with such storage, and a journal of what was written to it.
    async fn write(&self, name: &str, storage: serde_json::Value) -> Result<Journal> {
        let spec = json!({"commonConfiguration": {"replicas": 1, "storage": storage}});
        resources::apply(self.client, ZOOKEEPER, NAMESPACE, name, spec).await?;
        resources::ready(self.client, ZOOKEEPER, NAMESPACE, name, BRING_UP).await?;
        let journal = Journal::begin(&[self.server]).await?;
        eventually("20 writes", Duration::from_secs(30), async || Ok((journal.written() >= 20).then_some(()))).await?;
        Ok(journal)
    }

    async fn pod(&self) -> Result<Pod> {
        pods(self.client).await?.into_values().next().context("no pod")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_outlives_the_pod_and_an_empty_directory_the_container() -> Result<()> {
    if !Long::Storage.is_drawn()? {
        return Ok(());
    }
    with_lab(1, async |lab, client| {
        let node = lab.real_nodes()?.all()?.into_iter().next().context("one node")?;
        let scene = Scene { client, server: node.address() };
        lab.apply(VOLUME).await?;
        let api: Api<Pod> = Api::namespaced(scene.client.clone(), NAMESPACE);

        let claim = json!({"persistentVolumeClaim": {"size": "1Gi", "class": "lab"}});
        let journal = scene.write("claimed", claim).await?;
        let first = scene.pod().await?;
        api.delete(&first.name_any(), &DeleteParams::default()).await?;
        gone(&api, &first, BRING_UP).await?;
        resources::ready(scene.client, ZOOKEEPER, NAMESPACE, "claimed", BRING_UP).await?;
        assert_ne!(scene.pod().await?.uid(), first.uid());
        let account = journal.end(&[scene.server]).await?;
        assert!(account.acknowledged.len() >= 20);
        assert!(!node.run("ls", &["/var/lib/lab-volume"]).await?.is_empty(), "the data is in the volume");

        let second = scene.pod().await?;
        let zookeepers = resources::api(scene.client, ZOOKEEPER, NAMESPACE);
        zookeepers.delete("claimed", &DeleteParams::default()).await?;
        gone(&api, &second, BRING_UP).await?;
        assert!(!node.run("ls", &["/var/lib/lab-volume"]).await?.is_empty(), "and stays when the resource is deleted");

        let journal = scene.write("fleeting", json!({"emptyDir": {}})).await?;
        let before = scene.pod().await?;
        node.kill("tf-node")?;
        eventually("the container to be started again", BRING_UP, async || {
            let status = scene.pod().await?.status.unwrap_or_default();
            let restarts = status.container_statuses.iter().flatten().map(|container| container.restart_count).max();
            Ok((restarts > Some(0)).then_some(()))
        })
        .await?;
        resources::ready(scene.client, ZOOKEEPER, NAMESPACE, "fleeting", BRING_UP).await?;
        assert_eq!(scene.pod().await?.uid(), before.uid());
        journal.end(&[scene.server]).await?;
        Ok(())
    })
    .await
}
