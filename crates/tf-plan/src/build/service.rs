//! Services in front of, or behind, members.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use tf_api::schema::Port;

use crate::{
    build::identity::Identity,
    object::{Object, SERVICE},
};

/// A Service without an address of its own that lists every member, ready or not.
pub fn headless(identity: &Identity, name: &str, ports: &[(&str, Port)]) -> Object {
    service(
        identity,
        name,
        ServiceSpec {
            cluster_ip: Some("None".into()),
            publish_not_ready_addresses: Some(true),
            ..spec(identity, ports)
        },
    )
}

/// A Service with an address of its own that leads to ready members.
pub fn cluster(identity: &Identity, name: &str, ports: &[(&str, Port)]) -> Object {
    service(identity, name, spec(identity, ports))
}

/// The same where a client stays with the member that it came to first.
pub fn sticky(identity: &Identity, name: &str, ports: &[(&str, Port)]) -> Object {
    service(identity, name, ServiceSpec { session_affinity: Some("ClientIP".into()), ..spec(identity, ports) })
}

fn service(identity: &Identity, name: &str, spec: ServiceSpec) -> Object {
    Object::new(SERVICE, &Service { metadata: identity.meta(name), spec: Some(spec), ..Service::default() })
}

fn spec(identity: &Identity, ports: &[(&str, Port)]) -> ServiceSpec {
    ServiceSpec {
        type_: Some("ClusterIP".into()),
        selector: Some(identity.selector()),
        ports: Some(ports.iter().map(port).collect()),
        ..ServiceSpec::default()
    }
}

fn port((name, port): &(&str, Port)) -> ServicePort {
    let number = i32::from(port.get());
    ServicePort {
        name: Some((*name).to_owned()),
        port: number,
        target_port: Some(IntOrString::Int(number)),
        protocol: Some("TCP".into()),
        ..ServicePort::default()
    }
}
