//! The generated credentials of a namespace: which there are, and whether one ever changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{ListParams, WatchEvent, WatchParams},
};
use tf_plan::component::Component;
use tf_testing::resources::Resource;

/// A key of a Secret.
pub type Name = (String, String);

/// Each value that a key ever had.
type Values = BTreeMap<Name, BTreeSet<Vec<u8>>>;

/// What the components of these resources generate.
pub fn generated(resources: &[Resource]) -> Result<BTreeSet<Name>> {
    let mut names = BTreeSet::new();
    for resource in resources {
        add::<analytics_op::Analytics>(resource, &mut names)?;
        add::<analytics_op::AnalyticsAlarm>(resource, &mut names)?;
        add::<analytics_op::AnalyticsSnmp>(resource, &mut names)?;
        add::<analytics_op::QueryEngine>(resource, &mut names)?;
        add::<cassandra_op::Component>(resource, &mut names)?;
        add::<config_op::Component>(resource, &mut names)?;
        add::<control_op::Component>(resource, &mut names)?;
        add::<kubemanager_op::Component>(resource, &mut names)?;
        add::<manager_op::Component>(resource, &mut names)?;
        add::<rabbitmq_op::Component>(resource, &mut names)?;
        add::<redis_op::Component>(resource, &mut names)?;
        add::<vrouter_op::Component>(resource, &mut names)?;
        add::<webui_op::Component>(resource, &mut names)?;
        add::<zookeeper_op::Component>(resource, &mut names)?;
    }
    Ok(names)
}

fn add<C: Component>(resource: &Resource, names: &mut BTreeSet<Name>) -> Result<()> {
    if C::declaration().primary.kind == resource.kind.kind {
        let cr: C::Cr = serde_json::from_value(serde_json::to_value(&resource.object)?)?;
        names.extend(C::credentials(&cr).into_iter().map(|credential| (credential.secret, credential.key.to_owned())));
    }
    Ok(())
}

/// Every value that any key of any Secret of a namespace has had since the recording began, for less than five minutes.
pub struct Recording {
    values: Arc<Mutex<Values>>,
    task: tokio::task::JoinHandle<()>,
}

impl Recording {
    /// Begins, with what is there.
    pub async fn of(client: &Client, namespace: &str) -> Result<Self> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let list = secrets.list(&ListParams::default()).await?;
        let version = list.metadata.resource_version.context("a list without a version")?;
        let mut events = secrets.watch(&WatchParams::default().timeout(290), &version).await?.boxed();
        let values = Arc::new(Mutex::new(Values::new()));
        for secret in list.items {
            add_values(&mut values.lock().unwrap_or_else(PoisonError::into_inner), secret);
        }
        let writer = Arc::clone(&values);
        let task = tokio::spawn(async move {
            while let Some(Ok(event)) = events.next().await {
                let (WatchEvent::Added(secret) | WatchEvent::Modified(secret)) = event else { continue };
                add_values(&mut writer.lock().unwrap_or_else(PoisonError::into_inner), secret);
            }
        });
        Ok(Self { values, task })
    }

    /// The one value of each of these keys; an error for a key that never had one, or more than one.
    pub fn only_values(&self, names: &BTreeSet<Name>) -> Result<BTreeMap<Name, String>> {
        ensure!(!self.task.is_finished(), "the recording of Secrets has ended");
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = BTreeMap::new();
        for name in names {
            let had: Vec<_> = values.get(name).into_iter().flatten().collect();
            // How many is said, the values themselves are not.
            ensure!(had.len() == 1, "key {} of Secret {} had {} values", name.1, name.0, had.len());
            found.insert(name.clone(), String::from_utf8(had[0].clone()).context("a credential is text")?);
        }
        Ok(found)
    }
}

fn add_values(values: &mut Values, secret: Secret) {
    let name = secret.metadata.name.unwrap_or_default();
    for (key, value) in secret.data.unwrap_or_default() {
        values.entry((name.clone(), key)).or_default().insert(value.0);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.task.abort();
    }
}
