//! What the daemon is told of the cluster: how to reach its API, its name, its subnets.
//!
//! In: the spec, and what kubeadm or OpenShift's installer left in the cluster. Out: what stands in the file, or what the user has to say.
//! Subnets are never assumed: the daemon makes networks of them, which cannot be changed later without being made anew (tf-components 10.6).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use tf_api::{KubemanagerConfiguration, contract::Reason};
use tf_plan::{
    cluster::{Cluster, Subnets},
    plan::NotReady,
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
}

impl Kubernetes {
    /// What the spec says, else what the cluster does.
    ///
    /// # Errors
    /// When neither says what has to be known, or the daemon cannot use it.
    pub fn of(spec: &KubemanagerConfiguration, cluster: &Cluster) -> Result<Self, NotReady> {
        let services = stated(spec.service_subnet.as_deref(), "serviceSubnet", cluster, Subnets::Services)?;
        let (server, port) = server(spec, cluster, &services)?;
        let fabric = subnets("ipFabricSubnets", &spec.ip_fabric_subnets)?;
        if fabric.is_empty() {
            return Err(invalid(
                "ipFabricSubnets is empty, and the daemon does not start without; remove it, or name subnets",
            ));
        }
        Ok(Self {
            server,
            port,
            name: cluster.name.clone(),
            pods: stated(spec.pod_subnet.as_deref(), "podSubnet", cluster, Subnets::Pods)?,
            services,
            fabric,
        })
    }
}

fn stated(given: Option<&str>, field: &str, cluster: &Cluster, which: Subnets) -> Result<Vec<IpNet>, NotReady> {
    let given = subnets(field, given.unwrap_or_default())?;
    if !given.is_empty() {
        return Ok(given);
    }
    cluster.stated(which).map(<[IpNet]>::to_vec).map_err(|why| {
        let message = format!("{why}; set serviceConfiguration.{field} to what the cluster was made with");
        NotReady::input(Reason::ConfigMapNotFound, message)
    })
}

/// The list of a field, separated by commas or blanks.
fn subnets(field: &str, text: &str) -> Result<Vec<IpNet>, NotReady> {
    let items = text.split([',', ' ']).filter(|item| !item.is_empty());
    let read: Result<Vec<IpNet>, _> = items.map(str::parse).collect();
    read.map_err(|_| invalid(&format!("{field} is no list of subnets; write it like 10.32.0.0/12,10.48.0.0/12")))
}

/// The one address that the daemon takes, whatever else goes: it has no list and no second try (ADR 0039). Before it asks anything it
/// opens an IPv4 socket to it (upstream `kube_monitor.py`, `_is_kube_api_server_alive`).
fn server(spec: &KubemanagerConfiguration, cluster: &Cluster, services: &[IpNet]) -> Result<(String, u16), NotReady> {
    let port = spec.kubernetes_api_ssl_port.map(tf_api::schema::Port::get);
    let found = cluster.endpoint.clone();
    if let Some(server) = spec.kubernetes_api_server.as_deref().map(str::trim).filter(|server| !server.is_empty()) {
        check(server)?;
        let found = found.filter(|(host, _)| host == server).map(|(_, port)| port);
        return Ok((server.to_owned(), port.or(found).unwrap_or(API_PORT)));
    }
    if let Some((host, found)) = found.filter(|(host, _)| host.parse::<Ipv6Addr>().is_err()) {
        return Ok((host, port.unwrap_or(found)));
    }
    let service = services.iter().find_map(first).ok_or_else(|| {
        invalid(
            "kubernetesAPIServer is not set, and neither the cluster's controlPlaneEndpoint nor its service subnets are of IPv4, which the \
             daemon reaches the API server over; set it to an IPv4 address or a name of the API servers",
        )
    })?;
    Ok((service.to_string(), port.unwrap_or(SERVICE_PORT)))
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
