//! The example becomes Ready, once, for a bounded number of requests; after that the operators do nothing but keep their
//! leases, and are small.

use std::{
    collections::BTreeSet,
    fs::File,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;
use tf_api::{contract::ConditionType, kinds};
use tf_cli::plan::{self, Report};
use tf_cli::rehearsal::rehearse;
use tf_testing::{
    Cluster, Entry, Lab, Options,
    audit::count_by_user,
    operators::{self, Operator, binary},
    resources::{self, Resource},
    work::{self, Work},
};

use crate::{
    picture::{nothing_is_told, one_tree_is_shown, pods_are_as_documented},
    support::{
        Chronicle, EXAMPLE, FLEET, MEMBERS, became_ready_once, each_pod_started_once, explain, lines, manifest,
        settled, writes,
    },
};

/// Nodes beside the control nodes, as many as the clusters have that are usual.
const WORKERS: u32 = 50;

/// How long nothing may happen.
const SILENCE: Duration = Duration::from_mins(3);

/// Requests of an idle operator in all, a minute.
const REQUESTS: u64 = 10;

/// Renewals of its lease, a minute.
const RENEWALS: u64 = 6;

/// Mutating requests of all operators for each object that they create, from the manifest to the end of the bring-up: status
/// and events included, leases apart.
const WRITES_PER_OBJECT: u64 = 2;

/// The same for one operator alone: manager-op creates few objects, and tells how each of them is.
const WRITES_PER_OBJECT_OF_ONE: u64 = 4;

/// A resource that is on its way may tell of its progress so often. On a machine that is busy with other tests the way is
/// longer, and more is told.
const PROGRESS: Duration = Duration::from_secs(5);

/// The one long test: it begins first, by its name, and the others run beside it.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_becomes_ready_once_and_then_nobody_writes_for_three_minutes() -> Result<()> {
    // Kept up for the tests beside this one, so that they do not each start it.
    let _warm = FLEET.get().await?;
    let lab = Arc::new(Lab::start(Options::fleet(3, WORKERS)).await?);
    let cluster = Cluster::start(&lab, "tf").await?;
    let mut chronicle = Chronicle::begin(&cluster.client, "tf", Chronicle::everything()).await?;
    let applied = lab.audit_mark().await?;
    let applied_at = Instant::now();
    cluster.apply_object(&manifest("examples/manager.yaml")?).await?;
    cluster.manager_ready("sdn").await?;
    let took = applied_at.elapsed();

    // Longer than the runtime holds back a status that tells only of progress.
    let begin = settled(&cluster, Duration::from_secs(6)).await?;
    writes_are_few(&cluster, took, &lab.audit().window(applied, begin)?)?;
    let resources = resources::all(&cluster.client, "tf").await?;
    ensure!(resources.len() == EXAMPLE && resources.iter().all(Resource::is_ready), "{}", explain(&resources));
    let pods = each_pod_started_once(&chronicle.versions()?)?;
    let agents = 3 + WORKERS as usize;
    ensure!(pods == MEMBERS * 3 + agents, "{MEMBERS} services on three nodes and {agents} agents, but {pods} pods");
    pods_are_as_documented(&cluster.client, "tf", 3, agents).await?;
    // Simulated members ask for no certificates.
    nothing_is_told(&resources, &[ConditionType::CertificatesReady])?;
    one_tree_is_shown(&cluster.client, "tf").await?;

    tokio::time::sleep(SILENCE).await;
    let end = lab.audit_mark().await?;
    let entries = lab.audit().window(begin, end)?;
    let counts = count_by_user(&entries);
    let minutes = SILENCE.as_secs() / 60;
    for user in cluster.users() {
        let count = counts.get(user).copied().unwrap_or_default();
        let own = || lines(entries.iter().filter(|entry| entry.user == user && entry.counts()));
        ensure!(count.lease_writes > 0, "{user} did not renew its lease; is the audit log complete?\n{}", own());
        // A renewal more, because the window need not begin just behind one.
        ensure!(count.lease_writes <= RENEWALS * minutes + 1, "{} renewals of {user}", count.lease_writes);
        ensure!(
            count.total < REQUESTS * minutes,
            "{} requests of {user} in {minutes} minutes:\n{}",
            count.total,
            own()
        );
    }
    operators_are_small(&cluster)?;
    let written = writes(entries, &cluster.users());
    ensure!(written.is_empty(), "operators wrote though nothing had changed:\n{}", lines(&written));

    let versions = chronicle.versions()?;
    let ready = became_ready_once(&versions)?;
    ensure!(ready.len() == EXAMPLE, "{EXAMPLE} resources, but {ready:?} became Ready");
    each_pod_started_once(&versions)?;
    let manager = cluster.get(kinds::MANAGER, "sdn").await?;
    ensure!(manager.object.data.pointer("/status/initialized") == Some(&Value::Bool(true)), "{:?}", manager.status);
    a_preview_agrees(&cluster).await
}

/// What `kubectl tf plan` tells of the manifest that was carried out: nothing is to be done.
async fn a_preview_agrees(cluster: &Cluster) -> Result<()> {
    let text = manifest("examples/manager.yaml")?.to_string();
    let rehearsal = rehearse(&cluster.client, plan::read(&text, "tf")?, "cluster.local", Timestamp::now()).await?;
    let (resources, is_done) = (rehearsal.reports.len(), rehearsal.reports.iter().all(Report::is_done));
    ensure!(is_done && resources == EXAMPLE, "{}", plan::text(&rehearsal.reports, &rehearsal.notes));
    Ok(())
}

/// By all operators together, and by each. Besides, a node that pods of the vRouter change is marked by one write.
fn writes_are_few(cluster: &Cluster, took: Duration, entries: &[Entry]) -> Result<()> {
    let is_mark = |entry: &Entry| {
        entry.resource == "nodes"
            && entry.is_mutating()
            && entry.counts()
            && cluster.users().contains(&entry.user.as_str())
    };
    let marks: Vec<&str> = entries.iter().filter(|entry| is_mark(entry)).map(|entry| entry.name.as_str()).collect();
    let marked: BTreeSet<&str> = marks.iter().copied().collect();
    ensure!(marks.len() == marked.len() && marked.len() <= 3 + WORKERS as usize, "nodes were marked: {marks:?}");
    let entries: Vec<Entry> = entries.iter().filter(|entry| !is_mark(entry)).cloned().collect();
    let entries = &entries[..];
    let work: Vec<Work> = cluster.operators.iter().map(|operator| work::of(entries, &operator.user)).collect();
    let sum = |count: fn(&Work) -> u64| work.iter().map(count).sum::<u64>();
    let (all_writes, all_objects) = (sum(|work| work.writes), sum(|work| work.objects));
    let line = |(operator, work): (&Operator, &Work)| {
        format!("{}: {} writes for {} objects", operator.name, work.writes, work.objects)
    };
    let each = cluster.operators.iter().zip(&work).map(line).collect::<Vec<_>>().join("\n");
    let told = u64::try_from(EXAMPLE as u128 * took.as_millis() / PROGRESS.as_millis())?;
    let report = format!("{all_writes} writes for {all_objects} objects in {:.1} s\n{each}", took.as_secs_f64());
    println!("{report}");
    let few = all_writes <= WRITES_PER_OBJECT * all_objects + told
        && work.iter().all(|work| work.objects > 0 && work.writes <= WRITES_PER_OBJECT_OF_ONE * work.objects + told);
    ensure!(few, "too many:\n{report}\n{}", lines(&writes(entries.to_vec(), &cluster.users())));
    Ok(())
}

/// As `cargo xtask test` builds them. A development build is several times as large, and has half of it in memory.
fn operators_are_small(cluster: &Cluster) -> Result<()> {
    for operator in &cluster.operators {
        let usage = operator.process.usage().with_context(|| format!("{} has ended", operator.name))?;
        let (resident, own) = (usage.rss_bytes / 1024, usage.anonymous_bytes / 1024);
        let executable = binary(operator.name)?;
        let size = executable.metadata()?.len() / 1024;
        println!("{}: {resident} KiB resident, {own} of them its own; an executable of {size} KiB", operator.name);
        if is_development_build(&executable)? {
            println!("not judged: it is a development build");
            continue;
        }
        let (largest, most) = (operators::LARGEST_EXECUTABLE, operators::largest_own(operator.name));
        ensure!(size <= largest, "the executable of {} has {size} KiB, more than {largest}", operator.name);
        ensure!(own <= most, "{} has {own} KiB of its own, more than {most}", operator.name);
    }
    Ok(())
}

/// Whether an executable has a symbol table, which profile `lab` strips: a section of type 2 in an ELF file.
fn is_development_build(executable: &Path) -> Result<bool> {
    let file = File::open(executable).with_context(|| format!("{}", executable.display()))?;
    let number = |offset: u64, size: usize| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes[..size], offset)?;
        anyhow::Ok(u64::from_le_bytes(bytes))
    };
    let (sections, size, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
    let types = (0..count).map(|index| number(sections + index * size + 4, 4)).collect::<Result<Vec<_>>>()?;
    ensure!(!types.is_empty(), "{} is no ELF file", executable.display());
    Ok(types.contains(&2))
}
