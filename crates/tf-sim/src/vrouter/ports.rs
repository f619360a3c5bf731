//! What the CNI plugin asks the agent for, on port 9091 (upstream `src/container/cni/contrail/vrouter.go`): `POST /vm` makes the port of a pod known,
//! `GET /vm/UUID` gives its address, `DELETE /vm/UUID` forgets it.
//!
//! No control node gives addresses here: they are of a network that a file of the node states, without which no port has one. Which are in
//! use is in the files that the plugin keeps, so it survives the agent, as there.

use std::{
    collections::BTreeMap,
    fs,
    net::Ipv4Addr,
    path::Path,
    sync::{Mutex, PoisonError},
};

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::{
    http::{Answer, Question},
    log,
};

/// Where the plugin keeps a file for each port.
pub const DIRECTORY: &str = "/var/lib/contrail/ports/vm";
/// The network of the pods on this node: `10.1.129.0/24`.
const NETWORK: &str = "/var/lib/contrail/tf-sim-network";
/// Keys of a port.
pub const UUID: &str = "vm-uuid";
/// The address in an answer and in a port's file.
pub const ADDRESS: &str = "ip-address";
/// The router in an answer: the first address of the network.
pub const GATEWAY: &str = "gateway";
/// The length of the network's prefix in an answer.
pub const LENGTH: &str = "plen";

/// Ports by pod.
#[derive(Default)]
pub struct Ports(Mutex<BTreeMap<String, Ipv4Addr>>);

impl Ports {
    /// Those that the plugin knows of.
    pub fn kept() -> Self {
        Self(Mutex::new(read(Path::new(DIRECTORY))))
    }

    /// Answers the plugin.
    pub fn answer(&self, question: &Question) -> Answer {
        let path = question.path.as_str();
        let body: Value = serde_json::from_slice(&question.body).unwrap_or_default();
        let mut ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (question.method.as_str(), path.strip_prefix("/vm/"), body[UUID].as_str()) {
            ("POST", None, Some(uuid)) if path == "/vm" => {
                let network = fs::read_to_string(NETWORK).unwrap_or_default();
                if let Some(address) = free(&network, &ports).filter(|_| !ports.contains_key(uuid)) {
                    log::say(&format!("port of {uuid}: {address}"));
                    ports.insert(uuid.to_owned(), address);
                }
                found(json!({}))
            }
            ("GET", Some(uuid), _) => match ports.get(uuid) {
                Some(address) => {
                    let network = fs::read_to_string(NETWORK).unwrap_or_default();
                    let router = address_in(&network, 1).map(|router| router.to_string());
                    let length = network.trim().rsplit_once('/').map(|(_, length)| length);
                    found(json!([{ADDRESS: address.to_string(), GATEWAY: router, LENGTH: length}]))
                }
                None => unknown(),
            },
            ("DELETE", Some(uuid), _) => match ports.remove(uuid) {
                Some(_) => found(json!({})),
                None => unknown(),
            },
            _ => unknown(),
        }
    }
}

fn found(body: Value) -> Answer {
    (StatusCode::OK, "application/json", body.to_string())
}

fn unknown() -> Answer {
    (StatusCode::NOT_FOUND, "application/json", "{}".to_owned())
}

/// The first address of a network that no port has, behind that of its router.
fn free(network: &str, ports: &BTreeMap<String, Ipv4Addr>) -> Option<Ipv4Addr> {
    let is_used = |address: &Ipv4Addr| ports.values().any(|used| used == address);
    (2..).map_while(|number| address_in(network, number)).find(|address| !is_used(address))
}

/// An address of a network by its number, but the first and the last one.
fn address_in(network: &str, number: u32) -> Option<Ipv4Addr> {
    let (first, length) = network.trim().split_once('/')?;
    let (first, length) = (u32::from(first.parse::<Ipv4Addr>().ok()?), length.parse::<u32>().ok()?);
    let last = 1_u32.checked_shl(32_u32.checked_sub(length)?)?.checked_sub(1)?;
    (0 < number && number < last).then(|| Ipv4Addr::from(first.saturating_add(number)))
}

/// Addresses in the files below a directory.
fn read(directory: &Path) -> BTreeMap<String, Ipv4Addr> {
    let mut ports = BTreeMap::new();
    for pod in fs::read_dir(directory).into_iter().flatten().flatten() {
        for file in fs::read_dir(pod.path()).into_iter().flatten().flatten() {
            let port: Value = serde_json::from_slice(&fs::read(file.path()).unwrap_or_default()).unwrap_or_default();
            let address = port[ADDRESS].as_str().and_then(|address| address.parse().ok());
            ports.extend(port[UUID].as_str().map(str::to_owned).zip(address));
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_gets_the_first_address_that_is_free_and_keeps_it() {
        let address = |last| Ipv4Addr::new(10, 1, 129, last);
        let mut ports = BTreeMap::from([("a".to_owned(), address(2))]);
        assert_eq!(free("10.1.129.0/24\n", &ports), Some(address(3)));
        ports.insert("b".into(), address(3));
        assert_eq!(free("10.1.129.0/30", &ports), None);
        for nonsense in ["", "10.1.129.0", "10.1.129.0/33", "x/24"] {
            assert_eq!(free(nonsense, &ports), None, "{nonsense}");
        }
        let directory = tempfile::tempdir().unwrap();
        let pod = directory.path().join("k8s__default__a");
        fs::create_dir(&pod).unwrap();
        fs::write(pod.join("a"), json!({UUID: "a", ADDRESS: "10.1.129.2"}).to_string()).unwrap();
        fs::write(pod.join("torn"), "{").unwrap();
        assert_eq!(read(directory.path()), BTreeMap::from([("a".to_owned(), address(2))]));
    }
}
