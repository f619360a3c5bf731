//! Releases in the hands of Helm: installed, upgraded, uninstalled, side by side.
//!
//! These tests have a lab whose definitions come from the charts, as a user's do. Definitions exist once in a cluster, so
//! one test at a time acts on those of an operator; each test has the operator to itself that it names.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds};
use tf_testing::{Lab, Options, SharedLab, helm::Rendering, operators::Install, wait::eventually};

use crate::support::{JSON, SOON, collection, get, namespace, objects, path_of, send};

static LAB: SharedLab = SharedLab::new(Options::api);

/// A release of one operator.
struct Release {
    lab: Arc<Lab>,
    client: Client,
    operator: &'static str,
    namespace: String,
    /// Of what the chart renders.
    paths: Vec<String>,
}

impl Release {
    async fn of(operator: &'static str, namespace_: impl Into<String>) -> Result<Self> {
        let lab = LAB.get().await?;
        let client = lab.client().await?;
        let namespace_ = namespace_.into();
        namespace(&client, &namespace_, json!({})).await?;
        let objects = objects(operator, &Rendering::new(operator, &namespace_)).await?;
        let paths = objects.iter().map(path_of).collect::<Result<_>>()?;
        Ok(Self { lab, client, operator, namespace: namespace_, paths })
    }

    /// Installs it or upgrades it with these values, and returns when its kinds are served: the API server changes a
    /// definition a few times until then.
    async fn install(&self, values: &[&str]) -> Result<String> {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let install = Install { values, without_definitions: false };
        let said = self.lab.install(self.operator, &self.namespace, &install).await?;
        for kind in self.kinds() {
            let collection = collection(&self.namespace, kind.plural);
            eventually(&format!("{} to be served", kind.plural), SOON, async || {
                Ok((get(&self.client, &collection).await?.code == 200).then_some(()))
            })
            .await?;
        }
        Ok(said)
    }

    fn kinds(&self) -> impl Iterator<Item = KindInfo> {
        kinds::ALL.into_iter().filter(|kind| kind.operator == self.operator)
    }

    async fn uninstall(&self) -> Result<String> {
        self.lab.uninstall(self.operator, &self.namespace).await
    }

    /// Versions of what the chart renders, by path; `None` for what does not exist.
    async fn versions(&self) -> Result<BTreeMap<String, Option<String>>> {
        let mut versions = BTreeMap::new();
        for path in &self.paths {
            let found = get(&self.client, path).await?;
            let version = found.body["metadata"]["resourceVersion"].as_str().map(str::to_owned);
            versions.insert(path.clone(), version.filter(|_| found.code == 200));
        }
        Ok(versions)
    }

    /// Stores a resource and a Secret, as users do.
    async fn store(&self, name: &str) -> Result<Stored> {
        let kind = self.kinds().next().context("no kind")?;
        let collection = collection(&self.namespace, kind.plural);
        let resource = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": kind.kind, "metadata": {"name": name}});
        let created = send(&self.client, Method::POST, &collection, JSON, resource.to_string()).await?;
        created.accepted()?;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        let secrets = format!("/api/v1/namespaces/{}/secrets", self.namespace);
        send(&self.client, Method::POST, &secrets, JSON, secret.to_string()).await?.accepted()?;
        let uid = created.body["metadata"]["uid"].clone();
        Ok(Stored { kind, resource: format!("{collection}/{name}"), secret: format!("{secrets}/{name}"), uid })
    }

    /// That what was stored is what is there, not a copy.
    async fn has(&self, stored: &Stored) -> Result<()> {
        let found = get(&self.client, &stored.resource).await?;
        found.accepted().context("the user's resource")?;
        assert_eq!(found.body["metadata"]["uid"], stored.uid);
        get(&self.client, &stored.secret).await?.accepted().context("the user's Secret")
    }

    async fn deployment(&self) -> Result<Value> {
        let path = format!("/apis/apps/v1/namespaces/{}/deployments/{}", self.namespace, self.operator);
        Ok(get(&self.client, &path).await?.body)
    }
}

/// What a user stored.
struct Stored {
    kind: KindInfo,
    resource: String,
    secret: String,
    uid: Value,
}

fn is_definition(path: &str) -> bool {
    path.contains("/customresourcedefinitions/")
}

fn missing(versions: &BTreeMap<String, Option<String>>) -> Vec<&String> {
    versions.iter().filter(|(_, version)| version.is_none()).map(|(path, _)| path).collect()
}

#[tokio::test]
async fn a_release_comes_stays_as_it_is_when_applied_again_and_leaves_what_users_stored() -> Result<()> {
    let live = |operator: &'static str| async move {
        let release = Release::of(operator, format!("life-{operator}")).await?;
        let notes = release.install(&[]).await?;
        assert!(notes.contains(&format!("watches namespace(s) life-{operator}.")), "{notes}");
        assert!(notes.contains("kubectl get tf"), "{notes}");
        let stored = release.store("mine").await?;
        let installed = release.versions().await?;
        assert_eq!(missing(&installed), Vec::<&String>::new(), "{operator}");

        release.install(&[]).await?;
        assert_eq!(release.versions().await?, installed, "{operator}: the same chart again is no change");

        let said = release.uninstall().await?;
        assert!(said.contains("kept due to the resource policy") && said.contains(stored.kind.plural), "{said}");
        let left = release.versions().await?;
        for (path, version) in &left {
            assert_eq!(version.is_some(), is_definition(path), "{operator}: {path}");
        }
        release.has(&stored).await?;

        // The release of the same name takes its definitions back.
        release.install(&[]).await?;
        assert_eq!(missing(&release.versions().await?), Vec::<&String>::new(), "{operator} again");
        release.has(&stored).await?;
        // Nothing keeps the token or the history of a release that is gone.
        release.uninstall().await?;
        let path = format!("/api/v1/namespaces/{}/secrets", release.namespace);
        let secrets = get(&release.client, &path).await?.body;
        let names: Vec<&Value> =
            secrets["items"].as_array().into_iter().flatten().map(|secret| &secret["metadata"]["name"]).collect();
        assert_eq!(names, ["mine"], "{operator}");
        anyhow::Ok(())
    };
    // As many at a time as there are cores: each is a run of Helm.
    let operators = ["cassandra-op", "config-op", "manager-op"];
    stream::iter(operators).map(live).buffer_unordered(2).try_collect().await
}

#[tokio::test]
async fn a_changed_value_replaces_the_pods_and_nothing_else() -> Result<()> {
    let release = Release::of("vrouter-op", "changed").await?;
    release.install(&[]).await?;
    let (before, deployment) = (release.versions().await?, release.deployment().await?);
    release.install(&["logging.level=debug"]).await?;
    let after = release.versions().await?;
    let changed: Vec<&String> = after.keys().filter(|path| after.get(*path) != before.get(*path)).collect();
    assert_eq!(changed, ["/apis/apps/v1/namespaces/changed/deployments/vrouter-op"]);
    let now = release.deployment().await?;
    // The template is what a Deployment rolls by, and the selector can never be changed.
    assert_ne!(now["spec"]["template"], deployment["spec"]["template"]);
    assert_eq!(now["spec"]["selector"], deployment["spec"]["selector"]);
    assert_eq!(now["metadata"]["generation"], 2);

    // Another scope is another set of roles: the old ones go.
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/changed/roles/vrouter-op";
    get(&release.client, role).await?.accepted()?;
    release.install(&["watch.scope=cluster"]).await?;
    assert_eq!(get(&release.client, role).await?.code, 404, "the role of the namespace");
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/changed-vrouter-op";
    get(&release.client, role).await?.accepted()
}

#[tokio::test]
async fn a_second_release_says_whose_the_definitions_are_and_lives_beside_the_first_without_them() -> Result<()> {
    let left = Release::of("zookeeper-op", "left").await?;
    left.install(&[]).await?;
    let right = Release::of("zookeeper-op", "right").await?;
    let refused = right.install(&[]).await.err().map(|error| format!("{error:#}")).context("was installed")?;
    for part in ["zookeepers.tf.tungsten.io", "invalid ownership metadata", "current value is \"left\""] {
        assert!(refused.contains(part), "{part:?} is not in {refused}");
    }
    let own = |versions: BTreeMap<String, Option<String>>| -> BTreeMap<String, Option<String>> {
        versions.into_iter().filter(|(path, _)| !is_definition(path)).collect()
    };
    let there = own(right.versions().await?);
    assert_eq!(missing(&there).len(), there.len(), "a refused release leaves nothing: {there:?}");

    let before = left.versions().await?;
    right.install(&["crds.install=false"]).await?;
    assert_eq!(left.versions().await?, before, "the first, after the second came");
    let stored = (left.store("mine").await?, right.store("mine").await?);

    let before = right.versions().await?;
    assert_eq!(missing(&before), Vec::<&String>::new());
    left.uninstall().await?;
    assert_eq!(right.versions().await?, before, "the second, after the first went");
    left.has(&stored.0).await?;
    right.has(&stored.1).await
}

#[tokio::test]
async fn definitions_and_their_resources_go_only_when_a_user_says_so_twice() -> Result<()> {
    let release = Release::of("rabbitmq-op", "kept").await?;
    release.install(&[]).await?;
    let stored = release.store("mine").await?;
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rabbitmqs.tf.tungsten.io";

    // No longer to install them is not to remove them, and neither is it for a release that comes back to them.
    release.install(&["crds.install=false"]).await?;
    get(&release.client, definition).await?.accepted().context("no longer installed")?;
    release.has(&stored).await?;
    release.install(&[]).await?;
    release.has(&stored).await?;

    // `crds.keep=false`, and then an uninstall.
    release.install(&["crds.keep=false"]).await?;
    release.has(&stored).await?;
    release.uninstall().await?;
    eventually("the definition to be gone", SOON, async || {
        Ok((get(&release.client, definition).await?.code == 404).then_some(()))
    })
    .await?;
    assert_eq!(get(&release.client, &stored.resource).await?.code, 404);
    get(&release.client, &stored.secret).await?.accepted().context("the user's Secret")
}
