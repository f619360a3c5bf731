//! What `contrail-kubernetes.conf` says, by the parsers of each value (upstream `common/args.py`, `common/utils.py`;
//! docs/upstream/observed.md#options). Unknown options are ignored, as by the daemon.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

use crate::{
    exit::{Exit, exception},
    ini::Ini,
    library::Brought,
    options::{ApiServer, Cassandra, Pair, Rabbitmq, Tls, Values, words, zookeeper},
};

/// Sections, of which a later one wins over those before it.
const SECTIONS: [&str; 5] = ["DEFAULTS", "VNC", "KUBERNETES", "SANDESH", "AUTH"];

/// An object of the config API: a dictionary of texts.
pub type Name = BTreeMap<String, String>;

/// What the daemon goes by.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its address.
    pub address: IpAddr,
    /// `kubernetes` or `openshift`.
    pub orchestrator: String,
    /// Where the Kubernetes API is.
    pub kubernetes: (String, u16),
    /// What is shown there. With it TLS is spoken.
    pub token: Option<String>,
    /// Name of the cluster.
    pub cluster: String,
    /// Subnets of pods, of services, and of pods in the network of the nodes.
    pub subnets: [Vec<String>; 3],
    /// Whether pods use the network of the nodes, whether they reach it by translation, and whether services reach pods in it.
    pub switches: [bool; 3],
    /// Project, network, network of pods and network of services, where they are given.
    pub objects: [Option<Name>; 4],
    /// The pool of public addresses.
    pub public_pool: Option<Name>,
    /// Path of the election; none in nested mode, where there is none.
    pub election: Option<String>,
    /// Where introspection listens.
    pub introspect: (IpAddr, u16),
    /// What it shows there, if it speaks TLS.
    pub introspect_pair: Option<Pair>,
    /// The database.
    pub cassandra: Cassandra,
    /// Servers with port as ZooKeeper's client wants them. None if it could not make sense of them, and never connects.
    pub zookeeper: Option<String>,
    /// The message bus.
    pub rabbitmq: Rabbitmq,
    /// The config API. Whether it speaks TLS stands in the library's file.
    pub api: ApiServer,
    /// As whom the daemon logs in there, and where.
    pub login: Brought,
    /// Collectors with port.
    pub collectors: Vec<String>,
    /// How they are reached.
    pub collector_tls: Tls,
}

impl Options {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// What ends the daemon.
    pub fn read(text: &str) -> Result<Self, Exit> {
        let mut ini = Ini::default();
        ini.read(text)?;
        let values = Values::of(&ini, &SECTIONS)?;
        let token = values.given("token");
        // A text that is pasted to others.
        let cluster = values.given("cluster_name").ok_or_else(|| exception("TypeError: cluster_name"))?;
        let prefix = values.given("cluster_id").map(|id| format!("/{id}")).unwrap_or_default();
        let (port, default) =
            if token.is_some() { ("kubernetes_api_secure_port", "8443") } else { ("kubernetes_api_port", "8080") };
        let interval = values.or("kube_timer_interval", "120");
        if interval.parse::<u32>().is_err() {
            return Err(exception("kube_timer_interval"));
        }
        Ok(Self {
            address: values.address("host_ip")?,
            orchestrator: values.or("orchestrator", "kubernetes"),
            kubernetes: (server(&values.or("kubernetes_api_server", "localhost"))?, values.port(port, default)?),
            token,
            subnets: subnets(&values)?,
            switches: ["ip_fabric_forwarding", "ip_fabric_snat", "host_network_service"].map(|name| values.is_on(name)),
            objects: [
                name(&values, "cluster_project", &["domain", "project"])?,
                name(&values, "cluster_network", &["domain", "project", "name"])?,
                name(&values, "cluster_pod_network", &["domain", "project", "name"])?,
                name(&values, "cluster_service_network", &["domain", "project", "name"])?,
            ],
            public_pool: name(&values, "public_fip_pool", &["domain", "project", "network", "name"])?,
            // Every other text means nested.
            election: (values.or("nested_mode", "0") == "0").then(|| format!("{prefix}/{cluster}/kube-manager")),
            cluster,
            introspect: (values.address("http_server_ip")?, values.port("http_server_port", "8108")?),
            introspect_pair: values.pair("introspect_ssl_enable", "sandesh_server_certfile", "sandesh_server_keyfile"),
            cassandra: values.cassandra()?,
            zookeeper: zookeeper(&values.or("zk_server_ip", "127.0.0.1:2181")),
            // It has no option for heartbeats.
            rabbitmq: Rabbitmq { heartbeat: 0, ..values.rabbitmq(0)? },
            api: ApiServer {
                hosts: values.or("vnc_endpoint_ip", "[127.0.0.1]").split(',').map(str::to_owned).collect(),
                port: values.port("vnc_endpoint_port", "8082")?,
                tls: false,
            },
            login: Brought {
                login: ["auth_user", "auth_password", "auth_tenant"].map(|name| values.or(name, "admin")),
                token_url: values.given("auth_token_url"),
                server: None,
            },
            collectors: words(&values.or("collectors", "")),
            collector_tls: values.collector_tls(),
        })
    }
}

/// It is pasted into URLs as it is, and an IPv4 socket is opened to it first: the daemon waits for an IPv6 address for ever.
fn server(server: &str) -> Result<String, Exit> {
    if server.parse::<Ipv6Addr>().is_ok() || server.contains([':', '/', '[', ' ']) {
        return Err(exception("kube_api_service is not reachable"));
    }
    Ok(server.to_owned())
}

/// Networks are made of them, by what stands on either side of the slash.
fn subnets(values: &Values) -> Result<[Vec<String>; 3], Exit> {
    let read = |option: &str| {
        let list = words(&values.or(option, ""));
        if list.is_empty() {
            return Err(exception(format!("Validation of mandatory argument [{option}] failed.")));
        }
        let is_subnet = |item: &String| {
            let parts = item.split_once('/');
            parts.is_some_and(|(address, length)| address.parse::<IpAddr>().is_ok() && length.parse::<u8>().is_ok())
        };
        if list.iter().all(is_subnet) { Ok(list) } else { Err(exception(format!("ValueError: {option}"))) }
    };
    Ok([read("pod_subnets")?, read("service_subnets")?, read("ip_fabric_subnets")?])
}

/// A literal of Python with these keys; of those that there are, one that is JSON.
fn name(values: &Values, option: &str, keys: &[&str]) -> Result<Option<Name>, Exit> {
    let Some(text) = values.given(option).filter(|text| text != "{}") else { return Ok(None) };
    let name: Name = serde_json::from_str(&text)
        .map_err(|_| exception(format!("ValueError: malformed node or string: {option}")))?;
    match keys.iter().find(|key| name.get(**key).is_none_or(String::is_empty)) {
        Some(key) => Err(exception(format!("[{key}] not specified in {option} dict string"))),
        None => Ok(Some(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBNETS: &str =
        "pod_subnets = 10.32.0.0/12\nservice_subnets = 10.96.0.0/12\nip_fabric_subnets = 10.64.0.0/12 10.80.0.0/12\n";

    fn read(defaults: &str, kubernetes: &str) -> Result<Options, Exit> {
        Options::read(&format!("[DEFAULTS]\n{defaults}\n[KUBERNETES]\ncluster_name = c\n{kubernetes}\n"))
    }

    fn why(kubernetes: &str) -> (u8, String) {
        let exit = read("", kubernetes).unwrap_err();
        (exit.code, exit.why)
    }

    #[test]
    fn it_does_not_start_without_its_subnets() {
        for missing in ["pod_subnets", "service_subnets", "ip_fabric_subnets"] {
            let rest: String = SUBNETS.split_inclusive('\n').filter(|line| !line.starts_with(missing)).collect();
            let (code, told) = why(&rest);
            assert!(code == 1 && told.contains(missing), "{code} {told}");
        }
        let commas = SUBNETS.replace("10.64.0.0/12 ", "10.64.0.0/12,");
        assert_eq!(why(&commas), (1, "ValueError: ip_fabric_subnets".into()));
    }

    #[test]
    fn it_has_no_heartbeats_whatever_the_file_says() {
        let text = format!("{SUBNETS}[VNC]\nrabbit_health_check_interval = 10");
        assert_eq!(read("", &text).unwrap().rabbitmq.heartbeat, 0);
    }

    #[test]
    fn a_token_decides_on_tls_and_port() {
        let ports = format!("{SUBNETS}kubernetes_api_port = 1\nkubernetes_api_secure_port = 2");
        assert_eq!(read("token = t", &ports).unwrap().kubernetes, ("localhost".to_owned(), 2));
        let without = read("", &ports).unwrap();
        assert_eq!((without.kubernetes.1, without.token), (1, None));
    }

    #[test]
    fn who_is_nested_stands_for_no_election() {
        let election = |mode| read(&format!("nested_mode = {mode}"), SUBNETS).unwrap().election;
        assert_eq!(election("0").as_deref(), Some("/c/kube-manager"));
        assert_eq!((election("1"), election("false")), (None, None));
    }

    #[test]
    fn objects_are_literals_with_all_their_keys() {
        let pool =
            |text: &str| read("", &format!("{SUBNETS}public_fip_pool = {text}")).map(|options| options.public_pool);
        assert_eq!(pool("{}").unwrap(), None);
        let whole = r#"{"domain": "d", "project": "p", "network": "50%%", "name": "f"}"#;
        assert_eq!(pool(whole).unwrap().unwrap()["network"], "50%");
        assert!(pool("default").unwrap_err().why.contains("malformed"));
        assert!(pool(r#"{"domain": "d"}"#).unwrap_err().why.contains("[project]"));
    }

    #[test]
    fn an_api_server_is_a_name_or_an_ipv4_address() {
        let server = |text: &str| read("", &format!("{SUBNETS}kubernetes_api_server = {text}"));
        assert!(server("10.96.0.1").is_ok() && server("api.example.org").is_ok());
        for text in ["fd00::1", "[fd00::1]", "https://api"] {
            assert_eq!(server(text).unwrap_err().why, "kube_api_service is not reachable", "{text}");
        }
    }
}
