//! What tests of real stores begin with: a lab of real nodes with an operator installed from its chart, and somebody who tells
//! what a person would look at when it fails.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::ops::Deref;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, LogParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tf_api::contract::MemberStatus;
use tf_api::kinds::KindInfo;
use tf_api::names::{ANNOTATION_ACTIVE_CONFIG, ANNOTATION_HIBERNATE, ANNOTATION_RESTART, ANNOTATION_ROTATE, AUTHORITY};
use tf_pki::authority::Authority;
use tf_plan::component::Component;
use tf_testing::identity::Identity;
use tf_testing::real::{image, operator};
use tf_testing::resources::{self, Resource};
use tf_testing::sample::Sample;
use tf_testing::skip;
use tf_testing::wait::eventually;
use tf_testing::{IpFamily, Lab, Options, RealNode, assets};
use tokio::sync::{Mutex, MutexGuard};

use crate::{cassandra, rabbitmq, redis, whole, zookeeper};

/// Where operators and stores are.
pub const NAMESPACE: &str = "tf";
/// Three servers start at once on a small machine.
pub const BRING_UP: Duration = Duration::from_mins(4);
/// For all servers, one after the other. Those in Java take longest.
pub const ROLL: Duration = Duration::from_mins(10);
/// How long a status may say what is no longer so (docs/testing.md#long-runs).
pub const HONEST_WITHIN: Duration = Duration::from_secs(10);
/// Kubelets take a minute to bring a changed ConfigMap into a pod, and a rotation changes it three times.
const ROTATION: Duration = Duration::from_mins(9);
/// Variable with the family of the nodes' addresses, `v4` or `v6`; `v4` if there is none.
const IP_FAMILY: &str = "TF_IP_FAMILY";
/// Of each log, when a test failed.
const LAST_LINES: i64 = 20;

/// A store and who operates it.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// The operator.
    pub operator: &'static str,
    /// The kind of its resource.
    pub kind: KindInfo,
    /// The resource of the tests.
    pub name: &'static str,
    /// Archives of the images that every node needs.
    pub images: &'static [&'static str],
    /// Values of the chart.
    pub values: &'static [&'static str],
}

/// Whose turn it is.
static TURN: Mutex<()> = Mutex::const_new(());

/// A lab that is the only one with a store: where several share two cores, servers miss the ticks of their leader, and what is
/// measured is the machine.
pub struct Turn {
    lab: Lab,
    _turn: MutexGuard<'static, ()>,
}

impl Turn {
    /// Waits for it, and has the lab made then.
    pub async fn take(make: impl Future<Output = Result<Lab>>) -> Result<Self> {
        let turn = TURN.lock().await;
        Ok(Self { lab: make.await?, _turn: turn })
    }
}

impl Deref for Turn {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

/// A lab of so many nodes, with addresses of the family that [`IP_FAMILY`] names.
pub fn options(nodes: u32) -> Result<Options> {
    let ip_family = match env::var(IP_FAMILY).as_deref() {
        Err(_) | Ok("v4") => IpFamily::V4,
        Ok("v6") => IpFamily::V6,
        Ok(other) => bail!("{IP_FAMILY} is {other:?}, neither v4 nor v6"),
    };
    Ok(Options { ip_family, ..Options::real(nodes) })
}

impl Store {
    /// A test in a lab of control-plane nodes with the operator installed from its chart, with further values of the chart and
    /// further images. Where the images cannot be made there is none.
    pub async fn with(
        &self,
        nodes: u32,
        values: &[&str],
        images: &[&str],
        test: impl AsyncFnOnce(&Lab, &Client) -> Result<()>,
    ) -> Result<()> {
        self.with_options(options(nodes)?, values, images, test).await
    }

    /// The same in a lab with these options.
    pub async fn with_options(
        &self,
        options: Options,
        values: &[&str],
        images: &[&str],
        test: impl AsyncFnOnce(&Lab, &Client) -> Result<()>,
    ) -> Result<()> {
        let Some(lab) = self.lab(options, values, images).await? else { return Ok(()) };
        let client = lab.client().await?;
        match test(&lab, &client).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.with_testimony(error, &client).await),
        }
    }

    /// The lab itself.
    pub async fn lab(&self, options: Options, values: &[&str], images: &[&str]) -> Result<Option<Turn>> {
        let (own_images, own_values) = image::of_releases(self.images, self.values);
        let images = own_images.iter().map(String::as_str).chain(images.iter().copied());
        let Some(archives) = image::archives(images)? else { return Ok(None) };
        let values: Vec<&str> = own_values.iter().map(String::as_str).chain(values.iter().copied()).collect();
        Turn::take(operator::installed(options, self.operator, NAMESPACE, &archives, &values)).await.map(Some)
    }

    /// What went wrong first, since that is what is looked for, and after it what a person would look at.
    pub async fn with_testimony(&self, error: Error, client: &Client) -> Error {
        let testimony = self.testimony(client).await.unwrap_or_else(|error| format!("nobody tells more: {error:#}"));
        anyhow!("{error:#}\n{testimony}")
    }

    /// Conditions, and the last lines of every log.
    async fn testimony(&self, client: &Client) -> Result<String> {
        let resource = resources::get(client, self.kind, NAMESPACE, self.name).await?;
        let mut text = resource.as_ref().map(resources::conditions).unwrap_or_default();
        let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
        let mut told: Vec<_> = events.list(&ListParams::default()).await?.items.into_iter().filter_map(line).collect();
        told.sort();
        let _ = write!(text, "\n--- events\n{}", told.join("\n"));
        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        for pod in pods.list(&ListParams::default()).await? {
            let name = pod.name_any();
            for container in pod.spec.into_iter().flat_map(|spec| spec.containers) {
                let container = Some(container.name);
                let last =
                    LogParams { tail_lines: Some(LAST_LINES), timestamps: true, container, ..LogParams::default() };
                // A node that is away cannot be asked.
                let log = pods.logs(&name, &last).await.unwrap_or_else(|error| error.to_string());
                let _ = write!(text, "\n--- {name} {}\n{log}", last.container.unwrap_or_default());
            }
        }
        Ok(text)
    }

    /// Waits until the operator can ask every member.
    pub async fn certified(&self, client: &Client) -> Result<Resource> {
        let is_certified = |resource: &Resource| resource.is("CertificatesReady", "True") && resource.is_ready();
        resources::until(client, self.kind, NAMESPACE, self.name, "Ready, with certificates", BRING_UP, is_certified)
            .await
    }

    /// Waits until it is Ready, and no roll-out is under way.
    pub async fn through(&self, client: &Client, what: &str) -> Result<Resource> {
        self.until(client, what, ROLL, |resource| resource.is_ready() && resource.is("Progressing", "False")).await
    }

    /// Waits until it has so many members, all of which serve, and nothing is left to do.
    pub async fn resized(&self, client: &Client, members: usize, limit: Duration) -> Result<Resource> {
        let is_done = |resource: &Resource| resource.is_ready_with(members) && resource.is("Progressing", "False");
        self.until(client, &format!("of {members} members"), limit, is_done).await
    }

    /// Waits until it has so many members, one of them on this node, all of which serve, and nothing is left to do.
    pub async fn replaced(&self, client: &Client, new: &RealNode, count: usize, limit: Duration) -> Result<Resource> {
        let address = new.address().to_string();
        let is_replaced = |resource: &Resource| {
            resource.is_ready_with(count)
                && resource.is("Progressing", "False")
                && members(resource).iter().any(|member| member.address == address)
        };
        self.until(client, "replaced", limit, is_replaced).await
    }

    /// Waits until it is told that a server is lost.
    pub async fn told(&self, client: &Client) -> Result<Resource> {
        self.until(client, "known to have lost a server", HONEST_WITHIN, |resource| !resource.is_ready()).await
    }

    /// Has every pod replaced, and waits until the last one is.
    pub async fn restarted(&self, client: &Client) -> Result<()> {
        let before = self.uids(client).await?;
        let wish = json!({"metadata": {"annotations": {ANNOTATION_RESTART: "now"}}});
        let api = resources::api(client, self.kind, NAMESPACE);
        api.patch(self.name, &PatchParams::default(), &Patch::Merge(wish)).await?;
        eventually("other pods", ROLL, async || {
            let now = self.uids(client).await?;
            let is_other = |(name, uid)| before.get(name) != Some(uid);
            Ok((now.len() == before.len() && now.iter().all(is_other)).then_some(()))
        })
        .await?;
        self.through(client, "the restart").await.map(drop)
    }

    /// Kills its operator, which is started again.
    pub fn kill_operator(&self, lab: &Lab) -> Result<()> {
        for node in lab.real_nodes()?.all()? {
            if !node.processes(self.operator)?.is_empty() {
                return node.kill(self.operator);
            }
        }
        bail!("no operator runs")
    }

    /// Puts it to sleep, and wakes it when no pod is left. The same members serve then, from the same nodes.
    pub async fn sleeps_and_wakes(&self, client: &Client) -> Result<()> {
        let api = resources::api(client, self.kind, NAMESPACE);
        let hibernate = async |value: Value| {
            let wish = json!({"metadata": {"annotations": {ANNOTATION_HIBERNATE: value}}});
            api.patch(self.name, &PatchParams::default(), &Patch::Merge(wish)).await.map(drop)
        };
        let before = self.resource(client).await?;
        let begun = Instant::now();
        hibernate(json!("true")).await?;
        let is_asleep = |resource: &Resource| resource.is("Hibernated", "True") && resource.is("Progressing", "False");
        self.until(client, "asleep", BRING_UP, is_asleep).await?;
        ensure!(self.pods(client).await?.is_empty(), "it sleeps and has pods");
        let asleep = begun.elapsed();
        hibernate(Value::Null).await?;
        let is_awake = |resource: &Resource| resource.is_ready() && resource.condition("Hibernated").is_none();
        let after = self.until(client, "awake", BRING_UP, is_awake).await?;
        println!("asleep after {asleep:.0?}, awake after {:.0?}", begun.elapsed());
        ensure!(members(&after) == members(&before), "{:?}, not {:?}", members(&after), members(&before));
        Ok(())
    }

    /// The resource.
    async fn resource(&self, client: &Client) -> Result<Resource> {
        resources::get(client, self.kind, NAMESPACE, self.name).await?.context("it is gone")
    }

    /// Waits until the resource is as wanted.
    pub async fn until(
        &self,
        client: &Client,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&Resource) -> bool,
    ) -> Result<Resource> {
        resources::until(client, self.kind, NAMESPACE, self.name, what, limit, wanted).await
    }

    /// Asks for what a spec says.
    pub async fn apply(&self, client: &Client, spec: Value) -> Result<()> {
        resources::apply(client, self.kind, NAMESPACE, self.name, spec).await.map(drop)
    }

    /// Deletes the resource, and waits until nothing that it owns is left. What members keep on their nodes stays.
    pub async fn deleted<C: Component>(&self, client: &Client) -> Result<()> {
        let resource = self.resource(client).await?;
        let owner = resource.object.uid();
        let is_its = |object: &DynamicObject| {
            object.metadata.owner_references.iter().flatten().any(|reference| Some(&reference.uid) == owner.as_ref())
        };
        resources::api(client, self.kind, NAMESPACE).delete(self.name, &DeleteParams::default()).await?;
        eventually("nothing to be left", BRING_UP, async || {
            for owned in C::declaration().owned {
                let api = resources::objects(client, owned.kind, NAMESPACE);
                if api.list(&ListParams::default()).await?.iter().any(is_its) {
                    return Ok(None);
                }
            }
            let is_gone = resources::get(client, self.kind, NAMESPACE, self.name).await?.is_none();
            Ok((is_gone && self.pods(client).await?.is_empty()).then_some(()))
        })
        .await
    }

    /// A node that the operator is not on.
    pub async fn node_without_operator(&self, lab: &Lab, client: &Client) -> Result<RealNode> {
        operator::node_without(lab, client, self.operator, NAMESPACE).await
    }

    /// The pod of the member on a node.
    pub async fn pod_on(&self, client: &Client, node: &RealNode) -> Result<Pod> {
        let is_there = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node.name());
        let found = self.pods(client).await?.into_values().find(is_there);
        found.with_context(|| format!("no member on {}", node.name()))
    }

    /// Puts another node, with another address, in the place of one that is gone for good.
    pub async fn replace_node(&self, lab: &Lab, client: &Client, lost: &RealNode) -> Result<RealNode> {
        let nodes = lab.real_nodes()?;
        let new = nodes.replace(lost.name()).await?;
        let (images, _) = image::of_releases(self.images, self.values);
        nodes.load(&image::archives(images.iter().map(String::as_str))?.context("no images")?).await?;
        operator::label_control_plane(lab, new.name()).await?;
        Api::<Node>::all(client.clone()).delete(lost.name(), &DeleteParams::default()).await?;
        Ok(new)
    }

    /// What a command says in the store's container of a pod.
    pub fn exec(&self, lab: &Lab, pod: &str, argv: &[&str]) -> Result<String> {
        let container = self.kind.kind.to_lowercase();
        let output = assets::kubectl()?
            .arg("--kubeconfig")
            .arg(lab.kubeconfig())
            .args(["--namespace", NAMESPACE, "exec", pod, "--container", &container, "--"])
            .args(argv)
            .output()?;
        ensure!(output.status.success(), "{pod}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Uids of the store's pods, by name.
    pub async fn uids(&self, client: &Client) -> Result<BTreeMap<String, Option<String>>> {
        uids(client, self.kind).await
    }

    /// The pods of the store, by name.
    pub async fn pods(&self, client: &Client) -> Result<BTreeMap<String, Pod>> {
        let pods = resources::pods(client, self.kind, NAMESPACE).await?;
        Ok(pods.into_iter().map(|pod| (pod.name_any(), pod)).collect())
    }

    /// The directory of a member on its node; none where nothing is kept there.
    pub async fn directory(&self, client: &Client) -> Result<Option<String>> {
        let pod = self.pods(client).await?.into_values().next().context("no pod")?;
        let volumes = pod.spec.and_then(|spec| spec.volumes).context("no volumes")?;
        let data = volumes.into_iter().find(|volume| volume.name == "data");
        Ok(data.and_then(|volume| volume.host_path).map(|directory| directory.path))
    }
}

/// Puts a value into a Secret, as a person would.
pub async fn edit_secret(client: &Client, name: &str, key: &str, value: &str) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let wish = json!({"stringData": {key: value}});
    Ok(secrets.patch(name, &PatchParams::default(), &Patch::Merge(wish)).await.map(drop)?)
}

/// What the pods of a kind run with, by their names: their uids, and the configuration that their agents were told to take.
pub type Running = BTreeMap<String, (Option<String>, Option<String>)>;

/// The uids of all pods of a kind, by name.
pub async fn uids(client: &Client, kind: KindInfo) -> Result<BTreeMap<String, Option<String>>> {
    let pods = resources::pods(client, kind, NAMESPACE).await?;
    Ok(pods.into_iter().map(|pod| (pod.name_any(), pod.uid())).collect())
}

/// What all pods of a kind run with.
pub async fn running(client: &Client, kind: KindInfo) -> Result<Running> {
    let told = |pod: &Pod| pod.annotations().get(ANNOTATION_ACTIVE_CONFIG).cloned();
    let pods = resources::pods(client, kind, NAMESPACE).await?;
    Ok(pods.iter().map(|pod| (pod.name_any(), (pod.uid(), told(pod)))).collect())
}

/// Waits until every pod of a kind runs with something else than before, or was told to.
pub async fn followed(client: &Client, kind: KindInfo, before: &Running, limit: Duration) -> Result<()> {
    let mut last = Running::new();
    eventually(&format!("every {} to have followed", kind.kind), limit, async || {
        last = running(client, kind).await?;
        let is_other = |(name, now): (&String, &_)| before.get(name) != Some(now);
        Ok((last.len() == before.len() && last.iter().all(is_other)).then_some(()))
    })
    .await
    .with_context(|| format!("{before:?}\n{last:?}"))
}

/// The certificates of the authorities that members are told to trust.
pub async fn authorities(client: &Client) -> Result<String> {
    let bundle = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE).get(AUTHORITY).await?.data.unwrap_or_default();
    bundle.get("ca-bundle.crt").cloned().context("no bundle")
}

/// The authority that signs members' certificates.
pub async fn authority(client: &Client) -> Result<Authority> {
    let data = Api::<Secret>::namespaced(client.clone(), NAMESPACE).get(AUTHORITY).await?.data.unwrap_or_default();
    let text = |key: &str| String::from_utf8(data.get(key).map(|it| it.0.clone()).unwrap_or_default());
    Ok(Authority::from_pem(&text("tls.crt")?, &text("tls.key")?)?)
}

/// Has the operators replace the authority of their members, and waits until the next one is alone.
pub async fn replace_authority(client: &Client) -> Result<()> {
    let old = authorities(client).await?;
    ensure!(old.matches("BEGIN CERTIFICATE").count() == 1, "one authority: {old}");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let request = json!({"metadata": {"annotations": {ANNOTATION_ROTATE: "now"}}});
    secrets.patch(AUTHORITY, &PatchParams::default(), &Patch::Merge(request)).await?;
    eventually("one authority, another one", ROTATION, async || {
        let now = authorities(client).await?;
        Ok((now != old && now.matches("BEGIN CERTIFICATE").count() == 1).then_some(()))
    })
    .await
}

/// Long tests that a run tries if nothing else is said, of those of all stores together.
const LONG_TESTS: usize = 1;

impl Store {
    /// Whether a long test of the store, `test` in the order of its own, is tried in this run; else it is counted as skipped.
    pub fn is_drawn(&self, test: usize) -> Result<bool> {
        let all = [
            (zookeeper::STORE, zookeeper::Long::ALL),
            (rabbitmq::STORE, rabbitmq::Long::ALL),
            (cassandra::STORE, cassandra::Long::ALL),
            (redis::STORE, redis::Long::ALL),
            (whole::CONFIG, whole::Long::ALL),
        ];
        let before = all.iter().take_while(|(store, _)| store.operator != self.operator);
        let index = before.map(|(_, tests)| tests).sum::<usize>() + test;
        let sample = Sample::from_environment(LONG_TESTS)?;
        let is_drawn = sample.draw(all.iter().map(|(_, tests)| tests).sum(), 2).contains(&index);
        if !is_drawn {
            skip::this_test(&format!("not drawn in this run{sample}; cargo xtask soak life runs it"))?;
        }
        Ok(is_drawn)
    }
}

/// A server by its processes.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// What they are called.
    pub name: &'static str,
    /// What stands in their command line, and in that of none of its tools, which run now and then.
    pub mark: &'static str,
}

impl Server {
    /// One whose tools are called otherwise.
    pub const fn named(name: &'static str) -> Self {
        Self { name, mark: "" }
    }

    /// Its processes on each node.
    pub fn processes(self, lab: &Lab) -> Result<Vec<Vec<Identity>>> {
        let is_server = |process: &Identity| {
            let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(self.mark)
        };
        let on = |node: &RealNode| anyhow::Ok(node.processes(self.name)?.into_iter().filter(is_server).collect());
        lab.real_nodes()?.all()?.iter().map(on).collect()
    }
}

/// Processes of a server on each node, of which each has one at least.
pub fn processes(lab: &Lab, server: Server) -> Result<Vec<Vec<Identity>>> {
    let processes = server.processes(lab)?;
    ensure!(processes.iter().all(|on_a_node| !on_a_node.is_empty()), "no {server:?} on some node: {processes:?}");
    Ok(processes)
}

/// Every one of them was started anew since they were these.
pub fn are_others(lab: &Lab, server: Server, before: &[Vec<Identity>]) -> Result<()> {
    let now = processes(lab, server)?;
    let is_other = |(before, now): (&Vec<Identity>, &Vec<Identity>)| now.iter().all(|it| !before.contains(it));
    ensure!(before.iter().zip(&now).all(is_other), "servers were not started anew: {before:?} and {now:?}");
    Ok(())
}

/// An event of ours.
fn line(event: Event) -> Option<String> {
    let (time, about) = (event.event_time?.0, event.regarding?.name.unwrap_or_default());
    Some(format!("{time} {about} {} {}", event.reason.unwrap_or_default(), event.note.unwrap_or_default()))
}

/// The members that a status records.
pub fn members(resource: &Resource) -> Vec<MemberStatus> {
    serde_json::from_value(resource.object.data["status"]["members"].clone()).unwrap_or_default()
}
