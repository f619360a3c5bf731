//! What daemons are configured with: as it is stored, and as it is in use on every node. Texts are compared by what hashes of them say, since some are
//! secret.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::*;

/// Files in use, of which each set has a directory of its own (`tf_node::materialise`), with what is in them.
const IN_USE: &str = "cd /var/lib/kubelet/pods && sha256sum */volumes/kubernetes.io~empty-dir/files-*/..data/*";
/// Files in use on one node: its pods have more containers than that, of which each has some.
const FILES: usize = 25;

/// Hashes by the names of what they are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration(BTreeMap<String, String>);

impl Configuration {
    /// Everything that is there now.
    pub async fn of(lab: &Lab, client: &Client) -> Result<Self> {
        let (mut all, every) = (BTreeMap::new(), ListParams::default());
        for map in Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE).list(&every).await? {
            all.insert(format!("ConfigMap {}", map.name_any()), hash(&json!([map.data, map.binary_data])));
        }
        for secret in Api::<Secret>::namespaced(client.clone(), NAMESPACE).list(&every).await? {
            all.insert(format!("Secret {}", secret.name_any()), hash(&json!(secret.data)));
        }
        for node in lab.real_nodes()?.all()? {
            let files = node.run("bash", &["-c", IN_USE]).await?;
            let files: Vec<_> = files.lines().filter_map(|line| line.split_once("  ")).collect();
            ensure!(files.len() >= FILES, "only {} files are in use on {}", files.len(), node.name());
            all.extend(files.into_iter().map(|(hash, file)| (format!("{file} on {}", node.name()), hash.to_owned())));
        }
        Ok(Self(all))
    }

    /// Fails where anything is another one, or is gone, or is there that was not.
    pub fn is(&self, now: &Self) -> Result<()> {
        let names = self.0.keys().chain(now.0.keys());
        let mut changed: Vec<&String> = names.filter(|name| self.0.get(*name) != now.0.get(*name)).collect();
        changed.sort();
        changed.dedup();
        ensure!(changed.is_empty(), "the configuration is another one: {changed:?}");
        Ok(())
    }

    /// Looks again and again until a time has passed since something began.
    pub async fn stays(&self, lab: &Lab, client: &Client, begun: Instant, time: Duration) -> Result<()> {
        const PERIOD: Duration = Duration::from_secs(5);
        while begun.elapsed() < time {
            self.is(&Self::of(lab, client).await?)?;
            tokio::time::sleep(PERIOD).await;
        }
        Ok(())
    }
}

fn hash(content: &Value) -> String {
    format!("{:x?}", Sha256::digest(content.to_string()))
}
