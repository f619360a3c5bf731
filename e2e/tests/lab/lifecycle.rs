//! Labs come and go, and nothing of them stays behind.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use tf_testing::wait::eventually;
use tf_testing::{Component, Lab, Options, Tier, folder, lab};

use crate::API;

#[tokio::test]
async fn two_labs_at_once_are_two_clusters() -> Result<()> {
    let (one, two) = tokio::try_join!(Lab::start(Options::api()), Lab::start(Options::api()))?;
    assert_ne!(one.endpoint()?.url, two.endpoint()?.url);
    one.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: only-here}, data: {a: b}}").await?;
    let find = async |lab: &Lab| {
        anyhow::Ok(Api::<ConfigMap>::default_namespaced(lab.client().await?).get_opt("only-here").await?)
    };
    assert!(find(&one).await?.is_some() && find(&two).await?.is_none());

    let version = one.client().await?.apiserver_version().await?;
    assert_eq!(version.git_version, tf_testing::assets::KUBERNETES);
    let mut stranger = lab::client_config(one.kubeconfig()).await?;
    stranger.cluster_url = two.endpoint()?.url.parse()?;
    assert!(Client::try_from(stranger)?.apiserver_version().await.is_err(), "the other lab's CA is not trusted");
    Ok(())
}

#[tokio::test]
async fn nothing_is_left_of_a_lab_that_was_dropped() -> Result<()> {
    let lab = Lab::start(Options { tier: Tier::Controllers, ..Options::api() }).await?;
    let folder = lab.folder().clone();
    let processes = tf_testing::process::records(&folder)?;
    assert_eq!(processes.len(), 3);
    assert!(processes.iter().all(|process| process.identity.is_alive()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder.path()), mode(lab.kubeconfig())), (0o700, 0o600));

    drop(lab);
    assert!(processes.iter().all(|process| !process.identity.is_alive()));
    assert!(!folder.path().exists());
    Ok(())
}

#[tokio::test]
#[ignore = "the other program of a_lab_whose_owner_was_killed_is_swept: it waits to be killed"]
async fn a_program_that_is_killed_with_a_lab() -> Result<()> {
    let _lab = Lab::start(Options::api().named(std::env::var("LAB_TO_LEAVE_BEHIND")?)).await?;
    std::future::pending().await
}

#[tokio::test]
async fn a_lab_whose_owner_was_killed_is_swept() -> Result<()> {
    let name = format!("left-{:08x}", std::process::id());
    let mut owner = Command::new(std::env::current_exe()?)
        .args(["--ignored", "--exact", "lifecycle::a_program_that_is_killed_with_a_lab"])
        .env("LAB_TO_LEAVE_BEHIND", &name)
        .spawn()?;
    let lab = eventually("the other program's lab", Duration::from_mins(1), async || {
        let attached = Lab::attach(&name).ok();
        let Some(lab) = attached else { return Ok(None) };
        let answers = lab.client().await?.apiserver_version().await.is_ok();
        Ok(answers.then_some(lab))
    })
    .await?;
    let processes = tf_testing::process::records(lab.folder())?;

    let root = folder::root()?;
    assert!(!folder::sweep(&root)?.contains(&name), "its owner lives");
    owner.kill()?;
    owner.wait()?;
    assert!(
        processes.iter().all(|process| process.identity.is_alive()),
        "SIGKILL gave the owner no chance to clean up"
    );
    // Another test that starts a lab at this moment may be quicker, hence no look at what this sweep found.
    folder::sweep(&root)?;
    assert!(processes.iter().all(|process| !process.identity.is_alive()));
    assert!(!lab.folder().path().exists());
    Ok(())
}

#[tokio::test]
async fn a_background_lab_outlives_its_guard_until_it_is_taken_down() -> Result<()> {
    let name = format!("background-{:08x}", std::process::id());
    drop(Lab::start(Options { background: true, ..Options::api().named(&name) }).await?);
    assert!(Lab::start(Options::api().named(&name)).await.is_err(), "the name is taken");

    folder::sweep(&folder::root()?)?;
    let lab = Lab::attach(&name)?;
    lab.client().await?.apiserver_version().await?;
    let processes = tf_testing::process::records(lab.folder())?;
    lab.down()?;
    assert!(processes.iter().all(|process| !process.identity.is_alive()));
    assert!(Lab::attach(&name).is_err());
    Ok(())
}

#[tokio::test]
async fn the_api_server_can_freeze_die_and_come_back_with_its_data() -> Result<()> {
    let lab = Lab::start(Options::api()).await?;
    lab.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}}").await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(lab.client().await?);

    lab.pause(Component::ApiServer)?;
    assert!(tokio::time::timeout(Duration::from_millis(500), maps.get("kept")).await.is_err(), "frozen, not refused");
    lab.resume(Component::ApiServer)?;
    maps.get("kept").await?;

    lab.kill(Component::ApiServer)?;
    assert!(matches!(maps.get("kept").await, Err(error) if !matches!(error, kube::Error::Api(_))));
    lab.restart(Component::ApiServer).await?;
    maps.get("kept").await?;
    Ok(())
}

#[tokio::test]
async fn a_crd_and_its_first_object_can_be_applied_together() -> Result<()> {
    let lab = API.get().await?;
    let applied = lab
        .apply(
            "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.lab.example}
spec:
  group: lab.example
  names: {kind: Widget, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: lab.example/v1
kind: Widget
metadata: {name: first}
size: 3
",
        )
        .await?;
    lab.apply("{apiVersion: v1, kind: Pod, metadata: {name: bare}, spec: {containers: [{name: c, image: none}]}}")
        .await?;
    assert_eq!(applied[1].data["size"], 3);
    assert_eq!(applied[1].metadata.namespace.as_deref(), Some("default"));
    Ok(())
}
