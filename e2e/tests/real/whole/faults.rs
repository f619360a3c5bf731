//! One daemon after the other hangs, its ports stay open and nothing answers; and one after the other ends whenever it is started. Its resource says which
//! it is within seconds, nobody else is disturbed, and all is well again when that is over.

use tf_api::kinds::{ANALYTICS, ANALYTICS_SNMP, QUERY_ENGINE};

use super::*;

/// Processes, with the resource that runs them and the container that it names.
const DAEMONS: [(&str, KindInfo, &str, &str); 18] = [
    ("contrail-api", CONFIG_KIND, CONFIG.name, "api"),
    ("contrail-schema", CONFIG_KIND, CONFIG.name, "schematransformer"),
    ("contrail-svc-monitor", CONFIG_KIND, CONFIG.name, "servicemonitor"),
    ("contrail-device-manager", CONFIG_KIND, CONFIG.name, "devicemanager"),
    ("contrail-control", CONTROL, CONTROL_NODES, "control"),
    ("contrail-dns", CONTROL, CONTROL_NODES, "dns"),
    ("contrail-named", CONTROL, CONTROL_NODES, "named"),
    ("contrail-kube-manager", KUBEMANAGER, LINK, "kubemanager"),
    ("contrail-collector", ANALYTICS, "analytics1", "collector"),
    ("contrail-analytics-api", ANALYTICS, "analytics1", "analyticsapi"),
    ("contrail-alarm-gen", ANALYTICS_ALARM, "analyticsalarm1", "analytics-alarm-gen"),
    ("java kafka.Kafka", ANALYTICS_ALARM, "analyticsalarm1", "kafka"),
    ("contrail-query-engine", QUERY_ENGINE, "queryengine1", "queryengine"),
    ("tf-snmp-collector", ANALYTICS_SNMP, "analyticssnmp1", "analytics-snmp-collector"),
    ("tf-topology", ANALYTICS_SNMP, "analyticssnmp1", "analytics-snmp-topology"),
    ("contrail-vrouter-agent", VROUTER, AGENTS, "vrouteragent"),
    ("node webServerStart.js", WEBUI, WEB, "webuiweb"),
    ("node jobServerStart.js", WEBUI, WEB, "webuijob"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_hangs_or_ends_is_named_and_disturbs_nobody_else() -> Result<()> {
    Long::Faults.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let visitor = Visitor::of(client, NAMESPACE).await?;
    let addresses = lab.real_nodes()?.addresses()?;
    functional(&visitor, &addresses).await?;
    let nodes = lab.real_nodes()?.all()?;
    let before = restarts(client).await?;
    let mut untold = Vec::new();
    for (number, (process, kind, name, container)) in DAEMONS.into_iter().enumerate() {
        // Of those of which one member is at work that one: nobody misses the others, and they open no port.
        let statuses = visitor.statuses(&addresses).await?;
        let mut at_work = statuses.keys().filter(|(daemon, _)| *daemon == process).map(|(_, address)| *address);
        let address = at_work.next().unwrap_or(addresses[number % addresses.len()]);
        let node = nodes.iter().find(|node| node.address() == address).context("no such node")?;
        let told = hangs(client, node, process, kind, name, container).await;
        if let Err(error) = told {
            println!("{process}: {error:#}");
            untold.push(format!("{process}: {error:#}"));
        }
        node.go_on(process)?;
        resources::ready(client, kind, NAMESPACE, name, RECOVERY).await?;
        let node = std::slice::from_ref(node);
        if let Err(error) = ends(client, node, process, kind, name, container).await {
            println!("{process}: {error:#}");
            untold.push(format!("{process}: {error:#}"));
        }
        resources::ready(client, kind, NAMESPACE, name, RECOVERY).await?;
    }
    ensure!(untold.is_empty(), "{}", untold.join("\n"));
    ensure!(restarts(client).await? == before, "containers were started again: {before:?}");
    functional(&visitor, &addresses).await
}

/// Has a daemon hang, and waits until its resource says so.
async fn hangs(
    client: &Client,
    node: &RealNode,
    process: &str,
    kind: KindInfo,
    name: &str,
    container: &str,
) -> Result<()> {
    let begun = Instant::now();
    node.hang(process)?;
    told(client, (kind, name), "Ready", container, &format!("{process} of {}", node.name()), begun).await
}

/// Has a daemon end (SIGKILL) as often as it is started, until its resource says so.
async fn ends(
    client: &Client,
    node: &[RealNode],
    process: &str,
    kind: KindInfo,
    name: &str,
    container: &str,
) -> Result<()> {
    let what = format!("{process} of {} killed", node[0].name());
    kept_down(node, process, told(client, (kind, name), "Ready", container, &what, Instant::now())).await
}
