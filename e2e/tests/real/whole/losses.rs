//! What daemons are connected to is lost, as a whole or from one node, or a server of it hangs: the resource of the daemons, or of the server, says
//! within seconds which it is, nobody is stopped for it, and all is well again when it is back.

use tf_api::kinds::{ANALYTICS, CASSANDRA, RABBITMQ, REDIS, ZOOKEEPER};

use super::*;

/// Servers whose processes end on all nodes at once, with who says so and the words for the connection that is gone then, or for the daemon that is.
const SERVERS: [(&str, KindInfo, &str, &str); 6] = [
    ("beam.smp", CONFIG_KIND, CONFIG.name, "Database:RabbitMQ"),
    ("java org.apache.cassandra.service.CassandraDaemon", CONFIG_KIND, CONFIG.name, "Database:Cassandra"),
    ("java org.apache.zookeeper.server.quorum.QuorumPeerMain", CONFIG_KIND, CONFIG.name, "Zookeeper:Zookeeper"),
    ("redis-server", ANALYTICS, "analytics1", "Redis-UVE"),
    ("java kafka.Kafka", ANALYTICS_ALARM, "analyticsalarm1", "kafka"),
    ("contrail-collector", ANALYTICS, "analytics1", "collector"),
];
/// Servers one of which hangs, its ports open, with the resources whose pods it is in.
const HANGING: [(&str, &[(KindInfo, &str)]); 4] = [
    ("beam.smp", &[(RABBITMQ, "rabbitmq1")]),
    (SERVERS[1].0, &[(CASSANDRA, "configdb1"), (CASSANDRA, "analyticsdb1")]),
    (SERVERS[2].0, &[(ZOOKEEPER, "zookeeper1")]),
    ("redis-server", &[(REDIS, "redis1")]),
];
/// Who does without collectors.
const INDIFFERENT: [(KindInfo, &str); 3] = [(CONFIG_KIND, CONFIG.name), (CONTROL, CONTROL_NODES), (KUBEMANAGER, LINK)];

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_daemons_lose_is_named_and_nobody_is_stopped_for_it() -> Result<()> {
    Long::Losses.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let visitor = Visitor::of(client, NAMESPACE).await?;
    let addresses = lab.real_nodes()?.addresses()?;
    functional(&visitor, &addresses).await?;
    let before = restarts(client).await?;
    for (server, kind, name, words) in SERVERS {
        let begun = Instant::now();
        let every = lab.real_nodes()?.all()?;
        let lost = format!("every {server}");
        kept_down(&every, server, told(client, (kind, name), "WorkloadReady", words, &lost, begun)).await?;
        if server == "contrail-collector" {
            for (kind, name) in INDIFFERENT {
                let it = resources::get(client, kind, NAMESPACE, name).await?.context("no resource")?;
                ensure!(it.is("WorkloadReady", "True"), "{}", it.explain("WorkloadReady"));
            }
        }
        recovered(client, &visitor, &addresses, begun).await?;
    }

    let every = lab.real_nodes()?.all()?;
    for (number, (server, resources)) in HANGING.into_iter().enumerate() {
        let (begun, node) = (Instant::now(), &every[number % every.len()]);
        node.hang(server)?;
        for (kind, name) in resources {
            let pod = pod_on(client, *kind, name, node.name()).await?;
            let what = format!("{server} of {}", node.name());
            told(client, (*kind, name), "WorkloadReady", &format!("pod {pod}"), &what, begun).await?;
        }
        node.go_on(server)?;
        recovered(client, &visitor, &addresses, begun).await?;
    }

    let nodes = lab.real_nodes()?;
    let alone = nodes.all()?.pop().context("no node")?;
    let others: Vec<String> = nodes.others(&[alone.name()])?.into_iter().filter(|it| it.starts_with("node")).collect();
    let begun = Instant::now();
    nodes.cut(&[alone.name()], &others).await?;
    named(client, "pod config1", begun).await?;
    // It looks for each Redis every five seconds, and others answer.
    let is_told = |it: &Resource| !it.is_ready() && it.explain("WorkloadReady").contains("Redis-UVE");
    let told = resources::until(client, ANALYTICS, NAMESPACE, "analytics1", "honest", RECOVERY, is_told).await?;
    println!("Redis: told after {:.1?}: {}", begun.elapsed(), told.explain("WorkloadReady"));
    nodes.heal_all().await?;
    recovered(client, &visitor, &addresses, begun).await?;
    ensure!(restarts(client).await? == before, "containers were started again: {before:?}");
    Ok(())
}

/// The pod of a resource on a node.
async fn pod_on(client: &Client, kind: KindInfo, name: &str, node: &str) -> Result<String> {
    let pods = resources::pods(client, kind, NAMESPACE).await?;
    let is_there = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
    let its = pods.iter().filter(is_there).find(|pod| pod.name_any().starts_with(&format!("{name}-")));
    its.map(Pod::name_any).with_context(|| format!("{name} has no pod on {node}"))
}

/// Waits until Config says what is lost.
async fn named(client: &Client, what: &str, begun: Instant) -> Result<()> {
    told(client, (CONFIG_KIND, CONFIG.name), "WorkloadReady", what, what, begun).await
}

async fn recovered(client: &Client, visitor: &Visitor, addresses: &[Ipv4Addr], begun: Instant) -> Result<()> {
    functional(visitor, addresses).await?;
    resources::ready(client, MANAGER, NAMESPACE, "sdn", BRING_UP).await?;
    println!("all is well after {:.0?}", begun.elapsed());
    Ok(())
}
