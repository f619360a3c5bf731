//! Settings of each kind that cannot be, and such as have no effect, with what is said of them.

use serde_json::{Value, json};
use tf_api::{
    KindInfo,
    kinds::{ANALYTICS, ANALYTICS_ALARM, ANALYTICS_SNMP, CONFIG, CONTROL, KUBEMANAGER, QUERY_ENGINE, WEBUI},
};

/// One kind, and what is wrong with its settings.
pub struct Kind {
    pub info: KindInfo,
    /// The services it needs.
    pub needs: &'static [&'static str],
    /// Containers without which it is of no use.
    pub containers: &'static [&'static str],
    /// Settings that the definition refuses, with what it says.
    pub refused: Vec<AgentReport>,
    /// Settings that stall it, with what is said.
    pub stalled: Vec<AgentReport>,
    /// Settings that stall it before it has been brought up, with what is said.
    pub beginning: Vec<AgentReport>,
    /// Settings that stall it once it has been brought up, with what is said.
    pub founded: Vec<AgentReport>,
    /// Settings that are ignored, with what is said.
    pub ignored: Vec<AgentReport>,
}

impl Kind {
    /// One about which nothing is said.
    pub fn of(info: KindInfo) -> Self {
        Self {
            info,
            needs: &[],
            containers: &[],
            refused: Vec::new(),
            stalled: Vec::new(),
            beginning: Vec::new(),
            founded: Vec::new(),
            ignored: Vec::new(),
        }
    }
}

/// Every kind that runs daemons of Tungsten Fabric, but for the vRouter.
pub fn daemons() -> [Kind; 8] {
    [config(), control(), kubemanager(), analytics(), analytics_alarm(), analytics_snmp(), query_engine(), webui()]
}

pub type AgentReport = (Value, [&'static str; 2]);

pub fn too_high(field: &'static str) -> AgentReport {
    (json!({ field: 65536 }), [field, "less than or equal to 65535"])
}

pub fn zero(field: &'static str) -> AgentReport {
    (json!({ field: 0 }), [field, "greater than or equal to 1"])
}

/// Logs that the agents would not find.
fn elsewhere() -> AgentReport {
    (json!({ "logFilePath": "/tmp" }), ["logFilePath is \"/tmp\"", "/var/log"])
}

fn config() -> Kind {
    let service = |name: &str| json!({ "name": name, "ip": "169.254.169.253", "port": 53, "ipFabricServiceHosts": ["192.0.2.9"], "ipFabricServicePort": 53 });
    let own = json!({ "name": "metadata", "ipFabricServiceHost": "192.0.2.9" });
    Kind {
        needs: &["cassandra", "zookeeper", "rabbitmq"],
        containers: &["api", "schematransformer", "servicemonitor", "devicemanager", "dnsmasq"],
        refused: vec![
            too_high("apiPort"),
            zero("apiWorkerCount"),
            (json!({ "schemaIntrospectPort": 8082 }), ["apiPort", "must differ from each other"]),
            (json!({ "aaaMode": "everybody" }), ["aaaMode", "cloud-admin"]),
            (json!({ "globalASNNumber": 70000 }), ["globalASNNumber above 65535", "bgpEnable4Byte"]),
            (json!({ "encapsulationPriorities": ["VXLAN", "VXLAN"] }), ["encapsulationPriorities", "once"]),
            (json!({ "fabricMgmtIP": "management" }), ["fabricMgmtIP", "IPv4 or IPv6 address"]),
            (
                json!({ "apiIntrospectPort": 55533, "apiWorkerCount": 4 }),
                ["apiIntrospectPort + 10000 + apiWorkerCount must be at most 65535", "choose lower ports"],
            ),
        ],
        stalled: vec![
            (json!({ "apiPort": 60000 }), ["apiPort has to be at most 55515", "node agents"]),
            (
                json!({ "apiIntrospectPort": 8100, "apiWorkerCount": 4 }),
                ["node agents would be that of an API worker", "apiIntrospectPort"],
            ),
            (
                json!({ "apiWorkerCount": 64 }),
                ["the port 18102 of node agents would be that of an API worker", "fewer workers"],
            ),
            (
                json!({ "linklocalServiceConfig": own, "linklocalServices": [service("metadata")] }),
                ["linklocalServices has the service of linklocalServiceConfig", "different names"],
            ),
        ],
        ignored: vec![
            (json!({ "linklocalServiceConfig": {} }), ["linklocalServiceConfig", "ipFabricServiceHost is missing"]),
            (json!({ "aaaMode": "rbac" }), ["aaaMode", "authMode is not keystone"]),
            (json!({ "apiAdminPort": 9095 }), ["apiAdminPort", "Keystone"]),
        ],
        ..Kind::of(CONFIG)
    }
}

fn control() -> Kind {
    Kind {
        // Its nodes are registered in the API of the one Config, which the lab plays.
        needs: &["cassandra", "rabbitmq"],
        containers: &["control", "dns", "named"],
        refused: vec![
            too_high("bgpPort"),
            zero("xmppPort"),
            (json!({ "dnsPort": 179 }), ["bgpPort", "must differ from each other"]),
            (json!({ "dataSubnet": "10.0.0.1" }), ["dataSubnet", "prefix length"]),
        ],
        stalled: vec![
            (json!({ "xmppPort": 60000 }), ["xmppPort has to be at most 55515", "node agents"]),
            (json!({ "bgpPort": 8083 }), ["bgpPort is 8083", "introspection of contrail-control"]),
            (json!({ "dnsPort": 15289 }), ["the port 15289 of node agents", "dnsPort"]),
        ],
        ignored: vec![(
            json!({ "containers": [{ "name": "control" }], "dnsPort": 5353 }),
            ["dnsPort", "does not list dns and named"],
        )],
        ..Kind::of(CONTROL)
    }
}

fn kubemanager() -> Kind {
    Kind {
        needs: &["cassandra", "zookeeper", "rabbitmq", "config"],
        containers: &["kubemanager"],
        refused: vec![
            too_high("kubernetesAPISSLPort"),
            (json!({ "podSubnet": "10.32.0.0" }), ["podSubnet", "prefix lengths"]),
        ],
        stalled: vec![
            (
                json!({ "kubernetesAPIServer": "https://10.0.0.1:6443" }),
                ["kubernetesAPIServer is no name", "without scheme and port"],
            ),
            (json!({ "kubernetesAPIServer": "fd00::1" }), ["kubernetesAPIServer is an IPv6 address", "IPv4"]),
            (json!({ "ipFabricSubnets": "" }), ["ipFabricSubnets is empty", "remove it"]),
            (json!({ "publicFIPPool": "pool" }), ["publicFIPPool is not JSON", "write it like"]),
        ],
        ignored: vec![
            (json!({ "kubernetesAPIPort": 8080 }), ["kubernetesAPIPort", "TLS alone"]),
            (json!({ "kubernetesTokenFile": "/tmp/token" }), ["kubernetesTokenFile", "takes the token itself"]),
            (json!({ "cloudOrchestrator": "mesos" }), ["cloudOrchestrator", "none of"]),
        ],
        ..Kind::of(KUBEMANAGER)
    }
}

fn analytics() -> Kind {
    Kind {
        needs: &["configDatabase", "zookeeper", "rabbitmq", "redis", "config"],
        containers: &["analyticsapi", "collector"],
        refused: vec![
            too_high("analyticsPort"),
            zero("collectorPort"),
            (json!({ "collectorPort": 8081 }), ["analyticsPort", "must differ from each other"]),
            (json!({ "aaaMode": "everybody" }), ["aaaMode", "cloud-admin"]),
            (json!({ "analyticsDataTTL": -2 }), ["analyticsDataTTL", "greater than or equal to -1"]),
        ],
        stalled: vec![
            (json!({ "analyticsPort": 60000 }), ["analyticsPort has to be at most 55515", "node agents"]),
            (json!({ "collectorPort": 18101 }), ["both listen on port 18101", "collector"]),
        ],
        ..Kind::of(ANALYTICS)
    }
}

fn analytics_alarm() -> Kind {
    Kind {
        needs: &["cassandra", "zookeeper", "rabbitmq", "redis", "config", "analytics"],
        containers: &["analytics-alarm-gen", "kafka"],
        refused: vec![too_high("alarmgenIntrospectListenPort"), zero("alarmgenPartitions")],
        stalled: vec![
            elsewhere(),
            (json!({ "alarmgenIntrospectListenPort": 9092 }), ["both listen on port 9092", "kafka"]),
        ],
        ignored: vec![(json!({ "alarmgenPartitions": 15 }), ["alarmgenPartitions", "30 partitions"])],
        ..Kind::of(ANALYTICS_ALARM)
    }
}

fn analytics_snmp() -> Kind {
    Kind {
        needs: &["cassandra", "zookeeper", "rabbitmq", "config", "analytics"],
        containers: &["analytics-snmp-collector", "analytics-snmp-topology"],
        refused: vec![too_high("snmpCollectorIntrospectListenPort"), zero("topologyIntrospectListenPort")],
        stalled: vec![
            elsewhere(),
            (json!({ "topologyIntrospectListenPort": 5920 }), ["both listen on port 5920", "topology"]),
        ],
        ..Kind::of(ANALYTICS_SNMP)
    }
}

fn query_engine() -> Kind {
    Kind {
        needs: &["cassandra", "redis", "analytics"],
        containers: &["queryengine"],
        refused: vec![too_high("analyticsdbPort"), zero("analyticsdbIntrospectPort")],
        stalled: vec![(json!({ "analyticsdbIntrospectPort": 18111 }), ["both listen on port 18111", "queryengine"])],
        ignored: vec![(json!({ "analyticsdbPort": 9160 }), ["analyticsdbPort", "Thrift"])],
        ..Kind::of(QUERY_ENGINE)
    }
}

fn webui() -> Kind {
    Kind {
        needs: &["config", "cassandra", "redis", "control"],
        containers: &["webuiweb"],
        refused: vec![(json!({ "controlInstance": "control1" }), ["controlInstance", "dependencies.control"])],
        stalled: vec![(
            json!({ "containers": [{ "name": "webuijob" }] }),
            ["does not list webuiweb", "remove the list"],
        )],
        ..Kind::of(WEBUI)
    }
}
