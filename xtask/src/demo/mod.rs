//! `cargo xtask demo`: a Manager manifest becomes a Ready cluster, live; with `--real`, on nodes where pods run; with `--context`, on a cluster that one has.

mod context;
mod explain;
mod real;

use std::{
    collections::BTreeMap,
    fs,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::{Args, builder::ArgPredicate};
use futures::future::try_join_all;
use kube::Client;
use tf_api::kinds;
use tf_testing::{
    Lab, Options, assets,
    audit::count_by_user,
    manifests,
    operators::{self, Install, Operator, Run},
    real::whole,
    resources::{self, Resource},
};

use crate::{
    build::{self, Built},
    tools::{self, Need},
};

const NAMESPACE: &str = "tf";

/// Options of `cargo xtask demo`.
#[derive(Args)]
pub struct Demo {
    /// Real nodes on which real stores run and `tf-sim` plays the daemons, instead of simulated ones; needs root
    #[arg(long, conflicts_with_all = ["control_plane", "workers"])]
    real: bool,
    /// A cluster that you have, by its context in the kubeconfig: installs the charts into the namespace tf-demo and removes everything in the end
    #[arg(long, value_name = "NAME", conflicts_with_all = ["real", "control_plane", "workers"])]
    context: Option<String>,
    /// Registry from which the nodes of that cluster pull every image [default: they have been loaded]
    #[arg(long, requires = "context")]
    registry: Option<String>,
    /// The manifest to apply [default: examples/manager.yaml; with --real without kernel module and CNI plugin, with --context without vRouter]
    #[arg(long)]
    manifest: Option<String>,
    /// Simulated control-plane nodes
    #[arg(long, default_value_t = 3)]
    control_plane: u32,
    /// Simulated workers
    #[arg(long, default_value_t = 3)]
    workers: u32,
    /// Seconds everything may take to become Ready [default: 120; with --real or --context 900, which stores on two cores may need]
    #[arg(long, default_value_t = 120, default_value_ifs([("real", ArgPredicate::Equals("true".into()), "900"), ("context", ArgPredicate::IsPresent, "900")]), hide_default_value = true)]
    limit: u64,
    /// Leave everything running until Enter is pressed
    #[arg(long)]
    keep: bool,
}

/// Runs the command.
pub fn run(demo: &Demo) -> Result<ExitCode> {
    let manifest = match &demo.manifest {
        Some(file) => {
            let file = crate::root()?.join(file);
            fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?
        }
        None if demo.real => whole::manifest()?,
        None => fs::read_to_string(crate::root()?.join("examples/manager.yaml")).context("examples/manager.yaml")?,
    };
    let runtime = tokio::runtime::Runtime::new()?;
    if let Some(context) = &demo.context {
        tools::ensure(&[Need::Lab])?;
        assets::all()?;
        runtime.block_on(context::show(demo, context, &manifest))?;
    } else if demo.real {
        let images = build::images_for_real_nodes()?;
        runtime.block_on(real::show(demo, &manifest, images.folder()))?;
    } else {
        let binaries = build::operators()?;
        runtime.block_on(show(demo, &manifest, &binaries))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(demo: &Demo, manifest: &str, binaries: &Built) -> Result<()> {
    let begun = Instant::now();
    println!("starting a control plane with {} + {} simulated nodes", demo.control_plane, demo.workers);
    let lab = Lab::start(Options::fleet(demo.control_plane, demo.workers)).await?;
    println!("{:5.1} s  the API server answers and every node is Ready", begun.elapsed().as_secs_f64());

    let install = Install::default();
    try_join_all(operators::ALL.map(|operator| lab.install(operator, NAMESPACE, &install))).await?;
    println!("{:5.1} s  {} charts are installed", begun.elapsed().as_secs_f64(), operators::ALL.len());

    let how = Run { binaries: Some(binaries.folder().to_owned()), ..Run::default() };
    let running = try_join_all(operators::ALL.map(|operator| lab.operate(operator, NAMESPACE, &how))).await?;
    try_join_all(running.iter().map(Operator::ready)).await?;
    println!("{:5.1} s  {} operators run, each with its own rights", begun.elapsed().as_secs_f64(), running.len());

    let mark = lab.audit_mark().await?;
    let took = applied(&lab.client().await?, NAMESPACE, demo, manifest, &running, begun).await?;
    summary(&lab, &running, took, lab.audit().entries_since(mark)?.0).await?;
    keep(&lab, demo).await
}

/// Applies the manifest and shows how it becomes Ready. How long that took.
async fn applied(
    client: &Client,
    namespace: &str,
    demo: &Demo,
    manifest: &str,
    running: &[Operator],
    begun: Instant,
) -> Result<Duration> {
    let applied = Instant::now();
    manifests::apply(client, manifest).await?;
    println!("{:5.1} s  the manifest is applied; from here on time counts from zero\n", begun.elapsed().as_secs_f64());
    if let Err(error) = watch(client, namespace, running, applied, demo).await {
        // Said on top of the error, never instead of it: the API may be what has failed.
        match resources::all(client, namespace).await {
            Ok(found) => println!("\n{}", explain::explain(&found)),
            Err(unread) => println!("\nwhat is not Ready, and why, cannot be read: {unread:#}"),
        }
        return Err(error);
    }
    Ok(applied.elapsed())
}

async fn keep(lab: &Lab, demo: &Demo) -> Result<()> {
    finish(demo, &format!("export KUBECONFIG={}", lab.kubeconfig().display())).await
}

/// Waits for Enter where the command line says so. `hint`: how to look around.
async fn finish(demo: &Demo, hint: &str) -> Result<()> {
    if demo.keep {
        println!("\n{hint}\npress Enter to end");
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    }
    Ok(())
}

impl Demo {
    /// Between two looks at all resources. Servers that start need the machine, and a cluster that one has is others', too.
    fn pause(&self) -> Duration {
        if self.real || self.context.is_some() { Duration::from_secs(2) } else { Duration::from_millis(100) }
    }
}

/// Prints every change of a resource's Ready condition until the Manager is Ready, or everything where there is none.
async fn watch(client: &Client, namespace: &str, running: &[Operator], begun: Instant, demo: &Demo) -> Result<()> {
    let limit = Duration::from_secs(demo.limit);
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let found = resources::all(client, namespace).await?;
        for resource in &found {
            let label = format!("{} {}", resource.kind.kind, resource.name);
            let state = state(resource);
            if shown.get(&label) != Some(&state) {
                println!("{:5.1} s  {label:<28} {state}", begun.elapsed().as_secs_f64());
                shown.insert(label, state);
            }
        }
        // Nobody starts it again here, so nothing is worth waiting for.
        if let Some(ended) = running.iter().find(|operator| !operator.process.is_running()) {
            bail!("{} has ended; its log ends with\n{}", ended.name, ended.process.tail(20));
        }
        let is_manager = |resource: &&Resource| resource.kind == kinds::MANAGER;
        let managed = found.iter().any(|resource| is_manager(&resource));
        if !found.is_empty() && found.iter().filter(|it| !managed || is_manager(it)).all(Resource::is_ready) {
            return Ok(());
        }
        if begun.elapsed() > limit {
            let what = if managed { "the Manager was not" } else { "not everything was" };
            bail!("{what} Ready after {} s", limit.as_secs());
        }
        tokio::time::sleep(demo.pause()).await;
    }
}

async fn all(lab: &Lab) -> Result<Vec<Resource>> {
    resources::all(&lab.client().await?, NAMESPACE).await
}

fn state(resource: &Resource) -> String {
    let Some(ready) = resource.condition("Ready") else { return "no status yet".into() };
    let first = ready.message.split(';').next().unwrap_or_default();
    if resource.is_ready() { format!("READY    {first}") } else { format!("{:<8} {first}", ready.reason) }
}

async fn summary(
    lab: &Lab,
    running: &[Operator],
    took: Duration,
    entries: Vec<tf_testing::audit::Entry>,
) -> Result<()> {
    let counts = count_by_user(&entries);
    let found = all(lab).await?;
    println!("\nReady after {:.1} s\n", took.as_secs_f64());
    table(&found);
    println!("\n{:<14} {:>9} {:>7} {:>10}", "operator", "requests", "writes", "memory");
    for operator in running {
        let count = counts.get(&operator.user).copied().unwrap_or_default();
        let memory = operator.process.usage().map_or(0, |usage| usage.rss_bytes / 1024 / 1024);
        println!("{:<14} {:>9} {:>7} {memory:>6} MiB", operator.name, count.total, count.writes());
    }
    Ok(())
}

/// A line for each resource.
fn table(found: &[Resource]) {
    println!("{:<14} {:<16} {:<6} {:<8} message", "kind", "name", "ready", "members");
    for resource in found {
        let ready = if resource.is_ready() { "True" } else { "False" };
        let members = resource.status.members_ready.clone().unwrap_or_default();
        let message = resource.condition("Ready").map(|ready| ready.message.clone()).unwrap_or_default();
        println!("{:<14} {:<16} {ready:<6} {members:<8} {message}", resource.kind.kind, resource.name);
    }
}
