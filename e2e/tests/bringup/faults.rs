//! A bring-up under fire, and a cluster that loses its API server for a minute: nothing is done twice, nothing is taken
//! away, and nobody has to restart anything.
//!
//! Each operator has a proxy of its own between itself and the API server; everybody else's requests arrive. What the
//! proxies do is drawn with [`seed::VARIABLE`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use kube::api::{DynamicObject, Patch, PatchParams};
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use serde_json::{Value, json};
use tf_api::{kinds, names::LABEL_PART_OF};
use tf_plan::object::{self, Kind};
use tf_testing::{
    Cluster, Entry, Proxy, Verb,
    operators::{self, Run},
    proxy::{Answer, Fault, Match, Outcome, ResetAt, WatchEnd, Which},
    resources::{self, Resource},
    sample::has_turn,
    seed,
    wait::eventually,
};
use tokio::time::Instant;

use crate::{
    credentials::{Recording, generated},
    support::{Chronicle, EXAMPLE, FLEET, MEMBERS, each_pod_started_once, explain, label, lines, settled, uids},
};

/// How long the proxies interfere: about the time of three undisturbed bring-ups, and enough to lose a lease in.
const FIRE: Duration = Duration::from_secs(40);

/// What the issue asks for.
const OUTAGE: Duration = Duration::from_mins(1);

/// Longest pause of a watch between two attempts, with its jitter, and a little for the attempt itself.
const RECOVERY: Duration = Duration::from_mins(1);

/// What goes wrong, how often out of a hundred requests.
fn mix() -> [(Match, u32, Fault); 9] {
    let writes = || Match::when(|request| request.verb.is_mutating());
    let no_watch = || Match::when(|request| request.verb != Verb::Watch);
    let patience = Duration::from_secs(1);
    [
        (writes(), 12, Fault::Answer(Answer::conflict())),
        (no_watch(), 5, Fault::Answer(Answer::too_many_requests(patience))),
        (no_watch(), 5, Fault::Answer(Answer::internal_error())),
        (no_watch(), 1, Fault::Hang),
        (no_watch(), 8, Fault::Delay(Duration::from_millis(700))),
        (no_watch(), 3, Fault::Reset(ResetAt::Request)),
        (writes(), 6, Fault::Reset(ResetAt::Answer)),
        (Match::verb(Verb::Watch), 10, Fault::WatchExpired),
        (Match::verb(Verb::List), 5, Fault::Answer(Answer::expired())),
    ]
}

/// Lets requests of all operators go wrong, each with draws of its own.
fn open_fire(proxies: &[Proxy], draws: &mut SmallRng) {
    for proxy in proxies {
        for (when, percent, fault) in mix() {
            let which = Which::Random { probability: f64::from(percent) / 100.0, seed: draws.random() };
            proxy.add(when, which, fault);
        }
    }
}

/// How often the proxies did what; watches that they ended, and what they only delayed, apart.
fn effects(proxies: &[Proxy]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for seen in proxies.iter().flat_map(Proxy::seen) {
        let effect = match seen.outcome {
            Outcome::Injected(200) => "expired watches".into(),
            Outcome::Injected(code) => code.to_string(),
            Outcome::Dropped => "dropped".into(),
            Outcome::Answered(_) | Outcome::Failed => continue,
        };
        *counts.entry(effect).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bring_up_under_fire_does_nothing_twice_and_nothing_wrong() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let seed = seed::from_environment()?;
    println!("{}={seed}", seed::VARIABLE);
    under_fire(seed).await.with_context(|| format!("{}={seed}", seed::VARIABLE))
}

async fn under_fire(seed: u64) -> Result<()> {
    let lab = FLEET.get().await?;
    let (cluster, proxies) = Cluster::start_behind_proxies(&lab, "under-fire", &Run::default()).await?;
    cluster.nodes(3, 1).await?;
    let mut chronicle = Chronicle::begin(&cluster.client, "under-fire", Chronicle::everything()).await?;
    let recording = Recording::of(&cluster.client, "under-fire").await?;
    let begin = lab.audit_mark().await?;

    let mut draws = SmallRng::seed_from_u64(seed);
    open_fire(&proxies, &mut draws);
    cluster.example().await?;
    let end = Instant::now() + FIRE;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(draws.random_range(1000..4000))).await;
        let hit = draws.random_range(0..proxies.len());
        proxies[hit].end_watches(if draws.random() { WatchEnd::Closed } else { WatchEnd::Expired });
    }
    proxies.iter().for_each(Proxy::clear);
    let effects = effects(&proxies);
    println!("{effects:?}");
    for effect in ["409", "429", "500", "dropped", "expired watches"] {
        ensure!(effects.get(effect).is_some_and(|count| *count > 2), "hardly any {effect}: {effects:?}");
    }

    cluster.manager_ready("sdn").await?;
    settled(&cluster, Duration::from_secs(2)).await?;
    let found = resources::all(&cluster.client, "under-fire").await?;
    ensure!(found.len() == EXAMPLE && found.iter().all(Resource::is_ready), "{}", explain(&found));
    let pods = each_pod_started_once(&chronicle.versions()?)?;
    ensure!(pods == MEMBERS * 3 + 4, "{MEMBERS} services on three nodes and four agents, but {pods} pods");
    let names = generated(&found)?;
    ensure!(names.len() >= 5, "components generate more than {names:?}");
    recording.only_values(&names)?;
    let entries = lab.audit().window(begin, lab.audit_mark().await?)?;
    nothing_deleted(&cluster, &entries)?;
    nothing_created_twice(&cluster, &entries)?;
    all_still_run(&cluster)
}

fn of_ours<'a>(cluster: &Cluster, entries: &'a [Entry]) -> impl Iterator<Item = &'a Entry> {
    let users: BTreeSet<String> = cluster.users().into_iter().map(str::to_owned).collect();
    entries.iter().filter(move |entry| entry.counts() && users.contains(&entry.user))
}

fn nothing_deleted(cluster: &Cluster, entries: &[Entry]) -> Result<()> {
    let is_delete = |entry: &&Entry| matches!(entry.verb, Verb::Delete | Verb::DeleteCollection);
    let deleted: Vec<&Entry> = of_ours(cluster, entries).filter(is_delete).collect();
    ensure!(deleted.is_empty(), "operators deleted:\n{}", lines(deleted));
    Ok(())
}

/// An object that is created again was gone in between, or somebody thought so.
fn nothing_created_twice(cluster: &Cluster, entries: &[Entry]) -> Result<()> {
    let mut created = BTreeSet::new();
    let is_new = |entry: &&Entry| entry.code == 201 && entry.is_mutating() && entry.resource != "events";
    for entry in of_ours(cluster, entries).filter(is_new) {
        ensure!(created.insert((&entry.resource, &entry.name)), "created twice:\n{}", lines([entry]));
    }
    ensure!(created.len() > 30, "a bring-up creates more than {created:?}");
    Ok(())
}

/// The very processes that were started.
fn all_still_run(cluster: &Cluster) -> Result<()> {
    for operator in &cluster.operators {
        ensure!(operator.process.is_running(), "{} ended:\n{}", operator.name, operator.process.tail(20));
    }
    Ok(())
}

/// Identity, generation and data of everything in a namespace that lasts, and only the identity of pods.
async fn inventory(cluster: &Cluster) -> Result<BTreeMap<String, (Option<String>, Option<i64>, Value)>> {
    let lasts = |object: &DynamicObject| !label(object).starts_with("Event ");
    let all =
        tf_testing::resources::everything_in(&cluster.client, &cluster.namespace).await?.into_iter().filter(lasts);
    let state = |object: DynamicObject| {
        let generation = object.metadata.generation.filter(|_| !label(&object).starts_with("Pod "));
        (label(&object), (object.metadata.uid.clone(), generation, object.data["data"].clone()))
    };
    Ok(all.map(state).collect())
}

/// Takes a label of ours from an object of each operator, and returns the objects: who watches them puts it back.
async fn spoil(cluster: &Cluster) -> Result<Vec<(Kind, String)>> {
    let made = tf_testing::resources::everything_in(&cluster.client, &cluster.namespace).await?;
    let accounts = made
        .iter()
        .filter(|object| label(object).starts_with("ServiceAccount ") && object.metadata.owner_references.is_some());
    let accounts = accounts.filter_map(|account| Some((object::SERVICE_ACCOUNT, account.metadata.name.clone()?)));
    let spoilt: Vec<_> = accounts.chain([(Kind::custom(kinds::ZOOKEEPER), "zookeeper1".to_owned())]).collect();
    ensure!(spoilt.len() >= operators::ALL.len(), "each operator makes one of {spoilt:?}");
    let patch = Patch::Merge(json!({ "metadata": { "labels": { LABEL_PART_OF: null } } }));
    for (kind, name) in &spoilt {
        resources::objects(&cluster.client, *kind, &cluster.namespace)
            .patch(name, &PatchParams::default(), &patch)
            .await?;
    }
    Ok(spoilt)
}

/// Which of the spoilt objects are as they were.
async fn mended(cluster: &Cluster, spoilt: &[(Kind, String)]) -> Result<usize> {
    let mut count = 0;
    for (kind, name) in spoilt {
        let object = resources::objects(&cluster.client, *kind, &cluster.namespace).get(name).await?;
        count += usize::from(object.metadata.labels.is_some_and(|labels| labels.contains_key(LABEL_PART_OF)));
    }
    Ok(count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_outlives_a_minute_without_its_api_server() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let lab = FLEET.get().await?;
    let (cluster, proxies) = Cluster::start_behind_proxies(&lab, "outage", &Run::default()).await?;
    cluster.nodes(3, 1).await?;
    cluster.example().await?;
    cluster.manager_ready("sdn").await?;
    let begin = settled(&cluster, Duration::from_secs(2)).await?;
    let before = inventory(&cluster).await?;
    let pods = uids(&cluster.client, object::POD, "outage").await?;

    for proxy in &proxies {
        proxy.set_reachable(false);
    }
    let end = Instant::now() + OUTAGE;
    let spoilt = spoil(&cluster).await?;
    while Instant::now() < end {
        all_still_run(&cluster)?;
        for operator in &cluster.operators {
            let (code, _) = operator.get("/healthz").await?;
            ensure!(code == 200, "the kubelet would restart {}", operator.name);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    ensure!(mended(&cluster, &spoilt).await? == 0, "the operators could reach the API server");

    for proxy in &proxies {
        proxy.set_reachable(true);
    }
    eventually("all operators to write again", RECOVERY, async || {
        Ok((mended(&cluster, &spoilt).await? == spoilt.len()).then_some(()))
    })
    .await?;
    settled(&cluster, Duration::from_secs(2)).await?;
    all_still_run(&cluster)?;
    let found = resources::all(&cluster.client, "outage").await?;
    ensure!(found.len() == EXAMPLE && found.iter().all(Resource::is_ready), "{}", explain(&found));
    ensure!(uids(&cluster.client, object::POD, "outage").await? == pods, "pods were replaced");
    let after = inventory(&cluster).await?;
    let changed: Vec<&String> = before.keys().filter(|label| after.get(*label) != before.get(*label)).collect();
    ensure!(changed.is_empty(), "replaced, changed or gone: {changed:?}");
    nothing_deleted(&cluster, &lab.audit().window(begin, lab.audit_mark().await?)?)
}
