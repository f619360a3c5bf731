//! docs/install.md and docs/uninstall.md, word by word: their blocks are run as they stand there, on nodes that no network plugin has made Ready, with images
//! from a registry. Of the manifest the heaps and the vRouter's pods are those of [`whole::manifest`], with the CNI plugin besides.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tf_testing::Options;
use tf_testing::assets::{self, Tool};
use tf_testing::operators::{self, repository};
use tf_testing::real::operator::label_control_plane;
use tf_testing::real::registry::Registry;
use tokio::process::Command;

use super::*;

/// The registry of the pages.
const REGISTRY: &str = "registry.example:5000";
/// For the operators' pods to run and for everything that a page has deleted to be gone.
const SOON: Duration = Duration::from_mins(5);
/// What clusters keep by themselves, and what expires: `kubectl api-resources` calls them so.
const PASSING: [&str; 6] = [
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "endpointslices.discovery.k8s.io",
    "componentstatuses",
    "certificatesigningrequests.certificates.k8s.io",
];

/// What docs/uninstall.md names: ends of a definition's name and of that of its API, and folders of nodes.
const NAMED: [&str; 2] = [" network-attachment-definitions.k8s.cni.cncf.io", " v1.k8s.cni.cncf.io"];
const FOLDERS: [&str; 5] =
    ["/var/lib/contrail", "/var/log/contrail", "/var/lib/dnsmasq", "/var/lib/tftp", "/run/secrets"];

/// A shell in which the blocks run.
struct Shell {
    path: String,
    kubeconfig: PathBuf,
    registry: String,
    manifest: PathBuf,
}

impl Shell {
    /// With `kubectl`, `helm` and `cargo` in this folder.
    fn new(lab: &Lab, registry: &Registry, folder: &Path) -> Result<Self> {
        let manifest = folder.join("manager.yaml");
        let (alone, with_plugin) = ("[{name: vrouteragent}]", "[{name: vrouteragent}, {name: vroutercni}]");
        fs::write(&manifest, whole::manifest()?.replace(alone, with_plugin))?;
        symlink(assets::find(Tool::Helm)?, folder.join("helm"))?;
        script(
            &folder.join("kubectl"),
            &format!("exec {} kubectl \"$@\"", assets::find(Tool::ControlPlane)?.display()),
        )?;
        // The registry has no TLS, of which the page says what to add; tests have the profile built already.
        let image = "if [ \"$2\" = image ]; then set -- \"$@\" --plain-http --profile lab; fi";
        script(&folder.join("cargo"), &format!("{image}\nexec {} \"$@\"", env!("CARGO")))?;
        Ok(Self {
            path: format!("{}:{}", folder.display(), std::env::var("PATH")?),
            kubeconfig: lab.kubeconfig().to_owned(),
            registry: registry.name(),
            manifest,
        })
    }

    /// Runs a block of a page, and shows what it printed.
    async fn run(&self, block: &str) -> Result<String> {
        println!("--- {block}");
        let said = self.output(block).await?;
        println!("{said}");
        Ok(said)
    }

    /// What a block prints.
    async fn output(&self, block: &str) -> Result<String> {
        let block = block.replace(REGISTRY, &self.registry);
        let block = block.replace("examples/manager.yaml", &self.manifest.display().to_string());
        let mut command = Command::new("bash");
        command.args(["-euc", &block]).current_dir(repository()).kill_on_drop(true);
        command.env("PATH", &self.path).env("KUBECONFIG", &self.kubeconfig).env_remove("TF_IMAGES");
        let output = command.output().await?;
        let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{block}: {}\n{said}\n{error}", output.status);
        Ok(format!("{said}{error}"))
    }
}

fn script(path: &Path, line: &str) -> Result<()> {
    fs::write(path, format!("#!/bin/sh\n{line}\n"))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// The blocks of shell of a page, in their order.
fn blocks(page: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(repository().join("docs").join(page))?;
    let parts = text.split("```sh\n").skip(1);
    parts.map(|part| Ok(part.split_once("```").context("a block without an end")?.0.trim_end().to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_install_and_uninstall_everything_on_three_nodes_without_a_network_and_on_one() -> Result<()> {
    if Sample::from_environment(0)? != Sample::All {
        return skip::this_test("takes longer than a run has time; cargo xtask soak life runs it");
    }
    let Some(archives) = image::archives(whole::archives())? else { return Ok(()) };
    for nodes in [3, 1] {
        let lab = Turn::take(Lab::start(Options::real(nodes))).await?;
        let client = lab.client().await?;
        if let Err(error) = follows(&lab, &client, &archives).await.with_context(|| format!("on {nodes} nodes")) {
            return Err(CONFIG.with_testimony(error, &client).await);
        }
    }
    Ok(())
}

async fn follows(lab: &Lab, client: &Client, archives: &[PathBuf]) -> Result<()> {
    let registry = Registry::start(lab).await?;
    as_kubeadm_leaves_it(lab, client).await?;
    mirrored(&registry, archives).await?;
    let folder = lab.folder().path().join("page");
    fs::create_dir(&folder)?;
    let shell = Shell::new(lab, &registry, &folder)?;
    let before = (objects(&shell).await?, files(lab).await?);

    let [push, docker_hub, install, bootstrap, privileged, create] = &blocks("install.md")?[..] else {
        anyhow::bail!("docs/install.md has other blocks than this test runs: {:#?}", blocks("install.md")?)
    };
    ensure!(docker_hub.starts_with("--set image.registry="), "{docker_hub}");
    ensure!(bootstrap == "--set bootstrap=true", "{bootstrap}");
    shell.run(push).await?;
    tried(&shell, &folder).await?;

    let registry_value = format!("--set registry={REGISTRY}");
    ensure!(install.contains(&registry_value), "{install}");
    let said = shell.run(&install.replace(&registry_value, &format!("{registry_value} {bootstrap}"))).await?;
    for operator in operators::ALL {
        ensure!(said.contains(&format!("deployment \"{operator}\" successfully rolled out")), "{operator}: {said}");
    }
    shell.run(privileged).await?;
    let begun = Instant::now();
    shell.run(create).await?;
    println!("the last block of docs/install.md took {:.0?}", begun.elapsed());
    eventually("every component to be Ready", BRING_UP, async || {
        let all = resources::all(client, NAMESPACE).await?;
        Ok((all.len() == 15 && all.iter().all(Resource::is_ready)).then_some(()))
    })
    .await?;
    println!("every component is Ready after {:.0?}", begun.elapsed());
    everything_is_from(client, &registry).await?;
    // The vRouter is their network.
    for node in lab.real_nodes()?.all()? {
        crate::cni::is_ready(client, &node, true).await?;
    }

    let [delete, uninstall, definitions, release] = &blocks("uninstall.md")?[..] else {
        anyhow::bail!("docs/uninstall.md has other blocks than this test runs: {:#?}", blocks("uninstall.md")?)
    };
    ensure!(release.starts_with("kubectl tf release"), "{release}");
    let get = delete.lines().last().context("no command")?;
    shell.run(delete).await?;
    eventually("no resource to be found", SOON, async || {
        Ok(shell.output(get).await?.contains("No resources found").then_some(()))
    })
    .await?;
    shell.run(uninstall).await?;
    shell.run(definitions).await?;
    let left = |now: BTreeSet<String>, before: &BTreeSet<String>| now.difference(before).cloned().collect::<Vec<_>>();
    let mut objects = left(objects(&shell).await?, &before.0);
    objects.retain(|object| !NAMED.iter().any(|named| object.ends_with(named)));
    let mut files = left(files(lab).await?, &before.1);
    ensure!(files.iter().any(|file| file.contains("/var/lib/contrail")), "data does not stay: {files:#?}");
    files.retain(|file| !FOLDERS.iter().any(|named| file.contains(named)));
    ensure!(objects.is_empty() && files.is_empty(), "left behind: {objects:#?} {files:#?}");
    Ok(())
}

/// The demo on a cluster that one has, of one store: it becomes Ready, and nothing of it is left.
async fn tried(shell: &Shell, folder: &Path) -> Result<()> {
    let zookeeper =
        json!({"metadata": {"name": "zookeeper1"}, "spec": {"commonConfiguration": {"storage": {"emptyDir": {}}}}});
    let meta = json!({"name": "sdn", "namespace": NAMESPACE});
    let manager = json!({
        "apiVersion": "tf.tungsten.io/v1alpha1", "kind": MANAGER.kind, "metadata": meta, "spec": {"services": {"zookeeper": zookeeper}},
    });
    let file = folder.join("small.yaml");
    fs::write(&file, manager.to_string())?;
    let before = objects(shell).await?;
    let demo = format!("cargo xtask demo --context $(kubectl config current-context) --registry {REGISTRY}");
    let said = shell.run(&format!("{demo} --manifest {}", file.display())).await?;
    ensure!(said.contains("\nReady after ") && said.contains("\nremoved; "), "{said}");
    let after = objects(shell).await?;
    ensure!(after == before, "left behind: {:?}", after.difference(&before));
    Ok(())
}

/// Nodes of the control plane that no network plugin has been installed on, and what kubeadm publishes of the cluster.
async fn as_kubeadm_leaves_it(lab: &Lab, client: &Client) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    for node in lab.real_nodes()?.all()? {
        label_control_plane(lab, node.name()).await?;
        let taint = json!({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"});
        let patch = json!({"spec": {"taints": [taint]}});
        api.patch(node.name(), &PatchParams::default(), &Patch::Strategic(patch)).await?;
        node.stand_in_for_vhost0().await?;
        fs::remove_file(node.machine().path("/etc/cni/net.d/10-lab.conflist")?)?;
    }
    eventually("every node to be NotReady", SOON, async || {
        let nodes = api.list(&ListParams::default()).await?.items;
        let is_tainted = |node: &Node| {
            let taints = node.spec.iter().filter_map(|spec| spec.taints.as_ref()).flatten();
            taints.into_iter().any(|taint| taint.key == "node.kubernetes.io/not-ready")
        };
        Ok(nodes.iter().all(is_tainted).then_some(()))
    })
    .await?;
    // Of the administrator's file, as kubeadm makes it, the cluster.
    let file: serde_json::Value = serde_saphyr::from_str(&fs::read_to_string(lab.kubeconfig())?)?;
    let info = json!({"apiVersion": "v1", "kind": "Config", "clusters": file["clusters"]});
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": "kube-public"},
        "data": {"kubeconfig": info.to_string()},
    });
    lab.apply(&object.to_string()).await.map(drop)
}

/// What the page asks for: images of Tungsten Fabric in the registry, under the names that they have on Docker Hub.
async fn mirrored(registry: &Registry, archives: &[PathBuf]) -> Result<()> {
    for (archive, name, _) in operators::ALL.into_iter().flat_map(whole::stand_ins) {
        let file = archives.iter().find(|path| path.file_stem().is_some_and(|stem| stem == archive));
        let file = file.with_context(|| format!("no archive {archive}"))?;
        registry.push(file, &format!("opensdn/opensdn-{name}:latest")).await?;
    }
    Ok(())
}

/// Every container of the namespace runs an image of the registry: one value names it for all.
async fn everything_is_from(client: &Client, registry: &Registry) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await?.items;
    let specs = pods.iter().filter_map(|pod| pod.spec.as_ref());
    let images = specs.flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let elsewhere: Vec<_> = images
        .filter_map(|container| container.image.as_ref())
        .filter(|image| !image.starts_with(&format!("{}/", registry.name())))
        .collect();
    ensure!(!pods.is_empty() && elsewhere.is_empty(), "{elsewhere:?}");
    Ok(())
}

/// Every object of the cluster.
async fn objects(shell: &Shell) -> Result<BTreeSet<String>> {
    let kinds = shell.output("kubectl api-resources --verbs=list -o name").await?;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !PASSING.contains(kind)).collect();
    let columns = "NS:.metadata.namespace,KIND:.kind,NAME:.metadata.name";
    let get = format!("kubectl get {} -A --no-headers -o custom-columns={columns}", kinds.join(","));
    Ok(shell.output(&get).await?.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
}

/// Folders of the nodes that something other than their containers and kubelets made.
async fn files(lab: &Lab) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for node in lab.real_nodes()?.all()? {
        let find = "find /etc /opt /run /var -maxdepth 3 -not -path '*containerd*' -not -path '*kubelet*' \
            -not -path '/run/netns*' -not -path '/var/log/*pods*' -not -path '/var/log/containers*'";
        let found = node.run("sh", &["-c", find]).await?;
        all.extend(found.lines().map(|file| format!("{} {file}", node.name())));
    }
    Ok(all)
}
