//! One daemon after the other hangs, its ports stay open and nothing answers; and one after the other ends whenever it is started. Its resource says which
//! it is within seconds, nobody else is disturbed, and all is well again when that is over.

use tf_api::kinds::{ANALYTICS, ANALYTICS_SNMP, QUERY_ENGINE};

use super::named::{Findings, is_named, pod_on, told_where};
use super::*;

/// Of this one nobody can tell that it hangs: it gives addresses to devices, and has nothing that could be asked.
const SILENT: &str = "dnsmasq";
/// Processes, with the resource that runs them and the container that it names.
const DAEMONS: [(&str, KindInfo, &str, &str); 19] = [
    ("contrail-api", CONFIG_KIND, CONFIG.name, "api"),
    ("contrail-schema", CONFIG_KIND, CONFIG.name, "schematransformer"),
    ("contrail-svc-monitor", CONFIG_KIND, CONFIG.name, "servicemonitor"),
    ("contrail-device-manager", CONFIG_KIND, CONFIG.name, "devicemanager"),
    (SILENT, CONFIG_KIND, CONFIG.name, "dnsmasq"),
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
    let mut findings = Findings::default();
    for (number, (process, kind, name, container)) in DAEMONS.into_iter().enumerate() {
        // Of those of which one member is at work that one: nobody misses the others, and they open no port.
        let statuses = visitor.statuses(&addresses).await?;
        let mut at_work = statuses.keys().filter(|(daemon, _)| *daemon == process).map(|(_, address)| *address);
        let address = at_work.next().unwrap_or(addresses[number % addresses.len()]);
        let node = nodes.iter().find(|node| node.address() == address).context("no such node")?;
        let pod = pod_on(client, kind, name, node.name()).await?;
        let fault = Fault { client, node, process, kind, name, container, pod };

        let before = Daemons::of(lab, client).await?;
        if process != SILENT {
            findings.note(process, fault.hangs().await);
            node.go_on(process)?;
            resources::ready(client, kind, NAMESPACE, name, RECOVERY).await?;
            findings.note(&format!("{process}, which hung"), before.have_stayed_but(|_| false, &[]));
        }
        let before = Daemons::of(lab, client).await?;
        findings.note(process, fault.ends().await);
        resources::ready(client, kind, NAMESPACE, name, RECOVERY).await?;
        let is_victim = |it: &Daemon| it.pod == fault.pod && it.container == container;
        findings.note(&format!("{process}, which ended"), before.have_stayed_but(is_victim, &[]));
        findings.note(&format!("{process}, which ended"), before.are_others(is_victim));
    }
    findings.none()?;
    functional(&visitor, &addresses).await
}

/// What goes wrong with a daemon of a pod.
struct Fault<'a> {
    client: &'a Client,
    node: &'a RealNode,
    process: &'a str,
    kind: KindInfo,
    name: &'a str,
    container: &'a str,
    pod: String,
}

impl Fault<'_> {
    /// Has the daemon hang, and waits until its resource says so.
    async fn hangs(&self) -> Result<()> {
        let begun = Instant::now();
        self.node.hang(self.process)?;
        self.is_told(&format!("{} of {}", self.process, self.node.name()), begun).await
    }

    /// Has it end (SIGKILL) as often as it is started, until its resource says so.
    async fn ends(&self) -> Result<()> {
        let what = format!("{} of {} killed", self.process, self.node.name());
        kept_down(std::slice::from_ref(self.node), self.process, self.is_told(&what, Instant::now())).await
    }

    /// Waits until it is named, with its pod.
    async fn is_told(&self, what: &str, begun: Instant) -> Result<()> {
        let daemon = format!("its {} ", self.container);
        let is_said = |said: &str| is_named(said, &self.pod, &daemon);
        told_where(self.client, (self.kind, self.name), "Ready", is_said, what, begun).await
    }
}
