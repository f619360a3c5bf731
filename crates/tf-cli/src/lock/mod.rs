//! Which images run, by their digests: the values that pin them in the operators' charts.
//!
//! In: the pods of a namespace, with what their nodes report about the images. Out: a [`Lock`], whose [`Lock::yaml`] is a values file for the chart of
//! each operator, and the images that cannot be pinned, each with the cause. Pods that no operator of this release made have no part in it.

mod images;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Display, Formatter, Write as _},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use kube::Client;
use serde_json::json;
use tf_api::names;

use crate::cluster;

/// What pins the images of operands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// References with a digest, by image name: `operands.images` of a chart.
    pub images: BTreeMap<String, String>,
    /// Reference of the image with the node agent: `operands.tfNodeImage` of a chart.
    pub tf_node: Option<String>,
    /// Images without a digest that counts for all nodes.
    pub problems: Vec<Problem>,
}

/// An image that cannot be pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the image, for example `external-zookeeper`.
    pub image: String,
    /// Why.
    pub cause: Cause,
}

/// Why an image cannot be pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// These nodes have the image from no registry: it has no digest by which another node could pull it.
    Loaded {
        /// What the pods ask for.
        references: BTreeSet<String>,
        /// Names of nodes.
        nodes: BTreeSet<String>,
    },
    /// Pods run other bytes under one name: references by digest, with the nodes of each.
    Different(BTreeMap<String, BTreeSet<String>>),
    /// No container has started with it, in these pods.
    NotStarted(BTreeSet<String>),
}

impl Lock {
    /// What the pods of a namespace run.
    pub fn of(pods: &[Pod]) -> Self {
        let mut seen: BTreeMap<Operand, Vec<Run>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| runs(pod)) {
            for (operand, run) in containers(pod) {
                seen.entry(operand).or_default().push(run);
            }
        }
        let mut lock = Self::default();
        for (operand, runs) in seen {
            match (operand, pinned(&runs)) {
                (Operand::Image(name), Ok(reference)) => {
                    lock.images.insert(name.to_owned(), reference);
                }
                (Operand::TfNode, Ok(reference)) => lock.tf_node = Some(reference),
                (operand, Err(cause)) => lock.problems.push(Problem { image: operand.name().to_owned(), cause }),
            }
        }
        lock
    }

    /// Whether no operand was found.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// A values file of the operators' charts. What is not pinned is named in comments.
    ///
    /// # Errors
    /// When a reference cannot be written as YAML.
    pub fn yaml(&self) -> Result<String> {
        let mut operands = json!({});
        if !self.images.is_empty() {
            operands["images"] = json!(self.images);
        }
        if let Some(reference) = &self.tf_node {
            operands["tfNodeImage"] = json!(reference);
        }
        let mut text = String::new();
        for problem in &self.problems {
            let _ = writeln!(text, "# {problem}");
        }
        // A reference and its name are one line.
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        let values = json!({ "operands": operands });
        Ok(text + &serde_saphyr::to_string_with_options(&values, options).context("writing YAML")?)
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "image {} is not pinned: ", self.image)?;
        match &self.cause {
            Cause::Loaded { references, nodes } => write!(
                f,
                "{} on {} was loaded into the node and pulled from no registry, so it has no digest; push it to a registry and have the node pull it",
                list(references),
                list(nodes)
            ),
            Cause::Different(digests) => {
                let each: Vec<_> =
                    digests.iter().map(|(reference, nodes)| format!("{reference} on {}", list(nodes))).collect();
                write!(
                    f,
                    "pods run different content: {}; wait until no rollout is under way, or have all nodes pull one of them",
                    each.join(" and ")
                )
            }
            Cause::NotStarted(pods) => {
                write!(f, "no container has started with it in {}; wait until the pods run", list(pods))
            }
        }
    }
}

fn list(words: &BTreeSet<String>) -> String {
    words.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// What the charts have a value for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operand {
    Image(&'static str),
    TfNode,
}

impl Operand {
    const fn name(self) -> &'static str {
        match self {
            Self::Image(name) => name,
            Self::TfNode => "tf-node",
        }
    }
}

/// A container with an operand's image.
struct Run {
    pod: String,
    node: String,
    /// What the pod asks for.
    reference: String,
    /// What the node reports; empty before the container has started.
    id: String,
}

/// Whether a pod counts: one that goes, or has ended, runs what was wanted before.
fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// The operands that a pod runs.
fn containers(pod: &Pod) -> Vec<(Operand, Run)> {
    let label = |key| pod.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let kind = label(names::LABEL_TYPE).zip(label(names::LABEL_MANAGED_BY));
    let (Some(builtins), Some(spec)) = (kind.and_then(|(kind, operator)| images::of(kind, operator)), &pod.spec) else {
        return Vec::new();
    };
    let statuses = pod.status.iter().flat_map(|status| {
        [&status.init_container_statuses, &status.container_statuses].into_iter().flatten().flatten()
    });
    let statuses: Vec<&ContainerStatus> = statuses.collect();
    let run = |container: &Container| {
        let reference = container.image.clone().unwrap_or_default();
        let operand = images::operand(&builtins, &container.name, &reference)?;
        let status = statuses.iter().find(|status| status.name == container.name);
        let run = Run {
            pod: pod.metadata.name.clone().unwrap_or_default(),
            node: spec.node_name.clone().unwrap_or_default(),
            reference,
            id: status.map(|status| status.image_id.clone()).unwrap_or_default(),
        };
        Some((operand, run))
    };
    spec.init_containers.iter().flatten().chain(&spec.containers).filter_map(run).collect()
}

/// The reference by digest that all nodes report. Nodes may have the same content from several registries: the first of them by name.
fn pinned(runs: &[Run]) -> Result<String, Cause> {
    let (mut loaded, mut by_digest) = (Vec::new(), BTreeMap::<&str, Vec<(&str, &Run)>>::new());
    for run in runs.iter().filter(|run| !run.id.is_empty()) {
        // The Docker of old says how it has the image before the reference.
        let reference = run.id.rsplit_once("://").map_or(run.id.as_str(), |(_, reference)| reference);
        match reference.split_once('@') {
            Some((_, digest)) => by_digest.entry(digest).or_default().push((reference, run)),
            None => loaded.push(run),
        }
    }
    let nodes = |runs: &[(&str, &Run)]| runs.iter().map(|(_, run)| run.node.clone()).collect();
    let name = |runs: &[(&str, &Run)]| runs.iter().map(|(reference, _)| (*reference).to_owned()).min();
    if !loaded.is_empty() {
        let references = loaded.iter().map(|run| run.reference.clone()).collect();
        return Err(Cause::Loaded { references, nodes: loaded.iter().map(|run| run.node.clone()).collect() });
    }
    let mut found: BTreeMap<String, BTreeSet<String>> =
        by_digest.values().filter_map(|runs| Some((name(runs)?, nodes(runs)))).collect();
    match found.pop_first() {
        None => Err(Cause::NotStarted(runs.iter().map(|run| run.pod.clone()).collect())),
        Some((reference, _)) if found.is_empty() => Ok(reference),
        Some(first) => Err(Cause::Different(found.into_iter().chain([first]).collect())),
    }
}

/// Reads what the pods of a namespace run: of all operators, or of the one with this name.
///
/// # Errors
/// When the API server cannot be asked, or the pods may not be read.
pub async fn read(client: &Client, namespace: &str, operator: Option<&str>) -> Result<Lock> {
    Ok(Lock::of(&cluster::pods(client, Some(namespace), operator).await?))
}
