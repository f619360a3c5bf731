//! What the daemon is told of the cluster: how to reach its API, its name, its subnets.
//!
//! In: the spec, and what OpenShift, its installer or kubeadm say of the cluster. Out: what stands in the file and where it is from, or what
//! the user has to say.
//! Subnets are never assumed: the daemon makes networks of them, which cannot be changed later without being made anew
//! (docs/upstream/kube-manager.md#names-and-subnets).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use tf_api::{KubemanagerConfiguration, contract::Reason};
use tf_plan::{
    cluster::{Cluster, Fact, Subnets},
    not_ready::NotReady,
};

/// Port of an API server that the spec names without one, and kubeadm's own.
const API_PORT: u16 = 6443;
/// Port of the Service `default/kubernetes`.
const SERVICE_PORT: u16 = 443;

/// The cluster as the daemon is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// Address or name of the API server.
    pub server: String,
    /// Its port with TLS.
    pub port: u16,
    /// Name of the cluster.
    pub name: String,
    /// Subnets of pods.
    pub pods: Vec<IpNet>,
    /// Subnets of services.
    pub services: Vec<IpNet>,
    /// Subnets of pods in the network of the nodes.
    pub fabric: Vec<IpNet>,
    /// What of it is from where, for people.
    pub told: String,
}

/// A value and the field that it is from.
struct Found<T> {
    value: T,
    source: String,
}

impl Kubernetes {
    /// What the spec says, else what the cluster does.
    ///
    /// # Errors
    /// When neither says what has to be known, or the daemon cannot use it.
    pub fn of(spec: &KubemanagerConfiguration, cluster: &Cluster) -> Result<Self, NotReady> {
        let pods = stated(spec.pod_subnet.as_deref(), "podSubnet", cluster, Subnets::Pods)?;
        let services = stated(spec.service_subnet.as_deref(), "serviceSubnet", cluster, Subnets::Services)?;
        let server = server(spec, cluster, &services.value)?;
        let (host, port) = server.value;
        let (name, source) = match &spec.cluster_name {
            Some(name) => (name, "serviceConfiguration.clusterName"),
            None => (&cluster.name, cluster.source(Fact::Name).unwrap_or("default")),
        };
        let told = format!(
            "pods are in {} by {}, services in {} by {}, the API server is {host}:{port} by {}, the name is {name} by {source}",
            list(&pods.value),
            pods.source,
            list(&services.value),
            services.source,
            server.source,
        );
        Ok(Self {
            server: host,
            port,
            name: name.clone(),
            pods: pods.value,
            services: services.value,
            fabric: fabric(&spec.ip_fabric_subnets)?,
            told,
        })
    }

    /// Where the API server is, if it has an address and not a name.
    pub fn address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.server.parse().ok()?, self.port))
    }
}

fn list(subnets: &[IpNet]) -> String {
    subnets.iter().map(IpNet::to_string).collect::<Vec<_>>().join(",")
}

/// Subnets of pods in the network of the nodes. Agents put routes of IPv4 alone from a pod's network into that of the nodes (upstream
/// `oper/route_leak.cc`).
fn fabric(text: &str) -> Result<Vec<IpNet>, NotReady> {
    let fabric = subnets("ipFabricSubnets", text)?;
    if fabric.is_empty() {
        return Err(invalid(
            "ipFabricSubnets is empty, and the daemon does not start without; remove it, or name subnets",
        ));
    }
    if let Some(subnet) = fabric.iter().find(|subnet| matches!(subnet, IpNet::V6(_))) {
        return Err(invalid(&format!(
            "ipFabricSubnets has {subnet}, and pods use the network of the nodes over IPv4 only; write it like 10.64.0.0/12"
        )));
    }
    Ok(fabric)
}

fn stated(given: Option<&str>, field: &str, cluster: &Cluster, which: Subnets) -> Result<Found<Vec<IpNet>>, NotReady> {
    let given = subnets(field, given.unwrap_or_default())?;
    if !given.is_empty() {
        return Ok(Found { value: given, source: format!("serviceConfiguration.{field}") });
    }
    cluster.seen()?;
    let value = cluster.stated(which).map(<[IpNet]>::to_vec).map_err(|why| {
        let message = format!("{why}; set serviceConfiguration.{field} to what the cluster was made with");
        NotReady::input(Reason::ConfigMapNotFound, message)
    })?;
    Ok(Found { value, source: cluster.source(Fact::Subnets(which)).unwrap_or_default().to_owned() })
}

/// The list of a field, separated by commas or blanks.
fn subnets(field: &str, text: &str) -> Result<Vec<IpNet>, NotReady> {
    let items = text.split([',', ' ']).filter(|item| !item.is_empty());
    let read: Result<Vec<IpNet>, _> = items.map(str::parse).collect();
    read.map_err(|_| invalid(&format!("{field} is no list of subnets; write it like 10.32.0.0/12,10.48.0.0/12")))
}

/// The one address that the daemon takes, whatever else goes: it has no list and no second try (ADR 0039). Before it asks anything it
/// opens an IPv4 socket to it (upstream `kube_monitor.py`, `_is_kube_api_server_alive`).
fn server(
    spec: &KubemanagerConfiguration,
    cluster: &Cluster,
    services: &[IpNet],
) -> Result<Found<(String, u16)>, NotReady> {
    let port = spec.kubernetes_api_ssl_port.map(tf_api::schema::Port::get);
    let found = cluster.endpoint.clone();
    if let Some(server) = spec.kubernetes_api_server.as_deref().map(str::trim).filter(|server| !server.is_empty()) {
        check(server)?;
        let found = found.filter(|(host, _)| host == server).map(|(_, port)| port);
        let value = (server.to_owned(), port.or(found).unwrap_or(API_PORT));
        return Ok(Found { value, source: "serviceConfiguration.kubernetesAPIServer".into() });
    }
    cluster.seen()?;
    if let Some((host, found)) = found.filter(|(host, _)| host.parse::<Ipv6Addr>().is_err()) {
        let source = cluster.source(Fact::Endpoint).unwrap_or_default().to_owned();
        return Ok(Found { value: (host, port.unwrap_or(found)), source });
    }
    let service = services.iter().find_map(first).ok_or_else(|| {
        invalid(
            "kubernetesAPIServer is not set, and neither the address that the cluster states nor its service subnets are of IPv4, which the \
             daemon reaches the API server over; set it to an IPv4 address or a name of the API servers",
        )
    })?;
    let value = (service.to_string(), port.unwrap_or(SERVICE_PORT));
    Ok(Found { value, source: "Service default/kubernetes".into() })
}

/// The address of the Service `default/kubernetes`: the first one that there is (Kubernetes, "Service ClusterIP allocation").
fn first(subnet: &IpNet) -> Option<Ipv4Addr> {
    match subnet {
        IpNet::V4(subnet) => subnet.hosts().next(),
        IpNet::V6(_) => None,
    }
}

fn check(server: &str) -> Result<(), NotReady> {
    if server.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6()) {
        return Err(invalid(
            "kubernetesAPIServer is an IPv6 address, and the daemon reaches the API server over IPv4 only; set it to an \
                            IPv4 address or a name",
        ));
    }
    if server.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        return Ok(());
    }
    Err(invalid(
        "kubernetesAPIServer is no name and no IPv4 address; give one of them without scheme and port, which is kubernetesAPISSLPort",
    ))
}

fn invalid(message: &str) -> NotReady {
    NotReady::invalid(Reason::InvalidSpec, format!("serviceConfiguration.{message}"))
}
