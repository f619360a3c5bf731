//! What daemons are connected to is lost, as a whole or from one node, or a server of it hangs: the resource of the daemons, or of the server, says
//! within seconds which it is, nobody is stopped for it, and all is well again when it is back.

use futures::future::join_all;
use tf_api::kinds::{ANALYTICS, ANALYTICS_SNMP, QUERY_ENGINE, RABBITMQ, REDIS, ZOOKEEPER};

use super::kept::Configuration;
use super::named::{Findings, pod_on, told, told_where};
use super::*;

/// Servers whose processes end on all nodes at once, with their container, who says so and the words for the connection that is gone then, or for the
/// daemon that is. All but the last one are stores.
const SERVERS: [(&str, &str, KindInfo, &str, &str); 6] = [
    ("beam.smp", "rabbitmq", CONFIG_KIND, CONFIG.name, "Database:RabbitMQ"),
    ("java org.apache.cassandra.service.CassandraDaemon", "cassandra", CONFIG_KIND, CONFIG.name, "Database:Cassandra"),
    (
        "java org.apache.zookeeper.server.quorum.QuorumPeerMain",
        "zookeeper",
        CONFIG_KIND,
        CONFIG.name,
        "Zookeeper:Zookeeper",
    ),
    ("redis-server", "redis", ANALYTICS, "analytics1", "Redis-UVE"),
    ("java kafka.Kafka", "kafka", ANALYTICS_ALARM, "analyticsalarm1", "kafka"),
    (COLLECTOR, "collector", ANALYTICS, "analytics1", "collector"),
];
/// What is no store: collectors.
const COLLECTOR: &str = "contrail-collector";
/// How long a store is lost, in which no configuration becomes another one.
const MINUTE: Duration = Duration::from_mins(1);
/// Servers one of which hangs, its ports open, with the resources whose pods it is in.
const HANGING: [(&str, &[(KindInfo, &str)]); 4] = [
    ("beam.smp", &[(RABBITMQ, "rabbitmq1")]),
    (SERVERS[1].0, &[(CASSANDRA, "configdb1"), (CASSANDRA, "analyticsdb1")]),
    (SERVERS[2].0, &[(ZOOKEEPER, "zookeeper1")]),
    ("redis-server", &[(REDIS, "redis1")]),
];
/// Who must notice that a node is cut off from the others: of each a pod is there whose agent its operator does not reach. It tells of that pod or of that
/// node, or first of what those lack that it does reach: a connection, or a quorum.
const CUT_OFF: [(KindInfo, &str, &[&str]); 14] = [
    (ZOOKEEPER, "zookeeper1", &["not part of a quorum"]),
    (CASSANDRA, "configdb1", &[]),
    (CASSANDRA, "analyticsdb1", &[]),
    (RABBITMQ, "rabbitmq1", &[]),
    (REDIS, "redis1", &[]),
    (CONFIG_KIND, CONFIG.name, &[]),
    (ANALYTICS, "analytics1", &["Redis-UVE"]),
    (QUERY_ENGINE, "queryengine1", &["Redis-UVE"]),
    (ANALYTICS_SNMP, "analyticssnmp1", &[]),
    (ANALYTICS_ALARM, "analyticsalarm1", &["Redis-UVE", "KafkaPub"]),
    (CONTROL, CONTROL_NODES, &[]),
    (KUBEMANAGER, LINK, &[]),
    (WEBUI, WEB, &[]),
    (VROUTER, AGENTS, &["XMPP:control-node"]),
];
/// Containers of servers whose clients may end after a while without them.
const SUSPENDED: [&str; 2] = ["rabbitmq", "zookeeper"];
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
    repaired(client).await?;
    let mut findings = Findings::default();
    let configured = Configuration::of(lab, client).await?;
    let every = lab.real_nodes()?.all()?;
    for (server, container, kind, name, words) in SERVERS {
        let before = Daemons::of(lab, client).await?;
        let begun = Instant::now();
        let lost = format!("every {server}");
        let meanwhile = async {
            findings.note(&lost, told(client, (kind, name), "WorkloadReady", words, &lost, begun).await);
            let time = if server == COLLECTOR { Duration::ZERO } else { MINUTE };
            findings.note(&lost, configured.stays(lab, client, begun, time).await);
            Ok(())
        };
        kept_down(&every, server, meanwhile).await?;
        if server == COLLECTOR {
            for (kind, name) in INDIFFERENT {
                let it = resources::get(client, kind, NAMESPACE, name).await?.context("no resource")?;
                ensure!(it.is("WorkloadReady", "True"), "{}", it.explain("WorkloadReady"));
            }
        }
        recovered(client, &visitor, &addresses, begun).await?;
        findings.note(&lost, configured.is(&Configuration::of(lab, client).await?));
        findings.note(&lost, before.have_stayed_but(|it| it.container == container, &[container]));
    }

    for (number, (server, resources)) in HANGING.into_iter().enumerate() {
        let before = Daemons::of(lab, client).await?;
        let (begun, node) = (Instant::now(), &every[number % every.len()]);
        let what = format!("{server} of {}", node.name());
        node.hang(server)?;
        for (kind, name) in resources {
            let pod = pod_on(client, *kind, name, node.name()).await?;
            let named = told(client, (*kind, name), "WorkloadReady", &format!("pod {pod}"), &what, begun).await;
            findings.note(&what, named);
        }
        node.go_on(server)?;
        recovered(client, &visitor, &addresses, begun).await?;
        findings.note(&what, before.have_stayed_but(|_| false, &SUSPENDED));
    }

    let before = Daemons::of(lab, client).await?;
    cut_off(lab, client, &mut findings).await?;
    recovered(client, &visitor, &addresses, Instant::now()).await?;
    findings.note("a node cut off", before.have_stayed_but(|_| false, &SUSPENDED));
    findings.note("a node cut off", configured.is(&Configuration::of(lab, client).await?));
    findings.none()
}

/// Cuts a node off from the others, until everybody who must notice has told of it, and heals the network.
async fn cut_off(lab: &Lab, client: &Client, findings: &mut Findings) -> Result<()> {
    let nodes = lab.real_nodes()?;
    let alone = nodes.all()?.pop().context("no node")?;
    let (there, others): (Vec<_>, Vec<_>) = nodes.all()?.into_iter().partition(|node| node.name() == alone.name());
    let mut unreached = Vec::new();
    for (kind, name, _) in CUT_OFF {
        // An operator sees what its node sees.
        let is_alone = operator::node_of(client, kind.operator, NAMESPACE).await? == alone.name();
        let mut words = Vec::new();
        for node in if is_alone { &others } else { &there } {
            let pod = pod_on(client, kind, name, node.name()).await?;
            words.extend([format!("pod {pod}: "), node.name().to_owned(), node.address().to_string()]);
        }
        unreached.push(words);
    }
    let others: Vec<&str> = others.iter().map(RealNode::name).collect();
    let begun = Instant::now();
    nodes.cut(&[alone.name()], &others).await?;
    let noticed = CUT_OFF.iter().zip(&unreached).map(|((kind, name, connections), words)| {
        let what = format!("{} cut off: {} {name}", alone.name(), kind.kind);
        async move {
            let is_said = |said: &str| {
                words.iter().any(|word| said.contains(word)) || connections.iter().any(|it| said.contains(it))
            };
            let told = told_where(client, (*kind, name), "WorkloadReady", is_said, &what, begun).await;
            (what, told)
        }
    });
    for (what, told) in join_all(noticed).await {
        findings.note(&what, told);
    }
    // It looks for each Redis every five seconds, and others answer.
    let is_told = |it: &Resource| !it.is_ready() && it.explain("WorkloadReady").contains("Redis-UVE");
    let told = resources::until(client, ANALYTICS, NAMESPACE, "analytics1", "honest", RECOVERY, is_told).await?;
    println!("Redis: told after {:.1?}: {}", begun.elapsed(), told.explain("WorkloadReady"));
    nodes.heal_all().await
}

async fn recovered(client: &Client, visitor: &Visitor, addresses: &[IpAddr], begun: Instant) -> Result<()> {
    // Who ended again and again for a minute waits for as long before it begins once more.
    resources::ready(client, MANAGER, NAMESPACE, "sdn", BRING_UP).await?;
    functional(visitor, addresses).await?;
    resources::ready(client, MANAGER, NAMESPACE, "sdn", BRING_UP).await?;
    println!("all is well after {:.0?}", begun.elapsed());
    Ok(())
}
