//! What happens where nothing is changed: no operator writes, no condition changes, and the requests by which agents look at daemons leave few lines in their
//! logs. A client of the config API that makes and deletes networks changes nothing of that, although daemons of analytics stumble over each notice of it.

use jiff::Timestamp;
use kube::api::LogParams;
use tf_api::kinds::{ALL, RABBITMQ, REDIS, ZOOKEEPER};
use tf_testing::audit::{Mark, count_by_user};

use super::traffic::Traffic;
use super::world::World;
use super::*;

/// How long nothing may happen, and how long before that what has begun may take to end.
const SILENCE: Duration = Duration::from_mins(1);
pub const SETTLED: Duration = Duration::from_secs(30);
/// How long a client is busy.
const CHURN: Duration = Duration::from_mins(10);
/// What is no played daemon and logs what it does by itself.
const STORES: [KindInfo; 4] = [CASSANDRA, RABBITMQ, REDIS, ZOOKEEPER];
const KAFKA: &str = "kafka";
/// Lines that a daemon at rest logs in a minute because its agent looks at it.
const LINES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn no_condition_changes_and_no_operator_writes_while_a_client_makes_and_deletes_networks_for_ten_minutes()
-> Result<()> {
    Long::Churn.run(churn).await
}

async fn churn(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    settled(client).await?;
    let (before, begun) = (transitions(client).await?, lab.audit_mark().await?);
    let traffic = Traffic::begin(client, &world.addresses, "churn");
    tokio::time::sleep(CHURN).await;
    traffic.end("networks made and deleted").await?;
    let (after, end) = (transitions(client).await?, lab.audit_mark().await?);
    let changed =
        |(what, when): (&String, &Transition)| (before.get(what) != Some(when)).then(|| format!("{what}: {when:?}"));
    let changed: Vec<String> = after.iter().filter_map(changed).collect();
    ensure!(changed.is_empty() && before.len() == after.len(), "conditions changed: {changed:#?}");
    no_operator_wrote(lab, begun, end)
}

/// No operator writes or asks for what is not allowed, and daemons log little.
pub async fn nothing_happens(lab: &Lab, client: &Client) -> Result<()> {
    settled(client).await?;
    let begun = lab.audit_mark().await?;
    tokio::time::sleep(SILENCE).await;
    let lines = lines_of_daemons(client).await?;
    no_operator_wrote(lab, begun, lab.audit_mark().await?)?;
    println!("lines in a minute at rest: {lines:?}");
    // Elected daemons of Config ask one of the APIs every second: what looks cause is what the least asked member has.
    let mut least: BTreeMap<&str, usize> = BTreeMap::new();
    for (container, count) in &lines {
        let service = container.split(' ').next().unwrap_or_default();
        least.entry(service).and_modify(|least| *least = (*least).min(*count)).or_insert(*count);
    }
    let many: Vec<_> = least.iter().filter(|(_, lines)| **lines > LINES).collect();
    ensure!(many.is_empty(), "more than {LINES} lines in a minute at rest: {many:?}");
    Ok(())
}

/// Nothing is left to do.
async fn settled(client: &Client) -> Result<()> {
    repaired(client).await?;
    tokio::time::sleep(SETTLED).await;
    Ok(())
}

fn no_operator_wrote(lab: &Lab, begun: Mark, end: Mark) -> Result<()> {
    let ours = format!("system:serviceaccount:{NAMESPACE}:");
    let entries = lab.audit().window(begun, end)?;
    for (user, count) in count_by_user(&entries) {
        ensure!(!user.starts_with(&ours) || count.writes() == 0, "{user} wrote though nothing had changed: {count:?}");
    }
    let refused = entries.iter().find(|entry| entry.user.starts_with(&ours) && entry.code == 403);
    ensure!(refused.is_none(), "{refused:?}");
    Ok(())
}

/// A condition's status, and since when it has it.
type Transition = (String, Option<Timestamp>);

/// Conditions of our resources and their pods: a condition that changed and changed back has another time.
async fn transitions(client: &Client) -> Result<BTreeMap<String, Transition>> {
    let mut found = BTreeMap::new();
    for resource in resources::all(client, NAMESPACE).await? {
        for condition in &resource.status.conditions {
            let what = format!("{} {} {}", resource.kind.kind, resource.name, condition.type_);
            found.insert(what, (condition.status.clone(), Some(condition.last_transition_time.0)));
        }
    }
    for pod in Api::<Pod>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await? {
        for condition in pod.status.iter().flat_map(|status| status.conditions.iter().flatten()) {
            let when = condition.last_transition_time.as_ref().map(|time| time.0);
            found.insert(format!("Pod {} {}", pod.name_any(), condition.type_), (condition.status.clone(), when));
        }
    }
    Ok(found)
}

/// Lines for requests of played clients, which ask every other second: the web UI asks the APIs, and its job server connects to the web server.
const CLIENTS: [&str; 3] = [" 127.0.0.1 ", "GET /global-system-configs ", "jobs: connected"];

/// How many lines each container of played daemons logged in the last minute, but for those of [`CLIENTS`].
async fn lines_of_daemons(client: &Client) -> Result<BTreeMap<String, usize>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let seconds = i64::try_from(SILENCE.as_secs())?;
    let mut found = BTreeMap::new();
    for kind in ALL.into_iter().filter(|kind| !STORES.contains(kind)) {
        for pod in resources::pods(client, kind, NAMESPACE).await? {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            for container in containers.filter(|container| container.name != KAFKA) {
                let parameters = LogParams {
                    container: Some(container.name.clone()),
                    since_seconds: Some(seconds),
                    ..LogParams::default()
                };
                let log = api.logs(&pod.name_any(), &parameters).await?;
                let lines = log.lines().filter(|line| !CLIENTS.iter().any(|client| line.contains(client))).count();
                found.insert(format!("{} of {}", container.name, pod.name_any()), lines);
            }
        }
    }
    Ok(found)
}
