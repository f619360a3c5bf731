//! `kubectl tf plan`.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use kube::core::DynamicObject;

use super::Cluster;
use crate::{
    plan::{self, Given, Preview, Report},
    rehearsal,
};

/// The domain of cluster services that most clusters have.
const CLUSTER_DOMAIN: &str = "cluster.local";

#[derive(Args)]
pub struct Options {
    /// Manifest, as a file or a folder of them, or - for standard input; may be given several times
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Ask no cluster: nodes, Secrets and ConfigMaps are those of the files
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    offline: bool,
    /// Namespace of what names none; that of the context if none is given
    #[arg(short, long)]
    namespace: Option<String>,
    /// Text for people, or the objects themselves as YAML
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// End with code 1 unless everything is there as it would be made
    #[arg(long)]
    check: bool,
    /// Domain of cluster services
    #[arg(long, default_value = CLUSTER_DOMAIN)]
    cluster_domain: String,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Yaml,
}

/// Tells what would be done. 1 if anything would be, where that is asked for.
pub async fn tell(options: &Options) -> Result<ExitCode> {
    let (reports, notes) = if options.offline { offline(options).await? } else { online(options).await? };
    let is_done = reports.iter().all(Report::is_done);
    let previews = || reports.iter().map(|report| &report.preview);
    let text = match options.output {
        Output::Text => plan::text(&reports, &notes),
        Output::Yaml => {
            eprint!("{}", plan::remarks(previews(), &notes));
            plan::yaml(previews())
        }
    };
    io::stdout().lock().write_all(text.as_bytes()).context("writing")?;
    Ok(ExitCode::from(u8::from(options.check && !is_done)))
}

async fn online(options: &Options) -> Result<(Vec<Report>, Vec<String>)> {
    let (client, namespace) = options.cluster.connect(options.namespace.as_deref()).await?;
    let manifest = read(&options.files, &namespace)?;
    let mut notes: Vec<String> = manifest.iter().flat_map(plan::unknown_fields).collect();
    let rehearsal = rehearsal::rehearse(&client, manifest, &options.cluster_domain, Timestamp::now()).await?;
    notes.extend(rehearsal.notes);
    Ok((rehearsal.reports, notes))
}

async fn offline(options: &Options) -> Result<(Vec<Report>, Vec<String>)> {
    let mut given = Given::new(&options.cluster_domain);
    let mut notes = vec!["no API server was asked, who checks the rules of the definitions".to_owned()];
    for object in read(&options.files, options.namespace.as_deref().unwrap_or("default"))? {
        notes.extend(plan::unknown_fields(&object));
        let name = object.metadata.name.clone().unwrap_or_default();
        let types = object.types.clone().unwrap_or_default();
        let kind = types.kind;
        let what = if types.api_version.starts_with("contrail.juniper.net/") {
            "of contrail.juniper.net, an API that these operators do not have; write it as tf.tungsten.io/v1alpha1, in the shape of examples/manager.yaml"
        } else {
            "nothing that operators look at"
        };
        if !given.take(plan::seen(object)).with_context(|| format!("{kind} {name}"))? {
            notes.push(format!("{kind} {name} is {what}"));
        }
    }
    if given.suppose_nodes(plan::usual_nodes()) {
        notes.push("the files name no nodes; three with the control-plane role are supposed".into());
    }
    let made = async |_: &Preview, object: &_| plan::made(object);
    let previews = plan::all(&mut given, Timestamp::now(), made).await?;
    Ok((previews.into_iter().map(Report::anew).collect(), notes))
}

/// The objects of all files.
fn read(files: &[PathBuf], namespace: &str) -> Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for file in files {
        for (name, text) in texts(file)? {
            objects.extend(plan::read(&text, namespace).with_context(|| name)?);
        }
    }
    ensure!(!objects.is_empty(), "the manifests are empty");
    Ok(objects)
}

/// What a file holds, or every manifest of a folder, by name.
fn texts(path: &Path) -> Result<Vec<(String, String)>> {
    let name = path.display().to_string();
    if name == "-" {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).context("standard input")?;
        return Ok(vec![("standard input".into(), text)]);
    }
    if !path.is_dir() {
        return Ok(vec![text(path)?]);
    }
    let entries = fs::read_dir(path).with_context(|| name.clone())?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>().with_context(|| name)?;
    let is_manifest = |path: &PathBuf| {
        path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
    };
    files.retain(is_manifest);
    files.sort();
    files.iter().map(|file| text(file)).collect()
}

/// A file's name and what it holds.
fn text(file: &Path) -> Result<(String, String)> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).with_context(|| name.clone())?;
    Ok((name, text))
}
